//! The guards of the protocol, each of which can be taken away to see what it is for.

/// One guard taken away, or replaced by what is often done instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// G5: the guard is not looked at.
    StoreWithoutGuard,
    /// G5: the reign is not looked at; the tag is the noted one.
    StoreWithoutReign,
    /// G1: a load is joined under the same guard, whatever its reign.
    JoinByGuardOnly,
    /// G1: any load in progress is joined.
    JoinAnyLoad,
    /// G1: a writer on the key does not send reads to the origin.
    ReadBesideWriter,
    /// G1: the lease is not looked at.
    ReadWithoutLease,
    /// G1: any L1 entry is a hit, whatever its tag.
    LookUpWithoutTag,
    /// G4: the guard is not looked at.
    RedeemWithoutGuard,
    /// G4: the reign is not looked at.
    RedeemWithoutReign,
    /// G4: the lease is not looked at.
    RedeemWithoutLease,
    /// G4: the seal is not looked at.
    RedeemWithoutSeal,
    /// G4: nothing is looked at.
    RedeemUnchecked,
    /// R8: the redeem does not compare the nonce.
    RedeemWithoutCompare,
    /// R6: an L2 lease is taken even where another has one.
    LeaseWithoutNx,
    /// R2: a session of another identity is good enough.
    IdentityIgnored,
    /// R1: the identity of a server is its run id, which a demotion and a promotion leave alone.
    IdentityIsRunId,
    /// R1: a value found in L2 counts without another look at the server's identity.
    IdentityNotReread,
    /// R1: the look at the server's identity comes before the value is read.
    IdentityReadFirst,
    /// W1: two writers at a key.
    TwoWriters,
    /// W1: check and registration are two critical sections.
    RegistrationInTwoSteps,
    /// W1: only an entry of the current reign is dropped.
    RegisterDropsCurrentOnly,
    /// W2: a write goes on under another reign than it was registered under.
    OlderReignGoesOn,
    /// W2: L2 is voided after the commit.
    VoidAfterCommit,
    /// W2, R4: a void that is not confirmed is forgotten.
    UnconfirmedVoidIgnored,
    /// W3: the statement is not fenced.
    NoFence,
    /// W3: the fence takes no row lock.
    FenceWithoutRowLock,
    /// W3: the fence compares `gained`.
    FenceByGained,
    /// W4: a fenced write is refused, also where the slot is still ours.
    FencedIsRefused,
    /// W5: the reign is not looked at; the tag is the noted one.
    StoreWrittenWithoutReign,
    /// C4: W5 appends to the stream of another reign.
    AppendWithoutReign,
    /// W6: the key is free before a newer tenure is confirmed.
    KeyFreedBeforeRenewal,
    /// W6: the key is free, and nothing is renewed, while the reign is the same.
    SettledBySameReign,
    /// W6: a write of unknown outcome is sent again.
    UnknownSentAgain,
    /// X2: a dropped write frees its key, sent or not.
    DroppedWriteFreesKey,
    /// X2: a dropped write leaves its marks.
    DroppedWriteLeavesMarks,
    /// T1: the incarnation is not looked at.
    TableReadWithoutIncarnation,
    /// T2: rows are applied in any order.
    RowsGoBack,
    /// T3: "owner is me" makes the same reign, and a seal ends when its change has flipped.
    SameReignByOwner,
    /// T3: "owner is me and not sealed" makes the same reign.
    SameReignByUnsealed,
    /// T4: a slot that was lost and gained again has its old reign.
    RegainKeepsReign,
    /// T4: a new reign does not end the seal.
    NewReignKeepsSeal,
    /// T5: the reign ends at the next gain, not at the loss.
    LossKeepsReign,
    /// L2: a row that was asked for before the process was fenced is applied after it.
    RowOutlivesFence,
    /// L2: L1 is not emptied when the process is fenced.
    FenceKeepsL1,
    /// L1: the lease counts from the confirmation.
    LeaseFromConfirmation,
    /// L3, L4: a takeover or claim does not wait for the lease.
    TakeoverBeforeLeaseEnd,
    /// L3: the incarnation is not raised.
    TakeoverKeepsIncarnation,
    /// L3: the active change is not aborted.
    TakeoverKeepsChange,
    /// C3: a stream that is opened again keeps R'.
    ReopenedStreamKeepsReign,
    /// C3: a stream outlives the reign it was opened under.
    StreamOutlivesReign,
    /// C4: writes are not told to the stream.
    NoInvalidate,
    /// C4: writes are told to the stream after their commit.
    InvalidateAfterCommit,
    /// C4: writes are told to the stream in a step of its own after W1.
    InvalidateLater,
    /// C4: an entry is looked up and appended in two steps.
    CopyInTwoSteps,
    /// C5: nothing is sealed.
    NoSeal,
    /// C5: a node seals without a look at the journal.
    SealWithoutJournal,
    /// C5: the end does not wait for registered writes.
    NoDrain,
    /// C5: a second seal takes the place of one that is not settled.
    SecondSealReplaces,
    /// C6: the phase is not looked at.
    FlipInAnyPhase,
    /// C6: the tenure of the seal is not looked at.
    FlipWithoutTenure,
    /// C6: `gained` is compared instead of the tenure.
    FlipByGained,
    /// C6: the receiver's incarnation is not looked at.
    FlipWithoutReceiverIncarnation,
    /// C6: the receiver's lease is not looked at.
    FlipWithoutReceiverLease,
    /// C8: any offer is adopted, whatever the journal says.
    AdoptWithoutJournal,
    /// C8: an incomplete stream is good enough.
    AdoptIncomplete,
    /// C8: adopted after serving has begun.
    AdoptAfterServing,
    /// C9: a node unseals whatever the journal says.
    UnsealAnyTime,
    /// C9: a node unseals when any change is aborted.
    UnsealByAnotherAbort,
    /// C9: a seal that was set after its change had flipped stays.
    SealStays,
    /// C9: a node unseals when its change has flipped, whatever row it holds.
    UnsealFlippedWithoutTenure,
    /// C5: the end does not wait for writes of unknown outcome.
    DrainWithoutUnknown,
    /// P3: the flip leaves the tenure of the slot alone that the user leaves.
    PinKeepsTenure,
    /// P3: the flip renews that tenure, but statements under the one before can still commit.
    PinKeepsFence,
    /// P3: the user's own slot has the L2 space of its home.
    PinKeepsSpace,
    /// P1: a takeover or claim of the home loses its list.
    GainForgetsPinned,
    /// P1: the row that a RENEW of the home returns has no list.
    RenewalForgetsPinned,
    /// P4, G1: the list is not looked at in the critical section.
    ReadPinned,
    /// P4, G1: the list is not looked at after the slot's word, on the path without a lock.
    HitPinned,
    /// P4, G4: the list is not looked at.
    RedeemPinned,
    /// P4, W1: the list is not looked at.
    RegisterPinned,
}

/// The protocol as it is held in a run: whole, or without some of its guards.
#[derive(Clone, Copy, Debug)]
pub struct Rules(pub &'static [Mutation]);

impl Rules {
    /// All guards in place.
    pub const WHOLE: Self = Self(&[]);

    /// Whether this guard is taken away.
    pub fn lack(&self, mutation: Mutation) -> bool {
        self.0.contains(&mutation)
    }
}
