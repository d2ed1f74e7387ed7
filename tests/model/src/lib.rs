//! A model of docs/PROTOCOL.md: every order of events in a small cluster, searched for one that a client could tell from a
//! single register.
//!
//! A [`state::State`] is the whole cluster at one moment; [`step::Model`] gives the states that may follow it; an
//! [`environment::Environment`] says what may happen and how often; [`search::search`] goes through all states, nearest first.
//! Where production decides something purely (`placement::{slot_hold, freshness, write_steps, handoff_offer, change::step}`) the
//! model calls that very code: what the node does around it is told in steps, one critical section or one I/O each.
//! [`mutation`] takes guards away: [`cases`] says for each where its absence shows.
//!
//! **One key a slot, and any node may be asked anything at any time**: that is what gateways with old rings come to. Other keys
//! of a slot show as RENEWs that come from nowhere. Where a user may leave its slot for one of its own (`pinning`) both slots
//! have that user's one key, and the slot that it leaves may have a neighbour's beside it.
//!
//! **Why an own search** and not a library's (stateright): counterexamples must be the shortest, so that their lengths can be
//! held by tests; a searched environment must say whether it was exhausted; the frontier shares unchanged processes between
//! states, which a library that wants its states to be sent between threads cannot; and the crate must build in seconds. A
//! hundred lines do it. Two environments are searched at a time rather than one in two threads.
//!
//! **Memory**: a seen state is 16 bytes, its fingerprint and its predecessor's; see [`fingerprint`] for the odds that two states
//! share one. A trace is found by going its way again.

pub mod cases;
pub mod catalogue;
pub mod database;
pub mod environment;
pub mod fingerprint;
mod handoff;
pub mod mutation;
mod ownership;
mod pinning;
pub mod process;
pub mod properties;
mod reads;
pub mod redis;
mod redis_faults;
mod renewals;
mod ring_change;
pub mod search;
pub mod state;
pub mod step;
pub mod streams;
mod unknown_writes;
mod writes;
