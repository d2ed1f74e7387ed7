//! What happens to Redis: eviction, a restart, a replica that takes over, an old primary that is demoted; and new sessions (R1).

use crate::redis::Cell;
use crate::state::Leased;
use crate::step::{Label, Steps};

/// All steps of Redis.
pub(crate) fn steps(steps: &mut Steps<'_>) {
    if !steps.model.environment.l2 {
        return;
    }
    let two_servers = steps.model.environment.budget.failovers > 0;
    if steps.state.budget.l2_evictions > 0 {
        evict(steps);
    }
    if two_servers {
        fail_over(steps);
    }
    if steps.state.budget.redis_restarts > 0 {
        steps.step(Label::new("env", "Redis restarts empty"), |after| {
            after.budget.redis_restarts -= 1;
            after.redis.restart();
            disconnect(after, after.redis.primary);
        });
    }
    for process in steps.processes() {
        let running = &steps.state.processes[process];
        let session = steps.state.redis.connect();
        if running.up && running.session != Some(session) {
            steps.step(Label::new("R1", "forms a session with the primary").at(process), |after| {
                after.process_mut(process).session = Some(session);
            });
        }
    }
}

fn evict(steps: &mut Steps<'_>) {
    for server in 0..steps.state.redis.servers.len() {
        for space in 0..steps.state.redis.servers[server].cells.len() {
            for key in 0..steps.model.environment.keys() {
                let as_u8 = |number| u8::try_from(number).expect("few servers and spaces");
                let at = Leased { server: as_u8(server), space: as_u8(space) };
                if steps.state.redis.cell(at, key) != Cell::Empty {
                    steps.step(Label::new("env", "Redis evicts the key, or it expires"), |after| {
                        after.budget.l2_evictions -= 1;
                        *after.redis.cell_mut(at, key) = Cell::Empty;
                    });
                }
            }
        }
    }
}

fn fail_over(steps: &mut Steps<'_>) {
    let redis = &steps.state.redis;
    let other = 1 - redis.primary;
    let [first, second] = &redis.servers;
    let connected = steps.state.processes.iter().any(|process| process.session.is_some_and(|at| at.server == other));
    if first.cells != second.cells || connected {
        steps.step(Label::new("env", "the other Redis server is demoted, or copies what it lacks"), |after| {
            after.redis.copy_to_replica();
            disconnect(after, other);
        });
    }
    if connected && steps.state.budget.quiet_demotions > 0 {
        let what = "the other Redis server is demoted, and promoted within a moment: it keeps its clients";
        steps.step(Label::new("env", what), |after| {
            after.budget.quiet_demotions -= 1;
            after.redis.demote_and_promote_other();
        });
    }
    if steps.state.budget.failovers > 0 {
        steps.step(Label::new("env", "the other Redis server becomes the primary"), |after| {
            after.budget.failovers -= 1;
            after.redis.promote_replica();
        });
    }
}

/// A server that restarts closes its connections; so does one that is demoted, or it refuses their next command (A3).
fn disconnect(after: &mut crate::state::State, server: u8) {
    for process in 0..after.processes.len() {
        if after.processes[process].session.is_some_and(|session| session.server == server) {
            after.process_mut(process).session = None;
        }
    }
}
