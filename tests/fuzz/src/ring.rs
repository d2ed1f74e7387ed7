//! The ring: its document (`wire::ring_document`), and the ring that a gateway makes of what the database holds.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use origin::{ChangeRow, NodeRow, RingDigest, RingState, SlotRow};
use placement::ring::{MEMBERS_MAX, RingInvalid};
use placement::{
    ChangeId, Epoch, Gained, Incarnation, Member, NodeId, Phase, PinnedUsers, Pool, Ring, SLOT_COUNT, Slot, Tenure,
};
use wire::ring_document::RingDocument;

use crate::names;

/// Reads the bytes as a document, and has a gateway make one of a database made from them.
pub fn ring(data: &[u8]) {
    if let Ok(document) = serde_json::from_slice::<RingDocument>(data) {
        comes_back(&document);
        ring_of(&document);
    }
    let mut bytes = Unstructured::new(data);
    if let Ok(state) = state(&mut bytes) {
        as_a_gateway_does(&state);
    }
}

fn comes_back(document: &RingDocument) {
    let json = serde_json::to_vec(document).expect("plain structs serialise");
    assert_eq!(serde_json::from_slice::<RingDocument>(&json).ok().as_ref(), Some(document));
}

/// Members make a ring exactly if there are any, none twice, and not too many.
fn ring_of(document: &RingDocument) {
    let members: Vec<_> = document.members.iter().map(|m| Member { id: m.id.clone(), weight: m.weight }).collect();
    let ids: BTreeSet<&NodeId> = members.iter().map(|member| &member.id).collect();
    let fits = (1..=MEMBERS_MAX).contains(&members.len()) && ids.len() == members.len();
    let ring = Ring::new(document.epoch, members.clone(), |slot| members[slot.index() % members.len()].id.clone());
    assert_eq!(ring.is_ok(), fits, "{ring:?}");
    let Ok(ring) = ring else { return };
    assert!(ring.members().windows(2).all(|pair| pair[0].id < pair[1].id));
    assert!(Slot::all().all(|slot| *ring.owner(slot) == members[slot.index() % members.len()].id));
}

fn as_a_gateway_does(state: &RingState) {
    let ids: BTreeSet<&NodeId> = state.members.iter().map(|member| &member.id).collect();
    let orphan = state.slots.iter().find(|row| !ids.contains(&row.owner));
    let document = match gateway::fuzzing::ring_document(state) {
        Ok(document) => document,
        Err(RingInvalid::NoMembers) => return assert!(ids.is_empty()),
        Err(RingInvalid::TooManyMembers) => return assert!(state.members.len() > MEMBERS_MAX),
        Err(RingInvalid::DuplicateMember(_)) => return assert!(ids.len() < state.members.len()),
        Err(RingInvalid::PinnedNotInOrder) => unreachable!("no row here names a pinned user"),
        Err(RingInvalid::OwnerNotMember { slot, .. }) => return assert_eq!(Some(slot), orphan.map(|row| row.slot)),
    };
    assert!(!ids.is_empty() && ids.len() == state.members.len() && orphan.is_none());
    assert_eq!((document.epoch, document.slots), (state.digest.epoch, SLOT_COUNT));
    assert_eq!(document.members.iter().map(|member| member.slots).sum::<usize>(), SLOT_COUNT);
    assert!(document.members.iter().map(|member| &member.id).eq(ids), "sorted by name");
    for member in &document.members {
        let owned = state.slots.iter().filter(|row| row.owner == member.id).count();
        // Missing rows count for the first member of the list.
        let missing = if state.members[0].id == member.id { SLOT_COUNT - state.slots.len() } else { 0 };
        assert_eq!(member.slots, owned + missing);
    }
    comes_back(&document);
    ring_of(&document);
}

fn state(bytes: &mut Unstructured<'_>) -> Result<RingState> {
    let members = names::several(bytes, |bytes| Ok(Member { id: known(bytes)?, weight: names::weight(bytes)? }))?;
    let nodes = names::several(bytes, |bytes| {
        Ok(NodeRow {
            id: known(bytes)?,
            address: bytes.arbitrary()?,
            weight: names::weight(bytes)?,
            pool: Pool::default(),
            incarnation: Incarnation(bytes.arbitrary()?),
            lease_left_ms: bytes.arbitrary()?,
            leaving: bytes.arbitrary()?,
        })
    })?;
    let change = if bytes.arbitrary()? { Some(change(bytes)?) } else { None };
    let epoch = Epoch(bytes.arbitrary()?);
    let rows = bytes.int_in_range(0..=SLOT_COUNT)?;
    // Owners take turns; mostly members, else few rings would be any.
    let mut owners: Vec<NodeId> = members.iter().map(|member| member.id.clone()).collect();
    if owners.is_empty() || bytes.ratio(1, 8)? {
        owners.push(known(bytes)?);
    }
    let row = |slot: Slot| SlotRow {
        slot,
        owner: owners[slot.index() % owners.len()].clone(),
        tenure: Tenure(1),
        gained: Gained(1),
        l2_space: None,
        pinned: PinnedUsers::NONE,
        pool: None,
    };
    let slots = Slot::all().take(rows).map(row).collect();
    Ok(RingState { digest: RingDigest { epoch, ..RingDigest::default() }, members, slots, nodes, change })
}

/// One of a few names, so that they meet.
fn known(bytes: &mut Unstructured<'_>) -> Result<NodeId> {
    let number: u8 = bytes.int_in_range(0..=15)?;
    Ok(format!("n{number}").parse().expect("a letter and a number"))
}

fn change(bytes: &mut Unstructured<'_>) -> Result<ChangeRow> {
    let phase = *bytes.choose(&[Phase::Copy, Phase::Sealed, Phase::Flipped])?;
    let from_epoch: u64 = bytes.arbitrary()?;
    Ok(ChangeRow {
        id: ChangeId(bytes.arbitrary()?),
        action: bytes.arbitrary()?,
        from_epoch: Epoch(from_epoch),
        to_epoch: Epoch(from_epoch.saturating_add(1)),
        members: Vec::new(),
        moves: Vec::new(),
        phase,
        seal: Vec::new(),
        flip: Vec::new(),
        operator: String::new(),
        attended: true,
        reason: None,
        started_ms: 0,
        ended_ms: None,
    })
}
