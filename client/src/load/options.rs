//! What a run is asked to do: the command line, checked.

use std::path::PathBuf;
use std::time::Duration;

use service::settings::{ByteSize, HumanDuration};

use super::value::VALUE_MIN_BYTES;

/// Replays a trace or a Zipf mix through a gateway in an open loop and checks every body.
///
/// Latency counts from the scheduled arrival, so a stall of the server is not hidden. Exit code 0 only when there was no
/// error and no wrong body.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "shardcache-load", version)]
#[command(group(clap::ArgGroup::new("keys").required(true).args(["trace", "zipf"])))]
#[command(group(clap::ArgGroup::new("length").args(["requests", "duration"])))]
pub struct Options {
    /// The gateway
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = target)]
    pub target: String,
    /// A trace: big-endian 32-bit keys, a name ending in .xz is decompressed
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// N keys, the popularity of the k-th falling as k^-THETA
    #[arg(long, value_name = "N:THETA")]
    pub zipf: Option<ZipfMix>,
    /// How many users the keys are spread over
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub users: u32,
    /// Arrivals a second
    #[arg(long, default_value = "1000", value_parser = rate)]
    pub rate: f64,
    /// How many arrivals; a trace begins again when it is over [default: the trace once, or 10 seconds of a Zipf mix]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// For how long requests arrive, such as 30s
    #[arg(long)]
    pub duration: Option<HumanDuration>,
    /// How many of 100 requests are writes; a write of a key that is just being written becomes a read
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    pub writes: f64,
    /// The size of each value
    #[arg(long, default_value = "256B", value_parser = value_bytes)]
    pub value_bytes: ByteSize,
    /// The most requests in flight; further arrivals wait, and their latency counts
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Write every key once before the run, so that every read must find one; `false` reads what an earlier run has left
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub preload: bool,
    /// Repeats the keys and the order of reads and writes of an earlier run [default: random, printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// A Zipf distribution over numbered keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZipfMix {
    /// How many keys.
    pub keys: u32,
    /// How uneven: 0 is uniform, 0.99 is the usual web mix.
    pub theta: f64,
}

/// How long requests arrive when neither the options nor a trace say it.
pub(crate) const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// The most keys of a mix: a register of 48 bytes is held for each.
const KEYS_MAX: u32 = 50_000_000;
/// The fastest schedule; the generator itself reaches far less.
const RATE_MAX: f64 = 1e6;
/// The largest value: more is over any sensible `SHARDCACHE_MAX_VALUE_BYTES`.
const VALUE_MAX_BYTES: u64 = 64 << 20;

impl std::str::FromStr for ZipfMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(keys, theta)| Some((keys.parse().ok()?, theta.parse().ok()?)));
        match parsed {
            Some((keys, theta)) if (1..=KEYS_MAX).contains(&keys) && (0.0..=10.0).contains(&theta) => {
                Ok(Self { keys, theta })
            }
            _ => Err(format!("it is N:THETA, N from 1 to {KEYS_MAX} and THETA from 0 to 10, such as 100000:0.99")),
        }
    }
}

fn target(text: &str) -> Result<String, String> {
    match text.parse::<http::Uri>() {
        Ok(uri) if uri.scheme_str() == Some("http") && uri.host().is_some() && matches!(uri.path(), "" | "/") => {
            Ok(text.to_owned())
        }
        _ => Err("it is http://host:port".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    number_within(text, 0.001, RATE_MAX)
}

fn percent(text: &str) -> Result<f64, String> {
    number_within(text, 0.0, 100.0)
}

fn number_within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("it is a number from {least} to {most}"))
}

fn value_bytes(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    if (VALUE_MIN_BYTES as u64..=VALUE_MAX_BYTES).contains(&size.bytes()) {
        Ok(size)
    } else {
        Err(format!("it is {VALUE_MIN_BYTES} bytes (a value describes itself) to {VALUE_MAX_BYTES} bytes"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn parse(args: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("shardcache-load").chain(args.iter().copied()))
    }

    #[test]
    fn one_source_of_keys_is_needed() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["--zipf", "10:0.99", "--trace", "x"]).is_err());
        let options = parse(&["--zipf", "10:0.99"]).expect("options");
        assert_eq!(options.zipf, Some(ZipfMix { keys: 10, theta: 0.99 }));
        assert!(options.preload);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in [
            ["--zipf", "0:1"],
            ["--zipf", "10"],
            ["--zipf", "10:NaN"],
            ["--rate", "0"],
            ["--rate", "inf"],
            ["--writes", "101"],
            ["--value-bytes", "31B"],
            ["--connections", "0"],
            ["--target", "https://x"],
            ["--target", "127.0.0.1:8080"],
        ] {
            assert!(parse(&[&["--zipf", "10:1"][..], &bad[..]].concat()).is_err(), "{bad:?}");
        }
        assert!(parse(&["--zipf", "10:1", "--requests", "1", "--duration", "1s"]).is_err());
    }
}
