//! How fast copying is and how long it will take. Pure: the time comes in as an argument.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

/// The rate is that of so long: shorter it jumps about, longer it tells of the past.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// What has been copied, and of how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Entries copied.
    pub entries: u64,
    /// Entries to copy.
    pub entries_total: u64,
    /// Bytes of keys and values copied.
    pub bytes: u64,
    /// Bytes of keys and values to copy.
    pub bytes_total: u64,
}

/// Amounts, and how fast they grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reading {
    /// What has been copied.
    #[serde(flatten)]
    pub amounts: Amounts,
    /// Of the bytes, 0 to 100; of the entries where they hold no bytes; 0 before anything is known.
    pub percent: f64,
    /// Over the last seconds.
    pub bytes_per_second: f64,
    /// Seconds left at this rate; null while nothing moves.
    pub eta_seconds: Option<f64>,
}

/// Measures the rate.
#[derive(Debug, Default)]
pub struct Meter {
    /// Times and bytes, oldest first.
    samples: VecDeque<(Instant, u64)>,
}

impl Meter {
    /// Takes new amounts in. Where less is copied than before (a broken stream begins anew) the rate is measured afresh.
    /// `complete`: everything is there, also where there was nothing.
    pub fn read(&mut self, now: Instant, amounts: Amounts, complete: bool) -> Reading {
        if self.samples.back().is_some_and(|&(_, bytes)| amounts.bytes < bytes) {
            self.samples.clear();
        }
        self.samples.push_back((now, amounts.bytes));
        // The youngest of those that are too old stays: it is the window's beginning.
        while self.samples.get(1).is_some_and(|&(at, _)| now.saturating_duration_since(at) >= RATE_WINDOW) {
            self.samples.pop_front();
        }
        let bytes_per_second = self.rate();
        let left = amounts.bytes_total.saturating_sub(amounts.bytes);
        let moves = left > 0 && bytes_per_second > 0.0;
        let (percent, eta_seconds) = match complete {
            true => (100.0, Some(0.0)),
            false => (percent(amounts), moves.then(|| left as f64 / bytes_per_second)),
        };
        Reading { amounts, percent, bytes_per_second, eta_seconds }
    }

    fn rate(&self) -> f64 {
        let (Some((from, least)), Some((to, most))) = (self.samples.front(), self.samples.back()) else { return 0.0 };
        let seconds = to.saturating_duration_since(*from).as_secs_f64();
        if seconds > 0.0 { (most - least) as f64 / seconds } else { 0.0 }
    }
}

fn percent(amounts: Amounts) -> f64 {
    let of = |part: u64, whole: u64| (part as f64 * 100.0 / whole as f64).min(100.0);
    match amounts {
        Amounts { bytes, bytes_total: 1.., .. } => of(bytes, amounts.bytes_total),
        Amounts { entries, entries_total: 1.., .. } => of(entries, amounts.entries_total),
        _ => 0.0,
    }
}

impl Reading {
    /// In one line.
    pub fn text(&self) -> String {
        let Amounts { entries, entries_total, bytes, bytes_total } = self.amounts;
        let left =
            self.eta_seconds.map_or("eta unknown".to_owned(), |seconds| format!("eta {}", whole_seconds(seconds)));
        format!(
            "{entries}/{entries_total} entries, {}/{}, {:.0} %, {}/s, {left}",
            size(bytes as f64),
            size(bytes_total as f64),
            self.percent,
            size(self.bytes_per_second),
        )
    }
}

/// Bytes as people read them.
pub fn size(bytes: f64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, factor)| bytes >= *factor as f64) {
        Some((unit, factor)) => format!("{:.1} {unit}", bytes / *factor as f64),
        None => format!("{bytes:.0} B"),
    }
}

fn whole_seconds(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    if whole < 60 { format!("{whole} s") } else { format!("{} min {} s", whole / 60, whole % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(bytes: u64) -> Amounts {
        Amounts { entries: bytes / 10, entries_total: 100, bytes, bytes_total: 1_000 }
    }

    #[test]
    fn the_time_left_follows_from_the_rate_of_the_last_seconds() {
        let start = Instant::now();
        let mut meter = Meter::default();
        let first = meter.read(start, amounts(0), false);
        assert_eq!((first.bytes_per_second, first.eta_seconds), (0.0, None), "nothing has moved yet");
        let mut last = first;
        for second in 1..=8u32 {
            // Ten a second at first, then fifty.
            let bytes = if second <= 3 { 10 * second } else { 30 + 50 * (second - 3) };
            last = meter.read(start + Duration::from_secs(1) * second, amounts(u64::from(bytes)), false);
        }
        assert_eq!((last.bytes_per_second, last.percent), (50.0, 28.0));
        assert_eq!(last.eta_seconds, Some(720.0 / 50.0));
        assert_eq!(last.text(), "28/100 entries, 280 B/1000 B, 28 %, 50 B/s, eta 15 s");
    }

    #[test]
    fn a_stream_that_begins_anew_makes_no_negative_rate() {
        let start = Instant::now();
        let mut meter = Meter::default();
        meter.read(start, amounts(500), false);
        let fallen = meter.read(start + Duration::from_secs(1), amounts(100), false);
        assert_eq!((fallen.bytes_per_second, fallen.eta_seconds), (0.0, None));
        let rising = meter.read(start + Duration::from_secs(2), amounts(200), false);
        assert_eq!(rising.bytes_per_second, 100.0);
    }

    #[test]
    fn nothing_to_copy_is_all_copied_once_it_is_known() {
        let reading = |amounts, complete| Meter::default().read(Instant::now(), amounts, complete);
        let of_nothing = |complete| reading(Amounts::default(), complete);
        assert_eq!((of_nothing(false).percent, of_nothing(false).eta_seconds), (0.0, None));
        assert_eq!((of_nothing(true).percent, of_nothing(true).eta_seconds), (100.0, Some(0.0)));
        let empty_values = Amounts { entries: 1, entries_total: 4, ..Amounts::default() };
        assert_eq!(reading(empty_values, false).percent, 25.0);
    }

    #[test]
    fn sizes_and_times_are_written_for_people() {
        assert_eq!([size(0.0), size(1023.0), size(1536.0), size(5e9)], ["0 B", "1023 B", "1.5 KiB", "4.7 GiB"]);
        assert_eq!([whole_seconds(0.2), whole_seconds(75.0)], ["1 s", "1 min 15 s"]);
    }
}
