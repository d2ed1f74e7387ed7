//! Keys in paths (`wire::entries::decode_key`) and the query of a listing (`cache-node/src/http/listing.rs`).

use arbitrary::{Result, Unstructured};
use cache_node::fuzzing::list_request;
use http::Uri;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use placement::EntryKey;
use wire::entries::{ENTRIES_LIST, ENTRIES_PREFIX, LIST_MAX_LIMIT, decode_key};

use crate::names;

/// Reads the bytes as what follows `/v1/entries/` and as a query, and sends keys and queries made from them.
pub fn keys(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let decoded = decode_key(&text).ok();
    assert_eq!(decoded.as_ref().map(EntryKey::as_str), expected(&text).as_deref(), "{text:?}");
    if let Some(key) = decoded {
        assert!(key.as_str().len() <= text.len());
        comes_back(&key);
    }
    // As it arrives: hyper's reading of the request line comes first.
    if let Ok(uri) = Uri::try_from([ENTRIES_PREFIX.as_bytes(), data].concat()) {
        let encoded = uri.path().strip_prefix(ENTRIES_PREFIX).expect("a path begins as it was sent");
        assert_eq!(decode_key(encoded).ok().as_ref().map(EntryKey::as_str), expected(encoded).as_deref());
        page_comes_back(uri.query().unwrap_or_default());
    }
    page_comes_back(&text);
    let _ = made(&mut Unstructured::new(data));
}

/// The rules of a key, written down a second time: whole escapes, UTF-8, 1 to 1024 bytes, no control characters.
fn expected(encoded: &str) -> Option<String> {
    let (mut key, mut bytes) = (Vec::new(), encoded.bytes());
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        key.push(if byte == b'%' { (digit()? * 16 + digit()?) as u8 } else { byte });
    }
    let key = String::from_utf8(key).ok()?;
    ((1..=1024).contains(&key.len()) && !key.chars().any(char::is_control)).then_some(key)
}

/// The key is the same after the way from a client to gateway and node.
fn comes_back(key: &EntryKey) {
    let path = format!("{ENTRIES_PREFIX}{}", utf8_percent_encode(key.as_str(), NON_ALPHANUMERIC));
    let uri = Uri::try_from(path.as_str()).expect("escapes and letters are a path");
    let encoded = uri.path().strip_prefix(ENTRIES_PREFIX).expect("the same path");
    assert_eq!(decode_key(encoded).as_ref(), Ok(key));
}

/// A page that is taken is within bounds, and the path of the next page, as a node writes it, means the same.
fn page_comes_back(query: &str) {
    let Ok(page) = list_request(query) else { return };
    assert!((1..=LIST_MAX_LIMIT).contains(&page.limit));
    assert!(!page.prefix.contains('\0') && page.after.as_ref().is_none_or(|after| !after.contains('\0')));
    sent(&page.prefix, page.after.as_deref(), page.limit);
}

fn sent(prefix: &str, after: Option<&str>, limit: u32) {
    let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let mut path = format!("{ENTRIES_LIST}?prefix={}&limit={limit}", encode(prefix));
    if let Some(after) = after {
        path += &format!("&after={}", encode(after));
    }
    // A longer one would be no request: hyper refuses it.
    let Ok(uri) = Uri::try_from(path.as_str()) else {
        assert!(path.len() > usize::from(u16::MAX) - 1, "{path:?}");
        return;
    };
    let page = list_request(uri.query().expect("a query was written")).expect("a query of ours");
    assert_eq!((page.prefix.as_str(), page.after.as_deref(), page.limit), (prefix, after, limit));
}

fn made(bytes: &mut Unstructured<'_>) -> Result<()> {
    comes_back(&names::key(bytes)?);
    let (prefix, after) = (names::key(bytes)?, names::key(bytes)?);
    sent(prefix.as_str(), Some(after.as_str()), bytes.int_in_range(1..=LIST_MAX_LIMIT)?);
    Ok(())
}
