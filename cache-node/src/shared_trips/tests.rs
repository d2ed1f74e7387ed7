//! Tests of who travels with whom, each trip let go by hand.

use super::*;
use tokio::sync::Semaphore;

const BOUNDS: Bounds = Bounds { trips: 1, questions: 4, waiting: 6 };

/// Answers each number with its double, as often as it is let.
struct Doubling {
    let_go: Semaphore,
    trips: Mutex<Vec<Vec<u32>>>,
}

impl RoundTrip for Doubling {
    type Question = u32;
    type Answer = u32;

    async fn make(&self, questions: Vec<u32>) -> Vec<u32> {
        self.trips.lock().expect("no test panics here").push(questions.clone());
        self.let_go.acquire().await.expect("never closed").forget();
        assert!(!questions.contains(&PANICS), "on purpose");
        questions.into_iter().map(|question| 2 * question).collect()
    }
}

/// A question over which the trip panics.
const PANICS: u32 = 13;

fn doubling(bounds: Bounds) -> Arc<SharedTrips<Doubling>> {
    let trip = Doubling { let_go: Semaphore::new(0), trips: Mutex::default() };
    SharedTrips::new(trip, bounds, TaskTracker::new())
}

/// Lets every task come as far as it can: on the one thread of a test each of them has its turn before this one has.
async fn all_wait() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

fn trips(of: &SharedTrips<Doubling>) -> Vec<Vec<u32>> {
    of.trip.trips.lock().expect("no test panics here").clone()
}

async fn answers(asked: Vec<Asked<u32>>) -> Vec<Option<u32>> {
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.answer().await);
    }
    answers
}

#[tokio::test]
async fn a_lone_question_goes_at_once_and_alone() {
    let trip = doubling(BOUNDS);
    let asked = trip.ask(1);
    all_wait().await;
    assert_eq!(trips(&trip), [[1]]);
    trip.trip.let_go.add_permits(1);
    assert_eq!(asked.answer().await, Some(2));
}

#[tokio::test]
async fn what_comes_while_a_trip_is_under_way_shares_the_next() {
    let trip = doubling(BOUNDS);
    let first = trip.ask(1);
    all_wait().await;
    let more = vec![trip.ask(2), trip.ask(3), trip.ask(4)];
    all_wait().await;
    assert_eq!(trips(&trip), [[1]], "no more trips at the same time than allowed");
    trip.trip.let_go.add_permits(2);
    assert_eq!(first.answer().await, Some(2));
    assert_eq!(answers(more).await, [Some(4), Some(6), Some(8)]);
    assert_eq!(trips(&trip), [vec![1], vec![2, 3, 4]]);
}

#[tokio::test]
async fn questions_asked_at_once_share_a_trip_from_the_first_on() {
    let trip = doubling(BOUNDS);
    let asked = trip.ask_all([1, 2, 3]);
    trip.trip.let_go.add_permits(1);
    assert_eq!(answers(asked).await, [Some(2), Some(4), Some(6)]);
    assert_eq!(trips(&trip), [[1, 2, 3]]);
}

#[tokio::test]
async fn a_trip_takes_no_more_questions_along_than_it_may() {
    let trip = doubling(BOUNDS);
    let asked = trip.ask_all([1, 2, 3, 4, 5, 6]);
    trip.trip.let_go.add_permits(2);
    assert!(answers(asked).await.iter().all(Option::is_some));
    assert_eq!(trips(&trip), [vec![1, 2, 3, 4], vec![5, 6]]);
}

#[tokio::test]
async fn beyond_the_bound_nobody_waits() {
    let trip = doubling(BOUNDS);
    let asked = trip.ask_all(0..8);
    trip.trip.let_go.add_permits(2);
    let answers = answers(asked).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_some()).count(), 6);
    assert_eq!(answers[6..], [None, None]);
}

#[tokio::test]
async fn who_goes_away_harms_nobody_and_is_not_asked_for() {
    let trip = doubling(BOUNDS);
    let (first, second) = (trip.ask(1), trip.ask(2));
    all_wait().await;
    let third = trip.ask(3);
    drop((first, second));
    trip.trip.let_go.add_permits(2);
    assert_eq!(third.answer().await, Some(6));
    let asked: Vec<u32> = trips(&trip).concat();
    assert!(asked.contains(&3), "{asked:?}");
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_any_more_is_not_sent() {
    let trip = doubling(BOUNDS);
    let first = trip.ask(1);
    all_wait().await;
    drop(trip.ask(2));
    let third = trip.ask(3);
    trip.trip.let_go.add_permits(2);
    assert_eq!((first.answer().await, third.answer().await), (Some(2), Some(6)));
    assert_eq!(trips(&trip), [[1], [3]]);
}

#[tokio::test]
async fn a_trip_that_is_given_up_leaves_nobody_waiting_and_the_next_question_travels() {
    let trip = doubling(BOUNDS);
    let lost = trip.ask(PANICS);
    all_wait().await;
    let waiting = trip.ask(2);
    trip.trip.let_go.add_permits(1);
    assert_eq!((lost.answer().await, waiting.answer().await), (None, None));
    let after = trip.ask(3);
    trip.trip.let_go.add_permits(1);
    assert_eq!(after.answer().await, Some(6));
}

#[tokio::test]
async fn the_tasks_that_travel_end_when_nobody_waits() {
    let trip = doubling(Bounds { trips: 2, ..BOUNDS });
    let asked = vec![trip.ask(1), trip.ask(2), trip.ask(3)];
    trip.trip.let_go.add_permits(3);
    assert!(answers(asked).await.iter().all(Option::is_some));
    trip.tasks.close();
    trip.tasks.wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_gets_his_own_answer_whoever_travels_with_him() {
    let trip = doubling(Bounds { trips: 3, questions: 7, waiting: 10_000 });
    trip.trip.let_go.add_permits(10_000);
    let askers: Vec<_> = (0..2000)
        .map(|number| {
            let trip = Arc::clone(&trip);
            let number = if number == PANICS { 0 } else { number };
            tokio::spawn(async move { (number, trip.ask(number).answer().await) })
        })
        .collect();
    for asker in askers {
        let (number, answer) = asker.await.expect("a task");
        assert_eq!(answer, Some(2 * number));
    }
}
