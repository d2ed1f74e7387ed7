//! A server that was started inside this process.

use std::future::Future;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server that runs in tasks of this process until the token it was started with is cancelled.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl RunningServer {
    /// Starts `server` on a listener that is bound already.
    pub fn start<F>(listener: TcpListener, server: impl FnOnce(TcpListener) -> F) -> anyhow::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(server(listener)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when it has stopped, drained as far as its time allowed; an error is a panic of ours.
    pub async fn stopped(self) -> anyhow::Result<()> {
        Ok(self.task.await?)
    }
}
