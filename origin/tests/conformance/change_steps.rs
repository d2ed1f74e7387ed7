//! The journal's compare-and-sets allow exactly what `placement::change::step` allows.

use origin::{AbortOutcome, BeginOutcome, FlipOutcome};
use placement::change::step::{Event, step};
use placement::{ChangeId, Incarnation, Phase};

use crate::fixture::{Fixture, moving};

crate::on_both!(an_event_is_journaled_in_the_phases_of_the_state_machine_and_in_no_other);

/// The events that lead to the phase.
fn path_to(phase: Phase) -> &'static [Event] {
    match phase {
        Phase::Copy => &[],
        Phase::Sealed => &[Event::Sealed],
        Phase::Flipped => &[Event::Sealed, Event::Flipped],
        Phase::Done => &[Event::Sealed, Event::Flipped, Event::Released],
        Phase::Aborted => &[Event::GivenUp],
    }
}

/// A change of one slot, and the processes that take part.
struct Change<'a> {
    f: &'a Fixture,
    id: ChangeId,
    slot: u16,
    incarnations: [Incarnation; 3],
}

impl Change<'_> {
    async fn begin<'a>(f: &'a Fixture, slot: u16, incarnations: [Incarnation; 3]) -> Change<'a> {
        let epoch = f.origin.epoch().await.expect("an epoch");
        match f.origin.begin_change(&moving(epoch.0, &[slot])).await.expect("an answer") {
            BeginOutcome::Begun(id) => Change { f, id, slot, incarnations },
            other => panic!("not begun: {other:?}"),
        }
    }

    /// Whether the event changed the journal.
    async fn journaled(&self, event: Event) -> bool {
        let origin = &self.f.origin;
        match event {
            Event::Sealed => {
                let seal = self.f.seal_list(&[self.slot], self.incarnations).await;
                origin.record_seal(self.id, &seal).await.expect("an answer")
            }
            Event::Flipped => match origin.flip_change(self.id).await.expect("an answer") {
                FlipOutcome::Flipped { .. } => true,
                FlipOutcome::NotSealed(_) => false,
                FlipOutcome::Refused(reason) => panic!("refused: {reason}"),
            },
            Event::Released => origin.finish_change(self.id).await.expect("an answer"),
            Event::GivenUp => origin.abort_change(self.id, "test").await.expect("an answer") == AbortOutcome::Aborted,
        }
    }

    async fn phase(&self) -> Phase {
        self.f.origin.change(self.id).await.expect("a read").expect("a change").phase
    }

    /// So that the next one can begin.
    async fn end(&self) {
        let way_out: &[Event] = match self.phase().await {
            Phase::Copy | Phase::Sealed => &[Event::GivenUp],
            Phase::Flipped => &[Event::Released],
            Phase::Done | Phase::Aborted => &[],
        };
        for &event in way_out {
            assert!(self.journaled(event).await);
        }
    }
}

async fn an_event_is_journaled_in_the_phases_of_the_state_machine_and_in_no_other(f: &Fixture) {
    let incarnations = f.ring().await;
    let cases = Phase::ALL.into_iter().flat_map(|phase| Event::ALL.map(|event| (phase, event)));
    for (slot, (phase, event)) in (100..).zip(cases) {
        let change = Change::begin(f, slot, incarnations).await;
        for &event in path_to(phase) {
            assert!(change.journaled(event).await, "{event:?} on the way to {phase:?}");
        }
        let expected = step(phase, event).map(|(next, _)| next);
        assert_eq!(change.journaled(event).await, expected.is_some(), "{event:?} in {phase:?}");
        assert_eq!(change.phase().await, expected.unwrap_or(phase), "after {event:?} in {phase:?}");
        change.end().await;
    }
}
