//! Which keys a page of a listing covers, without pattern matching: a start in byte order, and a prefix to stop at.
//!
//! Pure. The keys with a prefix are one run in byte order that begins at the prefix, so the page is the first `limit` keys
//! from the start, cut at the first key without the prefix: an index range scan on both databases, whatever characters
//! the prefix holds.

use wire::entries::EntryInfo;

use crate::entries::ListRequest;

/// Where the scan starts, for `key >= from AND key <> except`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListStart {
    /// The least key wanted.
    pub(crate) from: String,
    /// One key that is not wanted; empty (which is no key) for none.
    pub(crate) except: String,
}

/// The start of the page; `None`: no key can match.
pub(crate) fn list_start(request: &ListRequest) -> Option<ListStart> {
    // Keys hold no U+0000 and Postgres takes none in a parameter. No key has a prefix with one; and to be after `a\0…` is,
    // for such keys, to be after `a`.
    if request.prefix.contains('\0') {
        return None;
    }
    let after = request.after.as_deref().unwrap_or("");
    let after = after.split('\0').next().unwrap_or("");
    let from = if after > request.prefix.as_str() { after } else { &request.prefix };
    Some(ListStart { from: from.to_owned(), except: after.to_owned() })
}

/// Cuts a page at the first key without the prefix.
pub(crate) fn cut_at_prefix(mut page: Vec<EntryInfo>, prefix: &str) -> Vec<EntryInfo> {
    let end = page.iter().position(|entry| !entry.key.starts_with(prefix)).unwrap_or(page.len());
    page.truncate(end);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(prefix: &str, after: Option<&str>) -> Option<(String, String)> {
        let request = ListRequest { prefix: prefix.to_owned(), after: after.map(str::to_owned), limit: 10 };
        list_start(&request).map(|start| (start.from, start.except))
    }

    fn pair(from: &str, except: &str) -> Option<(String, String)> {
        Some((from.to_owned(), except.to_owned()))
    }

    #[test]
    fn a_page_starts_at_the_later_of_prefix_and_after() {
        assert_eq!(start("", None), pair("", ""));
        assert_eq!(start("b", None), pair("b", ""));
        assert_eq!(start("b", Some("a")), pair("b", "a"));
        assert_eq!(start("b", Some("b")), pair("b", "b"));
        assert_eq!(start("b", Some("bb")), pair("bb", "bb"));
    }

    #[test]
    fn a_nul_character_never_reaches_the_database() {
        assert_eq!(start("a\0", None), None);
        assert_eq!(start("a", Some("a\0z")), pair("a", "a"));
        assert_eq!(start("", Some("\0")), pair("", ""));
    }

    #[test]
    fn a_page_ends_at_the_first_key_without_the_prefix() {
        let entry = |key: &str| EntryInfo {
            key: key.to_owned(),
            version: wire::entries::Version(1),
            size: 0,
            content_type: String::new(),
            updated_ms: 0,
        };
        let page = vec![entry("a%"), entry("a%1"), entry("aa"), entry("a%2")];
        let kept: Vec<_> = cut_at_prefix(page, "a%").into_iter().map(|entry| entry.key).collect();
        assert_eq!(kept, ["a%", "a%1"]);
    }
}
