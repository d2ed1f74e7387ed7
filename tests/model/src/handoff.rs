//! The steps of a stream (C2–C5): entries of what moves go from the old owner to the receiver.

use placement::handoff_offer::Offer;
use placement::{Incarnation, Phase};

use crate::mutation::Mutation;
use crate::pinning::LEAVES;
use crate::process::L1Entry;
use crate::state::{Content, State};
use crate::step::{Label, Model, Steps};
use crate::streams::{SenderEnd, Stream};

/// All steps of streams.
pub(crate) fn steps(steps: &mut Steps<'_>) {
    open(steps);
    if let Some(stream) = steps.state.stream {
        copy(steps, stream);
        end(steps, stream);
        trouble(steps, stream);
    }
    for process in steps.processes() {
        for slot in 0..steps.model.environment.slots {
            forget_offer(steps, process, slot);
        }
    }
}

/// C2: a stream where there is none, or where the last one is broken.
fn open(steps: &mut Steps<'_>) {
    let model = steps.model;
    let Some((id, &change)) = steps.state.database.newest_change() else { return };
    let last = steps.state.stream;
    let live = last.is_some_and(|stream| stream.change == id && stream.sender != SenderEnd::Broken);
    let number = last.map_or(0, |stream| stream.id);
    if !model.environment.streams || change.phase != Phase::Copy || live || !model.has_streams_left(number) {
        return;
    }
    let (slot, gains) = (usize::from(change.slot), usize::from(change.gains));
    for from in steps.processes() {
        for to in steps.processes() {
            let (sender, receiver) = (&steps.state.processes[from], &steps.state.processes[to]);
            let (sends, takes) = (&sender.slots[slot].hold, &receiver.slots[gains].hold);
            let fits = sender.node == change.from && sends.is_mine() && receiver.node == change.to && !takes.is_mine();
            if !fits || !sender.up || !receiver.up {
                continue;
            }
            let reign = sender.slots[slot].reign();
            steps.step(Label::new("C2", "opens a stream to the receiver").at(from), |after| {
                let as_u8 = |process| u8::try_from(process).expect("few processes");
                let stream = number + 1;
                let receiver = after.process_mut(to);
                let keeps = model.rules.lack(Mutation::ReopenedStreamKeepsReign);
                let kept = receiver.slots[gains].offer.as_ref().filter(|offer| keeps && offer.change == id);
                let offered = kept.map(|offer| offer.reign).unwrap_or_else(|| receiver.fresh_reign());
                let incarnation = Incarnation(i64::from(receiver.incarnation));
                receiver.slots[gains].offer = Some(Offer {
                    change: id,
                    stream: model.stream(stream),
                    incarnation,
                    reign: offered,
                    complete: false,
                });
                after.stream = Some(Stream {
                    id: stream,
                    change: id,
                    from: as_u8(from),
                    to: as_u8(to),
                    slot: change.slot,
                    gains: change.gains,
                    reign,
                    sender: SenderEnd::Open,
                    looked_up: None,
                });
            });
        }
    }
}

/// C4: an entry that the old owner holds.
fn copy(steps: &mut Steps<'_>, stream: Stream) {
    let (from, slot) = (usize::from(stream.from), usize::from(stream.slot));
    let sender = &steps.state.processes[from];
    if stream.sender != SenderEnd::Open || !sender.up {
        return;
    }
    if let Some(content) = stream.looked_up {
        steps.step(Label::new("C4", "appends what it has looked up").at(from).with(content), |after| {
            after.stream = Some(Stream { looked_up: None, ..stream });
            append_value(after, from, slot, LEAVES, content);
        });
        return;
    }
    let reign = sender.slots[slot].reign();
    for key in (0..sender.keys.len()).filter(|key| carries(stream, *key)) {
        let entry = sender.keys[key].l1.filter(|entry| entry.tag == reign && entry.tag == stream.reign);
        let Some(entry) = entry else { continue };
        if steps.model.rules.lack(Mutation::CopyInTwoSteps) {
            steps.step(Label::new("C4", "looks up an entry to copy").at(from).with(entry.content), |after| {
                after.stream = Some(Stream { looked_up: Some(entry.content), ..stream });
            });
        } else {
            steps.step(Label::new("C4", "copies an entry to the receiver").at(from).with(entry.content), |after| {
                append_value(after, from, slot, key, entry.content);
            });
        }
    }
}

/// Of a slot that a user leaves only that user's entries are copied (P2).
fn carries(stream: Stream, key: usize) -> bool {
    stream.slot == stream.gains || key == LEAVES
}

/// C5: the end is appended, taken, confirmed.
fn end(steps: &mut Steps<'_>, stream: Stream) {
    let model = steps.model;
    let (from, to) = (usize::from(stream.from), usize::from(stream.to));
    let sender = &steps.state.processes[from];
    let hold = &sender.slots[usize::from(stream.slot)].hold;
    match stream.sender {
        SenderEnd::Open
            if sender.up
                && hold.is_mine()
                && stream.looked_up.is_none()
                && model.is_ready(steps.state, stream.change, from) =>
        {
            let tenure = u8::try_from(hold.tenure().0).expect("few tenures");
            steps.step(Label::new("C5", "appends the end of the stream").at(from), |after| {
                after.stream = Some(Stream { sender: SenderEnd::Ended { tenure, taken: false }, ..stream });
            });
        }
        SenderEnd::Ended { tenure, taken: false } if model.offer_of(steps.state, stream).is_some() => {
            steps.step(Label::new("C5", "takes the end of the stream").at(to), |after| {
                let offer = after.process_mut(to).slots[usize::from(stream.gains)].offer.as_mut();
                offer.expect("the stream has one").complete = true;
                after.stream = Some(Stream { sender: SenderEnd::Ended { tenure, taken: true }, ..stream });
            });
        }
        SenderEnd::Ended { tenure, taken: true } => {
            steps.step(Label::new("C5", "hears that the receiver has everything").at(from), |after| {
                after.stream = Some(Stream { sender: SenderEnd::Complete { tenure }, ..stream });
            });
        }
        _ => {}
    }
}

/// C3, and an abort that the sender hears of.
fn trouble(steps: &mut Steps<'_>, stream: Stream) {
    let model = steps.model;
    let (from, to) = (usize::from(stream.from), usize::from(stream.to));
    let unconfirmed = matches!(stream.sender, SenderEnd::Open | SenderEnd::Ended { .. });
    if unconfirmed && steps.state.budget.breaks > 0 {
        steps.step(Label::new("env", "its stream breaks; the receiver has not noticed").at(from), |after| {
            after.budget.breaks -= 1;
            break_off(after, |_| true);
        });
    }
    let aborted = steps.state.database.change(stream.change).is_some_and(|change| change.phase == Phase::Aborted);
    let sealed = steps.state.processes[from].slots[usize::from(stream.slot)].hold.sealed();
    if unconfirmed && aborted && sealed.is_none() {
        steps.step(Label::new("C9", "learns that the change is aborted and ends its stream").at(from), |after| {
            break_off(after, |_| true);
        });
    }
    let incomplete = model.offer_of(steps.state, stream).is_some_and(|offer| !offer.complete);
    let forgets = incomplete && !model.rules.lack(Mutation::ReopenedStreamKeepsReign);
    if stream.sender == SenderEnd::Broken && forgets {
        steps.step(Label::new("C3", "notices that the stream is broken and forgets R'").at(to), |after| {
            after.process_mut(to).slots[usize::from(stream.gains)].offer = None;
        });
    }
}

/// Offers of a change that is over and has not given us the slot.
fn forget_offer(steps: &mut Steps<'_>, process: usize, slot: usize) {
    let Some(offer) = &steps.state.processes[process].slots[slot].offer else { return };
    let phase = steps.state.database.change(offer.change).map(|change| change.phase);
    if matches!(phase, Some(Phase::Done | Phase::Aborted)) {
        steps.step(Label::new("C9", "forgets what an ended change has offered").at(process), |after| {
            after.process_mut(process).slots[slot].offer = None;
        });
    }
}

/// W5, G5, C4: the value comes to the receiver, under R'.
pub(crate) fn append_value(after: &mut State, process: usize, slot: usize, key: usize, content: Content) {
    receive(after, process, slot, key, Some(content));
}

/// C4: the same step with the stream's queue so long that the value is left out of it.
pub(crate) fn leave_out(steps: &mut Steps<'_>, process: usize, label: Label, change: impl FnOnce(&mut State)) {
    let open = |stream: &Stream| usize::from(stream.from) == process && stream.sender == SenderEnd::Open;
    let Some(stream) = steps.state.stream.filter(open).filter(|_| steps.state.budget.left_out > 0) else { return };
    steps.step(label, |after| {
        after.budget.left_out -= 1;
        after.stream = None;
        change(after);
        after.stream = Some(stream);
    });
}

/// W1: the receiver forgets the entry.
pub(crate) fn append_invalidate(after: &mut State, process: usize, slot: usize, key: usize) {
    receive(after, process, slot, key, None);
}

fn receive(after: &mut State, process: usize, slot: usize, key: usize, content: Option<Content>) {
    let of_it = |stream: &Stream| usize::from(stream.slot) == slot && carries(*stream, key);
    let Some(stream) = after.stream.filter(of_it) else { return };
    let to = usize::from(stream.to);
    if usize::from(stream.from) != process || stream.sender != SenderEnd::Open || !after.processes[to].up {
        return;
    }
    let offer = after.processes[to].slots[usize::from(stream.gains)].offer.as_ref();
    let Some(tag) = offer.filter(|offer| is_of(offer, stream)).map(|offer| offer.reign) else { return };
    after.process_mut(to).keys[key].l1 = content.map(|content| L1Entry { content, tag });
}

fn is_of(offer: &Offer, stream: Stream) -> bool {
    offer.stream.parse() == Ok(stream.id)
}

/// The streams that it holds of break, unless they are complete.
pub(crate) fn break_off(after: &mut State, holds: impl Fn(&Stream) -> bool) {
    if let Some(stream) = &mut after.stream
        && holds(stream)
        && !matches!(stream.sender, SenderEnd::Complete { .. })
    {
        stream.sender = SenderEnd::Broken;
        stream.looked_up = None;
    }
}

/// A process goes: what it sent or received and is not complete is broken.
pub(crate) fn break_streams_of(after: &mut State, process: usize) {
    break_off(after, |stream| usize::from(stream.from) == process || usize::from(stream.to) == process);
}

/// C3: the slot is lost at the sender, or begins a new reign there.
pub(crate) fn end_of_reign(model: &Model, after: &mut State, process: usize, slot: usize) {
    let of_it = |stream: &Stream| usize::from(stream.from) == process && usize::from(stream.slot) == slot;
    if !model.rules.lack(Mutation::StreamOutlivesReign) {
        break_off(after, of_it);
    } else if let Some(stream) = &mut after.stream
        && of_it(stream)
    {
        stream.reign = after.processes[process].slots[slot].reign();
    }
}

impl Model {
    /// What the receiver has of the stream.
    fn offer_of<'a>(&self, state: &'a State, stream: Stream) -> Option<&'a Offer> {
        let receiver = &state.processes[usize::from(stream.to)];
        receiver.slots[usize::from(stream.gains)].offer.as_ref().filter(|offer| is_of(offer, stream))
    }
}
