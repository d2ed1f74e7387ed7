//! The whole report: on what it was measured, and where it is kept.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::Options;
use super::bench::Bench;
use super::postgres::Postgres;
use super::process::run;
use super::section::{Section, count};
use crate::limits;

/// Between these lines is what `--record` writes.
const BEGIN: &str = "<!-- written by bench/run.sh --record: begin -->";
/// Below this load average a machine is quiet; a build just before leaves some of it.
const QUIET_LOAD: f64 = 2.5;
const END: &str = "<!-- written by bench/run.sh --record: end -->";

/// The section of `docs/MEASUREMENTS.md`.
pub(crate) fn text(
    bench: &Bench,
    postgres: &Postgres,
    options: &Options,
    sections: &[Section],
    took: Duration,
) -> anyhow::Result<String> {
    let mut text = format!(
        "## Side by side with peers ({}, commit {}{})\n",
        said("date", &["+%-d %B %Y"]),
        said("git", &["rev-parse", "--short", "HEAD"]),
        if said("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty() { "" } else { ", changed since" },
    );
    // Writing to a String cannot fail.
    let _ = writeln!(text, "`{}`, {:.0} s. {}.", command(options), took.as_secs_f64(), versions(postgres)?);
    let cores = if bench.cores.is_one() {
        "One core for everything: the ratios hold, but the load takes its part of each."
    } else {
        "Servers under test on one core, load on the other, unless a table says otherwise."
    };
    let scale = &bench.scale;
    let _ = writeln!(
        text,
        "{} {cores} Medians of {} rounds of {} s in turn (A B A B …); \"rounds\" has the slowest and the fastest. \
         All {} answers counted were checked, status and body. CPU µs: user and system time of the servers under test per answer. \
         Cores busy: the servers' core with them · the load's core with the load and what else works for them: \
         where only the second is full, rps says nothing of the servers, and CPU µs is the ratio to read.",
        processor(),
        scale.rounds,
        scale.seconds,
        count(sections.iter().map(|section| section.answers).sum::<u64>() as f64)
    );
    if cfg!(debug_assertions) {
        text.push_str("\n**A build for debugging: the figures mean nothing.**\n");
    }
    if bench.load_before > QUIET_LOAD {
        let load = bench.load_before;
        let _ = writeln!(
            text,
            "\n**The machine was busy with something else (load {load:.1} before the run): the figures say little.**"
        );
    }
    for section in sections {
        text.push('\n');
        text.push_str(&section.markdown());
    }
    Ok(text)
}

fn command(options: &Options) -> String {
    let mut line = "bench/run.sh".to_owned();
    if options.smoke {
        line.push_str(" --smoke");
    }
    if let Some(entries) = options.entries {
        let _ = write!(line, " --entries {entries}");
    }
    if !options.only.is_empty() {
        let ids: Vec<String> = options.only.iter().map(|id| format!("{id:?}")).collect();
        let _ = write!(line, " --only {}", ids.join(","));
    }
    line
}

/// What a command says, in one line; nothing if it cannot be run.
fn said(program: &str, args: &[&str]) -> String {
    let said = run(Command::new(program).args(args).env("LC_ALL", "C"), limits::ANSWER).unwrap_or_default();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let name = name.trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {}.", if name.is_empty() { "an unnamed processor" } else { name })
}

fn versions(postgres: &Postgres) -> anyhow::Result<String> {
    // nginx tells its version on stderr only.
    let nginx = Command::new("nginx").arg("-v").output().map(|output| output.stderr).unwrap_or_default();
    let nginx = String::from_utf8_lossy(&nginx).trim().rsplit('/').next().unwrap_or_default().to_owned();
    let word = |text: String, number: usize| text.split(' ').nth(number).unwrap_or_default().to_owned();
    let redis = word(said("redis-server", &["--version"]), 2);
    Ok(format!(
        "rustc {}, nginx {nginx}, haproxy {}, Redis {}, PostgreSQL {}, memcached {}, Linux {}",
        word(said("rustc", &["--version"]), 1),
        word(said("haproxy", &["-v"]), 2),
        redis.trim_start_matches("v="),
        postgres.version()?,
        word(said("memcached", &["--version"]), 1),
        said("uname", &["-r"]),
    ))
}

/// Keeps the report in `target/bench`, and in `docs/` if it is to be recorded.
pub(crate) fn keep(options: &Options, text: &str, sections: &[Section]) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the package is in the repository")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from).join("bench");
    write_plots(&target.join("img"), sections)?;
    let path = target.join("report.md");
    std::fs::write(&path, text)?;
    eprintln!("the report is in {}", path.display());
    if options.record {
        write_plots(&root.join("docs/img"), sections)?;
        let document = root.join("docs/MEASUREMENTS.md");
        let before = std::fs::read_to_string(&document)?;
        std::fs::write(&document, replaced(&before, text).context("docs/MEASUREMENTS.md has lost its marks")?)?;
    }
    Ok(())
}

fn write_plots(directory: &Path, sections: &[Section]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (file, svg) in sections.iter().flat_map(|section| &section.plots) {
        std::fs::write(directory.join(file), svg)?;
    }
    Ok(())
}

/// The document with `text` between the marks.
fn replaced(document: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{text}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replaced(&document, "new\n"), Some(format!("a\n{BEGIN}\nnew\n{END}\nb\n")));
        assert_eq!(replaced("no marks", "new"), None);
    }
}
