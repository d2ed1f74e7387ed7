//! The progress of copying: known only as it goes on, and shown with entries, bytes, rate and time left.

use std::time::Duration;

use tokio::time::Instant;

use super::events::{self, Event};
use super::{PhaseProgress, Progress, Step};
use crate::limits::{EVENT_EVERY, LINE_EVERY};
use crate::meter::Reading;

/// The message holds it all; the bar's length is in bytes.
const BAR: &str = "{prefix:21} [{bar:28}] {msg} ({elapsed})";

/// The copy phase as the operator sees it.
#[derive(Debug)]
pub(crate) struct CopyProgress {
    phase: PhaseProgress,
    shown: Option<Instant>,
}

impl CopyProgress {
    /// The phase begins.
    pub(crate) fn begin(to: &Progress) -> Self {
        if let Progress::Lines = to {
            eprintln!("{}: begun", Step::CopyKeys.title());
        }
        // A short copy needs no line but its last; programs want to know the amounts at once.
        let shown = matches!(to, Progress::Lines).then(Instant::now);
        Self { phase: to.begin(Step::CopyKeys, 0, "bytes", BAR), shown }
    }

    /// So far it is; printed only as often as is good to read.
    pub(crate) fn show(&mut self, now: Instant, reading: &Reading) {
        if let Some(bar) = &self.phase.bar {
            bar.set_length(reading.amounts.bytes_total);
            bar.set_position(reading.amounts.bytes);
            bar.set_message(reading.text());
        }
        let every = match self.phase.to {
            Progress::Lines => LINE_EVERY,
            Progress::Events => EVENT_EVERY,
            Progress::Bars(_) | Progress::Silent => return,
        };
        if is_due(self.shown, now, every) {
            self.shown = Some(now);
            self.print(reading);
        }
    }

    fn print(&self, reading: &Reading) {
        match self.phase.to {
            Progress::Lines => eprintln!("{}: {}", Step::CopyKeys.title(), reading.text()),
            Progress::Events => events::print(&Event::Copied { phase: Step::CopyKeys, reading }),
            Progress::Bars(_) | Progress::Silent => {}
        }
    }

    /// Everything is there; answers how long it took.
    pub(crate) fn done(self, last: &Reading, result: &str) -> Duration {
        // Lines say it with the phase's end.
        if let Progress::Events = self.phase.to {
            self.print(last);
        }
        self.phase.done(result)
    }
}

fn is_due(shown: Option<Instant>, now: Instant, every: Duration) -> bool {
    shown.is_none_or(|shown| now.saturating_duration_since(shown) >= every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_no_more_often_than_every_two_seconds() {
        let now = Instant::now();
        assert!(is_due(None, now, LINE_EVERY));
        assert!(!is_due(Some(now), now + Duration::from_millis(1_999), LINE_EVERY));
        assert!(is_due(Some(now), now + LINE_EVERY, LINE_EVERY));
    }
}
