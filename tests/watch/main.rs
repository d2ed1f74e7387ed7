//! The failure controller and clean stops on real processes: nodes that die, come back, and stop under load.

mod clean_stop;
mod leaders;
mod orphans;
mod rolling_restart;
mod standalone;
mod support;
mod takeover;
mod trouble;
