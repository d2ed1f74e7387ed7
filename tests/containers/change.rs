//! One change of the ring, by a migrator in a container of its own that may be killed on its way.

use std::time::Duration;

use serde::Deserialize;
use tests::chaos::ring_change::{Ending, Verb};
use tests::poll::until;
use tokio::time::sleep;

use crate::engine::docker;
use crate::fault::NODES;
use crate::inflict::Inflicted;
use crate::stack::Stack;

/// How long a migrator's container may take until it runs.
const STARTS_BOUND: Duration = Duration::from_secs(30);
/// Members that are left in the ring, whatever is removed.
const MEMBERS_MIN: usize = 2;
/// Weights that a member is given.
const WEIGHTS: [u64; 4] = [50, 100, 150, 200];

/// A member as the ledger has it.
#[derive(Debug, Deserialize)]
struct Member {
    id: String,
}

/// What a migrator is asked for, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) verb: Verb,
    pub(crate) pick: usize,
    pub(crate) ending: Ending,
    /// How long it runs before it is killed.
    pub(crate) lasting: Duration,
}

impl Change {
    /// Runs it to whatever end: a change may well fail while other faults go on.
    pub(crate) async fn run(self, stack: &Stack, inflicted: &Inflicted, number: usize) -> anyhow::Result<()> {
        let newest = "SELECT members FROM ring_epochs ORDER BY epoch DESC LIMIT 1";
        // Without a database there is no change.
        let Ok(members) = stack.sql(newest).await else { return Ok(()) };
        let members: Vec<Member> = serde_json::from_str(&members)?;
        let Some(args) = self.args(&members) else { return Ok(()) };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let name = stack.migrator_name(number);
        let kill = async {
            if self.ending != Ending::Left {
                kill_when_it_runs(&name, self.lasting).await;
            }
        };
        let (ended, ()) = tokio::join!(stack.migrator(&name, &args), kill);
        inflicted.keep(&args.join(" "), &ended?);
        let after = match self.ending {
            Ending::Left | Ending::Killed => return Ok(()),
            Ending::Resumed => "resume",
            Ending::Aborted => "abort",
        };
        inflicted.keep(after, &stack.migrator(&format!("{name}-{after}"), &[after]).await?);
        Ok(())
    }

    /// The verb with nodes it can be done to; `None` when there are none.
    fn args(self, members: &[Member]) -> Option<Vec<String>> {
        let member = &members.get(self.pick % members.len().max(1))?.id;
        let nodes = (1..=NODES).map(|node| format!("cache-node-{node}"));
        let standbys: Vec<_> = nodes.filter(|node| members.iter().all(|member| member.id != *node)).collect();
        let standby = standbys.get(self.pick % standbys.len().max(1));
        let args = match self.verb {
            Verb::Add => vec!["add-node", standby?],
            Verb::Remove if members.len() <= MEMBERS_MIN => return None,
            Verb::Remove => vec!["remove-node", member],
            Verb::Replace => vec!["replace-node", member, standby?],
            Verb::Reweigh => {
                let weight = WEIGHTS[self.pick % WEIGHTS.len()].to_string();
                return Some(vec!["set-weight".to_owned(), member.clone(), weight]);
            }
        };
        Some(args.into_iter().map(str::to_owned).collect())
    }
}

/// A migrator that has ended by itself before cannot be killed, which is as good.
async fn kill_when_it_runs(name: &str, after: Duration) {
    let runs = until(STARTS_BOUND, async || {
        let state = docker(&["inspect", "--format", "{{.State.Running}}", name]).await;
        state.is_ok_and(|state| state.stdout == "true").then_some(())
    });
    if runs.await.is_some() {
        sleep(after).await;
        let _ = docker(&["kill", name]).await;
    }
}
