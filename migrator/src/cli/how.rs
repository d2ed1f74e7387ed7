//! When and how a change is carried out, as written.

use std::time::Duration;

use clap::Args;
use placement::Epoch;
use service::settings::{ByteSize, HumanDuration};

use crate::copy_order::CopyOrder;
use crate::limits::COPY_RATE_MIN;
use crate::pace::Bounds;

/// When and how a change is carried out.
#[derive(Clone, Debug, Args)]
pub struct How {
    /// Only if the ring is at this epoch: `plan` prints the whole command
    #[arg(long, value_name = "EPOCH")]
    pub at_epoch: Option<u64>,
    /// How to copy.
    #[command(flatten)]
    pub copy: CopyOptions,
}

/// How keys are copied.
#[derive(Clone, Debug, Args)]
pub struct CopyOptions {
    /// Copy nothing: the new owners start cold
    #[arg(long, conflicts_with_all = ["max_rate", "max_origin_reads", "max_p99"])]
    pub cold: bool,
    /// The most bytes copied per second, all nodes together, from 64KiB [default: as fast as the new owners take them]
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    pub max_rate: Option<ByteSize>,
    /// Pause copying while all nodes together send more reads per second to the database [default: no bound]
    #[arg(long, value_name = "READS", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_origin_reads: Option<u32>,
    /// Pause copying while 1 of 100 requests takes longer; 0: never
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = bound)]
    pub max_p99: PercentileBound,
}

/// A bound on the 99th percentile of all requests; `None`: no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentileBound(pub Option<Duration>);

impl How {
    /// The epoch the command is bound to.
    pub fn epoch(&self) -> Option<Epoch> {
        self.at_epoch.map(Epoch)
    }
}

impl CopyOptions {
    /// What they mean.
    pub fn order(&self) -> CopyOrder {
        CopyOrder {
            cold: self.cold,
            max_bytes_per_second: self.max_rate.map(ByteSize::bytes),
            bounds: Bounds { max_origin_reads: self.max_origin_reads, max_p99: self.max_p99.0 },
            ..CopyOrder::default()
        }
    }
}

fn rate(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|invalid: service::settings::QuantityInvalid| invalid.to_string())?;
    // Slower, one large entry would look like a copy that hangs.
    if size.bytes() < COPY_RATE_MIN { Err("must be at least 64KiB".to_owned()) } else { Ok(size) }
}

fn bound(text: &str) -> Result<PercentileBound, String> {
    if text == "0" {
        return Ok(PercentileBound(None));
    }
    let time: Result<HumanDuration, _> = text.parse();
    time.map(|time| PercentileBound(Some(time.get()))).map_err(|invalid| invalid.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        how: How,
    }

    fn parsed(args: &[&str]) -> How {
        Line::try_parse_from(["change"].iter().chain(args)).unwrap_or_else(|error| panic!("{error}")).how
    }

    #[test]
    fn a_change_copies_within_250_ms_of_p99_unless_told_otherwise() {
        let order = parsed(&[]).copy.order();
        assert!(!order.cold && order.max_bytes_per_second.is_none());
        assert_eq!(order.bounds, Bounds { max_origin_reads: None, max_p99: Some(Duration::from_millis(250)) });
        assert_eq!(parsed(&["--max-p99", "0"]).copy.order().bounds, Bounds::default());
        assert!(parsed(&["--cold"]).copy.order().cold);
    }

    #[test]
    fn rate_reads_and_epoch_mean_what_they_say() {
        let how = parsed(&["--max-rate", "20MiB", "--max-origin-reads", "500", "--max-p99", "1s", "--at-epoch", "7"]);
        assert_eq!(how.epoch(), Some(Epoch(7)));
        let order = how.copy.order();
        assert_eq!(order.max_bytes_per_second, Some(20 << 20));
        assert_eq!(order.bounds, Bounds { max_origin_reads: Some(500), max_p99: Some(Duration::from_secs(1)) });
    }
}
