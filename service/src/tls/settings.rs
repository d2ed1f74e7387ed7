//! The settings of TLS, as flags and variables, and what is wrong with them together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;

use super::{NodeDialler, ServerTls};

/// The certificate of a program's listener.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ListenerTls {
    /// Speak TLS on the listener: PEM file of the certificate chain, leaf first. Read again when it changes.
    #[arg(long, env = "SHARDCACHE_TLS_CERT", hide_env_values = true)]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's private key.
    #[arg(long, env = "SHARDCACHE_TLS_KEY", hide_env_values = true)]
    pub tls_key: Option<PathBuf>,
}

/// Whose certificates a node's listener asks for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClientAuthority {
    /// Take connections only from clients with a certificate signed by an authority of this PEM file: mutual TLS.
    #[arg(long, env = "SHARDCACHE_TLS_CLIENT_CA", hide_env_values = true)]
    pub tls_client_ca: Option<PathBuf>,
}

/// How nodes are reached.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NodeTls {
    /// Speak TLS to nodes: PEM file of the authorities that sign their certificates.
    #[arg(long, env = "SHARDCACHE_NODE_CA", hide_env_values = true, global = true)]
    pub node_ca: Option<PathBuf>,
    /// PEM file of the certificate chain shown to nodes that ask for one.
    #[arg(long, env = "SHARDCACHE_NODE_CLIENT_CERT", hide_env_values = true, global = true)]
    pub node_client_cert: Option<PathBuf>,
    /// PEM file of that certificate's private key.
    #[arg(long, env = "SHARDCACHE_NODE_CLIENT_KEY", hide_env_values = true, global = true)]
    pub node_client_key: Option<PathBuf>,
}

impl ListenerTls {
    /// TLS for the listener; `None`: it is plain. Must be called inside a runtime.
    pub fn server(&self, authority: &ClientAuthority, speaks_http2: bool) -> anyhow::Result<Option<Arc<ServerTls>>> {
        let client_ca = authority.tls_client_ca.as_deref();
        let Some((cert, key)) = self.identity()? else {
            if client_ca.is_some() {
                bail!("SHARDCACHE_TLS_CLIENT_CA (--tls-client-ca) needs SHARDCACHE_TLS_CERT and SHARDCACHE_TLS_KEY");
            }
            return Ok(None);
        };
        ServerTls::load(cert, key, client_ca, speaks_http2).map(Some)
    }

    /// The files of the listener's certificate and key.
    pub fn identity(&self) -> anyhow::Result<Option<(&Path, &Path)>> {
        pair(("SHARDCACHE_TLS_CERT", &self.tls_cert), ("SHARDCACHE_TLS_KEY", &self.tls_key))
    }
}

impl NodeTls {
    /// How to reach nodes; `own` is shown to those that ask for a certificate where none is named for that. Must be called inside
    /// a runtime.
    pub fn dialler(&self, own: Option<(&Path, &Path)>) -> anyhow::Result<NodeDialler> {
        let identity = self.identity()?;
        match &self.node_ca {
            Some(ca) => NodeDialler::tls(ca, identity.or(own)),
            None if identity.is_some() => {
                bail!("SHARDCACHE_NODE_CLIENT_CERT (--node-client-cert) needs SHARDCACHE_NODE_CA")
            }
            None => Ok(NodeDialler::default()),
        }
    }

    /// The files of the certificate and key for nodes that ask for one.
    pub fn identity(&self) -> anyhow::Result<Option<(&Path, &Path)>> {
        pair(
            ("SHARDCACHE_NODE_CLIENT_CERT", &self.node_client_cert),
            ("SHARDCACHE_NODE_CLIENT_KEY", &self.node_client_key),
        )
    }
}

type Named<'a> = (&'static str, &'a Option<PathBuf>);

/// Both, or neither.
fn pair<'a>(cert: Named<'a>, key: Named<'a>) -> anyhow::Result<Option<(&'a Path, &'a Path)>> {
    match (cert.1, key.1) {
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        (None, None) => Ok(None),
        (Some(_), None) => bail!("{} must be set with {}", key.0, cert.0),
        (None, Some(_)) => bail!("{} must be set with {}", cert.0, key.0),
    }
}
