//! Listening sockets that this process was started with: `LISTEN_FDS`, the protocol of systemd's socket activation.

use std::net::TcpListener as Listener;
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::Context;
use listenfd::ListenFd;
use tokio::net::TcpListener;

/// Those that nobody has taken. Of the whole process, as its open files are.
static LEFT: LazyLock<Mutex<Vec<Listener>>> = LazyLock::new(|| Mutex::new(all()));

fn all() -> Vec<Listener> {
    let mut handed_over = ListenFd::from_env();
    // What is no TCP socket is no listener of ours.
    (0..handed_over.len()).filter_map(|index| handed_over.take_tcp_listener(index).ok().flatten()).collect()
}

/// Takes the socket that listens at a port, whatever its address; `None`: there is none.
pub(super) fn take(port: u16) -> anyhow::Result<Option<TcpListener>> {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |listener: &Listener| listener.local_addr().is_ok_and(|address| address.port() == port);
    let Some(index) = left.iter().position(is_it) else { return Ok(None) };
    let listener = left.swap_remove(index);
    let taken = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
    taken.map(Some).with_context(|| format!("the socket handed over for port {port} cannot be used"))
}
