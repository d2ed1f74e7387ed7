//! The node client against a peer that speaks raw HTTP on a socket.

use placement::{Incarnation, NodeId, Slot, Tenure};
use tokio::net::TcpListener;
use wire::ProblemCode;
use wire::control::SealedTenure;

use super::*;
use crate::scripted_peer::answering;

const TIMEOUT: Duration = Duration::from_secs(5);

fn client() -> NodeClient {
    NodeClient::new(Some("s3cret".parse().expect("token")), NodeDialler::default(), TIMEOUT)
}

#[tokio::test]
async fn a_seal_is_posted_with_the_token_and_its_report_comes_back() {
    let report = SealReport {
        node: "n1".parse::<NodeId>().expect("node"),
        incarnation: Incarnation(3),
        slots: vec![SealedTenure { slot: Slot::try_from(7).expect("slot"), tenure: Tenure(40) }],
        streams: Vec::new(),
    };
    let (address, seen) = answering("200 OK", "", &serde_json::to_string(&report).expect("json")).await;
    let request = SealRequest { slots: vec![Slot::try_from(7).expect("slot")] };
    assert_eq!(client().seal(&address, ChangeId(5), &request).await.expect("report"), report);
    let seen = seen.await.expect("seen");
    assert!(seen.starts_with("POST /internal/changes/5/seal HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("authorization: Bearer s3cret\r\n"), "{seen}");
}

#[tokio::test]
async fn a_refresh_has_no_body_to_return() {
    let (address, seen) = answering("204 No Content", "", "").await;
    client().refresh(&address).await.expect("refreshed");
    assert!(seen.await.expect("seen").starts_with("POST /internal/refresh HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_problem_is_a_refusal() {
    let problem = Problem::new(ProblemCode::ChangeConflict, "sealed for another change");
    let (address, _seen) = answering("409 Conflict", "", &serde_json::to_string(&problem).expect("json")).await;
    let error = client().settle(&address, ChangeId(5)).await.expect_err("refused");
    assert!(matches!(error, ControlError::Refused(refused) if refused == problem));
}

#[tokio::test]
async fn an_error_without_a_problem_and_a_success_without_json_are_malformed() {
    for (status, body) in [("502 Bad Gateway", "<html>"), ("200 OK", "{}"), ("302 Found", "")] {
        let (address, _seen) = answering(status, "", body).await;
        let error = client().slots(&address).await.expect_err(status);
        assert!(matches!(error, ControlError::Malformed(_)), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn a_closed_port_and_a_silent_peer_are_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    let hasty = NodeClient::new(None, NodeDialler::default(), Duration::from_millis(50));
    assert!(matches!(hasty.slots(&address).await, Err(ControlError::Unreachable(_))));
    drop(listener);
    assert!(matches!(client().slots(&address).await, Err(ControlError::Unreachable(_))));
}
