//! What a read of one key may return: the newest write known to have happened before it was sent, or a newer one.
//!
//! Pure. One key has at most one write in flight, so its writes are ordered by their sequence numbers; the claim checked is
//! that every key is a linearizable register (protocol section 0), as far as sending and answering times can tell.

/// The writes of one key in this run, and what has been seen of them.
#[derive(Debug, Default)]
pub(crate) struct Register {
    /// The newest write that was acknowledged, or returned by a read; 0 = none.
    newest: u32,
    /// The newest write begun; 0 = none.
    started: u32,
    in_flight: bool,
    /// Writes that did not end well: few, so a list is enough.
    failed: Vec<(u32, Failure)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Never executed.
    Refused,
    /// May take effect once, at any later moment, or never.
    Unknown,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    /// It has happened.
    Acknowledged,
    /// It has not happened and will not.
    Refused,
    /// It may have happened, or may still.
    Unknown,
}

/// What a read returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No entry.
    Absent,
    /// The value of an earlier run.
    EarlierRun,
    /// The value of the write of this number.
    Write(u32),
}

/// A read that no register could have answered so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Violation {
    /// No entry although a write had been acknowledged or seen before the read.
    Lost,
    /// A value older than one acknowledged or seen before the read.
    Stale,
    /// The value of a write that was refused, or not begun.
    NeverWritten,
}

/// A read must return this write or a newer one; 0 = anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor(u32);

impl Register {
    /// Begins a write and returns its number; `None` while another one is in flight.
    pub(crate) fn begin_write(&mut self) -> Option<u32> {
        if self.in_flight {
            return None;
        }
        self.in_flight = true;
        self.started += 1;
        Some(self.started)
    }

    /// Ends the write in flight.
    pub(crate) fn end_write(&mut self, end: WriteEnd) {
        self.in_flight = false;
        match end {
            WriteEnd::Acknowledged => self.newest = self.newest.max(self.started),
            WriteEnd::Refused => self.failed.push((self.started, Failure::Refused)),
            WriteEnd::Unknown => self.failed.push((self.started, Failure::Unknown)),
        }
    }

    /// What a read that is sent now must at least return.
    pub(crate) fn begin_read(&self) -> Floor {
        Floor(self.newest)
    }

    /// Judges the answer of a read.
    pub(crate) fn end_read(&mut self, floor: Floor, seen: Seen) -> Result<(), Violation> {
        let number = match seen {
            Seen::Absent if floor.0 == 0 => return Ok(()),
            Seen::Absent => return Err(Violation::Lost),
            Seen::EarlierRun if floor.0 == 0 => return Ok(()),
            Seen::EarlierRun => return Err(Violation::Stale),
            Seen::Write(number) => number,
        };
        let failure = self.failed.iter().find(|(failed, _)| *failed == number).map(|(_, failure)| *failure);
        if number == 0 || number > self.started || failure == Some(Failure::Refused) {
            return Err(Violation::NeverWritten);
        }
        // A write of unknown outcome may land late, over newer ones: then it is no older than they are.
        if number < floor.0 && failure != Some(Failure::Unknown) {
            return Err(Violation::Stale);
        }
        self.newest = self.newest.max(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(ends: &[WriteEnd]) -> Register {
        let mut register = Register::default();
        for end in ends {
            register.begin_write().expect("no other write");
            register.end_write(*end);
        }
        register
    }

    fn read(register: &mut Register, seen: Seen) -> Result<(), Violation> {
        let floor = register.begin_read();
        register.end_read(floor, seen)
    }

    use Seen::{Absent, EarlierRun, Write};
    use WriteEnd::{Acknowledged, Refused, Unknown};

    #[test]
    fn an_unwritten_key_may_be_absent_or_hold_an_earlier_run() {
        let mut register = written(&[]);
        assert_eq!(read(&mut register, Absent), Ok(()));
        assert_eq!(read(&mut register, EarlierRun), Ok(()));
        assert_eq!(read(&mut register, Write(1)), Err(Violation::NeverWritten));
    }

    #[test]
    fn an_acknowledged_write_is_read_by_every_later_read() {
        let mut register = written(&[Acknowledged, Acknowledged]);
        assert_eq!(read(&mut register, Write(2)), Ok(()));
        assert_eq!(read(&mut register, Write(1)), Err(Violation::Stale));
        assert_eq!(read(&mut register, EarlierRun), Err(Violation::Stale));
        assert_eq!(read(&mut register, Absent), Err(Violation::Lost));
        assert_eq!(read(&mut register, Write(3)), Err(Violation::NeverWritten));
    }

    #[test]
    fn a_read_beside_a_write_may_see_it_or_not() {
        let mut register = written(&[Acknowledged]);
        let before = register.begin_read();
        register.begin_write().expect("no other write");
        register.end_write(Acknowledged);
        assert_eq!(register.end_read(before, Write(1)), Ok(()));
        assert_eq!(register.end_read(before, Write(2)), Ok(()));
    }

    #[test]
    fn what_one_read_has_seen_binds_the_next_even_before_the_acknowledgement() {
        let mut register = written(&[Acknowledged]);
        register.begin_write().expect("no other write");
        assert_eq!(read(&mut register, Write(1)), Ok(()));
        assert_eq!(read(&mut register, Write(2)), Ok(()));
        assert_eq!(read(&mut register, Write(1)), Err(Violation::Stale));
    }

    #[test]
    fn a_write_of_unknown_outcome_may_land_at_any_time_or_never() {
        let mut register = written(&[Acknowledged, Unknown]);
        assert_eq!(read(&mut register, Write(1)), Ok(()));
        assert_eq!(read(&mut register, Write(2)), Ok(()));
        assert_eq!(read(&mut register, Write(1)), Err(Violation::Stale));
        let mut register = written(&[Acknowledged, Unknown, Acknowledged]);
        assert_eq!(read(&mut register, Write(3)), Ok(()));
        assert_eq!(read(&mut register, Write(2)), Ok(()));
        assert_eq!(read(&mut register, Write(1)), Err(Violation::Stale));
    }

    #[test]
    fn a_refused_write_is_never_read() {
        let mut register = written(&[Refused]);
        assert_eq!(read(&mut register, Absent), Ok(()));
        assert_eq!(read(&mut register, Write(1)), Err(Violation::NeverWritten));
    }

    #[test]
    fn a_key_has_one_write_in_flight() {
        let mut register = Register::default();
        assert_eq!(register.begin_write(), Some(1));
        assert_eq!(register.begin_write(), None);
        register.end_write(Acknowledged);
        assert_eq!(register.begin_write(), Some(2));
    }
}
