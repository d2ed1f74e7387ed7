//! A fresh, migrated database of either kind, and shorthands for what most cases do.

use std::time::Duration;

use bytes::Bytes;
use origin::{
    BeginOutcome, ClaimOutcome, DatabaseUrl, FencedWrite, InitOutcome, L2SpaceChange, ListRequest, NewChange,
    OpenOptions, Origin, Precondition, SealedSlot, SlotRow, WriteAnswer, WriteError, WriteKind,
};
use placement::ring::SlotMove;
use placement::{ChangeId, EntryKey, Epoch, Incarnation, Member, NodeId, Pool, Ring, Slot, Tenure, UserId, Weight};
use tempfile::TempDir;
use tests::postgres::PostgresServer;

/// Long enough for a case.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// For ten logins at once, each of which hashes a password some thousand times in a build without optimisation.
const CONNECT: Duration = Duration::from_secs(15);

pub(crate) enum Server {
    Postgres(Box<PostgresServer>),
    Sqlite(TempDir),
}

pub(crate) struct Fixture {
    pub(crate) origin: Origin,
    pub(crate) server: Server,
}

impl Fixture {
    pub(crate) async fn postgres() -> Self {
        Self::on(Server::Postgres(Box::new(PostgresServer::start().await.expect("a server")))).await
    }

    pub(crate) async fn sqlite() -> Self {
        Self::on(Server::Sqlite(TempDir::new().expect("a directory"))).await
    }

    async fn on(server: Server) -> Self {
        let origin = Origin::open(&url(&server), OpenOptions::default()).expect("an origin");
        origin.migrate().await.expect("a schema");
        Self { origin, server }
    }

    pub(crate) fn url(&self) -> DatabaseUrl {
        url(&self.server)
    }

    /// Another process' view of the same database. It has more time to connect than by default: many logins at once, on a
    /// machine that does other things as well, must not decide who wins a race.
    pub(crate) fn another(&self) -> Origin {
        let options = OpenOptions { acquire_timeout: CONNECT, ..OpenOptions::default() };
        Origin::open(&self.url(), options).expect("an origin")
    }

    /// The server of a case that only makes sense on Postgres.
    pub(crate) fn postgres_server(&mut self) -> &mut PostgresServer {
        match &mut self.server {
            Server::Postgres(server) => server,
            Server::Sqlite(_) => panic!("this case is for Postgres"),
        }
    }

    /// Registers n1, n2, n3 and makes a ring where n1 owns every slot.
    pub(crate) async fn ring(&self) -> [Incarnation; 3] {
        let mut incarnations = [Incarnation(0); 3];
        for (at, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
            incarnations[at] = claim(&self.origin, name, TTL).await.0;
        }
        assert_eq!(self.origin.init_ring(&ring_of(&["n1"])).await, Ok(InitOutcome::Created));
        incarnations
    }

    /// The row of a slot.
    pub(crate) async fn slot_row(&self, number: u16) -> SlotRow {
        let state = self.origin.ring_state().await.expect("a read").expect("a ring");
        state.slots[usize::from(number)].clone()
    }

    pub(crate) async fn tenure(&self, number: u16) -> Tenure {
        self.slot_row(number).await.tenure
    }

    /// RENEWs one slot of n1.
    pub(crate) async fn renew(&self, number: u16, tenure: Tenure) -> Vec<SlotRow> {
        let slots = [(slot(number), tenure)];
        self.origin.renew_tenure(&node("n1"), &slots, &L2SpaceChange::Keep).await.expect("an answer")
    }

    pub(crate) async fn write(&self, write: FencedWrite) -> Result<WriteAnswer, WriteError> {
        self.origin.write_entry(&write).await
    }

    pub(crate) async fn read(&self, name: &str) -> Option<(Bytes, i64)> {
        let entry = self.origin.read_entry(&user(), &key(name)).await.expect("a read");
        entry.map(|entry| (entry.value, entry.version.0))
    }

    pub(crate) async fn list(&self, prefix: &str, after: Option<&str>, limit: u32) -> Vec<String> {
        let request = ListRequest { prefix: prefix.to_owned(), after: after.map(str::to_owned), limit };
        let page = self.origin.list_entries(&user(), &request).await.expect("a page");
        page.into_iter().map(|entry| entry.key).collect()
    }

    /// Begins a change that moves these slots from n1 to n2.
    pub(crate) async fn begin(&self, slots: &[u16]) -> ChangeId {
        match self.origin.begin_change(&moving(1, slots)).await.expect("an answer") {
            BeginOutcome::Begun(id) => id,
            other => panic!("not begun: {other:?}"),
        }
    }

    /// The seal list of a change that moves these slots from n1 to n2, as of now.
    pub(crate) async fn seal_list(&self, slots: &[u16], incarnations: [Incarnation; 3]) -> Vec<SealedSlot> {
        let state = self.origin.ring_state().await.expect("a read").expect("a ring");
        let line = |number: &u16| SealedSlot {
            slot: slot(*number),
            owner: node("n1"),
            owner_incarnation: incarnations[0],
            tenure: state.slots[usize::from(*number)].tenure,
            stream: Some(format!("stream-{number}")),
            receiver: node("n2"),
            receiver_incarnation: incarnations[1],
        };
        slots.iter().map(line).collect()
    }
}

fn url(server: &Server) -> DatabaseUrl {
    match server {
        Server::Postgres(server) => server.url(),
        Server::Sqlite(directory) => format!("sqlite://{}/deep/down/origin.db", directory.path().display()),
    }
    .parse()
    .expect("a URL")
}

/// Claims a node that must be free.
pub(crate) async fn claim(origin: &Origin, name: &str, ttl: Duration) -> (Incarnation, Vec<SlotRow>) {
    let outcome =
        origin.claim_node(&node(name), &format!("{name}:8081"), Weight::default(), &Pool::default(), ttl).await;
    match outcome.expect("an answer") {
        ClaimOutcome::Claimed { incarnation, slots } => (incarnation, slots),
        other => panic!("not claimed: {other:?}"),
    }
}

pub(crate) fn ring_of(names: &[&str]) -> Ring {
    let members = names.iter().map(|name| member(name, 100)).collect();
    Ring::new(Epoch(1), members, |slot| node(names[slot.index() % names.len()])).expect("a ring")
}

pub(crate) fn member(name: &str, weight: u32) -> Member {
    Member { id: node(name), weight: Weight::try_from(weight).expect("a weight") }
}

/// A change from an epoch that adds n2 and moves these slots to it.
pub(crate) fn moving(from_epoch: u64, slots: &[u16]) -> NewChange {
    let to_n2 = |number: &u16| SlotMove::new(slot(*number), node("n1"), node("n2"));
    NewChange {
        action: "add-node n2".to_owned(),
        from_epoch: Epoch(from_epoch),
        members: vec![member("n2", 50), member("n1", 100)],
        moves: slots.iter().map(to_n2).collect(),
        operator: "conformance".to_owned(),
    }
}

pub(crate) fn node(name: &str) -> NodeId {
    name.parse().expect("a node id")
}

pub(crate) fn slot(number: u16) -> Slot {
    Slot::try_from(number).expect("a slot")
}

pub(crate) fn user() -> UserId {
    UserId::parse(b"alice").expect("a user")
}

pub(crate) fn key(name: &str) -> EntryKey {
    EntryKey::parse(name).expect("a key")
}

/// Alice's PUT through slot 7.
pub(crate) fn put(tenure: Tenure, name: &str, value: &str) -> FencedWrite {
    let kind = WriteKind::Put {
        value: Bytes::copy_from_slice(value.as_bytes()),
        content_type: "text/plain".to_owned(),
        cache_control: None,
    };
    FencedWrite { slot: slot(7), tenure, user: user(), key: key(name), kind, precondition: Precondition::None }
}

pub(crate) fn delete(tenure: Tenure, name: &str) -> FencedWrite {
    FencedWrite { kind: WriteKind::Delete, ..put(tenure, name, "") }
}

pub(crate) fn only(precondition: Precondition, write: FencedWrite) -> FencedWrite {
    FencedWrite { precondition, ..write }
}

/// The version of a write that must have created an entry.
pub(crate) fn created(answer: Result<WriteAnswer, WriteError>) -> i64 {
    match answer {
        Ok(WriteAnswer::Created(version)) => version.0,
        other => panic!("not created: {other:?}"),
    }
}

/// The version of a write that must have replaced an entry.
pub(crate) fn replaced(answer: Result<WriteAnswer, WriteError>) -> i64 {
    match answer {
        Ok(WriteAnswer::Replaced(version)) => version.0,
        other => panic!("not replaced: {other:?}"),
    }
}

/// Waits until a condition holds, at most 10 s.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let limit = Duration::from_secs(10);
    let poll = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(limit, poll).await.unwrap_or_else(|_| panic!("never: {what}"));
}
