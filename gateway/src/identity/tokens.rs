//! Static bearer tokens from a file: `name scope[,scope] token [user=<id>]` a line. Pure.
//!
//! Looked up by their SHA-256: how long that takes tells nothing of a token. The file may hold the digest instead of the token.

use std::collections::{HashMap, HashSet};

use placement::UserId;
use wire::{Problem, ProblemCode};

use super::verified::{Digest, digest_of};
use super::{Caller, Scope, unauthorized};

/// The shortest token of a file: a shorter one could be guessed.
const TOKEN_MIN_BYTES: usize = 16;
const DIGEST_PREFIX: &str = "sha256:";

/// What the tokens of a file allow.
pub(crate) struct TokenList(HashMap<Digest, Grant>);

/// What one token allows.
struct Grant {
    scopes: Vec<Scope>,
    /// The only user it may ask for.
    user: Option<UserId>,
}

impl TokenList {
    /// Blank lines and those that begin with `#` say nothing. The reason names the line and repeats nothing of it.
    pub(super) fn parse(content: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(content).map_err(|_| "it is no UTF-8")?;
        let mut grants = HashMap::new();
        let mut names = HashSet::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |reason: &str| format!("line {}: {reason}", index + 1);
            let (name, digest, grant) = parse_line(line).map_err(at)?;
            if !names.insert(name) {
                return Err(at("the name was given before"));
            }
            if grants.insert(digest, grant).is_some() {
                return Err(at("the token was given before"));
            }
        }
        if grants.is_empty() { Err("it has no token".to_owned()) } else { Ok(Self(grants)) }
    }

    /// Who shows this token; it must allow what is wanted.
    pub(super) fn caller(&self, token: &[u8], scope: Scope) -> Result<Caller, Problem> {
        let grant = self.0.get(&digest_of(token)).ok_or_else(|| unauthorized("the token is none of ours"))?;
        if !grant.scopes.contains(&scope) {
            return Err(Problem::new(ProblemCode::Forbidden, scope.lacking()));
        }
        Ok(grant.user.clone().map_or(Caller::Any, Caller::Bound))
    }
}

impl Scope {
    fn of(name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }

    fn lacking(self) -> &'static str {
        match self {
            Self::Read => "the token does not have the scope read",
            Self::Write => "the token does not have the scope write",
            Self::Admin => "the token does not have the scope admin",
        }
    }
}

fn parse_line(line: &str) -> Result<(&str, Digest, Grant), &'static str> {
    let mut fields = line.split_whitespace();
    let (Some(name), Some(scopes), Some(token)) = (fields.next(), fields.next(), fields.next()) else {
        return Err("a line is `name scope[,scope] token`, and `user=<id>` behind it if the token is of one user");
    };
    let scopes: Option<Vec<Scope>> = scopes.split(',').map(Scope::of).collect();
    let scopes = scopes.ok_or("the scopes are read, write and admin, separated by commas")?;
    let user =
        match fields.next().map(|field| field.strip_prefix("user=").ok_or("behind the token only user=<id> may stand"))
        {
            Some(id) => Some(UserId::parse(id?.as_bytes()).map_err(|_| "the user id is none")?),
            None => None,
        };
    if fields.next().is_some() {
        return Err("there is more on the line than `name scope[,scope] token user=<id>`");
    }
    let digest = match token.strip_prefix(DIGEST_PREFIX) {
        Some(digits) => parse_digest(digits).ok_or("sha256: is followed by 64 hexadecimal digits")?,
        None if token.len() < TOKEN_MIN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            return Err("a token has at least 16 characters of visible ASCII");
        }
        None => digest_of(token.as_bytes()),
    };
    Ok((name, digest, Grant { scopes, user }))
}

fn parse_digest(digits: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if digits.len() != 2 * digest.len() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..digits.len()).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: &str = "reader-token-0001";
    const OF_ADA: &str = "token-of-ada-0002";

    fn list() -> TokenList {
        let digest: String = digest_of(OF_ADA.as_bytes()).iter().map(|byte| format!("{byte:02X}")).collect();
        let text = format!("# comment\n\n reader read {READER}\nada read,write sha256:{digest} user=ada\r\n");
        TokenList::parse(text.as_bytes()).expect("tokens")
    }

    #[test]
    fn a_token_allows_its_scopes_for_its_user_or_for_any() {
        let list = list();
        assert_eq!(list.caller(READER.as_bytes(), Scope::Read), Ok(Caller::Any));
        let ada = Caller::Bound(UserId::parse(b"ada").expect("a user"));
        assert_eq!(list.caller(OF_ADA.as_bytes(), Scope::Write), Ok(ada));
        let code = |token: &str, scope| list.caller(token.as_bytes(), scope).map_err(|problem| problem.code);
        assert_eq!(code(READER, Scope::Write), Err(ProblemCode::Forbidden));
        assert_eq!(code(OF_ADA, Scope::Admin), Err(ProblemCode::Forbidden));
        for wrong in ["", "reader-token-0002", "reader", "sha256:00"] {
            assert_eq!(code(wrong, Scope::Read), Err(ProblemCode::Unauthorized), "{wrong}");
        }
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_alone() {
        let digits = "0".repeat(63);
        for bad in [
            "Zx9SECRETZx9SECRET",
            "name Zx9SECRETZx9SECRET",
            "name read Zx9SECRET",
            "name root Zx9SECRETZx9SECRET",
            "name read, Zx9SECRETZx9SECRET",
            "name read Zx9SECRETZx9SECRET ada",
            "name read Zx9SECRETZx9SECRET user=",
            "name read Zx9SECRETZx9SECRET user=ada more",
            "name read Zx9SECRETZx9SECRÉT",
            &format!("name read sha256:{digits}"),
            &format!("name read sha256:{digits}g"),
            "good read another-token-0001",
            &format!("name read {READER}"),
        ] {
            let error = TokenList::parse(format!("good read {READER}\n{bad}\n").as_bytes()).err();
            let error = error.unwrap_or_else(|| panic!("{bad} is taken"));
            assert!(error.starts_with("line 2: ") && !error.contains("SECR"), "{error}");
        }
        assert!(TokenList::parse(b"# nothing\n").is_err() && TokenList::parse(b"\xff").is_err());
    }
}
