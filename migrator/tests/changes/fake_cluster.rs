//! A database file with registered nodes that answer the control plane as real ones do, or as badly as a case wants.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use client::NodeClient;
use migrator::phases::{Tools, Waits};
use migrator::plan::{self, Plan, Verb};
use migrator::{Progress, init};
use origin::{ClaimOutcome, DatabaseUrl, L2SpaceChange, OpenOptions, Origin, RingState};
use placement::{ChangeId, Epoch, Incarnation, NodeId, Phase, Pool, Slot, Weight};
use service::tls::NodeDialler;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use wire::control::{SealReport, SealRequest, SealedTenure, SettleReport, SlotContents, SlotsReport};
use wire::{Problem, ProblemCode};

use crate::fake_copy::{self, CopyDesk};

/// Long enough for a case.
const TTL: Duration = Duration::from_secs(60);
/// What nodes get in the cases: long enough for a busy machine, short enough to wait for.
pub(crate) const WAITS: Waits = Waits { seal: Duration::from_secs(5), settle: Duration::from_millis(500) };

/// What every node holds of every slot.
pub(crate) const ENTRIES_PER_SLOT: u64 = 10;
/// Their keys and values.
pub(crate) const BYTES_PER_SLOT: u64 = 100;

/// How a node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    /// As it should.
    Good,
    /// Refuses every seal for good.
    RefusesSeal,
    /// Its seals wait until the case opens the gate.
    HoldsSeal,
    /// Renews a slot right after its report: what the seal promises not to do.
    RenewsAfterSeal,
    /// Says after the flip that slots are still sealed.
    StaysSealed,
}

pub(crate) struct FakeNode {
    pub(crate) id: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) copying: CopyDesk,
    /// What its L1 holds of each slot.
    entries_per_slot: AtomicU64,
    origin: Origin,
    manners: Mutex<Manners>,
    sealed_for: Mutex<Option<ChangeId>>,
    seals_begun: Semaphore,
    gate: Semaphore,
}

impl FakeNode {
    pub(crate) fn behave(&self, manners: Manners) {
        *self.manners.lock().expect("not poisoned") = manners;
    }

    pub(crate) fn sealed_for(&self) -> Option<ChangeId> {
        *self.sealed_for.lock().expect("not poisoned")
    }

    /// What its L1 holds of each slot from now on.
    pub(crate) fn holds(&self, entries_per_slot: u64) {
        self.entries_per_slot.store(entries_per_slot, Ordering::Relaxed);
    }

    /// Returns once the node is asked to seal.
    pub(crate) async fn asked_to_seal(&self) {
        self.seals_begun.acquire().await.expect("never closed").forget();
    }

    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(1);
    }

    fn manners(&self) -> Manners {
        *self.manners.lock().expect("not poisoned")
    }
}

pub(crate) struct FakeCluster {
    pub(crate) origin: Origin,
    pub(crate) nodes: BTreeMap<String, Arc<FakeNode>>,
    pub(crate) url: DatabaseUrl,
    _data: TempDir,
}

impl FakeCluster {
    /// Nodes n1 to n4, of which these are in the ring.
    pub(crate) async fn with_members(members: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let url = DatabaseUrl::Sqlite(data.path().join("shardcache.db"));
        let origin = Origin::open(&url, OpenOptions::default()).expect("an origin");
        origin.migrate().await.expect("a schema");
        let mut cluster = Self { origin, nodes: BTreeMap::new(), url, _data: data };
        for name in ["n1", "n2", "n3", "n4"] {
            cluster.start_node(name).await;
        }
        let ids: Vec<NodeId> = members.iter().map(|name| node(name)).collect();
        init(&cluster.origin, &ids, TTL, &Progress::Silent).await.expect("a ring");
        cluster
    }

    async fn start_node(&mut self, name: &str) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let claimed = self
            .origin
            .claim_node(&node(name), &address, Weight::default(), &Pool::default(), TTL)
            .await
            .expect("a claim");
        let ClaimOutcome::Claimed { incarnation, .. } = claimed else { panic!("not claimed: {claimed:?}") };
        let fake = Arc::new(FakeNode {
            id: node(name),
            incarnation,
            copying: CopyDesk::default(),
            entries_per_slot: AtomicU64::new(ENTRIES_PER_SLOT),
            origin: self.origin.clone(),
            manners: Mutex::new(Manners::Good),
            sealed_for: Mutex::new(None),
            seals_begun: Semaphore::new(0),
            gate: Semaphore::new(0),
        });
        let routes = Router::new()
            .route("/internal/changes/{change}/seal", post(seal))
            .route("/internal/changes/{change}/copy", post(fake_copy::copy))
            .route("/internal/load", get(fake_copy::load))
            .route("/internal/changes/{change}/settle", post(settle))
            .route("/internal/refresh", post(|| async { StatusCode::NO_CONTENT }))
            .route("/internal/slots", get(slots))
            .with_state(Arc::clone(&fake));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        self.nodes.insert(name.to_owned(), fake);
    }

    pub(crate) fn node(&self, name: &str) -> &FakeNode {
        &self.nodes[name]
    }

    /// The node is gone, as far as the database knows.
    pub(crate) async fn end_lease(&self, name: &str) {
        let fake = self.node(name);
        assert!(self.origin.release_lease(&fake.id, fake.incarnation).await.expect("an answer"));
    }

    /// Another process of the node, at the same address.
    pub(crate) async fn claim_again(&self, name: &str) {
        let rows = self.origin.nodes().await.expect("a read");
        let row = rows.iter().find(|row| row.id == node(name)).expect("registered");
        let claimed = self.origin.claim_node(&row.id, &row.address, row.weight, &row.pool, TTL).await.expect("a claim");
        assert!(matches!(claimed, ClaimOutcome::Claimed { .. }), "{claimed:?}");
    }

    pub(crate) fn tools(&self) -> Tools {
        let nodes = NodeClient::new(None, NodeDialler::default(), WAITS.seal);
        Tools { origin: self.origin.clone(), nodes, progress: Progress::Silent, waits: WAITS }
    }

    pub(crate) async fn ring(&self) -> RingState {
        self.origin.ring_state().await.expect("a read").expect("a ring")
    }

    pub(crate) async fn plan(&self, verb: &Verb) -> Plan {
        plan::make(&self.ring().await, verb).expect("a plan")
    }

    /// Epoch, and owner of each slot.
    pub(crate) async fn map(&self) -> (Epoch, Vec<NodeId>) {
        let ring = self.ring().await;
        (ring.digest.epoch, ring.slots.into_iter().map(|row| row.owner).collect())
    }

    pub(crate) async fn phase(&self, change: ChangeId) -> Phase {
        self.origin.change(change).await.expect("a read").expect("a change").phase
    }
}

pub(crate) fn node(name: &str) -> NodeId {
    name.parse().expect("a node id")
}

pub(crate) fn add(name: &str) -> Verb {
    Verb::AddNode { id: node(name), weight: None }
}

pub(crate) fn remove(name: &str) -> Verb {
    Verb::RemoveNode { id: node(name) }
}

async fn seal(
    State(fake): State<Arc<FakeNode>>,
    Path(change): Path<i64>,
    Json(request): Json<SealRequest>,
) -> Response {
    fake.seals_begun.add_permits(1);
    let manners = fake.manners();
    if manners == Manners::RefusesSeal {
        return Problem::new(ProblemCode::Forbidden, "not today").into_response::<axum::body::Body>();
    }
    *fake.sealed_for.lock().expect("not poisoned") = Some(ChangeId(change));
    if manners == Manners::HoldsSeal {
        fake.gate.acquire().await.expect("never closed").forget();
    }
    let ring = fake.origin.ring_state().await.expect("a read").expect("a ring");
    let sealed = |slot: Slot| SealedTenure { slot, tenure: ring.slots[slot.index()].tenure };
    let slots: Vec<SealedTenure> = request.slots.into_iter().map(sealed).collect();
    if manners == Manners::RenewsAfterSeal {
        let renewed = [(slots[0].slot, slots[0].tenure)];
        let rows = fake.origin.renew_tenure(&fake.id, &renewed, &L2SpaceChange::Keep).await.expect("a renewal");
        assert_eq!(rows.len(), 1);
    }
    let streams = fake.copying.complete_streams(change);
    Json(SealReport { node: fake.id.clone(), incarnation: fake.incarnation, slots, streams }).into_response()
}

async fn settle(State(fake): State<Arc<FakeNode>>, Path(change): Path<i64>) -> Json<SettleReport> {
    let change = ChangeId(change);
    let phase = fake.origin.change(change).await.expect("a read").expect("a change").phase;
    let mut sealed_for = fake.sealed_for.lock().expect("not poisoned").take_if(|sealed| *sealed == change);
    if matches!(phase, Phase::Copy | Phase::Sealed) || fake.manners() == Manners::StaysSealed {
        *fake.sealed_for.lock().expect("not poisoned") = sealed_for;
    } else {
        sealed_for = None;
    }
    let epoch = fake.origin.epoch().await.expect("a read");
    let still_sealed = sealed_for.is_some();
    Json(SettleReport { node: fake.id.clone(), incarnation: fake.incarnation, epoch, still_sealed })
}

/// The same in every slot.
async fn slots(State(fake): State<Arc<FakeNode>>) -> Json<SlotsReport> {
    let entries = fake.entries_per_slot.load(Ordering::Relaxed);
    let contents = Slot::all().map(|slot| SlotContents { slot, entries, bytes: BYTES_PER_SLOT }).collect();
    Json(SlotsReport { node: fake.id.clone(), owned: 0, slots: contents })
}
