//! The settings of how nodes are watched, passed by, asked again and chosen.

use std::time::Duration;

use service::settings::HumanDuration;

use crate::balance::Balance;
use crate::hedge::Hedge;

/// The shortest time between two checks of a node.
const HEALTH_EVERY_MIN: Duration = Duration::from_millis(100);

/// What a gateway does about its nodes. The defaults are those of the program.
#[derive(Clone, Debug, clap::Args)]
pub struct NodePolicy {
    /// How often each node's health route is asked; a node in doubt is asked sooner.
    #[arg(long, env = "SHARDCACHE_HEALTH_EVERY", default_value = "2s", hide_env_values = true, value_parser = health_every)]
    pub health_every: Duration,
    /// Pass by nodes that answer but fail more than the others: never, by errors, or by errors and latency.
    #[arg(long, env = "SHARDCACHE_OUTLIER", default_value = "off", hide_env_values = true)]
    pub outlier: Outlier,
    /// How many requests may be sent once more, in percent of all; ten a second always may.
    #[arg(long, env = "SHARDCACHE_RETRY_BUDGET", default_value = "20", hide_env_values = true,
        value_parser = clap::value_parser!(u8).range(0..=100))]
    pub retry_budget: u8,
    /// Read past an owner that is slow to answer: off, p95, p99 or a time.
    #[arg(long, env = "SHARDCACHE_HEDGE", default_value = "off", hide_env_values = true)]
    pub hedge: Hedge,
    /// Which node gets a request that needs no owner.
    #[arg(long, env = "SHARDCACHE_BALANCE", default_value = "least-requests", hide_env_values = true)]
    pub balance: Balance,
}

/// Which nodes are passed by though they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Outlier {
    /// None.
    Off,
    /// Those that fail more than the others.
    On,
    /// Those too that are far slower than the others.
    Latency,
}

impl Default for NodePolicy {
    fn default() -> Self {
        Self {
            health_every: Duration::from_secs(2),
            outlier: Outlier::Off,
            retry_budget: 20,
            hedge: Hedge::Off,
            balance: Balance::LeastRequests,
        }
    }
}

impl NodePolicy {
    /// Whether the time of each owner's answer is needed; else a look at the clock is spared.
    pub(crate) fn times_reads(&self) -> bool {
        self.outlier == Outlier::Latency || matches!(self.hedge, Hedge::Percentile(_))
    }
}

fn health_every(text: &str) -> Result<Duration, String> {
    let every = text.parse::<HumanDuration>().map_err(|invalid| invalid.to_string())?.get();
    if every < HEALTH_EVERY_MIN { Err("checks are at least 100ms apart".to_owned()) } else { Ok(every) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Program {
        #[command(flatten)]
        nodes: NodePolicy,
    }

    #[test]
    fn the_programs_defaults_are_those_of_the_type() {
        let parsed = Program::try_parse_from(["gateway"]).expect("defaults").nodes;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", NodePolicy::default()));
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            ["--health-every", "50ms"],
            ["--health-every", "2"],
            ["--outlier", "maybe"],
            ["--retry-budget", "101"],
            ["--hedge", "2s"],
            ["--balance", "best"],
        ] {
            assert!(Program::try_parse_from(["gateway", bad[0], bad[1]]).is_err(), "{bad:?}");
        }
    }
}
