//! Each fault as the two ends see it.

use std::io::ErrorKind;

use super::*;

const BOUND: Duration = Duration::from_secs(5);
/// Long enough to be sure that nothing comes.
const SILENCE: Duration = Duration::from_millis(50);

/// A server that sends back what it gets, behind a proxy.
async fn echo() -> FaultProxy {
    echo_for("").await
}

async fn echo_for(only: &'static str) -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let upstream = listener.local_addr().expect("address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.into_split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    FaultProxy::start_for(&upstream, only).await
}

async fn connect(proxy: &FaultProxy) -> std::io::Result<TcpStream> {
    timeout(BOUND, TcpStream::connect(proxy.address())).await.expect("in time")
}

/// What comes back of `x`: a byte, the end, or an error.
async fn exchange(stream: &mut TcpStream) -> Result<usize, ErrorKind> {
    stream.write_all(b"x").await.map_err(|error| error.kind())?;
    timeout(BOUND, stream.read(&mut [0; 8])).await.expect("in time").map_err(|error| error.kind())
}

#[tokio::test]
async fn passing_and_delaying_lose_nothing() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Delay(SILENCE)).await;
    let start = std::time::Instant::now();
    assert_eq!(exchange(&mut stream).await, Ok(1));
    assert!(start.elapsed() >= SILENCE, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_black_hole_is_silent_and_passes_on_afterwards() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Blackhole).await;
    stream.write_all(b"y").await.expect("write");
    assert!(timeout(SILENCE, stream.read(&mut [0; 8])).await.is_err());
    assert!(connect(&proxy).await.is_ok(), "new connections are taken too");
    proxy.set(Fault::Pass).await;
    assert_eq!(timeout(BOUND, stream.read(&mut [0; 8])).await.expect("in time").expect("read"), 1);
}

#[tokio::test]
async fn a_reset_ends_present_and_new_connections_with_an_error() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Reset).await;
    let present = timeout(BOUND, stream.read(&mut [0; 8])).await.expect("in time");
    assert_eq!(present.expect_err("reset").kind(), ErrorKind::ConnectionReset);
    let new = async { exchange(&mut connect(&proxy).await.map_err(|error| error.kind())?).await };
    assert!(new.await.is_err());
}

#[tokio::test]
async fn a_refusing_proxy_lets_present_connections_pass_and_listens_again_at_the_same_address() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Refuse).await;
    assert_eq!(connect(&proxy).await.expect_err("refused").kind(), ErrorKind::ConnectionRefused);
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Pass).await;
    assert_eq!(exchange(&mut connect(&proxy).await.expect("connection")).await, Ok(1));
}

#[tokio::test]
async fn a_half_close_is_an_orderly_end() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::HalfClose).await;
    assert_eq!(timeout(BOUND, stream.read(&mut [0; 8])).await.expect("in time").expect("an end, no error"), 0);
    stream.write_all(b"the other way stays open").await.expect("write");
}

#[tokio::test]
async fn a_throttled_proxy_loses_nothing_and_takes_its_time() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    proxy.set(Fault::Throttle(100_000)).await;
    let start = std::time::Instant::now();
    stream.write_all(&[7; 10_000]).await.expect("write");
    let mut back = vec![0; 10_000];
    timeout(BOUND, stream.read_exact(&mut back)).await.expect("in time").expect("all of it");
    assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
}

#[tokio::test]
async fn faults_for_some_connections_leave_the_others_alone() {
    let proxy = echo_for("GET /some").await;
    let mut other = connect(&proxy).await.expect("connection");
    let mut some = connect(&proxy).await.expect("connection");
    some.write_all(b"GET /so").await.expect("write");
    some.write_all(b"me").await.expect("write");
    let mut back = [0; 9];
    timeout(BOUND, some.read_exact(&mut back)).await.expect("in time").expect("an echo");
    assert_eq!(exchange(&mut other).await, Ok(1));
    proxy.set(Fault::Reset).await;
    let read = timeout(BOUND, some.read(&mut back)).await.expect("in time");
    assert_eq!(read.expect_err("reset").kind(), ErrorKind::ConnectionReset);
    assert_eq!(exchange(&mut other).await, Ok(1));
}

#[tokio::test]
async fn an_answering_proxy_stands_in_for_its_upstream() {
    let proxy = echo().await;
    let mut present = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut present).await, Ok(1));
    proxy.set(Fault::Answer("no")).await;
    let mut new = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut new).await, Ok(2));
    assert_eq!(exchange(&mut present).await, Ok(1));
}
