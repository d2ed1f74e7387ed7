//! JSON bodies: the control plane (`wire::control`), the data plane (`wire::entries`), problems.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Problem;
use wire::control::{CopyReport, CopyRequest, LoadReport, SealReport, SealRequest, SettleReport, SlotsReport};
use wire::entries::{EntryPage, MgetRequest, MgetResponse};
use wire::ring_document::Location;

/// How much longer our spelling may be than the peer's: it may leave a member out where we write `null`.
const LONGER: usize = 3;

/// Reads the bytes as every body there is; `frames` and `ring` have the rest.
pub fn bodies(data: &[u8]) {
    let taken = [
        keeps_its_meaning::<SealRequest>(data),
        keeps_its_meaning::<CopyRequest>(data),
        keeps_its_meaning::<CopyReport>(data),
        keeps_its_meaning::<SealReport>(data),
        keeps_its_meaning::<SettleReport>(data),
        keeps_its_meaning::<SlotsReport>(data),
        keeps_its_meaning::<LoadReport>(data),
        keeps_its_meaning::<MgetRequest>(data),
        keeps_its_meaning::<MgetResponse>(data),
        keeps_its_meaning::<EntryPage>(data),
        keeps_its_meaning::<Location>(data),
    ];
    if let Ok(problem) = serde_json::from_slice::<Problem>(data) {
        assert!(problem.code.status().is_client_error() || problem.code.status().is_server_error());
        assert!(keeps_its_meaning::<Problem>(data));
    }
    // A multi-get is the only one that a stranger may send: it is taken for nothing else.
    if serde_json::from_slice::<MgetRequest>(data).is_ok() {
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
    }
}

/// Whether it is such a body; if so, reading what is written of it changes nothing.
fn keeps_its_meaning<T: Serialize + DeserializeOwned>(data: &[u8]) -> bool {
    let Ok(body) = serde_json::from_slice::<T>(data) else { return false };
    let once = serde_json::to_vec(&body).expect("plain structs serialise");
    let again: T = serde_json::from_slice(&once).expect("what we write we read");
    assert_eq!(serde_json::to_vec(&again).expect("plain structs serialise"), once);
    assert!(once.len() <= LONGER * data.len(), "{} bytes of {}", once.len(), data.len());
    true
}
