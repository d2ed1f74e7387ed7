//! The receiver's end of a stream: entries go into L1 under reigns that nobody looks up, until the flip (protocol C2, C3).

use std::sync::Arc;

use bytes::BytesMut;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use wire::handoff::frame::{FrameInvalid, FrameReader, FrameWriter};
use wire::handoff::{Handed, HandedEntry, Hello, Reply};

use super::offers::Receiving;
use crate::limits;
use crate::node::Node;

/// Why a stream ended before its end.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the connection broke: {0}")]
    Connection(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] FrameInvalid),
    #[error("{0}")]
    Refused(String),
    #[error("the old owner is silent")]
    Silent,
    #[error("the old owner closed the connection")]
    Closed,
}

/// Takes a stream in until it ends; whatever way it does, what is not complete is forgotten.
pub(crate) async fn receive(node: Arc<Node>, id: Arc<str>, upgrade: OnUpgrade) {
    let taking = async {
        match timeout(limits::HANDOFF_CONNECT, upgrade).await {
            Ok(Ok(connection)) => take_in(&node, &id, TokioIo::new(connection)).await,
            Ok(Err(error)) => Err(Ended::Refused(error.to_string())),
            Err(_) => Err(Ended::Silent),
        }
    };
    let ended = tokio::select! {
        ended = taking => ended,
        () = node.handoff.stop.cancelled() => Err(Ended::Closed),
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "a handoff stream from an old owner ended early");
    }
}

async fn take_in<C>(node: &Arc<Node>, id: &Arc<str>, mut connection: C) -> Result<(), Ended>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let max_body = usize::try_from(node.config.max_value_bytes).unwrap_or(usize::MAX);
    let mut reader = FrameReader::new(max_body.saturating_add(limits::HANDOFF_FRAME_REST));
    let (mut writer, mut buffer, mut out) = (FrameWriter::default(), BytesMut::new(), BytesMut::new());
    let mut receiving: Option<Receiving> = None;
    writer.write(&Reply::Credit { frames: 0, bytes: limits::HANDOFF_WINDOW }, &mut out);
    loop {
        // Bounded too: an old owner that sends and never reads would hold the stream's offers for ever.
        timeout(limits::HANDOFF_SILENCE, connection.write_all_buf(&mut out)).await.map_err(|_| Ended::Silent)??;
        buffer.reserve(limits::HANDOFF_READ);
        let read = timeout(limits::HANDOFF_SILENCE, connection.read_buf(&mut buffer)).await;
        if read.map_err(|_| Ended::Silent)?? == 0 {
            // After the end the old owner closes when it has seen the flip.
            return if receiving.is_some_and(|stream| stream.is_complete()) { Ok(()) } else { Err(Ended::Closed) };
        }
        let (mut frames, mut bytes, mut complete) = (0, 0, false);
        loop {
            let message = match reader.read::<Handed>(&mut buffer) {
                Ok(Some((message, length))) => {
                    frames += 1;
                    bytes += u32::try_from(length).unwrap_or(u32::MAX);
                    message
                }
                Ok(None) => break,
                Err(invalid) => return refuse(&mut writer, &mut connection, invalid.to_string()).await,
            };
            match handle(node, id, &mut receiving, message) {
                Ok(ended) => complete |= ended,
                Err(reason) => return refuse(&mut writer, &mut connection, reason).await,
            }
        }
        if frames > 0 {
            writer.write(&Reply::Credit { frames, bytes }, &mut out);
        }
        if complete {
            writer.write(&Reply::Complete, &mut out);
        }
        // There is always more to read while the old owner copies: others of this thread want their turn.
        tokio::task::yield_now().await;
    }
}

/// Tells the old owner why, as well as that goes.
async fn refuse(
    writer: &mut FrameWriter,
    connection: &mut (impl AsyncWrite + Unpin),
    reason: String,
) -> Result<(), Ended> {
    let mut out = BytesMut::new();
    writer.write(&Reply::Refused(reason.clone()), &mut out);
    let _ = timeout(limits::HANDOFF_CONNECT, connection.write_all_buf(&mut out)).await;
    Err(Ended::Refused(reason))
}

/// Whether the stream is complete now; the error says why it cannot go on.
fn handle(node: &Arc<Node>, id: &Arc<str>, receiving: &mut Option<Receiving>, message: Handed) -> Result<bool, String> {
    match (message, receiving.as_mut()) {
        (Handed::Hello(hello), None) => {
            *receiving = Some(open(node, id, hello)?);
            Ok(false)
        }
        (Handed::Hello(_), Some(_)) | (_, None) => Err("the stream does not begin with its hello".to_owned()),
        // Also after the end, where the flip is awaited.
        (Handed::Beat, Some(_)) => Ok(false),
        (_, Some(stream)) if stream.is_complete() => Err("something follows the end".to_owned()),
        (Handed::Entry(entry), Some(stream)) => {
            take_entry(node, stream, entry)?;
            Ok(false)
        }
        (Handed::Invalidate(user, key), Some(stream)) => {
            stream.invalidate(user, key).map_err(|lost| lost.to_string())?;
            Ok(false)
        }
        (Handed::End(slots), Some(stream)) => {
            stream.end(&slots).map_err(|lost| lost.to_string())?;
            Ok(true)
        }
    }
}

fn open(node: &Arc<Node>, id: &Arc<str>, hello: Hello) -> Result<Receiving, String> {
    if hello.receiver != node.config.node_id {
        return Err(format!("this is {}, not {}", node.config.node_id, hello.receiver));
    }
    tracing::info!(change = %hello.change, owner = %hello.owner, slots = hello.slots.len(), "receiving slots");
    Receiving::open(Arc::clone(node), Arc::clone(id), hello).map_err(|refused| refused.to_string())
}

fn take_entry(node: &Node, stream: &Receiving, entry: HandedEntry) -> Result<(), String> {
    stream.put(entry).map_err(|lost| lost.to_string())?;
    node.metrics.taken_entries.inc();
    Ok(())
}

#[cfg(test)]
mod tests {
    use origin::{DatabaseUrl, OpenOptions, Origin};
    use placement::{ChangeId, Slot, Tenure};
    use wire::control::SealedTenure;

    use super::*;
    use crate::config::Config;

    fn node() -> Arc<Node> {
        let file = DatabaseUrl::Sqlite("not-opened.db".into());
        let origin = Origin::open(&file, OpenOptions::default()).expect("prepared, not opened");
        let config = Config::with_defaults("n2".parse().expect("node id"), "127.0.0.1:1".to_owned());
        Arc::new(Node::new(config, origin))
    }

    #[tokio::test(start_paused = true)]
    async fn beats_after_the_end_do_not_undo_it() {
        let slot = Slot::all().next().expect("slots");
        let (owner, receiver) = ("n1".parse().expect("node id"), "n2".parse().expect("node id"));
        let hello = Hello { change: ChangeId(1), owner, receiver, slots: vec![slot], pinned: Vec::new() };
        let end = vec![SealedTenure { slot, tenure: Tenure(1) }];
        let (mut writer, mut sent) = (FrameWriter::default(), BytesMut::new());
        // One read takes them all: the end is confirmed after the beat was seen.
        for message in [Handed::Hello(hello), Handed::End(end), Handed::Beat] {
            writer.write(&message, &mut sent);
        }
        let (ours, mut theirs) = tokio::io::duplex(4096);
        theirs.write_all_buf(&mut sent).await.expect("room");
        theirs.shutdown().await.expect("open");
        let ended = take_in(&node(), &"s".into(), ours).await;
        assert!(ended.is_ok(), "{ended:?}");
        let (mut reader, mut replies) = (FrameReader::new(4096), BytesMut::new());
        while theirs.read_buf(&mut replies).await.expect("open") > 0 {}
        let replies: Vec<_> = std::iter::from_fn(|| reader.read::<Reply>(&mut replies).expect("frames")).collect();
        assert!(replies.iter().any(|(reply, _)| *reply == Reply::Complete), "{replies:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_owner_that_never_reads_or_never_sends_is_given_up() {
        let node = node();
        // Fits no reply; fits the first reply, after which nothing comes.
        for room in [8, 1024] {
            let (ours, _theirs) = tokio::io::duplex(room);
            let ended = timeout(2 * limits::HANDOFF_SILENCE, take_in(&node, &"s".into(), ours)).await;
            let ended = ended.expect("given up in time");
            assert!(matches!(ended, Err(Ended::Silent)), "{room}: {ended:?}");
        }
    }
}
