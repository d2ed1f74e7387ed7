//! Who may come in, as whom, and from where: tokens, addresses, pages, the access log, on real processes.

mod access_log;
mod addresses;
mod admin;
mod isolation;
mod jwt;
mod keyless;
mod starts;
mod static_tokens;
mod support;
