//! What both ends of a connection must agree on: header names, paths, bodies, error codes.

pub mod control;
pub mod entries;
pub mod handoff;
pub mod headers;
pub mod line;
pub mod problem;
pub mod ring_document;
pub mod users;

pub use problem::{Problem, ProblemCode};
