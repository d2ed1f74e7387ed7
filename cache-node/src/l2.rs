//! L2: Redis servers, each slot's entries on one of them, under the slot's L2 space (protocol section 5).
//!
//! Not here: when L2 may be used for a slot (`placement::slot_hold`) and what may be stored (`placement::freshness`).

mod envelope;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod look_ups;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use placement::Slot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::wall_ms;
use crate::config::RedisUrl;
use crate::entry_name::EntryName;
use crate::l1::{Content, jittered};
use crate::limits;
use crate::metrics::Metrics;
use crate::shared_trips::SharedTrips;
use envelope::Useless;
use look_ups::{LookUps, Question};
use server::{Failure, Held, Server, Session};

/// All L2 servers of one node.
pub(crate) struct L2 {
    servers: Vec<Shard>,
    nonces: Nonces,
    ttl: Duration,
    negative_ttl: Duration,
    metrics: Arc<Metrics>,
}

/// One server, and the look-ups that share round trips to it.
struct Shard {
    server: Arc<Server>,
    look_ups: Arc<SharedTrips<LookUps>>,
}

/// The right to fill one L2 key once: void unless the key still holds our nonce (R8).
pub(crate) struct L2Lease {
    server: Arc<Server>,
    session: Arc<Session>,
    redis_key: String,
    nonce: String,
}

/// What L2 says of a name.
pub(crate) enum Lookup {
    /// A value or a known absence, and how long it may still live.
    Found(Content, Duration),
    /// Nothing there, or nothing that anybody could use: the lease to fill it is ours.
    Leased(L2Lease),
    /// Somebody else is filling it.
    LeasedByAnother,
    /// No usable answer.
    Failed,
}

impl L2 {
    /// `work` owns the look-ups in progress.
    pub(crate) fn new(
        urls: &[RedisUrl],
        ttl: Duration,
        negative_ttl: Duration,
        metrics: &Arc<Metrics>,
        work: &TaskTracker,
    ) -> Self {
        let shard = |url| {
            let server = Arc::new(Server::new(url, Arc::clone(metrics)));
            Shard { look_ups: LookUps::of(&server, work.clone()), server }
        };
        Self {
            servers: urls.iter().map(shard).collect(),
            nonces: Nonces::new(),
            ttl,
            negative_ttl,
            metrics: Arc::clone(metrics),
        }
    }

    /// Starts a task per server that keeps its session.
    pub(crate) fn start(&self, tasks: &TaskTracker, stop: &CancellationToken) {
        for shard in &self.servers {
            tasks.spawn(Arc::clone(&shard.server).keep_session(stop.clone()));
        }
    }

    /// Whether any server is configured.
    pub(crate) fn is_configured(&self) -> bool {
        !self.servers.is_empty()
    }

    /// How many servers have a session, of how many.
    pub(crate) fn sessions(&self) -> (usize, usize) {
        (self.servers.iter().filter(|shard| shard.server.session().is_some()).count(), self.servers.len())
    }

    /// Returns when every server has a session, or [`limits::L2_CONNECT`] is over. A node that takes writes earlier has to
    /// do without L2 for their slots (R4), and loses what is warm there.
    pub(crate) async fn first_sessions(&self) {
        let all = async {
            while self.servers.iter().any(|shard| shard.server.session().is_none()) {
                tokio::time::sleep(FIRST_SESSION_POLL).await;
            }
        };
        // A server that is away must not keep the node from its work.
        let _ = tokio::time::timeout(limits::L2_CONNECT, all).await;
    }

    /// Whether a session of the space's identity is there (R2).
    pub(crate) fn is_usable(&self, space: &str) -> bool {
        self.find(space).is_some()
    }

    /// The identity that a new space of the slot gets: that of its server, if it has a session.
    pub(crate) fn identity_for(&self, slot: Slot) -> Option<Arc<str>> {
        let shard = self.servers.get(slot.index() % self.servers.len().max(1))?;
        shard.server.session().map(|session| Arc::clone(&session.identity))
    }

    /// R6: lease or get, of names of one slot, in their order; in one round trip as far as one has room for them. `None` when
    /// the space is not usable.
    pub(crate) async fn look_up_all(&self, space: &str, names: &[&EntryName]) -> Option<Vec<Lookup>> {
        let (shard, session) = self.find(space)?;
        let leases: Vec<_> = names.iter().map(|name| self.lease(shard, &session, space, name)).collect();
        let questions = leases.iter().map(|lease| Question::lease_or_get(&session, &lease.redis_key, &lease.nonce));
        let asked = shard.look_ups.ask_all(questions);
        let mut found = Vec::with_capacity(names.len());
        for ((asked, lease), name) in asked.into_iter().zip(leases).zip(names) {
            found.push(match asked.answer().await.flatten() {
                None => Lookup::Failed,
                Some(held) => self.interpret(space, name, lease, held).await,
            });
        }
        Some(found)
    }

    /// R6: what a key held means.
    async fn interpret(&self, space: &str, name: &EntryName, lease: L2Lease, held: Held) -> Lookup {
        match held {
            None => Lookup::Leased(lease),
            Some(held) if held.starts_with(LEASE_PREFIX) => Lookup::LeasedByAnother,
            Some(stored) => match envelope::decode(&lease.redis_key, stored, wall_ms()) {
                Ok((content, left)) => Lookup::Found(content, left),
                Err(useless) => self.replace(space, name, useless).await,
            },
        }
    }

    /// R6: what no node can use would be in the way until its TTL.
    async fn replace(&self, space: &str, name: &EntryName, useless: Useless) -> Lookup {
        if useless == Useless::Unreadable {
            self.metrics.l2_unreadable.inc();
            tracing::warn!(slot = %name.slot, "L2 holds what cannot be read; it is replaced");
        }
        self.void(space, name).await.map_or(Lookup::Failed, Lookup::Leased)
    }

    /// What the key holds, for an audit: takes no lease and leaves the lifetime as it is. `None` for everything but a content.
    pub(crate) async fn peek(&self, space: &str, name: &EntryName) -> Option<Content> {
        let (shard, session) = self.find(space)?;
        let redis_key = name.l2_key(space);
        // As GET, but a command that writes, which a server that has become a replica refuses: as one it may have lost values.
        let mut command = redis::cmd("GETEX");
        command.arg(&redis_key);
        let held = shard.server.read(&session, vec![command]).await.pop()??;
        envelope::decode(&redis_key, held?, wall_ms()).ok().map(|(content, _)| content)
    }

    /// R7: makes whatever the key held unreadable. `None` when that is not confirmed.
    pub(crate) async fn void(&self, space: &str, name: &EntryName) -> Option<L2Lease> {
        let (shard, session) = self.find(space)?;
        let lease = self.lease(shard, &session, space, name);
        let mut command = redis::cmd("SET");
        command.arg(&lease.redis_key).arg(&lease.nonce).arg("PX").arg(limits::L2_LEASE.as_millis() as u64);
        match lease.server.run::<()>(&session, &command).await {
            Ok(()) => Some(lease),
            Err(Failure::NoAnswer) => None,
            Err(Failure::Refused) => {
                // It answered (full, read-only, …): R1 ends the session.
                lease.server.end_session(&session);
                None
            }
        }
    }

    /// R8: fills the key if our lease still stands. May land at any later time, or never.
    pub(crate) async fn redeem(&self, lease: L2Lease, content: &Content) {
        let ttl = jittered(if content.is_some() { self.ttl } else { self.negative_ttl });
        let stored = envelope::encode(&lease.redis_key, content, wall_ms() + ttl.as_millis() as u64);
        let mut command = redis::cmd("EVAL");
        command.arg(REDEEM).arg(1).arg(&lease.redis_key).arg(&lease.nonce).arg(stored).arg(ttl.as_millis() as u64);
        // A failure leaves the lease in place, which expires by itself.
        let _ = lease.server.run::<i64>(&lease.session, &command).await;
    }

    /// One to ask for, under a nonce of its own.
    fn lease(&self, shard: &Shard, session: &Arc<Session>, space: &str, name: &EntryName) -> L2Lease {
        let (server, session) = (Arc::clone(&shard.server), Arc::clone(session));
        L2Lease { server, session, redis_key: name.l2_key(space), nonce: self.nonces.next() }
    }

    fn find(&self, space: &str) -> Option<(&Shard, Arc<Session>)> {
        let (identity, _) = space.rsplit_once('/')?;
        self.servers.iter().find_map(|shard| {
            let session = shard.server.session().filter(|session| *session.identity == *identity)?;
            Some((shard, session))
        })
    }
}

/// Words that no node says twice.
struct Nonces {
    /// Of this run of this node: [`LEASE_PREFIX`] and 128 random bits.
    begin: String,
    given: AtomicU64,
}

impl Nonces {
    fn new() -> Self {
        Self { begin: format!("lease:{:032x}:", rand::random::<u128>()), given: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        [&self.begin, itoa::Buffer::new().format(number)].concat()
    }
}

/// How often a starting node looks whether the servers have their sessions.
const FIRST_SESSION_POLL: Duration = Duration::from_millis(10);

const LEASE_PREFIX: &[u8] = b"lease:";

const REDEEM: &str = "if redis.call('GET',KEYS[1])==ARGV[1] then redis.call('SET',KEYS[1],ARGV[2],'PX',ARGV[3]) \
                      return 1 end return 0";
