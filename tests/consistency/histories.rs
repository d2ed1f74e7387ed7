//! Histories known to be good and known to be bad.

use tests::history::Operation;
use tests::linearizable::{Wrong, check};

use crate::written::{assert_bad, assert_good, history, operation};

#[test]
fn a_key_is_absent_before_its_first_write_and_has_its_last_one_afterwards() {
    assert_good(&["get none 0..1", "put 1 done 2..3", "get 1 4..5", "put 2 done 6..7", "get 2 8..9", "get 2 10..11"]);
}

#[test]
fn a_read_of_what_was_overwritten_before_it_began_is_stale() {
    assert_bad(Wrong::NoOrder, &["put 1 done 0..1", "put 2 done 2..3", "get 1 4..5"]);
}

#[test]
fn a_read_of_absence_after_an_acknowledged_write_is_stale() {
    assert_bad(Wrong::NoOrder, &["put 1 done 0..1", "get none 2..3"]);
}

#[test]
fn a_read_may_see_the_write_it_overlaps_or_what_was_before() {
    assert_good(&["put 1 done 0..1", "put 2 done 2..10", "get 1 3..4"]);
    assert_good(&["put 1 done 0..1", "put 2 done 2..10", "get 2 3..4"]);
}

#[test]
fn once_a_read_has_seen_a_write_no_later_one_sees_what_was_before() {
    assert_bad(Wrong::NoOrder, &["put 1 done 0..1", "put 2 done 2..10", "get 2 3..4", "get 1 5..6"]);
    assert_good(&["put 1 done 0..1", "put 2 done 2..10", "get 2 3..5", "get 1 4..6"]);
}

#[test]
fn overlapping_operations_may_have_taken_effect_in_any_order() {
    assert_good(&["put 1 done 0..10", "put 2 done 0..10", "put 3 done 0..10", "get 2 11..12"]);
    assert_good(&["put 1 done 0..10", "put 2 done 1..3", "get 2 4..5", "get 1 6..7"]);
}

#[test]
fn two_readers_do_not_see_two_writes_in_different_orders() {
    let writes = ["put 1 done 0..20", "put 2 done 0..20"];
    assert_good(&[writes[0], writes[1], "get 1 1..2", "get 2 3..4"]);
    assert_bad(Wrong::NoOrder, &[writes[0], writes[1], "get 1 1..2", "get 2 3..4", "get 1 5..6"]);
    assert_bad(Wrong::NoOrder, &[writes[0], writes[1], "get 1 1..3", "get 2 4..6", "get 2 1..2", "get 1 4..7"]);
}

#[test]
fn an_acknowledged_write_is_not_lost() {
    assert_bad(Wrong::NoOrder, &["put 1 done 0..1", "put 2 done 2..3", "get 1 4..5", "get 1 6..7"]);
}

#[test]
fn a_value_is_not_read_before_it_is_written() {
    assert_bad(Wrong::NoOrder, &["get 1 0..1", "put 1 done 2..3"]);
}

#[test]
fn a_value_that_nobody_wrote_is_not_read() {
    let violation = assert_bad(Wrong::NotWritten, &["put 1 done 0..1", "get 7 2..3"]);
    assert_eq!(violation.minimal, [operation_of(1, "get 7 2..3")]);
}

#[test]
fn a_value_of_another_key_is_not_read() {
    let mut both = history(&["put 1 done 0..1", "put 2 done 0..1", "get 2 2..3"]);
    both.operations[1].key = 1;
    assert_eq!(check(&both).expect_err("the value is of key 1").wrong, Wrong::NotWritten);
    both.operations[2].key = 1;
    assert_eq!(check(&both).map(|checked| checked.keys), Ok(2));
}

#[test]
fn a_refused_write_is_not_read() {
    let lines = ["put 1 done 0..1", "put 2 refused 2..3", "get 2 4..5"];
    let violation = assert_bad(Wrong::NotWritten, &lines);
    assert_eq!(violation.minimal, [operation_of(1, lines[1]), operation_of(2, lines[2])]);
    assert_good(&["put 1 done 0..1", "put 2 refused 2..3", "delete refused 2..3", "get 1 4..5"]);
}

#[test]
fn a_deleted_value_does_not_come_back() {
    assert_good(&["put 1 done 0..1", "delete done 2..3", "get none 4..5", "put 2 done 6..7", "get 2 8..9"]);
    assert_bad(Wrong::NoOrder, &["put 1 done 0..1", "delete done 2..3", "get 1 4..5"]);
    assert_bad(Wrong::NoOrder, &["put 1 done 0..1", "delete done 2..8", "get none 3..4", "get 1 5..6"]);
}

#[test]
fn each_absence_that_is_seen_after_a_write_takes_a_delete() {
    let between = ["put 1 done 0..1", "delete done 2..3", "get none 4..5", "put 2 done 6..7"];
    assert_bad(Wrong::NoOrder, &[&between[..], &["get none 8..9"]].concat());
    assert_good(&[&between[..], &["delete done 8..20", "get none 9..10"]].concat());
    assert_good(&[&between[..], &["delete unknown 2..3", "get none 8..9"]].concat());
}

#[test]
fn a_delete_that_found_nothing_has_seen_absence() {
    assert_good(&["delete none 0..1", "put 1 done 2..3", "delete done 4..5", "delete none 6..7"]);
    assert_bad(Wrong::NoOrder, &["put 1 done 0..1", "delete none 2..3"]);
}

#[test]
fn a_write_of_unknown_outcome_may_take_effect_never_at_once_or_late() {
    let unknown = ["put 1 done 0..1", "put 2 unknown 2..3"];
    assert_good(&[&unknown[..], &["get 1 4..5", "get 1 900..901"]].concat());
    assert_good(&[&unknown[..], &["get 2 4..5", "get 2 900..901"]].concat());
    assert_good(&[&unknown[..], &["get 1 4..5", "put 3 done 6..7", "get 3 8..9", "get 2 900..901"]].concat());
    assert_bad(Wrong::NoOrder, &["get 2 0..1", "put 2 unknown 2..3"]);
}

#[test]
fn a_write_of_unknown_outcome_takes_effect_once() {
    let lines = ["put 1 unknown 0..1", "get 1 2..3", "put 2 done 4..5", "get 2 6..7", "get 1 8..9"];
    assert_bad(Wrong::NoOrder, &lines);
    let hung_up = ["put 1 unknown 0..1", "get 1 2..3", "delete done 4..5", "get none 6..7", "get 1 8..9"];
    assert_bad(Wrong::NoOrder, &hung_up);
}

#[test]
fn deletes_of_unknown_outcome_explain_one_absence_each() {
    let gone = ["put 1 done 0..1", "delete unknown 2..3", "get none 4..5", "put 2 done 6..7", "get none 8..9"];
    assert_bad(Wrong::NoOrder, &gone);
    assert_good(&[&gone[..], &["delete unknown 6..7"]].concat());
    assert_bad(Wrong::NoOrder, &[&gone[..], &["delete unknown 10..11"]].concat());
}

#[test]
fn a_write_nobody_read_still_has_its_time() {
    // 2 is the last write of all, whoever read it or not.
    assert_bad(Wrong::NoOrder, &["put 1 done 0..1", "put 2 done 2..3", "get 1 4..5"]);
    // 2 fits before 1, though it is the only write that is left when 1 is read.
    assert_good(&["put 1 done 0..10", "put 2 done 1..3", "get 1 4..5", "get 1 11..12"]);
    // Two of them, one after the other, both before 1.
    assert_good(&["put 1 done 0..20", "put 2 done 0..10", "put 3 done 11..12", "get 1 15..16"]);
    // After an absence that was read comes a write nobody read, and absence again: by the delete that is still under way.
    assert_good(&["get none 0..1", "put 1 done 2..3", "delete unknown 2..3", "get none 4..5"]);
}

#[test]
fn operations_that_touch_at_one_moment_count_as_overlapping() {
    assert_good(&["put 1 done 0..1", "put 2 done 1..2", "get 1 2..3"]);
}

#[test]
fn a_version_has_one_value_and_a_value_one_version() {
    assert_bad(Wrong::TwoValues, &["put 1 done v5 0..1", "put 2 done v5 2..3"]);
    assert_bad(Wrong::TwoVersions, &["put 1 unknown 0..1", "get 1 v5 2..3", "get 1 v6 4..5"]);
}

#[test]
fn versions_rise_with_time() {
    assert_good(&["put 1 done v5 0..1", "get 1 v5 2..3", "delete done 4..5", "put 2 done v7 6..7", "get 2 v7 8..9"]);
    assert_good(&["put 1 done v6 0..10", "put 2 done v5 1..9"]);
    let fell = assert_bad(Wrong::VersionFell, &["put 1 done v6 0..1", "put 2 done v5 2..3"]);
    assert_eq!(fell.minimal.len(), 2);
    // The search finds nothing: 1 may have come late. But its version says that it came early.
    let late = ["put 1 unknown 0..1", "put 2 done v6 2..3", "get 1 v5 4..5"];
    assert_bad(Wrong::VersionFell, &late);
    assert_good(&["put 1 unknown 0..1", "put 2 done v6 2..3", "get 1 v7 4..5"]);
}

#[test]
fn the_minimal_history_holds_only_what_contradicts() {
    let violation = assert_bad(
        Wrong::NoOrder,
        &[
            "get none 0..1",
            "put 1 done 2..3",
            "get 1 4..5",
            "delete done 6..7",
            "get none 8..9",
            "put 2 done 10..11",
            "put 3 unknown 10..11",
            "put 4 done 12..13",
            "put 5 refused 12..13",
            "get 2 14..15",
            "get 4 16..17",
        ],
    );
    let shown: Vec<_> = violation.minimal.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["put 2 → done", "put 4 → done", "get → 2"]);
}

#[test]
fn a_delete_stays_in_the_minimal_history_as_long_as_an_absence_may_be_due_to_it() {
    let violation = assert_bad(
        Wrong::NoOrder,
        &[
            "put 1 done 0..1",
            "delete unknown 2..3",
            "get none 4..5",
            "put 2 done 6..7",
            "get none 8..9",
            "put 3 done 10..11",
            "delete done 12..13",
        ],
    );
    // Without the first absence, or the delete, the second absence would be the delete's, or accuse nobody's write.
    let shown: Vec<_> = violation.minimal.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["put 1 → done", "delete → unknown", "get → none", "put 2 → done", "get → none"]);
}

fn operation_of(client: u32, line: &str) -> Operation {
    Operation { client, ..operation(line) }
}
