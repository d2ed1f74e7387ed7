//! Whether the cluster serves: one GET over a fresh connection, and what status came back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long one GET may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How much of the answer is read: `HTTP/1.1 200`.
const STATUS_LINE_BYTES: usize = 12;

/// The status that `GET path` answers, if it answers at all.
pub(crate) async fn status(address: SocketAddr, path: &str, user: Option<&str>) -> Option<u16> {
    timeout(TIMEOUT, ask(address, path, user)).await.ok()?.ok()?
}

async fn ask(address: SocketAddr, path: &str, user: Option<&str>) -> std::io::Result<Option<u16>> {
    let mut stream = TcpStream::connect(dialled(address)).await?;
    let user = user.map(|user| format!("X-User-ID: {user}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{user}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; STATUS_LINE_BYTES];
    stream.read_exact(&mut head).await?;
    Ok(std::str::from_utf8(&head)
        .ok()
        .and_then(|head| head.strip_prefix("HTTP/1.1 "))
        .and_then(|code| code.parse().ok()))
}

/// An address to listen on is not always one to dial: "any" becomes loopback.
pub(crate) fn dialled(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, listen.port())
}
