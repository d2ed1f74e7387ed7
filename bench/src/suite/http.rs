//! The runner's own few requests: health, metrics, idle connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::Context;

use crate::limits;

/// Status and body of a GET.
pub(crate) fn get(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, limits::ANSWER)?;
    stream.set_read_timeout(Some(limits::ANSWER))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("the answer has no status")?;
    Ok((status, body.to_owned()))
}

/// Whether a GET is answered with 200.
pub(crate) fn is_ok(address: SocketAddr, path: &str) -> bool {
    get(address, path).is_ok_and(|(status, _)| status == 200)
}

/// The sum of a metric's series whose labels hold `labels`.
pub(crate) fn metric(text: &str, name: &str, labels: &str) -> f64 {
    let series = text.lines().filter_map(|line| line.strip_prefix(name));
    let series = series.filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels));
    series.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// So many connections, each of which has had one request answered.
pub(crate) fn hold_idle(address: SocketAddr, count: usize, user: &str, key: &str) -> anyhow::Result<Vec<TcpStream>> {
    let request = format!("HEAD /v1/entries/{key} HTTP/1.1\r\nHost: {address}\r\nX-User-ID: {user}\r\n\r\n");
    let mut held = Vec::with_capacity(count);
    let mut buffer = [0; 4096];
    for _ in 0..count {
        let mut stream = TcpStream::connect_timeout(&address, limits::ANSWER)?;
        stream.set_read_timeout(Some(limits::ANSWER))?;
        stream.write_all(request.as_bytes())?;
        let count = stream.read(&mut buffer)?;
        anyhow::ensure!(buffer[..count].starts_with(b"HTTP/1.1 200"), "an idle connection's request failed");
        held.push(stream);
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_are_summed_by_label() {
        let text = "a_total{tier=\"l1\"} 3\na_total{tier=\"l2\"} 4\na_total_created 9\na_totally 5\nb 2\n";
        assert_eq!(metric(text, "a_total", ""), 7.0);
        assert_eq!(metric(text, "a_total", "tier=\"l2\""), 4.0);
        assert_eq!(metric(text, "b", ""), 2.0);
    }
}
