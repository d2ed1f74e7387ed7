//! Reads, writes, preconditions, listings.

use std::collections::BTreeSet;

use bytes::Bytes;
use origin::{FencedWrite, ListRequest, Precondition, WriteAnswer, WriteKind};
use placement::UserId;
use wire::entries::Version;

use crate::fixture::{Fixture, created, delete, key, only, put, replaced, user};

crate::on_both!(
    what_is_written_is_read_back_whole,
    every_value_up_to_a_mebibyte_is_kept_byte_for_byte,
    many_names_are_read_in_the_order_asked_for,
    entries_read_together_are_whole,
    versions_rise_over_replace_delete_and_create,
    two_users_equal_keys_are_two_entries,
    if_match_replaces_only_the_version_named_and_never_creates,
    if_none_match_star_creates_only,
    if_none_match_of_versions_spares_those,
    deletes_honour_preconditions,
    of_twenty_creates_at_once_exactly_one_wins,
    a_listing_is_in_byte_order_and_pages_without_loss,
    a_prefix_is_taken_literally,
);

async fn what_is_written_is_read_back_whole(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    assert_eq!(f.read("a").await, None);
    let mut write = put(tenure, "a", "one");
    if let WriteKind::Put { content_type, cache_control, .. } = &mut write.kind {
        *content_type = "image/png; x=\"é\"".to_owned();
        *cache_control = Some("max-age=5".to_owned());
    }
    let version = created(f.write(write).await);
    let entry = f.origin.read_entry(&user(), &key("a")).await.expect("a read").expect("an entry");
    assert_eq!((&entry.value[..], entry.version), (&b"one"[..], Version(version)));
    assert_eq!(entry.content_type, "image/png; x=\"é\"");
    assert_eq!(entry.cache_control.as_deref(), Some("max-age=5"));
    replaced(f.write(put(tenure, "a", "two")).await);
    let entry = f.origin.read_entry(&user(), &key("a")).await.expect("a read").expect("an entry");
    assert_eq!((&entry.value[..], entry.cache_control), (&b"two"[..], None));
    assert_eq!(entry.content_type, "text/plain");
}

async fn every_value_up_to_a_mebibyte_is_kept_byte_for_byte(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let every_byte: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    for (name, bytes) in [("empty", Vec::new()), ("nul", vec![0]), ("large", every_byte)] {
        let kind = WriteKind::Put { value: bytes.clone().into(), content_type: String::new(), cache_control: None };
        created(f.write(FencedWrite { kind, ..put(tenure, name, "") }).await);
        assert!(f.read(name).await.expect("an entry").0 == bytes, "{name}");
    }
}

async fn many_names_are_read_in_the_order_asked_for(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    for name in ["a", "b", "\"quoted\\", "🦀"] {
        created(f.write(put(tenure, name, name)).await);
    }
    // A user that could be taken for a number has an entry of the same name.
    let (alice, number) = (user(), UserId::parse(b"007").expect("a user"));
    created(f.write(FencedWrite { user: number.clone(), ..put(tenure, "a", "the number's") }).await);
    let asked = [
        (&alice, "🦀"),
        (&alice, "missing"),
        (&number, "a"),
        (&alice, "a"),
        (&alice, "\"quoted\\"),
        (&alice, "a"),
        (&number, "b"),
    ];
    let asked = asked.map(|(user, name)| (user, key(name)));
    let names: Vec<_> = asked.iter().map(|(user, key)| (*user, key)).collect();
    let found = f.origin.read_entries(&names).await.expect("a read");
    let values: Vec<_> = found.into_iter().map(|entry| entry.map(|entry| entry.value)).collect();
    let text = |text: &'static str| Some(Bytes::from(text));
    let expected = [text("🦀"), None, text("the number's"), text("a"), text("\"quoted\\"), text("a"), None];
    assert_eq!(values, expected);
    assert_eq!(f.origin.read_entries(&[]).await, Ok(vec![]));
}

async fn entries_read_together_are_whole(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let mut write = put(tenure, "a", "one");
    if let WriteKind::Put { cache_control, .. } = &mut write.kind {
        *cache_control = Some("max-age=5".to_owned());
    }
    created(f.write(write).await);
    created(f.write(put(tenure, "b", "")).await);
    let (user, keys) = (user(), ["a", "b"].map(key));
    let together = f.origin.read_entries(&[(&user, &keys[0]), (&user, &keys[1])]).await.expect("a read");
    for (key, entry) in keys.iter().zip(together) {
        assert_eq!(f.origin.read_entry(&user, key).await.expect("a read"), entry);
    }
}

async fn versions_rise_over_replace_delete_and_create(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let first = created(f.write(put(tenure, "a", "1")).await);
    let second = replaced(f.write(put(tenure, "a", "2")).await);
    assert_eq!(f.write(delete(tenure, "a")).await, Ok(WriteAnswer::Deleted(Version(second))));
    assert_eq!(f.write(delete(tenure, "a")).await, Ok(WriteAnswer::Absent));
    let third = created(f.write(put(tenure, "a", "3")).await);
    let other = created(f.write(put(tenure, "b", "4")).await);
    assert!(first < second && second < third && third < other, "{first} {second} {third} {other}");
}

async fn two_users_equal_keys_are_two_entries(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let bob = UserId::parse(b"Alice").expect("a user");
    created(f.write(put(tenure, "a", "alice's")).await);
    created(f.write(FencedWrite { user: bob.clone(), ..put(tenure, "a", "Alice's") }).await);
    assert_eq!(f.read("a").await.expect("an entry").0, "alice's");
    let other = f.origin.read_entry(&bob, &key("a")).await.expect("a read").expect("an entry");
    assert_eq!(other.value, "Alice's");
    assert_eq!(f.list("", None, 10).await, ["a"]);
}

async fn if_match_replaces_only_the_version_named_and_never_creates(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let matching = |versions: &[i64]| Precondition::IfMatch(versions.iter().copied().map(Version).collect());
    let absent = f.write(only(matching(&[1]), put(tenure, "a", "x"))).await;
    assert_eq!(absent, Ok(WriteAnswer::PreconditionFailed(None)));
    let absent = f.write(only(Precondition::IfExists, put(tenure, "a", "x"))).await;
    assert_eq!(absent, Ok(WriteAnswer::PreconditionFailed(None)));
    assert_eq!(f.read("a").await, None);

    let first = created(f.write(put(tenure, "a", "1")).await);
    let wrong = f.write(only(matching(&[first + 100]), put(tenure, "a", "x"))).await;
    assert_eq!(wrong, Ok(WriteAnswer::PreconditionFailed(Some(Version(first)))));
    let second = replaced(f.write(only(matching(&[first + 100, first]), put(tenure, "a", "2"))).await);
    let stale = f.write(only(matching(&[first]), put(tenure, "a", "x"))).await;
    assert_eq!(stale, Ok(WriteAnswer::PreconditionFailed(Some(Version(second)))));
    replaced(f.write(only(Precondition::IfExists, put(tenure, "a", "3"))).await);
    assert_eq!(f.read("a").await.expect("an entry").0, "3");
}

async fn if_none_match_star_creates_only(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let version = created(f.write(only(Precondition::IfAbsent, put(tenure, "a", "1"))).await);
    let again = f.write(only(Precondition::IfAbsent, put(tenure, "a", "2"))).await;
    assert_eq!(again, Ok(WriteAnswer::PreconditionFailed(Some(Version(version)))));
    assert_eq!(f.read("a").await, Some((Bytes::from("1"), version)));
}

async fn if_none_match_of_versions_spares_those(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let none_of = |version: i64| Precondition::IfNoneMatch(vec![Version(version)]);
    let first = created(f.write(only(none_of(1), put(tenure, "a", "1"))).await);
    let spared = f.write(only(none_of(first), put(tenure, "a", "x"))).await;
    assert_eq!(spared, Ok(WriteAnswer::PreconditionFailed(Some(Version(first)))));
    replaced(f.write(only(none_of(first + 100), put(tenure, "a", "2"))).await);
}

async fn deletes_honour_preconditions(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let matching = |version: i64| Precondition::IfMatch(vec![Version(version)]);
    let failed = |version: Option<i64>| Ok(WriteAnswer::PreconditionFailed(version.map(Version)));
    assert_eq!(f.write(only(matching(1), delete(tenure, "a"))).await, failed(None));
    assert_eq!(f.write(only(Precondition::IfExists, delete(tenure, "a"))).await, failed(None));
    assert_eq!(f.write(only(Precondition::IfAbsent, delete(tenure, "a"))).await, Ok(WriteAnswer::Absent));
    let version = created(f.write(put(tenure, "a", "1")).await);
    assert_eq!(f.write(only(matching(version + 100), delete(tenure, "a"))).await, failed(Some(version)));
    assert_eq!(f.write(only(Precondition::IfAbsent, delete(tenure, "a"))).await, failed(Some(version)));
    let none = Precondition::IfNoneMatch(vec![Version(version)]);
    assert_eq!(f.write(only(none, delete(tenure, "a"))).await, failed(Some(version)));
    let deleted = f.write(only(matching(version), delete(tenure, "a"))).await;
    assert_eq!(deleted, Ok(WriteAnswer::Deleted(Version(version))));
    assert_eq!(f.read("a").await, None);
}

async fn of_twenty_creates_at_once_exactly_one_wins(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    for round in 0..5 {
        let tasks: Vec<_> = (0..20)
            .map(|task| {
                let origin = f.origin.clone();
                let write = only(Precondition::IfAbsent, put(tenure, &format!("k{round}"), &format!("by {task}")));
                tokio::spawn(async move { (task, origin.write_entry(&write).await) })
            })
            .collect();
        let mut winners = Vec::new();
        for task in tasks {
            match task.await.expect("a task") {
                (task, Ok(WriteAnswer::Created(version))) => winners.push((task, version.0)),
                (_, Ok(WriteAnswer::PreconditionFailed(_))) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
        let [(winner, version)] = winners[..] else { panic!("winners: {winners:?}") };
        assert_eq!(f.read(&format!("k{round}")).await, Some((Bytes::from(format!("by {winner}")), version)));
    }
}

const ODD_KEYS: [&str; 14] =
    ["%", "%25", "_", "__x", "a", "a%b", "a/b", "a\\b", "aB", "ab", "Z", "é", "\u{ffff}", "🦀\u{10ffff}"];

async fn a_listing_is_in_byte_order_and_pages_without_loss(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    for name in ODD_KEYS {
        created(f.write(put(tenure, name, "12345")).await);
    }
    let sorted: Vec<_> = BTreeSet::from(ODD_KEYS).into_iter().map(str::to_owned).collect();
    assert_eq!(f.list("", None, 1000).await, sorted);
    for limit in 1..=4 {
        let mut paged: Vec<String> = Vec::new();
        loop {
            let page = f.list("", paged.last().map(String::as_str), limit).await;
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit as usize);
            paged.extend(page);
        }
        assert_eq!(paged, sorted, "pages of {limit}");
    }
    let request = ListRequest { prefix: String::new(), after: None, limit: 1 };
    let info = f.origin.list_entries(&user(), &request).await.expect("a page").remove(0);
    assert_eq!((info.size, info.content_type.as_str()), (5, "text/plain"));
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as i64;
    assert!((now - info.updated_ms).abs() < 60_000, "{} is not about {now}", info.updated_ms);
}

async fn a_prefix_is_taken_literally(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    for name in ODD_KEYS {
        created(f.write(put(tenure, name, "")).await);
    }
    let prefixes = ["%", "_", "a", "a%", "a\\", "A", "é", "\u{ffff}", "🦀", "\u{10ffff}", "zz", "\\", "\0", "a\0"];
    let afters = [None, Some("%"), Some("a"), Some("a\0"), Some("aB"), Some("\u{10ffff}")];
    for prefix in prefixes {
        for after in afters {
            let sorted = BTreeSet::from(ODD_KEYS).into_iter();
            let expected: Vec<_> =
                sorted.filter(|key| key.starts_with(prefix) && after.is_none_or(|after| *key > after)).collect();
            assert_eq!(f.list(prefix, after, 100).await, expected, "{prefix:?} after {after:?}");
        }
    }
}
