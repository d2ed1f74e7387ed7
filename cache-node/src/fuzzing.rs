//! What `tests/fuzz` reaches of the node's readers of outside bytes. No part of the crate's interface.

pub use crate::http::fuzzing::{BadRequest, list_request, read_condition, stored_header, user_of, write_precondition};
pub use crate::l2::fuzzing::{decode_envelope, encode_envelope, seal_envelope};
