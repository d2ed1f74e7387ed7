//! What every kind of chaos has in common, whatever the programs run in: when faults come, with which settings, and
//! what is no answer to them. Pure.

pub mod logs;
pub mod ring_change;
pub mod schedule;
pub mod settings;
