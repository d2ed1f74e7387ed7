//! The token in `Authorization: Bearer …` (RFC 6750): one header, bounded before anything else is looked at.

use http::{HeaderMap, header};
use wire::Problem;

use super::unauthorized;
use crate::limits;

const SCHEME: &[u8] = b"bearer";

/// The token, of visible ASCII.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&[u8], Problem> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (sent.next(), sent.next()) {
        (Some(value), None) => value.as_bytes(),
        (None, _) => return Err(unauthorized("send Authorization: Bearer with a token")),
        (Some(_), Some(_)) => return Err(unauthorized("Authorization was sent more than once")),
    };
    if value.len() > limits::TOKEN_MAX_BYTES {
        return Err(unauthorized("the token is over 8 KiB"));
    }
    let token = value.split_at_checked(SCHEME.len()).and_then(|(scheme, rest)| {
        let token = rest.trim_ascii_start();
        (scheme.eq_ignore_ascii_case(SCHEME) && token.len() < rest.len()).then_some(token)
    });
    token
        .filter(|token| !token.is_empty() && token.iter().all(u8::is_ascii_graphic))
        .ok_or_else(|| unauthorized("Authorization is not Bearer with one token"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn token(values: &[&[u8]]) -> Option<Vec<u8>> {
        let values = values.iter().map(|value| HeaderValue::from_bytes(value).expect("a value"));
        let headers: HeaderMap = values.map(|value| (header::AUTHORIZATION, value)).collect();
        bearer(&headers).ok().map(<[u8]>::to_vec)
    }

    #[test]
    fn one_header_of_the_scheme_with_one_token_is_read() {
        for good in [&b"Bearer abc"[..], b"bearer  abc", b"BEARER abc"] {
            assert_eq!(token(&[good]).as_deref(), Some(&b"abc"[..]));
        }
        for bad in [&b"Bearer"[..], b"Bearer ", b"Bearerabc", b"Basic abc", b"abc", b"", b"Bearer a b", b"Bearer \xff"]
        {
            assert_eq!(token(&[bad]), None, "{bad:?}");
        }
        assert_eq!((token(&[]), token(&[b"Bearer abc", b"Bearer abc"])), (None, None));
    }

    #[test]
    fn a_token_over_the_limit_is_not_looked_at() {
        let of = |length: usize| [&b"Bearer "[..], &vec![b'a'; length - b"Bearer ".len()]].concat();
        assert!(token(&[&of(limits::TOKEN_MAX_BYTES)]).is_some());
        assert_eq!(token(&[&of(limits::TOKEN_MAX_BYTES + 1)]), None);
    }
}
