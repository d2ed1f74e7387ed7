//! From rows as both databases give them to checked types; what cannot be checked in is "corrupt".

use std::collections::BTreeMap;

use bytes::Bytes;
use placement::ring::SlotMove;
use placement::{
    ChangeId, Epoch, Gained, Incarnation, Member, NodeId, Phase, PinnedUser, PinnedUsers, Pool, SLOT_COUNT, Slot,
    Tenure, Weight,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::entries::{EntryInfo, Version};

use crate::change_journal::{ChangeRow, NewChange, SealedSlot};
use crate::controller::{ControllerRow, Term};
use crate::entries::StoredEntry;
use crate::error::OriginError;
use crate::leases::NodeRow;
use crate::ring_ledger::{EpochRow, RingDigest};
use crate::slots::SlotRow;

fn corrupt(what: &str) -> OriginError {
    OriginError::Corrupt(what.to_owned())
}

pub(crate) fn node_id(name: String) -> Result<NodeId, OriginError> {
    name.parse().map_err(|_| corrupt("a node name that is none"))
}

pub(crate) fn slot(number: i32) -> Result<Slot, OriginError> {
    u16::try_from(number).ok().and_then(|n| Slot::try_from(n).ok()).ok_or_else(|| corrupt("a slot out of range"))
}

pub(crate) fn slot_number(slot: Slot) -> i32 {
    i32::from(slot.number())
}

pub(crate) fn epoch(number: i64) -> Result<Epoch, OriginError> {
    u64::try_from(number).map(Epoch).map_err(|_| corrupt("an epoch below 0"))
}

/// An epoch as the databases store it.
pub(crate) fn epoch_number(epoch: Epoch) -> i64 {
    i64::try_from(epoch.0).unwrap_or(i64::MAX)
}

pub(crate) fn phase(name: &str) -> Result<Phase, OriginError> {
    match name {
        "copy" => Ok(Phase::Copy),
        "sealed" => Ok(Phase::Sealed),
        "flipped" => Ok(Phase::Flipped),
        "done" => Ok(Phase::Done),
        "aborted" => Ok(Phase::Aborted),
        _ => Err(corrupt("a phase that is none")),
    }
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, OriginError> {
    serde_json::from_str(text).map_err(|_| OriginError::Corrupt(format!("{what} that cannot be read")))
}

/// For lists of plain structs, which cannot fail to serialise.
pub(crate) fn to_json<T: Serialize>(list: &[T]) -> String {
    serde_json::to_string(list).expect("plain structs with string keys serialise")
}

pub(crate) fn sorted(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by(|a, b| a.id.cmp(&b.id));
    members
}

/// `value, content_type, cache_control, version`
pub(crate) type EntryTuple = (Vec<u8>, String, Option<String>, i64);

pub(crate) fn entry((value, content_type, cache_control, version): EntryTuple) -> StoredEntry {
    StoredEntry { value: Bytes::from(value), content_type, cache_control, version: Version(version) }
}

/// `place, value, content_type, cache_control, version`: an entry and which of the names asked for is its.
pub(crate) type PlacedTuple = (i64, Vec<u8>, String, Option<String>, i64);

/// Puts rows found in any order into the order of the names asked for, `first` being the place of the first of them.
pub(crate) fn at_their_places(
    asked: usize,
    first: i64,
    rows: Vec<PlacedTuple>,
) -> Result<Vec<Option<StoredEntry>>, OriginError> {
    let mut found = vec![None; asked];
    for (place, value, content_type, cache_control, version) in rows {
        let place = usize::try_from(place - first).ok().and_then(|place| found.get_mut(place));
        *place.ok_or_else(|| corrupt("a row that was not asked for"))? =
            Some(entry((value, content_type, cache_control, version)));
    }
    Ok(found)
}

/// `key, version, size, content_type, updated_ms`
pub(crate) type InfoTuple = (String, i64, i64, String, i64);

pub(crate) fn entry_info((key, version, size, content_type, updated_ms): InfoTuple) -> EntryInfo {
    let size = u64::try_from(size).unwrap_or(0);
    EntryInfo { key, version: Version(version), size, content_type, updated_ms }
}

/// `slot, owner, tenure, gained, l2space, pinned, pool`
pub(crate) type SlotTuple = (i32, String, i64, i64, Option<String>, Option<String>, Option<String>);

pub(crate) fn slot_row(
    (number, owner, tenure, gained, l2_space, pinned, pool): SlotTuple,
) -> Result<SlotRow, OriginError> {
    let pinned = pinned.map_or(Ok(PinnedUsers::NONE), |list| list.parse());
    Ok(SlotRow {
        slot: slot(number)?,
        owner: node_id(owner)?,
        tenure: Tenure(tenure),
        gained: Gained(gained),
        l2_space,
        pinned: pinned.map_err(|_| corrupt("a list of pinned users that is none"))?,
        pool: pool.map(pool_of).transpose()?,
    })
}

pub(crate) fn pool_of(name: String) -> Result<Pool, OriginError> {
    name.parse().map_err(|_| corrupt("a pool's name that is none"))
}

/// Rows in slot order.
pub(crate) fn slot_rows(tuples: Vec<SlotTuple>) -> Result<Vec<SlotRow>, OriginError> {
    let mut rows = tuples.into_iter().map(slot_row).collect::<Result<Vec<_>, _>>()?;
    rows.sort_by_key(|row| row.slot);
    Ok(rows)
}

/// `slot, owner, tenure, gained, l2space, pinned, pool` of many rows, each a list; no lists for no rows.
pub(crate) type SlotColumns = (
    Option<Vec<i32>>,
    Option<Vec<String>>,
    Option<Vec<i64>>,
    Option<Vec<i64>>,
    Option<Vec<Option<String>>>,
    Option<Vec<Option<String>>>,
    Option<Vec<Option<String>>>,
);

/// The rows of such lists, in slot order.
pub(crate) fn slot_columns(
    (slots, owners, tenures, gains, l2_spaces, pinned, pools): SlotColumns,
) -> Result<Vec<SlotRow>, OriginError> {
    let (slots, owners, tenures) = (slots.unwrap_or_default(), owners.unwrap_or_default(), tenures.unwrap_or_default());
    let (gains, l2_spaces) = (gains.unwrap_or_default(), l2_spaces.unwrap_or_default());
    let (pinned, pools) = (pinned.unwrap_or_default(), pools.unwrap_or_default());
    let lengths = [owners.len(), tenures.len(), gains.len(), l2_spaces.len(), pinned.len(), pools.len()];
    if lengths != [slots.len(); 6] {
        return Err(corrupt("lists of slots of different lengths"));
    }
    let texts = l2_spaces.into_iter().zip(pinned.into_iter().zip(pools));
    let rest = owners.into_iter().zip(tenures).zip(gains.into_iter().zip(texts));
    let tuple = |(slot, ((owner, tenure), (gained, (space, (pinned, pool)))))| {
        (slot, owner, tenure, gained, space, pinned, pool)
    };
    slot_rows(slots.into_iter().zip(rest).map(tuple).collect())
}

/// The rows of a whole ring: every slot by hash once, and the users' own from there on without a gap.
pub(crate) fn whole_slot_table(tuples: Vec<SlotTuple>) -> Result<Vec<SlotRow>, OriginError> {
    whole(slot_rows(tuples)?)
}

/// The same of rows that are sorted already.
pub(crate) fn whole(rows: Vec<SlotRow>) -> Result<Vec<SlotRow>, OriginError> {
    let in_place = rows.iter().enumerate().all(|(place, row)| row.slot.index() == place);
    if rows.len() >= SLOT_COUNT && in_place { Ok(rows) } else { Err(corrupt("a ring without all of its slots")) }
}

/// `id, addr, weight, incarnation, lease_left_ms, leaving, pool`
pub(crate) type NodeTuple = (String, String, i32, i64, i64, bool, String);

pub(crate) fn node_row(
    (id, address, weight, incarnation, left, leaving, pool): NodeTuple,
) -> Result<NodeRow, OriginError> {
    let weight = u32::try_from(weight).ok().and_then(|w| Weight::try_from(w).ok());
    Ok(NodeRow {
        id: node_id(id)?,
        address,
        weight: weight.ok_or_else(|| corrupt("a weight out of range"))?,
        pool: pool_of(pool)?,
        incarnation: Incarnation(incarnation),
        lease_left_ms: u64::try_from(left).unwrap_or(0),
        leaving,
    })
}

pub(crate) fn node_rows(tuples: Vec<NodeTuple>) -> Result<Vec<NodeRow>, OriginError> {
    let mut rows = tuples.into_iter().map(node_row).collect::<Result<Vec<_>, _>>()?;
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(rows)
}

/// `epoch, gained_sum, incarnation_sum, change_id, change_phase`
pub(crate) type DigestTuple = (i64, i64, i64, Option<i64>, Option<String>);

pub(crate) fn digest((number, gained_sum, incarnation_sum, id, name): DigestTuple) -> Result<RingDigest, OriginError> {
    let change = match (id, name) {
        (Some(id), Some(name)) => Some((ChangeId(id), phase(&name)?)),
        _ => None,
    };
    Ok(RingDigest { epoch: epoch(number)?, gained_sum, incarnation_sum, change })
}

/// `epoch, members, change_id, created_ms`
pub(crate) type EpochTuple = (i64, String, Option<i64>, i64);

pub(crate) fn epoch_row((number, members, change, created_ms): EpochTuple) -> Result<EpochRow, OriginError> {
    let members = from_json(&members, "members")?;
    Ok(EpochRow { epoch: epoch(number)?, members, change: change.map(ChangeId), created_ms })
}

/// A change as stored; both databases select these columns under these names.
#[derive(sqlx::FromRow)]
pub(crate) struct ChangeRecord {
    id: i64,
    action: String,
    from_epoch: i64,
    to_epoch: i64,
    members: String,
    moves: String,
    phase: String,
    seal: String,
    flip: String,
    operator: String,
    attended: bool,
    reason: Option<String>,
    started_ms: i64,
    ended_ms: Option<i64>,
}

pub(crate) fn change_row(record: ChangeRecord) -> Result<ChangeRow, OriginError> {
    Ok(ChangeRow {
        id: ChangeId(record.id),
        from_epoch: epoch(record.from_epoch)?,
        to_epoch: epoch(record.to_epoch)?,
        members: from_json(&record.members, "members")?,
        moves: from_json(&record.moves, "moves")?,
        phase: phase(&record.phase)?,
        seal: from_json(&record.seal, "a seal list")?,
        flip: from_json(&record.flip, "a flip list")?,
        action: record.action,
        operator: record.operator,
        attended: record.attended,
        reason: record.reason,
        started_ms: record.started_ms,
        ended_ms: record.ended_ms,
    })
}

/// The members of a change about to begin, as stored.
pub(crate) fn change_members(change: &NewChange) -> String {
    to_json(&sorted(change.members.clone()))
}

/// `holder, term, left_ms, note`
pub(crate) type ControllerTuple = (String, i64, i64, String);

pub(crate) fn controller_row((holder, term, left, note): ControllerTuple) -> ControllerRow {
    ControllerRow { holder, term: Term(term), left_ms: u64::try_from(left).unwrap_or(0), note }
}

/// Slots with their new tenures, in slot order.
pub(crate) fn flip_list(tuples: Vec<(i32, i64)>) -> Result<Vec<(Slot, Tenure)>, OriginError> {
    let mut flip = tuples
        .into_iter()
        .map(|(number, tenure)| Ok((slot(number)?, Tenure(tenure))))
        .collect::<Result<Vec<_>, OriginError>>()?;
    flip.sort_unstable();
    Ok(flip)
}

/// Whether a seal list names exactly the moves of its change; if not, why the flip is refused.
pub(crate) fn seal_covers_moves(seal: &[SealedSlot], moves: &[SlotMove]) -> Result<(), String> {
    let planned: BTreeMap<Slot, (&NodeId, &NodeId)> = moves.iter().map(|m| (m.slot, (&m.from, &m.to))).collect();
    let sealed: BTreeMap<Slot, (&NodeId, &NodeId)> = seal.iter().map(|s| (s.slot, (&s.owner, &s.receiver))).collect();
    let same = planned == sealed && seal.len() == moves.len() && planned.len() == moves.len();
    if same { Ok(()) } else { Err("the seal list is not the list of planned moves".to_owned()) }
}

/// What a change is about that takes a user out of its slot.
pub(crate) struct LeavingUser<'a> {
    pub(crate) home: &'a SealedSlot,
    pub(crate) user: &'a PinnedUser,
    pub(crate) pool: Pool,
}

/// The user that a change takes out of its slot, with the line of the seal, where it is about that alone; if it is about other
/// moves too, why the flip is refused.
pub(crate) fn leaving_user<'a>(
    seal: &'a [SealedSlot],
    moves: &'a [SlotMove],
) -> Result<Option<LeavingUser<'a>>, String> {
    let leaving = moves.iter().find_map(|moving| moving.leaves.as_ref().map(|user| (user, moving.pool.as_ref())));
    match (leaving, seal) {
        (None, _) => Ok(None),
        (Some((user, pool)), [home]) if moves.len() == 1 => {
            Ok(Some(LeavingUser { home, user, pool: pool.cloned().unwrap_or_default() }))
        }
        _ => Err("a user that leaves its slot moves alone".to_owned()),
    }
}

/// Slots of single users that come to another pool.
pub(crate) fn new_pools(moves: &[SlotMove]) -> impl Iterator<Item = (Slot, &Pool)> {
    moves.iter().filter_map(|moving| moving.pool.as_ref().map(|pool| (moving.gained_slot(), pool)))
}

/// Whether every receiver of a seal list still is the process it was, with a lease; if not, why the flip is refused.
pub(crate) fn receivers_hold(seal: &[SealedSlot], leased: &[(NodeId, Incarnation)]) -> Result<(), String> {
    let leased: BTreeMap<&NodeId, Incarnation> = leased.iter().map(|(id, incarnation)| (id, *incarnation)).collect();
    for line in seal {
        match leased.get(&line.receiver) {
            None => return Err(format!("{} has no lease any more", line.receiver)),
            Some(now) if *now != line.receiver_incarnation => {
                return Err(format!("{} has restarted since the seal", line.receiver));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
