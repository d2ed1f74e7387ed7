//! Request headers: who the user is (gateway and node), conditions, what is stored with an entry, request ids, the token.

use std::net::{IpAddr, Ipv4Addr};

use cache_node::fuzzing::{BadRequest, read_condition, stored_header, user_of, write_precondition};
use gateway::Keyless;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use origin::Precondition;
use service::settings::ClusterToken;
use wire::ProblemCode;
use wire::entries::Version;
use wire::headers::X_USER_ID;

/// The token that a node wants to see.
const TOKEN: &str = "s3cret";

/// Reads the bytes as the header lines of a request.
pub fn headers(data: &[u8]) {
    let headers = lines(data);
    user(&headers);
    client(&headers);
    stand_in(&headers);
    for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
        condition(&headers, &name);
    }
    let unreadable = |name| write_precondition(&only(&headers, &name)).is_err();
    let either = unreadable(header::IF_MATCH) || unreadable(header::IF_NONE_MATCH);
    assert_eq!(read_condition(&headers, Some(Version(7))).is_err(), either, "none that cannot be read is ignored");
    for name in [header::CONTENT_TYPE, header::CACHE_CONTROL] {
        stored(&headers, &name);
    }
    let id = service::request_id::of(&headers);
    assert!((1..=128).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic));
    let token: ClusterToken = TOKEN.parse().expect("a token");
    let mut sent = headers.get_all(header::AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let right =
        sent.next().is_some_and(|sent| sent.eq_ignore_ascii_case(b"bearer s3cret") && sent.ends_with(b"s3cret"));
    assert_eq!(token.authorises(&headers), right && sent.next().is_none());
}

/// Lines `name: value`, trimmed as an HTTP server trims them; what is no header is left out.
fn lines(data: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// What a gateway takes for a user a node takes for the same one, and what a gateway refuses no node takes.
fn user(headers: &HeaderMap) {
    let by_gateway = gateway::fuzzing::user_of(headers, &Keyless::Reject, None);
    let by_node = user_of(headers);
    match &by_gateway {
        Ok(user) => {
            let sent = HeaderValue::try_from(user.as_str()).expect("visible ASCII is a header value");
            assert_eq!(user_of(&HeaderMap::from_iter([(X_USER_ID, sent)])).as_ref(), Ok(user));
            assert_eq!(by_node.as_ref(), Ok(user));
        }
        Err(_) => assert_eq!(by_node, Err(BadRequest)),
    }
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let by_address = gateway::fuzzing::user_of(headers, &Keyless::ClientIp, Some(client));
    match by_gateway {
        Err(ProblemCode::UserIdMissing) => assert_eq!(by_address.expect("by address").as_str(), "ip:127.0.0.1"),
        Ok(user) if ["ip:", "cookie:", "header:"].iter().any(|prefix| user.as_str().starts_with(prefix)) => {
            assert_eq!(by_address, Err(ProblemCode::UserIdInvalid), "nobody can send what stands in for a user");
        }
        told => assert_eq!(by_address, told, "an address only stands in for a user that is not told"),
    }
}

/// Only a trusted peer's word counts, and what it appends counts over all that is before it.
fn client(headers: &HeaderMap) {
    let (proxy, anyone) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    assert_eq!(gateway::fuzzing::client_of(headers, anyone), Ok(anyone));
    if let Err(code) = gateway::fuzzing::client_of(headers, proxy) {
        assert_eq!(code, ProblemCode::RequestInvalid);
        assert!(headers.contains_key("x-forwarded-for") && headers.contains_key("forwarded"));
    }
    let mut appended = headers.clone();
    appended.append("x-forwarded-for", HeaderValue::from_static("203.0.113.9"));
    appended.append("forwarded", HeaderValue::from_static("for=203.0.113.9"));
    assert_eq!(gateway::fuzzing::client_of(&appended, proxy), Ok(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9))));
}

/// What stands in for a user that is not told is none that could be told.
fn stand_in(headers: &HeaderMap) {
    for (setting, prefix) in [("cookie:sid", "cookie:"), ("header:x-tenant", "header:")] {
        let keyless: Keyless = setting.parse().expect("a setting");
        let told = headers.get_all(X_USER_ID).iter().any(|id| !id.as_bytes().trim_ascii().is_empty());
        if let Ok(user) = gateway::fuzzing::user_of(headers, &keyless, None) {
            assert_eq!(user.as_str().starts_with(prefix), !told, "{setting}");
        }
    }
}

/// The header alone, in one line, as a request with nothing else in it.
fn alone(name: &HeaderName, value: &[u8]) -> HeaderMap {
    HeaderMap::from_iter([(name.clone(), HeaderValue::from_bytes(value).expect("made of header values"))])
}

/// The lines of this header, without the others.
fn only(headers: &HeaderMap, name: &HeaderName) -> HeaderMap {
    let mut lines = HeaderMap::new();
    for value in headers.get_all(name) {
        lines.append(name, value.clone());
    }
    lines
}

fn condition(headers: &HeaderMap, name: &HeaderName) {
    let sent: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    if sent.is_empty() {
        return;
    }
    let several = only(headers, name);
    let line = sent.join(&b", "[..]);
    let one = alone(name, &line);
    let wanted = write_precondition(&several);
    let version = Some(Version(7));
    assert_eq!(wanted.is_err(), read_condition(&several, version).is_err(), "reads and writes understand the same");
    let Ok(wanted) = wanted else { return };
    assert_eq!(write_precondition(&one).as_ref(), Ok(&wanted), "lines and a list are the same (RFC 9110, 5.3)");
    assert_eq!(read_condition(&several, version), read_condition(&one, version));
    assert_ne!(read_condition(&one, None), Ok(StatusCode::NOT_MODIFIED), "an entry that is not there was not sent");
    let (Precondition::IfMatch(versions) | Precondition::IfNoneMatch(versions)) = &wanted else { return };
    // Nothing that is not the list makes a difference: our own spelling of it means the same, others' tags nothing.
    let ours: Vec<String> = versions.iter().map(|version| version.etag()).collect();
    assert_eq!(write_precondition(&alone(name, ours.join(",").as_bytes())).as_ref(), Ok(&wanted));
    let foreign = [&line[..], b", \"a,b\\\" , W/\"\xff\""].concat();
    assert_eq!(write_precondition(&alone(name, &foreign)).as_ref(), Ok(&wanted));
    for version in versions {
        let expected = if *name == header::IF_MATCH { StatusCode::OK } else { StatusCode::NOT_MODIFIED };
        assert_eq!(read_condition(&one, Some(*version)), Ok(expected), "{version}");
    }
}

/// What is stored can be given back as it was sent.
fn stored(headers: &HeaderMap, name: &HeaderName) {
    let sent: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    match stored_header(headers, name) {
        Ok(None) => assert!(sent.is_empty()),
        Ok(Some(text)) => {
            assert!(text.len() <= 256);
            let back = HeaderValue::try_from(&text).expect("can stand in an answer");
            assert_eq!(back.as_bytes(), sent.join(&b", "[..]), "nothing of it is lost");
            assert!(*name == header::CACHE_CONTROL || sent.len() == 1, "a value has one type");
        }
        Err(BadRequest) => {
            let joined = sent.join(&b", "[..]);
            let plain = joined.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
            assert!(!plain || joined.len() > 256 || (*name == header::CONTENT_TYPE && sent.len() > 1));
        }
    }
}
