//! Smooth weighted round robin, as nginx does it: each node as often as its weight says, never many times in a row. Pure.

/// The place of the node whose turn it is. `credits` are what earlier turns have left; they may come from turns among other
/// nodes.
pub(super) fn choose(credits: &mut [i64], weights: &[u32]) -> usize {
    let total: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    for (credit, weight) in credits.iter_mut().zip(weights) {
        // A node that was away may owe or be owed a round, not more: nobody gets many turns in a row for that.
        *credit = (*credit + i64::from(*weight)).clamp(-total, total);
    }
    let mut best = 0;
    for place in 1..credits.len() {
        if credits[place] > credits[best] {
            best = place;
        }
    }
    if let Some(credit) = credits.get_mut(best) {
        *credit -= total;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gets_exactly_its_weight_of_a_round_and_the_heavy_one_is_spread() {
        let (weights, mut credits) = ([5, 1, 1], [0; 3]);
        let turns: Vec<usize> = (0..7).map(|_| choose(&mut credits, &weights)).collect();
        assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0], "the example of nginx");
        let mut counts = [0; 3];
        for _ in 0..7_000 {
            counts[choose(&mut credits, &weights)] += 1;
        }
        assert_eq!(counts, [5_000, 1_000, 1_000]);
    }

    #[test]
    fn a_node_that_comes_with_credit_gets_no_more_than_its_share_soon() {
        let weights = [1, 1];
        let mut credits = [1_000_000, -1_000_000];
        let first: usize = (0..20).map(|_| choose(&mut credits, &weights)).filter(|place| *place == 0).count();
        assert!((10..=12).contains(&first), "{first} of 20");
    }
}
