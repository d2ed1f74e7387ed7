//! The comparison suite: a load generator that checks every answer, the peers it compares with, and the runner.

pub mod keyspace;
mod limits;
pub mod load;
pub mod suite;
