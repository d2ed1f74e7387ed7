//! For every guard a small environment in which its absence shows, and for every guard that another one makes superfluous an
//! environment in which it does not.

use crate::catalogue::{NONE, environment, pinning};
use crate::environment::{Budget, Environment, Kind};
use crate::mutation::Mutation;

/// A guard or two taken away, in an environment.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The guards taken away.
    pub without: &'static [Mutation],
    /// Where.
    pub environment: Environment,
    /// Steps of the shortest way to a violation; 0 where there is none.
    pub steps: usize,
}

/// Every guard that is needed: without it a client can see a violation in this environment.
pub fn needed() -> Vec<Case> {
    let mut all = reads();
    all.extend(redeems());
    all.extend(writes());
    all.extend(unknown_writes());
    all.extend(ownership());
    all.extend(streams());
    all.extend(changes());
    all.extend(pins());
    all
}

fn case(steps: usize, name: &'static str, without: &'static [Mutation], environment: Environment) -> Case {
    Case { name, without, environment, steps }
}

/// One slot, no Redis, only reads at owners.
fn scene(writes: usize, reads: usize, budget: Budget) -> Environment {
    Environment { detached: false, ..Environment::new("scene", "", writes, reads) }.with(budget)
}

fn cold(environment: Environment) -> Environment {
    Environment { cold: true, ..environment }
}

fn with_l2(environment: Environment) -> Environment {
    Environment { l2: true, cold: true, ..environment }
}

fn detached(environment: Environment) -> Environment {
    Environment { detached: true, ..environment }
}

fn without_streams(environment: Environment) -> Environment {
    Environment { streams: false, ..environment }
}

/// Nobody gives a change up.
fn patient(environment: Environment) -> Environment {
    Environment { aborts: false, ..environment }
}

fn twin(environment: Environment) -> Environment {
    Environment { twin: true, ..environment }
}

const CHANGE: Budget = Budget { changes: 1, ..NONE };
const TAKEOVER: Budget = Budget { expiries: 1, takeovers: 1, ..NONE };
const EVICTIONS: Budget = Budget { l1_evictions: 1, l2_evictions: 1, ..NONE };

fn reads() -> Vec<Case> {
    use Mutation::*;
    let back_and_forth = Budget { expiries: 2, takeovers: 2, ..NONE };
    vec![
        case(8, "store-without-guard", &[StoreWithoutGuard], cold(scene(1, 2, NONE))),
        case(18, "join-by-guard-only", &[JoinByGuardOnly], cold(scene(1, 2, back_and_forth))),
        case(9, "join-any-load", &[JoinAnyLoad], cold(scene(1, 2, EVICTIONS))),
        case(8, "read-beside-writer", &[ReadBesideWriter], cold(detached(scene(1, 3, NONE)))),
        case(9, "read-without-lease", &[ReadWithoutLease], scene(1, 1, TAKEOVER)),
        case(14, "look-up-without-tag", &[LookUpWithoutTag], scene(1, 1, Budget { breaks: 1, ..CHANGE })),
    ]
}

fn redeems() -> Vec<Case> {
    use Mutation::*;
    let evictions = || with_l2(scene(1, 2, EVICTIONS));
    let change = || patient(without_streams(with_l2(scene(1, 2, Budget { changes: 1, ..EVICTIONS }))));
    let takeover = || with_l2(scene(1, 2, Budget { expiries: 1, takeovers: 1, ..EVICTIONS }));
    let failover = |failovers| with_l2(scene(1, 2, Budget { l1_evictions: 1, failovers, ..NONE }));
    let unnoticed = || with_l2(scene(1, 2, Budget { l1_evictions: 1, failovers: 1, quiet_demotions: 1, ..NONE }));
    vec![
        case(14, "redeem-without-guard", &[RedeemWithoutGuard], evictions()),
        case(21, "redeem-without-reign", &[RedeemWithoutReign], change()),
        case(18, "redeem-without-lease", &[RedeemWithoutLease], takeover()),
        case(20, "redeem-without-seal", &[RedeemWithoutSeal], change()),
        case(14, "redeem-unchecked", &[RedeemUnchecked], evictions()),
        case(13, "redeem-without-compare", &[RedeemWithoutCompare], evictions()),
        case(16, "identity-ignored", &[IdentityIgnored], failover(1)),
        case(18, "identity-is-run-id", &[IdentityIsRunId], failover(2)),
        case(16, "identity-not-reread", &[IdentityNotReread], unnoticed()),
        case(18, "identity-read-first", &[IdentityReadFirst], unnoticed()),
    ]
}

fn writes() -> Vec<Case> {
    use Mutation::*;
    let overtaken = Budget { changes: 1, ..TAKEOVER };
    let crash = Budget { crashes: 1, ..NONE };
    let lost_void = Budget { lost_voids: 1, l1_evictions: 1, ..NONE };
    let dropped = Budget { dropped_writes: 1, ..NONE };
    vec![
        case(9, "two-writers", &[TwoWriters], scene(2, 1, NONE)),
        case(17, "registration-in-two-steps", &[RegistrationInTwoSteps], scene(1, 1, CHANGE)),
        case(24, "older-reign-goes-on", &[OlderReignGoesOn], patient(detached(scene(1, 3, overtaken)))),
        case(15, "void-after-commit", &[VoidAfterCommit], detached(with_l2(scene(1, 3, crash)))),
        case(13, "unconfirmed-void-ignored", &[UnconfirmedVoidIgnored], with_l2(scene(1, 2, lost_void))),
        case(12, "no-fence", &[NoFence], scene(1, 2, TAKEOVER)),
        case(13, "fence-without-row-lock", &[FenceWithoutRowLock], scene(1, 2, TAKEOVER)),
        case(9, "dropped-write-frees-key", &[DroppedWriteFreesKey], detached(scene(1, 3, dropped))),
        case(2, "dropped-write-leaves-marks", &[DroppedWriteLeavesMarks], scene(1, 1, dropped)),
    ]
}

fn unknown_writes() -> Vec<Case> {
    use Mutation::*;
    let unknown = || detached(scene(1, 3, Budget { unknown_writes: 1, ..NONE }));
    // Unlike operations, so that the second may begin before the first is sent again.
    let mut another = scene(2, 1, Budget { unknown_writes: 1, ..NONE });
    another.operations[1].0 = Kind::Delete;
    vec![
        case(11, "fence-by-gained", &[FenceByGained], unknown()),
        case(9, "key-freed-before-renewal", &[KeyFreedBeforeRenewal], unknown()),
        case(9, "settled-by-same-reign", &[SettledBySameReign], unknown()),
        case(13, "unknown-sent-again", &[UnknownSentAgain], another),
    ]
}

fn ownership() -> Vec<Case> {
    use Mutation::*;
    let regain = Budget { expiries: 2, changes: 1, takeovers: 1, ..NONE };
    let one_process = Environment { nodes: 1, ..twin(scene(1, 2, Budget { expiries: 1, ..NONE })) };
    let late_rows = Environment { late_rows: true, ..scene(1, 2, Budget { changes: 1, renewals: 1, ..NONE }) };
    let late_rows = patient(without_streams(late_rows));
    vec![
        case(20, "same-reign-by-owner", &[SameReignByOwner], patient(without_streams(scene(1, 1, regain)))),
        case(17, "regain-keeps-reign", &[RegainKeepsReign], patient(without_streams(scene(1, 1, regain)))),
        case(12, "table-read-without-incarnation", &[TableReadWithoutIncarnation], one_process),
        case(19, "rows-go-back", &[RowsGoBack], late_rows),
        case(16, "row-outlives-fence", &[RowOutlivesFence], scene(1, 2, Budget { renewals: 1, ..TAKEOVER })),
        case(11, "takeover-keeps-incarnation", &[TakeoverKeepsIncarnation], scene(1, 1, TAKEOVER)),
        case(11, "lease-from-confirmation", &[LeaseFromConfirmation], scene(1, 1, TAKEOVER)),
        case(7, "takeover-before-lease-end", &[TakeoverBeforeLeaseEnd], scene(1, 1, TAKEOVER)),
    ]
}

fn streams() -> Vec<Case> {
    use Mutation::*;
    let broken = Budget { breaks: 1, ..CHANGE };
    let unknown = || detached(scene(1, 2, Budget { unknown_writes: 1, ..CHANGE }));
    let overtaken = Budget { changes: 1, ..TAKEOVER };
    let won_back = Budget { expiries: 2, takeovers: 2, changes: 1, ..NONE };
    let other_process = patient(twin(scene(1, 1, Budget { expiries: 2, ..CHANGE })));
    vec![
        case(18, "reopened-stream-keeps-reign", &[ReopenedStreamKeepsReign], scene(1, 1, broken)),
        case(23, "stream-outlives-reign", &[StreamOutlivesReign], other_process),
        case(16, "no-invalidate", &[NoInvalidate], scene(1, 1, Budget { left_out: 1, ..CHANGE })),
        case(19, "invalidate-after-commit", &[InvalidateAfterCommit], unknown()),
        case(31, "append-without-reign", &[AppendWithoutReign], patient(scene(2, 1, won_back))),
        case(17, "copy-in-two-steps", &[CopyInTwoSteps], scene(1, 1, CHANGE)),
        case(17, "adopt-without-journal", &[AdoptWithoutJournal], scene(1, 1, overtaken)),
        case(14, "adopt-incomplete-without-journal", &[AdoptIncomplete, AdoptWithoutJournal], scene(1, 1, overtaken)),
        case(
            17,
            "adopt-after-serving-and-drop-current-only",
            &[AdoptAfterServing, RegisterDropsCurrentOnly],
            scene(1, 1, CHANGE),
        ),
    ]
}

/// Two changes, and enough reads to tell.
fn there_and_back() -> Environment {
    patient(detached(scene(1, 3, Budget { changes: 2, ..NONE })))
}

fn changes() -> Vec<Case> {
    use Mutation::*;
    let crash = Budget { crashes: 1, ..CHANGE };
    let twice = Budget { changes: 2, expiries: 1, ..NONE };
    let won_back = Budget { changes: 2, expiries: 2, takeovers: 1, ..NONE };
    let late_seal = Budget { changes: 2, late_seals: 1, ..NONE };
    vec![
        case(10, "no-seal", &[NoSeal], scene(1, 1, CHANGE)),
        case(26, "no-drain-and-older-reign", &[NoDrain, OlderReignGoesOn], there_and_back()),
        case(17, "no-drain-and-invalidate-later", &[NoDrain, InvalidateLater], scene(1, 1, CHANGE)),
        case(25, "second-seal-replaces", &[SecondSealReplaces], without_streams(scene(1, 1, won_back))),
        case(13, "flip-in-any-phase", &[FlipInAnyPhase], scene(1, 1, CHANGE)),
        case(17, "flip-without-tenure", &[FlipWithoutTenure], patient(without_streams(scene(1, 2, crash)))),
        case(12, "unseal-any-time", &[UnsealAnyTime], scene(1, 1, CHANGE)),
        case(19, "unseal-by-another-abort", &[UnsealByAnotherAbort], without_streams(scene(1, 1, twice))),
        case(16, "seal-stays", &[SealStays], scene(1, 1, late_seal)),
        case(12, "unseal-flipped-without-tenure", &[UnsealFlippedWithoutTenure], scene(1, 1, CHANGE)),
    ]
}

fn pins() -> Vec<Case> {
    use Mutation::*;
    let pin = |writes, reads, budget| pinning(scene(writes, reads, budget));
    let crash = Budget { crashes: 1, ..CHANGE };
    let taken_over = patient(without_streams(pin(1, 2, Budget { changes: 1, ..TAKEOVER })));
    let paused = Environment { pauses: true, ..pin(1, 1, CHANGE) };
    let unknown = detached(pin(1, 3, Budget { unknown_writes: 1, ..CHANGE }));
    let in_l2 = patient(without_streams(with_l2(pin(1, 2, Budget { changes: 1, ..EVICTIONS }))));
    vec![
        case(13, "pin-keeps-tenure", &[PinKeepsTenure], pin(1, 1, CHANGE)),
        case(16, "pin-keeps-fence-and-drain-without-unknown", &[PinKeepsFence, DrainWithoutUnknown], unknown),
        case(16, "no-drain-before-a-pin", &[NoDrain], pin(1, 2, CHANGE)),
        case(15, "read-pinned", &[ReadPinned], pin(1, 1, CHANGE)),
        case(17, "hit-pinned", &[HitPinned], paused),
        case(18, "register-pinned", &[RegisterPinned], pin(1, 2, CHANGE)),
        case(23, "redeem-pinned-in-a-kept-space", &[RedeemPinned, PinKeepsSpace], in_l2),
        case(20, "takeover-forgets-pinned", &[GainForgetsPinned], Environment { nodes: 3, ..taken_over }),
        case(18, "claim-forgets-pinned", &[GainForgetsPinned], patient(without_streams(pin(1, 2, crash)))),
        case(16, "renewal-forgets-pinned", &[RenewalForgetsPinned], pin(1, 1, Budget { renewals: 1, ..CHANGE })),
        case(13, "unseal-before-the-list", &[UnsealFlippedWithoutTenure], pin(1, 1, CHANGE)),
    ]
}

/// Every guard that another one makes superfluous as far as clients can see.
pub fn superfluous() -> Vec<Case> {
    use Mutation::*;
    let of = |name| environment(name).expect("it is in the catalogue");
    vec![
        case(0, "store-without-reign", &[StoreWithoutReign], of("there-and-back")),
        case(0, "store-written-without-reign", &[StoreWrittenWithoutReign], of("change-takeover-writes")),
        case(0, "fence-keeps-l1", &[FenceKeepsL1], of("change-takeover-writes")),
        case(0, "lease-without-nx", &[LeaseWithoutNx], of("takeover-cold")),
        case(0, "fenced-is-refused", &[FencedIsRefused], of("change-unknown")),
        case(0, "loss-keeps-reign", &[LossKeepsReign], of("there-and-back")),
        case(0, "new-reign-keeps-seal", &[NewReignKeepsSeal], of("change-takeover-writes")),
        case(0, "same-reign-by-unsealed", &[SameReignByUnsealed], of("change-takeover")),
        case(0, "takeover-keeps-change", &[TakeoverKeepsChange], of("change-takeover")),
        case(0, "flip-by-gained", &[FlipByGained], of("renewal-change")),
        case(0, "flip-without-receiver-incarnation", &[FlipWithoutReceiverIncarnation], of("change-crash")),
        case(0, "flip-without-receiver-lease", &[FlipWithoutReceiverLease], of("change-takeover")),
        case(0, "adopt-incomplete", &[AdoptIncomplete], of("there-and-back")),
        case(0, "adopt-after-serving", &[AdoptAfterServing], of("there-and-back")),
        case(0, "register-drops-current-only", &[RegisterDropsCurrentOnly], of("there-and-back")),
        case(0, "seal-without-journal", &[SealWithoutJournal], of("late-seal")),
        // Since W2 looks at the reign: see no-drain-and-older-reign.
        case(0, "no-drain", &[NoDrain], there_and_back()),
        case(0, "pin-keeps-fence", &[PinKeepsFence], of("pin")),
        case(0, "drain-without-unknown", &[DrainWithoutUnknown], of("pin")),
        case(0, "pin-keeps-space", &[PinKeepsSpace], of("pin-l2")),
        case(0, "redeem-pinned", &[RedeemPinned], of("pin-l2")),
    ]
}
