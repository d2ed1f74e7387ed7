//! A peer: the sorted ring of points that consistent hashing is done with elsewhere, written plainly.

use xxhash_rust::xxh3::xxh3_64;

/// Points of a node of weight 1: what ketama and its successors use.
const POINTS: u64 = 160;

/// Nodes by number, found over the next point clockwise.
pub(crate) struct Ketama {
    points: Vec<(u64, u32)>,
}

impl Ketama {
    /// Nodes of these names and weights.
    pub(crate) fn new(nodes: &[(String, u64)]) -> Self {
        let point = |name: &str, number: u64| xxh3_64(format!("{name}-{number}").as_bytes());
        let numbered = nodes.iter().enumerate();
        let points = numbered.flat_map(|(node, (name, weight))| {
            (0..POINTS * weight).map(move |number| (point(name, number), node as u32))
        });
        let mut points: Vec<(u64, u32)> = points.collect();
        points.sort_unstable();
        Self { points }
    }

    /// The number of the node of a user.
    pub(crate) fn node_of(&self, user: &str) -> usize {
        let hash = xxh3_64(user.as_bytes());
        let next = self.points.partition_point(|(point, _)| *point < hash);
        // Past the last point the first follows.
        self.points[next % self.points.len()].1 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<(String, u64)> {
        (0..count).map(|number| (format!("n{number}"), 1)).collect()
    }

    #[test]
    fn a_new_node_takes_from_the_others_and_moves_nothing_between_them() {
        let (before, after) = (Ketama::new(&nodes(4)), Ketama::new(&nodes(5)));
        for number in 0..1000 {
            let user = format!("user-{number}");
            let (old, new) = (before.node_of(&user), after.node_of(&user));
            assert!(new == old || new == 4, "{user}");
        }
    }

    #[test]
    fn more_weight_is_more_users() {
        let ring = Ketama::new(&[("light".to_owned(), 1), ("heavy".to_owned(), 4)]);
        let heavy = (0..10_000).filter(|number| ring.node_of(&format!("user-{number}")) == 1).count();
        assert!((7000..9000).contains(&heavy), "{heavy}");
    }
}
