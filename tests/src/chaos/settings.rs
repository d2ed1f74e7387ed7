//! The settings of a run's programs that chance chooses, and one that is always the same.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

/// Variables of the nodes, with values. Each is right; some show other mistakes than others.
pub fn draw(chance: &mut SmallRng) -> Vec<(&'static str, &'static str)> {
    let mut choose = |of: &[&'static str]| *of.choose(chance).expect("not empty");
    vec![
        // Short: reads come to L2, where old entries would be. Long: they stay in L1.
        ("SHARDCACHE_L1_TTL", choose(&["20ms", "300ms", "3s", "10m"])),
        ("SHARDCACHE_L2_TTL", choose(&["2s", "1h", "1h", "1h"])),
        ("SHARDCACHE_NEGATIVE_TTL", choose(&["200ms", "30s"])),
        ("SHARDCACHE_LEASE_TTL", choose(&["1500ms", "2s", "3s"])),
        ("SHARDCACHE_DRAIN", choose(&["release", "handoff"])),
        ("SHARDCACHE_DRAIN_TIMEOUT", choose(&["2s", "4s"])),
        // Often enough to meet every fault; the other reads go the way without a lock.
        ("SHARDCACHE_AUDIT_EVERY", "10"),
    ]
}
