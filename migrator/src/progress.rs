//! What the operator sees while a change runs: a bar per phase on a terminal, plain lines elsewhere, both on stderr; or, for
//! programs, one event per line on stdout.

mod copy_progress;
pub mod events;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::pace::Over;
use crate::summary::milliseconds;

pub(crate) use copy_progress::CopyProgress;
use events::Event;

/// How often a bar's elapsed time is drawn anew.
const TICK: Duration = Duration::from_millis(100);

/// The four phases of a change as the operator knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The change is journaled.
    AddNode,
    /// The receivers are filled.
    CopyKeys,
    /// The old owners are sealed and the ring is flipped.
    FlipEpoch,
    /// The old owners confirm.
    ExpireOld,
}

impl Step {
    /// Its number and name.
    pub fn title(self) -> &'static str {
        match self {
            Self::AddNode => "[1/4] add node",
            Self::CopyKeys => "[2/4] copy keys",
            Self::FlipEpoch => "[3/4] flip ring epoch",
            Self::ExpireOld => "[4/4] expire old",
        }
    }
}

/// Where progress goes.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Bars on the terminal.
    Bars(MultiProgress),
    /// Lines on stderr: when a phase begins and ends, and now and then in between.
    Lines,
    /// Events on stdout.
    Events,
    /// Nowhere: the caller is a program.
    Silent,
}

/// The progress of one phase.
#[derive(Debug)]
pub struct PhaseProgress {
    step: Step,
    started: Instant,
    to: Progress,
    bar: Option<ProgressBar>,
    done: AtomicU64,
    total: u64,
}

impl Progress {
    /// Bars if stderr is a terminal, lines otherwise.
    pub fn on_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Bars(MultiProgress::new()) } else { Self::Lines }
    }

    /// One line between the phases.
    pub fn note(&self, line: &str) {
        match self {
            Self::Events => events::print(&Event::Note { text: line }),
            _ => self.line(line),
        }
    }

    /// Copying pauses.
    pub(crate) fn paused(&self, because: &Over) {
        let reason = because.to_string();
        match self {
            Self::Events => events::print(&Event::Paused { reason: &reason }),
            _ => self.line(&format!("copying is paused: {reason}")),
        }
    }

    /// Copying goes on.
    pub(crate) fn resumed(&self) {
        match self {
            Self::Events => events::print(&Event::Resumed),
            _ => self.line("copying goes on"),
        }
    }

    fn line(&self, line: &str) {
        match self {
            // A terminal that went away is no reason to stop a change.
            Self::Bars(bars) => drop(bars.println(line)),
            Self::Lines => eprintln!("{line}"),
            Self::Events | Self::Silent => {}
        }
    }

    /// A phase begins, of `total` units.
    pub fn phase(&self, step: Step, total: u64, unit: &'static str) -> PhaseProgress {
        let template = format!("{{prefix:21}} [{{bar:28}}] {{pos}}/{{len}} {unit} {{elapsed}} eta {{eta}} {{msg}}");
        if let Self::Lines = self {
            eprintln!("{}: {total} {unit}", step.title());
        }
        self.begin(step, total, unit, &template)
    }

    fn begin(&self, step: Step, total: u64, unit: &'static str, template: &str) -> PhaseProgress {
        let bar = match self {
            Self::Bars(bars) => Some(bars.add(new_bar(step, total, template))),
            Self::Events => {
                events::print(&Event::PhaseBegan { phase: step, total, unit });
                None
            }
            Self::Lines | Self::Silent => None,
        };
        PhaseProgress { step, started: Instant::now(), to: self.clone(), bar, done: AtomicU64::new(0), total }
    }
}

impl PhaseProgress {
    /// So many units more are done.
    pub fn advance(&self, units: u64) {
        let done = self.done.fetch_add(units, Ordering::Relaxed) + units;
        if let Some(bar) = &self.bar {
            bar.inc(units);
        }
        if let Progress::Events = self.to {
            events::print(&Event::Progress { phase: self.step, done, total: self.total });
        }
    }

    /// The phase is over; answers how long it took.
    pub fn done(self, result: &str) -> Duration {
        let took = self.started.elapsed();
        match &self.to {
            Progress::Lines => eprintln!("{}: {result} ({} ms)", self.step.title(), took.as_millis()),
            Progress::Events => {
                events::print(&Event::PhaseEnded { phase: self.step, result, ms: milliseconds(took) });
            }
            Progress::Bars(_) | Progress::Silent => {}
        }
        if let Some(bar) = &self.bar {
            bar.finish_with_message(result.to_owned());
        }
        took
    }
}

fn new_bar(step: Step, total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_prefix(step.title());
    bar.enable_steady_tick(TICK);
    bar
}
