//! P8 and P9: what a route look-up costs, and how evenly users are spread.

use std::hint::black_box;
use std::time::{Duration, Instant};

use placement::{Epoch, Member, Ring, SLOT_COUNT, Slot, UserId, Weight, rebalance, ring_points};

use super::bench::Bench;
use super::ketama::Ketama;
use super::postgres::Postgres;
use super::rounds::median;
use super::section::Section;

/// Users that are looked up, and spread.
const USERS: usize = 100_000;
/// Rounds of each look-up.
const ROUNDS: usize = 5;

fn users() -> anyhow::Result<Vec<UserId>> {
    // Spread, or the processor would guess the next one.
    let id = |number: usize| format!("user-{:x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..USERS).map(|number| Ok(UserId::parse(id(number).as_bytes())?)).collect()
}

fn weights(nodes: usize, mixed: bool) -> Vec<u64> {
    (0..nodes).map(|number| if mixed { 1 << (number % 3) } else { 1 }).collect()
}

fn members(weights: &[u64]) -> anyhow::Result<Vec<Member>> {
    let member = |(number, weight): (usize, &u64)| {
        Ok(Member { id: format!("node-{number:03}").parse()?, weight: Weight::try_from(*weight as u32 * 100)? })
    };
    weights.iter().enumerate().map(member).collect()
}

fn ketama(weights: &[u64]) -> Ketama {
    let nodes: Vec<_> =
        weights.iter().enumerate().map(|(number, weight)| (format!("node-{number:03}"), *weight)).collect();
    Ketama::new(&nodes)
}

/// P8.
pub(crate) fn look_up(bench: &Bench, _: &Postgres) -> anyhow::Result<Section> {
    let header = ["nodes", "slot table", "sorted ring, 160 points a node", "ring ÷ table"];
    let mut section = Section::new("P8", "a route look-up, hash of the user included", &header);
    let users = users()?;
    for nodes in [3, 100] {
        let weights = weights(nodes, false);
        let table = ring_points::compile(Epoch(1), members(&weights)?)?;
        let ring = ketama(&weights);
        let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
        for _ in 0..bench.scale.pick(ROUNDS, 1) {
            ours.push(nanoseconds(&users, |user| table.owner_index(Slot::of_user(user))));
            theirs.push(nanoseconds(&users, |user| ring.node_of(user.as_str())));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        section.row([
            nodes.to_string(),
            format!("{ours:.1} ns"),
            format!("{theirs:.1} ns"),
            format!("{:.1}", theirs / ours),
        ]);
    }
    section.note(format!(
        "{USERS} users in an order that no processor guesses; both hash with XXH3-64; medians of {ROUNDS} rounds."
    ));
    Ok(section)
}

/// The time of a look-up of one user.
fn nanoseconds(users: &[UserId], look_up: impl Fn(&UserId) -> usize) -> f64 {
    // Until it is long enough for the clock.
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(100) {
        for user in users {
            black_box(look_up(black_box(user)));
        }
        rounds += 1;
    }
    start.elapsed().as_nanos() as f64 / (rounds * users.len()) as f64
}

/// P9.
pub(crate) fn balance(bench: &Bench, _: &Postgres) -> anyhow::Result<Section> {
    let header = [
        "nodes",
        "weights",
        "slots: busiest ÷ fair",
        "100k users: busiest ÷ fair",
        "ketama 160: the same",
        "moved on add ÷ new share",
        "ketama 160: the same",
    ];
    let mut section = Section::new("P9", "balance, and what an added node moves", &header);
    let users = users()?;
    for nodes in bench.scale.pick(vec![3, 4, 5, 8, 10, 16, 30, 50, 100], vec![3, 10]) {
        for mixed in [false, true] {
            section.row(balance_row(nodes, mixed, &users)?);
        }
    }
    section.note("Weights 1:2:4 go round; the added node has weight 1, 2 or 4 in its turn. Fair: the node's weight of all weights. Chance alone, 1,000 users to each of 100 nodes, makes the busiest about 1.08.");
    Ok(section)
}

fn balance_row(nodes: usize, mixed: bool, users: &[UserId]) -> anyhow::Result<[String; 7]> {
    let (before, after) = (weights(nodes, mixed), weights(nodes + 1, mixed));
    let ring = ring_points::compile(Epoch(1), members(&before)?)?;
    let next = rebalance::next_ring(&ring, &members(&after)?)?;
    let (old, new) = (ketama(&before), ketama(&after));
    let of_table = |ring: &Ring, user: &UserId| ring.owner_index(Slot::of_user(user));
    let share = after[nodes] as f64 / after.iter().sum::<u64>() as f64;
    let moved = ring.moves_to(&next).count() as f64 / SLOT_COUNT as f64;
    let ketama_moved = users.iter().filter(|user| old.node_of(user.as_str()) != new.node_of(user.as_str())).count();
    let two = |value: f64| format!("{value:.3}");
    Ok([
        nodes.to_string(),
        if mixed { "1:2:4" } else { "equal" }.to_owned(),
        two(busiest(&before, Slot::all().map(|slot| ring.owner_index(slot)))),
        two(busiest(&before, users.iter().map(|user| of_table(&ring, user)))),
        two(busiest(&before, users.iter().map(|user| old.node_of(user.as_str())))),
        two(moved / share),
        two(ketama_moved as f64 / users.len() as f64 / share),
    ])
}

/// The largest load for its share; node `i` has `weights[i]`.
fn busiest(weights: &[u64], loads: impl Iterator<Item = usize>) -> f64 {
    let mut counts = vec![0_u64; weights.len()];
    loads.for_each(|node| counts[node] += 1);
    let all = counts.iter().sum::<u64>() as f64;
    let total = weights.iter().sum::<u64>() as f64;
    let fill = |(count, weight): (&u64, &u64)| *count as f64 / all / (*weight as f64 / total);
    counts.iter().zip(weights).map(fill).fold(0.0, f64::max)
}
