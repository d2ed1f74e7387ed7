//! Carries one command line out and prints its result.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use client::NodeClient;
use origin::{OpenOptions, Origin};
use serde::Serialize;
use service::settings::HumanDuration;
use tokio_util::sync::CancellationToken;

use crate::assign::{self, Assignment};
use crate::change::{self, Asked};
use crate::cli::{Cli, Command, How, Settings};
use crate::driver::{Driver, active_change};
use crate::exit::{self, Failure, Output};
use crate::init::{Initialised, init};
use crate::limits::{DATABASE_CONNECTIONS, DATABASE_WAIT, SEAL_WAIT, WATCH_CONNECTIONS};
use crate::phases::{Tools, Waits};
use crate::plan::{self, Verb};
use crate::progress::Progress;
use crate::progress::events::ResultLine;
use crate::watch::standing::{Standing, standing};
use crate::{forecast, history, operator, status, suggest, watch};

/// What a verb prints on stdout when it ends well.
pub struct Answer {
    text: String,
    json: String,
    last_event: String,
}

/// Carries the command out, prints its result on stdout and everything else on stderr.
pub async fn run(cli: Cli) -> ExitCode {
    let output = output(&cli);
    match execute(cli).await {
        Ok(answer) => {
            let result = answer.line(output);
            // A reader that has gone away is no reason to fail: what was asked for is done.
            let _ = writeln!(std::io::stdout(), "{result}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(output),
    }
}

/// Changes that run are told of as they go on.
fn output(cli: &Cli) -> Output {
    match (cli.settings.json, &cli.command) {
        (false, _) => Output::Text,
        (
            true,
            Command::AddNode { .. }
            | Command::RemoveNode { .. }
            | Command::ReplaceNode { .. }
            | Command::SetWeight { .. }
            | Command::AssignUser { .. }
            | Command::Resume { .. },
        ) => Output::Events,
        (true, _) => Output::Json,
    }
}

/// Carries the command out.
pub async fn execute(cli: Cli) -> Result<Answer, Failure> {
    let connections =
        if matches!(cli.command, Command::Watch { .. }) { WATCH_CONNECTIONS } else { DATABASE_CONNECTIONS };
    let tools = tools(&cli.settings, output(&cli), connections)?;
    let outcome = match cli.command {
        Command::Init { nodes, wait } => {
            init(&tools.origin, &nodes, wait.get(), &tools.progress).await.map(initialised)
        }
        Command::Suggest { limit, above } => suggested(&tools, limit as usize, above).await,
        Command::Plan { change } => planned(&tools, &change.into()).await,
        Command::AddNode { node, wait, how } => changed(&tools, node.into(), Some(wait), &how).await,
        Command::RemoveNode { id, how } => changed(&tools, Verb::RemoveNode { id }, None, &how).await,
        Command::ReplaceNode { nodes, wait, how } => changed(&tools, nodes.into(), Some(wait), &how).await,
        Command::SetWeight { member, how } => changed(&tools, member.into(), None, &how).await,
        Command::AssignUser { user, file, pool, copy } => {
            let assignment = Assignment { users: assign::users_of(user, file)?, pool, copy: copy.order() };
            assign::run(&tools, &assignment).await.map(|assigned| Answer::new(assigned.text(), &assigned))
        }
        Command::Resume { copy } => {
            let driver = Driver::new(tools.clone(), service::stop::on_signals()).copying(copy.order());
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
        Self { text, json: exit::json(document), last_event: exit::json(&ResultLine::of(document)) }
    }

    fn line(self, output: Output) -> String {
        match output {
            Output::Text => self.text,
            Output::Json => self.json,
            Output::Events => self.last_event,
        }
    }
}

fn tools(settings: &Settings, output: Output, max_connections: u32) -> Result<Tools, Failure> {
    let options = OpenOptions { max_connections, acquire_timeout: DATABASE_WAIT, statement_timeout: DATABASE_WAIT };
    let origin = Origin::open(&settings.database_url, options)?;
    let dialler = settings.node_tls.dialler(None).map_err(|error| Failure::Nodes(format!("{error:#}")))?;
    let nodes = NodeClient::new(settings.cluster_token.clone(), dialler, SEAL_WAIT);
    let progress = if output == Output::Events { Progress::Events } else { Progress::on_stderr() };
    Ok(Tools { origin, nodes, progress, waits: Waits::default() })
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

async fn planned(tools: &Tools, verb: &Verb) -> Result<Answer, Failure> {
    let ring = change::ring_state(&tools.origin).await?;
    let plan = plan::make(&ring, verb)?;
    let forecast = forecast::of_plan(&plan, &ring.nodes, &tools.nodes).await;
    Ok(Answer::new(forecast.text(), &forecast))
}

async fn suggested(tools: &Tools, limit: usize, above: f64) -> Result<Answer, Failure> {
    let ring = change::ring_state(&tools.origin).await?;
    let suggestion = suggest::of_cluster(&ring, &tools.nodes, suggest::Wanted { above, limit }).await?;
    Ok(Answer::new(suggestion.text(), &suggestion))
}

async fn changed(tools: &Tools, verb: Verb, wait: Option<HumanDuration>, how: &How) -> Result<Answer, Failure> {
    let wait = wait.map_or(Duration::ZERO, HumanDuration::get);
    let asked = Asked { verb, wait, at_epoch: how.epoch(), copy: how.copy.order() };
    let summary = change::run(tools, &asked, service::stop::on_signals()).await?;
    Ok(Answer::new(summary.text(), &summary))
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
    driver.give_up(&active, &format!("aborted by {}", operator::name())).await?;
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
    watch::run(tools, watch::Options { grace, holder: operator::name() }, service::stop::on_signals()).await;
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
