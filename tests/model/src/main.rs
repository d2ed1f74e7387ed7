//! The long form of the search: all environments, or what the absence of each guard leads to.
//!
//! `model`: every environment under the whole protocol, in a table. `model mutations`: every guard taken away, with the length
//! of the shortest way to a violation. `model trace NAME`: that way, step by step.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::cases::{Case, needed, superfluous};
use model::catalogue::environments;
use model::environment::Environment;
use model::mutation::Rules;
use model::search::{Bounds, Found, search};
use model::step::Model;

/// For two searches at a time these take up to 8 GB.
const LONG: Bounds = Bounds { states: 12_000_000, depth: usize::MAX, seconds: 1200.0 };

const USAGE: &str = "usage: model [mutations | trace NAME]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => search_environments(),
        ["mutations"] => search_cases(),
        ["trace", name] => trace(name),
        ["trace"] => refuse("trace needs the name of a mutation"),
        [unknown, ..] => refuse(&format!("unknown argument {unknown:?}, or too many of them")),
    }
}

fn refuse(reason: &str) -> ExitCode {
    eprintln!("{reason}\n{USAGE}");
    ExitCode::from(2)
}

/// Does all the work on all cores, and tells of each as soon as it is done.
fn on_all_cores<W: Sync>(work: &[W], one: impl Fn(&W) -> bool + Sync) -> bool {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    let next = AtomicUsize::new(0);
    let good = Mutex::new(true);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(work) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !one(work) {
                        *good.lock().expect("no worker panics while it holds this") = false;
                    }
                }
            });
        }
    });
    good.into_inner().expect("no worker panics while it holds this")
}

fn search_environments() -> ExitCode {
    println!("| environment | what happens | states | depth | exhausted | seconds |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let all = environments();
    let holds = on_all_cores(&all, |environment: &Environment| {
        let found = search(&Model::new(environment.clone(), Rules::WHOLE), LONG);
        let Found { states, depth, seconds, .. } = found;
        let exhausted = if found.exhausted { "yes" } else { "no" };
        let (name, about) = (environment.name, environment.about);
        println!("| `{name}` | {about} | {states} | {depth} | {exhausted} | {seconds:.0} |");
        if let Some(counterexample) = &found.counterexample {
            println!("\n{name}: the protocol does not hold\n{counterexample}");
        }
        found.counterexample.is_none()
    });
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn search_cases() -> ExitCode {
    println!("| without | a client can tell after | states | exhausted | first broken |");
    println!("| --- | --- | --- | --- | --- |");
    let expect = |cases: Vec<Case>, violated: bool| {
        on_all_cores(&cases, |case: &Case| {
            let found = search(&Model::new(case.environment.clone(), Rules(case.without)), LONG);
            let states = found.states;
            let after = match &found.counterexample {
                Some(counterexample) => format!("{} steps", counterexample.steps.len()),
                None => "none".to_owned(),
            };
            let exhausted = if found.exhausted { "yes" } else { "no" };
            let strict = Model::new(case.environment.clone(), Rules(case.without)).with_invariants();
            let bounds = Bounds { depth: found.depth, ..LONG };
            let first = match violated.then(|| search(&strict, bounds).counterexample).flatten() {
                Some(broken) => format!("{} after {}", broken.violation.name(), broken.steps.len()),
                None => String::new(),
            };
            println!("| `{}` | {after} | {states} | {exhausted} | {first} |", case.name);
            found.counterexample.is_some() == violated
        })
    };
    let as_expected = expect(needed(), true) & expect(superfluous(), false);
    if as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn trace(name: &str) -> ExitCode {
    let Some(case) = needed().into_iter().chain(superfluous()).find(|case| case.name == name) else {
        let names: Vec<_> = needed().iter().chain(&superfluous()).map(|case| case.name).collect();
        return refuse(&format!("there is no mutation {name:?}, but there are {}", names.join(", ")));
    };
    let found = search(&Model::new(case.environment, Rules(case.without)), LONG);
    match found.counterexample {
        Some(counterexample) => println!("{counterexample}"),
        None if found.exhausted => println!("no violation in all {} states", found.states),
        None => println!("no violation in the first {} states, up to step {}", found.states, found.depth),
    }
    ExitCode::SUCCESS
}
