//! L1 as a store: tags, lifetimes, order, bounds.

use bytes::Bytes;
use placement::{EntryKey, UserId};
use wire::entries::Version;

use super::*;

fn name(key: &str) -> EntryName {
    EntryName::new(UserId::parse(b"u").expect("id"), EntryKey::parse(key).expect("key"))
}

fn content(bytes: usize) -> Content {
    Some(Arc::new(StoredEntry {
        value: Bytes::from(vec![0; bytes]),
        content_type: "text/plain".into(),
        cache_control: None,
        version: Version(1),
    }))
}

fn l1(bytes: u64) -> L1 {
    L1::new(bytes, Duration::from_secs(60), Duration::from_secs(1))
}

#[test]
fn an_entry_is_seen_only_under_its_own_reign() {
    let l1 = l1(1 << 20);
    l1.put(name("a"), Reign::new(1), content(1), None);
    assert!(l1.get(&name("a"), Reign::new(1)).is_some());
    assert!(l1.get(&name("a"), Reign::new(2)).is_none());
}

#[test]
fn absence_is_remembered_as_content() {
    let l1 = l1(1 << 20);
    l1.put(name("a"), Reign::new(1), None, None);
    assert!(matches!(l1.get(&name("a"), Reign::new(1)), Some(None)));
}

#[test]
fn the_hottest_entries_come_first() {
    let l1 = l1(1 << 20);
    for (key, hits) in [("cold", 0), ("hot", 9), ("warm", 3)] {
        l1.put(name(key), Reign::new(1), content(10), None);
        for _ in 0..hits {
            l1.get(&name(key), Reign::new(1));
        }
    }
    l1.put(name("another's"), Reign::new(2), content(10), None);
    let found = l1.hottest(|_, tag| tag == Reign::new(1));
    let keys: Vec<_> = found.iter().map(|held| held.name().key.as_str().to_owned()).collect();
    assert_eq!(keys, ["hot", "warm", "cold"]);
}

#[test]
fn what_comes_out_is_what_went_in() {
    let l1 = l1(1 << 20);
    for (number, cache_control) in [None, Some(""), Some("no-store")].into_iter().enumerate() {
        for value in [&b""[..], b"v"] {
            let entry = StoredEntry {
                value: Bytes::copy_from_slice(value),
                content_type: "text/html".repeat(number),
                cache_control: cache_control.map(str::to_owned),
                version: Version(i64::MAX - number as i64),
            };
            l1.put(name("a/b"), Reign::new(1), Some(Arc::new(entry.clone())), None);
            let held = l1.hit(&name("a/b").asked(), Reign::new(1), Moment::now()).expect("held");
            assert_eq!(held.content().as_deref(), Some(&entry));
            assert_eq!(held.etag().expect("a tag"), entry.version.etag().as_str());
            assert_eq!(held.content_type().expect("a type"), entry.content_type.as_str());
            assert_eq!(held.cache_control().as_ref().map(|value| value.as_bytes()), cache_control.map(str::as_bytes));
            assert_eq!((held.slot(), held.payload()), (name("a/b").slot, "ua/b".len() + value.len()));
        }
    }
}

#[test]
fn two_names_of_one_hash_never_stand_for_each_other() {
    let l1 = l1(1 << 20);
    l1.put(name("a"), Reign::new(1), content(1), None);
    let a = name("a");
    let same_hash = AskedName { key: "b", ..a.asked() };
    assert!(l1.hit(&same_hash, Reign::new(1), Moment::now()).is_none());
    let run_together = AskedName { user: "ua", key: "", ..a.asked() };
    assert!(l1.hit(&run_together, Reign::new(1), Moment::now()).is_none());
}

#[test]
fn an_entry_is_gone_when_its_own_lifetime_is_over() {
    let l1 = l1(1 << 20);
    let lifetime = Duration::from_secs(5);
    l1.put(name("a"), Reign::new(1), content(1), Some(lifetime));
    let at = |moment: Moment| l1.hit(&name("a").asked(), Reign::new(1), moment).is_some();
    let stored_at = l1.stored_at(&name("a"), Reign::new(1)).expect("held");
    assert!(at(stored_at.plus(lifetime - Duration::from_nanos(1))));
    assert!(!at(stored_at.plus(lifetime)));
}

#[test]
fn a_row_with_a_text_that_nobody_could_have_written_is_not_held_and_replaces_what_was() {
    let l1 = l1(1 << 20);
    l1.put(name("a"), Reign::new(1), content(1), None);
    let long = StoredEntry { content_type: "x".repeat(65535), ..StoredEntry::clone(&content(1).expect("an entry")) };
    l1.put(name("a"), Reign::new(1), Some(Arc::new(long)), None);
    assert!(l1.get(&name("a"), Reign::new(1)).is_none());
}

#[test]
fn bytes_bound_the_cache() {
    let l1 = l1(100_000);
    for key in 0..1000 {
        l1.put(name(&key.to_string()), Reign::new(1), content(1000), None);
    }
    l1.entries.run_pending_tasks();
    assert!(l1.size().1 <= 100_000);
}

#[test]
fn lifetimes_are_spread_by_a_tenth() {
    let ttl = Duration::from_secs(100);
    for _ in 0..100 {
        assert!((90..=110).contains(&jittered(ttl).as_secs()));
    }
}

/// Set in a process of its own that measures: the size of the values.
const MEASURE: &str = "SHARDCACHE_TEST_L1_VALUE_BYTES";

#[test]
fn the_bound_is_that_of_real_memory_within_a_quarter() {
    if let Ok(value_bytes) = std::env::var(MEASURE) {
        return fill_and_measure(value_bytes.parse().expect("a number"));
    }
    for value_bytes in [0, 100, 1000] {
        // In a process of its own: the memory of others must not count.
        let test = "l1::tests::the_bound_is_that_of_real_memory_within_a_quarter";
        let mut measuring = std::process::Command::new(std::env::current_exe().expect("this test"));
        measuring.args([test, "--exact", "--nocapture"]).env(MEASURE, value_bytes.to_string());
        let output = measuring.output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stdout);
        print!("{told}");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.contains("resident"), "{complaint}");
    }
}

fn fill_and_measure(value_bytes: usize) {
    const BOUND: u64 = 64 << 20;
    let l1 = l1(BOUND);
    let before = resident_bytes();
    for key in 0..2 * BOUND as usize / (OVERHEAD + value_bytes) {
        // As a connection brings it: a piece of a buffer.
        let value = Bytes::from(vec![1; 8192]).slice(..value_bytes);
        let entry = StoredEntry { value, ..StoredEntry::clone(&content(0).expect("an entry")) };
        let name = name(&format!("entry {key}"));
        l1.put(name.clone(), Reign::new(1), Some(Arc::new(entry)), None);
        // A hit has its own price: from then on the value is shared.
        drop(l1.hit(&name.asked(), Reign::new(1), Moment::now()).map(|held| held.value()));
    }
    l1.entries.run_pending_tasks();
    let resident = resident_bytes().saturating_sub(before);
    let (entries, weighed) = l1.size();
    println!("{value_bytes} B: {entries} entries weigh {weighed}, resident {resident}, {} each", resident / entries);
    assert!(weighed > BOUND * 9 / 10, "it is full");
    assert!((weighed * 3 / 4..weighed * 5 / 4).contains(&resident), "{resident} for {weighed}");
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("kB") * 1024
}
