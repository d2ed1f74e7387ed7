//! P5: a thousand readers of one key that nobody holds.

use super::bench::Bench;
use super::cluster::Cluster;
use super::postgres::Postgres;
use super::process::Core;
use super::rounds::{Shape, load};
use super::section::Section;
use super::servers;

/// How many ask at once.
const READERS: usize = 1000;

/// P5.
pub(crate) fn cold_key(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    let redis = servers::redis(bench, Core::Load)?;
    let cluster = Cluster::start(bench, postgres.database("p5")?, Some(&redis), Core::Server, 1, "1GiB")?;
    let gateway = cluster.gateway(Core::Server)?;
    let mut section = Section::new(
        "P5",
        "a thousand readers of one cold key",
        &["asked", "keys in turn", "readers each", "origin reads each", "right answers", "errors"],
    );
    let mut shape = Shape::reads(bench, READERS, 256);
    let turns = bench.scale.pick(5, 2);
    cluster.database.insert_entries(shape.space, 2 * turns)?;
    for (number, (name, target)) in
        [("the node", cluster.node()?.address), ("the gateway", gateway.address)].into_iter().enumerate()
    {
        let (mut reads, mut answers, mut errors) = (Vec::new(), 0, 0);
        for turn in 0..turns {
            let key = number as u64 * turns + turn;
            shape.keys = 1;
            let more = ["--first-key", &key.to_string(), "--requests", &READERS.to_string()];
            let before = cluster.origin_reads()?;
            let report = load(bench, target, &shape, Core::Load, &more)?;
            reads.push(cluster.origin_reads()? - before);
            answers += report.answers;
            errors += report.errors.values().sum::<u64>();
        }
        let (least, most) =
            (reads.iter().copied().fold(f64::INFINITY, f64::min), reads.iter().copied().fold(0.0, f64::max));
        let each = if least == most { format!("{least:.0}") } else { format!("{least:.0}–{most:.0}") };
        section.answers += answers;
        section.errors += errors;
        section.row([
            name.to_owned(),
            turns.to_string(),
            READERS.to_string(),
            each,
            answers.to_string(),
            errors.to_string(),
        ]);
    }
    section.note("Each reader has a connection of its own, open before; all ask in one go. Origin reads as the node's metric counts them.");
    Ok(section)
}
