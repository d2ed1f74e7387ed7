//! A peer: hyper's HTTP/1 server with one answer in memory and nothing else.

use std::convert::Infallible;
use std::net::SocketAddr;

use bench::keyspace::KeySpace;
use bytes::Bytes;
use clap::Parser;
use http::{HeaderValue, Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Answers every request with the value of key 0 of user 0.
#[derive(Parser)]
struct Options {
    /// Where to listen
    #[arg(long)]
    listen: SocketAddr,
    /// The size of the value
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let body = Bytes::from(KeySpace { users: 1, value_bytes: options.value_bytes }.value(0));
    let listener = TcpListener::bind(options.listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let body = body.clone();
        let answer = service_fn(move |_: Request<Incoming>| {
            let mut response = Response::new(Full::new(body.clone()));
            let octets = HeaderValue::from_static("application/octet-stream");
            response.headers_mut().insert(header::CONTENT_TYPE, octets);
            std::future::ready(Ok::<_, Infallible>(response))
        });
        // A connection that breaks is its client's affair.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}
