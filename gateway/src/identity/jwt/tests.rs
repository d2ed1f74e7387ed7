//! Which tokens are good, by every kind of key, and which never are.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, KeyAlgorithm};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::*;

const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"a secret of more than 32 bytes, as it should be";

/// A key pair: what signs, its PEM public key, its algorithm.
struct Pair {
    signs: EncodingKey,
    public: String,
    /// The public key without any wrapping.
    raw: Vec<u8>,
    algorithm: Algorithm,
}

fn pair(algorithm: Algorithm) -> Pair {
    let kind = match algorithm {
        Algorithm::ES256 => &rcgen::PKCS_ECDSA_P256_SHA256,
        Algorithm::EdDSA => &rcgen::PKCS_ED25519,
        _ => &rcgen::PKCS_RSA_SHA256,
    };
    let pair = rcgen::KeyPair::generate_for(kind).expect("a key pair");
    let pem = pair.serialize_pem();
    let signs = match algorithm {
        Algorithm::ES256 => EncodingKey::from_ec_pem(pem.as_bytes()),
        Algorithm::EdDSA => EncodingKey::from_ed_pem(pem.as_bytes()),
        _ => EncodingKey::from_rsa_pem(pem.as_bytes()),
    };
    Pair {
        signs: signs.expect("a private key"),
        public: pair.public_key_pem(),
        raw: pair.public_key_raw().to_vec(),
        algorithm,
    }
}

fn rules() -> ClaimRules {
    ClaimRules { user_claim: "sub".to_owned(), audience: None, issuer: None }
}

fn claims() -> Value {
    json!({"sub": "ada", "exp": NOW + 60})
}

fn signed(algorithm: Algorithm, id: Option<&str>, key: &EncodingKey) -> String {
    let header = Header { kid: id.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, &claims(), key).expect("signed")
}

fn by(secret: &[u8]) -> EncodingKey {
    EncodingKey::from_secret(secret).expect("a secret")
}

fn by_secret() -> KeySet {
    KeySet::parse_key_file(SECRET).expect("a secret")
}

fn user(keys: &KeySet, token: &str) -> Result<String, String> {
    let user = verify(keys, &rules(), token.as_bytes(), NOW);
    user.map(|user| user.as_str().to_owned()).map_err(|problem| problem.detail)
}

fn refused(keys: &KeySet, token: &str) -> String {
    user(keys, token).expect_err("refused")
}

fn part(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

fn jwks(keys: &[(&Pair, &str)]) -> Value {
    let jwk = |(pair, id): &(&Pair, &str)| {
        if pair.algorithm == Algorithm::EdDSA {
            let x = URL_SAFE_NO_PAD.encode(&pair.raw);
            return json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": id, "alg": "EdDSA"});
        }
        let mut jwk = Jwk::from_encoding_key(&pair.signs, pair.algorithm).expect("a JWK");
        jwk.common.key_id = Some((*id).to_owned());
        jwk.common.key_algorithm = Some(KeyAlgorithm::from(pair.algorithm));
        serde_json::to_value(jwk).expect("JSON")
    };
    json!({"keys": keys.iter().map(jwk).collect::<Vec<_>>()})
}

fn read_jwks(document: &Value) -> Result<KeySet, String> {
    KeySet::parse_jwks(document.to_string().as_bytes())
}

#[test]
fn a_token_of_each_algorithm_is_verified_by_its_key_and_by_no_other() {
    let pairs = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA].map(pair);
    for signer in &pairs {
        let token = signed(signer.algorithm, None, &signer.signs);
        for verifier in &pairs {
            let keys = KeySet::parse_key_file(verifier.public.as_bytes()).expect("a public key");
            let good = std::ptr::eq(signer, verifier);
            assert_eq!(user(&keys, &token).is_ok(), good, "{:?} by {:?}", signer.algorithm, verifier.algorithm);
        }
        let other = signed(signer.algorithm, None, &pair(signer.algorithm).signs);
        let keys = KeySet::parse_key_file(signer.public.as_bytes()).expect("a public key");
        assert_eq!(refused(&keys, &other), "the token's signature is not good");
    }
    let token = signed(Algorithm::HS256, None, &by(SECRET));
    assert_eq!(user(&by_secret(), &token), Ok("ada".to_owned()));
    let with_newline = KeySet::parse_key_file(&[SECRET, b"\r\n"].concat()).expect("a secret");
    assert_eq!(user(&with_newline, &token), Ok("ada".to_owned()));
    let other = signed(Algorithm::HS256, None, &by(&[b'x'; 40]));
    assert_eq!(refused(&by_secret(), &other), "the token's signature is not good");
}

#[test]
fn an_unsigned_token_is_refused_however_it_is_spelt() {
    for algorithm in ["none", "None", "NONE", "nOnE", ""] {
        for signature in ["", "AAAA"] {
            let token = format!("{}.{}.{signature}", part(&json!({"alg": algorithm})), part(&claims()));
            assert!(user(&by_secret(), &token).is_err(), "{algorithm:?}");
        }
    }
    let token = signed(Algorithm::HS256, None, &by(SECRET));
    let (message, signature) = token.rsplit_once('.').expect("three parts");
    let cut = &signature[..signature.len() - 4];
    for bad in
        [message.to_owned(), format!("{message}."), format!("{message}.{cut}"), format!("{token}.x"), "..".to_owned()]
    {
        assert!(user(&by_secret(), &bad).is_err(), "{bad}");
    }
}

#[test]
fn a_public_key_is_never_a_secret() {
    let rsa = pair(Algorithm::RS256);
    let keys = KeySet::parse_key_file(rsa.public.as_bytes()).expect("a public key");
    // Signed by HS256 with what everyone may know.
    for known in [rsa.public.as_bytes(), rsa.public.trim().as_bytes()] {
        let token = signed(Algorithm::HS256, None, &by(known));
        assert_eq!(refused(&keys, &token), "the token's alg is not that of its key");
    }
    let bare: String = rsa.public.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(&bare).expect("base64");
    for public in [bare.as_bytes(), &der, b"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ ada@example.org"] {
        assert!(KeySet::parse_key_file(public).is_err());
    }
}

#[test]
fn another_algorithm_of_the_same_kind_of_key_is_refused() {
    let rsa = pair(Algorithm::RS256);
    let keys = KeySet::parse_key_file(rsa.public.as_bytes()).expect("a public key");
    for algorithm in [Algorithm::RS512, Algorithm::PS256] {
        assert_eq!(refused(&keys, &signed(algorithm, None, &rsa.signs)), "the token's alg is not that of its key");
    }
    let token = signed(Algorithm::HS512, None, &by(SECRET));
    assert_eq!(refused(&by_secret(), &token), "the token's alg is not that of its key");
}

#[test]
fn a_claim_or_header_that_was_changed_after_signing_is_refused() {
    let token = signed(Algorithm::HS256, None, &by(SECRET));
    let parts: Vec<&str> = token.split('.').collect();
    let forged = part(&json!({"sub": "bob", "exp": NOW + 60}));
    assert_eq!(
        refused(&by_secret(), &format!("{}.{forged}.{}", parts[0], parts[2])),
        "the token's signature is not good"
    );
    let header = part(&json!({"alg": "HS256", "typ": "JWT", "kid": "x"}));
    assert_eq!(
        refused(&by_secret(), &format!("{header}.{}.{}", parts[1], parts[2])),
        "the token's signature is not good"
    );
}

#[test]
fn a_header_that_must_be_understood_and_is_not_is_refused() {
    let mut header = Header::new(Algorithm::HS256);
    header.crit = Some(vec!["exp".to_owned()]);
    let token = encode(&header, &claims(), &by(SECRET)).expect("signed");
    assert!(user(&by_secret(), &token).is_err());
}

#[test]
fn the_key_of_a_jwks_is_the_one_that_the_token_names() {
    let (one, two, three) = (pair(Algorithm::ES256), pair(Algorithm::ES256), pair(Algorithm::EdDSA));
    let keys = read_jwks(&jwks(&[(&one, "one"), (&two, "two"), (&three, "three")])).expect("keys");
    for (pair, id) in [(&one, "one"), (&two, "two"), (&three, "three")] {
        assert_eq!(user(&keys, &signed(pair.algorithm, Some(id), &pair.signs)), Ok("ada".to_owned()));
    }
    assert_eq!(refused(&keys, &signed(Algorithm::ES256, Some("two"), &one.signs)), "the token's signature is not good");
    assert_eq!(refused(&keys, &signed(Algorithm::ES256, Some("four"), &one.signs)), "the token's kid names no key");
    assert_eq!(refused(&keys, &signed(Algorithm::ES256, None, &one.signs)), "the token's kid names no key");
    assert_eq!(
        refused(&keys, &signed(Algorithm::ES256, Some("three"), &one.signs)),
        "the token's alg is not that of its key"
    );
    let single = read_jwks(&jwks(&[(&one, "one")])).expect("keys");
    assert_eq!(user(&single, &signed(Algorithm::ES256, None, &one.signs)), Ok("ada".to_owned()));
    assert_eq!(refused(&single, &signed(Algorithm::ES256, Some("two"), &one.signs)), "the token's kid names no key");
}

#[test]
fn keys_of_other_uses_are_passed_by_and_a_jwks_without_any_is_refused() {
    let one = pair(Algorithm::RS256);
    let with = |member: &str, value: Value| {
        let mut document = jwks(&[(&one, "one")]);
        document["keys"][0][member] = value;
        document
    };
    for (member, value) in [
        ("use", json!("enc")),
        ("alg", json!("RS512")),
        ("alg", json!("RSA-OAEP")),
        ("kty", json!("made-up")),
        ("key_ops", json!(["encrypt"])),
    ] {
        let document = with(member, value);
        assert!(read_jwks(&document).is_err(), "{document}");
    }
    assert!(read_jwks(&with("use", json!("sig"))).is_ok());
    let mut mixed = with("use", json!("enc"));
    mixed["keys"].as_array_mut().expect("keys").push(jwks(&[(&one, "two")])["keys"][0].clone());
    let keys = read_jwks(&mixed).expect("one of two");
    assert_eq!(user(&keys, &signed(Algorithm::RS256, Some("two"), &one.signs)), Ok("ada".to_owned()));
    for bad in ["", "[]", "{}", "{\"keys\": []}", "{\"keys\": [7]}", "not json"] {
        assert!(KeySet::parse_jwks(bad.as_bytes()).is_err(), "{bad}");
    }
    assert!(read_jwks(&jwks(&[(&one, "one"), (&one, "one")])).is_err(), "twice the same kid");
}

#[test]
fn a_key_file_that_is_no_key_is_refused_with_a_reason_that_repeats_nothing() {
    let rsa = pair(Algorithm::RS256);
    let private = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key pair").serialize_pem();
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key pair").public_key_pem();
    for bad in [
        "",
        "short-Zx9SECRET",
        &private,
        &p384,
        &format!("{}{}", rsa.public, rsa.public),
        "-----BEGIN PUBLIC KEY-----\nZx9SECRET\n-----END PUBLIC KEY-----\n",
        &jwks(&[(&rsa, "one")]).to_string(),
    ] {
        let error = KeySet::parse_key_file(bad.as_bytes()).err().unwrap_or_else(|| panic!("{bad} is taken"));
        assert!(!error.contains("Zx9SECRET"), "{error}");
    }
}

#[test]
fn a_remembered_token_ends_when_it_says_and_goes_with_its_keys() {
    let token = signed(Algorithm::HS256, None, &by(SECRET));
    let keys = by_secret();
    let at = |now| verify(&keys, &rules(), token.as_bytes(), now).is_ok();
    assert!(at(NOW) && at(NOW + 89), "the second time from memory");
    assert!(!at(NOW + 90));
    let others = KeySet::parse_key_file(&[b'y'; 40]).expect("a secret");
    assert!(verify(&others, &rules(), token.as_bytes(), NOW).is_err());
}
