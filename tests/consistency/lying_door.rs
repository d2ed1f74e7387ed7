//! That clients and checker find a lie: a tiny gateway that keeps true registers, and now and then answers what was before.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tests::clients::{Clients, ClientsOptions};
use tests::door::Door;
use tests::history::Outcome;
use tests::linearizable::{Wrong, check};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Every so many reads one is answered with the value before the last, and its version.
const LIE_EVERY: u64 = 50;

/// A value and its version; `None` is a delete.
type State = Option<(String, u64)>;

/// Each entry's states, in the order they were written.
#[derive(Default)]
struct Registers {
    entries: Mutex<HashMap<String, Vec<State>>>,
    last_version: AtomicU64,
    reads: AtomicU64,
    lies: AtomicU64,
}

/// Starts it; the door ends with the test.
async fn door(lies: bool) -> (Door, Arc<Registers>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let door = Door::new(&format!("http://{}", listener.local_addr().expect("an address")));
    let registers = Arc::new(Registers::default());
    let served = Arc::clone(&registers);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(Arc::clone(&served).serve(stream, lies));
        }
    });
    (door, registers)
}

impl Registers {
    /// Answers the requests of one connection; it closes when the client does.
    async fn serve(self: Arc<Self>, mut stream: TcpStream, lies: bool) {
        let mut unread = Vec::new();
        loop {
            while let Some((line, user, body, length)) = request(&unread) {
                let answer = self.answer(&line, &user, &body, lies);
                unread.drain(..length);
                // So that requests overlap.
                tokio::time::sleep(Duration::from_millis(1)).await;
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
            if stream.read_buf(&mut unread).await.unwrap_or(0) == 0 {
                return;
            }
        }
    }

    fn answer(&self, line: &str, user: &str, body: &str, lies: bool) -> String {
        let (method, path) = line.split_once(' ').expect("a request line");
        let mut entries = self.entries.lock().expect("not poisoned");
        let values = entries.entry(format!("{user} {path}")).or_default();
        let version = || self.last_version.fetch_add(1, Ordering::Relaxed) + 1;
        let absent = "{\"code\":\"entry_not_found\"}";
        match method {
            "PUT" => {
                let version = version();
                values.push(Some((body.to_owned(), version)));
                format!("HTTP/1.1 204 No Content\r\netag: \"{version}\"\r\n\r\n")
            }
            "DELETE" if matches!(values.last(), Some(Some(_))) => {
                values.push(None);
                "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
            }
            "GET" => match self.value_shown(values, lies) {
                Some((value, version)) => with_body("200 OK", &format!("etag: \"{version}\"\r\n"), &value),
                None => with_body("404 Not Found", "", absent),
            },
            _ => with_body("404 Not Found", "", absent),
        }
    }

    fn value_shown(&self, values: &[State], lies: bool) -> State {
        let turn = self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(LIE_EVERY);
        if lies && turn && values.len() > 1 {
            self.lies.fetch_add(1, Ordering::Relaxed);
            return values[values.len() - 2].clone();
        }
        values.last().cloned().flatten()
    }
}

fn with_body(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// Method and path, user, body and whole length of the first request, once it is there.
fn request(unread: &[u8]) -> Option<(String, String, String, usize)> {
    let head_end = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&unread[..head_end]).expect("a head is text");
    let header = |wanted: &str| {
        let headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").map_or(0, |length| length.parse().expect("a length"));
    let body = unread.get(head_end..head_end + length)?;
    let line = head.lines().next()?.strip_suffix(" HTTP/1.1").expect("a request line").to_owned();
    let body = String::from_utf8(body.to_vec()).expect("a value is text");
    Some((line, header("x-user-id").expect("a user"), body, head_end + length))
}

fn options(hang_ups_percent: u32) -> ClientsOptions {
    let think = Duration::from_millis(1);
    ClientsOptions { users: 2, mget_keys: 0, operations_per_key: 300, hang_ups_percent, think, ..Default::default() }
}

#[tokio::test]
async fn an_honest_door_passes() {
    let seed = rand::random();
    println!("seed {seed}");
    let (door, _) = door(false).await;
    let clients = Clients::start(vec![door.clone(), door], options(30), seed);
    clients.goes_on(2500).await;
    let recorded = clients.finish().await;
    let checked = check(&recorded.history).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    println!("{checked:?}");
    assert!(checked.operations > 2500 && checked.keys > 6, "{checked:?}");
    assert_eq!(recorded.protocol_errors, Vec::<String>::new());
    // Clients that hung up left writes in doubt; no others are.
    let unknown = recorded.history.count(|operation| operation.outcome == Outcome::Unknown) as u64;
    assert!(unknown > 0 && unknown <= recorded.hung_up, "{unknown} unknown, {} hung up", recorded.hung_up);
}

#[tokio::test]
async fn a_door_that_now_and_then_answers_the_value_before_is_found_out() {
    let seed = rand::random();
    println!("seed {seed}");
    let (door, registers) = door(true).await;
    let clients = Clients::start(vec![door], options(0), seed);
    clients.goes_on(2500).await;
    let recorded = clients.finish().await;
    assert!(registers.lies.load(Ordering::Relaxed) > 5);
    let violation = check(&recorded.history).expect_err("a lie");
    println!("{violation}");
    assert!(matches!(violation.wrong, Wrong::NoOrder | Wrong::VersionFell), "{violation}");
    assert!((2..12).contains(&violation.minimal.len()), "{violation}");

    let dir = tempfile::tempdir().expect("a directory");
    let saved = violation.save(dir.path(), seed).expect("saved");
    assert_eq!(saved, dir.path().join(seed.to_string()));
    let text = std::fs::read_to_string(saved.join("history.txt")).expect("the history");
    assert!(text.starts_with(&format!("seed {seed}\n")) && text.contains(&violation.to_string()), "{text}");
    assert!(text.lines().count() > violation.operations.len(), "all operations are there: {text}");
    let picture = std::fs::read_to_string(saved.join("timeline.svg")).expect("the picture");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    let count = |class: &str| picture.matches(&format!("<rect class=\"{class}")).count();
    assert_eq!(count("wrong"), violation.minimal.len(), "{picture}");
    assert!(picture.contains(&format!("<text class=\"title\" x=\"12\" y=\"22\">seed {seed}, key {}", violation.key)));
}
