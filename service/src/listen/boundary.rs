//! Where messages end in what hyper reads, as far as that can be told cheaply: hyper keeps the beginning of a head that comes in
//! one piece with the message before it, and only here is seen that the client owes the rest. Pure.

use super::lane::{Next, next};

/// What the connection is doing when more input comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing: a message begins.
    Nothing,
    /// The head of a message, which began earlier.
    Head,
    /// A message whose head is complete.
    Message,
}

/// The place in the message that is being read.
#[derive(Debug, Default)]
pub(super) struct Boundary {
    /// How many bytes of it are still to come; `None`: nobody knows.
    left: Option<u64>,
}

impl Boundary {
    /// Takes note of input that goes to hyper; whether it ends with half a head behind something else, or is one itself.
    pub(super) fn ends_in_a_head(&mut self, input: &[u8], reading: Reading) -> bool {
        let mut at = match (reading, self.left) {
            (Reading::Nothing, _) => 0,
            (Reading::Message, Some(left)) => left,
            _ => {
                self.left = None;
                return false;
            }
        };
        // What nearly every message is, without a second look at it.
        if at == 0 && input.starts_with(b"GET ") && input.ends_with(b"\r\n\r\n") {
            self.left = Some(0);
            return false;
        }
        while let Some(rest) = usize::try_from(at).ok().and_then(|at| input.get(at..)).filter(|rest| !rest.is_empty()) {
            match next(rest, |_| false) {
                Next::Message(length) => at += length,
                other => {
                    self.left = None;
                    return other == Next::Part;
                }
            }
        }
        self.left = Some(at - input.len() as u64);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    const PUT: &str = "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello";

    fn ends_in_a_head(pieces: &[(&str, Reading)]) -> bool {
        let mut boundary = Boundary::default();
        let seen: Vec<_> =
            pieces.iter().map(|(text, reading)| boundary.ends_in_a_head(text.as_bytes(), *reading)).collect();
        *seen.last().expect("a piece")
    }

    #[test]
    fn half_a_head_is_seen_wherever_it_begins() {
        let half = "GET / HTTP/1.1\r\nhost: ";
        assert!(ends_in_a_head(&[(half, Reading::Nothing)]));
        for message in [GET, PUT] {
            assert!(ends_in_a_head(&[(&format!("{message}{half}"), Reading::Nothing)]), "{message}");
            assert!(ends_in_a_head(&[(message, Reading::Nothing), (half, Reading::Message)]), "{message}");
        }
        let (head, body) = PUT.split_at(PUT.len() - 3);
        assert!(ends_in_a_head(&[(head, Reading::Nothing), (&format!("{body}{GET}{half}"), Reading::Message)]));
    }

    #[test]
    fn whole_messages_and_bodies_are_no_heads() {
        for message in [GET, PUT] {
            assert!(!ends_in_a_head(&[(message, Reading::Nothing)]));
            assert!(!ends_in_a_head(&[(&format!("{message}{message}"), Reading::Nothing)]));
            for end in 1..message.len() {
                let (first, second) = message.split_at(end);
                let reading = if first.contains("\r\n\r\n") { Reading::Message } else { Reading::Head };
                assert!(!ends_in_a_head(&[(first, Reading::Nothing), (second, reading)]), "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn behind_a_body_of_unknown_length_nothing_is_claimed() {
        let chunked = "PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel";
        assert!(!ends_in_a_head(&[(chunked, Reading::Nothing), ("lo\r\n0\r\n\r\nGET", Reading::Message)]));
    }
}
