//! What a run is asked to do: the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::keyspace::KeySpace;

/// Sends requests over keep-alive connections, each with one outstanding, and checks status and body of every answer.
///
/// Prints one JSON object. Exit code 0 only when there was no error.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "bench-load")]
pub struct Options {
    /// host:port of the server
    #[arg(long)]
    pub target: SocketAddr,
    /// Connections
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// How long to run before that, in seconds
    #[arg(long, default_value_t = 0.5)]
    pub warm_up: f64,
    /// End after so many requests instead, all measured
    #[arg(long)]
    pub requests: Option<u64>,
    /// How many keys there are
    #[arg(long, default_value_t = 10_000)]
    pub keys: u64,
    /// The number of the first key
    #[arg(long, default_value_t = 0)]
    pub first_key: u64,
    /// How many users the keys are spread over
    #[arg(long, default_value_t = 1000)]
    pub users: u64,
    /// The size of each value
    #[arg(long, default_value_t = 256)]
    pub value_bytes: usize,
    /// The order of the keys: uniform, sequential, zipf:THETA
    #[arg(long, default_value = "uniform")]
    pub distribution: Distribution,
    /// The order of the keys from a file of little-endian 32-bit key numbers, once
    #[arg(long, conflicts_with_all = ["distribution", "requests"])]
    pub sequence: Option<PathBuf>,
    /// What to ask for
    #[arg(long, value_enum, default_value_t = Method::Get)]
    pub method: Method,
    /// How many of 100 GETs are PUTs instead
    #[arg(long, default_value_t = 0.0)]
    pub writes: f64,
    /// Every GET is answered with the value of key 0: a server that has only one answer
    #[arg(long)]
    pub same_body: bool,
    /// Arrivals a second; latency then counts from the arrival [default: as fast as answers come]
    #[arg(long)]
    pub rate: Option<f64>,
    /// Report the processor time of these processes over the measured time
    #[arg(long, value_delimiter = ',')]
    pub cpu_of: Vec<u32>,
    /// Repeats the drawn keys
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// One entry.
    Get,
    /// A write of one entry.
    Put,
    /// All of a user's entries, 256 at a time; a key number stands for a user.
    Mget,
}

/// The order in which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Each as often.
    Uniform,
    /// One after the other, over and over.
    Sequential,
    /// The popularity of the k-th falls as k^-theta.
    Zipf(f64),
}

impl std::str::FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("zipf:").map(str::parse)) {
            ("uniform", _) => Ok(Self::Uniform),
            ("sequential", _) => Ok(Self::Sequential),
            (_, Some(Ok(theta))) if (0.0..=10.0).contains(&theta) => Ok(Self::Zipf(theta)),
            _ => Err("it is uniform, sequential or zipf:THETA".to_owned()),
        }
    }
}

impl Options {
    /// Names and values.
    pub(super) fn space(&self) -> KeySpace {
        KeySpace { users: self.users, value_bytes: self.value_bytes }
    }

    pub(super) fn measured(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    pub(super) fn warmed(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up)
    }
}
