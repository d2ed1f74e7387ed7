//! Postgres, Redis, nodes and clients that fail: what is answered meanwhile, what is true afterwards.
//!
//! One rule stands behind nearly all of it: whatever happens, no read gives an older value than one acknowledged before.

mod audit;
mod hang_ups;
mod linearizable;
mod loads;
mod nodes;
mod postgres_away;
mod redis_away;
mod redis_starts;
mod redis_swaps;
mod support;
mod together;
