//! One connection through the proxy: two directions, each with what the present fault does to it.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Fault, Way};
use crate::poll::PAUSE;

/// How much is read at a time.
const CHUNK_BYTES: usize = 16 << 10;
/// How long connecting to the upstream may take.
const CONNECT_BOUND: Duration = Duration::from_secs(5);

/// How a connection ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Closed,
    Reset,
}

/// What a connection needs of its proxy.
pub(super) struct Proxied {
    pub(super) upstream: String,
    pub(super) faults: watch::Receiver<Fault>,
    /// How many connections are held.
    pub(super) holding: watch::Sender<usize>,
}

/// Carries one connection; whether faults meet it, its first bytes say.
pub(super) async fn carry(client: TcpStream, only: &'static str, proxied: Proxied) {
    if begins(&client, only.as_bytes()).await {
        connection(client, proxied).await;
    } else {
        // Kept as long as the connection, which would otherwise end with it.
        let (_none, faults) = watch::channel(Fault::Pass);
        connection(client, Proxied { faults, ..proxied }).await;
    }
}

/// Whether these are the first bytes the client says; looks without taking them.
async fn begins(client: &TcpStream, with: &[u8]) -> bool {
    let look = async {
        let mut first = vec![0; with.len()];
        let mut seen = 0;
        while seen < with.len() {
            seen = client.peek(&mut first).await.unwrap_or(0);
            if seen == 0 || first[..seen] != with[..seen] {
                return false;
            }
            if seen < with.len() {
                sleep(PAUSE).await;
            }
        }
        true
    };
    timeout(CONNECT_BOUND, look).await.unwrap_or(false)
}

/// Carries one connection until both directions have ended, or it is broken.
async fn connection(mut client: TcpStream, proxied: Proxied) {
    let Proxied { upstream, mut faults, holding } = proxied;
    let fault = *faults.borrow();
    match fault {
        Fault::Cut => return,
        Fault::Reset => {
            let _ = client.set_zero_linger();
            return;
        }
        Fault::Answer(text) => {
            // One request fits into a chunk; a client that has gone away needs no answer.
            let _ = client.read(&mut vec![0; CHUNK_BYTES]).await;
            let _ = client.write_all(text.as_bytes()).await;
            let _ = client.shutdown().await;
            return;
        }
        _ => {}
    }
    let Ok(Ok(mut server)) = timeout(CONNECT_BOUND, TcpStream::connect(&upstream)).await else { return };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let there = Pump::new(Way::There, from_client, to_server, faults.clone(), &holding).run();
    let back = Pump::new(Way::Back, from_server, to_client, faults.clone(), &holding).run();
    let ended = tokio::select! {
        broken = faults.wait_for(|fault| matches!(fault, Fault::Reset | Fault::Cut)) => match broken.as_deref() {
            Ok(Fault::Reset) => Err(Broken::Reset),
            _ => Err(Broken::Closed),
        },
        carried = async { tokio::try_join!(there, back) } => carried.map(|_| ()),
    };
    if ended == Err(Broken::Reset) {
        for stream in [&client, &server] {
            let _ = stream.set_zero_linger();
        }
    }
}

/// One direction of a connection.
struct Pump<'a> {
    way: Way,
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    faults: watch::Receiver<Fault>,
    holding: &'a watch::Sender<usize>,
    /// The present one.
    fault: Fault,
    /// Bytes passed under it.
    passed: usize,
    chance: SmallRng,
    /// Its end has been passed on.
    closed: bool,
    /// Something sent has been lost.
    lossy: bool,
}

impl<'a> Pump<'a> {
    fn new(
        way: Way,
        from: ReadHalf<'a>,
        to: WriteHalf<'a>,
        faults: watch::Receiver<Fault>,
        holding: &'a watch::Sender<usize>,
    ) -> Self {
        let chance = SmallRng::seed_from_u64(0);
        Self { way, from, to, faults, holding, fault: Fault::Pass, passed: 0, chance, closed: false, lossy: false }
    }

    /// Carries until the end, which is passed on.
    async fn run(mut self) -> Result<(), Broken> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            self.follow().await?;
            tokio::select! {
                // A chunk that comes after the fault meets it.
                biased;
                changed = self.faults.changed() => if changed.is_err() { return Ok(()) },
                read = self.from.read(&mut chunk), if self.fault != Fault::Blackhole => {
                    match read.ok().filter(|length| *length > 0) {
                        Some(length) if !self.pass(&chunk[..length]).await? => return Ok(()),
                        Some(_) => {}
                        None => break,
                    }
                }
            }
        }
        if self.fault == Fault::Vanish(self.way) {
            // So does the end.
            let _ = self.faults.changed().await;
            return Err(Broken::Reset);
        }
        let _ = self.to.shutdown().await;
        Ok(())
    }

    /// Takes notice of another fault.
    async fn follow(&mut self) -> Result<(), Broken> {
        let fault = *self.faults.borrow_and_update();
        if fault == self.fault {
            return Ok(());
        }
        (self.fault, self.passed) = (fault, 0);
        if self.lossy && fault != Fault::Vanish(self.way) {
            return Err(Broken::Reset);
        }
        match fault {
            Fault::Jitter { seed, .. } => self.chance = SmallRng::seed_from_u64(seed),
            Fault::HalfClose if !self.closed => {
                self.closed = true;
                let _ = self.to.shutdown().await;
            }
            _ => {}
        }
        Ok(())
    }

    /// Passes a chunk, as the fault wants it; false when the other end is gone.
    async fn pass(&mut self, chunk: &[u8]) -> Result<bool, Broken> {
        match self.fault {
            Fault::Delay(delay) => self.wait(delay).await,
            Fault::Jitter { least, most, .. } => {
                let delay = self.chance.random_range(least..=most);
                self.wait(delay).await;
            }
            Fault::Throttle(rate) => self.wait(Duration::from_secs_f64(chunk.len() as f64 / f64::from(rate))).await,
            Fault::Hold(text) if self.way == Way::Back && holds(chunk, text) => {
                let _held = Held::new(self.holding);
                let _ = self.faults.wait_for(|fault| *fault != self.fault).await;
            }
            Fault::Vanish(way) if way == self.way => {
                self.lossy = true;
                return Ok(true);
            }
            Fault::ResetAfter(bytes) if self.way == Way::Back && self.passed + chunk.len() >= bytes => {
                let _ = self.to.write_all(&chunk[..bytes.saturating_sub(self.passed)]).await;
                return Err(Broken::Reset);
            }
            _ => {}
        }
        self.passed += chunk.len();
        Ok(self.closed || self.to.write_all(chunk).await.is_ok())
    }

    /// Waits, but not under another fault.
    async fn wait(&mut self, delay: Duration) {
        let _ = timeout(delay, self.faults.wait_for(|fault| *fault != self.fault)).await;
    }
}

/// Counts a held connection, however the hold ends.
struct Held<'a>(&'a watch::Sender<usize>);

impl<'a> Held<'a> {
    fn new(holding: &'a watch::Sender<usize>) -> Self {
        holding.send_modify(|held| *held += 1);
        Self(holding)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}

fn holds(chunk: &[u8], text: &str) -> bool {
    chunk.windows(text.len()).any(|bytes| bytes == text.as_bytes())
}
