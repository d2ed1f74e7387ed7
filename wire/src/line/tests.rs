//! Whatever is sent comes out as it was, whatever else arrives is an error and no panic.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;

use super::frame::{FROM_NODE_MAX, TO_NODE_MAX, first};
use super::*;

/// Header lines with names out of a list.
fn headers(names: &'static [HeaderName]) -> impl Strategy<Value = HeaderMap> {
    vec((0..names.len(), vec(prop_oneof![Just(b'\t'), 0x20..0x7fu8, 0x80..0xffu8], 0..40)), 0..8).prop_map(|lines| {
        let line = |(name, value): (usize, Vec<u8>)| (name, HeaderValue::from_bytes(&value).expect("a header value"));
        let mut headers = HeaderMap::new();
        for (name, value) in lines.into_iter().map(line) {
            headers.append(names[name].clone(), value);
        }
        headers
    })
}

fn answer() -> impl Strategy<Value = Response<Bytes>> {
    (200u16..600, headers(&ANSWER_HEADERS), vec(any::<u8>(), 0..2000)).prop_map(|(status, headers, value)| {
        let mut answer = Response::new(Bytes::from(value));
        *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
        *answer.headers_mut() = headers;
        answer
    })
}

/// The frames of a buffer, one after the other.
fn frames(mut buffer: &[u8], longest: usize) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some(length) = first(buffer, longest).expect("frames") {
        frames.push(&buffer[..length]);
        buffer.advance(length);
    }
    assert!(buffer.is_empty());
    frames
}

fn question(id: u64, user: &str) -> Read<'_> {
    Read { id, head_only: false, detached: false, user, key: "k", request_id: b"r" }
}

/// The lines of a map that may follow each other in any order of their names.
fn sorted(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    let mut lines: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    lines.sort_by_key(|(name, _)| *name);
    lines
}

proptest! {
    #[test]
    fn a_question_comes_out_as_it_went_in(
        id in any::<u64>(), head_only in any::<bool>(), detached in any::<bool>(), user in "[!-~]{1,256}",
        key in r"[^\p{C}]{1,200}", request_id in "[!-~]{1,128}", sent in headers(&READ_HEADERS),
    ) {
        let asked = Read { id, head_only, detached, key: &key, request_id: request_id.as_bytes(), ..question(id, &user) };
        let mut out = BytesMut::new();
        ToNode::write_beat(&mut out);
        write_read(&mut out, &asked, sent.iter()).expect("fits");
        let frames = frames(&out, TO_NODE_MAX);
        prop_assert_eq!(ToNode::read(frames[0]), Ok(ToNode::Beat));
        let Ok(ToNode::Read(read, headers)) = ToNode::read(frames[1]) else { panic!("no question") };
        prop_assert_eq!(read, asked);
        let mut got = HeaderMap::new();
        for line in headers.iter() {
            let (name, value) = line.expect("a header value");
            got.append(name, value);
        }
        prop_assert_eq!(sorted(&got), sorted(&sent));
        for cut in 0..frames[1].len() {
            prop_assert_eq!(first(&frames[1][..cut], TO_NODE_MAX), Ok(None));
        }
    }

    #[test]
    fn an_answer_comes_out_as_it_went_in(id in any::<u64>(), name in any::<u64>(), sent in answer(), head_only in any::<bool>()) {
        let mut out = BytesMut::new();
        write_answer(&mut out, id, name, &sent, head_only).expect("fits");
        let frames = frames(&out, FROM_NODE_MAX);
        let Ok(FromNode::Answer { id: to, name: about, answer }) = FromNode::read(frames[0]) else { panic!("no answer") };
        prop_assert_eq!((to, about), (id, name));
        let read = answer.read(head_only).expect("an answer");
        prop_assert_eq!(read.status(), sent.status());
        let mut expected = sent.headers().clone();
        if head_only && !sent.body().is_empty() {
            expected.insert(header::CONTENT_LENGTH, HeaderValue::from(sent.body().len()));
        }
        prop_assert_eq!(sorted(read.headers()), sorted(&expected));
        let expected = if head_only { &[] } else { &sent.body()[..] };
        prop_assert_eq!(&read.body()[..], expected);
        // An answer to a HEAD is none to a GET, and the other way round.
        prop_assert_eq!(answer.read(!head_only).is_ok(), sent.body().is_empty());
    }

    #[test]
    fn an_entry_is_written_as_the_answer_that_it_is(
        texts in vec("[ -~]{0,40}", 3), value in vec(any::<u8>(), 0..2000), status in "[ -~]{0,40}", head_only in any::<bool>(),
    ) {
        let shared = HeaderMap::from_iter([(CACHE_STATUS, HeaderValue::from_str(&status).expect("a header value"))]);
        let mut answer = Response::new(Bytes::from(value.clone()));
        for (name, text) in ANSWER_HEADERS.iter().zip(&texts) {
            answer.headers_mut().insert(name, HeaderValue::from_str(text).expect("a header value"));
        }
        answer.headers_mut().extend(shared.clone());
        let others = SharedHeaders::of(&shared).expect("fits");
        let [content_type, cache_control, etag] = [0, 1, 2].map(|number: usize| texts[number].as_bytes());
        let entry = EntryAnswer { content_type, cache_control, etag, others: &others, value: &value };
        let (mut one, mut other) = (BytesMut::new(), BytesMut::new());
        write_entry(&mut one, 1, 2, &entry, head_only).expect("fits");
        write_answer(&mut other, 1, 2, &answer, head_only).expect("fits");
        prop_assert_eq!(one, other);
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in vec(any::<u8>(), 0..300), kind in 1u8..6) {
        for frame in [&bytes[..], &[&[0, 0, 0, 0, kind], &bytes[..]].concat()] {
            if let Ok(ToNode::Read(_, headers)) = ToNode::read(frame) {
                headers.iter().for_each(drop);
            }
            if let Ok(FromNode::Answer { answer, .. }) = FromNode::read(frame) {
                let _ = (answer.read(true), answer.read(false));
            }
        }
    }
}

#[test]
fn what_is_too_large_is_not_begun() {
    let mut out = BytesMut::from(&b"before"[..]);
    let long =
        HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(&"x".repeat(HEADERS_MAX)).expect("value"))]);
    assert_eq!(write_read(&mut out, &question(1, "u"), long.iter()), Err(TooLarge));
    let user = "u".repeat(257);
    assert_eq!(write_read(&mut out, &question(1, &user), HeaderMap::new().iter()), Err(TooLarge));
    let answer = Response::new(Bytes::from(vec![0; VALUE_MAX + 1]));
    assert_eq!(write_answer(&mut out, 1, 2, &answer, false), Err(TooLarge));
    let others = SharedHeaders::of(&HeaderMap::new()).expect("fits");
    let entry = EntryAnswer { content_type: b"", cache_control: b"", etag: b"", others: &others, value: answer.body() };
    assert_eq!(write_entry(&mut out, 1, 2, &entry, false), Err(TooLarge));
    let half = [b'x'; HEADERS_MAX / 2];
    let entry = EntryAnswer { content_type: &half, cache_control: &half, value: b"", ..entry };
    assert_eq!(write_entry(&mut out, 1, 2, &entry, false), Err(TooLarge));
    assert_eq!(&out[..], b"before");
    assert_eq!(write_answer(&mut out, 1, 2, &answer, true), Ok(()), "a head takes no room");
}

#[test]
fn the_longest_of_everything_fits_into_a_frame() {
    let (user, key) = ("u".repeat(256), "k".repeat(1024));
    let longest = HEADERS_MAX - 3;
    let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(&"x".repeat(longest)).expect("value"))]);
    let read = Read { key: &key, request_id: &[b'r'; REQUEST_ID_MAX], ..question(1, &user) };
    let mut out = BytesMut::new();
    write_read(&mut out, &read, headers.iter()).expect("fits");
    assert_eq!(first(&out, TO_NODE_MAX), Ok(Some(out.len())));
    let mut answer = Response::new(Bytes::from(vec![0; VALUE_MAX]));
    answer.headers_mut().insert(header::ETAG, headers[header::ACCEPT].clone());
    out.clear();
    write_answer(&mut out, 1, 2, &answer, false).expect("fits");
    assert_eq!(first(&out, FROM_NODE_MAX), Ok(Some(out.len())));
}

#[test]
fn a_header_without_a_number_stays_behind() {
    let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static("a=b"))]);
    let mut out = BytesMut::new();
    write_read(&mut out, &question(1, "u"), headers.iter()).expect("fits");
    let Ok(ToNode::Read(_, headers)) = ToNode::read(&out) else { panic!("no question") };
    assert_eq!(headers.iter().count(), 0);
}

#[test]
fn names_that_run_together_are_told_apart() {
    assert_ne!(name_hash("a", "bc"), name_hash("ab", "c"));
    assert_ne!(name_hash("u", "k"), name_hash("k", "u"));
}
