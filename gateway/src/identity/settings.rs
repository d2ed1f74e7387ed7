//! The settings of who may come in: as they are written, and what they mean.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::claims::ClaimRules;

/// How callers are told apart, as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AuthKind {
    /// Not at all: `X-User-ID` is believed.
    #[default]
    None,
    /// By static bearer tokens with scopes.
    Token,
    /// By signed tokens that name the user.
    Jwt,
}

/// The settings as they are written.
#[derive(Clone, Debug, clap::Args)]
pub struct IdentitySettings {
    /// How clients show who they are: not at all, by static bearer tokens, or by signed tokens that name the user.
    #[arg(long, env = "SHARDCACHE_AUTH", default_value = "none")]
    auth: AuthKind,
    /// With `token`: the file of tokens, `name scope[,scope] token [user=<id>]` a line, scopes read, write and admin.
    #[arg(long, env = "SHARDCACHE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// With `jwt`: the file of a PEM public key, or of an HMAC secret.
    #[arg(long, env = "SHARDCACHE_JWT_KEY_FILE")]
    jwt_key_file: Option<PathBuf>,
    /// With `jwt`, instead of one key: the file of a JWKS; a token's kid chooses the key.
    #[arg(long, env = "SHARDCACHE_JWT_JWKS_FILE")]
    jwt_jwks_file: Option<PathBuf>,
    /// With `jwt`: what a token's aud must be or contain.
    #[arg(long, env = "SHARDCACHE_JWT_AUDIENCE")]
    jwt_audience: Option<String>,
    /// With `jwt`: what a token's iss must be.
    #[arg(long, env = "SHARDCACHE_JWT_ISSUER")]
    jwt_issuer: Option<String>,
    /// With `jwt`: the claim that names the user; `sub` by default.
    #[arg(long, env = "SHARDCACHE_JWT_USER_CLAIM")]
    jwt_user_claim: Option<String>,
    /// Where the status page, /metrics and /v1/ring are served, without a token; / and /metrics are then nowhere else.
    #[arg(long, env = "SHARDCACHE_ADMIN_LISTEN")]
    admin_listen: Option<SocketAddr>,
}

/// How callers are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// By the tokens of a file.
    Token {
        /// The file.
        file: PathBuf,
    },
    /// By signed tokens.
    Jwt(JwtAuth),
}

/// What makes a signed token good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtAuth {
    /// Where the keys are.
    pub keys: KeySource,
    /// What must hold of the claims.
    pub rules: ClaimRules,
}

/// Where the keys of signed tokens are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A PEM public key or an HMAC secret.
    KeyFile(PathBuf),
    /// A JWKS.
    JwksFile(PathBuf),
}

const USER_CLAIM: &str = "sub";

impl IdentitySettings {
    /// Where the pages of an admin are served, if apart.
    pub fn admin_listen(&self) -> Option<SocketAddr> {
        self.admin_listen
    }

    /// What the settings mean. A file that is named and not used is an error: whoever names it believes that it counts.
    pub fn auth(&self) -> anyhow::Result<Auth> {
        let of_jwt = [
            ("SHARDCACHE_JWT_KEY_FILE", self.jwt_key_file.is_some()),
            ("SHARDCACHE_JWT_JWKS_FILE", self.jwt_jwks_file.is_some()),
            ("SHARDCACHE_JWT_AUDIENCE", self.jwt_audience.is_some()),
            ("SHARDCACHE_JWT_ISSUER", self.jwt_issuer.is_some()),
            ("SHARDCACHE_JWT_USER_CLAIM", self.jwt_user_claim.is_some()),
        ];
        if let Some((name, _)) = of_jwt.iter().find(|(_, set)| *set && self.auth != AuthKind::Jwt) {
            anyhow::bail!("{name} has no effect without SHARDCACHE_AUTH=jwt");
        }
        if self.token_file.is_some() && self.auth != AuthKind::Token {
            anyhow::bail!("SHARDCACHE_TOKEN_FILE has no effect without SHARDCACHE_AUTH=token");
        }
        match self.auth {
            AuthKind::None => Ok(Auth::None),
            AuthKind::Token => match &self.token_file {
                Some(file) => Ok(Auth::Token { file: file.clone() }),
                None => anyhow::bail!("SHARDCACHE_AUTH=token needs SHARDCACHE_TOKEN_FILE"),
            },
            AuthKind::Jwt => self.jwt().map(Auth::Jwt),
        }
    }

    fn jwt(&self) -> anyhow::Result<JwtAuth> {
        let keys = match (&self.jwt_key_file, &self.jwt_jwks_file) {
            (Some(file), None) => KeySource::KeyFile(file.clone()),
            (None, Some(file)) => KeySource::JwksFile(file.clone()),
            _ => anyhow::bail!(
                "SHARDCACHE_AUTH=jwt needs one of SHARDCACHE_JWT_KEY_FILE and SHARDCACHE_JWT_JWKS_FILE, not both"
            ),
        };
        let rules = ClaimRules {
            user_claim: self.jwt_user_claim.clone().unwrap_or_else(|| USER_CLAIM.to_owned()),
            audience: self.jwt_audience.clone(),
            issuer: self.jwt_issuer.clone(),
        };
        Ok(JwtAuth { keys, rules })
    }
}
