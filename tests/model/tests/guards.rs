//! Every guard of the protocol is needed, or known to be superfluous: the search says so, one test for each.

use model::cases::{Case, needed, superfluous};
use model::mutation::Rules;
use model::search::{Bounds, search};
use model::step::Model;

/// The whole protocol is searched in the same environment as long as its counterpart, but no further than this.
const WHOLE: Bounds = Bounds { states: 300_000, depth: usize::MAX, seconds: f64::INFINITY };

/// A superfluous guard is searched for so long here; the long form goes further.
const SUPERFLUOUS: Bounds = Bounds { states: 150_000, depth: usize::MAX, seconds: f64::INFINITY };

fn case(name: &str, cases: Vec<Case>) -> Case {
    cases.into_iter().find(|case| case.name == name).expect("the case is listed")
}

/// Without its guards the case's environment has a violation, after as many steps as listed and no fewer; with them none.
fn is_needed(name: &str) {
    let case = case(name, needed());
    let bounds = Bounds { states: usize::MAX, depth: case.steps, seconds: f64::INFINITY };
    let found = search(&Model::new(case.environment.clone(), Rules(case.without)), bounds);
    let counterexample = found.counterexample.unwrap_or_else(|| {
        panic!("{name}: no violation within {} steps, {} states", case.steps, found.states);
    });
    println!("{name}: {} states\n{counterexample}", found.states);
    assert_eq!(counterexample.steps.len(), case.steps, "{name}: the shortest way has another length");
    let bounds = Bounds { depth: case.steps, ..WHOLE };
    let whole = search(&Model::new(case.environment, Rules::WHOLE), bounds);
    if let Some(counterexample) = whole.counterexample {
        panic!("{name}: with all guards too\n{counterexample}");
    }
}

macro_rules! guards {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            is_needed($name);
        })*

        #[test]
        fn every_guard_has_a_test() {
            let tested = [$($name),*];
            let listed: Vec<_> = needed().iter().map(|case| case.name).collect();
            assert_eq!(listed, tested);
        }
    };
}

guards! {
    a_load_is_stored_only_under_its_guard: "store-without-guard",
    a_load_of_another_reign_is_not_joined: "join-by-guard-only",
    a_load_of_another_guard_is_not_joined: "join-any-load",
    beside_a_writer_the_origin_is_read: "read-beside-writer",
    without_a_lease_the_origin_is_read: "read-without-lease",
    an_entry_of_another_reign_is_no_hit: "look-up-without-tag",
    a_redeem_needs_the_guard: "redeem-without-guard",
    a_redeem_needs_the_reign: "redeem-without-reign",
    a_redeem_needs_the_lease: "redeem-without-lease",
    a_redeem_needs_an_open_seal: "redeem-without-seal",
    a_redeem_needs_its_check: "redeem-unchecked",
    a_redeem_compares_the_nonce: "redeem-without-compare",
    a_session_fits_one_identity: "identity-ignored",
    an_identity_is_more_than_the_run_id: "identity-is-run-id",
    a_server_is_looked_at_again_when_a_value_was_found: "identity-not-reread",
    a_server_is_looked_at_after_the_value_and_not_before: "identity-read-first",
    a_key_has_one_writer: "two-writers",
    check_and_registration_are_one_step: "registration-in-two-steps",
    a_write_goes_on_only_under_the_reign_of_its_registration: "older-reign-goes-on",
    l2_is_voided_before_the_commit: "void-after-commit",
    an_unconfirmed_void_bars_the_space: "unconfirmed-void-ignored",
    a_write_is_fenced: "no-fence",
    the_fence_locks_the_row: "fence-without-row-lock",
    a_dropped_write_that_was_sent_is_unknown: "dropped-write-frees-key",
    a_dropped_write_frees_its_key: "dropped-write-leaves-marks",
    the_fence_is_the_tenure: "fence-by-gained",
    an_unknown_write_keeps_its_key: "key-freed-before-renewal",
    an_unknown_write_is_settled_by_a_newer_tenure_only: "settled-by-same-reign",
    an_unknown_write_is_never_sent_again: "unknown-sent-again",
    owning_before_and_after_is_not_the_same_reign: "same-reign-by-owner",
    a_slot_won_back_has_a_new_reign: "regain-keeps-reign",
    a_table_read_is_for_one_incarnation: "table-read-without-incarnation",
    rows_never_go_back: "rows-go-back",
    a_row_asked_for_before_a_fence_is_lost: "row-outlives-fence",
    a_takeover_raises_the_incarnation: "takeover-keeps-incarnation",
    a_lease_counts_from_before_the_heartbeat: "lease-from-confirmation",
    a_takeover_waits_for_the_lease: "takeover-before-lease-end",
    a_stream_opened_again_starts_from_nothing: "reopened-stream-keeps-reign",
    a_stream_dies_with_the_reign_it_was_opened_under: "stream-outlives-reign",
    a_write_is_told_to_the_stream: "no-invalidate",
    a_write_is_told_to_the_stream_before_its_commit: "invalidate-after-commit",
    a_write_of_another_reign_is_not_handed_on: "append-without-reign",
    looking_up_and_appending_are_one_step: "copy-in-two-steps",
    adoption_asks_the_journal: "adopt-without-journal",
    an_incomplete_stream_is_not_adopted: "adopt-incomplete-without-journal",
    adoption_comes_before_serving_or_a_write_drops_any_entry: "adopt-after-serving-and-drop-current-only",
    a_moving_slot_is_sealed: "no-seal",
    a_drained_slot_has_no_write_that_goes_on_when_it_comes_back: "no-drain-and-older-reign",
    the_end_waits_for_the_drain: "no-drain-and-invalidate-later",
    a_second_seal_waits_for_the_first: "second-seal-replaces",
    an_aborted_change_never_flips: "flip-in-any-phase",
    a_flip_needs_the_tenure_of_the_seal: "flip-without-tenure",
    a_seal_ends_by_an_abort_only: "unseal-any-time",
    a_seal_ends_by_the_abort_of_its_own_change: "unseal-by-another-abort",
    a_seal_that_comes_after_its_change_ends: "seal-stays",
    a_seal_ends_by_a_flip_only_after_its_row: "unseal-flipped-without-tenure",
    the_slot_that_a_user_leaves_gets_a_new_tenure: "pin-keeps-tenure",
    no_statement_commits_across_a_pin: "pin-keeps-fence-and-drain-without-unknown",
    the_end_before_a_pin_waits_for_the_drain: "no-drain-before-a-pin",
    a_read_looks_at_the_list_where_it_enters_the_slot: "read-pinned",
    a_hit_without_a_lock_looks_at_the_list_after_the_slot: "hit-pinned",
    a_write_looks_at_the_list_where_it_registers: "register-pinned",
    a_slot_of_its_own_has_another_l2_space_or_redeems_look_at_the_list: "redeem-pinned-in-a-kept-space",
    a_takeover_keeps_the_list: "takeover-forgets-pinned",
    a_claim_keeps_the_list: "claim-forgets-pinned",
    a_renewal_keeps_the_list: "renewal-forgets-pinned",
    a_slot_that_a_user_has_left_unseals_after_its_list_is_known: "unseal-before-the-list",
}

#[test]
fn every_invariant_is_looked_at() {
    let broken_by = [
        ("I1", "no-fence"),
        ("I2", "table-read-without-incarnation"),
        ("I3", "store-without-guard"),
        ("I4", "redeem-unchecked"),
        ("I5", "key-freed-before-renewal"),
        ("I6", "unseal-any-time"),
        ("I8", "read-without-lease"),
    ];
    for (invariant, name) in broken_by {
        let case = case(name, needed());
        let bounds = Bounds { states: usize::MAX, depth: case.steps, seconds: f64::INFINITY };
        let model = Model::new(case.environment, Rules(case.without)).with_invariants();
        let found = search(&model, bounds).counterexample.expect("a client can tell after as many steps");
        assert_eq!(found.violation.name(), invariant, "{name}\n{found}");
    }
}

#[test]
fn what_is_known_to_be_superfluous_changes_nothing_that_clients_see() {
    for case in superfluous() {
        let found = search(&Model::new(case.environment, Rules(case.without)), SUPERFLUOUS);
        if let Some(counterexample) = found.counterexample {
            panic!("{} is needed after all\n{counterexample}", case.name);
        }
    }
}
