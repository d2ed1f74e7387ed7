//! Which keys are drawn, and what becomes of every kind of answer.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use reqwest::header::HeaderMap;

use super::answers::{Failure, of_get, of_mget, of_write};
use super::*;
use crate::http::{Answer, client, send};

fn run() -> Run {
    let options = ClientsOptions::default();
    Run {
        seed: 9,
        doors: Vec::new(),
        keys: Mutex::new(Keys::new(&options)),
        options,
        started: Instant::now(),
        last_value: AtomicU64::new(0),
        answered: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    }
}

fn answer(status: u16, tag: &'static str, body: &str) -> Result<Answer, reqwest::Error> {
    let mut headers = HeaderMap::new();
    headers.insert("etag", tag.parse().expect("a header"));
    Ok(Answer { status, headers, body: Bytes::copy_from_slice(body.as_bytes()) })
}

fn problem(status: u16, code: &str) -> Result<Answer, reqwest::Error> {
    answer(status, "", &format!("{{\"code\":\"{code}\"}}"))
}

#[test]
fn a_key_is_replaced_after_its_operations_and_read_again_as_an_old_one() {
    let mut keys =
        Keys::new(&ClientsOptions { users: 2, keys_per_user: 2, operations_per_key: 5, ..Default::default() });
    let mut chance = SmallRng::seed_from_u64(1);
    assert_eq!(keys.draw_old(&mut chance), None);
    let mut drawn: HashMap<u32, u64> = HashMap::new();
    for _ in 0..200 {
        *drawn.entry(keys.draw(&mut chance)).or_default() += 1;
    }
    assert!(drawn.values().all(|count| *count <= 5) && drawn.len() >= 40, "{drawn:?}");
    assert!(keys.names().len() >= 40);
    let old = (0..50).find_map(|_| keys.draw_old(&mut chance)).expect("there are old keys");
    assert_eq!(drawn[&old], 5);
}

#[test]
fn keys_that_are_read_together_differ_and_are_of_one_user() {
    let mut keys = Keys::new(&ClientsOptions::default());
    let mut chance = SmallRng::seed_from_u64(1);
    let together: BTreeSet<_> = keys.draw_together(9, &mut chance).into_iter().collect();
    let users: BTreeSet<_> = together.iter().map(|key| &keys.names()[*key as usize].user).collect();
    assert_eq!((together.len(), users.len()), (3, 1));
}

#[test]
fn a_read_is_a_value_of_this_run_with_its_version_or_none() {
    let run = run();
    assert_eq!(of_get(&run, answer(200, "\"7\"", "9:3")), Ok(Some((3, 7))));
    assert_eq!(of_get(&run, problem(404, "entry_not_found")), Ok(None));
    for strange in [
        answer(200, "\"7\"", "8:3"),
        answer(200, "\"7\"", "93"),
        answer(200, "7", "9:3"),
        answer(500, "", ""),
        problem(404, "not_found"),
        problem(200, "overloaded"),
        problem(504, "write_outcome_unknown"),
        problem(421, "wrong_owner"),
    ] {
        assert!(matches!(of_get(&run, strange), Err(Failure::Strange(_))));
    }
}

#[test]
fn a_documented_refusal_counts_as_not_executed_only_under_its_status() {
    let put = Action::Put(1);
    for (status, code) in [(503, "owner_unavailable"), (503, "overloaded"), (408, "request_timeout")] {
        assert_eq!(of_write(put, problem(status, code)), (Outcome::Refused, Some(Failure::Code(code.to_owned()))));
        assert_eq!(of_get(&run(), problem(status, code)), Err(Failure::Code(code.to_owned())));
        let (outcome, failure) = of_write(put, problem(500, code));
        assert!(outcome == Outcome::Unknown && matches!(failure, Some(Failure::Strange(_))));
    }
}

#[test]
fn a_write_is_done_refused_or_unknown() {
    let (put, done) = (Action::Put(1), |version| (Outcome::Done { version }, None));
    assert_eq!(of_write(put, answer(201, "\"7\"", "")), done(Some(7)));
    assert_eq!(of_write(put, answer(204, "\"8\"", "")), done(Some(8)));
    assert_eq!(of_write(Action::Delete, answer(204, "", "")), done(None));
    let found_nothing = of_write(Action::Delete, problem(404, "entry_not_found"));
    assert_eq!(found_nothing, (Outcome::Read { value: None, version: None }, None));
    let (unknown, failure) = of_write(put, problem(504, "write_outcome_unknown"));
    assert!(unknown == Outcome::Unknown && matches!(failure, Some(Failure::Code(_))));
    for strange in [answer(200, "\"7\"", ""), answer(500, "", ""), problem(404, "entry_not_found")] {
        let (outcome, failure) = of_write(put, strange);
        assert!(outcome == Outcome::Unknown && matches!(failure, Some(Failure::Strange(_))));
    }
}

#[test]
fn a_multi_get_has_an_element_for_each_key_in_order() {
    let (run, keys) = (run(), ["k1".to_owned(), "k2".to_owned()]);
    // "9:3" in base64.
    let entry = r#"{"key":"k2","value":"OToz","content_type":"text/plain","version":7}"#;
    let of = |entries: &str| of_mget(&run, &keys, answer(200, "", &format!("{{\"entries\":[{entries}]}}")));
    assert_eq!(of(&format!("null,{entry}")), Ok(vec![None, Some((3, 7))]));
    for strange in [format!("{entry},null"), entry.to_owned(), String::new(), format!("1,{entry}")] {
        assert!(matches!(of(&strange), Err(Failure::Strange(_))), "{strange}");
    }
}

#[tokio::test]
async fn a_connection_that_was_never_made_has_carried_no_write() {
    let nobody = crate::processes::free_address();
    let answer = send(client().put(format!("http://{nobody}/v1/entries/k"))).await;
    let expected = (Outcome::Refused, Some(Failure::Code("not_connected".to_owned())));
    assert_eq!(of_write(Action::Put(1), answer), expected);
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_a_write_in_doubt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.readable().await;
        }
    });
    let answer = send(client().put(format!("http://{address}/v1/entries/k")).body("9:1")).await;
    let expected = (Outcome::Unknown, Some(Failure::Code("broken".to_owned())));
    assert_eq!(of_write(Action::Put(1), answer), expected);
}
