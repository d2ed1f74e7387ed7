//! TLS as the programs speak it, 1.2 and 1.3: on a listener, and from a program to the nodes.
//!
//! Certificates and keys are PEM files that are read again when they change. What is broken then leaves in force what was
//! before; connections that are open keep what they began with.

mod dial;
mod pem;
mod reloaded;
mod server;
mod settings;
mod socket;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use dial::{NodeDialler, NodeStream};
pub use server::ServerTls;
pub use settings::{ClientAuthority, ListenerTls, NodeTls};
pub use socket::TlsSocket;

pub(crate) use dial::accept_any_server;

/// The one provider of cryptography, named wherever it is used: nothing depends on one for the whole process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
