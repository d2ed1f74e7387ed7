//! The command line: verbs and settings, as written.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use origin::DatabaseUrl;
use placement::{NodeId, Pool, UserId, Weight};
use service::settings::{ClusterToken, HumanDuration, LogFormat};
use service::tls::NodeTls;
use wire::users::TOP_MAX;

use crate::plan::Verb;

mod how;

pub use how::{CopyOptions, How};

/// The most rows `history` prints.
const HISTORY_LIMIT_MAX: i64 = 10_000;

/// Changes the ring of a shardcache cluster, and says how it stands.
///
/// Exit codes: 0 done; 1 failed (the message says in which state the ring was left and which command to run next);
/// 2 the command line is wrong; 3 another change is active; 4 the change was aborted and the ring is as before.
#[derive(Debug, Parser)]
#[command(name = "migrator", version)]
pub struct Cli {
    /// Settings of all verbs.
    #[command(flatten)]
    pub settings: Settings,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Settings of all verbs.
#[derive(Debug, Args)]
pub struct Settings {
    /// The cluster's database: postgres://… or sqlite://path
    #[arg(long, env = "DATABASE_URL", default_value = "sqlite://data/shardcache.db", global = true)]
    pub database_url: DatabaseUrl,
    /// The token that nodes ask for
    #[arg(long, env = "SHARDCACHE_CLUSTER_TOKEN", global = true)]
    pub cluster_token: Option<ClusterToken>,
    /// How logs look [default: pretty on a terminal, else json]
    #[arg(long, env = "SHARDCACHE_LOG_FORMAT", global = true)]
    pub log_format: Option<LogFormat>,
    /// How nodes are reached.
    #[command(flatten)]
    pub node_tls: NodeTls,
    /// Print the result as JSON on stdout
    #[arg(long, global = true)]
    pub json: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the first ring (epoch 1); does nothing where there is one
    Init {
        /// The first members, separated by commas
        #[arg(long, value_delimiter = ',', required = true)]
        nodes: Vec<NodeId>,
        /// How long to wait until all of them have registered
        #[arg(long, default_value = "30s")]
        wait: HumanDuration,
    },
    /// Show what a change would do, and change nothing
    Plan {
        /// The change.
        #[command(subcommand)]
        change: PlannedChange,
    },
    /// Give a registered node its share of the slots
    AddNode {
        /// The node and its weight.
        #[command(flatten)]
        node: NewMember,
        /// How long to wait until it has registered
        #[arg(long, default_value = "30s")]
        wait: HumanDuration,
        /// When and how.
        #[command(flatten)]
        how: How,
    },
    /// Give a member's slots to the others; those of a member that is down are taken over
    RemoveNode {
        /// The member
        id: NodeId,
        /// When and how.
        #[command(flatten)]
        how: How,
    },
    /// Give a member's slots to a registered node that takes its place; those of a member that is down are taken over
    ReplaceNode {
        /// Both nodes.
        #[command(flatten)]
        nodes: Replacement,
        /// How long to wait until the new one has registered
        #[arg(long, default_value = "30s")]
        wait: HumanDuration,
        /// When and how.
        #[command(flatten)]
        how: How,
    },
    /// Change a member's share
    SetWeight {
        /// The member and its new weight.
        #[command(flatten)]
        member: Reweighted,
        /// When and how.
        #[command(flatten)]
        how: How,
    },
    /// Bring users to the nodes of a pool, one ring change each; `--pool shared` brings them back to everybody's
    AssignUser {
        /// The user
        #[arg(value_parser = user, required_unless_present = "file", conflicts_with = "file")]
        user: Option<UserId>,
        /// A file of users, one a line
        #[arg(long)]
        file: Option<PathBuf>,
        /// The pool, as nodes are started with it (SHARDCACHE_NODE_POOL)
        #[arg(long)]
        pool: Pool,
        /// How to copy.
        #[command(flatten)]
        copy: CopyOptions,
    },
    /// Name users that cost their node so much that they are worth a pool of their own, and change nothing
    Suggest {
        /// The most users to name
        #[arg(long, default_value = "20", value_parser = clap::value_parser!(u32).range(1..=TOP_MAX as i64))]
        limit: u32,
        /// The part of its node's work that a user must cost more than: 20% or 0.2
        #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = share)]
        above: f64,
    },
    /// Carry the active change on from where it stopped
    Resume {
        /// How to copy.
        #[command(flatten)]
        copy: CopyOptions,
    },
    /// Give the active change up; possible until the ring has flipped
    Abort,
    /// Show epoch, members, standbys and the active change
    Status,
    /// Run as failure controller: take over the slots of nodes that stay down, let them in again when they are back, empty
    /// nodes that want to stop, end changes whose migrator died. Several may run; one leads
    Watch {
        /// How long a node that is down is given to come back, 1s to 1h
        #[arg(long, env = "SHARDCACHE_TAKEOVER_GRACE", default_value = "10s", value_parser = grace)]
        grace: HumanDuration,
        /// Only say who leads, and exit with 0 unless nobody does: a health check
        #[arg(long)]
        check: bool,
    },
    /// Show past changes and epochs, newest first
    History {
        /// The most changes and the most epochs to show
        #[arg(long, default_value = "20", value_parser = clap::value_parser!(u32).range(1..=HISTORY_LIMIT_MAX))]
        limit: u32,
    },
}

/// What `plan` can show.
#[derive(Debug, Subcommand)]
pub enum PlannedChange {
    /// What adding the node would do
    AddNode {
        /// The node and its weight.
        #[command(flatten)]
        node: NewMember,
    },
    /// What removing the member would do
    RemoveNode {
        /// The member
        id: NodeId,
    },
    /// What replacing the member would do
    ReplaceNode {
        /// Both nodes.
        #[command(flatten)]
        nodes: Replacement,
    },
    /// What changing the member's weight would do
    SetWeight {
        /// The member and its new weight.
        #[command(flatten)]
        member: Reweighted,
    },
}

/// A node about to join.
#[derive(Clone, Debug, Args)]
pub struct NewMember {
    /// The node
    pub id: NodeId,
    /// Its share relative to the others, 1 to 10000 [default: the weight it was started with]
    #[arg(long, value_parser = weight)]
    pub weight: Option<Weight>,
}

/// A member about to leave, and the node in its place.
#[derive(Clone, Debug, Args)]
pub struct Replacement {
    /// The member that leaves
    pub old: NodeId,
    /// The node that gets exactly its slots
    pub new: NodeId,
    /// The new node's share relative to the others, 1 to 10000 [default: that of the old one]
    #[arg(long, value_parser = weight)]
    pub weight: Option<Weight>,
}

/// A member about to change its share.
#[derive(Clone, Debug, Args)]
pub struct Reweighted {
    /// The member
    pub id: NodeId,
    /// Its new share relative to the others, 1 to 10000
    #[arg(value_parser = weight)]
    pub weight: Weight,
}

impl From<NewMember> for Verb {
    fn from(node: NewMember) -> Self {
        Self::AddNode { id: node.id, weight: node.weight }
    }
}

impl From<Replacement> for Verb {
    fn from(nodes: Replacement) -> Self {
        Self::ReplaceNode { old: nodes.old, new: nodes.new, weight: nodes.weight }
    }
}

impl From<Reweighted> for Verb {
    fn from(member: Reweighted) -> Self {
        Self::SetWeight { id: member.id, weight: member.weight }
    }
}

impl From<PlannedChange> for Verb {
    fn from(change: PlannedChange) -> Self {
        match change {
            PlannedChange::AddNode { node } => node.into(),
            PlannedChange::RemoveNode { id } => Self::RemoveNode { id },
            PlannedChange::ReplaceNode { nodes } => nodes.into(),
            PlannedChange::SetWeight { member } => member.into(),
        }
    }
}

fn user(text: &str) -> Result<UserId, String> {
    UserId::parse(text.as_bytes()).map_err(|invalid| invalid.to_string())
}

fn weight(text: &str) -> Result<Weight, String> {
    let number: u32 = text.parse().map_err(|_| "weights are whole numbers from 1 to 10000".to_owned())?;
    Weight::try_from(number).map_err(|invalid| invalid.to_string())
}

/// A part of the whole, as a number up to 1 or in per cent.
fn share(text: &str) -> Result<f64, String> {
    let refused = || "a share is more than 0% and less than 100%, or a number from 0 to 1".to_owned();
    let (digits, whole) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 100.0));
    let number: f64 = digits.trim_end().parse().map_err(|_| refused())?;
    let share = number / whole;
    if share > 0.0 && share < 1.0 { Ok(share) } else { Err(refused()) }
}

/// A grace in its bounds: a lease must be able to lapse for a moment, and users cannot wait for ever.
pub fn grace(text: &str) -> Result<HumanDuration, String> {
    let grace: HumanDuration = text.parse().map_err(|invalid| format!("{invalid}"))?;
    let allowed = std::time::Duration::from_secs(1)..=std::time::Duration::from_secs(3600);
    if allowed.contains(&grace.get()) { Ok(grace) } else { Err("a grace lasts 1s to 1h".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("migrator").chain(args.iter().copied()))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bad_names_and_weights_are_refused_before_anything_happens() {
        for bad in [
            &["add-node", "n 4"][..],
            &["add-node", ""],
            &["add-node", "n4", "--weight", "0"],
            &["add-node", "n4", "--weight", "10001"],
            &["add-node", "n4", "--weight", "-1"],
            &["set-weight", "n4", "many"],
            &["init", "--nodes", "a,,b"],
            &["init"],
            &["remove-node"],
            &["replace-node", "n1"],
            &["add-node", "n4", "--at-epoch", "-1"],
            &["add-node", "n4", "--max-rate", "1KiB"],
            &["add-node", "n4", "--max-p99", "soon"],
            &["add-node", "n4", "--max-origin-reads", "0"],
            &["add-node", "n4", "--cold", "--max-rate", "1MiB"],
            &["history", "--limit", "0"],
            &["assign-user", "a b", "--pool", "vip"],
            &["assign-user", "ada"],
            &["assign-user", "--pool", "vip"],
            &["assign-user", "ada", "--file", "users", "--pool", "vip"],
            &["assign-user", "ada", "--pool", "v i p"],
            &["suggest", "--limit", "101"],
            &["suggest", "--above", "20"],
            &["suggest", "--above", "0%"],
            &["suggest", "--above", "NaN"],
            &["watch", "--grace", "0s"],
            &["watch", "--grace", "2h"],
            &["frobnicate"],
        ] {
            assert_eq!(parsed(bad).expect_err("refused").exit_code(), 2, "{bad:?}");
        }
    }

    #[test]
    fn a_share_may_be_in_per_cent() {
        for text in ["20%", "0.2"] {
            let Command::Suggest { above, limit } = parsed(&["suggest", "--above", text]).expect("parses").command
            else {
                panic!("another verb");
            };
            assert_eq!((above, limit), (0.2, 20));
        }
    }

    #[test]
    fn settings_stand_before_or_after_the_verb() {
        for args in [&["--json", "plan", "add-node", "n4"][..], &["plan", "add-node", "n4", "--json"]] {
            assert!(parsed(args).expect("parses").settings.json);
        }
    }
}
