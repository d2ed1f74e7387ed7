//! The time that counts: the last minutes, older ones less and less. Time comes in as an argument.

use std::time::Duration;

use crate::clock::Moment;

/// After each so long, everything so far counts half.
pub(super) const HALF_LIFE: Duration = Duration::from_secs(60);
/// After so many, nothing is left of what an entry of 64 bits could hold.
const HALVINGS_MAX: u64 = 64;
/// A rate of a shorter time would be one of chance.
const SHORTEST: Duration = Duration::from_secs(1);

/// How long has been counted, halved as the counts are.
pub(super) struct Window {
    halved_at: Moment,
    /// What is left of the time before.
    carried: Duration,
}

/// What a moment asks for before something is counted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// As many halvings, mostly none.
    Halvings(u64),
    /// Nothing is left.
    Clear,
}

impl Window {
    pub(super) fn begin(now: Moment) -> Self {
        Self { halved_at: now, carried: Duration::ZERO }
    }

    /// Brings the window up to `now`; the caller does to its counts what is due. A moment of the past asks for nothing.
    pub(super) fn advance(&mut self, now: Moment) -> Due {
        let passed = now.since(self.halved_at);
        if passed < HALF_LIFE {
            return Due::Halvings(0);
        }
        let halvings = passed.as_nanos() as u64 / HALF_LIFE.as_nanos() as u64;
        if halvings > HALVINGS_MAX {
            *self = Self::begin(now);
            return Due::Clear;
        }
        for _ in 0..halvings {
            self.halved_at = self.halved_at.plus(HALF_LIFE);
            self.carried = (self.carried + HALF_LIFE) / 2;
        }
        Due::Halvings(halvings)
    }

    /// The time by which the counts are to be divided; once minutes have passed it goes from one to two half-lives and back.
    pub(super) fn length(&self, now: Moment) -> Duration {
        (self.carried + now.since(self.halved_at)).max(SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(0).plus(Duration::from_secs(1_000 + seconds))
    }

    #[test]
    fn each_half_life_halves_once_and_the_length_stays_between_one_and_two() {
        let mut window = Window::begin(at(0));
        assert_eq!((window.advance(at(59)), window.length(at(59)).as_secs()), (Due::Halvings(0), 59));
        assert_eq!((window.advance(at(60)), window.length(at(60)).as_secs()), (Due::Halvings(1), 30));
        assert_eq!((window.advance(at(185)), window.length(at(185)).as_secs()), (Due::Halvings(2), 52 + 5));
        for seconds in 600..1_200 {
            window.advance(at(seconds));
            assert!((59..=120).contains(&window.length(at(seconds)).as_secs()), "{seconds}");
        }
    }

    #[test]
    fn a_step_back_changes_nothing_and_a_long_silence_clears() {
        let mut window = Window::begin(at(100));
        assert_eq!((window.advance(at(50)), window.length(at(50))), (Due::Halvings(0), SHORTEST));
        assert_eq!(window.advance(at(100 + 60 * 65)), Due::Clear);
        assert_eq!(window.length(at(100 + 60 * 65 + 7)).as_secs(), 7);
    }
}
