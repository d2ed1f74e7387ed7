//! Carrying a fault out, and ending it.

use anyhow::{Context, ensure};
use tests::cluster::Link;
use tests::fault_proxy;
use tests::postgres::PostgresServer;

use crate::fault::{Fault, PostgresFault, ProcessFault, RedisFault, Who, node_name};
use crate::stage::{Stage, follow};

impl Stage {
    /// Begins a fault; does not wait for its length.
    pub(crate) async fn begin(&mut self, fault: &Fault) -> anyhow::Result<()> {
        match fault {
            Fault::Process(who, fault) => self.begin_process(*who, *fault),
            Fault::Link(link, fault) => self.cluster.links.of(link).set(*fault).await,
            Fault::Redis(fault) => self.begin_redis(*fault).await.context("redis")?,
            Fault::Postgres(fault) => self.begin_postgres(*fault).await.context("postgres")?,
            Fault::Change { verb, pick, .. } => self.begin_change(*verb, *pick).await,
        }
        Ok(())
    }

    /// Ends it: what it was done to is whole again, or on its way there.
    pub(crate) async fn end(&mut self, fault: &Fault) -> anyhow::Result<()> {
        match fault {
            Fault::Process(who, fault) => self.end_process(*who, *fault),
            Fault::Link(link, _) => self.cluster.links.of(link).set(fault_proxy::Fault::Pass).await,
            Fault::Redis(fault) => self.end_redis(*fault).await.context("redis")?,
            Fault::Postgres(fault) => self.end_postgres(*fault).await.context("postgres")?,
            Fault::Change { ending, .. } => self.end_change(*ending),
        }
        Ok(())
    }

    fn begin_process(&mut self, who: Who, fault: ProcessFault) {
        let process = match who {
            Who::Node(number) => &mut self.cluster.node(&node_name(number)).process,
            Who::Gateway(number) => &mut self.cluster.gateways[number].process,
            Who::Controller(number) => &mut self.controllers[number],
        };
        match fault {
            ProcessFault::Kill => process.kill(),
            ProcessFault::Pause => process.pause(),
            ProcessFault::Stop { .. } => process.ask_to_stop(),
        }
    }

    fn end_process(&mut self, who: Who, fault: ProcessFault) {
        match (who, fault) {
            (Who::Node(number), ProcessFault::Pause) => self.cluster.node(&node_name(number)).process.resume(),
            (Who::Gateway(number), ProcessFault::Pause) => self.cluster.gateways[number].process.resume(),
            (Who::Controller(number), ProcessFault::Pause) => self.controllers[number].resume(),
            // A stop that is not over is cut short.
            (Who::Node(number), ProcessFault::Stop { next_hands_off }) => {
                let drain = if next_hands_off { "handoff" } else { "release" };
                self.cluster.node(&node_name(number)).restart_with(&[("SHARDCACHE_DRAIN", drain)]);
            }
            (Who::Node(number), ProcessFault::Kill) => self.cluster.node(&node_name(number)).restart(),
            (Who::Gateway(number), _) => self.cluster.gateways[number].restart(),
            (Who::Controller(number), _) => {
                self.controllers[number].kill();
                self.controllers[number] = self.start_controller(number);
            }
        }
    }

    async fn begin_redis(&mut self, fault: RedisFault) -> anyhow::Result<()> {
        let (primary, other) = self.redis_pair();
        match fault {
            RedisFault::Restart => self.redis[self.primary].kill().await?,
            RedisFault::Flush => said_ok(&primary.cli(&["FLUSHALL"]).await?)?,
            RedisFault::Pause => primary.pause()?,
            RedisFault::Demote => follow(primary, Some(other)).await?,
            RedisFault::Fill => {
                said_ok(&primary.cli(&["CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"]).await?)?;
            }
            RedisFault::KillClients => {
                primary.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await?;
            }
            RedisFault::Copy => self.copy_redis().await?,
            RedisFault::FailOver { in_step, close } => {
                if in_step {
                    self.copy_redis().await?;
                }
                self.fail_over(close).await?;
            }
        }
        Ok(())
    }

    async fn end_redis(&mut self, fault: RedisFault) -> anyhow::Result<()> {
        match fault {
            RedisFault::Restart => self.redis[self.primary].restart().await?,
            RedisFault::Pause => self.redis_pair().0.resume()?,
            RedisFault::Demote => follow(self.redis_pair().0, None).await?,
            RedisFault::Fill => said_ok(&self.redis_pair().0.cli(&["CONFIG", "SET", "maxmemory", "0"]).await?)?,
            RedisFault::Flush | RedisFault::KillClients | RedisFault::Copy | RedisFault::FailOver { .. } => {}
        }
        Ok(())
    }

    /// The other server takes the primary's place. Connections to the old one that are not closed stay: nodes may
    /// see two primaries for a while.
    async fn fail_over(&mut self, close: bool) -> anyhow::Result<()> {
        self.primary = 1 - self.primary;
        let (primary, old) = self.redis_pair();
        for (link, proxy) in self.cluster.links.all() {
            if matches!(link, Link::NodeRedis(..)) {
                proxy.redirect(&format!("127.0.0.1:{}", primary.port()));
            }
        }
        if close {
            old.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await?;
        }
        Ok(())
    }

    async fn begin_postgres(&mut self, fault: PostgresFault) -> anyhow::Result<()> {
        const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                                 WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
        let server = self.postgres();
        match fault {
            PostgresFault::Restart => server.stop().await?,
            PostgresFault::Crash => server.kill().await?,
            PostgresFault::Pause => server.pause()?,
            PostgresFault::Terminate => {
                server.sql(TERMINATE).await?;
            }
            PostgresFault::ReadOnly => {
                server.sql("ALTER SYSTEM SET default_transaction_read_only = on").await?;
                server.sql("SELECT pg_reload_conf()").await?;
            }
            PostgresFault::LockEntries | PostgresFault::LockSlots => {
                let table = if fault == PostgresFault::LockEntries { "entries" } else { "slots" };
                let mut session = server.session().await?;
                // One that is not got in time is no fault, and no harm.
                session.run("SET lock_timeout = '2s'; BEGIN").await?;
                session.run(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
                self.lock = Some(session);
            }
        }
        Ok(())
    }

    async fn end_postgres(&mut self, fault: PostgresFault) -> anyhow::Result<()> {
        let server = self.postgres();
        match fault {
            PostgresFault::Restart | PostgresFault::Crash => server.restart().await?,
            PostgresFault::Pause => server.resume()?,
            PostgresFault::Terminate => {}
            PostgresFault::ReadOnly => {
                server.sql("ALTER SYSTEM RESET default_transaction_read_only").await?;
                server.sql("SELECT pg_reload_conf()").await?;
            }
            PostgresFault::LockEntries | PostgresFault::LockSlots => {
                let mut session = self.lock.take().context("a lock has been taken")?;
                session.run("ROLLBACK").await?;
            }
        }
        Ok(())
    }

    pub(crate) fn postgres(&mut self) -> &mut PostgresServer {
        self.cluster.postgres.as_mut().expect("the cluster is on Postgres")
    }
}

fn said_ok(answer: &str) -> anyhow::Result<()> {
    ensure!(answer == "OK", "{answer}");
    Ok(())
}
