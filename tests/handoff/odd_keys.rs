//! Odd keys, the largest value, empty ones, headers and absences: all the same after each change of the ring (D11).

use std::collections::BTreeMap;
use std::time::Instant;

use reqwest::Method;
use tests::checker::Checker;
use tests::door::{Door, each, users};
use tests::http::{Answer, answered};
use tests::ring_change::{add_standby, cluster, done};

use crate::support::assert_registers;

/// The largest value of the cluster, in bytes: the default of `SHARDCACHE_MAX_VALUE_BYTES`.
const VALUE_MAX: usize = 1 << 20;
/// So many that each member gives and takes some of them.
const USERS: usize = 18;

/// One entry of each user, as it was written.
struct Odd {
    key: String,
    value: Vec<u8>,
    content_type: &'static str,
    cache_control: Option<&'static str>,
}

fn odd(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Odd {
    Odd { key: key.into(), value: value.into(), content_type: "application/octet-stream", cache_control: None }
}

fn entries() -> Vec<Odd> {
    let mut entries: Vec<Odd> = [
        "\\",
        " ",
        "a b ",
        "\"",
        "'",
        "`",
        "*?[]",
        "{}",
        "{0}{slot}",
        "%",
        "%41",
        "100%25",
        "🦀🦀",
        "e\u{301}",
        "a/b//c/",
        ";:,=&+@!$",
        "lease:0",
        "\u{200b}",
        "a..b",
        "k",
    ]
    .map(|key| odd(key, format!("the value of {key}")))
    .into();
    entries.push(odd("1", "1"));
    entries.push(odd("x".repeat(1000), "of a long key"));
    entries.push(odd("🦀".repeat(250), "of a long key of 4-byte characters"));
    entries.push(odd("empty", ""));
    entries.push(odd("bytes", (0..=255).collect::<Vec<u8>>()));
    entries.push(Odd {
        content_type: "text/html; charset=\"utf-8\"",
        cache_control: Some("public, max-age=7"),
        ..odd("headers", "<p>ü</p>")
    });
    entries.push(Odd { cache_control: Some("no-store"), ..odd("headers of an empty one", "") });
    entries
}

/// Every byte of the key but letters and digits by its number.
fn path(key: &str) -> String {
    let byte = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    format!("/v1/entries/{}", key.bytes().map(byte).collect::<String>())
}

async fn get(gateway: &Door, user: &str, key: &str) -> Answer {
    answered(gateway.request(Method::GET, user, &path(key))).await
}

/// Status, value and headers of an entry.
type Read = (u16, Vec<u8>, [String; 3]);

/// What is compared before and after: all that is the entry's own.
fn of_entry(answer: &Answer) -> Read {
    let headers = ["etag", "content-type", "cache-control"].map(|name| answer.header(name).to_owned());
    (answer.status, answer.body.to_vec(), headers)
}

/// Every user's entries, each read twice, so that L1 has it; they must be what was written.
async fn snapshot(gateway: &Door, users: &[String], entries: &[Odd]) -> BTreeMap<String, Vec<Read>> {
    let of_user = async |user: &str| {
        let mut reads = Vec::with_capacity(entries.len());
        for entry in entries {
            let first = of_entry(&get(gateway, user, &entry.key).await);
            let second = of_entry(&get(gateway, user, &entry.key).await);
            assert!(first == second, "{:?} of {user}: {:?} {:?}", entry.key, first.2, second.2);
            let [_, content_type, cache_control] = &second.2;
            assert_eq!((second.0, content_type.as_str()), (200, entry.content_type), "{:?} of {user}", entry.key);
            assert!(second.1 == entry.value, "the value of {:?} of {user} is not what was written", entry.key);
            let kept = entry.cache_control.is_none_or(|written| written == cache_control);
            assert!(kept, "{:?} of {user}: {cache_control}", entry.key);
            reads.push(second);
        }
        (user.to_owned(), reads)
    };
    each(users, of_user).await.into_iter().collect()
}

async fn write_all(gateway: &Door, users: &[String], entries: &[Odd]) {
    each(users, async |user| {
        for entry in entries {
            let put = gateway.request(Method::PUT, user, &path(&entry.key)).header("content-type", entry.content_type);
            let put = entry.cache_control.iter().fold(put, |put, value| put.header("cache-control", *value));
            let answer = answered(put.body(entry.value.clone())).await;
            assert!(matches!(answer.status, 201 | 204), "{:?} of {user}: {answer:?}", entry.key);
        }
    })
    .await;
}

async fn statuses(gateway: &Door, method: Method, users: &[String], key: &str, expected: &[u16]) {
    for (user, answer) in
        each(users, async |user| (user.to_owned(), answered(gateway.request(method.clone(), user, &path(key))).await))
            .await
    {
        assert!(expected.contains(&answer.status), "{method} {key} of {user}: {answer:?}");
    }
}

/// The changes to make: every kind that there is.
const CHANGES: [&[&str]; 4] =
    [&["add-node", "n4"], &["remove-node", "n1"], &["set-weight", "n2", "300"], &["replace-node", "n3", "n1"]];

#[tokio::test]
async fn odd_keys_and_values_are_the_same_bytes_under_the_same_version_after_every_change() {
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let all = users(USERS);
    let entries = entries();
    write_all(&gateway, &all, &entries).await;
    // A newline is no part of a key, whatever the ring is at.
    assert_eq!(get(&gateway, "user-0", "a\nb").await.status, 400);
    let few: Vec<String> = all.iter().step_by(4).cloned().collect();
    let largest = [odd("largest", vec![b'v'; VALUE_MAX])];
    write_all(&gateway, &few, &largest).await;
    let over = gateway.request(Method::PUT, "user-0", &path("largest")).body(vec![b'v'; VALUE_MAX + 1]);
    assert_eq!(answered(over).await.status, 413);

    let checker = Checker::start(vec![gateway.clone()], 11);
    let mut epoch = 1;
    for change in CHANGES {
        let before = snapshot(&gateway, &all, &entries).await;
        let large_before = snapshot(&gateway, &few, &largest).await;
        let absent = format!("absent before {change:?}");
        statuses(&gateway, Method::GET, &all, &absent, &[404]).await;
        statuses(&gateway, Method::GET, &all, &absent, &[404]).await;
        let began = Instant::now();
        done(&cluster, change).await;
        println!("{change:?} took {:?}", began.elapsed());
        epoch += 1;
        gateway.follows(epoch).await;
        assert!(snapshot(&gateway, &all, &entries).await == before, "after {change:?}");
        assert!(snapshot(&gateway, &few, &largest).await == large_before, "after {change:?}");
        // An absence that moved ends with the write that creates the entry, and comes back with its deletion.
        statuses(&gateway, Method::GET, &all, &absent, &[404]).await;
        write_all(&gateway, &all, &[odd(absent.clone(), "there now")]).await;
        snapshot(&gateway, &all, &[odd(absent.clone(), "there now")]).await;
        statuses(&gateway, Method::DELETE, &all, &absent, &[204]).await;
        statuses(&gateway, Method::GET, &all, &absent, &[404]).await;
        write_all(&gateway, &all, &entries[..4]).await;
    }
    assert_registers(&checker.finish().await);
}
