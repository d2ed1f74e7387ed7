//! The cluster token: what gateway, nodes and migrator show each other.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use subtle::ConstantTimeEq;

/// A non-empty text of visible ASCII. `Debug` hides it.
#[derive(Clone)]
pub struct ClusterToken(Arc<str>);

/// A text that is no token; never repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token is at least one character of visible ASCII, without blanks")]
pub struct ClusterTokenInvalid;

const SCHEME: &[u8] = b"bearer ";

impl ClusterToken {
    /// Whether the headers carry exactly one `Authorization: Bearer` with this token; takes as long for every wrong token
    /// of the right length.
    pub fn authorises(&self, headers: &HeaderMap) -> bool {
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (sent.next(), sent.next()) else { return false };
        self.is_in(value.as_bytes())
    }

    /// [`ClusterToken::authorises`] for the value of the one header.
    pub fn is_in(&self, authorization: &[u8]) -> bool {
        match authorization.split_at_checked(SCHEME.len()) {
            Some((scheme, token)) => {
                // RFC 9110, section 11.4: one blank or more.
                let blanks = token.iter().take_while(|byte| **byte == b' ').count();
                scheme.eq_ignore_ascii_case(SCHEME) && bool::from(token[blanks..].ct_eq(self.0.as_bytes()))
            }
            None => false,
        }
    }

    /// `Bearer …`, marked as sensitive.
    pub fn header_value(&self) -> HeaderValue {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.0)).expect("visible ASCII is a header value");
        value.set_sensitive(true);
        value
    }
}

impl std::str::FromStr for ClusterToken {
    type Err = ClusterTokenInvalid;

    fn from_str(text: &str) -> Result<Self, ClusterTokenInvalid> {
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            Err(ClusterTokenInvalid)
        }
    }
}

impl std::fmt::Debug for ClusterToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorization(values: &[&str]) -> HeaderMap {
        values.iter().map(|v| (header::AUTHORIZATION, v.parse().expect("value"))).collect()
    }

    #[test]
    fn only_the_token_itself_authorises() {
        let token: ClusterToken = "s3cret".parse().expect("token");
        assert!(token.authorises(&authorization(&["Bearer s3cret"])));
        assert!(token.authorises(&authorization(&["bearer s3cret"])));
        assert!(token.authorises(&authorization(&["Bearer   s3cret"])), "RFC 9110 lets the blanks be many");
        for wrong in [&[][..], &["Bearer s3creT"], &["Bearer s3cre"], &["Bearer "], &["s3cret"], &["Basic s3cret"]] {
            assert!(!token.authorises(&authorization(wrong)), "{wrong:?}");
        }
        assert!(!token.authorises(&authorization(&["Bearer s3cret", "Bearer s3cret"])));
    }

    #[test]
    fn a_token_is_never_shown() {
        let token: ClusterToken = "s3cret".parse().expect("token");
        assert!(token.header_value().is_sensitive());
        assert_eq!(token.header_value(), "Bearer s3cret");
        assert!(!format!("{token:?} {:?}", token.header_value()).contains("s3cret"));
        for bad in ["", " ", "a b", "é", "a\n"] {
            assert!(bad.parse::<ClusterToken>().is_err());
        }
    }
}
