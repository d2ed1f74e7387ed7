//! The rules of a drill, as they are written: `delay=50ms share=0.1 route=get; abort=503 header=X-Drill`.

use std::str::FromStr;
use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};
use service::request_metrics::Route;
use service::settings::HumanDuration;

use super::Fault;
use crate::limits;

/// Rules, of which the first that means a request decides about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultRules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    fault: Fault,
    /// Of the requests that it means, from above 0 to 1.
    share: f64,
    route: Option<Route>,
    /// Only requests that have it.
    header: Option<HeaderName>,
}

/// Why a text is no rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultRulesInvalid {
    /// None of the words of a rule.
    #[error("{0:?} is none of delay=TIME, abort=STATUS, share=SHARE, route=ROUTE, header=NAME")]
    Word(String),
    /// The same word again.
    #[error("a rule says {0} twice")]
    Twice(&'static str),
    /// No time, or too long.
    #[error("a delay is a time of at most 10s, as 50ms")]
    Delay,
    /// No status that can be injected.
    #[error("abort is 429, 503 or 504")]
    Abort,
    /// No share.
    #[error("a share is a number above 0 and at most 1, as 0.1")]
    Share,
    /// No route of the data plane.
    #[error("a route is get, head, put, delete, list or mget")]
    Route,
    /// No name of a header.
    #[error("{0:?} is no name of a header")]
    Header(String),
    /// Nothing would happen.
    #[error("a rule says delay or abort, or both")]
    Nothing,
    /// More than are looked through for each request.
    #[error("there are at most 32 rules")]
    TooMany,
}

impl FaultRules {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn fault(&self, route: Route, headers: &HeaderMap, mut chance: impl FnMut() -> f64) -> Option<Fault> {
        let means = |rule: &&Rule| {
            rule.route.is_none_or(|of| of == route)
                && rule.header.as_ref().is_none_or(|name| headers.contains_key(name))
                && (rule.share >= 1.0 || chance() < rule.share)
        };
        self.0.iter().find(means).map(|rule| rule.fault)
    }
}

impl FromStr for FaultRules {
    type Err = FaultRulesInvalid;

    fn from_str(text: &str) -> Result<Self, FaultRulesInvalid> {
        let rules = text.split(';').map(str::trim).filter(|rule| !rule.is_empty()).map(rule);
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        if rules.len() > limits::FAULT_RULES_MAX {
            return Err(FaultRulesInvalid::TooMany);
        }
        Ok(Self(rules))
    }
}

/// A fault alone, as a request asks for it.
pub(super) fn fault_of(text: &str) -> Result<Fault, FaultRulesInvalid> {
    let rule = rule(text)?;
    let plain = Rule { fault: rule.fault, share: 1.0, route: None, header: None };
    if rule == plain { Ok(rule.fault) } else { Err(FaultRulesInvalid::Word(text.to_owned())) }
}

fn rule(text: &str) -> Result<Rule, FaultRulesInvalid> {
    let (mut fault, mut share, mut route, mut header) = (Fault::default(), None, None, None);
    for word in text.split_whitespace() {
        let unknown = || FaultRulesInvalid::Word(word.to_owned());
        let (name, value) = word.split_once('=').ok_or_else(unknown)?;
        match name {
            "delay" => once("delay", &mut fault.delay, delay(value)?)?,
            "abort" => once("abort", &mut fault.abort, abort(value)?)?,
            "share" => once("share", &mut share, share_of(value)?)?,
            "route" => once("route", &mut route, route_of(value)?)?,
            "header" => {
                let named = value.parse().map_err(|_| FaultRulesInvalid::Header(value.to_owned()))?;
                once("header", &mut header, named)?;
            }
            _ => return Err(unknown()),
        }
    }
    if fault == Fault::default() {
        return Err(FaultRulesInvalid::Nothing);
    }
    Ok(Rule { fault, share: share.unwrap_or(1.0), route, header })
}

fn once<T>(name: &'static str, place: &mut Option<T>, value: T) -> Result<(), FaultRulesInvalid> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(FaultRulesInvalid::Twice(name)),
    }
}

fn delay(text: &str) -> Result<Duration, FaultRulesInvalid> {
    let delay = text.parse().map(HumanDuration::get).ok();
    delay.filter(|delay| *delay <= limits::FAULT_DELAY_MAX).ok_or(FaultRulesInvalid::Delay)
}

fn abort(text: &str) -> Result<StatusCode, FaultRulesInvalid> {
    match text {
        "429" => Ok(StatusCode::TOO_MANY_REQUESTS),
        "503" => Ok(StatusCode::SERVICE_UNAVAILABLE),
        "504" => Ok(StatusCode::GATEWAY_TIMEOUT),
        _ => Err(FaultRulesInvalid::Abort),
    }
}

fn share_of(text: &str) -> Result<f64, FaultRulesInvalid> {
    text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0).ok_or(FaultRulesInvalid::Share)
}

fn route_of(text: &str) -> Result<Route, FaultRulesInvalid> {
    match text {
        "get" => Ok(Route::get),
        "head" => Ok(Route::head),
        "put" => Ok(Route::put),
        "delete" => Ok(Route::delete),
        "list" => Ok(Route::list),
        "mget" => Ok(Route::mget),
        _ => Err(FaultRulesInvalid::Route),
    }
}
