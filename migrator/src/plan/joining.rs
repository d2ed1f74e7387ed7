//! Whether a node may join: registered, alive, and at an address of its own.

use origin::NodeRow;
use placement::NodeId;

use super::PlanRefused;

/// The row of a node that may join: there, alive, and at an address of its own.
pub fn joining<'a>(nodes: &'a [NodeRow], id: &NodeId) -> Result<&'a NodeRow, PlanRefused> {
    let row = nodes.iter().find(|row| &row.id == id).ok_or_else(|| PlanRefused::NotRegistered(id.clone()))?;
    if row.lease_left_ms == 0 {
        return Err(PlanRefused::LeaseOver(id.clone()));
    }
    if !is_host_and_port(&row.address) {
        return Err(PlanRefused::BadAddress { id: id.clone(), address: row.address.clone() });
    }
    match nodes.iter().find(|other| other.id != *id && other.lease_left_ms > 0 && other.address == row.address) {
        Some(other) => {
            Err(PlanRefused::AddressTaken { id: id.clone(), address: row.address.clone(), by: other.id.clone() })
        }
        None => Ok(row),
    }
}

fn is_host_and_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let host_fits = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_[]:".contains(&b));
    host_fits && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}
