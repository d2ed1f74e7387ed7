//! Who is asking: anyone, whoever holds one of our tokens, or the user that a signed token names.
//!
//! Not here: which user a request is for (`route_user`), which weighs this against `X-User-ID`.

mod bearer;
mod claims;
mod jwt;
mod jwt_keys;
mod reload;
mod settings;
mod tokens;
mod verified;

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, header};
use placement::UserId;
use tokio_util::sync::CancellationToken;
use wire::{Problem, ProblemCode};

pub use claims::ClaimRules;
pub use settings::{Auth, AuthKind, IdentitySettings, JwtAuth, KeySource};

use bearer::bearer;
use jwt::Jwt;
use reload::Reloaded;
use tokens::TokenList;

/// What a request wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Read entries.
    Read,
    /// Change entries.
    Write,
    /// See how the cluster does.
    Admin,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Whoever it is may ask for any user: `X-User-ID` is believed.
    Any,
    /// A token of one user: for no other may be asked.
    Bound(UserId),
    /// The user that a signed token names, whatever the headers of others say.
    Proven(UserId),
}

/// How callers are told apart.
pub(crate) enum Identity {
    None,
    Tokens(Reloaded<TokenList>),
    Jwt(Jwt),
}

impl Auth {
    /// Reads the files once, so that a bad one is told before anything is waited for.
    pub fn check(&self) -> anyhow::Result<()> {
        Identity::open(self).map(drop)
    }
}

impl Identity {
    /// Reads the files; the error names the file and what is wrong with it, and nothing that it holds.
    pub(crate) fn open(auth: &Auth) -> anyhow::Result<Self> {
        Ok(match auth {
            Auth::None => Self::None,
            Auth::Token { file } => Self::Tokens(Reloaded::open("SHARDCACHE_TOKEN_FILE", file, TokenList::parse)?),
            Auth::Jwt(jwt) => Self::Jwt(Jwt::open(jwt)?),
        })
    }

    /// Who asks; 401 `unauthorized` without a good token, 403 `forbidden` with one that does not allow this.
    ///
    /// The pages of an admin are for tokens with that scope only: a signed token names a user of the data plane.
    pub(crate) fn caller(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Problem> {
        match self {
            Self::None => Ok(Caller::Any),
            Self::Tokens(tokens) => tokens.current().caller(bearer(headers)?, scope),
            Self::Jwt(_) if scope == Scope::Admin => {
                Err(Problem::new(ProblemCode::Forbidden, "this page is at the admin listener only"))
            }
            Self::Jwt(jwt) => jwt.user(bearer(headers)?, unix_now()).map(Caller::Proven),
        }
    }

    /// Follows the files until stopped.
    pub(crate) async fn follow(&self, stop: CancellationToken) {
        match self {
            Self::None => {}
            Self::Tokens(tokens) => tokens.follow(stop).await,
            Self::Jwt(jwt) => jwt.follow(stop).await,
        }
    }
}

/// What a 401 asks for (RFC 6750, section 3): nothing is said to be wrong with a token that was not sent.
pub(crate) fn challenge(request_headers: &HeaderMap) -> HeaderValue {
    HeaderValue::from_static(if request_headers.contains_key(header::AUTHORIZATION) {
        "Bearer realm=\"shardcache\", error=\"invalid_token\""
    } else {
        "Bearer realm=\"shardcache\""
    })
}

/// Seconds since 1970.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(ProblemCode::Unauthorized, detail)
}
