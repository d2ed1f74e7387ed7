//! Carries one command line out and prints its result.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use client::NodeClient;
use origin::{OpenOptions, Origin, RingState};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::cli::{Cli, Command, Settings};
use crate::driver::{Driver, active_change};
use crate::exit::Failure;
use crate::init::{Initialised, init};
use crate::limits::{DATABASE_CONNECTIONS, DATABASE_WAIT, SEAL_WAIT, WATCH_CONNECTIONS};
use crate::phases::add_node::{check_itself, wait_registered};
use crate::phases::{Tools, Waits};
use crate::plan::{self, PlanRefused, Verb, joining};
use crate::progress::Progress;
use crate::watch::standing::{Standing, standing};
use crate::{forecast, history, status, watch};

/// What a verb prints on stdout when it ends well.
pub struct Answer {
    text: String,
    json: String,
}

/// Carries the command out, prints its result on stdout and everything else on stderr.
pub async fn run(cli: Cli) -> ExitCode {
    let json = cli.settings.json;
    match execute(cli).await {
        Ok(answer) => {
            let result = if json { answer.json } else { answer.text };
            // A reader that has gone away is no reason to fail: what was asked for is done.
            let _ = writeln!(std::io::stdout(), "{result}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(json),
    }
}

/// Carries the command out.
pub async fn execute(cli: Cli) -> Result<Answer, Failure> {
    let connections =
        if matches!(cli.command, Command::Watch { .. }) { WATCH_CONNECTIONS } else { DATABASE_CONNECTIONS };
    let tools = tools(&cli.settings, connections)?;
    let outcome = match cli.command {
        Command::Init { nodes, wait } => {
            init(&tools.origin, &nodes, wait.get(), &tools.progress).await.map(initialised)
        }
        Command::Plan { change } => planned(&tools, &change.into()).await,
        Command::AddNode { node, wait } => change(tools.clone(), node.into(), Some(wait.get())).await,
        Command::RemoveNode { id } => change(tools.clone(), Verb::RemoveNode { id }, None).await,
        Command::SetWeight { member } => change(tools.clone(), member.into(), None).await,
        Command::Resume => {
            let driver = Driver::new(tools.clone(), service::stop::on_signals());
            driver.resume().await.map(|summary| Answer::new(summary.text(), &summary))
        }
        Command::Abort => aborted(&tools).await,
        Command::Status => {
            status::read(&tools.origin).await.map(|status| Answer::new(status.text(), &status)).map_err(Failure::from)
        }
        Command::Watch { check: true, .. } => checked(&tools).await,
        Command::Watch { grace, check: false } => Ok(watched(&tools, grace.get()).await),
        Command::History { limit } => {
            let history = history::read(&tools.origin, limit).await;
            history.map(|history| Answer::new(history.text(), &history)).map_err(Failure::from)
        }
    };
    tools.origin.close().await;
    outcome
}

impl Answer {
    fn new(text: String, document: &impl Serialize) -> Self {
        let json = serde_json::to_string(document).expect("our documents have string keys and finite numbers");
        Self { text, json }
    }
}

fn tools(settings: &Settings, max_connections: u32) -> Result<Tools, Failure> {
    let options = OpenOptions { max_connections, acquire_timeout: DATABASE_WAIT, statement_timeout: DATABASE_WAIT };
    let origin = Origin::open(&settings.database_url, options)?;
    let nodes = NodeClient::new(settings.cluster_token.clone(), SEAL_WAIT);
    let nodes = nodes.map_err(|error| Failure::Nodes(error.to_string()))?;
    Ok(Tools { origin, nodes, progress: Progress::on_stderr(), waits: Waits::default() })
}

#[derive(Serialize)]
struct InitDocument {
    outcome: &'static str,
    epoch: placement::Epoch,
}

fn initialised(done: Initialised) -> Answer {
    match done {
        Initialised::Created(epoch) => {
            Answer::new(format!("initialised at epoch {epoch}"), &InitDocument { outcome: "created", epoch })
        }
        Initialised::Already(epoch) => {
            Answer::new(format!("already initialised at epoch {epoch}"), &InitDocument { outcome: "already", epoch })
        }
    }
}

async fn ring_state(origin: &Origin) -> Result<RingState, Failure> {
    origin.ring_state().await?.ok_or(Failure::Refused(PlanRefused::NoRing))
}

async fn planned(tools: &Tools, verb: &Verb) -> Result<Answer, Failure> {
    let ring = ring_state(&tools.origin).await?;
    let plan = plan::make(&ring, verb)?;
    let forecast = forecast::of_plan(&plan, &ring.nodes, &tools.nodes).await;
    Ok(Answer::new(forecast.text(), &forecast))
}

/// Plans the change for the ring as it is now, and runs it.
async fn change(tools: Tools, verb: Verb, wait: Option<Duration>) -> Result<Answer, Failure> {
    let stop = service::stop::on_signals();
    let plan = tokio::select! {
        plan = prepared(&tools, &verb, wait) => plan?,
        () = stop.cancelled() => return Err(Failure::InterruptedBefore),
    };
    let summary = Driver::new(tools, stop).run(&plan.change(operator())).await?;
    Ok(Answer::new(summary.text(), &summary))
}

/// A plan all of whose conditions hold now.
async fn prepared(tools: &Tools, verb: &Verb, wait: Option<Duration>) -> Result<plan::Plan, Failure> {
    let ring = ring_state(&tools.origin).await?;
    // Before any wait: a wrong name should not take its time to be refused, nor a busy ring.
    if let Some(active) = ring.change {
        return Err(Failure::AnotherActive(Box::new(active)));
    }
    let (Verb::AddNode { id, .. }, Some(wait)) = (verb, wait) else { return Ok(plan::make(&ring, verb)?) };
    if ring.members.iter().any(|member| &member.id == id) {
        return Err(PlanRefused::AlreadyMember(id.clone()).into());
    }
    wait_registered(&tools.origin, std::slice::from_ref(id), wait, &tools.progress).await?;
    let ring = ring_state(&tools.origin).await?;
    check_itself(&tools.nodes, joining(&ring.nodes, id)?).await?;
    Ok(plan::make(&ring, verb)?)
}

#[derive(Serialize)]
struct AbortDocument {
    outcome: &'static str,
    change: placement::ChangeId,
    action: String,
}

async fn aborted(tools: &Tools) -> Result<Answer, Failure> {
    let active = active_change(&tools.origin).await?;
    let driver = Driver::new(tools.clone(), CancellationToken::new());
    driver.give_up(&active, &format!("aborted by {}", operator())).await?;
    let text = format!("change {} ({}) is aborted; the ring is as before", active.id, active.action);
    Ok(Answer::new(text, &AbortDocument { outcome: "aborted", change: active.id, action: active.action }))
}

#[derive(Serialize)]
struct WatchDocument {
    outcome: &'static str,
    leader: Option<String>,
}

/// Watches until a signal comes.
async fn watched(tools: &Tools, grace: Duration) -> Answer {
    // Bars and lines are for a person that waits; here what is done is logged.
    let tools = Tools { progress: Progress::Silent, ..tools.clone() };
    watch::run(tools, watch::Options { grace, holder: operator() }, service::stop::on_signals()).await;
    Answer::new("stopped".to_owned(), &WatchDocument { outcome: "stopped", leader: None })
}

async fn checked(tools: &Tools) -> Result<Answer, Failure> {
    let (text, leader) = match standing(&tools.origin).await? {
        Standing::Led(row) => (format!("led by {}: {}", row.holder, row.note), Some(row.holder)),
        Standing::Unknown => ("the database does not answer".to_owned(), None),
        Standing::Nobody => return Err(Failure::NobodyLeads),
    };
    let outcome = if leader.is_some() { "led" } else { "unknown" };
    Ok(Answer::new(text, &WatchDocument { outcome, leader }))
}

/// Host and process, for other operators to read.
pub fn operator() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    format!("{} pid {}", host.as_deref().map_or("unknown host", str::trim), std::process::id())
}
