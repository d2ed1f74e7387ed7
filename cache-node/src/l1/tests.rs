//! L1 as a store: tags, lifetimes, order, bounds.

use bytes::Bytes;
use placement::{EntryKey, Slot, UserId};
use wire::entries::Version;
use wire::headers::DEFAULT_CONTENT_TYPE;

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
    let found = l1.hottest(&[Reign::new(1)].into());
    let keys: Vec<_> =
        found.iter().map(|held| held.name(Slot::of_user_text(held.user())).key.as_str().to_owned()).collect();
    assert_eq!(keys, ["hot", "warm", "cold"]);
}

#[test]
fn what_comes_out_is_what_went_in() {
    let l1 = l1(1 << 20);
    for (number, cache_control) in [None, Some(""), Some("no-store")].into_iter().enumerate() {
        for value in [&b""[..], b"v"] {
            let entry = StoredEntry {
                value: Bytes::copy_from_slice(value),
                content_type: ["", "text/html", DEFAULT_CONTENT_TYPE][number].to_owned(),
                cache_control: cache_control.map(str::to_owned),
                version: Version(i64::MAX - number as i64),
            };
            l1.put(name("a/b"), Reign::new(1), Some(Arc::new(entry.clone())), None);
            let held = l1.hit(&name("a/b").asked(), Reign::new(1), Moment::now()).expect("held");
            assert_eq!(held.content().as_deref(), Some(&entry));
            assert!(held.is_plain());
            assert_eq!((held.value_bytes(), held.etag()), (value, entry.version.etag().as_bytes()));
            assert_eq!(held.content_type(), entry.content_type.as_bytes());
            assert_eq!(held.cache_control(), cache_control.map(str::as_bytes));
            assert_eq!((held.user(), held.payload()), ("u", "ua/b".len() + value.len()));
        }
    }
}

#[test]
fn what_cannot_stand_in_a_head_is_not_plain() {
    let l1 = l1(1 << 20);
    for bad in ["a\r\nb: c", "a\0"] {
        let entry = StoredEntry::clone(&content(1).expect("an entry"));
        let bad_type = StoredEntry { content_type: bad.to_owned(), ..entry.clone() };
        let bad_control = StoredEntry { cache_control: Some(bad.to_owned()), ..entry };
        for entry in [bad_type, bad_control] {
            l1.put(name("a"), Reign::new(1), Some(Arc::new(entry)), None);
            assert!(!l1.hit(&name("a").asked(), Reign::new(1), Moment::now()).expect("held").is_plain());
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

/// Whether a look-up in front of moka finds the entry.
fn is_in_front(l1: &L1, key: &str) -> bool {
    matches!(l1.front.find(name(key).hash_value()), Found::Entry(_))
}

#[test]
fn a_hit_comes_to_the_front_and_leaves_it_when_it_is_replaced_or_dropped() {
    let l1 = l1(1 << 20);
    let hit = |key: &str| l1.hit(&name(key).asked(), Reign::new(1), Moment::now());
    l1.put(name("a"), Reign::new(1), content(1), None);
    assert!(!is_in_front(&l1, "a"));
    hit("a").expect("held");
    assert!(is_in_front(&l1, "a"));
    l1.put(name("a"), Reign::new(1), content(2), None);
    assert!(!is_in_front(&l1, "a"));
    assert_eq!(hit("a").expect("held").value_bytes().len(), 2);
    l1.remove(&name("a"));
    assert!(!is_in_front(&l1, "a") && hit("a").is_none());
    l1.put(name("a"), Reign::new(1), content(1), None);
    hit("a").expect("held");
    l1.clear();
    assert!(!is_in_front(&l1, "a"));
}

#[test]
fn what_a_look_up_brings_after_the_entry_was_dropped_is_not_taken_in() {
    let l1 = l1(1 << 20);
    l1.put(name("a"), Reign::new(1), content(1), None);
    let hash = name("a").hash_value();
    let Found::Nothing(changes) = l1.front.find(hash) else { panic!("nobody brought it") };
    let held = l1.entries.get(&hash).expect("held");
    l1.remove(&name("a"));
    l1.front.bring(hash, &held, changes);
    assert!(!is_in_front(&l1, "a"));
}

#[test]
fn the_front_keeps_nothing_that_moka_has_dropped() {
    let front = Front::new(1 << 20);
    let hash = name("a").hash_value();
    let held =
        Arc::new(Held::new(&name("a"), Reign::new(1), &content(1), Moment::now(), Moment::now()).expect("short"));
    let Found::Nothing(changes) = front.find(hash) else { panic!("nobody brought it") };
    front.bring(hash, &held, changes);
    assert!(matches!(front.find(hash), Found::Entry(_)));
    drop(held);
    assert!(matches!(front.find(hash), Found::Nothing(_)));
}

#[test]
fn a_reader_never_finds_what_was_dropped_before_it_looked() {
    let l1 = Arc::new(l1(1 << 20));
    let (stop, latest) = (std::sync::atomic::AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(order) {
                    let least = latest.load(order);
                    let held = l1.hit(&name("a").asked(), Reign::new(1), Moment::now());
                    assert!(held.is_none_or(|held| held.value_bytes().len() >= least));
                }
            });
        }
        for size in 1..5_000 {
            l1.remove(&name("a"));
            // From here on nobody may find a smaller one.
            latest.store(size, order);
            l1.put(name("a"), Reign::new(1), content(size), None);
            l1.hit(&name("a").asked(), Reign::new(1), Moment::now());
        }
        stop.store(true, order);
    });
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
    const BOUND: u64 = 32 << 20;
    let l1 = l1(BOUND);
    let before = resident_bytes();
    for key in 0..2 * BOUND as usize / (OVERHEAD + value_bytes) {
        // As a connection brings it: a piece of a buffer.
        let value = Bytes::from(vec![1; 8192]).slice(..value_bytes);
        let entry = StoredEntry { value, ..StoredEntry::clone(&content(0).expect("an entry")) };
        let name = name(&format!("entry {key}"));
        l1.put(name.clone(), Reign::new(1), Some(Arc::new(entry)), None);
        l1.hit(&name.asked(), Reign::new(1), Moment::now());
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
