//! The old bugs are still found: each is brought back in a real cluster, in a scene that forces its race, and the history
//! of that scene must be one that no register can have. The same scene without the bug must be clean.
//!
//! The nodes are `cache-node-old-bugs`; the table of bugs, guards and counterexamples is in `docs/PROOF.md`.

mod handoffs;
mod late_loads;
mod lost_drops;
mod program;
mod recorder;
mod scene;
