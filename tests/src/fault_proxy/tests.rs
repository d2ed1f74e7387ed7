//! Each fault as the two ends see it.

use std::io::ErrorKind;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

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
async fn a_held_answer_waits_for_another_fault_and_other_connections_do_not() {
    let proxy = echo().await;
    let [mut held, mut other] =
        [connect(&proxy).await.expect("connection"), connect(&proxy).await.expect("connection")];
    proxy.set(Fault::Hold("old")).await;
    held.write_all(b"the old value").await.expect("written");
    proxy.holds().await;
    assert_eq!(exchange(&mut other).await, Ok(1));
    assert!(timeout(SILENCE, held.read(&mut [0; 32])).await.is_err(), "held");
    proxy.set(Fault::Pass).await;
    assert_eq!(timeout(BOUND, held.read(&mut [0; 32])).await.expect("in time").ok(), Some("the old value".len()));
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

#[tokio::test]
async fn a_cut_closes_present_connections_refuses_new_ones_and_can_be_mended() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Cut).await;
    assert_eq!(timeout(BOUND, stream.read(&mut [0; 8])).await.expect("in time").expect("an end, no error"), 0);
    assert_eq!(connect(&proxy).await.expect_err("refused").kind(), ErrorKind::ConnectionRefused);
    proxy.set(Fault::Pass).await;
    assert_eq!(exchange(&mut connect(&proxy).await.expect("connection")).await, Ok(1));
}

#[tokio::test]
async fn jitter_delays_each_chunk_within_its_bounds_and_loses_nothing() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    let least = SILENCE / 2;
    proxy.set(Fault::Jitter { least, most: SILENCE, seed: 7 }).await;
    for _ in 0..3 {
        let start = std::time::Instant::now();
        assert_eq!(exchange(&mut stream).await, Ok(1));
        assert!(start.elapsed() >= 2 * least, "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_long_delay_ends_with_its_fault() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    proxy.set(Fault::Delay(10 * BOUND)).await;
    stream.write_all(b"y").await.expect("write");
    assert!(timeout(SILENCE, stream.read(&mut [0; 8])).await.is_err());
    proxy.set(Fault::Pass).await;
    assert_eq!(timeout(BOUND, stream.read(&mut [0; 8])).await.expect("in time").expect("read"), 1);
}

/// A server that says one byte for every one it gets, and tells how many it got.
async fn counting() -> (FaultProxy, watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let proxy = FaultProxy::start(&listener.local_addr().expect("address").to_string()).await;
    let (got, seen) = watch::channel(0);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() {
            got.send_modify(|count| *count += 1);
            let _ = stream.write_all(&byte).await;
        }
    });
    (proxy, seen)
}

#[tokio::test]
async fn what_vanishes_on_its_way_back_has_arrived_there_and_the_connection_is_reset_afterwards() {
    let (proxy, mut got) = counting().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Vanish(Way::Back)).await;
    stream.write_all(b"y").await.expect("write");
    timeout(BOUND, got.wait_for(|count| *count == 2)).await.expect("in time").expect("the server runs");
    assert!(timeout(SILENCE, stream.read(&mut [0; 8])).await.is_err(), "nobody is told");
    proxy.set(Fault::Pass).await;
    let read = timeout(BOUND, stream.read(&mut [0; 8])).await.expect("in time");
    assert_eq!(read.expect_err("reset").kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn what_vanishes_on_its_way_there_never_arrives_and_a_connection_that_lost_nothing_lives_on() {
    let (proxy, got) = counting().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Vanish(Way::There)).await;
    proxy.set(Fault::Pass).await;
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::Vanish(Way::There)).await;
    stream.write_all(b"y").await.expect("write");
    assert!(timeout(SILENCE, stream.read(&mut [0; 8])).await.is_err(), "nobody is told");
    proxy.set(Fault::Pass).await;
    let read = timeout(BOUND, stream.read(&mut [0; 8])).await.expect("in time");
    assert_eq!(read.expect_err("reset").kind(), ErrorKind::ConnectionReset);
    assert_eq!(*got.borrow(), 2);
}

#[tokio::test]
async fn a_reset_after_some_bytes_comes_in_the_middle_of_an_answer() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut stream).await, Ok(1));
    proxy.set(Fault::ResetAfter(3)).await;
    stream.write_all(b"answer").await.expect("write");
    let mut back = Vec::new();
    let end = timeout(BOUND, stream.read_to_end(&mut back)).await.expect("in time");
    assert_eq!((end.expect_err("reset").kind(), back.as_slice()), (ErrorKind::ConnectionReset, &b"ans"[..]));
}

#[tokio::test]
async fn a_redirected_proxy_takes_new_connections_elsewhere_and_leaves_present_ones() {
    let proxy = echo().await;
    let mut present = connect(&proxy).await.expect("connection");
    assert_eq!(exchange(&mut present).await, Ok(1));
    let nobody = free_address();
    proxy.redirect(&nobody.to_string());
    let mut new = connect(&proxy).await.expect("connection");
    assert!(matches!(exchange(&mut new).await, Ok(0) | Err(_)));
    assert_eq!(exchange(&mut present).await, Ok(1));
}
