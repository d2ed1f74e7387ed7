//! A cluster on a file whose programs all speak TLS: nodes with mutual TLS, a gateway with TLS for its clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tests::poll::eventually;
use tests::processes::{Env, Finished, Process, free_address, run};

use crate::certificates::{Authority, Pair, TlsClient};

/// How long a program may take to be ready.
const READY: Duration = Duration::from_secs(30);
/// How long one migrator verb may take.
const MIGRATOR_BOUND: Duration = Duration::from_secs(120);

pub(crate) struct Scene {
    pub(crate) nodes: BTreeMap<String, (SocketAddr, Process)>,
    pub(crate) gateway: SocketAddr,
    pub(crate) redirect: SocketAddr,
    pub(crate) gateway_process: Option<Process>,
    /// Signs the certificates of nodes, and of those that nodes let in.
    pub(crate) inner: Authority,
    /// Signs the gateway's certificate.
    pub(crate) outer: Authority,
    /// The gateway's own towards the nodes.
    pub(crate) member: Pair,
    pub(crate) dir: TempDir,
}

impl Scene {
    /// Nodes `n1` and so on, and a gateway, all ready.
    pub(crate) async fn start(nodes: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (inner, outer) = (Authority::new(), Authority::new());
        let member = inner.pair(&["gateway".to_owned()]);
        inner.write(dir.path(), "inner.pem");
        member.write(dir.path(), "member");
        let (gateway, redirect) = (free_address(), free_address());
        let mut scene =
            Self { nodes: BTreeMap::new(), gateway, redirect, gateway_process: None, inner, outer, member, dir };
        let names: Vec<_> = (1..=nodes).map(|number| format!("n{number}")).collect();
        for name in &names {
            scene.start_node(name);
        }
        let init = scene.migrator(&["init", "--nodes", &names.join(",")]).await;
        assert_eq!(init.code, Some(0), "{init:#?}");
        scene.outer.pair(&[gateway.ip().to_string()]).write(scene.dir.path(), "gateway");
        let mut env = scene.env(&[("LISTEN", gateway.to_string()), ("REDIRECT_LISTEN", redirect.to_string())]);
        env.extend(scene.member_env());
        env.extend(scene.files(&[("TLS_CERT", "gateway.crt"), ("TLS_KEY", "gateway.key")]));
        scene.gateway_process = Some(Process::start("gateway", &[], &env));
        let client = scene.client();
        eventually("the gateway is ready", READY, async || {
            client.ask(gateway, "GET /readyz", "").await.is_ok_and(|answer| answer.contains("\"ready\""))
        })
        .await;
        scene
    }

    /// Starts one more node; whoever needs it waits for it.
    pub(crate) fn start_node(&mut self, name: &str) {
        let address = free_address();
        self.inner.pair(&[address.ip().to_string()]).write(self.dir.path(), name);
        let mut env = self.env(&[("LISTEN", address.to_string()), ("NODE_ID", name.to_owned())]);
        let (cert, key) = (format!("{name}.crt"), format!("{name}.key"));
        env.extend(self.files(&[("TLS_CERT", &cert), ("TLS_KEY", &key)]));
        env.extend(self.files(&[("TLS_CLIENT_CA", "inner.pem"), ("NODE_CA", "inner.pem")]));
        self.nodes.insert(name.to_owned(), (address, Process::start("cache-node", &[], &env)));
    }

    pub(crate) async fn migrator(&self, args: &[&str]) -> Finished {
        let mut env = self.env(&[]);
        env.extend(self.member_env());
        run("migrator", args, &env, MIGRATOR_BOUND).await
    }

    /// A client of the gateway.
    pub(crate) fn client(&self) -> TlsClient {
        TlsClient::new(&self.outer, None, &[])
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn env(&self, more: &[(&str, String)]) -> Env {
        let database = format!("sqlite://{}", self.dir.path().join("shardcache.db").display());
        let mut env = vec![("DATABASE_URL".to_owned(), database)];
        env.extend(more.iter().map(|(name, value)| (format!("SHARDCACHE_{name}"), value.clone())));
        env
    }

    pub(crate) fn files(&self, files: &[(&str, &str)]) -> Env {
        let path = |file: &str| self.dir.path().join(file).display().to_string();
        files.iter().map(|(name, file)| (format!("SHARDCACHE_{name}"), path(file))).collect()
    }

    fn member_env(&self) -> Env {
        self.files(&[("NODE_CA", "inner.pem"), ("NODE_CLIENT_CERT", "member.crt"), ("NODE_CLIENT_KEY", "member.key")])
    }
}
