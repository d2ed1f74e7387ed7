//! Settings that contradict each other or name no good file stop the start, with one line that says which.

use std::time::Duration;

use tests::processes::{free_address, run};

use crate::support::{TemporaryFile, on_shared, settings};

const BOUND: Duration = Duration::from_secs(30);

#[test]
fn a_start_with_bad_settings_ends_with_one_clear_line() {
    on_shared(async |cluster| {
        let private = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key pair").serialize_pem();
        let (private, short) = (TemporaryFile::new(&private), TemporaryFile::new("Zx9SECRET"));
        let tokens = TemporaryFile::new("name read,root Zx9SECRET-long-enough");
        let jwt = ("SHARDCACHE_AUTH", "jwt");
        let cases: [(&[(&str, &str)], &str); 17] = [
            (&[("SHARDCACHE_AUTH", "basic")], "SHARDCACHE_AUTH"),
            (&[jwt], "SHARDCACHE_JWT_KEY_FILE"),
            (&[jwt, ("SHARDCACHE_JWT_KEY_FILE", "/a"), ("SHARDCACHE_JWT_JWKS_FILE", "/b")], "not both"),
            (&[jwt, ("SHARDCACHE_JWT_KEY_FILE", "/no/such/file")], "/no/such/file"),
            (&[jwt, ("SHARDCACHE_JWT_KEY_FILE", private.path())], "not of one public key"),
            (&[jwt, ("SHARDCACHE_JWT_KEY_FILE", short.path())], "at least 32 bytes"),
            (&[jwt, ("SHARDCACHE_JWT_JWKS_FILE", short.path())], "it is no JSON"),
            (&[("SHARDCACHE_AUTH", "token")], "SHARDCACHE_TOKEN_FILE"),
            (&[("SHARDCACHE_AUTH", "token"), ("SHARDCACHE_TOKEN_FILE", tokens.path())], "line 1: the scopes are"),
            // Whoever names a file believes that it counts.
            (&[("SHARDCACHE_TOKEN_FILE", tokens.path())], "SHARDCACHE_AUTH=token"),
            (&[("SHARDCACHE_JWT_AUDIENCE", "cache")], "SHARDCACHE_AUTH=jwt"),
            (&[jwt, ("SHARDCACHE_JWT_KEY_FILE", "/a"), ("SHARDCACHE_KEYLESS", "client-ip")], "SHARDCACHE_KEYLESS"),
            (&[("SHARDCACHE_KEYLESS", "header:Authorization")], "SHARDCACHE_KEYLESS"),
            (&[("SHARDCACHE_TRUSTED_PROXIES", "10.0.0.0/8,proxy")], "SHARDCACHE_TRUSTED_PROXIES"),
            (&[("SHARDCACHE_DENY", "10.0.0.0/33")], "SHARDCACHE_DENY"),
            (&[("SHARDCACHE_LOG_HASH_KEY", "Zx9SECRET")], "SHARDCACHE_LOG_HASH_KEY"),
            (&[("SHARDCACHE_ADMIN_LISTEN", "nowhere")], "SHARDCACHE_ADMIN_LISTEN"),
        ];
        for (env, told) in cases {
            let finished = run("gateway", &[], &settings(cluster, free_address(), env), BOUND).await;
            assert!(finished.code.is_some_and(|code| code != 0), "{env:?}: {finished:?}");
            let complaint: Vec<&str> = finished.stderr.lines().filter(|line| !line.starts_with('{')).collect();
            assert_eq!(complaint.len(), 1, "{env:?}: {finished:?}");
            assert!(complaint[0].contains(told), "{env:?}: {finished:?}");
            assert!(!finished.stderr.contains("Zx9SECRET"), "{finished:?}");
        }
    });
}
