//! Frames of the line (`wire::line`), both ways.

use arbitrary::{Result, Unstructured};
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use wire::line::frame::{FROM_NODE_MAX, TO_NODE_MAX, first};
use wire::line::{
    ANSWER_HEADERS, FromNode, HEADERS_MAX, LineInvalid, READ_HEADERS, REQUEST_ID_MAX, RawHeaders, Read, ToNode,
    VALUE_MAX, name_hash, write_answer, write_read,
};

use crate::names;

/// Reads the bytes as what comes over a line, and carries questions and answers made from them.
pub fn line(data: &[u8]) {
    to_node(data);
    from_node(data);
    let _ = made(&mut Unstructured::new(data));
}

/// The frames at the beginning of some bytes, until one is not whole or too long.
fn frames(mut data: &[u8], longest: usize) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Ok(Some(length)) = first(data, longest) {
        assert!((4..=longest + 4).contains(&length) && length <= data.len());
        frames.push(&data[..length]);
        data.advance(length);
    }
    frames
}

/// Whatever is taken as a question is written again as it came.
fn to_node(data: &[u8]) {
    for frame in frames(data, TO_NODE_MAX).into_iter().chain([data]) {
        let Ok(ToNode::Read(read, headers)) = ToNode::read(frame) else { continue };
        assert!(read.user.len() <= 256 && read.key.len() <= 1024 && read.request_id.len() <= REQUEST_ID_MAX);
        let Ok(lines) = collected(headers) else { continue };
        let mut out = BytesMut::new();
        write_read(&mut out, &read, lines.iter()).expect("what fits into one frame fits into another");
        let Ok(ToNode::Read(again, headers)) = ToNode::read(&out) else { panic!("no question: {out:?}") };
        assert_eq!((again, collected(headers)), (read, Ok(lines)));
    }
}

fn collected(headers: RawHeaders<'_>) -> Result<HeaderMap, LineInvalid> {
    let mut lines = HeaderMap::new();
    for line in headers.iter() {
        let (name, value) = line?;
        lines.append(name, value);
    }
    Ok(lines)
}

/// Whatever is taken as an answer is no larger than it may be, and is written again as it came.
fn from_node(data: &[u8]) {
    for frame in frames(data, FROM_NODE_MAX).into_iter().chain([data]) {
        let Ok(FromNode::Answer { id, name, answer }) = FromNode::read(frame) else { continue };
        let Ok(response) = answer.read(false) else { continue };
        assert!(response.body().len() <= VALUE_MAX && response.body().len() <= frame.len());
        let mut out = BytesMut::new();
        write_answer(&mut out, id, name, &response, false).expect("what fits into one frame fits into another");
        let again = FromNode::read(&out).expect("what we write we read");
        let FromNode::Answer { answer: again, .. } = again else { panic!("no answer: {again:?}") };
        let again = again.read(false).expect("what we write we read");
        assert_eq!((again.status(), again.headers()), (response.status(), response.headers()));
        assert_eq!(again.body(), response.body());
    }
}

/// Header lines with known names.
fn headers(bytes: &mut Unstructured<'_>, known: &[HeaderName]) -> Result<HeaderMap> {
    let lines = names::several(bytes, |bytes| Ok((bytes.choose(known)?.clone(), names::text(bytes)?)))?;
    let mut headers = HeaderMap::new();
    for (name, text) in lines {
        headers.append(name, HeaderValue::from_str(&text).expect("visible ASCII and blanks"));
    }
    Ok(headers)
}

fn made(bytes: &mut Unstructured<'_>) -> Result<()> {
    let (user, key) = (names::user(bytes)?, names::key(bytes)?);
    let (id, request_id): (u64, &[u8]) = (bytes.arbitrary()?, bytes.arbitrary()?);
    let request_id = &request_id[..request_id.len().min(REQUEST_ID_MAX)];
    let (head_only, detached) = (bytes.arbitrary()?, bytes.arbitrary()?);
    let read = Read { id, head_only, detached, user: user.as_str(), key: key.as_str(), request_id };
    let sent = headers(bytes, &READ_HEADERS)?;
    let mut out = BytesMut::new();
    write_read(&mut out, &read, sent.iter()).expect("fits");
    assert_eq!(first(&out, TO_NODE_MAX), Ok(Some(out.len())));
    let Ok(ToNode::Read(got, lines)) = ToNode::read(&out) else { panic!("no question: {out:?}") };
    assert_eq!((got, collected(lines)), (read, Ok(sent)));

    let name = name_hash(user.as_str(), key.as_str());
    let status = StatusCode::from_u16(bytes.int_in_range(100..=999)?).expect("a status");
    let (lines, at) = (headers(bytes, &ANSWER_HEADERS)?, bytes.arbitrary::<u16>()?);
    let mut answer = Response::new(Bytes::copy_from_slice(bytes.bytes(bytes.len())?));
    *answer.status_mut() = status;
    *answer.headers_mut() = lines;
    out.clear();
    write_answer(&mut out, id, name, &answer, head_only).expect("fits");
    assert!(out.len() <= 64 + HEADERS_MAX + answer.body().len());
    let Ok(FromNode::Answer { id: to, name: about, answer: got }) = FromNode::read(&out) else { panic!("{out:?}") };
    assert_eq!((to, about), (id, name));
    let got = got.read(head_only).expect("what we write we read");
    assert_eq!(got.status(), status);
    assert_eq!(&got.body()[..], if head_only { &[] } else { &answer.body()[..] });

    // Cut: waited for; and a whole frame of what is left of it is no answer that has lost something.
    let at = usize::from(at) % out.len();
    assert_eq!(first(&out[..at], FROM_NODE_MAX), Ok(None));
    if let Ok(FromNode::Answer { answer: cut, .. }) = FromNode::read(&out[..at]) {
        assert!(cut.read(head_only).is_err());
    }
    Ok(())
}
