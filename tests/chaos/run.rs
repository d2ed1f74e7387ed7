//! One run: a cluster under load and faults, then healed, compared with the origin, and its history judged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tests::chaos::logs;
use tests::clients::{Clients, ClientsOptions, Recorded};
use tests::linearizable;

use crate::heal::{agreement, heal};
use crate::report::{Passed, Ring};
use crate::schedule::{self, Planned, Schedule};
use crate::stage::Stage;

/// A third of the requests are given up by their client if they take long.
const HANGING_UP_PERCENT: u32 = 33;

/// The run of a seed with so much load.
///
/// # Errors
/// Whatever is wrong, with the schedule and where everything was saved.
pub(crate) async fn run(seed: u64, load: Duration) -> anyhow::Result<Passed> {
    let saved = saved_at(seed);
    let _ = fs::remove_dir_all(&saved);
    fs::create_dir_all(&saved)?;
    let schedule = schedule::draw(seed, load);
    fs::write(saved.join("schedule.txt"), plan_text(&schedule))?;
    let mut happened = String::new();
    let judged = attempt(seed, load, &schedule, &saved, &mut happened).await;
    let passed = judged.and_then(|passed| no_alarm(&saved).map(|()| passed));
    match passed {
        Ok(passed) => {
            fs::remove_dir_all(&saved)?;
            Ok(passed)
        }
        Err(error) => {
            fs::write(saved.join("happened.txt"), format!("{happened}\n{error:#}\n"))?;
            let plan = plan_text(&schedule);
            bail!("seed {seed}: {error:#}\n{plan}happened:\n{happened}saved in {}", saved.display())
        }
    }
}

/// `target/chaos/<seed>`.
fn saved_at(seed: u64) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
    target.join("chaos").join(seed.to_string())
}

fn plan_text(schedule: &Schedule) -> String {
    let mut text = format!("settings: {:?}\n", schedule.env);
    for planned in &schedule.faults {
        let _ = writeln!(text, "{planned}");
    }
    text
}

async fn attempt(
    seed: u64,
    load: Duration,
    schedule: &Schedule,
    saved: &Path,
    happened: &mut String,
) -> anyhow::Result<Passed> {
    let mut stage = Stage::start(schedule.env.clone(), saved).await?;
    let options = ClientsOptions {
        clients: 16,
        users: 12,
        keys_per_user: 16,
        mget_keys: 16,
        hang_ups_percent: HANGING_UP_PERCENT,
        ..ClientsOptions::default()
    };
    let clients = Clients::start(stage.doors.clone(), options, seed);
    let start = Instant::now();
    perform(&mut stage, &schedule.faults, start, happened).await?;
    tokio::time::sleep(load.saturating_sub(start.elapsed())).await;
    let loaded = start.elapsed();
    let mut recorded = clients.finish().await;
    let under_load = recorded.history.operations.len();
    let healed = heal(&mut stage, &mut recorded).await;
    let agreed = match &healed {
        Ok(_) => agreement(&mut stage, &mut recorded).await,
        Err(_) => Ok(0),
    };
    // The history first: what it shows is the cause of much else.
    let (recorded, checked) = judge(recorded, seed, saved).await?;
    let (healed, from_l2) = (healed?, agreed?);
    ensure!(recorded.protocol_errors.is_empty(), "undocumented answers: {:#?}", recorded.protocol_errors);
    Ok(Passed {
        seed,
        loaded,
        under_load,
        checked,
        errors: [recorded.read_errors, recorded.write_errors],
        hung_up: recorded.hung_up,
        faults: counts(&schedule.faults),
        notes: stage.notes.clone(),
        ring: Ring::of(stage.postgres()).await?,
        healed,
        from_l2,
    })
}

/// Does everything at its time, or as soon after as it can be done.
async fn perform(stage: &mut Stage, faults: &[Planned], start: Instant, happened: &mut String) -> anyhow::Result<()> {
    let begins = faults.iter().map(|planned| (planned.at, true, planned));
    let ends = faults.iter().map(|planned| (planned.ends(), false, planned));
    let mut steps: Vec<_> = begins.chain(ends).collect();
    steps.sort_by_key(|(at, begins, _)| (*at, !begins));
    for (at, begins, Planned { fault, .. }) in steps {
        tokio::time::sleep(at.saturating_sub(start.elapsed())).await;
        let began = start.elapsed().as_secs_f64();
        let done = if begins { stage.begin(fault).await } else { stage.end(fault).await };
        let what = if begins { "begin" } else { "end" };
        let _ = writeln!(happened, "{began:8.3} s to {:8.3} s: {what} {fault:?}", start.elapsed().as_secs_f64());
        done.with_context(|| format!("the fault cannot be carried out: {what} {fault:?}"))?;
    }
    Ok(())
}

async fn judge(recorded: Recorded, seed: u64, saved: &Path) -> anyhow::Result<(Recorded, linearizable::Checked)> {
    let saved = saved.to_owned();
    let judging = tokio::task::spawn_blocking(move || match linearizable::check(&recorded.history) {
        Ok(checked) => Ok((recorded, checked)),
        Err(violation) => {
            // In the directory of the run, which is named so.
            let at = violation.save(saved.parent().unwrap_or(&saved), seed)?;
            bail!("{violation}\nhistory and picture: {}", at.display())
        }
    });
    judging.await.context("the judge")?
}

fn counts(faults: &[Planned]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for planned in faults {
        *counts.entry(planned.fault.kind()).or_default() += 1;
    }
    counts
}

/// Looks through all logs for panics and for what audits have found.
fn no_alarm(saved: &Path) -> anyhow::Result<()> {
    for file in fs::read_dir(saved)? {
        let path = file?.path();
        let log = fs::read(&path)?;
        let log = String::from_utf8_lossy(&log);
        let alarm = log.lines().find(|line| [logs::PANIC, logs::WRONG_ENTRY].iter().any(|said| line.contains(said)));
        ensure!(alarm.is_none(), "{}: {}", path.display(), alarm.unwrap_or_default());
    }
    Ok(())
}
