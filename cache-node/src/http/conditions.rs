//! Conditional requests: `If-Match`, `If-None-Match` (RFC 9110, section 13).

use http::{HeaderMap, header};
use origin::Precondition;
use wire::entries::Version;

/// The tags of a header, all its lines together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// `*`.
    Any,
    /// Tags of ours, each with whether it was weak. Tags that cannot be ours match nothing and are left out.
    List(Vec<(Version, bool)>),
}

/// Conditions that cannot be judged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadCondition {
    /// The header is no list of entity tags.
    #[error("{0} is not a list of entity tags")]
    NoTags(&'static str),
    /// No statement of ours checks both.
    #[error("a write has If-Match or If-None-Match, not both")]
    Both,
}

fn tags(headers: &HeaderMap, name: header::HeaderName, shown: &'static str) -> Result<Option<Tags>, BadCondition> {
    let mut list = Vec::new();
    let mut present = false;
    for line in headers.get_all(name) {
        present = true;
        let line = line.to_str().map_err(|_| BadCondition::NoTags(shown))?.trim();
        if line == "*" {
            return Ok(Some(Tags::Any));
        }
        for tag in line.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
            let (weak, opaque) = tag.strip_prefix("W/").map_or((false, tag), |opaque| (true, opaque));
            let inner = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let inner = inner.filter(|inner| !inner.contains('"')).ok_or(BadCondition::NoTags(shown))?;
            if let Ok(version) = inner.parse::<i64>()
                && version.to_string() == inner
            {
                list.push((Version(version), weak));
            }
        }
    }
    Ok(present.then_some(Tags::List(list)))
}

/// What must hold for a write.
pub(super) fn write_precondition(headers: &HeaderMap) -> Result<Precondition, BadCondition> {
    let if_match = tags(headers, header::IF_MATCH, "If-Match")?;
    let if_none_match = tags(headers, header::IF_NONE_MATCH, "If-None-Match")?;
    match (if_match, if_none_match) {
        (None, None) => Ok(Precondition::None),
        (Some(Tags::Any), None) => Ok(Precondition::IfExists),
        // Strong comparison: a weak tag never matches.
        (Some(Tags::List(list)), None) => {
            Ok(Precondition::IfMatch(list.into_iter().filter(|(_, weak)| !weak).map(|(version, _)| version).collect()))
        }
        (None, Some(Tags::Any)) => Ok(Precondition::IfAbsent),
        (None, Some(Tags::List(list))) => {
            Ok(Precondition::IfNoneMatch(list.into_iter().map(|(version, _)| version).collect()))
        }
        (Some(_), Some(_)) => Err(BadCondition::Both),
    }
}

/// What a conditional read comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadCondition {
    /// Answer with the entry.
    Send,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Judges a read of an entry of this version; `None`: there is none.
pub(super) fn read_condition(headers: &HeaderMap, version: Option<Version>) -> Result<ReadCondition, BadCondition> {
    match tags(headers, header::IF_MATCH, "If-Match")? {
        Some(Tags::Any) if version.is_none() => return Ok(ReadCondition::Failed),
        Some(Tags::List(list)) if !list.iter().any(|(tag, weak)| !weak && Some(*tag) == version) => {
            return Ok(ReadCondition::Failed);
        }
        _ => {}
    }
    let matches = match tags(headers, header::IF_NONE_MATCH, "If-None-Match")? {
        None => false,
        Some(Tags::Any) => version.is_some(),
        // Weak comparison.
        Some(Tags::List(list)) => list.iter().any(|(tag, _)| Some(*tag) == version),
    };
    Ok(if matches { ReadCondition::NotModified } else { ReadCondition::Send })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn reads_compare_weakly_and_take_lists_and_stars() {
        for value in ["\"7\"", "W/\"7\"", "\"1\", \"7\"", "*", "\"x\",\"7\""] {
            let judged = read_condition(&headers(header::IF_NONE_MATCH, value), Some(Version(7)));
            assert_eq!(judged, Ok(ReadCondition::NotModified), "{value}");
        }
        for value in ["\"6\"", "\"07\"", "\"+7\""] {
            let judged = read_condition(&headers(header::IF_NONE_MATCH, value), Some(Version(7)));
            assert_eq!(judged, Ok(ReadCondition::Send), "{value}");
        }
        assert_eq!(read_condition(&headers(header::IF_NONE_MATCH, "*"), None), Ok(ReadCondition::Send));
    }

    #[test]
    fn writes_compare_strongly() {
        let weak = write_precondition(&headers(header::IF_MATCH, "W/\"7\""));
        assert_eq!(weak, Ok(Precondition::IfMatch(vec![])));
        let strong = write_precondition(&headers(header::IF_MATCH, "\"7\", W/\"8\""));
        assert_eq!(strong, Ok(Precondition::IfMatch(vec![Version(7)])));
        assert_eq!(write_precondition(&headers(header::IF_MATCH, "*")), Ok(Precondition::IfExists));
        assert_eq!(write_precondition(&headers(header::IF_NONE_MATCH, "*")), Ok(Precondition::IfAbsent));
    }

    #[test]
    fn a_write_with_both_conditions_is_refused_as_such() {
        let mut both = headers(header::IF_MATCH, "\"7\"");
        both.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        assert_eq!(write_precondition(&both), Err(BadCondition::Both));
    }

    #[test]
    fn what_is_no_tag_is_refused() {
        for value in ["7", "\"7", "W/7", "\"7\" \"8\""] {
            assert!(write_precondition(&headers(header::IF_MATCH, value)).is_err(), "{value}");
        }
    }
}
