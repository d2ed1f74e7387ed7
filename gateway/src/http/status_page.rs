//! `GET /`: who owns how much, who is there, what is moving. Plain HTML, no script, no outside resource.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use placement::NodeId;
use wire::ring_document::{MemberState, RingDocument};

use crate::gateway::Gateway;
use crate::ring_view::NodeView;

pub(super) async fn page(State(gateway): State<Arc<Gateway>>) -> Html<String> {
    let view = gateway.ring.view();
    let is_ejected = |node: &&NodeView| node.upstream.standing().is_ejected();
    let ejected = view.members().filter(is_ejected).map(|node| node.id.clone()).collect();
    Html(render(&view.document(), &ejected, gateway.drill.is_some()))
}

/// Node names and actions are made of letters, digits and `.` `_` `-`; addresses and all else are escaped all the same.
fn render(ring: &RingDocument, ejected: &BTreeSet<NodeId>, drill: bool) -> String {
    let mut rows = String::new();
    for member in &ring.members {
        let state = match member.state {
            MemberState::Up if ejected.contains(&member.id) => "ejected",
            MemberState::Up => "up",
            MemberState::Down => "down",
        };
        let share = member.slots as f64 * 100.0 / ring.slots as f64;
        // Writing to a String cannot fail.
        let _ = write!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{share:.1} %</td><td class={state}>{state}</td></tr>",
            escaped(member.id.as_str()),
            escaped(&member.address),
            escaped(member.pool.as_str()),
            member.weight,
            member.slots,
        );
    }
    let change = match &ring.change {
        None => "No ring change is running.".to_owned(),
        Some(change) => format!(
            "Change {}: {} is in phase {:?}, {} slots move from epoch {} to {}.",
            change.id,
            escaped(&change.action),
            change.phase,
            change.moving_slots,
            change.from_epoch,
            change.to_epoch
        ),
    };
    let pinned =
        if ring.pinned_users == 1 { "1 user has".to_owned() } else { format!("{} users have", ring.pinned_users) };
    let drill = if drill { DRILL } else { "" };
    PAGE.replace("@DRILL@", drill)
        .replace("@EPOCH@", &ring.epoch.to_string())
        .replace("@CHANGE@", &change)
        .replace("@PINNED@", &pinned)
        .replace("@ROWS@", &rows)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// While faults are on.
const DRILL: &str =
    "<p class=down>Fault drill: requests are delayed and refused on purpose (SHARDCACHE_FAULTS=on).</p>";

const PAGE: &str = r#"<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>shardcache</title>
<style>:root{color-scheme:light dark}body{font:16px system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8886}
.down,.ejected{color:#c33;font-weight:bold}</style></head><body><h1>shardcache</h1>@DRILL@<p>Ring epoch @EPOCH@. @PINNED@ a slot of their own. @CHANGE@</p>
<table><thead><tr><th>node<th>address<th>pool<th>weight<th>slots<th>share<th>state</tr></thead><tbody>@ROWS@</tbody></table>
<p><a href="/v1/ring">ring as JSON</a> · <a href="/readyz">readiness</a> · <a href="/metrics">metrics</a></p></body></html>
"#;

#[cfg(test)]
mod tests {
    use placement::{Epoch, Pool, Weight};
    use wire::ring_document::MemberDocument;

    use super::*;

    #[test]
    fn an_address_cannot_put_markup_into_the_page() {
        let member = MemberDocument {
            id: "n1".parse().expect("id"),
            address: "<script>:1".to_owned(),
            pool: Pool::default(),
            weight: Weight::default(),
            slots: 4096,
            state: MemberState::Down,
        };
        let ring = RingDocument { epoch: Epoch(7), slots: 4096, members: vec![member], pinned_users: 0, change: None };
        let page = render(&ring, &BTreeSet::new(), true);
        assert!(page.contains("&lt;script&gt;:1") && !page.contains("<script>"));
        assert!(page.contains("Fault drill"));
        assert!(page.contains("Ring epoch 7") && page.contains("100.0 %"));
    }
}
