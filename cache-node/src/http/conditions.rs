//! Conditional requests: `If-Match`, `If-None-Match` (RFC 9110, section 13).

use http::{HeaderMap, HeaderValue, header};
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
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    match lines[..] {
        [] => return Ok(None),
        [line] if line.trim_ascii() == b"*" => return Ok(Some(Tags::Any)),
        _ => {}
    }
    // Several lines are one list (RFC 9110, section 5.3); a tag ends in the line where it began.
    let lists: Option<Vec<_>> = lines.into_iter().map(listed).collect();
    lists.map(|lists| Some(Tags::List(lists.concat()))).ok_or(BadCondition::NoTags(shown))
}

/// The tags of ours in a list; `None`: it is no list of tags. Others' tags may hold commas and bytes beyond ASCII.
fn listed(mut rest: &[u8]) -> Option<Vec<(Version, bool)>> {
    let mut list = Vec::new();
    loop {
        // Empty members count for nothing.
        let next = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','));
        let Some(next) = next else { return Some(list) };
        let tag = &rest[next..];
        let (weak, opaque) = tag.strip_prefix(b"W/").map_or((false, tag), |opaque| (true, opaque));
        let inner = opaque.strip_prefix(b"\"")?;
        let end = inner.iter().position(|byte| *byte == b'"')?;
        if inner[..end].iter().any(|byte| matches!(byte, 0..=b' ' | 0x7f)) {
            return None;
        }
        list.extend(version_of(&inner[..end]).map(|version| (version, weak)));
        rest = inner[end + 1..].trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b",") {
            return None;
        }
    }
}

/// The version in a tag, if it is written as ours are.
fn version_of(inner: &[u8]) -> Option<Version> {
    let text = std::str::from_utf8(inner).ok()?;
    text.parse().ok().map(Version).filter(|version| version.to_string() == text)
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
    // Both are read before either is judged: one that cannot be read is never ignored.
    let if_match = tags(headers, header::IF_MATCH, "If-Match")?;
    let if_none_match = tags(headers, header::IF_NONE_MATCH, "If-None-Match")?;
    match if_match {
        Some(Tags::Any) if version.is_none() => return Ok(ReadCondition::Failed),
        Some(Tags::List(list)) if !list.iter().any(|(tag, weak)| !weak && Some(*tag) == version) => {
            return Ok(ReadCondition::Failed);
        }
        _ => {}
    }
    let matches = match if_none_match {
        None => false,
        Some(Tags::Any) => version.is_some(),
        // Weak comparison.
        Some(Tags::List(list)) => list.iter().any(|(tag, _)| Some(*tag) == version),
    };
    Ok(if matches { ReadCondition::NotModified } else { ReadCondition::Send })
}

#[cfg(test)]
mod tests {
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
    fn tags_of_others_match_nothing_whatever_they_hold() {
        for value in ["\"a,b\"", "\"7,\"", "W/\"\\\"", "\"caf\u{e9}\"", "\"\""] {
            let foreign = HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
            let with_ours = HeaderValue::from_bytes(format!("{value} ,\"7\"").as_bytes()).expect("a header value");
            let judged =
                |sent| read_condition(&HeaderMap::from_iter([(header::IF_NONE_MATCH, sent)]), Some(Version(7)));
            assert_eq!(judged(foreign), Ok(ReadCondition::Send), "{value}");
            assert_eq!(judged(with_ours), Ok(ReadCondition::NotModified), "{value}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = |values: &[&'static str]| -> HeaderMap {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, HeaderValue::from_static(value));
            }
            headers
        };
        let both = write_precondition(&lines(&["\"7\"", "\"8\""]));
        assert_eq!(both, Ok(Precondition::IfMatch(vec![Version(7), Version(8)])));
        for refused in [&["*", "garbage"][..], &["\"7\"", "*"], &["*", "\"7\""], &["\"7", "\""]] {
            assert!(write_precondition(&lines(refused)).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_condition_that_cannot_be_read_is_refused_also_beside_one_that_fails() {
        let mut both = headers(header::IF_MATCH, "\"6\"");
        both.insert(header::IF_NONE_MATCH, HeaderValue::from_static("garbage"));
        assert_eq!(read_condition(&both, Some(Version(7))), Err(BadCondition::NoTags("If-None-Match")));
    }

    #[test]
    fn what_is_no_tag_is_refused() {
        for value in ["7", "\"7", "W/7", "\"7\" \"8\"", "*, \"7\"", "w/\"7\"", "\"a b\""] {
            assert!(write_precondition(&headers(header::IF_MATCH, value)).is_err(), "{value}");
        }
    }
}
