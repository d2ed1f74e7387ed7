//! The `healthcheck` subcommand: asks the program next door whether it lives, with no tool but this binary.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::tls::{ListenerTls, NodeTls, accept_any_server};

/// How long connecting, and then the answer, may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How much of the answer is read: the status line is all that matters.
const ANSWER_MAX_BYTES: usize = 1024;

/// `GET /healthz` of the program listening on `listen`: success when it answers 200, else failure with a line on stderr.
///
/// By TLS where the program has a certificate, whatever that certificate says: it is asked for life, not for a secret. One that
/// asks for a certificate itself is shown the one it would show to other nodes.
pub fn run(listen: SocketAddr, tls: &ListenerTls, nodes: &NodeTls) -> ExitCode {
    let asked = client_of(tls, nodes).map_err(|error| format!("{error:#}"));
    match asked.and_then(|tls| ask(dialled(listen), tls, TIMEOUT)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("unhealthy: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// An address to listen on is not always one to dial: "any" becomes loopback.
fn dialled(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, listen.port())
}

fn client_of(tls: &ListenerTls, nodes: &NodeTls) -> anyhow::Result<Option<ClientConfig>> {
    let Some(own) = tls.identity()? else { return Ok(None) };
    accept_any_server(nodes.identity()?.or(Some(own))).map(Some)
}

fn ask(address: SocketAddr, tls: Option<ClientConfig>, timeout: Duration) -> Result<(), String> {
    let socket = TcpStream::connect_timeout(&address, timeout).map_err(|error| format!("no connection: {error}"))?;
    let status = match tls {
        None => exchange(&mut &socket, &socket, timeout),
        Some(config) => ClientConnection::new(Arc::new(config), ServerName::from(address.ip()))
            .map_err(std::io::Error::other)
            .and_then(|session| exchange(&mut StreamOwned::new(session, &socket), &socket, timeout)),
    };
    let status = status.map_err(|error| format!("no answer: {error}"))?;
    if status == b"200" { Ok(()) } else { Err("the answer is not 200".to_owned()) }
}

/// The three digits of the status. `socket` is what `stream` goes over.
fn exchange(stream: &mut (impl Read + Write), socket: &TcpStream, timeout: Duration) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + timeout;
    socket.set_write_timeout(Some(timeout))?;
    socket.set_read_timeout(Some(timeout))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut chunk = [0; 256];
    while !answer.contains(&b'\n') && answer.len() < ANSWER_MAX_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut chunk)? {
            0 => break,
            n => answer.extend_from_slice(&chunk[..n]),
        }
    }
    Ok(answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answering(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            let mut request = [0; 512];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer);
        });
        address
    }

    #[test]
    fn only_200_is_healthy() {
        assert_eq!(ask(answering(b"HTTP/1.1 200 OK\r\n\r\n"), None, TIMEOUT), Ok(()));
        assert!(ask(answering(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"), None, TIMEOUT).is_err());
        assert!(ask(answering(b""), None, TIMEOUT).is_err());
    }

    #[test]
    fn a_frozen_program_is_unhealthy_after_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        assert!(ask(address, None, Duration::from_millis(50)).is_err());
    }

    #[test]
    fn any_address_is_dialled_as_loopback() {
        assert_eq!(dialled("0.0.0.0:80".parse().expect("address")), "127.0.0.1:80".parse().expect("address"));
        assert_eq!(dialled("[::]:80".parse().expect("address")), "[::1]:80".parse().expect("address"));
        assert_eq!(dialled("10.1.2.3:80".parse().expect("address")), "10.1.2.3:80".parse().expect("address"));
    }
}
