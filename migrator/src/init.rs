//! `init`: the first ring. Idempotent, since a deployment may run it at every start.

use std::collections::BTreeSet;
use std::time::Duration;

use origin::{InitOutcome, NodeRow, Origin};
use placement::ring::RingInvalid;
use placement::{Epoch, Member, NodeId, Ring, ring_points};

use crate::exit::Failure;
use crate::phases::add_node::wait_registered;
use crate::plan::{PlanRefused, joining};
use crate::progress::Progress;

/// The epoch that `init` makes.
const FIRST_EPOCH: Epoch = Epoch(1);

/// What `init` found or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// Epoch 1 is there now.
    Created(Epoch),
    /// There was a ring already, whoever its members are; nothing was changed.
    Already(Epoch),
}

/// Makes epoch 1 of these nodes once all are registered, each with the weight it was started with.
pub async fn init(
    origin: &Origin,
    ids: &[NodeId],
    wait: Duration,
    progress: &Progress,
) -> Result<Initialised, Failure> {
    if let Some(twice) = first_duplicate(ids) {
        return Err(Failure::Usage(format!("--nodes names {twice} twice")));
    }
    origin.migrate().await?;
    let epoch = origin.epoch().await?;
    if epoch != Epoch(0) {
        return Ok(Initialised::Already(epoch));
    }
    let rows = wait_registered(origin, ids, wait, progress).await?;
    for id in ids {
        joining(&rows, id)?;
    }
    let ring = first_ring(&rows)?;
    match origin.init_ring(&ring).await? {
        InitOutcome::Created => Ok(Initialised::Created(FIRST_EPOCH)),
        InitOutcome::Exists { epoch, .. } => Ok(Initialised::Already(epoch)),
    }
}

/// The nodes of pool `shared` share the slots; those of other pools own none before a user is assigned to them.
fn first_ring(rows: &[NodeRow]) -> Result<Ring, PlanRefused> {
    let invalid = |invalid: RingInvalid| PlanRefused::Invalid(invalid.into());
    let member = |row: &NodeRow| Member { id: row.id.clone(), weight: row.weight };
    let shared: Vec<Member> = rows.iter().filter(|row| row.pool.is_shared()).map(member).collect();
    if shared.is_empty() {
        return Err(PlanRefused::NoneShared);
    }
    let table = ring_points::compile(FIRST_EPOCH, shared).map_err(invalid)?;
    Ring::new(FIRST_EPOCH, rows.iter().map(member).collect(), |slot| table.owner(slot).clone()).map_err(invalid)
}

fn first_duplicate(ids: &[NodeId]) -> Option<&NodeId> {
    let mut seen = BTreeSet::new();
    ids.iter().find(|id| !seen.insert(*id))
}
