//! Carries a stream to its receiver over one connection of its own. However it ends before the receiver has everything,
//! the stream is dead.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::Empty;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use placement::{NodeId, PinnedUser, Slot};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;
use wire::control::handoff_path;
use wire::handoff::frame::{FrameReader, FrameWriter};
use wire::handoff::{Handed, Hello, Reply, UPGRADE};

use super::Outgoing;
use super::outgoing::{Broken, Item, Next};
use crate::clock::Moment;
use crate::l1::Held;
use crate::limits;
use crate::node::Node;

/// The longest reply: a reason in words.
const REPLY_MAX: usize = 4 << 10;

type Connection = TokioIo<Upgraded>;

/// Runs until the slots are the receiver's, or the stream is broken.
pub(super) async fn run(node: Arc<Node>, stream: Arc<Outgoing>) {
    let carried = tokio::select! {
        carried = carry(&node, &stream) => carried,
        () = node.handoff.stop.cancelled() => broken("the old owner stops"),
    };
    if let Err(Broken(reason)) = carried {
        stream.break_off(&reason);
        if stream.is_broken() {
            node.metrics.broken_streams.inc();
            tracing::warn!(change = %stream.change, receiver = %stream.receiver, reason, "a handoff stream is broken");
        }
    }
}

async fn carry(node: &Node, stream: &Outgoing) -> Result<(), Broken> {
    let connection = match timeout(limits::HANDOFF_CONNECT, connect(node, stream)).await {
        Ok(connection) => connection?,
        Err(_) => return broken("the receiver does not answer"),
    };
    let (from_receiver, to_receiver) = tokio::io::split(connection);
    tokio::select! {
        sent = send_all(node, stream, to_receiver) => sent,
        read = read_replies(stream, from_receiver) => read,
    }
}

fn broken<T>(reason: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(reason.into()))
}

async fn connect(node: &Node, stream: &Outgoing) -> Result<Connection, Broken> {
    let lost = |error: &dyn std::error::Error| Broken(format!("the receiver cannot be reached: {error}"));
    let socket = node.config.nodes.connect(&stream.address).await.map_err(|error| lost(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.map_err(|error| lost(&error))?;
    // Ends with the upgrade, or with `sender`.
    node.handoff.tasks.spawn(async move { drop(connection.with_upgrades().await) });
    let mut request = Request::get(handoff_path(&stream.id))
        .header(header::HOST, &stream.address)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, UPGRADE)
        .body(Empty::<Bytes>::new())
        .map_err(|error| lost(&error))?;
    if let Some(token) = &node.config.cluster_token {
        request.headers_mut().insert(header::AUTHORIZATION, token.header_value());
    }
    let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
    let agreed = response.headers().get(header::UPGRADE) == Some(&HeaderValue::from_static(UPGRADE));
    if response.status() != StatusCode::SWITCHING_PROTOCOLS || !agreed {
        return broken(not_taken(&stream.receiver, response.status()));
    }
    hyper::upgrade::on(response).await.map(TokioIo::new).map_err(|error| lost(&error))
}

/// Why a receiver answered other than with 101, in words that lead on.
fn not_taken(receiver: &NodeId, status: StatusCode) -> String {
    match status {
        StatusCode::UNAUTHORIZED => {
            format!("{receiver} does not take our cluster token (401): give all nodes the same")
        }
        StatusCode::SERVICE_UNAVAILABLE => format!("{receiver} receives too many streams already (503)"),
        other => {
            let status = other.as_u16();
            format!("{receiver} does not take streams of version {UPGRADE} ({status}): upgrade the older node")
        }
    }
}

async fn send_all(node: &Node, stream: &Outgoing, mut connection: WriteHalf<Connection>) -> Result<(), Broken> {
    let (mut writer, mut out) = (FrameWriter::default(), BytesMut::new());
    let mut slots: Vec<Slot> = stream.slots.keys().map(|&slot| stream.gained_slot(slot)).collect();
    slots.sort_unstable();
    let user_of = |slot: Slot| {
        let leaving = stream.leaves.as_ref().filter(|leaving| leaving.slot == slot);
        leaving.cloned().or_else(|| Some(PinnedUser { slot, user: node.slots.user_of(slot)? }))
    };
    let pinned = slots.iter().filter(|slot| slot.is_pinned()).filter_map(|&slot| user_of(slot)).collect();
    let owner = node.config.node_id.clone();
    let hello = Hello { change: stream.change, owner, receiver: stream.receiver.clone(), slots, pinned };
    stream.sent([None], writer.write(&Handed::Hello(hello), &mut out));
    loop {
        if !out.is_empty() {
            let written = timeout(limits::HANDOFF_REPLY, connection.write_all_buf(&mut out)).await;
            match written {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return broken(format!("the connection to the receiver broke: {error}")),
                Err(_) => return broken("the receiver takes nothing"),
            }
        }
        let mut changed = std::pin::pin!(stream.changed());
        changed.as_mut().enable();
        match stream.next()? {
            Next::Send(items) => {
                let now = Moment::now();
                let bytes = items.iter().map(|item| write_item(&mut writer, item, now, &mut out)).sum();
                let entries = items.iter().filter(|item| matches!(item, Item::Copy(..) | Item::Value(_))).count();
                node.metrics.handed_entries.inc_by(entries as u64);
                stream.sent(items.iter().map(Some), bytes);
            }
            Next::Wait => {
                if timeout(limits::HANDOFF_BEAT, changed).await.is_err() && stream.has_credit() {
                    stream.sent([None], writer.write(&Handed::Beat, &mut out));
                }
            }
            Next::Over => {
                // The receiver has everything; it only sees that nothing more comes.
                let _ = timeout(limits::HANDOFF_CONNECT, connection.shutdown()).await;
                return Ok(());
            }
        }
    }
}

async fn read_replies(stream: &Outgoing, mut connection: ReadHalf<Connection>) -> Result<(), Broken> {
    let (mut reader, mut buffer) = (FrameReader::new(REPLY_MAX), BytesMut::new());
    loop {
        match timeout(limits::HANDOFF_REPLY, connection.read_buf(&mut buffer)).await {
            Ok(Ok(0)) => return broken("the receiver closed the connection"),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return broken(format!("the connection to the receiver broke: {error}")),
            Err(_) => return broken("the receiver is silent"),
        }
        while let Some((reply, _)) = reader.read(&mut buffer).map_err(|invalid| Broken(invalid.to_string()))? {
            let fits = match reply {
                Reply::Credit { frames, bytes } => stream.credited(frames, bytes),
                Reply::Complete => stream.completed(),
                Reply::Refused(reason) => return broken(format!("{} refused: {reason}", stream.receiver)),
            };
            if !fits {
                return broken("the receiver confirmed what was not sent");
            }
        }
    }
}

/// Appends the item's frame; its length.
fn write_item(writer: &mut FrameWriter, item: &Item, now: Moment, out: &mut BytesMut) -> usize {
    match item {
        Item::Copy(held, _) | Item::Value(held) => write_entry(writer, held, now, out),
        Item::Invalidate(name) => writer.write(&Handed::Invalidate(name.user.clone(), name.key.clone()), out),
        Item::End(slots) => writer.write(&Handed::End(slots.clone()), out),
    }
}

/// An entry whose time is over goes as an invalidation: what was sent of it before must not stay either.
fn write_entry(writer: &mut FrameWriter, held: &Held, now: Moment, out: &mut BytesMut) -> usize {
    match held.sent(now) {
        Some(entry) => writer.write_body(out, |body| entry.write(body)),
        None => {
            let name = held.name(Slot::of_user_text(held.user()));
            writer.write(&Handed::Invalidate(name.user, name.key), out)
        }
    }
}
