//! Dependencies point one way, and the heavy libraries stay behind one crate each.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::{assert_none, root};

/// What each crate of the workspace may depend on within it.
const DIRECTIONS: [(&str, &[&str]); 13] = [
    ("placement", &[]),
    ("wire", &["placement"]),
    ("origin", &["placement", "wire"]),
    ("service", &["placement", "wire"]),
    ("client", &["placement", "wire", "service"]),
    ("cache-node", &["placement", "wire", "origin", "service", "client"]),
    ("gateway", &["placement", "wire", "origin", "service", "client"]),
    ("migrator", &["placement", "wire", "origin", "service", "client"]),
    ("standalone", &["placement", "wire", "origin", "service", "cache-node", "gateway", "migrator"]),
    ("model", &["placement"]),
    // Drives programs from outside, as tests do; route look-ups are measured in its own process.
    ("bench", &["placement"]),
    // The harness drives programs from outside; it must not share their code.
    ("tests", &[]),
    // Reaches the readers of every program.
    ("fuzz", &["placement", "wire", "origin", "service", "cache-node", "gateway"]),
];

/// Libraries that only one crate may use; the peers of the bench suite aside, which are no part of the product.
const CONFINED: [(&str, &str); 3] = [("sqlx", "origin"), ("moka", "cache-node"), ("redis", "cache-node")];

/// TLS stacks that come in by a careless feature: ours is rustls with aws-lc-rs.
const BANNED: [&str; 4] = ["openssl", "openssl-sys", "native-tls", "ring"];

/// (crate, its direct dependencies of any kind), for each crate of the workspace. Tests of any crate may use the harness, so
/// that dependency counts only where it is not of the tests.
fn crates() -> Vec<(String, BTreeSet<String>)> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let named = |package: &Value| {
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let harness = |dependency: &&Value| dependency["name"] == "tests" && dependency["kind"] == "dev";
        let counted = dependencies.iter().filter(|dependency| !harness(dependency));
        (text(&package["name"]), counted.map(|dependency| text(&dependency["name"])).collect())
    };
    packages.iter().map(named).collect()
}

#[test]
fn dependencies_point_one_way() {
    let mut complaints = Vec::new();
    for (name, dependencies) in crates() {
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("{name} is a new crate: say in tests/tidy what it may depend on"));
            continue;
        };
        let ours = DIRECTIONS.iter().map(|(ours, _)| *ours);
        let wrong = ours.filter(|ours| dependencies.contains(*ours) && !allowed.contains(ours));
        complaints.extend(wrong.map(|wrong| format!("{name} must not depend on {wrong}")));
    }
    assert_none(&complaints);
}

#[test]
fn sql_redis_and_moka_stay_behind_one_crate_each() {
    let mut complaints = Vec::new();
    for (name, dependencies) in crates().into_iter().filter(|(name, _)| name != "bench") {
        let wrong = CONFINED.iter().filter(|(library, owner)| dependencies.contains(*library) && name != *owner);
        complaints.extend(wrong.map(|(library, owner)| format!("{name} uses {library}, which belongs to {owner}")));
    }
    assert_none(&complaints);
}

#[test]
fn one_tls_stack_and_no_other() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Not the lock file: that one also names what a library could use and is not built with.
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--prefix", "none", "--format", "{p}", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("names are text");
    let built = |package: &str| tree.lines().any(|line| line.split(' ').next() == Some(package));
    assert!(built("rustls") && built("aws-lc-rs"), "{tree}");
    let complaints: Vec<_> =
        BANNED.iter().filter(|package| built(package)).map(|package| format!("{package} is built")).collect();
    assert_none(&complaints);
}
