//! Places are given in turn, waits and queue are bounded, and no place is lost whoever goes away.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use super::*;

fn places(limit: usize) -> Arc<Places> {
    Arc::new(Places::new(limit, None))
}

#[test]
fn the_setting_is_read_and_bad_ones_are_refused() {
    assert_eq!("off".parse(), Ok(Concurrency::Off));
    assert_eq!("adaptive".parse(), Ok(Concurrency::Adaptive));
    assert_eq!("64".parse(), Ok(Concurrency::Fixed(64)));
    for text in ["", "0", "-1", "8193", "many", "Off"] {
        assert_eq!(text.parse::<Concurrency>(), Err(ConcurrencyInvalid), "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_the_places_a_quarter_waits_for_3_ms_and_the_rest_is_refused_at_once() {
    let places = places(8);
    // Eight requests that take a second each.
    let held: Vec<_> = (0..8).map(|_| Places::try_take(&places).expect("a place")).collect();
    let began = Instant::now();
    let mut surplus = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let places = Arc::clone(&places);
        surplus.spawn(async move { (Places::wait(&places).await.err(), began.elapsed()) });
    }
    let answers = surplus.join_all().await;
    let at_once = answers.iter().filter(|answer| **answer == (Some(Refused::queue_full), Duration::ZERO)).count();
    let waited = answers.iter().filter(|(refused, _)| *refused == Some(Refused::waited));
    assert_eq!(at_once, 98);
    assert!(waited.clone().count() == 2 && waited.clone().all(|(_, took)| *took <= Duration::from_millis(5)));
    assert_eq!(places.free_and_waiting(), (0, 0));
    drop(held);
    assert_eq!(places.free_and_waiting(), (8, 0));
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_the_next_place_and_nobody_overtakes() {
    let places = places(1);
    let held = Places::try_take(&places).expect("a place");
    let waiting = tokio::spawn({
        let places = Arc::clone(&places);
        async move { Places::wait(&places).await }
    });
    tokio::task::yield_now().await;
    drop(held);
    assert!(Places::try_take(&places).is_none(), "it is the waiting one's");
    assert!(waiting.await.expect("no panic").is_ok());
    assert_eq!(places.free_and_waiting(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn no_place_is_lost_whoever_goes_away_whenever_and_however_the_limit_moves() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let places = places(4);
    let mut requests = tokio::task::JoinSet::new();
    for turn in 0..20_000 {
        let (places_of_it, work) = (Arc::clone(&places), Duration::from_micros(rng.random_range(0..4000)));
        let goes_away = Duration::from_micros(rng.random_range(0..6000));
        requests.spawn(async move {
            let request = async {
                let place = match Places::try_take(&places_of_it) {
                    Some(place) => place,
                    None => match Places::wait(&places_of_it).await {
                        Ok(place) => place,
                        Err(_) => return,
                    },
                };
                sleep(work).await;
                drop(place);
            };
            // Dropped wherever it is.
            let _ = tokio::time::timeout(goes_away, request).await;
        });
        if turn % 50 == 0 {
            places.resize_for_test(rng.random_range(1..12));
        }
        if rng.random_ratio(1, 3) {
            sleep(Duration::from_micros(rng.random_range(0..3000))).await;
        }
    }
    while requests.join_next().await.is_some() {}
    let limit = places.limit.load(Ordering::Relaxed);
    assert_eq!(places.free_and_waiting(), (limit, 0));
}

#[tokio::test(start_paused = true)]
async fn answers_that_become_slow_bring_the_limit_down_and_quick_ones_bring_it_up() {
    let places = Arc::new(Places::new(limits::CONCURRENCY_FIRST, Some(OwnDelay::default())));
    // All places are in use all the time; an answer takes `takes`.
    let busy = async |takes: u64, rounds: usize| {
        for _ in 0..rounds {
            let held: Vec<_> = std::iter::from_fn(|| Places::try_take(&places)).collect();
            sleep(Duration::from_millis(takes)).await;
            held.iter().for_each(Place::answered);
        }
        places.limit.load(Ordering::Relaxed)
    };
    let quick = busy(5, 200).await;
    assert!(quick > limits::CONCURRENCY_FIRST, "{quick}");
    let slow = busy(60, 50).await;
    assert!(slow < quick / 2, "{quick} {slow}");
    assert_eq!(places.free_and_waiting(), (slow, 0));
}
