//! TLS on a listener.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::reloaded::Reloaded;
use super::socket::TlsSocket;
use super::{pem, provider};

/// The ALPN name of HTTP/2.
const H2: &[u8] = b"h2";
/// The ALPN name of HTTP/1.1.
const HTTP1: &[u8] = b"http/1.1";
/// How much of what is to be sent may wait encrypted for a client that does not take it: little, so that its pace is seen.
const BUFFER_MAX_BYTES: usize = 16 << 10;

/// What a listener needs to speak TLS: its certificate, and whose certificates it asks for.
#[derive(Debug)]
pub struct ServerTls {
    config: Arc<Reloaded<ServerConfig>>,
}

impl ServerTls {
    /// Reads the PEM files of a certificate chain and its key. With `client_ca` only clients with a certificate that one of its
    /// authorities has signed get a connection. Inside a runtime: the files are looked at again and again.
    pub fn load(cert: &Path, key: &Path, client_ca: Option<&Path>, speaks_http2: bool) -> anyhow::Result<Arc<Self>> {
        let mut files = vec![cert.to_owned(), key.to_owned()];
        files.extend(client_ca.map(Path::to_owned));
        let names = files.clone();
        let config = Reloaded::load(files, move |contents| make(&names, contents, speaks_http2))?;
        Ok(Arc::new(Self { config }))
    }

    /// The handshake. Whether HTTP/2 was agreed on.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<(TlsSocket, bool)> {
        let acceptor = TlsAcceptor::from(self.config.current());
        let accepting = acceptor.accept_with(stream, |session| session.set_buffer_limit(Some(BUFFER_MAX_BYTES)));
        let stream = accepting.await?;
        let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        Ok((TlsSocket::new(stream.into()), speaks_http2))
    }
}

fn make(names: &[PathBuf], contents: &[Vec<u8>], speaks_http2: bool) -> anyhow::Result<ServerConfig> {
    let named = |index: usize| names[index].display().to_string();
    let chain = pem::chain(&contents[0]).with_context(|| named(0))?;
    let key = pem::key(&contents[1]).with_context(|| named(1))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match contents.get(2) {
        None => builder.with_no_client_auth(),
        Some(content) => {
            let authorities = Arc::new(pem::authorities(content).with_context(|| named(2))?);
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider()).build();
            builder.with_client_cert_verifier(verifier.with_context(|| named(2))?)
        }
    };
    let pair = || format!("{} and {} are no pair", named(0), named(1));
    let mut config = builder.with_single_cert(chain, key).with_context(pair)?;
    config.alpn_protocols = if speaks_http2 { vec![H2.to_vec(), HTTP1.to_vec()] } else { vec![HTTP1.to_vec()] };
    Ok(config)
}
