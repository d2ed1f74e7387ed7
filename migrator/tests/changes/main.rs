//! Whole changes against a database file and nodes made for the case: to the end, interrupted, given up, copied fast and
//! slowly, around nodes that are gone, and two at once.

mod absent_nodes;
mod as_a_program;
mod carried_on;
mod copied;
mod copied_in_trouble;
mod fake_cluster;
mod fake_copy;
mod first_ring;
mod given_up;
mod to_the_end;
