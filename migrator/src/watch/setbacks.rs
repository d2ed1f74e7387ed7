//! How often an errand has failed, and when it may be tried again: pauses that double, within bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use super::decide::Errand;
use crate::limits::{ERRAND_PAUSE_MAX, ERRAND_PAUSE_MIN};

/// The errands that failed last time.
#[derive(Debug, Default)]
pub struct Setbacks(BTreeMap<Errand, Setback>);

#[derive(Clone, Copy, Debug)]
struct Setback {
    failures: u32,
    not_before: Duration,
}

impl Setbacks {
    /// Takes in how an errand ended at `now`.
    pub fn ended(&mut self, errand: Errand, well: bool, now: Duration) {
        if well {
            self.0.remove(&errand);
            return;
        }
        let setback = self.0.entry(errand).or_insert(Setback { failures: 0, not_before: now });
        let pause = ERRAND_PAUSE_MIN.saturating_mul(1 << setback.failures.min(16)).min(ERRAND_PAUSE_MAX);
        setback.failures += 1;
        setback.not_before = now + pause;
    }

    /// Whether the errand may be tried at `now`.
    pub fn allow(&self, errand: &Errand, now: Duration) -> bool {
        self.0.get(errand).is_none_or(|setback| setback.not_before <= now)
    }

    /// How often in a row it has failed.
    pub fn failures(&self, errand: &Errand) -> u32 {
        self.0.get(errand).map_or(0, |setback| setback.failures)
    }

    /// Forgets the errands that no longer are any.
    pub fn keep(&mut self, still: impl Fn(&Errand) -> bool) {
        self.0.retain(|errand, _| still(errand));
    }
}

#[cfg(test)]
mod tests {
    use placement::ChangeId;

    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_end_with_a_success() {
        let mut setbacks = Setbacks::default();
        let errand = Errand::CarryOn(ChangeId(1));
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..40 {
            setbacks.ended(errand.clone(), false, now);
            let began = now;
            while !setbacks.allow(&errand, now) {
                now += Duration::from_millis(500);
            }
            pauses.push((now - began).as_secs());
        }
        assert_eq!(pauses[..6], [1, 2, 4, 8, 16, 30]);
        assert_eq!((pauses[39], setbacks.failures(&errand)), (30, 40));
        setbacks.ended(errand.clone(), true, now);
        assert_eq!((setbacks.allow(&errand, now), setbacks.failures(&errand)), (true, 0));
    }
}
