//! Authorities and what they sign, as PEM files; and clients that trust one of them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long anything of a client may take.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key.
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for hosts or IP addresses.
    pub(crate) fn pair(&self, names: &[String]) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names.to_vec()).expect("names");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Pair { cert, key: key.serialize_pem() }
    }

    /// The file of the authority itself.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> PathBuf {
        write(dir, name, &self.pem)
    }
}

impl Pair {
    /// The files `name.crt` and `name.key`.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> [PathBuf; 2] {
        [write(dir, &format!("{name}.crt"), &self.cert), write(dir, &format!("{name}.key"), &self.key)]
    }
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

/// A client that trusts one authority, and perhaps has a certificate.
#[derive(Clone)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    pub(crate) fn new(trusted: &Authority, own: Option<&Pair>, alpn: &[&str]) -> Self {
        let mut authorities = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(trusted.pem.as_bytes()).expect("PEM");
        authorities.add(authority).expect("an authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions").with_root_certificates(authorities);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = vec![CertificateDer::from_pem_slice(own.cert.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self(Arc::new(config))
    }

    /// A connection.
    pub(crate) async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::from(address.ip());
            TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await
        };
        timeout(SOON, connecting).await.expect("connected or refused in time")
    }

    /// The whole answer to a request of HTTP/1.1, as text; an error where there is none.
    pub(crate) async fn ask(&self, address: SocketAddr, request: &str, body: &str) -> std::io::Result<String> {
        let mut stream = self.connect(address).await?;
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\nHost: {address}\r\nX-User-ID: u\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let asking = async {
            stream.write_all(text.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
        };
        let answer = timeout(SOON, asking).await.expect("answered in time")?;
        if answer.is_empty() { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
    }
}
