//! Conditional requests (E13): `If-None-Match` on reads, `If-Match` and `If-None-Match` on writes.

use futures_util::future::join_all;
use reqwest::Method;

use crate::support::{assert_problem, get_with, on_shared, version, with_headers};

#[test]
fn a_read_is_304_for_the_tag_a_weak_one_a_list_and_a_star() {
    on_shared(async |cluster| {
        let user = cluster.user("not-modified");
        let old = user.put("k", "old").await.header("etag").to_owned();
        let tag = user.put("k", "new").await.header("etag").to_owned();
        let weak = format!("W/{tag}");
        let list = format!("\"x\", {old} , {tag}");
        for sent in [tag.as_str(), &weak, &list, "*"] {
            for method in [Method::GET, Method::HEAD] {
                let answer = with_headers(&user, method, "k", &[("If-None-Match", sent)], "").await;
                assert_eq!((answer.status, answer.header("etag")), (304, tag.as_str()), "{sent}");
                assert!(answer.body.is_empty(), "{answer:?}");
                assert_eq!(answer.header("cache-status"), "shardcache-l1; hit");
            }
        }
        for stale in [old.as_str(), "\"x\"", "\"\"", ""] {
            let answer = get_with(&user, "k", &[("If-None-Match", stale)]).await;
            assert_eq!((answer.status, answer.text()), (200, "new".to_owned()), "{stale}");
        }
        assert_problem(&get_with(&user, "none", &[("If-None-Match", "*")]).await, 404, "entry_not_found");
        for malformed in ["garbage", "\"open", "7"] {
            assert_problem(&get_with(&user, "k", &[("If-None-Match", malformed)]).await, 400, "request_invalid");
        }
        let two = get_with(&user, "k", &[("If-None-Match", &old), ("If-None-Match", &tag)]).await;
        assert_eq!(two.status, 304, "two lines are one list");
    });
}

#[test]
fn a_write_holds_to_if_match_by_strong_comparison() {
    on_shared(async |cluster| {
        let user = cluster.user("if-match");
        let old = user.put("k", "1").await.header("etag").to_owned();
        let tag = user.put("k", "2").await.header("etag").to_owned();
        let weak = format!("W/{tag}");
        for method in [Method::PUT, Method::DELETE] {
            for failing in [old.as_str(), &weak, "\"x\"", "W/\"x\""] {
                let body = if method == Method::PUT { "3" } else { "" };
                let answer = with_headers(&user, method.clone(), "k", &[("If-Match", failing)], body).await;
                assert_problem(&answer, 412, "precondition_failed");
                assert_eq!(answer.header("etag"), tag, "412 tells the present version");
            }
            let absent = with_headers(&user, method.clone(), "none", &[("If-Match", "*")], "").await;
            assert!(matches!(absent.status, 404 | 412), "{absent:?}");
        }
        assert_eq!(user.get("k").await.text(), "2");
        assert_problem(&user.get("none").await, 404, "entry_not_found");

        let listed = format!("\"x\", {tag}");
        let replaced = with_headers(&user, Method::PUT, "k", &[("If-Match", &listed)], "3").await;
        assert_eq!(replaced.status, 204);
        let replaced = with_headers(&user, Method::PUT, "k", &[("If-Match", "*")], "4").await;
        assert_eq!(replaced.status, 204);
        let last = replaced.header("etag").to_owned();
        assert_eq!(with_headers(&user, Method::DELETE, "k", &[("If-Match", &last)], "").await.status, 204);
        assert_problem(&user.get("k").await, 404, "entry_not_found");
    });
}

#[test]
fn a_write_holds_to_if_none_match() {
    on_shared(async |cluster| {
        let user = cluster.user("if-none-match");
        let created = with_headers(&user, Method::PUT, "k", &[("If-None-Match", "*")], "1").await;
        assert_eq!(created.status, 201);
        for failing in ["*", created.header("etag"), &format!("W/{}", created.header("etag"))] {
            let answer = with_headers(&user, Method::PUT, "k", &[("If-None-Match", failing)], "2").await;
            assert_problem(&answer, 412, "precondition_failed");
        }
        let other = with_headers(&user, Method::PUT, "k", &[("If-None-Match", "\"1\"")], "2").await;
        assert_eq!(other.status, 204);
        for header in ["If-Match", "If-None-Match"] {
            let answer = with_headers(&user, Method::PUT, "k", &[(header, "garbage")], "3").await;
            assert_problem(&answer, 400, "request_invalid");
        }
        assert_eq!(user.get("k").await.text(), "2", "a condition that cannot be read is never ignored");
    });
}

#[test]
fn of_twenty_clients_that_create_one_key_at_once_exactly_one_does() {
    on_shared(async |cluster| {
        let user = cluster.user("race");
        for key in ["r1", "r2", "r3"] {
            let create = || with_headers(&user, Method::PUT, key, &[("If-None-Match", "*")], "v");
            let mut statuses: Vec<_> = join_all((0..20).map(|_| create())).await.iter().map(|a| a.status).collect();
            statuses.sort_unstable();
            assert_eq!((statuses[0], &statuses[1..]), (201, &[412; 19][..]));
        }
    });
}

#[test]
fn of_twenty_clients_that_replace_one_version_at_once_exactly_one_does() {
    on_shared(async |cluster| {
        let user = cluster.user("swap");
        let before = user.put("k", "0").await;
        let tag = before.header("etag").to_owned();
        let condition = [("If-Match", tag.as_str())];
        let swap = || with_headers(&user, Method::PUT, "k", &condition, "v");
        let answers = join_all((0..20).map(|_| swap())).await;
        let winners: Vec<_> = answers.iter().filter(|answer| answer.status == 204).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        assert!(version(winners[0]) > version(&before));
        assert_eq!(answers.iter().filter(|answer| answer.status == 412).count(), 19);
    });
}
