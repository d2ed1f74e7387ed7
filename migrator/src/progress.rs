//! What the operator sees while a change runs: a bar per phase on a terminal, plain lines elsewhere. All on stderr, so that
//! stdout holds nothing but the result.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often a bar's elapsed time is drawn anew.
const TICK: Duration = Duration::from_millis(100);

/// The four phases of a change as the operator knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    fn title(self) -> &'static str {
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
    /// A line when a phase begins and one when it ends.
    Lines,
    /// Nowhere: the caller is a program.
    Silent,
}

/// The progress of one phase.
#[derive(Debug)]
pub struct PhaseProgress {
    step: Step,
    started: Instant,
    bar: Option<ProgressBar>,
    lines: bool,
}

impl Progress {
    /// Bars if stderr is a terminal, lines otherwise.
    pub fn on_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Bars(MultiProgress::new()) } else { Self::Lines }
    }

    /// One line between the phases.
    pub fn note(&self, line: &str) {
        match self {
            // A terminal that went away is no reason to stop a change.
            Self::Bars(bars) => drop(bars.println(line)),
            Self::Lines => eprintln!("{line}"),
            Self::Silent => {}
        }
    }

    /// A phase begins, of `total` units.
    pub fn phase(&self, step: Step, total: u64, unit: &'static str) -> PhaseProgress {
        let bar = match self {
            Self::Bars(bars) => Some(bars.add(new_bar(step, total, unit))),
            Self::Lines => {
                eprintln!("{}: {total} {unit}", step.title());
                None
            }
            Self::Silent => None,
        };
        PhaseProgress { step, started: Instant::now(), bar, lines: matches!(self, Self::Lines) }
    }
}

impl PhaseProgress {
    /// So many units more are done.
    pub fn advance(&self, units: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(units);
        }
    }

    /// The phase is over; answers how long it took.
    pub fn done(self, result: &str) -> Duration {
        let took = self.started.elapsed();
        if let Some(bar) = &self.bar {
            bar.finish_with_message(result.to_owned());
        }
        if self.lines {
            eprintln!("{}: {result} ({} ms)", self.step.title(), took.as_millis());
        }
        took
    }
}

fn new_bar(step: Step, total: u64, unit: &'static str) -> ProgressBar {
    let template = format!("{{prefix:21}} [{{bar:28}}] {{pos}}/{{len}} {unit} {{elapsed}} eta {{eta}} {{msg}}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_prefix(step.title());
    bar.enable_steady_tick(TICK);
    bar
}
