//! The program itself: what it prints with `--json`, and that the last line is the result.

use origin::DatabaseUrl;
use serde_json::Value;
use tokio::process::Command;

use crate::fake_cluster::FakeCluster;

struct Ended {
    code: Option<i32>,
    lines: Vec<Value>,
}

/// Runs the migrator, all of whose lines on stdout must be JSON.
async fn migrator(cluster: &FakeCluster, args: &[&str]) -> Ended {
    let DatabaseUrl::Sqlite(path) = &cluster.url else { panic!("not on a file") };
    let mut command = Command::new(env!("CARGO_BIN_EXE_migrator"));
    command.arg("--json").args(args).env("DATABASE_URL", format!("sqlite://{}", path.display()));
    let output = command.kill_on_drop(true).output().await.expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")));
    Ended { code: output.status.code(), lines: lines.collect() }
}

fn of_event<'a>(ended: &'a Ended, event: &str) -> Vec<&'a Value> {
    ended.lines.iter().filter(|line| line["event"] == event).collect()
}

#[tokio::test]
async fn a_change_prints_an_event_per_line_and_its_result_last() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let plan = migrator(&cluster, &["plan", "add-node", "n4"]).await;
    assert_eq!((plan.code, plan.lines.len()), (Some(0), 1), "other verbs print one object");
    let command = plan.lines[0]["command"].as_str().expect("a command");
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    let ended = migrator(&cluster, &args).await;
    assert_eq!(ended.code, Some(0), "{:?}", ended.lines);
    let phases = |event| of_event(&ended, event).into_iter().map(|line| line["phase"].clone()).collect::<Vec<_>>();
    let four = ["add_node", "copy_keys", "flip_epoch", "expire_old"];
    assert_eq!(
        (phases("phase_began"), phases("phase_ended")),
        (four.map(Value::from).to_vec(), four.map(Value::from).to_vec())
    );
    let copied = of_event(&ended, "progress").into_iter().rfind(|line| line["phase"] == "copy_keys").expect("progress");
    assert_eq!((&copied["entries"], &copied["percent"]), (&copied["entries_total"], &Value::from(100.0)));
    let result = ended.lines.last().expect("a result");
    assert_eq!((&result["event"], &result["outcome"], &result["epoch"]), (&"result".into(), &"done".into(), &2.into()));
    for figure in [
        "moved_slots",
        "copied_entries",
        "copied_bytes",
        "warm_share",
        "write_pause_ms",
        "origin_reads",
        "origin_reads_per_second_before",
    ] {
        assert!(result.get(figure).is_some(), "{figure} is missing in {result}");
    }
    assert!(result["phases_ms"]["copy_keys"].is_u64(), "{result}");
    let stale = migrator(&cluster, &args).await;
    let said = stale.lines.last().expect("a result");
    assert_eq!((stale.code, &said["event"], &said["exit"]), (Some(1), &"result".into(), &1.into()));
}

#[tokio::test]
async fn other_verbs_print_one_object_without_an_event() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    for args in [&["status"][..], &["history"], &["abort"], &["plan", "remove-node", "n9"]] {
        let ended = migrator(&cluster, args).await;
        assert_eq!((ended.lines.len(), &ended.lines[0]["event"]), (1, &Value::Null), "{args:?}");
    }
    let removed = migrator(&cluster, &["remove-node", "n3", "--cold"]).await;
    assert_eq!((removed.code, &removed.lines.last().expect("a result")["cold_slots"].is_u64()), (Some(0), &true));
}
