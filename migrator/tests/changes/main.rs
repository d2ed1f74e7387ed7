//! Whole changes against a database file and nodes made for the case: to the end, interrupted, given up, and two at once.

mod carried_on;
mod fake_cluster;
mod first_ring;
mod given_up;
mod to_the_end;
