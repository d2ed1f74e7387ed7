//! The copying side of a fake node: streams that get on with every question, or behave as badly as a case wants, and the
//! load that the node reports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use placement::{NodeId, Slot};
use tokio::sync::watch;
use wire::control::{
    CompleteStream, CopyReceiver, CopyReport, CopyRequest, CopyState, CopyStream, DurationBucket, LoadReport,
};
use wire::{Problem, ProblemCode};

use crate::fake_cluster::{BYTES_PER_SLOT, ENTRIES_PER_SLOT, FakeNode};

/// How a node copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// So many entries of each stream per question.
    Entries(u64),
    /// Its first so many streams break.
    AfterBreaks(usize),
    /// Nothing ever moves.
    Stuck,
    /// As a node that has no such route.
    NoRoute,
    /// Says that it cannot take part in this change.
    Refuses,
}

/// What a node was asked to copy, and how far it is.
#[derive(Debug)]
pub(crate) struct CopyDesk {
    copies: Mutex<Copies>,
    books: Mutex<Books>,
    /// The newest rate asked for; the outer `None`: not asked yet.
    rate: watch::Sender<Option<Option<u64>>>,
    load: Mutex<Load>,
}

#[derive(Debug, Default)]
struct Books {
    change: i64,
    streams: BTreeMap<NodeId, (CopyStream, Vec<Slot>)>,
    opened: usize,
}

#[derive(Debug, Default)]
struct Load {
    slow: bool,
    fast_requests: u64,
    slow_requests: u64,
    origin_reads: u64,
}

impl Default for CopyDesk {
    fn default() -> Self {
        Self {
            copies: Mutex::new(Copies::Entries(u64::MAX)),
            books: Mutex::default(),
            rate: watch::Sender::new(None),
            load: Mutex::default(),
        }
    }
}

impl CopyDesk {
    pub(crate) fn behave(&self, copies: Copies) {
        *self.copies.lock().expect("not poisoned") = copies;
    }

    /// Whether users of this node have to wait.
    pub(crate) fn is_slow(&self, slow: bool) {
        self.load.lock().expect("not poisoned").slow = slow;
    }

    /// The newest rate asked for; the outer `None`: nobody asked.
    pub(crate) fn rate(&self) -> Option<Option<u64>> {
        *self.rate.borrow()
    }

    /// Returns once the node is asked to copy at this rate.
    pub(crate) async fn asked_for_rate(&self, rate: Option<u64>) {
        self.rate.subscribe().wait_for(|asked| *asked == Some(rate)).await.expect("the desk lives on");
    }

    /// Returns once the node is asked to copy.
    pub(crate) async fn asked(&self) {
        self.rate.subscribe().wait_for(Option::is_some).await.expect("the desk lives on");
    }

    /// Streams opened so far.
    pub(crate) fn opened(&self) -> usize {
        self.books().opened
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("not poisoned")
    }

    /// What a seal for the change finds complete.
    pub(crate) fn complete_streams(&self, change: i64) -> Vec<CompleteStream> {
        let books = self.books();
        if books.change != change {
            return Vec::new();
        }
        let caught_up = books.streams.values().filter(|(stream, _)| stream.state == CopyState::CaughtUp);
        let complete = caught_up.map(|(stream, slots)| CompleteStream {
            stream: stream.stream.clone(),
            receiver: stream.receiver.clone(),
            slots: slots.clone(),
        });
        complete.collect()
    }
}

impl Books {
    fn advance(&mut self, receiver: &CopyReceiver, copies: Copies, paused: bool) -> CopyStream {
        let is_open = |(stream, _): &(CopyStream, Vec<Slot>)| !matches!(stream.state, CopyState::Broken(_));
        if !self.streams.get(&receiver.node).is_some_and(is_open) {
            self.opened += 1;
            let stream = new_stream(self.opened, receiver);
            self.streams.insert(receiver.node.clone(), (stream, receiver.slots.clone()));
        }
        let opened = self.opened;
        let (stream, _) = self.streams.get_mut(&receiver.node).expect("just opened");
        let more = match copies {
            Copies::AfterBreaks(breaks) if opened <= breaks => {
                stream.state = CopyState::Broken("the receiver hung up".to_owned());
                return stream.clone();
            }
            Copies::Entries(more) if !paused => more,
            Copies::AfterBreaks(_) if !paused => u64::MAX,
            _ => 0,
        };
        stream.entries_copied = stream.entries_copied.saturating_add(more).min(stream.entries_total);
        stream.bytes_copied = stream.entries_copied * (BYTES_PER_SLOT / ENTRIES_PER_SLOT);
        if stream.entries_copied == stream.entries_total {
            stream.state = CopyState::CaughtUp;
        }
        stream.clone()
    }
}

fn new_stream(number: usize, receiver: &CopyReceiver) -> CopyStream {
    let slots = receiver.slots.len() as u64;
    CopyStream {
        stream: format!("stream-{number}"),
        receiver: receiver.node.clone(),
        state: CopyState::Copying,
        entries_total: slots * ENTRIES_PER_SLOT,
        entries_copied: 0,
        bytes_total: slots * BYTES_PER_SLOT,
        bytes_copied: 0,
    }
}

pub(crate) async fn copy(
    State(fake): State<Arc<FakeNode>>,
    Path(change): Path<i64>,
    Json(request): Json<CopyRequest>,
) -> Response {
    let desk = &fake.copying;
    let copies = *desk.copies.lock().expect("not poisoned");
    match copies {
        Copies::NoRoute => return StatusCode::NOT_FOUND.into_response(),
        Copies::Refuses => {
            let problem = Problem::new(ProblemCode::ChangeConflict, "this node knows nothing of it");
            return problem.into_response::<axum::body::Body>();
        }
        _ => {}
    }
    let paused = request.max_bytes_per_second == Some(0);
    let streams = {
        let mut books = desk.books();
        if books.change != change {
            *books = Books { change, opened: books.opened, ..Books::default() };
        }
        request.receivers.iter().map(|receiver| books.advance(receiver, copies, paused)).collect()
    };
    desk.rate.send_replace(Some(request.max_bytes_per_second));
    Json(CopyReport { node: fake.id.clone(), incarnation: fake.incarnation, streams }).into_response()
}

/// Two hundred requests and five reads more each time it is asked.
pub(crate) async fn load(State(fake): State<Arc<FakeNode>>) -> Json<LoadReport> {
    let mut load = fake.copying.load.lock().expect("not poisoned");
    let requests = if load.slow { &mut load.slow_requests } else { &mut load.fast_requests };
    *requests += 200;
    load.origin_reads += 5;
    let bucket = |at_most_us, requests| DurationBucket { at_most_us, requests };
    let durations = vec![bucket(Some(1_000), load.fast_requests), bucket(Some(900_000), load.slow_requests)];
    let (node, incarnation, origin_reads) = (fake.id.clone(), fake.incarnation, load.origin_reads);
    Json(LoadReport { node, incarnation, durations, origin_reads })
}
