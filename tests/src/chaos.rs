//! What every kind of chaos has in common, whatever the programs run in: when faults come, and with which settings. Pure.

pub mod schedule;
pub mod settings;
