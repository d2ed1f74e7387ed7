//! Streams that catch up, break, stall, and owners that cannot copy.

use std::time::Duration;

use client::node_client::Malformed;
use placement::Incarnation;
use wire::Problem;

use super::*;

fn node(name: &str) -> NodeId {
    name.parse().expect("a node id")
}

fn stream(id: &str, copied: u64, state: CopyState) -> CopyStream {
    CopyStream {
        stream: id.to_owned(),
        receiver: node("n4"),
        state,
        entries_total: 10,
        entries_copied: copied,
        bytes_total: 1_000,
        bytes_copied: copied * 100,
    }
}

fn report(owner: &str, stream: CopyStream) -> Result<CopyReport, ControlError> {
    Ok(CopyReport { node: node(owner), incarnation: Incarnation(1), streams: vec![stream] })
}

fn refusal(code: ProblemCode) -> Result<CopyReport, ControlError> {
    Err(ControlError::Refused(Problem::new(code, "the detail")))
}

fn broken() -> CopyState {
    CopyState::Broken("the line was cut".to_owned())
}

fn ledger(start: Instant) -> Ledger {
    let pairs = ["n1", "n2"].map(|owner| (node(owner), node("n4")));
    Ledger::new(pairs, CopyWaits::default(), start)
}

#[test]
fn a_copy_is_complete_once_every_stream_has_caught_up() {
    let now = Instant::now();
    let mut ledger = ledger(now);
    assert!(!ledger.is_complete());
    ledger.answered(now, &node("n1"), report("n1", stream("a", 10, CopyState::CaughtUp))).expect("taken");
    ledger.answered(now, &node("n2"), report("n2", stream("b", 4, CopyState::Copying))).expect("taken");
    assert!(!ledger.is_complete());
    assert_eq!(ledger.amounts(), Amounts { entries: 14, entries_total: 20, bytes: 1_400, bytes_total: 2_000 });
    ledger.answered(now, &node("n2"), report("n2", stream("b", 10, CopyState::CaughtUp))).expect("taken");
    assert!(ledger.is_complete());
    // A receiver that goes away after all undoes it.
    ledger.answered(now, &node("n1"), report("n1", stream("a", 10, broken()))).expect("taken");
    assert!(!ledger.is_complete());
    assert_eq!(ledger.amounts().entries, 10, "nothing of a broken stream is of use");
}

#[test]
fn a_broken_stream_is_told_once_and_the_third_is_the_last() {
    let now = Instant::now();
    let mut ledger = ledger(now);
    let n1 = node("n1");
    let told = ledger.answered(now, &n1, report("n1", stream("a", 0, broken()))).expect("taken");
    assert_eq!(told, [Break { owner: n1.clone(), receiver: node("n4"), reason: "the line was cut".to_owned() }]);
    assert_eq!(ledger.to_ask(now), [node("n2")], "n1 gets a moment");
    assert_eq!(ledger.to_ask(now + CopyWaits::default().reopen).len(), 2);
    assert_eq!(ledger.answered(now, &n1, report("n1", stream("a", 0, broken()))).expect("taken"), []);
    assert_eq!(ledger.answered(now, &n1, report("n1", stream("b", 0, broken()))).expect("taken").len(), 1);
    let failed = ledger.answered(now, &n1, report("n1", stream("c", 0, broken()))).expect_err("too often");
    let says = failed.to_string();
    assert!(says.contains("n1") && says.contains("n4") && says.contains("the line was cut"), "{says}");
    assert!(says.contains("--cold"), "{says}");
}

#[test]
fn without_a_byte_more_for_too_long_a_copy_has_stalled_unless_it_is_paused() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut ledger = ledger(start);
    ledger.answered(at(20), &node("n1"), report("n1", stream("a", 1, CopyState::Copying))).expect("taken");
    ledger.check_progress(at(49)).expect("it moved at 20 s");
    ledger.answered(at(49), &node("n1"), report("n1", stream("a", 1, CopyState::Copying))).expect("taken");
    ledger.unanswered(&node("n1"));
    let stalled = ledger.check_progress(at(50)).expect_err("the same as 30 s before").to_string();
    assert!(stalled.contains("n1") && stalled.contains("30 s") && stalled.contains("no answer"), "{stalled}");
    ledger.paused(at(50));
    ledger.check_progress(at(79)).expect("the pause does not count");
}

#[test]
fn owners_that_cannot_copy_are_named_and_those_that_cannot_now_are_waited_for() {
    let start = Instant::now();
    let n1 = node("n1");
    let route_missing = || Err(ControlError::Malformed(Malformed::Status(404)));
    for answer in [refusal(ProblemCode::NotFound), refusal(ProblemCode::MethodNotAllowed), route_missing()] {
        let says = ledger(start).answered(start, &n1, answer).expect_err("another version").to_string();
        assert!(says.contains("n1") && says.contains("upgrade it first, or use --cold"), "{says}");
    }
    let mut patient = ledger(start);
    for code in [ProblemCode::OriginUnavailable, ProblemCode::ChangeConflict] {
        assert_eq!(patient.answered(start, &n1, refusal(code)).expect("may pass"), []);
    }
    let later = start + CopyWaits::default().conflict;
    let says = patient.answered(later, &n1, refusal(ProblemCode::ChangeConflict)).expect_err("for good").to_string();
    assert!(says.contains("the detail"), "{says}");
    let says = ledger(start).answered(start, &n1, refusal(ProblemCode::Unauthorized)).expect_err("final").to_string();
    assert!(says.contains("n1 did not copy its entries"), "{says}");
    let other = report("n2", stream("a", 0, CopyState::Copying));
    assert!(matches!(ledger(start).answered(start, &n1, other), Err(StepError::WrongReport { .. })));
}
