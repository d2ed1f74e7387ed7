//! Whether the operations of one key have an order: a search over sets of operations that come first.
//!
//! As Wing & Gong and Lowe do it, an operation may come next if no other that is left ended before it began, and a set
//! that was seen is not looked at again (Lowe's memoisation of set and state). Because written values are unique, more can
//! be said of a register, and each of these keeps an order if there was one:
//!
//! - **Blocks.** A value is written once, so all its reads follow its write before any other write takes effect. Write
//!   and reads are taken in one step, or not at all. So a write has no later end than the first end of its reads, nor has
//!   a read an earlier begin than its write; that bounds also writes of unknown outcome whose value was read.
//! - **State.** After a block nothing more can be read of it. What is left of the state is whether the key is absent.
//! - **Present.** A block, or a write nobody read, that may come next can go first: it overwrites only what nobody reads
//!   any more. So all of them are taken at once.
//! - **Absent.** Reads of absence that may come next are taken at once: they change nothing.
//! - **Deletes** are all alike, so of those that may come next the one that ends first is tried. This, and whether an
//!   absence ends, is all that there is to choose.
//! - **Deletes of unknown outcome** never end: only their number counts, and it is best to have used few. One is used only
//!   where a read of absence follows at once; elsewhere it is of no use to anybody.
//! - **Left out** are refused writes, and writes of unknown outcome whose value nobody read: without them every other
//!   operation sees the same. Nothing is left to decide when all reads are taken: the remaining writes fit in any order.
//!
//! Quiet moments need no care of their own: there the set is a beginning of the history, so that all orders before it
//! meet in one set.

use std::cell::Cell;
use std::collections::HashMap;

use crate::history::{Action, Operation, Outcome};

/// What the search says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Linearizable,
    NotLinearizable,
    /// Not within the bound of steps.
    Undecided,
}

/// The verdict and what it took.
pub(super) struct Search {
    pub(super) verdict: Verdict,
    pub(super) steps: u64,
}

/// Nanoseconds since the start of the run.
type Time = u128;
const NEVER: Time = Time::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ReadAbsent,
    /// A read in the block of a write.
    ReadOf(u64),
    /// A write; whether its value is read.
    Put(u64, bool),
    Delete,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    begin: Time,
    end: Time,
    kind: Kind,
}

/// One key's operations as the search sees them.
struct Problem {
    /// In the order of their begins.
    items: Vec<Item>,
    /// The items of each block, its write among them, and the latest begin of them.
    blocks: HashMap<u64, (Vec<usize>, Time)>,
    /// Begins of the deletes of unknown outcome, in order.
    open_deletes: Vec<Time>,
    /// How often it was asked what may come next.
    steps: Cell<u64>,
}

/// A set of items; those of all words before `first` are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Set {
    first: usize,
    words: Vec<u64>,
}

/// What has been taken so far.
#[derive(Clone, Debug)]
struct Taken {
    set: Set,
    absent: bool,
    open_deletes: usize,
}

/// The items that may come next, and the earliest end of those that are left.
struct Next {
    items: Vec<usize>,
    earliest_end: Time,
}

/// Looks for an order of one key's operations.
pub(super) fn search(operations: &[Operation], step_bound: u64) -> Search {
    let Some(problem) = Problem::of(operations) else {
        return Search { verdict: Verdict::NotLinearizable, steps: 0 };
    };
    let steps = || problem.steps.get();
    // Per set and state the fewest deletes of unknown outcome it was reached with.
    let mut seen: HashMap<(Set, bool), usize> = HashMap::new();
    let mut open = vec![Taken { set: Set::default(), absent: true, open_deletes: 0 }];
    while let Some(mut taken) = open.pop() {
        let next = problem.take_what_can_go_first(&mut taken);
        if steps() > step_bound {
            return Search { verdict: Verdict::Undecided, steps: steps() };
        }
        if problem.reads_are_taken(&taken.set) {
            return Search { verdict: Verdict::Linearizable, steps: steps() };
        }
        let fewest = seen.entry((taken.set.clone(), taken.absent)).or_insert(usize::MAX);
        if taken.open_deletes < *fewest {
            *fewest = taken.open_deletes;
            problem.push_choices(&mut open, taken, &next);
        }
    }
    Search { verdict: Verdict::NotLinearizable, steps: steps() }
}

impl Problem {
    /// `None` if a value was read that was not written, or that was read before it was written.
    fn of(operations: &[Operation]) -> Option<Self> {
        let mut items = Vec::new();
        let mut open_deletes = Vec::new();
        let (begins, ends) = (put_begins(operations), first_reads(operations));
        for operation in operations {
            let (begin, end) = (operation.begun.as_nanos(), operation.ended.as_nanos());
            let item = match (operation.action, operation.outcome) {
                (_, Outcome::Read { value: None, .. }) => Item { begin, end, kind: Kind::ReadAbsent },
                (_, Outcome::Read { value: Some(value), .. }) => {
                    Item { begin: begin.max(*begins.get(&value)?), end, kind: Kind::ReadOf(value) }
                }
                (Action::Put(value), Outcome::Done { .. } | Outcome::Unknown) => {
                    let first_read = ends.get(&value).copied();
                    let end = if operation.outcome == Outcome::Unknown { NEVER } else { end };
                    let end = end.min(first_read.unwrap_or(NEVER));
                    if end == NEVER {
                        continue;
                    }
                    Item { begin, end, kind: Kind::Put(value, first_read.is_some()) }
                }
                (Action::Delete, Outcome::Done { .. }) => Item { begin, end, kind: Kind::Delete },
                (Action::Delete, Outcome::Unknown) => {
                    open_deletes.push(begin);
                    continue;
                }
                (_, Outcome::Refused) | (Action::Get, Outcome::Done { .. } | Outcome::Unknown) => continue,
            };
            if item.end < item.begin {
                return None;
            }
            items.push(item);
        }
        items.sort_by_key(|item| (item.begin, item.end));
        open_deletes.sort_unstable();
        let mut blocks: HashMap<u64, (Vec<usize>, Time)> = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            if let Kind::Put(value, true) | Kind::ReadOf(value) = item.kind {
                let (block, latest_begin) = blocks.entry(value).or_default();
                block.push(at);
                *latest_begin = item.begin.max(*latest_begin);
            }
        }
        Some(Self { items, blocks, open_deletes, steps: Cell::new(0) })
    }

    /// An item may come next if no other that is left ends before it begins.
    fn next(&self, set: &Set) -> Next {
        self.steps.set(self.steps.get() + 1);
        let (mut items, mut earliest_end) = (Vec::new(), NEVER);
        for at in set.missing() {
            let Some(item) = self.items.get(at).filter(|item| item.begin <= earliest_end) else { break };
            earliest_end = earliest_end.min(item.end);
            items.push(at);
        }
        items.retain(|at| self.items[*at].begin <= earliest_end);
        Next { items, earliest_end }
    }

    /// Takes what may come next and can go first, as long as there is any; what may come next then.
    fn take_what_can_go_first(&self, taken: &mut Taken) -> Next {
        loop {
            let next = self.next(&taken.set);
            let before = taken.set.clone();
            for at in &next.items {
                match self.items[*at].kind {
                    Kind::ReadAbsent if taken.absent => taken.set.insert(*at),
                    Kind::Put(_, false) if !taken.absent => taken.set.insert(*at),
                    Kind::Put(value, true) if !taken.absent => self.take_block(&mut taken.set, value, &next),
                    _ => {}
                }
            }
            if taken.set == before {
                return next;
            }
        }
    }

    /// Takes a write with all its reads, if none of them must wait for something else.
    fn take_block(&self, set: &mut Set, value: u64, next: &Next) {
        let (block, latest_begin) = &self.blocks[&value];
        let of_others = next.items.iter().filter(|at| !set.contains(**at) && !block.contains(at));
        // Most that must wait are seen by what may come next already.
        if of_others.map(|at| self.items[*at].end).min().is_some_and(|end| end < *latest_begin) {
            return;
        }
        let mut with_block = set.clone();
        block.iter().for_each(|at| with_block.insert(*at));
        if self.next(&with_block).earliest_end >= *latest_begin {
            *set = with_block;
        }
    }

    fn reads_are_taken(&self, set: &Set) -> bool {
        let mut left = set.missing().map_while(|at| self.items.get(at));
        left.all(|item| matches!(item.kind, Kind::Put(_, false) | Kind::Delete))
    }

    /// What may follow when nothing can go first.
    fn push_choices(&self, open: &mut Vec<Taken>, taken: Taken, next: &Next) {
        let of_kind = |kind| next.items.iter().copied().filter(move |at| self.items[*at].kind == kind);
        let begun = self.open_deletes.partition_point(|begin| *begin <= next.earliest_end);
        if !taken.absent && begun > taken.open_deletes && of_kind(Kind::ReadAbsent).next().is_some() {
            let open_deletes = taken.open_deletes + 1;
            open.push(Taken { absent: true, open_deletes, ..taken.clone() });
        }
        if let Some(delete) = of_kind(Kind::Delete).min_by_key(|at| self.items[*at].end) {
            let mut after = Taken { absent: true, ..taken.clone() };
            after.set.insert(delete);
            open.push(after);
        }
        if taken.absent {
            open.push(Taken { absent: false, ..taken });
        }
    }
}

/// When the write of each value began.
fn put_begins(operations: &[Operation]) -> HashMap<u64, Time> {
    let written = operations.iter().filter_map(|operation| match (operation.action, operation.outcome) {
        (Action::Put(value), Outcome::Done { .. } | Outcome::Unknown) => Some((value, operation.begun.as_nanos())),
        _ => None,
    });
    written.collect()
}

/// When the first read of each value ended.
fn first_reads(operations: &[Operation]) -> HashMap<u64, Time> {
    let mut first = HashMap::new();
    for operation in operations {
        if let Outcome::Read { value: Some(value), .. } = operation.outcome {
            let end = first.entry(value).or_insert(NEVER);
            *end = operation.ended.as_nanos().min(*end);
        }
    }
    first
}

impl Set {
    fn contains(&self, at: usize) -> bool {
        let word = at / 64;
        word < self.first || self.words.get(word - self.first).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// What is not in it, in order and without end.
    fn missing(&self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().copied().chain(std::iter::repeat(0));
        (self.first..).zip(words).flat_map(|(number, word)| {
            let mut missing = !word;
            std::iter::from_fn(move || {
                let bit = missing.trailing_zeros() as usize;
                missing &= missing.checked_sub(1)?;
                Some(number * 64 + bit)
            })
        })
    }

    fn insert(&mut self, at: usize) {
        let Some(word) = (at / 64).checked_sub(self.first) else { return };
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (at % 64);
        let full = self.words.iter().take_while(|word| **word == u64::MAX).count();
        self.words.drain(..full);
        self.first += full;
    }
}
