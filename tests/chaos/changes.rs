//! Changes of the ring by operators' migrators, some of which are killed.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tests::chaos::ring_change::{Ending, Verb};
use tests::http::send;
use tests::processes::Process;

use crate::fault::{NODES, node_name};
use crate::stage::Stage;

/// No change leaves fewer members.
const MEMBERS_MIN: usize = 3;
/// The most migrators of operators at a time; the oldest is killed for another one.
const OPERATORS_MAX: usize = 4;
/// How long a gateway may take to say what the ring is, before a change is left out.
const RING_BOUND: Duration = Duration::from_secs(1);

impl Stage {
    /// Starts a change of the ring as a gateway sees it now; the ring may be another when the migrator looks.
    pub(crate) async fn begin_change(&mut self, verb: Verb, pick: usize) {
        let door = &self.doors[pick % self.doors.len()];
        let ring = send(door.request(Method::GET, "anyone", "/v1/ring").timeout(RING_BOUND)).await;
        let Some(members) = ring.ok().filter(|ring| ring.status == 200).and_then(|ring| members(&ring.json())) else {
            return self.note("changes without a ring");
        };
        let args = command(verb, pick, &members);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        self.operate(&args);
    }

    pub(crate) fn end_change(&mut self, ending: Ending) {
        if ending == Ending::Left {
            return;
        }
        self.operators.retain_mut(Process::is_running);
        if self.operators.pop().is_some() {
            self.note("migrators killed");
        }
        match ending {
            Ending::Left | Ending::Killed => {}
            Ending::Resumed => self.operate(&["resume"]),
            Ending::Aborted => self.operate(&["abort"]),
        }
    }

    fn operate(&mut self, args: &[&str]) {
        self.operators.retain_mut(Process::is_running);
        if self.operators.len() >= OPERATORS_MAX {
            self.operators.remove(0);
        }
        self.operators.push(self.cluster.start_migrator(args));
    }
}

/// The names of the members, of which there are some.
fn members(ring: &Value) -> Option<Vec<String>> {
    let members = ring["members"].as_array()?.iter().filter_map(|member| member["id"].as_str().map(str::to_owned));
    Some(members.collect::<Vec<_>>()).filter(|members| !members.is_empty())
}

/// The migrator's arguments.
fn command(verb: Verb, pick: usize, members: &[String]) -> Vec<String> {
    let standbys: Vec<_> = (0..NODES).map(node_name).filter(|name| !members.contains(name)).collect();
    let member = members[pick % members.len()].clone();
    let standby = standbys.get(pick % standbys.len().max(1)).cloned();
    let remove = vec!["remove-node".to_owned(), member.clone()];
    let mut args = match (verb, standby) {
        (Verb::Replace, Some(standby)) => vec!["replace-node".to_owned(), member, standby],
        (Verb::Add, Some(standby)) => vec!["add-node".to_owned(), standby],
        (Verb::Remove, Some(standby)) if members.len() <= MEMBERS_MIN => vec!["add-node".to_owned(), standby],
        (Verb::Remove, _) | (Verb::Add, None) => remove,
        (Verb::Reweigh | Verb::Replace, _) => {
            vec!["set-weight".to_owned(), member, (50 + pick % 150).to_string()]
        }
    };
    // Every fourth starts its new owners cold.
    args.extend(pick.is_multiple_of(4).then(|| "--cold".to_owned()));
    args
}

mod checks {
    use super::*;

    #[test]
    fn a_change_fits_the_ring_it_is_made_for() {
        let all: Vec<_> = (0..NODES).map(node_name).collect();
        for pick in 0..100 {
            assert_eq!(command(Verb::Add, pick, &all)[0], "remove-node");
            assert_eq!(command(Verb::Remove, pick, &all[..MEMBERS_MIN])[0], "add-node");
            let replaced = command(Verb::Replace, pick, &all[..4]);
            assert!(all[..4].contains(&replaced[1]) && all[4..].contains(&replaced[2]), "{replaced:?}");
            assert_eq!(command(Verb::Reweigh, pick, &all)[0], "set-weight");
        }
    }
}
