//! What a change of the ring under chaos is, and how its migrator ends.

use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

/// What a change of the ring does; to whom, a number says among those it can be done to then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `add-node`.
    Add,
    /// `remove-node`.
    Remove,
    /// `replace-node`.
    Replace,
    /// `set-weight`.
    Reweigh,
}

/// What becomes of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its migrator is let be.
    Left,
    /// Its migrator is killed when the time is over, and the controllers carry on.
    Killed,
    /// The same, and an operator carries on at once.
    Resumed,
    /// The same, and an operator aborts.
    Aborted,
}

/// A change, whom it is about, and its end.
pub fn draw(chance: &mut SmallRng) -> (Verb, usize, Ending) {
    let verbs = [Verb::Add, Verb::Add, Verb::Remove, Verb::Remove, Verb::Replace, Verb::Reweigh];
    let endings = [Ending::Left, Ending::Left, Ending::Killed, Ending::Resumed, Ending::Aborted];
    let verb = *verbs.choose(chance).expect("not empty");
    let ending = *endings.choose(chance).expect("not empty");
    (verb, chance.random_range(0..1000), ending)
}
