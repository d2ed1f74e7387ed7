//! Requests as bytes, and what their answers must be.

use std::io::Write;

use super::options::{Method, Options};
use crate::keyspace::KeySpace;

/// What one request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) key: u64,
}

/// How many keys one multi-get asks for: the most that a node takes.
const MGET_KEYS: usize = 256;

/// Puts requests together and judges answers.
pub(super) struct Requests {
    space: KeySpace,
    first_key: u64,
    keys: u64,
    same_body: bool,
    host: String,
}

impl Requests {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            space: options.space(),
            first_key: options.first_key,
            keys: options.keys,
            same_body: options.same_body,
            host: options.target.to_string(),
        }
    }

    /// Writes the request. To a Vec, which cannot fail.
    pub(super) fn write(&self, asked: Asked, out: &mut Vec<u8>) {
        out.clear();
        let Self { space, host, .. } = self;
        let KeySpace { users, value_bytes } = *space;
        let key = asked.key;
        let user = key % users;
        let _ = match asked.method {
            Method::Get => {
                write!(
                    out,
                    "GET /v1/entries/item/{key} HTTP/1.1\r\nHost: {host}\r\nX-User-ID: b{value_bytes}-{user}\r\n\r\n"
                )
            }
            Method::Put => {
                let head = write!(
                    out,
                    "PUT /v1/entries/item/{key} HTTP/1.1\r\nHost: {host}\r\nX-User-ID: b{value_bytes}-{user}\r\nContent-Length: {value_bytes}\r\n\r\n"
                );
                out.extend_from_slice(&space.value(key));
                head
            }
            Method::Mget => {
                let names: Vec<String> = self.mget_keys(key).map(|key| format!("\"item/{key}\"")).collect();
                let body = format!("{{\"keys\":[{}]}}", names.join(","));
                let length = body.len();
                write!(
                    out,
                    "POST /v1/entries:mget HTTP/1.1\r\nHost: {host}\r\nX-User-ID: b{value_bytes}-{user}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
                )
            }
        };
    }

    /// Whether an answer is right.
    pub(super) fn is_right(&self, asked: Asked, status: u16, body: &[u8]) -> bool {
        match asked.method {
            Method::Get => {
                let key = if self.same_body { 0 } else { asked.key };
                status == 200 && self.space.is_value(key, body)
            }
            Method::Put => matches!(status, 200 | 201 | 204),
            Method::Mget => {
                let found = body.windows(9).filter(|part| part == b"\"value\":\"").count();
                status == 200 && found == self.mget_keys(asked.key).count()
            }
        }
    }

    /// The `number`-th batch of keys: batches go round the users, so that each batch is of one user.
    fn mget_keys(&self, number: u64) -> impl Iterator<Item = u64> {
        let users = self.space.users;
        let (user, round) = (number % users, number / users);
        let start = self.first_key + user + round * users * MGET_KEYS as u64;
        let end = self.first_key + self.keys;
        (0..MGET_KEYS as u64).map(move |index| start + index * users).take_while(move |key| *key < end)
    }
}

/// How many multi-gets it takes to ask for each of so many keys once.
pub(crate) fn mgets(keys: u64, users: u64) -> u64 {
    users * keys.div_ceil(users).div_ceil(MGET_KEYS as u64)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn requests(keys: u64, users: u64) -> Requests {
        let line = format!("bench-load --target 127.0.0.1:1 --keys {keys} --users {users} --value-bytes 40");
        Requests::new(&Options::try_parse_from(line.split(' ')).expect("options"))
    }

    #[test]
    fn multi_gets_ask_for_each_key_once() {
        for (keys, users) in [(1000, 3), (1000, 1), (5, 5), (7, 5)] {
            let requests = requests(keys, users);
            let mut asked: Vec<u64> = (0..mgets(keys, users)).flat_map(|number| requests.mget_keys(number)).collect();
            asked.sort_unstable();
            assert!(asked.iter().copied().eq(0..keys), "{keys} {users}");
        }
    }

    #[test]
    fn a_wrong_status_or_body_is_not_right() {
        let requests = requests(10, 2);
        let value = requests.space.value(4);
        let get = Asked { method: Method::Get, key: 4 };
        assert!(requests.is_right(get, 200, &value));
        assert!(!requests.is_right(get, 404, &value));
        assert!(!requests.is_right(Asked { key: 5, ..get }, 200, &value));
    }
}
