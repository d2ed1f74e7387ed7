//! The HTTP interface on real processes: every route, every error code, odd requests, and what never shows.

mod conditions;
mod data_plane;
mod errors;
mod expectations;
mod framing;
mod internal_headers;
mod keys;
mod listing;
mod manners;
mod odd_requests;
mod owner_away;
mod routes;
mod secrets;
mod series;
mod slow_clients;
mod support;
mod token;
