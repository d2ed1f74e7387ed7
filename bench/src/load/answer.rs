//! The smallest parser that tells where an answer ends: status and `Content-Length`.

use std::ops::Range;

/// Header lines of an answer; more is an error.
const HEADERS_MAX: usize = 32;

/// An answer that has come whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Where its body is in the bytes read.
    pub(super) body: Range<usize>,
}

/// Why bytes are no answer to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotUnderstood;

/// The answer at the start of `bytes`; none if more must be read.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Answer>, NotUnderstood> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(start) = head.parse(bytes).map_err(|_| NotUnderstood)? else { return Ok(None) };
    let status = head.code.ok_or(NotUnderstood)?;
    let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = match length {
        Some(header) => {
            std::str::from_utf8(header.value).ok().and_then(|text| text.parse().ok()).ok_or(NotUnderstood)?
        }
        // These have no body (RFC 9112, section 6.3); anything else would have to be chunked, which no peer here does.
        None if matches!(status, 204 | 304) => 0,
        None => return Err(NotUnderstood),
    };
    let end = start.checked_add(length).ok_or(NotUnderstood)?;
    Ok((bytes.len() >= end).then_some(Answer { status, body: start..end }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        assert_eq!(parse(bytes), Ok(Some(Answer { status: 200, body: 38..43 })));
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut}");
        }
    }

    #[test]
    fn no_content_needs_no_length_and_a_body_without_one_is_refused() {
        assert_eq!(parse(b"HTTP/1.1 204 No Content\r\n\r\n"), Ok(Some(Answer { status: 204, body: 27..27 })));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"), Err(NotUnderstood));
        assert_eq!(parse(b"nonsense\r\n\r\n"), Err(NotUnderstood));
    }
}
