//! The keys that signed tokens are verified by: one from a file, or those of a JWKS (RFC 7517). Pure.
//!
//! Each key has one algorithm, by what kind of key it is: a token cannot choose how it is verified.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, Validation};

use super::verified::Verified;

/// The shortest HMAC secret: the length of SHA-256 (RFC 7518, section 3.2).
const SECRET_MIN_BYTES: usize = 32;
/// The shortest RSA modulus: 2048 bits (RFC 7518, section 3.3).
const RSA_MIN_BYTES: usize = 256;
/// A point of P-256, uncompressed.
const P256_BYTES: usize = 65;
const ED25519_BYTES: usize = 32;

/// Keys, and the tokens that were verified by them.
pub(super) struct KeySet {
    keys: Vec<VerifyKey>,
    /// Whether a token must say which key it is signed by: one file has one key.
    by_id: bool,
    pub(super) verified: Verified,
}

/// One key with its one algorithm.
pub(super) struct VerifyKey {
    id: Option<String>,
    pub(super) key: DecodingKey,
    pub(super) validation: Validation,
}

impl KeySet {
    /// A PEM public key, or an HMAC secret: all bytes of the file but a newline at its end.
    pub(super) fn parse_key_file(content: &[u8]) -> Result<Self, String> {
        let key =
            if content.trim_ascii_start().starts_with(b"-----BEGIN") { public_key(content) } else { secret(content) };
        let keys = vec![VerifyKey::new(None, key?)?];
        Ok(Self { keys, by_id: false, verified: Verified::default() })
    }

    /// `{"keys": […]}`. Keys of other kinds and uses are passed by: issuers list those of all their services.
    pub(super) fn parse_jwks(content: &[u8]) -> Result<Self, String> {
        let document: serde_json::Value = serde_json::from_slice(content).map_err(|_| "it is no JSON")?;
        let listed = document["keys"].as_array().ok_or("it is no JWKS: an object with the member keys, a list")?;
        let read = listed.iter().filter_map(|jwk| serde_json::from_value::<Jwk>(jwk.clone()).ok());
        let keys: Vec<VerifyKey> = read.filter_map(|jwk| usable(&jwk)).collect();
        if keys.is_empty() {
            return Err("it has no key for RS256, ES256, EdDSA or HS256".to_owned());
        }
        let alike = |one: &VerifyKey, other: &VerifyKey| one.id == other.id && one.algorithm() == other.algorithm();
        if keys.iter().enumerate().any(|(number, key)| keys[..number].iter().any(|other| alike(key, other))) {
            return Err("two of its keys have the same kid and algorithm".to_owned());
        }
        Ok(Self { keys, by_id: true, verified: Verified::default() })
    }

    /// The key of a token that names this `kid` and algorithm, or why there is none.
    pub(super) fn choose(&self, id: Option<&str>, algorithm: Algorithm) -> Result<&VerifyKey, &'static str> {
        // A token may leave out which key where there is only one.
        let any = !self.by_id || (id.is_none() && self.keys.len() == 1);
        let mut named = self.keys.iter().filter(|key| any || (id.is_some() && key.id.as_deref() == id)).peekable();
        if named.peek().is_none() {
            return Err("the token's kid names no key");
        }
        named.find(|key| key.algorithm() == algorithm).ok_or("the token's alg is not that of its key")
    }
}

impl VerifyKey {
    fn new(id: Option<String>, key: DecodingKey) -> Result<Self, String> {
        let algorithm = algorithm_of(&key)?;
        let mut validation = Validation::new(algorithm);
        // Of the claims we judge ourselves, by our own clock.
        validation.required_spec_claims.clear();
        (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
        Ok(Self { id, key, validation })
    }

    fn algorithm(&self) -> Algorithm {
        self.validation.algorithms[0]
    }
}

/// The one algorithm of a kind of key; the key must be as strong as the algorithm wants it.
fn algorithm_of(key: &DecodingKey) -> Result<Algorithm, String> {
    let length = match key.kind() {
        DecodingKeyKind::SecretOrDer(bytes) => bytes.len(),
        DecodingKeyKind::RsaModulusExponent { n, .. } => n.len(),
    };
    match key.family() {
        AlgorithmFamily::Hmac if length < SECRET_MIN_BYTES => {
            Err(format!("a secret of HS256 has at least {SECRET_MIN_BYTES} bytes"))
        }
        AlgorithmFamily::Hmac => Ok(Algorithm::HS256),
        // The modulus is most of the key's encoding.
        AlgorithmFamily::Rsa if length < RSA_MIN_BYTES => Err("an RSA key has at least 2048 bits".to_owned()),
        AlgorithmFamily::Rsa => Ok(Algorithm::RS256),
        AlgorithmFamily::Ec if length != P256_BYTES => Err("an EC key is one of P-256".to_owned()),
        AlgorithmFamily::Ec => Ok(Algorithm::ES256),
        AlgorithmFamily::Ed if length != ED25519_BYTES => Err("an EdDSA key is one of Ed25519".to_owned()),
        AlgorithmFamily::Ed => Ok(Algorithm::EdDSA),
    }
}

fn public_key(pem: &[u8]) -> Result<DecodingKey, String> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    let begins = pem.windows(BEGIN.len()).filter(|window| *window == BEGIN).count();
    let is_public = [&b"-----BEGIN PUBLIC KEY-----"[..], b"-----BEGIN RSA PUBLIC KEY-----"];
    if begins != 1 || !is_public.iter().any(|tag| pem.trim_ascii_start().starts_with(tag)) {
        return Err("it is PEM, but not of one public key".to_owned());
    }
    let read = DecodingKey::from_rsa_pem(pem).or_else(|_| DecodingKey::from_ec_pem(pem));
    read.or_else(|_| DecodingKey::from_ed_pem(pem)).map_err(|_| "it is no public key of RSA, EC or Ed25519".to_owned())
}

/// A public key taken for a secret would let everyone sign: what looks like one is refused in whatever wrapping.
fn secret(content: &[u8]) -> Result<DecodingKey, String> {
    let line = content.strip_suffix(b"\n").unwrap_or(content);
    let secret = line.strip_suffix(b"\r").unwrap_or(line);
    let bare: Vec<u8> = content.iter().copied().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').collect();
    let unarmoured = STANDARD_NO_PAD.decode(&bare).is_ok_and(|bytes| is_der_sequence(&bytes));
    if unarmoured || is_der_sequence(content) || content.starts_with(b"ssh-") {
        return Err("it is a key without the -----BEGIN and -----END lines of PEM".to_owned());
    }
    if content.trim_ascii_start().starts_with(b"{") {
        return Err("it is JSON: SHARDCACHE_JWT_JWKS_FILE names a JWKS".to_owned());
    }
    DecodingKey::from_secret(secret).map_err(|_| "it is empty".to_owned())
}

/// Whether the bytes are one SEQUENCE of DER, as every encoded key is.
fn is_der_sequence(bytes: &[u8]) -> bool {
    match bytes {
        [0x30, length @ ..=0x7f, rest @ ..] => rest.len() == usize::from(*length),
        [0x30, 0x81, length, rest @ ..] => rest.len() == usize::from(*length),
        [0x30, 0x82, high, low, rest @ ..] => rest.len() == usize::from(u16::from_be_bytes([*high, *low])),
        _ => false,
    }
}

/// The key, if it is one that tokens are verified by here.
fn usable(jwk: &Jwk) -> Option<VerifyKey> {
    let common = &jwk.common;
    let to_sign = common.public_key_use.as_ref().is_none_or(|use_of| *use_of == PublicKeyUse::Signature);
    let to_verify = common.key_operations.as_ref().is_none_or(|may| may.contains(&KeyOperations::Verify));
    let curve = match &jwk.algorithm {
        AlgorithmParameters::EllipticCurve(parameters) => parameters.curve == EllipticCurve::P256,
        AlgorithmParameters::OctetKeyPair(parameters) => parameters.curve == EllipticCurve::Ed25519,
        AlgorithmParameters::RSA(_) | AlgorithmParameters::OctetKey(_) => true,
        _ => false,
    };
    if !(to_sign && to_verify && curve) {
        return None;
    }
    let key = VerifyKey::new(common.key_id.clone(), DecodingKey::from_jwk(jwk).ok()?).ok()?;
    common.key_algorithm.is_none_or(|named| named == KeyAlgorithm::from(key.algorithm())).then_some(key)
}
