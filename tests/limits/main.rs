//! Too much, too late, and faults on purpose, on running programs: rate limits, settings, drills.

mod drills;
mod rates;
mod support;
