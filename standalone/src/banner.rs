//! What a fresh cluster prints: where it is and what to try.

use placement::NodeId;

use crate::cluster::Running;
use crate::config::{Config, node_name, node_number};
use crate::probe::dialled;

/// The text for stdout.
pub fn text(config: &Config, running: &Running) -> String {
    let url = format!("http://{}", dialled(running.gateway));
    let standbys = standbys(running);
    let mut lines = vec![
        format!("shardcache is ready: {url}   (ring epoch {}, {} members)", running.epoch, running.members.len()),
        String::new(),
    ];
    lines.extend(running.nodes.iter().map(|node| {
        let role = if standbys.contains(&&node.id) { "  standby" } else { "" };
        format!("  {}  http://{}{role}", node.id, node.address)
    }));
    lines.push(String::new());
    lines.push("Try:".to_owned());
    lines.push(format!("  curl -i -X PUT -H 'X-User-ID: ada' --data 'hello' {url}/v1/entries/greeting"));
    lines.push(format!("  curl -i -H 'X-User-ID: ada' {url}/v1/entries/greeting"));
    lines.extend(add_node(config, running, &standbys));
    lines.join("\n")
}

/// The commands that add a node: one that waits already, or a further process.
fn add_node(config: &Config, running: &Running, standbys: &[&NodeId]) -> Vec<String> {
    let database = config.database_for_shell();
    let token = if config.cluster_token.is_some() { " --cluster-token \"$SHARDCACHE_CLUSTER_TOKEN\"" } else { "" };
    let add =
        |id: &NodeId| format!("  cargo run --release -p migrator -- add-node {id} --database-url {database}{token}");
    if let Some(waiting) = standbys.first() {
        return vec![add(waiting)];
    }
    let redis = if config.redis_url.is_empty() { "" } else { " --redis-url \"$REDIS_URL\"" };
    let id = free_name(running);
    vec![
        add(&id),
        "    after starting it in another terminal:".to_owned(),
        format!(
            "    cargo run --release -p cache-node -- --node-id {id} --listen 127.0.0.1:0 --database-url {database}{redis}{token}"
        ),
    ]
}

fn standbys(running: &Running) -> Vec<&NodeId> {
    running.nodes.iter().map(|node| &node.id).filter(|id| !running.members.contains(id)).collect()
}

/// The first name of ours that neither a member nor a node of this process has.
fn free_name(running: &Running) -> NodeId {
    let used = running.nodes.iter().map(|node| &node.id).chain(&running.members);
    node_name(used.filter_map(node_number).max().map_or(1, |number| number.saturating_add(1)))
}
