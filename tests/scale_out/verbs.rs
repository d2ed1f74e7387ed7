//! The verbs that only tell, and the one that changes a share.

use serde_json::json as document;

use crate::support::{Door, cluster_on_a_file, done, json, owned_by, shares, users};

#[tokio::test]
async fn set_weight_moves_slots_of_that_node_only_and_history_lists_every_change() {
    let mut cluster = cluster_on_a_file(3).await;
    cluster.add_standby("n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let all = users(800);
    let start = gateway.owners(&all).await;

    // A plan changes nothing and tells what the change then does.
    let plan = json(&cluster, &["plan", "set-weight", "n1", "50"]).await;
    let text = done(&cluster, &["plan", "add-node", "n4"]).await.stdout;
    assert!(text.contains("n4") && text.contains("n1"), "{text}");
    let ring = gateway.ring().await;
    assert_eq!((&ring["epoch"], &ring["change"]), (&1.into(), &document!(null)));
    assert_eq!(json(&cluster, &["history"]).await["changes"], document!([]));

    let less = json(&cluster, &["set-weight", "n1", "50"]).await;
    assert_eq!((&less["outcome"], &less["epoch"]), (&"done".into(), &2.into()), "{less}");
    assert_eq!(less["moved_slots"], plan["moving_slots"]);
    gateway.follows(2).await;
    let lighter = gateway.owners(&all).await;
    for (user, owner) in &lighter {
        assert!(start[user] == *owner || start[user] == "n1", "{user} moved from {} to {owner}", start[user]);
    }
    assert!(owned_by(&lighter, "n1").len() < owned_by(&start, "n1").len());
    let after = shares(&gateway.ring().await);
    for node in plan["nodes"].as_array().expect("nodes") {
        assert_eq!(after[node["id"].as_str().expect("a name")], node["slots_after"].as_u64().expect("slots"), "{plan}");
    }

    done(&cluster, &["set-weight", "n1", "200"]).await;
    gateway.follows(3).await;
    for (user, owner) in &gateway.owners(&all).await {
        assert!(lighter[user] == *owner || owner == "n1", "{user} moved from {} to {owner}", lighter[user]);
    }
    assert!(shares(&gateway.ring().await)["n1"] > after["n1"]);
    done(&cluster, &["set-weight", "n1", "100"]).await;
    gateway.follows(4).await;

    let history = json(&cluster, &["history"]).await;
    let of = |list: &str, field: &str| -> Vec<String> {
        let rows = history[list].as_array().expect("a list").iter();
        rows.map(|row| row[field].to_string().replace('"', "")).collect()
    };
    assert_eq!(of("changes", "action"), ["set-weight n1 100", "set-weight n1 200", "set-weight n1 50"]);
    assert_eq!(of("changes", "phase"), ["done", "done", "done"]);
    assert_eq!(of("epochs", "epoch"), ["4", "3", "2", "1"]);
    let text = done(&cluster, &["history"]).await.stdout;
    assert!(text.contains("set-weight n1 200"), "{text}");
}

#[tokio::test]
async fn every_verb_prints_json_and_init_may_be_run_again() {
    let mut cluster = cluster_on_a_file(2).await;
    cluster.add_standby("n3", &[]).await;
    for nodes in ["n1,n2", "n1,n2,n3", "n9"] {
        let again = json(&cluster, &["init", "--nodes", nodes]).await;
        assert_eq!(again, document!({"outcome": "already", "epoch": 1}));
    }
    let status = json(&cluster, &["status"]).await;
    assert_eq!((&status["epoch"], &status["slots"]), (&1.into(), &4096.into()), "{status}");
    let names = |list: &str| -> Vec<String> {
        let nodes = status[list].as_array().expect("a list").iter();
        nodes.filter_map(|node| node["id"].as_str()).map(str::to_owned).collect()
    };
    assert_eq!((names("members"), names("standbys")), (vec!["n1".to_owned(), "n2".to_owned()], vec!["n3".to_owned()]));
    for plan in [&["add-node", "n3"][..], &["add-node", "n3", "--weight", "50"], &["remove-node", "n2"]] {
        let plan = json(&cluster, &[&["plan"], plan].concat()).await;
        assert!(plan["moving_slots"].as_u64().is_some_and(|slots| slots > 0), "{plan}");
    }
    let added = json(&cluster, &["add-node", "n3", "--weight", "50"]).await;
    assert_eq!((&added["outcome"], &added["epoch"]), (&"done".into(), &2.into()), "{added}");
    // A failure too is an object on stdout and a line on stderr.
    let failed = cluster.migrator(&["--json", "add-node", "n3"]).await;
    let said: serde_json::Value = serde_json::from_str(&failed.stdout).expect("JSON");
    assert_eq!((failed.code, &said["outcome"], &said["exit"]), (Some(1), &"failed".into(), &1.into()), "{said}");
    assert!(failed.stderr.contains("n3 is a member already"), "{failed:#?}");
    let removed = json(&cluster, &["remove-node", "n3"]).await;
    assert_eq!(removed["epoch"], 3);
}
