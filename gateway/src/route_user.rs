//! Who a request is for: the user that a token names, the one in `X-User-ID`, or, where neither is, what stands in for one.
//!
//! What stands in begins with a word of its own (`ip:`, `cookie:`, `header:`); where it may, no client can send such an id.

use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, HeaderName, header};
use placement::UserId;
use wire::headers::X_USER_ID;
use wire::{Problem, ProblemCode};

use crate::identity::Caller;

/// What to do with requests without `X-User-ID`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keyless {
    /// 400 `user_id_missing`.
    #[default]
    Reject,
    /// The client's address names the user: `ip:<address>`.
    ClientIp,
    /// The cookie of this name does: `cookie:` and the SHA-256 of its value in hexadecimal digits, for a cookie's value is a
    /// secret of its client.
    Cookie(String),
    /// The header of this name does: `header:<value>`.
    Header(HeaderName),
}

/// A text that says none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeylessInvalid {
    /// Something else.
    #[error("it is reject, client-ip, cookie:NAME or header:NAME")]
    Unknown,
    /// No name, or one that has a meaning of its own.
    #[error("the name is one of a cookie or header, and of none that has a meaning of its own")]
    Name,
}

/// Headers that say something else, or that every client of a kind sends alike.
static NOT_FOR_USERS: [HeaderName; 4] = [header::AUTHORIZATION, header::COOKIE, header::HOST, X_USER_ID];

/// How ids begin that only we give.
const RESERVED: [&str; 3] = ["ip:", "cookie:", "header:"];

impl std::str::FromStr for Keyless {
    type Err = KeylessInvalid;

    fn from_str(text: &str) -> Result<Self, KeylessInvalid> {
        match text.split_once(':') {
            None if text == "reject" => Ok(Self::Reject),
            None if text == "client-ip" => Ok(Self::ClientIp),
            // The names of cookies are tokens, as those of headers are.
            Some(("cookie", name)) => match HeaderName::from_bytes(name.as_bytes()) {
                Ok(_) => Ok(Self::Cookie(name.to_owned())),
                Err(_) => Err(KeylessInvalid::Name),
            },
            Some(("header", name)) => {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| KeylessInvalid::Name)?;
                if NOT_FOR_USERS.contains(&name) { Err(KeylessInvalid::Name) } else { Ok(Self::Header(name)) }
            }
            _ => Err(KeylessInvalid::Unknown),
        }
    }
}

/// What decides who the user is, beside the headers.
pub(crate) struct Asked<'a> {
    pub(crate) keyless: &'a Keyless,
    pub(crate) caller: Caller,
    /// The client's address.
    pub(crate) client: Option<IpAddr>,
    /// Whether the peer is a proxy that may speak for its clients.
    pub(crate) by_trusted_proxy: bool,
}

/// The user of a request.
///
/// 403 `forbidden` for an `X-User-ID` that disagrees with the token, unless it is a signed one that names the user and the header
/// comes from anyone: then it says nothing.
pub(crate) fn user_of(headers: &HeaderMap, asked: Asked<'_>) -> Result<UserId, Problem> {
    match asked.caller {
        Caller::Any => named_user(headers, asked.keyless, asked.client),
        Caller::Proven(user) if !asked.by_trusted_proxy => Ok(user),
        Caller::Proven(user) | Caller::Bound(user) => {
            // An empty header and one of blanks say as little as none.
            let mut given = given(headers).filter(|id| !id.is_empty());
            if given.any(|id| id != user.as_str().as_bytes()) {
                return Err(Problem::new(ProblemCode::Forbidden, "X-User-ID is not the user of the token"));
            }
            Ok(user)
        }
    }
}

fn given(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(X_USER_ID).iter().map(|value| value.as_bytes().trim_ascii())
}

fn named_user(headers: &HeaderMap, keyless: &Keyless, client: Option<IpAddr>) -> Result<UserId, Problem> {
    let mut values = given(headers);
    let first = values.next().filter(|id| !id.is_empty());
    if values.next().is_some() {
        return Err(Problem::new(ProblemCode::UserIdInvalid, "X-User-ID was sent more than once"));
    }
    if let Some(id) = first {
        if *keyless != Keyless::Reject && RESERVED.iter().any(|prefix| id.starts_with(prefix.as_bytes())) {
            let detail = "a user id that begins with ip:, cookie: or header: is not one to be sent";
            return Err(Problem::new(ProblemCode::UserIdInvalid, detail));
        }
        return parsed(id);
    }
    match (keyless, client) {
        (Keyless::ClientIp, Some(client)) => parsed(format!("ip:{}", client.to_canonical()).as_bytes()),
        (Keyless::Cookie(name), _) => of_cookie(headers, name),
        (Keyless::Header(name), _) => of_header(headers, name),
        (Keyless::Reject | Keyless::ClientIp, _) => {
            Err(Problem::new(ProblemCode::UserIdMissing, "send one X-User-ID header"))
        }
    }
}

fn parsed(id: &[u8]) -> Result<UserId, Problem> {
    UserId::parse(id).map_err(|error| Problem::new(ProblemCode::UserIdInvalid, error.to_string()))
}

fn of_cookie(headers: &HeaderMap, name: &str) -> Result<UserId, Problem> {
    let pairs = headers.get_all(header::COOKIE).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let mut values = pairs.filter_map(|pair| {
        let pair = pair.trim_ascii();
        pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
    });
    match (values.next().filter(|value| !value.is_empty()), values.next()) {
        (_, Some(_)) => Err(Problem::new(ProblemCode::UserIdInvalid, "the cookie that names the user was sent twice")),
        (None, None) => Err(Problem::new(
            ProblemCode::UserIdMissing,
            "send one X-User-ID header, or the cookie that stands in for it",
        )),
        (Some(value), None) => {
            let digits: String = digest(&SHA256, value).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            parsed(format!("cookie:{digits}").as_bytes())
        }
    }
}

fn of_header(headers: &HeaderMap, name: &HeaderName) -> Result<UserId, Problem> {
    let mut values = headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii());
    match (values.next().filter(|value| !value.is_empty()), values.next()) {
        (_, Some(_)) => Err(Problem::new(ProblemCode::UserIdInvalid, "the header that names the user was sent twice")),
        (None, None) => Err(Problem::new(
            ProblemCode::UserIdMissing,
            "send one X-User-ID header, or the header that stands in for it",
        )),
        (Some(value), None) => parsed(&[b"header:", value].concat()),
    }
}

#[cfg(test)]
mod tests;
