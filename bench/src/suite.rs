//! `bench-suite`: starts servers, interleaves rounds, writes the table and the plots.

mod add_node;
mod bench;
mod cluster;
mod cold_key;
mod growth;
mod hit_ratio;
mod hits;
mod http;
mod ketama;
mod memory;
mod plot;
mod postgres;
mod process;
mod report;
mod rounds;
mod routes;
mod section;
mod servers;
mod start;
mod trace;
mod writes;

use std::time::Instant;

use bench::Bench;
use postgres::Postgres;
use process::Core;
use section::Section;

/// Compares shardcache with its peers, side by side in one run, every answer checked.
///
/// Exit code 0 only when every answer was right.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "bench-suite")]
pub struct Options {
    /// Small and short: whether it runs, not how fast
    #[arg(long)]
    pub smoke: bool,
    /// Only these measurements, such as P1,P2
    #[arg(long, value_delimiter = ',', ignore_case = true)]
    pub only: Vec<Id>,
    /// How many entries a ring change and the measurement of memory have [default: 1000000, smoke: 2000]
    #[arg(long)]
    pub entries: Option<u64>,
    /// Write the section of docs/MEASUREMENTS.md and the plots of docs/img
    #[arg(long)]
    pub record: bool,
}

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs, reason = "the table below says what they are")]
pub enum Id {
    P1,
    P2,
    P3,
    P4,
    P5,
    P6,
    P7,
    P8,
    P9,
    P10,
    P11,
    P12,
    P13,
}

type Measure = fn(&Bench, &Postgres) -> anyhow::Result<Section>;

const ALL: [(Id, Measure); 13] = [
    (Id::P1, hits::l1_hit),
    (Id::P2, hits::hop),
    (Id::P3, hits::whole_path),
    (Id::P4, hits::l2_hit),
    (Id::P5, cold_key::cold_key),
    (Id::P6, writes::writes),
    (Id::P7, add_node::add_node),
    (Id::P8, routes::look_up),
    (Id::P9, routes::balance),
    (Id::P10, memory::memory),
    (Id::P11, hit_ratio::hit_ratio),
    (Id::P12, growth::growth),
    (Id::P13, start::start),
];

/// Runs what is asked for; whether every answer was right.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let bench = Bench::new(options)?;
    let postgres = Postgres::start(&bench)?;
    let start = Instant::now();
    let (mut sections, mut failed) = (Vec::new(), 0);
    for (id, measure) in ALL {
        if !options.only.is_empty() && !options.only.contains(&id) {
            continue;
        }
        let began = Instant::now();
        postgres.process.pin(Core::Load)?;
        match measure(&bench, &postgres) {
            Ok(section) => {
                println!("{}", section.markdown());
                sections.push(section);
            }
            // The others are worth having.
            Err(error) => {
                eprintln!("{id:?} failed: {error:#}");
                failed += 1;
            }
        }
        eprintln!("{id:?}: {:.0} s, {:.0} s in all", began.elapsed().as_secs_f64(), start.elapsed().as_secs_f64());
    }
    let text = report::text(&bench, &postgres, options, &sections, start.elapsed())?;
    report::keep(options, &text, &sections)?;
    let errors: u64 = sections.iter().map(|section| section.errors).sum();
    if errors > 0 {
        eprintln!("{errors} answers were wrong or failed");
    }
    Ok(errors == 0 && failed == 0)
}
