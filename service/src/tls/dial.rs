//! How a program reaches the nodes: plainly, or by TLS with a certificate of its own to show.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Context as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::reloaded::Reloaded;
use super::socket::TlsSocket;
use super::{pem, provider};

/// Connects to nodes, all in the same way. Cheap to clone; plain by default.
#[derive(Clone, Debug, Default)]
pub struct NodeDialler {
    tls: Option<Arc<Reloaded<ClientConfig>>>,
}

/// A connection to a node.
#[derive(Debug)]
pub enum NodeStream {
    /// Without TLS.
    Plain(TcpStream),
    /// With it.
    Tls(Box<TlsSocket>),
}

impl NodeDialler {
    /// TLS to every node: its certificate must be signed by an authority of the PEM file `ca` and name the host or IP dialled.
    /// `identity` are the files of the certificate chain and key shown to nodes that ask for one. Inside a runtime: the files
    /// are looked at again and again.
    pub fn tls(ca: &Path, identity: Option<(&Path, &Path)>) -> anyhow::Result<Self> {
        let mut files = vec![ca.to_owned()];
        files.extend(identity.into_iter().flat_map(|(cert, key)| [cert.to_owned(), key.to_owned()]));
        let names = files.clone();
        Ok(Self { tls: Some(Reloaded::load(files, move |contents| make(&names, contents))?) })
    }

    /// Whether nodes are reached by TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// A connection to `host:port`, its handshake included. In no time of its own: the caller bounds it.
    pub async fn connect(&self, address: &str) -> io::Result<NodeStream> {
        let stream = TcpStream::connect(address).await?;
        // Only latency would suffer.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return Ok(NodeStream::Plain(stream)) };
        let name = server_name(address).ok_or(io::ErrorKind::InvalidInput)?;
        let stream = TlsConnector::from(tls.current()).connect(name, stream).await?;
        Ok(NodeStream::Tls(Box::new(TlsSocket::new(stream.into()))))
    }
}

/// What the certificate of the node at `host:port` must name.
fn server_name(address: &str) -> Option<ServerName<'static>> {
    let (host, _port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).ok()
}

fn make(names: &[PathBuf], contents: &[Vec<u8>]) -> anyhow::Result<ClientConfig> {
    let named = |index: usize| names[index].display().to_string();
    let authorities = pem::authorities(&contents[0]).with_context(|| named(0))?;
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(authorities);
    let [_, cert, key] = contents else { return Ok(builder.with_no_client_auth()) };
    let chain = pem::chain(cert).with_context(|| named(1))?;
    let key = pem::key(key).with_context(|| named(2))?;
    let pair = || format!("{} and {} are no pair", named(1), named(2));
    builder.with_client_auth_cert(chain, key).with_context(pair)
}

/// For a health check of this very machine: whoever answers at the address will do. Shows `identity` if it is asked for.
pub(crate) fn accept_any_server(identity: Option<(&Path, &Path)>) -> anyhow::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider())));
    let Some((cert, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    Ok(builder.with_client_auth_cert(pem::chain(&read(cert)?)?, pem::key(&read(key)?)?)?)
}

#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl AsyncRead for NodeStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_must_name_the_host_that_is_dialled() {
        let name = |address| server_name(address).map(|name| name.to_str().into_owned());
        assert_eq!(name("node-1.cluster:7000").as_deref(), Some("node-1.cluster"));
        assert_eq!(name("10.0.0.1:7000").as_deref(), Some("10.0.0.1"));
        assert_eq!(name("[::1]:7000").as_deref(), Some("::1"));
        assert_eq!(name("no port"), None);
        assert_eq!(name("a b:1"), None);
    }
}
