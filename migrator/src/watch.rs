//! The failure controller: of those that run one leads, and does what [`decide`] says until its term is over.
//!
//! Takes the slots of nodes over that stay away, lets them in again when they are back, empties nodes that want to stop, and
//! ends changes whose migrator died.

pub mod decide;
pub mod errands;
pub mod post;
pub mod setbacks;
pub mod sightings;
pub mod standing;

use std::time::Duration;

use client::NodeClient;
use origin::{Control, Origin, OriginError, RingState};
use service::settings::ClusterToken;
use service::tls::NodeDialler;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::decide::{Action, Controller};
use self::errands::{TookOver, UnderWay};
use self::post::Post;
use crate::limits::{ERRAND_STOP_WAIT, LOOK_PAUSE, LOOK_PAUSE_MIN, SEAL_WAIT, TERM_TTL};
use crate::phases::{Tools, Waits};
use crate::progress::Progress;

/// How to watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a node that is down is given to come back.
    pub grace: Duration,
    /// What this controller calls itself, for operators and other controllers to read.
    pub holder: String,
}

/// A leader at work.
struct Leader<'a> {
    tools: &'a Tools,
    holder: &'a str,
    post: Post,
    controller: Controller,
    under_way: Option<UnderWay>,
    began: Instant,
    trouble: Said,
}

/// The last thing said, so that it is said once for as long as it lasts.
#[derive(Debug, Default)]
struct Said(Option<String>);

impl Said {
    /// Whether this is news.
    fn news(&mut self, line: String) -> bool {
        let news = self.0.as_ref() != Some(&line);
        self.0 = Some(line);
        news
    }
}

/// What a controller inside another program acts with: it shares the program's database, and shows no progress.
pub fn tools(origin: Origin, token: Option<ClusterToken>) -> Tools {
    let nodes = NodeClient::new(token, NodeDialler::default(), SEAL_WAIT);
    Tools { origin, nodes, progress: Progress::Silent, waits: Waits::default() }
}

/// Watches until `stop`: stands by while another leads, leads when the post is free. Errors are waited out.
pub async fn run(tools: Tools, options: Options, stop: CancellationToken) {
    let mut said = Said::default();
    while !stop.is_cancelled() {
        let asked_at = Instant::now();
        let asked = tokio::select! {
            // A term that is ours without our knowing runs out.
            () = stop.cancelled() => break,
            asked = tools.origin.take_control(&options.holder, TERM_TTL) => asked,
        };
        match asked {
            Ok(Control::Ours(term)) => {
                tracing::info!(holder = options.holder, term = term.0, "leading");
                said = Said::default();
                let post = Post::keep(&tools.origin, term, asked_at, stop.child_token());
                Leader::new(&tools, &options, post).lead(&stop).await;
            }
            Ok(Control::Held { by, .. }) => {
                if said.news(format!("led by {by}")) {
                    tracing::info!(holder = options.holder, leader = by, "standing by");
                }
            }
            Err(error) => {
                if said.news(error.to_string()) {
                    tracing::warn!(%error, "the failure controller cannot work now, and keeps trying");
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = sleep(LOOK_PAUSE) => {}
        }
    }
}

impl<'a> Leader<'a> {
    fn new(tools: &'a Tools, options: &'a Options, post: Post) -> Self {
        Self {
            tools,
            holder: &options.holder,
            post,
            controller: Controller::new(options.grace),
            under_way: None,
            began: Instant::now(),
            trouble: Said::default(),
        }
    }

    /// Leads until the term is over or `stop` comes; what is under way by then is given up where that is possible.
    async fn lead(mut self, stop: &CancellationToken) {
        while !self.post.over.is_cancelled() {
            let again_at_once = self.turn().await;
            if !again_at_once {
                self.wait().await;
            }
        }
        if !stop.is_cancelled() {
            tracing::warn!("the term is over: another controller may lead");
        }
        let Self { tools, post, under_way, .. } = self;
        let ending = async {
            if let Some(mut under_way) = under_way
                && timeout(ERRAND_STOP_WAIT, under_way.ended()).await.is_err()
            {
                tracing::warn!("not waiting any longer for this to end: {}", under_way.errand);
                under_way.abandon();
            }
        };
        tokio::join!(post.release(&tools.origin), ending);
    }

    /// Looks, decides and acts; whether to go on without a pause.
    async fn turn(&mut self) -> bool {
        let looked = tokio::select! {
            looked = self.tools.origin.ring_state() => looked,
            () = self.post.over.cancelled() => return true,
        };
        let Some(ring) = self.understood(looked) else { return false };
        let now = self.began.elapsed();
        self.controller.look(&ring, now);
        let errand = self.under_way.as_ref().map(|under_way| &under_way.errand);
        let decision = self.controller.decide(&ring, errand, now);
        self.post.say(&decision.note);
        if !matches!(decision.action, Some(Action::TakeOver(..))) {
            self.trouble = Said::default();
        }
        match decision.action {
            Some(Action::TakeOver(node, seen)) => {
                let took = errands::take_over(self.tools, &ring, &node, seen, self.holder, self.post.term);
                let took = tokio::select! {
                    took = took => took,
                    // It happens as a whole or not at all, whoever waits for it.
                    () = self.post.over.cancelled() => return true,
                };
                match took {
                    TookOver::Done => return true,
                    TookOver::TermOver => self.post.over.cancel(),
                    TookOver::NotNow(why) => self.complain(format!("{node} is not taken over now: {why}")),
                }
            }
            Some(Action::Begin(errand)) => {
                let over = self.post.over.clone();
                self.under_way = Some(UnderWay::begin(self.tools, errand, ring, self.holder.to_owned(), over));
            }
            None => {}
        }
        false
    }

    fn understood(&mut self, looked: Result<Option<RingState>, OriginError>) -> Option<RingState> {
        match looked {
            Ok(Some(ring)) => return Some(ring),
            Ok(None) => self.post.say("there is no ring yet"),
            Err(error) => self.complain(format!("the ring cannot be looked at now: {error}")),
        }
        None
    }

    fn complain(&mut self, line: String) {
        if self.trouble.news(line.clone()) {
            tracing::warn!("{line}");
        }
    }

    /// Until something may have happened: an errand has ended, the database says so, or some time has passed.
    async fn wait(&mut self) {
        let ended = async {
            match &mut self.under_way {
                Some(under_way) => under_way.ended().await,
                None => std::future::pending().await,
            }
        };
        let hint = async {
            // Many hints in a row, as during a change, are one.
            sleep(LOOK_PAUSE_MIN).await;
            self.tools.origin.ring_changed().await;
        };
        let ended = tokio::select! {
            well = ended => Some(well),
            () = self.post.over.cancelled() => None,
            () = sleep(LOOK_PAUSE) => None,
            () = hint => None,
        };
        if let Some((under_way, well)) = ended.and_then(|well| Some((self.under_way.take()?, well))) {
            self.controller.ended(under_way.errand, well, self.began.elapsed());
        }
    }
}
