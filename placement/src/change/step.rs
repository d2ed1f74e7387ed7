//! The ring change as a state machine: what each phase asks its driver to do, and which event leads to which phase (C1–C10).
//!
//! Pure. The journal's compare-and-sets are held equal to [`step`] by a test on both databases; an event that does not fit
//! the phase is refused there as here, and the driver reads the journal again.

use super::Phase;

/// What happens to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The moving slots are sealed and drained, and the list of seals is complete (C5).
    Sealed,
    /// The new owners, tenures and epoch are committed (C6).
    Flipped,
    /// All old owners have confirmed (C10).
    Released,
    /// Somebody gives it up: an operator, a driver after a failure, a node sealed for too long, a takeover (C9, L3).
    GivenUp,
}

/// What a driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Fill the receivers, then seal and drain the moving slots.
    CopyAndSeal,
    /// Flip, in one transaction.
    Flip,
    /// Have the old owners let go.
    ExpireOld,
    /// Nothing: the ring has changed.
    ReportDone,
    /// Nothing more: the ring is as it was.
    ReportAborted,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sealed, Self::Flipped, Self::Released, Self::GivenUp];
}

/// What the phase asks for.
pub fn command(phase: Phase) -> Command {
    match phase {
        Phase::Copy => Command::CopyAndSeal,
        Phase::Sealed => Command::Flip,
        Phase::Flipped => Command::ExpireOld,
        Phase::Done => Command::ReportDone,
        Phase::Aborted => Command::ReportAborted,
    }
}

/// The phase after the event and what it asks for; `None`: the event does not fit and changes nothing.
pub fn step(phase: Phase, event: Event) -> Option<(Phase, Command)> {
    let next = match (phase, event) {
        (Phase::Copy, Event::Sealed) => Phase::Sealed,
        (Phase::Sealed, Event::Flipped) => Phase::Flipped,
        (Phase::Flipped, Event::Released) => Phase::Done,
        (Phase::Copy | Phase::Sealed, Event::GivenUp) => Phase::Aborted,
        (Phase::Copy | Phase::Sealed | Phase::Flipped | Phase::Done | Phase::Aborted, _) => return None,
    };
    Some((next, command(next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_goes_from_copy_to_done() {
        let events = [Event::Sealed, Event::Flipped, Event::Released];
        let mut phase = Phase::Copy;
        let mut commands = vec![command(phase)];
        for event in events {
            let (next, asked) = step(phase, event).expect("the event fits");
            phase = next;
            commands.push(asked);
        }
        assert_eq!(phase, Phase::Done);
        assert_eq!(commands, [Command::CopyAndSeal, Command::Flip, Command::ExpireOld, Command::ReportDone]);
    }

    #[test]
    fn after_the_flip_there_is_no_way_back_and_after_an_end_no_way_on() {
        assert_eq!(step(Phase::Sealed, Event::GivenUp), Some((Phase::Aborted, Command::ReportAborted)));
        assert_eq!(step(Phase::Flipped, Event::GivenUp), None);
        for event in Event::ALL {
            assert_eq!(step(Phase::Done, event), None, "{event:?}");
            assert_eq!(step(Phase::Aborted, event), None, "{event:?}");
        }
    }
}
