//! What a signed token says, once its signature is good: for whom, for which service, from when to when. Pure.

use std::ops::Range;

use placement::UserId;
use serde_json::{Map, Value};
use wire::Problem;

use super::unauthorized;
use crate::limits;

/// What must hold of the claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// The claim that names the user.
    pub user_claim: String,
    /// What `aud` must be or contain; none: it is not looked at.
    pub audience: Option<String>,
    /// What `iss` must be; none: it is not looked at.
    pub issuer: Option<String>,
}

/// A token whose claims are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Good {
    pub(super) user: UserId,
    /// When it is good, in seconds since 1970, the leeway included.
    pub(super) valid: Range<u64>,
}

impl ClaimRules {
    /// The user of a token, and when it is good; 401 if that is not `now`, or if it is not for us.
    pub(super) fn check(&self, claims: &Map<String, Value>, now: u64) -> Result<Good, Problem> {
        let seconds = |claim: &str| claims.get(claim).map(|value| value.as_f64().filter(|seconds| *seconds >= 0.0));
        let expires = match seconds("exp") {
            // A float beyond what fits becomes the largest.
            Some(Some(seconds)) => (seconds.ceil() as u64).saturating_add(limits::TOKEN_LEEWAY_S),
            Some(None) => return Err(unauthorized("the token's exp is no time")),
            None => return Err(unauthorized("the token has no exp")),
        };
        let begins = match seconds("nbf") {
            Some(Some(seconds)) => (seconds.floor() as u64).saturating_sub(limits::TOKEN_LEEWAY_S),
            Some(None) => return Err(unauthorized("the token's nbf is no time")),
            None => 0,
        };
        if now >= expires {
            return Err(unauthorized("the token has expired"));
        }
        if now < begins {
            return Err(unauthorized("the token is not good yet"));
        }
        if self.audience.as_deref().is_some_and(|wanted| !has_audience(claims.get("aud"), wanted)) {
            return Err(unauthorized("the token is for another audience"));
        }
        let issuer = claims.get("iss").and_then(Value::as_str);
        if self.issuer.as_deref().is_some_and(|wanted| issuer != Some(wanted)) {
            return Err(unauthorized("the token is of another issuer"));
        }
        let user = claims.get(&self.user_claim).and_then(Value::as_str).map(|user| UserId::parse(user.as_bytes()));
        let user = user.and_then(Result::ok).ok_or_else(|| unauthorized("the token names no user that can be one"))?;
        Ok(Good { user, valid: begins..expires })
    }
}

/// One text, or a list of texts (RFC 7519, section 4.1.3).
fn has_audience(claim: Option<&Value>, wanted: &str) -> bool {
    match claim {
        Some(Value::String(audience)) => audience == wanted,
        Some(Value::Array(audiences)) => audiences.iter().any(|audience| audience.as_str() == Some(wanted)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn check(claims: Value) -> Result<String, String> {
        let rules = ClaimRules {
            user_claim: "sub".to_owned(),
            audience: Some("cache".to_owned()),
            issuer: Some("https://issuer".to_owned()),
        };
        let good = rules.check(claims.as_object().expect("claims"), NOW);
        good.map(|good| good.user.as_str().to_owned()).map_err(|problem| problem.detail)
    }

    /// Good claims but for these; null takes one away.
    fn with(changes: Value) -> Value {
        let mut claims = json!({"sub": "ada", "aud": "cache", "iss": "https://issuer", "exp": NOW + 60});
        let members = claims.as_object_mut().expect("an object");
        for (name, value) in changes.as_object().expect("an object") {
            if value.is_null() {
                members.remove(name)
            } else {
                members.insert(name.clone(), value.clone())
            };
        }
        claims
    }

    #[test]
    fn a_token_is_good_from_nbf_to_exp_with_thirty_seconds_of_leeway() {
        for good in [
            json!({}),
            json!({"exp": NOW - 29}),
            json!({"exp": NOW as f64 - 29.5}),
            json!({"nbf": NOW + 30}),
            json!({"exp": 1e300}),
            json!({"aud": ["other", "cache"]}),
        ] {
            assert_eq!(check(with(good.clone())), Ok("ada".to_owned()), "{good}");
        }
        for (bad, detail) in [
            (json!({"exp": NOW - 30}), "the token has expired"),
            (json!({"exp": 0}), "the token has expired"),
            (json!({"exp": -1}), "the token's exp is no time"),
            (json!({"exp": "2100-01-01"}), "the token's exp is no time"),
            (json!({"exp": null}), "the token has no exp"),
            (json!({"nbf": NOW + 31}), "the token is not good yet"),
            (json!({"nbf": "now"}), "the token's nbf is no time"),
        ] {
            assert_eq!(check(with(bad.clone())), Err(detail.to_owned()), "{bad}");
        }
    }

    #[test]
    fn another_audience_issuer_or_user_is_refused() {
        for audience in [json!(null), json!("other"), json!(["other"]), json!([]), json!({"cache": 1}), json!("cache2")]
        {
            assert_eq!(check(with(json!({"aud": audience}))), Err("the token is for another audience".to_owned()));
        }
        for issuer in [json!(null), json!("https://issuer/"), json!(["https://issuer"])] {
            assert_eq!(check(with(json!({"iss": issuer}))), Err("the token is of another issuer".to_owned()));
        }
        for user in [json!(null), json!(""), json!("a b"), json!("é"), json!(7), json!(["ada"]), json!("x".repeat(257))]
        {
            let told = check(with(json!({"sub": user})));
            assert_eq!(told, Err("the token names no user that can be one".to_owned()));
        }
    }
}
