//! Each fault as the two ends see it.

use std::io::ErrorKind;

use super::*;

const BOUND: Duration = Duration::from_secs(5);
/// Long enough to be sure that nothing comes.
const SILENCE: Duration = Duration::from_millis(50);

/// A server that sends back what it gets, behind a proxy.
async fn echo() -> FaultProxy {
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
    FaultProxy::start(&upstream).await
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
