//! What an answer means: pure. Codes and statuses as `docs/OPERATIONS.md` lists them.

use base64::Engine;
use serde_json::Value;

use super::{Action, Outcome, Run};
use crate::http::Answer;

/// "Again? yes": not executed, whatever was asked for.
const NOT_EXECUTED: [(&str, u16); 5] = [
    ("request_timeout", 408),
    ("rate_limited", 429),
    ("overloaded", 503),
    ("owner_unavailable", 503),
    ("origin_unavailable", 503),
];
/// "Again? careful".
const UNKNOWN: (&str, u16) = ("write_outcome_unknown", 504);

/// What came of a request without a success.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Documented, or the connection's fault, by this code.
    Code(String),
    /// Nothing documented explains it.
    Strange(String),
}

/// A value with its version, or none.
pub(super) type Seen = Option<(u64, u64)>;

/// A `GET`'s answer.
pub(super) fn of_get(run: &Run, answer: Result<Answer, reqwest::Error>) -> Result<Seen, Failure> {
    let answer = answer.map_err(|error| Failure::Code(transport_code(&error).to_owned()))?;
    match (answer.status, answer.code().as_str()) {
        (200, _) => {
            let seen = run.value(&answer.text()).zip(version(&answer));
            seen.map(Some).ok_or_else(|| strange("a value of nobody", &answer))
        }
        (404, "entry_not_found") => Ok(None),
        _ => Err(refusal(&answer)),
    }
}

/// A multi-get's answer, an element per key.
pub(super) fn of_mget(
    run: &Run,
    keys: &[String],
    answer: Result<Answer, reqwest::Error>,
) -> Result<Vec<Seen>, Failure> {
    let answer = answer.map_err(|error| Failure::Code(transport_code(&error).to_owned()))?;
    if answer.status != 200 {
        return Err(refusal(&answer));
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let entries = body["entries"].as_array().filter(|entries| entries.len() == keys.len());
    let entries = entries.ok_or_else(|| strange("not an entry per key", &answer))?;
    let seen = |(entry, key): (&Value, &String)| {
        if entry.is_null() {
            return Some(None);
        }
        let value = base64::engine::general_purpose::STANDARD.decode(entry["value"].as_str()?).ok()?;
        let value = run.value(std::str::from_utf8(&value).ok()?)?;
        (entry["key"] == **key).then_some(Some((value, entry["version"].as_u64()?)))
    };
    let seen: Option<_> = entries.iter().zip(keys).map(seen).collect();
    seen.ok_or_else(|| strange("an entry of nobody", &answer))
}

/// What a write's answer says of it; and what failed, if anything did.
pub(super) fn of_write(action: Action, answer: Result<Answer, reqwest::Error>) -> (Outcome, Option<Failure>) {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let outcome = if error.is_connect() { Outcome::Refused } else { Outcome::Unknown };
            return (outcome, Some(Failure::Code(transport_code(&error).to_owned())));
        }
    };
    let (status, code) = (answer.status, answer.code());
    match (action, status) {
        (Action::Put(_), 201 | 204) => match version(&answer) {
            Some(version) => (Outcome::Done { version: Some(version) }, None),
            None => (Outcome::Done { version: None }, Some(strange("a write without a version", &answer))),
        },
        (Action::Delete, 204) => (Outcome::Done { version: None }, None),
        // It has changed nothing, and has seen that.
        (Action::Delete, 404) if code == "entry_not_found" => (Outcome::Read { value: None, version: None }, None),
        _ if (code.as_str(), status) == UNKNOWN => (Outcome::Unknown, Some(Failure::Code(code))),
        _ => match refusal(&answer) {
            Failure::Code(code) => (Outcome::Refused, Some(Failure::Code(code))),
            Failure::Strange(what) => (Outcome::Unknown, Some(Failure::Strange(what))),
        },
    }
}

fn refusal(answer: &Answer) -> Failure {
    let (status, code) = (answer.status, answer.code());
    if NOT_EXECUTED.contains(&(code.as_str(), status)) { Failure::Code(code) } else { strange("undocumented", answer) }
}

fn strange(what: &str, answer: &Answer) -> Failure {
    Failure::Strange(format!("{what}: {} {}", answer.status, answer.text()))
}

/// Where a request without an answer broke off. A connection that was never made has carried nothing.
fn transport_code(error: &reqwest::Error) -> &'static str {
    if error.is_connect() {
        "not_connected"
    } else if error.is_timeout() {
        "timeout"
    } else {
        "broken"
    }
}

fn version(answer: &Answer) -> Option<u64> {
    answer.header("etag").strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}
