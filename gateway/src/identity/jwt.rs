//! Signed tokens (JWT, RFC 7519): whose they are. A token says who the user is; the key alone says how it is signed.

use jsonwebtoken::{decode, decode_header};
use placement::UserId;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use wire::Problem;

use super::claims::ClaimRules;
use super::jwt_keys::KeySet;
use super::reload::Reloaded;
use super::settings::{JwtAuth, KeySource};
use super::unauthorized;
use super::verified::digest_of;

/// Verifies tokens by keys that may change.
pub(crate) struct Jwt {
    keys: Reloaded<KeySet>,
    rules: ClaimRules,
}

impl Jwt {
    pub(super) fn open(auth: &JwtAuth) -> anyhow::Result<Self> {
        let keys = match &auth.keys {
            KeySource::KeyFile(file) => Reloaded::open("SHARDCACHE_JWT_KEY_FILE", file, KeySet::parse_key_file),
            KeySource::JwksFile(file) => Reloaded::open("SHARDCACHE_JWT_JWKS_FILE", file, KeySet::parse_jwks),
        };
        Ok(Self { keys: keys?, rules: auth.rules.clone() })
    }

    pub(super) async fn follow(&self, stop: CancellationToken) {
        self.keys.follow(stop).await;
    }

    /// The user that a token names; 401 if it is not good `now`, in seconds since 1970.
    pub(super) fn user(&self, token: &[u8], now: u64) -> Result<UserId, Problem> {
        verify(&self.keys.current(), &self.rules, token, now)
    }
}

fn verify(keys: &KeySet, rules: &ClaimRules, token: &[u8], now: u64) -> Result<UserId, Problem> {
    let digest = digest_of(token);
    if let Some(user) = keys.verified.user(&digest, now) {
        return Ok(user);
    }
    let unreadable = |_| unauthorized("the token is no JWT, or signed by an algorithm that is never taken");
    let header = decode_header(token).map_err(unreadable)?;
    let key = keys.choose(header.kid.as_deref(), header.alg).map_err(unauthorized)?;
    let token = decode::<Map<String, Value>>(token, &key.key, &key.validation);
    let claims = token.map_err(|_| unauthorized("the token's signature is not good"))?.claims;
    let good = rules.check(&claims, now)?;
    let user = good.user.clone();
    keys.verified.remember(digest, good, now);
    Ok(user)
}

#[cfg(test)]
mod tests;
