//! Checks of everything that reads bytes from outside: one function for each reader, from any bytes to nothing or a panic.
//!
//! They ask for more than that nothing panics: what is written comes out as it was, what is read is written again as it
//! came, damage is refused, and what comes out is no larger than what went in. The short form (`tests/short_form.rs`) runs
//! them on the corpus and on random inputs; the long form is libFuzzer's (`run.sh`, `libfuzzer/`).

mod bodies;
mod envelope;
mod frames;
mod headers;
mod keys;
mod lane;
mod line;
mod messages;
mod names;
mod ring;

pub use bodies::bodies;
pub use envelope::envelope;
pub use frames::frames;
pub use headers::headers;
pub use keys::keys;
pub use lane::lane;
pub use line::line;
pub use messages::messages;
pub use ring::ring;

/// Any bytes in; a panic says that a reader is wrong.
pub type Check = fn(&[u8]);

/// All checks by their names; a check's corpus is in `corpus/<name>/`.
pub const CHECKS: [(&str, Check); 9] = [
    ("bodies", bodies),
    ("envelope", envelope),
    ("frames", frames),
    ("headers", headers),
    ("keys", keys),
    ("lane", lane),
    ("line", line),
    ("messages", messages),
    ("ring", ring),
];
