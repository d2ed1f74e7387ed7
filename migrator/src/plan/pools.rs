//! Which node of its pool owns a single user's slot: the one with the fewest of them for its weight. Pure.

use placement::{NodeId, Weight};

/// A node that may get single users' slots, with how many it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) id: NodeId,
    pub(super) weight: Weight,
    pub(super) held: usize,
}

impl Holder {
    /// Whether one more is less of a load for this one than for the other; by name where it is the same.
    fn takes_before(&self, other: &Self) -> bool {
        let load = |one: &Self, beside: &Self| (one.held as u64 + 1) * u64::from(beside.weight.get());
        (load(self, other), &self.id) < (load(other, self), &other.id)
    }
}

/// Who gets the next one; it is counted.
pub(super) fn next(holders: &mut [Holder]) -> Option<NodeId> {
    let best = holders.iter().enumerate().reduce(|best, other| if other.1.takes_before(best.1) { other } else { best });
    let index = best?.0;
    holders[index].held += 1;
    Some(holders[index].id.clone())
}

/// From whom the one at `place` gets one, so that it comes closer to its share; `None`: it has its share. It is counted.
pub(super) fn giver(holders: &mut [Holder], place: usize) -> Option<NodeId> {
    let fullest =
        |a: &Holder, b: &Holder| a.held as u64 * u64::from(b.weight.get()) > b.held as u64 * u64::from(a.weight.get());
    let others = (0..holders.len()).filter(|&other| other != place);
    let from = others.reduce(|best, other| if fullest(&holders[other], &holders[best]) { other } else { best })?;
    let (gets, gives) = (&holders[place], &holders[from]);
    // Only if it is less loaded with one more than the giver is now.
    let after = (gets.held as u64 + 1) * u64::from(gives.weight.get());
    if after >= gives.held as u64 * u64::from(gets.weight.get()) {
        return None;
    }
    holders[from].held -= 1;
    holders[place].held += 1;
    Some(holders[from].id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(of: &[(&str, u32, usize)]) -> Vec<Holder> {
        let holder = |&(id, weight, held): &(&str, u32, usize)| Holder {
            id: id.parse().expect("a node id"),
            weight: Weight::try_from(weight).expect("a weight"),
            held,
        };
        of.iter().map(holder).collect()
    }

    #[test]
    fn users_are_spread_by_weight() {
        let mut three = holders(&[("a", 100, 0), ("b", 200, 0), ("c", 100, 0)]);
        (0..8).for_each(|_| drop(next(&mut three)));
        assert_eq!(three.iter().map(|holder| holder.held).collect::<Vec<_>>(), [2, 4, 2]);
        assert_eq!(next(&mut []), None);
    }

    #[test]
    fn one_that_joins_gets_its_share_from_the_fullest_and_no_more() {
        let mut three = holders(&[("a", 100, 4), ("b", 100, 5), ("c", 100, 0)]);
        let given: Vec<_> = std::iter::from_fn(|| giver(&mut three, 2)).map(|id| id.to_string()).collect();
        assert_eq!(given, ["b", "a", "b"]);
        assert_eq!(three.iter().map(|holder| holder.held).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(giver(&mut holders(&[("a", 100, 1), ("b", 100, 0)]), 1), None, "moving the only one helps nobody");
        assert_eq!(giver(&mut holders(&[("a", 100, 0)]), 0), None);
    }
}
