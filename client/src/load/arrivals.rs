//! When requests arrive: an open loop, so arrivals wait for no answer and latency counts from the schedule.

use std::time::Duration;

/// A fixed rate and a number of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrivals {
    per_second: f64,
    count: u64,
}

impl Arrivals {
    /// So many at that rate.
    pub(crate) fn of_count(per_second: f64, count: u64) -> Self {
        Self { per_second, count }
    }

    /// All that arrive before `length` is over.
    pub(crate) fn of_duration(per_second: f64, length: Duration) -> Self {
        Self { per_second, count: (per_second * length.as_secs_f64()).ceil() as u64 }
    }

    /// How many there are.
    pub(crate) fn count(self) -> u64 {
        self.count
    }

    /// When the arrival of that number, from 0, is due after the start. Computed, not summed up: errors do not add up.
    pub(crate) fn due(self, number: u64) -> Duration {
        Duration::from_secs_f64(number as f64 / self.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_keep_their_distance_however_many_there_were() {
        let arrivals = Arrivals::of_count(1000.0, 10);
        assert_eq!(arrivals.due(0), Duration::ZERO);
        assert_eq!(arrivals.due(1), Duration::from_millis(1));
        assert_eq!(arrivals.due(3_600_000), Duration::from_secs(3600));
    }

    #[test]
    fn a_duration_holds_only_the_arrivals_before_its_end() {
        let arrivals = Arrivals::of_duration(400.0, Duration::from_secs(2));
        assert_eq!(arrivals.count(), 800);
        assert!(arrivals.due(arrivals.count() - 1) < Duration::from_secs(2));
        assert_eq!(Arrivals::of_duration(0.5, Duration::from_secs(1)).count(), 1);
    }
}
