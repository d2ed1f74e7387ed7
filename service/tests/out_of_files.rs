//! A process that may open no further file: the listener waits until it may again. A program of its own, for the limit is
//! the whole process's.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use service::listen::{ServeOptions, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(20);

fn limit_open_files(limit: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum }).expect("a lower limit is always allowed");
}

#[tokio::test]
async fn connections_that_find_no_free_file_are_served_once_there_is_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let handler = |_: Request<Incoming>, _: SocketAddr| async { Response::new(Body::from("ok")) };
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, handler, ServeOptions::default(), stop.clone()));

    let before = getrlimit(Resource::Nofile).current;
    let next_free = File::open("/dev/null").expect("open").as_raw_fd() as u64;
    // One more file is allowed, and the client's socket is that one.
    limit_open_files(Some(next_free + 1));
    let mut client = TcpStream::connect(address).await.expect("the last free file");
    assert!(File::open("/dev/null").is_err(), "the limit is reached");
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.expect("send");
    let early = timeout(Duration::from_millis(100), client.readable()).await;
    assert!(early.is_err(), "it cannot be accepted");
    assert!(!serving.is_finished(), "the listener goes on");

    limit_open_files(before);
    let mut answer = String::new();
    timeout(SOON, client.read_to_string(&mut answer)).await.expect("in time").expect("answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    stop.cancel();
    timeout(SOON, serving).await.expect("stopped in time").expect("no panic");
}
