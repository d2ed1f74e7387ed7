//! The load generator against servers that are wrong: what it counts, and what it does not.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use bench::keyspace::KeySpace;
use bench::load::{Options, Report, run};
use clap::Parser;

const SPACE: KeySpace = KeySpace { users: 3, value_bytes: 64 };

/// Serves one connection after the other; `answer` gives the bytes of the `n`-th answer to a GET of a key.
fn serve(answer: impl Fn(u64, u64) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut number = 0;
        for stream in listener.incoming() {
            serve_one(&stream.expect("a connection"), &mut number, &answer);
        }
    });
    address
}

fn serve_one(mut stream: &TcpStream, number: &mut u64, answer: &dyn Fn(u64, u64) -> Vec<u8>) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let path = line.split(' ').nth(1).expect("a path");
        let key = path.trim_start_matches("/v1/entries/item/").parse().expect("a key");
        // The rest of the head; a GET has no body.
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let bytes = answer(*number, key);
        *number += 1;
        if bytes.is_empty() || stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

fn ok(body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn load(target: SocketAddr) -> Report {
    let line =
        format!("bench-load --target {target} --connections 1 --requests 30 --keys 10 --users 3 --value-bytes 64");
    run(&Options::try_parse_from(line.split(' ')).expect("options")).expect("a report")
}

#[test]
fn right_answers_are_counted_and_timed() {
    let report = load(serve(|_, key| ok(&SPACE.value(key))));
    assert_eq!((report.answers, report.errors.len()), (30, 0));
    assert!(report.p50_us > 0.0 && report.p50_us <= report.p99_us, "{report:?}");
}

#[test]
fn the_body_of_another_key_is_an_error_and_no_answer() {
    let report = load(serve(|number, key| ok(&SPACE.value(if number % 3 == 0 { key + 1 } else { key }))));
    assert_eq!((report.answers, report.errors.values().sum::<u64>()), (20, 10), "{:?}", report.errors);
}

#[test]
fn a_status_that_is_not_200_is_an_error_whatever_the_body() {
    let refused = |key| {
        let text = String::from_utf8(ok(&SPACE.value(key))).expect("text");
        text.replacen("200 OK", "503 No", 1).into_bytes()
    };
    let report = load(serve(move |number, key| if number == 7 { refused(key) } else { ok(&SPACE.value(key)) }));
    assert_eq!((report.answers, report.errors.get("503 or its body")), (29, Some(&1)), "{:?}", report.errors);
}

#[test]
fn a_connection_that_breaks_is_an_error_and_the_run_goes_on() {
    let report = load(serve(|number, key| if number == 5 { Vec::new() } else { ok(&SPACE.value(key)) }));
    assert_eq!((report.answers, report.errors.values().sum::<u64>()), (29, 1), "{:?}", report.errors);
}
