//! Nodes, database and Redis away for longer than a lease, while a warm change copies and when it has sealed: it ends by
//! itself or by a verb, says truly how, and nothing is stale.

use std::time::Duration;

use tests::cluster::ClusterOptions;
use tests::fault_proxy::{Fault, FaultProxy};
use tests::ring_change::{done, json, l2_in_use, start};

use crate::scene::{CHANGE_BOUND, EVERYTHING, Ended, SLOWLY, Scene, assert_clean};

/// Longer than a lease of 3 s.
const FROZEN: Duration = Duration::from_secs(5);
const CUT_OFF: Duration = Duration::from_secs(6);
/// Until Redis is started again: its absence has been noticed.
const REDIS_AWAY: Duration = Duration::from_secs(1);
/// How long a change may go on with somebody away: that, a seal (10 s) or the old owners' word (15 s), and a slow machine.
const AWAY_BOUND: Duration = Duration::from_secs(45);
/// How long a flip is held so that something can happen before it: less than a statement of the migrator may take (2 s).
const HELD: Duration = Duration::from_millis(500);

/// Who is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    Frozen(Role),
    /// From the database.
    CutOff(Role),
    Redis,
    Postgres,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    OldOwner,
    Receiver,
}

/// When it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Copying,
    Sealed,
}

/// A scene in which "n3" and "n4" reach the database by links of their own, and the ring as it should be.
struct Stage {
    scene: Scene,
    links: [(&'static str, FaultProxy); 2],
    epoch: u64,
    is_in: bool,
}

impl Stage {
    async fn set() -> Self {
        let mut cluster = start(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await;
        let postgres = cluster.postgres.as_ref().expect("on Postgres");
        let upstream = format!("127.0.0.1:{}", postgres.port());
        let links = [("n3", FaultProxy::start(&upstream).await), ("n4", FaultProxy::start(&upstream).await)];
        let [third, fourth] = links.each_ref().map(|(_, link)| postgres.url_through(link.address()));
        cluster.add_standby("n3", &[("DATABASE_URL", &third)]).await;
        done(&cluster, &["add-node", "n3"]).await;
        let scene = Scene::on(cluster, EVERYTHING, &[("DATABASE_URL", &fourth)]).await;
        Self { scene, links, epoch: 2, is_in: false }
    }

    /// "n4" comes and goes: "n3" is among those who give, or get.
    fn node(&self, role: Role) -> &'static str {
        if (role == Role::OldOwner) == self.is_in { "n4" } else { "n3" }
    }

    /// Adds "n4", or removes it if it is in, while somebody is away.
    async fn round(&mut self, away: Away, moment: Moment) {
        self.scene.put_heavy().await;
        l2_in_use(&self.scene.cluster).await;
        let verb = if self.is_in { ["remove-node", "n4"] } else { ["add-node", "n4"] };
        let ended = match moment {
            Moment::Copying => {
                let giver = [self.node(Role::OldOwner)];
                let before = self.scene.sent(&giver).await;
                let migrator = self.scene.change(&[&verb[..], &SLOWLY].concat());
                self.scene.copying(&giver, &before).await;
                self.strike(away).await;
                Ended::of(migrator, AWAY_BOUND).await
            }
            Moment::Sealed => {
                let postgres = self.scene.cluster.postgres.as_ref().expect("on Postgres");
                let mut session = postgres.session().await.expect("psql");
                // Reads, writes and seals of slots pass, the flip does not.
                session.run("BEGIN; LOCK TABLE ring_epochs IN SHARE ROW EXCLUSIVE MODE").await.expect("locked");
                let migrator = self.scene.change(&verb);
                self.scene.gateway.sees_phase("sealed").await;
                let release = async {
                    tokio::time::sleep(HELD).await;
                    drop(session);
                };
                tokio::join!(self.strike(away), release);
                Ended::of(migrator, AWAY_BOUND).await
            }
        };
        println!("{away:?}, {moment:?}, {verb:?}: {} {}", ended.code, ended.result());
        self.ended_truly(away, &ended).await;
        self.scene.ring_is(self.epoch, self.is_in).await;
        self.scene.all_serve().await;
    }

    /// Away, and back.
    async fn strike(&mut self, away: Away) {
        match away {
            Away::Frozen(role) => {
                let node = &self.scene.cluster.nodes[self.node(role)].process;
                node.pause();
                tokio::time::sleep(FROZEN).await;
                node.resume();
            }
            Away::CutOff(role) => {
                let (_, link) = self.links.iter().find(|(name, _)| *name == self.node(role)).expect("it has a link");
                link.set(Fault::Blackhole).await;
                tokio::time::sleep(CUT_OFF).await;
                // What has piled up is no use to anybody any more.
                link.set(Fault::Reset).await;
                link.set(Fault::Pass).await;
            }
            Away::Redis => {
                let redis = &mut self.scene.cluster.redis[0];
                redis.kill().await.expect("killed");
                tokio::time::sleep(REDIS_AWAY).await;
                redis.restart().await.expect("it starts");
            }
            Away::Postgres => {
                let postgres = self.scene.cluster.postgres.as_mut().expect("on Postgres");
                postgres.stop().await.expect("it stops");
                postgres.restart().await.expect("it starts");
            }
        }
    }

    /// Exit code and message agree with the journal; what is left is ended as the message says.
    async fn ended_truly(&mut self, away: Away, ended: &Ended) {
        let cluster = &self.scene.cluster;
        let reason = ended.result()["reason"].to_string();
        let mut is_done = ended.code == 0;
        if ended.code == 1 {
            assert!(reason.contains("is left in phase"), "{}", ended.log);
            let next = ended.result()["next"].to_string();
            let status = json(cluster, &["status"]).await;
            if !status["change"].is_null() {
                let verb = if next.contains("abort") { "abort" } else { "resume" };
                println!("{verb}: {:?}", done(cluster, &[verb]).await);
            }
            is_done = json(cluster, &["status"]).await["last_change"]["phase"] == "done";
        } else {
            assert!(matches!(ended.code, 0 | 4), "{}", ended.log);
        }
        let status = json(cluster, &["status"]).await;
        assert!(status["change"].is_null(), "{status}");
        let expected = if is_done { "done" } else { "aborted" };
        assert_eq!(status["last_change"]["phase"], expected, "{status}");
        if let (false, Away::Frozen(role) | Away::CutOff(role)) = (is_done, away) {
            assert!(reason.contains(self.node(role)), "it names who was away: {reason}");
        }
        self.epoch += u64::from(is_done);
        self.is_in ^= is_done;
    }
}

/// One absence after the other under the checker; in the end a change that nobody disturbs.
async fn each_of(rounds: &[(Away, Moment)]) {
    let seed = rand::random();
    let mut stage = Stage::set().await;
    let checker = stage.scene.checked(seed);
    for (away, moment) in rounds {
        stage.round(*away, *moment).await;
    }
    let verb = if stage.is_in { "remove-node" } else { "add-node" };
    Ended::of(stage.scene.change(&[verb, "n4"]), CHANGE_BOUND).await.done();
    stage.scene.ring_is(stage.epoch + 1, !stage.is_in).await;
    assert_clean(checker, seed, true).await;
}

#[tokio::test]
async fn a_node_frozen_past_its_lease_during_the_copy_costs_at_most_the_change() {
    each_of(&[(Away::Frozen(Role::OldOwner), Moment::Copying), (Away::Frozen(Role::Receiver), Moment::Copying)]).await;
}

#[tokio::test]
async fn a_node_frozen_past_its_lease_at_the_seal_costs_at_most_the_change() {
    each_of(&[(Away::Frozen(Role::OldOwner), Moment::Sealed), (Away::Frozen(Role::Receiver), Moment::Sealed)]).await;
}

#[tokio::test]
async fn a_node_cut_off_from_the_database_during_the_copy_costs_at_most_the_change() {
    each_of(&[(Away::CutOff(Role::OldOwner), Moment::Copying), (Away::CutOff(Role::Receiver), Moment::Copying)]).await;
}

#[tokio::test]
async fn a_node_cut_off_from_the_database_at_the_seal_costs_at_most_the_change() {
    each_of(&[(Away::CutOff(Role::OldOwner), Moment::Sealed), (Away::CutOff(Role::Receiver), Moment::Sealed)]).await;
}

#[tokio::test]
async fn redis_and_postgres_started_again_during_a_change_cost_at_most_the_change() {
    each_of(&[
        (Away::Redis, Moment::Copying),
        (Away::Redis, Moment::Sealed),
        (Away::Postgres, Moment::Copying),
        (Away::Postgres, Moment::Sealed),
    ])
    .await;
}
