//! What every listener refuses before its handler sees it, whatever the route.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, Version};
use http_body_util::{Either, Full};
use hyper::body::{Body, Incoming};
use wire::{Problem, ProblemCode};

use crate::body::refuse;

/// The body of an answer: the handler's, or our own.
pub(super) type AnswerBody<B> = Either<B, Full<Bytes>>;

/// What some route has; neither `TRACE`, which gives back what a client's headers hold, nor `CONNECT`.
const ALLOW: &str = "GET, HEAD, PUT, POST, DELETE, OPTIONS";

/// What is wrong with a request on any route.
pub(super) fn fault_of<B>(request: &Request<B>) -> Option<Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let fault = match (request.version(), host) {
        _ if second.is_some() => "Host was sent more than once",
        (Version::HTTP_11, None) => "HTTP/1.1 asks for a Host header",
        (Version::HTTP_2, host) => match (request.uri().authority(), host) {
            (None, None) => "HTTP/2 asks for :authority",
            (Some(authority), Some(host)) if authority.as_str() != host => ":authority and Host differ",
            _ => "",
        },
        _ => "",
    };
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let odd_coding = codings.next().is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some();
    let fault = if odd_coding { "Transfer-Encoding is chunked and nothing else" } else { fault };
    if !fault.is_empty() {
        return Some(Problem::new(ProblemCode::RequestInvalid, fault));
    }
    let refused = matches!(*request.method(), Method::TRACE | Method::CONNECT);
    refused.then(|| Problem::new(ProblemCode::MethodNotAllowed, "no route has TRACE or CONNECT"))
}

/// The answer to such a request, whose body stays unread: the connection ends with it.
pub(super) fn refused(request: Request<Incoming>, problem: Problem) -> Box<Response<Full<Bytes>>> {
    let not_allowed = problem.code == ProblemCode::MethodNotAllowed;
    let mut response: Response<Full<Bytes>> = problem.into_response();
    if not_allowed {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(ALLOW));
    }
    if request.version() != Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let (head, body) = request.into_parts();
    if !body.is_end_stream() {
        refuse(&head.headers, body);
    }
    Box::new(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(version: Version, uri: &str, hosts: &[&str], method: Method) -> Option<ProblemCode> {
        let mut request = Request::builder().version(version).method(method).uri(uri);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        fault_of(&request.body(()).expect("a request")).map(|problem| problem.code)
    }

    #[test]
    fn a_request_names_its_host_once() {
        let invalid = Some(ProblemCode::RequestInvalid);
        let get = |version, uri, hosts: &[&str]| fault(version, uri, hosts, Method::GET);
        assert_eq!(get(Version::HTTP_11, "/", &["a"]), None);
        assert_eq!(get(Version::HTTP_11, "/", &[]), invalid);
        assert_eq!(get(Version::HTTP_11, "http://a/", &[]), invalid);
        assert_eq!(get(Version::HTTP_11, "/", &["a", "a"]), invalid);
        assert_eq!(get(Version::HTTP_10, "/", &[]), None);
        assert_eq!(get(Version::HTTP_2, "http://a/", &[]), None);
        assert_eq!(get(Version::HTTP_2, "http://a/", &["a"]), None);
        assert_eq!(get(Version::HTTP_2, "http://a/", &["b"]), invalid);
        assert_eq!(get(Version::HTTP_2, "/", &["a"]), None);
        assert_eq!(get(Version::HTTP_2, "/", &[]), invalid);
    }

    #[test]
    fn a_body_comes_in_chunks_and_in_no_other_coding() {
        let coded = |codings: &[&str]| {
            let mut request = Request::builder().method(Method::PUT).uri("/").header(header::HOST, "a");
            for coding in codings {
                request = request.header(header::TRANSFER_ENCODING, *coding);
            }
            fault_of(&request.body(()).expect("a request")).map(|problem| problem.code)
        };
        assert_eq!((coded(&[]), coded(&["chunked"]), coded(&["Chunked"])), (None, None, None));
        for odd in [&["gzip, chunked"][..], &["identity, chunked"], &["chunked", "chunked"], &["foo", "chunked"]] {
            assert_eq!(coded(odd), Some(ProblemCode::RequestInvalid), "{odd:?}");
        }
    }

    #[test]
    fn no_route_has_trace_or_connect() {
        for method in [Method::TRACE, Method::CONNECT] {
            assert_eq!(fault(Version::HTTP_11, "/", &["a"], method), Some(ProblemCode::MethodNotAllowed));
        }
    }
}
