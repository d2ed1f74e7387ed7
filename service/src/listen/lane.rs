//! The fast lane of a connection: requests that the handler can answer from their heads at once never reach hyper.
//!
//! It stands between socket and hyper and hands hyper one message at a time, so that it always knows where the next begins.
//! Whatever it does not know the length of for certain switches it off for the rest of the connection.
//! Pure of I/O: `paced` reads and writes.

use std::mem::MaybeUninit;

use httparse::{Header, Request, Status};

/// A `GET` without a body and without a word on the connection.
pub struct PlainGet<'a> {
    /// As it was sent, with a query if there was one.
    pub target: &'a str,
    /// In order.
    pub headers: &'a [Header<'a>],
}

/// As many as hyper takes.
const HEADERS_MAX: usize = 100;

/// What stands at the beginning of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not yet a whole head.
    Part,
    /// A message of so many bytes that has been answered.
    Answered(usize),
    /// A message of so many bytes for hyper.
    Message(u64),
    /// Something of unknown length: hyper's from here on.
    Unknown,
}

/// Looks at the beginning of the input, and lets `answer` try what is plain.
pub(crate) fn next(input: &[u8], answer: impl FnOnce(&PlainGet<'_>) -> bool) -> Next {
    if input.is_empty() {
        return Next::Part;
    }
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = Request::new(&mut []);
    let head = match request.parse_with_uninit_headers(input, &mut headers) {
        Ok(Status::Complete(head)) => head,
        Ok(Status::Partial) => return Next::Part,
        Err(_) => return Next::Unknown,
    };
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version) else {
        return Next::Unknown;
    };
    let (mut body, mut plain, mut hosts) = (None, method == "GET", 0);
    for header in request.headers.iter() {
        match header.name.len() {
            // Transfer-Encoding; Expect; Upgrade.
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => return Next::Unknown,
            6 if header.name.eq_ignore_ascii_case("expect") => return Next::Unknown,
            7 if header.name.eq_ignore_ascii_case("upgrade") => return Next::Unknown,
            4 if header.name.eq_ignore_ascii_case("host") => hosts += 1,
            10 if header.name.eq_ignore_ascii_case("connection") => plain = false,
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let (Some(length), None) = (length(header.value), body) else { return Next::Unknown };
                (body, plain) = (Some(length), false);
            }
            _ => {}
        }
    }
    if method == "CONNECT" {
        return Next::Unknown;
    }
    // Another number of hosts is refused the long way.
    if plain && hosts == 1 && answer(&PlainGet { target, headers: request.headers }) {
        return Next::Answered(head);
    }
    Next::Message(head as u64 + body.unwrap_or(0))
}

/// Digits alone: whatever else some reader might take for a number is unknown.
fn length(value: &[u8]) -> Option<u64> {
    let digits = (1..=15).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_of(input: &str, answered: bool) -> Next {
        next(input.as_bytes(), |_| answered)
    }

    #[test]
    fn a_plain_get_is_answered_or_handed_on_with_its_length() {
        let get = "GET /a?b HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\n\r\n";
        let two = format!("{get}{get}");
        assert_eq!(next_of(&two, true), Next::Answered(get.len()));
        assert_eq!(next_of(&two, false), Next::Message(get.len() as u64));
        next(get.as_bytes(), |plain| {
            assert_eq!((plain.target, plain.headers.len()), ("/a?b", 2));
            true
        });
    }

    #[test]
    fn every_beginning_of_a_head_is_a_part() {
        let get = "GET /a HTTP/1.1\r\nhost: x\r\n\r\n";
        for end in 0..get.len() {
            assert_eq!(next_of(&get[..end], true), Next::Part, "{end}");
        }
    }

    #[test]
    fn what_is_not_plain_is_never_answered_but_its_length_is_known() {
        for (head, body) in [
            ("PUT /a HTTP/1.1\r\nContent-Length: 12\r\n\r\n", 12),
            ("GET /a HTTP/1.1\r\ncontent-length: 0\r\n\r\n", 0),
            ("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", 0),
            ("HEAD /a HTTP/1.1\r\nhost: x\r\n\r\n", 0),
            ("GET /a HTTP/1.1\r\nx-user-id: u\r\n\r\n", 0),
            ("GET /a HTTP/1.1\r\nhost: x\r\nHost: x\r\n\r\n", 0),
        ] {
            assert_eq!(next_of(head, true), Next::Message(head.len() as u64 + body), "{head}");
        }
    }

    #[test]
    fn what_has_no_certain_length_is_left_alone() {
        for head in [
            "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
            "PUT /a HTTP/1.1\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n",
            "GET /a HTTP/1.1\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
            "PUT /a HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n",
            "PUT /a HTTP/1.1\r\ncontent-length: +1\r\n\r\n",
            "PUT /a HTTP/1.1\r\ncontent-length: 1, 1\r\n\r\n",
            "PUT /a HTTP/1.1\r\ncontent-length: 9999999999999999\r\n\r\n",
            "PUT /a HTTP/1.1\r\ncontent-length:\r\n\r\n",
            "GET /a HTTP/1.0\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            assert_eq!(next_of(head, true), Next::Unknown, "{head}");
        }
    }

    /// Requests with bytes changed, taken out and put in by chance.
    fn mangled(random: &mut impl rand::RngExt, input: &mut Vec<u8>) {
        const BYTES: &[u8] = b"\r\n\0 :,;0179aZ/?#%-\xff";
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..input.len());
            match random.random_range(0..3) {
                0 => input[at] = BYTES[random.random_range(0..BYTES.len())],
                1 => drop(input.remove(at)),
                _ => input.insert(at, BYTES[random.random_range(0..BYTES.len())]),
            }
        }
    }

    #[test]
    fn whatever_comes_an_answered_message_is_a_whole_head_and_more_input_changes_nothing_of_what_was_known() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random: rand::rngs::StdRng = rand::SeedableRng::seed_from_u64(seed);
        let whole = b"GET /v1/entries/a HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\ncontent-length: 3\r\n\r\nabc";
        let plain = b"GET /v1/entries/a HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\n\r\nGET /";
        for round in 0..20_000 {
            let mut input = if round % 2 == 0 { whole.to_vec() } else { plain.to_vec() };
            mangled(&mut random, &mut input);
            let known = next(&input, |_| true);
            if let Next::Answered(length) = known {
                assert!(input[..length].ends_with(b"\n"), "{}", input.escape_ascii());
            }
            for end in 0..input.len() {
                let before = next(&input[..end], |_| true);
                assert!(before == Next::Part || before == known, "{before:?} then {known:?}: {}", input.escape_ascii());
            }
        }
    }
}
