//! What the migrator asks of an old owner: copy slots, and end the streams once the slots are sealed (protocol C2, C5).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use placement::{ChangeId, Phase, Slot, Tenure};
use tokio::time::{Instant, timeout_at};
use wire::control::{CompleteStream, CopyReceiver, CopyReport, CopyRequest, SealedTenure};

use super::{Outgoing, copy, send};
use crate::limits;
use crate::node::Node;

/// Why slots cannot be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyRefused {
    /// The slot is not ours.
    NotOwner(Slot),
    /// A later change is under way.
    Outdated(ChangeId),
}

impl Node {
    /// Has one stream to each receiver, opening those that are missing or broken, and says how far they are. A broken one is
    /// reported once more before its successor is.
    pub(crate) fn copy(self: &Arc<Self>, change: ChangeId, request: &CopyRequest) -> Result<CopyReport, CopyRefused> {
        let mut streams = self.handoff.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(later) = streams.iter().find(|stream| stream.change > change) {
            return Err(CopyRefused::Outdated(later.change));
        }
        self.handoff.rate.set(request.max_bytes_per_second);
        streams.retain(|stream| {
            if stream.change != change {
                stream.break_off("another ring change has begun");
            }
            stream.change == change
        });
        let mut reports = Vec::with_capacity(request.receivers.len());
        for receiver in &request.receivers {
            let known = streams.iter().position(|stream| stream.receiver == receiver.node);
            let report = known.map(|index| streams[index].report());
            if known.is_none_or(|index| streams[index].is_broken()) {
                let opened = self.open_stream(change, receiver)?;
                match known {
                    Some(index) => streams[index] = Arc::clone(&opened),
                    None => streams.push(Arc::clone(&opened)),
                }
                reports.push(report.unwrap_or_else(|| opened.report()));
            } else {
                reports.extend(report);
            }
        }
        drop(streams);
        let incarnation = self.status.incarnation();
        Ok(CopyReport { node: self.config.node_id.clone(), incarnation, streams: reports })
    }

    fn open_stream(self: &Arc<Self>, change: ChangeId, receiver: &CopyReceiver) -> Result<Arc<Outgoing>, CopyRefused> {
        let mut reigns = HashMap::with_capacity(receiver.slots.len());
        for &slot in &receiver.slots {
            let state = self.slots.lock(slot);
            if !state.hold.is_mine() {
                return Err(CopyRefused::NotOwner(slot));
            }
            reigns.insert(slot, state.hold.reign());
        }
        let id = format!("{:032x}", rand::random::<u128>());
        let (node, address) = (receiver.node.clone(), receiver.address.clone());
        let stream = Arc::new(Outgoing::new(id, change, node, address, reigns, receiver.leaves.clone()));
        for (&slot, &reign) in &stream.slots {
            let mut state = self.slots.lock(slot);
            if state.hold.reign() == reign {
                state.stream = Some(Arc::clone(&stream));
            } else {
                stream.break_off("a slot got another reign meanwhile");
            }
        }
        self.handoff.tasks.spawn(send::run(Arc::clone(self), Arc::clone(&stream)));
        self.handoff.tasks.spawn(copy::run(Arc::clone(self), Arc::clone(&stream)));
        Ok(stream)
    }

    /// Ends the streams of the change and answers those whose receivers have everything. The slots of the others start cold.
    pub(crate) async fn end_streams(&self, change: ChangeId, sealed: &[SealedTenure]) -> Vec<CompleteStream> {
        let tenures: HashMap<Slot, Tenure> = sealed.iter().map(|sealed| (sealed.slot, sealed.tenure)).collect();
        let streams: Vec<_> = self.handoff.streams().into_iter().filter(|stream| stream.change == change).collect();
        for stream in &streams {
            let mut ends: Vec<SealedTenure> = Vec::with_capacity(stream.slots.len());
            for slot in stream.slots.keys() {
                let gained = stream.gained_slot(*slot);
                ends.extend(tenures.get(slot).map(|tenure| SealedTenure { slot: gained, tenure: *tenure }));
            }
            ends.sort_unstable_by_key(|end| end.slot);
            if ends.len() == stream.slots.len() {
                stream.append_end(ends);
            } else {
                stream.break_off("a slot of it is not sealed");
            }
        }
        let deadline = Instant::now() + limits::HANDOFF_END;
        let mut complete = Vec::with_capacity(streams.len());
        for stream in streams {
            match timeout_at(deadline, stream.complete()).await {
                Ok(true) => complete.push(CompleteStream {
                    stream: stream.id.clone(),
                    receiver: stream.receiver.clone(),
                    slots: stream.slots.keys().copied().collect(),
                }),
                Ok(false) => {}
                Err(_) => stream.break_off("the receiver did not confirm the end in time"),
            }
        }
        complete
    }

    /// Ends the streams of changes that are aborted: their slots are not sealed, so nothing else tells.
    pub(crate) fn drop_streams(&self, change: ChangeId, phase: Phase) {
        if phase == Phase::Aborted {
            for stream in self.handoff.streams().iter().filter(|stream| stream.change == change) {
                stream.abort();
            }
        }
        if matches!(phase, Phase::Aborted | Phase::Done) {
            let mut streams = self.handoff.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.retain(|stream| stream.change != change);
        }
    }

    /// The changes that streams are open for. Streams whose slots are the receivers' are forgotten.
    pub(crate) fn streamed_changes(&self) -> Vec<ChangeId> {
        let mut streams = self.handoff.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|stream| !stream.is_over());
        let mut changes: Vec<ChangeId> = streams.iter().map(|stream| stream.change).collect();
        changes.dedup();
        changes
    }
}
