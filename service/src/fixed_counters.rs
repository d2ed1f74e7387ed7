//! Counters whose labels are known beforehand: an array of atomics, with no lock and no hash on the way to them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

/// Labels of which there are only so many.
pub trait FixedLabels: EncodeLabelSet + Send + Sync + 'static {
    /// How many there are.
    const COUNT: usize;

    /// Their place, from 0 to [`FixedLabels::COUNT`] − 1.
    fn place(&self) -> usize;

    /// The labels of a place.
    fn at(place: usize) -> Self;
}

/// One counter for each of the labels; cheap to clone. Shown like a `Family` of counters: those that never counted are not.
pub struct FixedCounters<L> {
    counts: Arc<[AtomicU64]>,
    labels: PhantomData<fn() -> L>,
}

impl<L: FixedLabels> FixedCounters<L> {
    /// Counts one.
    pub fn inc(&self, labels: &L) {
        self.counts[labels.place()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many were counted.
    pub fn get(&self, labels: &L) -> u64 {
        self.counts[labels.place()].load(Ordering::Relaxed)
    }
}

impl<L: FixedLabels> Default for FixedCounters<L> {
    fn default() -> Self {
        Self { counts: (0..L::COUNT).map(|_| AtomicU64::new(0)).collect(), labels: PhantomData }
    }
}

impl<L> Clone for FixedCounters<L> {
    fn clone(&self) -> Self {
        Self { counts: Arc::clone(&self.counts), labels: PhantomData }
    }
}

impl<L> fmt::Debug for FixedCounters<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FixedCounters({})", self.counts.len())
    }
}

impl<L: FixedLabels> EncodeMetric for FixedCounters<L> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (place, count) in self.counts.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let labels = L::at(place);
                // No exemplars: the types only say which there are none of.
                encoder.encode_family(&labels)?.encode_counter::<L, u64, u64>(&count, None)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }

    fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::EncodeLabelValue;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::request_metrics::encode;

    #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct ColourLabels {
        colour: Colour,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
    #[allow(non_camel_case_types, reason = "label values as they appear")]
    enum Colour {
        red,
        dark_blue,
    }

    impl FixedLabels for ColourLabels {
        const COUNT: usize = 2;
        fn place(&self) -> usize {
            self.colour as usize
        }
        fn at(place: usize) -> Self {
            Self { colour: [Colour::red, Colour::dark_blue][place] }
        }
    }

    fn text(register: impl FnOnce(&mut Registry)) -> String {
        let mut registry = Registry::with_prefix("a");
        register(&mut registry);
        encode(&registry)
    }

    #[test]
    fn they_are_shown_as_a_family_of_counters_is() {
        let (fixed, family) = (FixedCounters::default(), Family::<ColourLabels, Counter>::default());
        let both = || {
            [
                text(|registry| registry.register("things", "Things by colour", fixed.clone())),
                text(|registry| registry.register("things", "Things by colour", family.clone())),
            ]
        };
        let [ours, theirs] = both();
        assert_eq!(ours, theirs, "before the first");
        for _ in 0..3 {
            fixed.inc(&ColourLabels { colour: Colour::dark_blue });
            family.get_or_create(&ColourLabels { colour: Colour::dark_blue }).inc();
        }
        let [ours, theirs] = both();
        assert_eq!(ours, theirs, "one of the labels");
        assert!(ours.contains("a_things_total{colour=\"dark_blue\"} 3\n"), "{ours}");
        fixed.inc(&ColourLabels { colour: Colour::red });
        family.get_or_create(&ColourLabels { colour: Colour::red }).inc();
        let [ours, theirs] = both().map(|text| {
            // A family has no order of its own.
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        });
        assert_eq!(ours, theirs, "all labels");
    }
}
