//! Signed tokens at a running gateway: the good ones are their users, all others are refused.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};
use tests::poll::eventually;

use crate::support::{Gateway, SECRET, SOON, TemporaryFile, assert_problem, bearer, bearer_with, now, on_shared};

const KEY: &str = "/v1/entries/k";

fn good(changes: Value) -> Value {
    let mut claims = json!({"sub": "ada", "exp": now() + 600, "aud": "cache", "iss": "issuer"});
    for (name, value) in changes.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    claims
}

#[test]
fn the_user_of_a_signed_token_is_the_user_whatever_the_headers_say() {
    on_shared(async |cluster| {
        let secret = TemporaryFile::new(SECRET);
        let env = [("SHARDCACHE_AUTH", "jwt"), ("SHARDCACHE_JWT_KEY_FILE", secret.path())];
        let gateway = Gateway::start(cluster, &env).await;
        let (ada, bob) = (bearer("jwt-ada"), bearer("jwt-bob"));
        let of_ada = [("Authorization", ada.as_str())];
        assert_eq!(gateway.put("k", &of_ada, "of ada").await.status, 201);
        assert_eq!(cluster.user("jwt-ada").get("k").await.text(), "of ada", "the user is the claim as it is");

        let pretending = [("Authorization", bob.as_str()), ("X-User-ID", "jwt-ada")];
        assert_problem(&gateway.get(KEY, &pretending).await, 404, "entry_not_found");
        let forged = [
            ("Authorization", ada.as_str()),
            ("X-User-ID", "jwt-bob"),
            ("X-Forwarded-For", "127.0.0.1"),
            ("X-Ring-Epoch", "999999"),
            ("X-Shardcache-Detached", "1"),
        ];
        gateway.get(KEY, &of_ada).await;
        let answer = gateway.get(KEY, &forged).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "of ada"));
        assert_eq!(answer.header("cache-status"), "shardcache-l1; hit", "not detached on a client's word");
        assert_ne!(answer.header("x-ring-epoch"), "999999");

        let located = gateway.get("/v1/ring/locate", &forged).await.json();
        let plain = cluster.user("jwt-ada").request(Method::GET, "/v1/ring/locate");
        assert_eq!(located["slot"], tests::http::answered(plain).await.json()["slot"]);
        assert_problem(&gateway.get("/v1/ring/locate", &[("X-User-ID", "jwt-ada")]).await, 401, "unauthorized");
        for page in ["/", "/metrics", "/v1/ring"] {
            assert_problem(&gateway.get(page, &of_ada).await, 403, "forbidden");
        }
        for open in ["/healthz", "/readyz", "/openapi.json"] {
            assert_eq!(gateway.get(open, &[]).await.status, 200, "{open}");
        }
        assert!(!gateway.process.log().contains("eyJ"), "no token in the log: {}", gateway.process.log());
    });
}

#[test]
fn every_token_that_is_not_good_is_refused() {
    on_shared(async |cluster| {
        let secret = TemporaryFile::new(SECRET);
        let env = [
            ("SHARDCACHE_AUTH", "jwt"),
            ("SHARDCACHE_JWT_KEY_FILE", secret.path()),
            ("SHARDCACHE_JWT_AUDIENCE", "cache"),
            ("SHARDCACHE_JWT_ISSUER", "issuer"),
        ];
        let gateway = Gateway::start(cluster, &env).await;
        let right = bearer_with(&good(json!({})));
        assert_eq!(gateway.put("refused", &[("Authorization", &right)], "v").await.status, 201);

        let part = |json: Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let unsigned = |alg: &str| format!("Bearer {}.{}.", part(json!({"alg": alg})), part(good(json!({}))));
        let (signed, _) = right.rsplit_once('.').expect("three parts");
        let bad = [
            ("expired", bearer_with(&good(json!({"exp": now() - 60})))),
            ("not good yet", bearer_with(&good(json!({"nbf": now() + 600})))),
            ("wrong audience", bearer_with(&good(json!({"aud": ["other", "cache2"]})))),
            ("wrong issuer", bearer_with(&good(json!({"iss": "other"})))),
            ("no user", bearer_with(&good(json!({"sub": null})))),
            ("oversized", bearer_with(&good(json!({"more": "x".repeat(9 << 10)})))),
            ("unsigned", format!("{signed}.")),
            ("alg none", unsigned("none")),
            ("alg None", unsigned("None")),
            ("no token", "Bearer".to_owned()),
            ("another scheme", right.replace("Bearer", "Basic")),
            ("not a token", "Bearer a.b.c".to_owned()),
        ];
        for (what, authorization) in bad {
            let headers = [("Authorization", authorization.as_str()), ("X-User-ID", "ada")];
            for (method, path) in [
                (Method::GET, "/v1/entries/refused"),
                (Method::DELETE, "/v1/entries/refused"),
                (Method::GET, "/v1/entries"),
            ] {
                let answer = gateway.ask(method, path, &headers).await;
                assert_problem(&answer, 401, "unauthorized");
                assert!(answer.header("www-authenticate").ends_with("error=\"invalid_token\""), "{what}: {answer:?}");
            }
        }
        let twice = [("Authorization", right.as_str()), ("Authorization", right.as_str())];
        assert_problem(&gateway.get("/v1/entries/refused", &twice).await, 401, "unauthorized");
        assert_problem(&gateway.get("/v1/entries/refused", &[("X-User-ID", "ada")]).await, 401, "unauthorized");
        assert_eq!(gateway.get("/v1/entries/refused", &[("Authorization", &right)]).await.text(), "v");
    });
}

#[test]
fn a_token_signed_by_the_public_key_as_if_it_were_a_secret_is_refused() {
    on_shared(async |cluster| {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).expect("a key pair");
        let public = TemporaryFile::new(&pair.public_key_pem());
        let env = [("SHARDCACHE_AUTH", "jwt"), ("SHARDCACHE_JWT_KEY_FILE", public.path())];
        let gateway = Gateway::start(cluster, &env).await;
        let status = async |algorithm, key: &EncodingKey| {
            let token = encode(&Header::new(algorithm), &good(json!({})), key).expect("signed");
            gateway.get(KEY, &[("Authorization", &format!("Bearer {token}"))]).await.status
        };
        let own = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).expect("a private key");
        assert_eq!(status(Algorithm::RS256, &own).await, 404);
        let public = EncodingKey::from_secret(pair.public_key_pem().as_bytes()).expect("bytes");
        assert_eq!(status(Algorithm::HS256, &public).await, 401);
        assert_eq!(status(Algorithm::PS256, &own).await, 401);
    });
}

/// A key pair of ES256: what signs, and its JWK.
fn named_pair(id: &str) -> (EncodingKey, Value) {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key pair");
    let signs = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).expect("a private key");
    let mut jwk = Jwk::from_encoding_key(&signs, Algorithm::ES256).expect("a JWK");
    jwk.common.key_id = Some(id.to_owned());
    (signs, serde_json::to_value(jwk).expect("JSON"))
}

#[test]
fn keys_are_exchanged_while_it_runs_and_a_broken_file_leaves_those_that_were() {
    on_shared(async |cluster| {
        let ((one, jwk_one), (two, jwk_two)) = (named_pair("one"), named_pair("two"));
        let file = TemporaryFile::new(&json!({"keys": [jwk_one]}).to_string());
        let env = [("SHARDCACHE_AUTH", "jwt"), ("SHARDCACHE_JWT_JWKS_FILE", file.path())];
        let gateway = Gateway::start(cluster, &env).await;
        let authorization = |id: &str, key: &EncodingKey| {
            let header = Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::ES256) };
            format!("Bearer {}", encode(&header, &good(json!({})), key).expect("signed"))
        };
        let (by_one, by_two, by_none) =
            (authorization("one", &one), authorization("two", &two), authorization("three", &two));
        let status = async |authorization: &str| gateway.get(KEY, &[("Authorization", authorization)]).await.status;
        assert_eq!((status(&by_one).await, status(&by_two).await, status(&by_none).await), (404, 401, 401));

        file.write(&json!({"keys": [jwk_two]}).to_string());
        eventually("the new key counts", SOON, async || status(&by_two).await == 404).await;
        assert_eq!(status(&by_one).await, 401, "nothing is remembered beyond its key");

        file.write("{\"keys\": [");
        eventually("the broken file is told", SOON, async || gateway.process.log().contains("is no good")).await;
        assert_eq!((status(&by_one).await, status(&by_two).await), (401, 404));
        assert_eq!(gateway.process.log().matches("is no good").count(), 1);
    });
}

#[test]
fn a_trusted_proxy_is_told_when_its_user_is_not_the_tokens() {
    on_shared(async |cluster| {
        let secret = TemporaryFile::new(SECRET);
        let env = [
            ("SHARDCACHE_AUTH", "jwt"),
            ("SHARDCACHE_JWT_KEY_FILE", secret.path()),
            ("SHARDCACHE_TRUSTED_PROXIES", "127.0.0.0/8"),
        ];
        let gateway = Gateway::start(cluster, &env).await;
        let ada = bearer("proxied-ada");
        let of = |user: &'static str| [("Authorization", ada.as_str()), ("X-User-ID", user)];
        assert_eq!(gateway.put("k", &of("proxied-ada"), "v").await.status, 201);
        assert_problem(&gateway.get(KEY, &of("proxied-bob")).await, 403, "forbidden");
        assert_eq!(gateway.get(KEY, &of("proxied-ada")).await.text(), "v");
    });
}
