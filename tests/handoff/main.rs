//! Handing slots off under adverse conditions: clocks stepped, a full database, odd keys, ends of lifetimes, crossed
//! verbs, nodes stopped or away for a moment, links cut. What holds here holds for cold and warm changes.

mod away;
mod clocks;
mod crossed_verbs;
mod database_full;
mod dead_members;
mod lifetimes;

mod new_node;
mod odd_keys;
mod other_version;
mod pace;
mod peer_link;
mod plans;
mod scale_in_stop;
mod scene;
mod short_absence;
mod support;
mod wrong_token;
