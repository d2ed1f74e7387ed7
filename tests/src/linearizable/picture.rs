//! A violation as an SVG timeline: a row per client, a bar per operation, the minimal ones red.
//!
//! The axis keeps the order of all begins and ends, not their distances: a stale read a minute later would else leave
//! nothing to see. Colours follow the reader's scheme; nothing is loaded from elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use super::Violation;
use super::report::ms;
use crate::history::Operation;

/// The most operations drawn: the minimal ones, and what goes on around them.
const DRAWN: usize = 60;
/// Pixels.
const LEFT: f64 = 90.0;
const TOP: f64 = 86.0;
const LANE: f64 = 30.0;
const BAR: f64 = 22.0;
/// Between two moments, at least and at most.
const GAP: (f64, f64) = (14.0, 110.0);
/// Pixels of a character of the labels.
const CHARACTER: f64 = 7.0;

const STYLE: &str = "\
text{font:12px ui-monospace,monospace;fill:#1b1f24}.title{font-weight:bold}.faint{fill:#57606a}\
.page{fill:#ffffff}.row{stroke:#d0d7de}.tick{stroke:#d0d7de;stroke-dasharray:2 3}\
.bar{fill:#ddf4ff;stroke:#0969da}.wrong{fill:#ffd7d5;stroke:#cf222e;stroke-width:2}.open{stroke-dasharray:5 3}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.page{fill:#0d1117}\
.row{stroke:#3d444d}.tick{stroke:#3d444d}.bar{fill:#12324f;stroke:#4493f8}.wrong{fill:#5d1a1f;stroke:#f85149}}";

/// An operation with its place.
struct Bar<'a> {
    operation: &'a Operation,
    wrong: bool,
    lane: usize,
}

/// The drawing, as the text of an SVG file.
pub(super) fn timeline(violation: &Violation, seed: u64) -> String {
    let drawn = drawn(violation);
    let moments = moments(&drawn);
    let width = moments.values().fold(LEFT, |right, x| right.max(*x)) + 180.0;
    let (bars, lanes) = lanes(drawn, violation, &moments, width);
    let height = TOP + lanes.values().sum::<usize>() as f64 * LANE + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"12\" y=\"22\">seed {seed}, key {}: {}</text>\n\
         <text class=\"faint\" x=\"12\" y=\"40\">red: the minimal history; dashed: outcome unknown; \
         milliseconds, in order but not to scale</text>\n",
        violation.key, violation.wrong
    );
    draw_ticks(&mut svg, violation, &moments, height);
    let mut top = TOP;
    for (client, count) in &lanes {
        let label = top + LANE / 2.0 + 4.0;
        let _ = writeln!(svg, "<line class=\"row\" x1=\"0\" x2=\"{width:.0}\" y1=\"{top:.0}\" y2=\"{top:.0}\"/>");
        let _ = writeln!(svg, "<text x=\"12\" y=\"{label:.0}\">client {client}</text>");
        for bar in bars.iter().filter(|bar| bar.operation.client == *client) {
            draw(&mut svg, bar, top + bar.lane as f64 * LANE, &moments, width);
        }
        top += *count as f64 * LANE;
    }
    svg + "</svg>\n"
}

/// The minimal operations, and as many of the others as fit that overlap their time, those nearest to an end of it first.
fn drawn(violation: &Violation) -> Vec<&Operation> {
    let minimal = &violation.minimal[..violation.minimal.len().min(DRAWN)];
    let from = minimal.iter().map(|operation| operation.begun).min().unwrap_or_default();
    let to = minimal.iter().map(|operation| operation.ended).max().unwrap_or_default();
    let beside = violation.operations.iter().filter(|operation| operation.ended >= from && operation.begun <= to);
    let mut beside: Vec<_> = beside.filter(|operation| !minimal.contains(operation)).collect();
    let distance = |operation: &Operation| {
        minimal.iter().map(|near| near.begun.abs_diff(operation.begun)).min().unwrap_or_default()
    };
    beside.sort_by_key(|operation| distance(operation));
    beside.truncate(DRAWN - minimal.len());
    let mut drawn: Vec<_> = minimal.iter().chain(beside).collect();
    drawn.sort_by_key(|operation| operation.begun);
    drawn
}

/// Where each begin and end is drawn. A label must fit between a begin and the next end of its own, where it can.
fn moments(drawn: &[&Operation]) -> BTreeMap<Duration, f64> {
    let ends = drawn.iter().filter_map(|operation| operation.settled());
    let times: BTreeSet<_> = drawn.iter().map(|operation| operation.begun).chain(ends).collect();
    let gaps: Vec<f64> = times.iter().zip(times.iter().skip(1)).map(|(a, b)| (*b - *a).as_secs_f64()).collect();
    let mut sorted = gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or_default().max(1e-9);
    let mut x = LEFT + 10.0;
    let gaps = [0.0].into_iter().chain(gaps.into_iter().map(|gap| (gap / middle * 3.0 * GAP.0).clamp(GAP.0, GAP.1)));
    times
        .into_iter()
        .zip(gaps)
        .map(|(time, gap)| {
            (time, {
                x += gap;
                x
            })
        })
        .collect()
}

/// Each operation in the first lane of its client that is free; lanes per client.
fn lanes<'a>(
    drawn: Vec<&'a Operation>,
    violation: &Violation,
    moments: &BTreeMap<Duration, f64>,
    width: f64,
) -> (Vec<Bar<'a>>, BTreeMap<u32, usize>) {
    let mut free: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let mut bars = Vec::new();
    for operation in drawn {
        let (begin, end) = extent(operation, moments, width);
        let lanes = free.entry(operation.client).or_default();
        let lane = lanes.iter().position(|free| *free <= begin).unwrap_or_else(|| {
            lanes.push(0.0);
            lanes.len() - 1
        });
        // The label may be longer than the bar.
        lanes[lane] = end.max(begin + label_width(operation));
        bars.push(Bar { operation, wrong: violation.minimal.contains(operation), lane });
    }
    (bars, free.into_iter().map(|(client, lanes)| (client, lanes.len())).collect())
}

fn label_width(operation: &Operation) -> f64 {
    operation.to_string().chars().count() as f64 * CHARACTER + 8.0
}

fn extent(operation: &Operation, moments: &BTreeMap<Duration, f64>, width: f64) -> (f64, f64) {
    let end = operation.settled().map_or(width, |ended| moments[&ended]);
    (moments[&operation.begun], end)
}

fn draw(svg: &mut String, bar: &Bar<'_>, top: f64, moments: &BTreeMap<Duration, f64>, width: f64) {
    let Bar { operation, wrong, .. } = bar;
    let (begin, end) = extent(operation, moments, width);
    let class = if *wrong { "wrong" } else { "bar" };
    let open = if operation.settled().is_none() { " open" } else { "" };
    let ended = operation.settled().map_or_else(|| "open".to_owned(), ms);
    let y = top + (LANE - BAR) / 2.0;
    let _ = writeln!(
        svg,
        "<g><title>client {}: {operation}, {} to {ended} ms</title><rect class=\"{class}{open}\" x=\"{begin:.1}\" \
         y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"3\"/><text x=\"{:.1}\" y=\"{:.1}\">{operation}</text></g>",
        operation.client,
        ms(operation.begun),
        (end - begin).max(2.0),
        begin + 4.0,
        y + 15.0,
    );
}

/// Lines at the begins and ends of the minimal operations, with their times where there is room.
fn draw_ticks(svg: &mut String, violation: &Violation, moments: &BTreeMap<Duration, f64>, height: f64) {
    let ends = violation.minimal.iter().filter_map(Operation::settled);
    let times: BTreeSet<_> = violation.minimal.iter().map(|operation| operation.begun).chain(ends).collect();
    let (low, bottom) = (TOP - 8.0, height - 20.0);
    let mut labelled = [0.0, 0.0];
    for (time, x) in times.into_iter().filter_map(|time| Some((time, moments.get(&time)?))) {
        let _ = writeln!(svg, "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.0}\" y2=\"{bottom:.0}\"/>");
        let label = ms(time);
        let half = label.len() as f64 * CHARACTER / 2.0;
        if let Some(line) = labelled.iter().position(|right| *right <= x - half) {
            let y = low - 4.0 - line as f64 * 14.0;
            labelled[line] = x + half + 8.0;
            let _ =
                writeln!(svg, "<text class=\"faint\" x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"middle\">{label}</text>");
        }
    }
}
