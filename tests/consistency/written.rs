//! Histories written down: one line an operation.

use std::time::Duration;

use tests::history::{Action, History, Operation, Outcome};
use tests::linearizable::{Violation, Wrong, check};

/// An operation from a line such as `put 1 done v5 0..10`, `get 1 v5 2..3`, `get none 2..3`, `delete refused 4..5`,
/// `delete none 4..5`. Times are milliseconds.
pub(crate) fn operation(line: &str) -> Operation {
    let mut words = line.split_whitespace().peekable();
    let mut word = || words.next().unwrap_or_else(|| panic!("{line} is too short"));
    let action = match word() {
        "put" => Action::Put(word().parse().expect("a value")),
        "get" => Action::Get,
        "delete" => Action::Delete,
        other => panic!("no action: {other}"),
    };
    let outcome = word();
    let mut last = word();
    let version = last.strip_prefix('v').map(|version| version.parse().expect("a version"));
    if version.is_some() {
        last = word();
    }
    let outcome = match outcome {
        "done" => Outcome::Done { version },
        "refused" => Outcome::Refused,
        "unknown" => Outcome::Unknown,
        "none" => Outcome::Read { value: None, version },
        value => Outcome::Read { value: Some(value.parse().expect("a value")), version },
    };
    let (begun, ended) = last.split_once("..").expect("begin..end");
    let ms = |text: &str| Duration::from_millis(text.parse().expect("milliseconds"));
    Operation { client: 0, key: 0, action, outcome, begun: ms(begun), ended: ms(ended) }
}

/// A history of one key, each line by a client of its own.
pub(crate) fn history(lines: &[&str]) -> History {
    let lines = (0..).zip(lines);
    let operations = lines.map(|(client, line)| Operation { client, ..operation(line) }).collect();
    History { operations, ..History::default() }
}

/// The history is one of a register.
pub(crate) fn assert_good(lines: &[&str]) {
    let checked = check(&history(lines)).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!((checked.keys, checked.operations), (1, lines.len()));
}

/// The history is wrong for this reason; the violation.
pub(crate) fn assert_bad(wrong: Wrong, lines: &[&str]) -> Box<Violation> {
    let violation = check(&history(lines)).expect_err("no register has this history");
    assert_eq!(violation.wrong, wrong, "{violation}");
    violation
}
