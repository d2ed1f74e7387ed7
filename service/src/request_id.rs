//! `X-Request-ID`: the name of one request in logs and answers.

use http::{HeaderMap, HeaderValue};
use wire::headers::X_REQUEST_ID;

/// The longest id taken over from a client, in bytes.
pub const REQUEST_ID_MAX_BYTES: usize = 128;

/// The client's own id when it is one header of 1 to 128 bytes of visible ASCII, else a fresh random one (128 bits, hex).
pub fn of(headers: &HeaderMap) -> HeaderValue {
    let mut sent = headers.get_all(X_REQUEST_ID).iter();
    match (sent.next(), sent.next()) {
        (Some(id), None) if is_sane(id.as_bytes()) => id.clone(),
        _ => HeaderValue::from_bytes(&fresh_digits()).expect("hex digits are a header value"),
    }
}

/// Appends [`of`], for whoever has found the one header, or that there is none.
pub fn append_of_one(sent: Option<&[u8]>, line: &mut Vec<u8>) {
    match sent.filter(|id| is_sane(id)) {
        Some(id) => line.extend_from_slice(id),
        None => line.extend_from_slice(&fresh_digits()),
    }
}

fn is_sane(bytes: &[u8]) -> bool {
    (1..=REQUEST_ID_MAX_BYTES).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

fn fresh_digits() -> [u8; 32] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(rand::random::<[u8; 16]>()) {
        pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(values: &[&str]) -> HeaderMap {
        values.iter().map(|v| (X_REQUEST_ID, HeaderValue::from_bytes(v.as_bytes()).expect("value"))).collect()
    }

    #[test]
    fn a_sane_id_of_the_client_is_kept() {
        assert_eq!(of(&ids(&["abc-1"])), "abc-1");
        let longest = "x".repeat(128);
        assert_eq!(of(&ids(&[&longest])), longest.as_str());
    }

    #[test]
    fn a_missing_doubled_empty_long_or_odd_id_is_replaced() {
        let long = "x".repeat(129);
        for sent in [&[][..], &["a", "b"], &[""], &[&long], &["a b"], &["é"]] {
            let id = of(&ids(sent));
            assert_eq!(id.len(), 32, "{sent:?}");
            assert!(id.as_bytes().iter().all(u8::is_ascii_hexdigit));
        }
        assert_ne!(of(&ids(&[])), of(&ids(&[])));
    }
}
