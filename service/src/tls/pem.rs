//! Certificates and keys out of PEM text. No error repeats what was read.

use anyhow::{Context, ensure};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// All certificates of a file, the leaf first.
pub(super) fn chain(text: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let chain = chain.context("it is no PEM file")?;
    ensure!(!chain.is_empty(), "there is no certificate in it");
    Ok(chain)
}

/// The first private key of a file: PKCS #8, PKCS #1 or SEC 1.
pub(super) fn key(text: &[u8]) -> anyhow::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(text).map_err(|_| anyhow::anyhow!("there is no private key in it"))
}

/// The authorities of a file.
pub(super) fn authorities(text: &[u8]) -> anyhow::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in chain(text)? {
        store.add(certificate).context("a certificate in it cannot be an authority")?;
    }
    Ok(store)
}
