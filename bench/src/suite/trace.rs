//! A real access trace, and what LRU and an oracle would make of it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

/// The trace of `tests/data/traces` as numbers in the order of their first request.
pub(crate) fn web12() -> anyhow::Result<Vec<u32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces/web12.trace.xz");
    let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let output = Command::new("xz").arg("-dc").stdin(file).stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(output.status.success(), "xz cannot decompress the trace");
    Ok(numbered(output.stdout.as_chunks::<4>().0.iter().map(|four| u32::from_be_bytes(*four))))
}

fn numbered(keys: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers = HashMap::new();
    keys.map(|key| {
        let next = numbers.len() as u32;
        *numbers.entry(key).or_insert(next)
    })
    .collect()
}

/// How many different keys there are.
pub(crate) fn distinct(trace: &[u32]) -> usize {
    trace.iter().max().map_or(0, |last| *last as usize + 1)
}

/// The share of hits of a cache of so many entries that drops what was used longest ago.
pub(crate) fn lru(trace: &[u32], capacity: usize) -> f64 {
    // What is used next is used now: the victim is the one with the smallest moment of last use.
    hits(trace, capacity, |moment| moment, |held| held.first_key_value().map(|(moment, _)| *moment))
}

/// The share of hits of a cache that knows the future and drops what is used again last (Belady).
pub(crate) fn optimal(trace: &[u32], capacity: usize) -> f64 {
    let mut next_use = vec![usize::MAX; trace.len()];
    let mut seen = HashMap::new();
    for (moment, key) in trace.iter().enumerate().rev() {
        // Never again: later than everything, and different for each, for they are keys of a map.
        next_use[moment] = seen.insert(*key, moment).unwrap_or(trace.len() + moment);
    }
    hits(trace, capacity, |moment| next_use[moment], |held| held.last_key_value().map(|(moment, _)| *moment))
}

/// Runs a cache whose entries are ordered by `rank` of the moment of their last use; `victim` picks the one to drop.
fn hits(
    trace: &[u32],
    capacity: usize,
    rank: impl Fn(usize) -> usize,
    victim: impl Fn(&BTreeMap<usize, u32>) -> Option<usize>,
) -> f64 {
    let mut held: BTreeMap<usize, u32> = BTreeMap::new();
    let mut ranks: HashMap<u32, usize> = HashMap::new();
    let mut hits = 0;
    for (moment, key) in trace.iter().enumerate() {
        if let Some(old) = ranks.remove(key) {
            held.remove(&old);
            hits += 1;
        } else if held.len() >= capacity
            && let Some(dropped) = victim(&held).and_then(|rank| held.remove(&rank))
        {
            ranks.remove(&dropped);
        }
        held.insert(rank(moment), *key);
        ranks.insert(*key, rank(moment));
    }
    hits as f64 / trace.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lru_drops_the_oldest_and_the_oracle_what_is_needed_last() {
        let trace = numbered([7, 8, 9, 7, 8, 9].into_iter());
        assert_eq!((distinct(&trace), trace[3]), (3, 0));
        assert_eq!(lru(&trace, 2), 0.0);
        // Miss 7, 8; 9 in the place of 8; hit 7; miss 8 in the place of 7; hit 9.
        assert_eq!(optimal(&trace, 2), 2.0 / 6.0);
        assert_eq!(lru(&trace, 3), 0.5);
    }

    #[test]
    fn the_published_trace_has_its_published_ratios() {
        let trace = web12().expect("the trace is in the repository");
        let all = distinct(&trace);
        for (percent, published) in [(1, (0.397, 0.585)), (5, (0.600, 0.747)), (10, (0.685, 0.800))] {
            let capacity = (all * percent).div_ceil(100);
            let ours = (lru(&trace, capacity), optimal(&trace, capacity));
            let close = (ours.0 - published.0).abs() < 0.002 && (ours.1 - published.1).abs() < 0.002;
            assert!(close, "{percent} %: {ours:?} is not {published:?}");
        }
    }
}
