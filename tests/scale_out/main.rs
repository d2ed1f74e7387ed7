//! Changes of the ring on real processes: under load, raced by hand, refused, killed half-way, and checked.

mod checker;
mod faults;
mod killed_migrator;
mod load;
mod mapping;
mod operators;
mod pools;
mod readmission;
mod refusals;
mod stale_gateway;
mod support;
mod verbs;
