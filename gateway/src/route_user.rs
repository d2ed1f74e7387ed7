//! Who a request is for: the user in `X-User-ID`, or the client's address where that is allowed.

use std::net::IpAddr;

use http::HeaderMap;
use placement::UserId;
use wire::headers::X_USER_ID;
use wire::{Problem, ProblemCode};

/// What to do with requests without `X-User-ID`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Keyless {
    /// 400 `user_id_missing`.
    #[default]
    Reject,
    /// The client's address names the user: `ip:<address>`.
    ClientIp,
}

/// The user of a request.
pub(crate) fn user_of(headers: &HeaderMap, keyless: Keyless, client: Option<IpAddr>) -> Result<UserId, Problem> {
    let mut values = headers.get_all(X_USER_ID).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Problem::new(ProblemCode::UserIdInvalid, "X-User-ID was sent more than once"));
    }
    // An empty header and one of blanks say as little as none.
    let given = first.map(|value| value.as_bytes().trim_ascii()).filter(|id| !id.is_empty());
    let invalid = |error: placement::UserIdInvalid| Problem::new(ProblemCode::UserIdInvalid, error.to_string());
    match (given, keyless, client) {
        (Some(id), _, _) => UserId::parse(id).map_err(invalid),
        (None, Keyless::ClientIp, Some(client)) => {
            UserId::parse(format!("ip:{}", client.to_canonical()).as_bytes()).map_err(invalid)
        }
        (None, _, _) => Err(Problem::new(ProblemCode::UserIdMissing, "send one X-User-ID header")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(values: &[&'static [u8]]) -> HeaderMap {
        let values = values.iter().map(|value| (X_USER_ID, HeaderValue::from_bytes(value).expect("header")));
        let mut headers = HeaderMap::new();
        values.for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    fn code(values: &[&'static [u8]]) -> Result<String, ProblemCode> {
        let client = Some("::ffff:10.0.0.7".parse().expect("address"));
        let user = user_of(&headers(values), Keyless::Reject, client);
        user.map(|user| user.as_str().to_owned()).map_err(|problem| problem.code)
    }

    #[test]
    fn absent_empty_and_blank_are_alike() {
        for values in [&[][..], &[&b""[..]], &[&b"   "[..]]] {
            assert_eq!(code(values), Err(ProblemCode::UserIdMissing));
            let user = user_of(&headers(values), Keyless::ClientIp, Some("::ffff:10.0.0.7".parse().expect("address")));
            assert_eq!(user.expect("by address").as_str(), "ip:10.0.0.7");
        }
    }

    #[test]
    fn two_headers_inner_blanks_and_other_bytes_are_refused() {
        for values in [&[&b"a"[..], b"a"][..], &[b"a b"], &[b"caf\xc3\xa9"], &[b"a\tb"]] {
            assert_eq!(code(values), Err(ProblemCode::UserIdInvalid));
        }
        assert_eq!(code(&[b"user-1"]), Ok("user-1".to_owned()));
    }
}
