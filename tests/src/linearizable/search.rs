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
//! - **Reads of absence** are taken as soon as they can be while the key is absent: they change nothing.
//! - **Unread writes.** An acknowledged write whose value nobody read can go just before any other write; all that may
//!   come next are taken with each write, and in the end.
//! - **Unread writes of unknown outcome** are left out: without them every other operation sees the same.
//! - **Deletes of unknown outcome** have no end and are all alike: only their number counts, and it is best to have used
//!   few. One is used only where a read of absence may follow at once; elsewhere it is of no use to anybody.
//! - **Refused writes** are left out.
//!
//! Quiet moments need no care of their own: there the set is a beginning of the history, so that all orders before it
//! meet in one set.

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
    // Per set and state the fewest deletes of unknown outcome it was reached with.
    let mut seen: HashMap<(Set, bool), usize> = HashMap::new();
    let mut open = vec![Taken { set: Set::default(), absent: true, open_deletes: 0 }];
    let mut steps = 0;
    while let Some(mut taken) = open.pop() {
        steps += 1;
        if steps > step_bound {
            return Search { verdict: Verdict::Undecided, steps };
        }
        if taken.absent {
            problem.take_all(&mut taken.set, |kind| kind == Kind::ReadAbsent);
        }
        let fewest = seen.entry((taken.set.clone(), taken.absent)).or_insert(usize::MAX);
        if *fewest <= taken.open_deletes {
            continue;
        }
        *fewest = taken.open_deletes;
        let next = problem.take_all(&mut taken.set, |kind| matches!(kind, Kind::Put(_, false)));
        if next.items.is_empty() {
            return Search { verdict: Verdict::Linearizable, steps };
        }
        problem.push_writes(&mut open, &taken, &next);
    }
    Search { verdict: Verdict::NotLinearizable, steps }
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
        Some(Self { items, blocks, open_deletes })
    }

    /// An item may come next if no other that is left ends before it begins.
    fn next(&self, set: &Set) -> Next {
        let (mut items, mut earliest_end) = (Vec::new(), NEVER);
        for at in set.first * 64..self.items.len() {
            let item = &self.items[at];
            if item.begin > earliest_end {
                break;
            }
            if !set.contains(at) {
                earliest_end = earliest_end.min(item.end);
                items.push(at);
            }
        }
        items.retain(|at| self.items[*at].begin <= earliest_end);
        Next { items, earliest_end }
    }

    /// Takes every item of a kind that may come next, as long as there are any; what may come next then.
    fn take_all(&self, set: &mut Set, of_kind: impl Fn(Kind) -> bool) -> Next {
        loop {
            let next = self.next(set);
            let before = set.clone();
            for at in next.items.iter().filter(|at| of_kind(self.items[**at].kind)) {
                set.insert(*at);
            }
            if *set == before {
                return next;
            }
        }
    }

    /// Every write that may come next, the one that ends first to be tried first.
    fn push_writes(&self, open: &mut Vec<Taken>, taken: &Taken, next: &Next) {
        let absence_is_read = next.items.iter().any(|at| self.items[*at].kind == Kind::ReadAbsent);
        let begun = self.open_deletes.partition_point(|begin| *begin <= next.earliest_end);
        if absence_is_read && begun > taken.open_deletes {
            open.push(Taken { set: taken.set.clone(), absent: true, open_deletes: taken.open_deletes + 1 });
        }
        let mut writes = next.items.clone();
        writes.sort_by_key(|at| std::cmp::Reverse(self.items[*at].end));
        for at in writes {
            let mut set = taken.set.clone();
            match self.items[at].kind {
                Kind::Put(value, true) => {
                    let (block, latest_begin) = &self.blocks[&value];
                    block.iter().for_each(|at| set.insert(*at));
                    // A read of the block that must wait for something else would see that instead.
                    if self.next(&set).earliest_end >= *latest_begin {
                        open.push(Taken { set, absent: false, open_deletes: taken.open_deletes });
                    }
                }
                Kind::Delete => {
                    set.insert(at);
                    open.push(Taken { set, absent: true, open_deletes: taken.open_deletes });
                }
                Kind::ReadAbsent | Kind::ReadOf(_) | Kind::Put(_, false) => {}
            }
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
