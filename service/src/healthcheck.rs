//! The `healthcheck` subcommand: asks the program next door whether it lives, with no tool but this binary.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long connecting, and then the answer, may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How much of the answer is read: the status line is all that matters.
const ANSWER_MAX_BYTES: usize = 1024;

/// `GET /healthz` of the program listening on `listen`: success when it answers 200, else failure with a line on stderr.
pub fn run(listen: SocketAddr) -> ExitCode {
    match ask(dialled(listen), TIMEOUT) {
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

fn ask(address: SocketAddr, timeout: Duration) -> Result<(), String> {
    let mut stream =
        TcpStream::connect_timeout(&address, timeout).map_err(|error| format!("no connection: {error}"))?;
    let status = exchange(&mut stream, timeout).map_err(|error| format!("no answer: {error}"))?;
    if status == b"200" { Ok(()) } else { Err("the answer is not 200".to_owned()) }
}

/// The three digits of the status.
fn exchange(stream: &mut TcpStream, timeout: Duration) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + timeout;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut chunk = [0; 256];
    while !answer.contains(&b'\n') && answer.len() < ANSWER_MAX_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
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
        assert_eq!(ask(answering(b"HTTP/1.1 200 OK\r\n\r\n"), TIMEOUT), Ok(()));
        assert!(ask(answering(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"), TIMEOUT).is_err());
        assert!(ask(answering(b""), TIMEOUT).is_err());
    }

    #[test]
    fn a_frozen_program_is_unhealthy_after_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        assert!(ask(address, Duration::from_millis(50)).is_err());
    }

    #[test]
    fn any_address_is_dialled_as_loopback() {
        assert_eq!(dialled("0.0.0.0:80".parse().expect("address")), "127.0.0.1:80".parse().expect("address"));
        assert_eq!(dialled("[::]:80".parse().expect("address")), "[::1]:80".parse().expect("address"));
        assert_eq!(dialled("10.1.2.3:80".parse().expect("address")), "10.1.2.3:80".parse().expect("address"));
    }
}
