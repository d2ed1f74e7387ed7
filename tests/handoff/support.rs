//! What the clients beside a change must have seen, on a machine that may be busy with other things.

use tests::checker::Seen;

/// No stale read, no lost write, no unknown one, no read refused. A write may be refused, as not executed, where a slow
/// machine has a pause outlast the time that writes are parked; of a hundred at most one.
pub(crate) fn assert_registers(seen: &Seen) {
    let refused = seen.write_errors.len() as u64;
    println!("{} reads, {} writes, {refused} writes refused", seen.reads, seen.writes);
    assert!(seen.violations.is_empty(), "{seen:#?}");
    assert_eq!((seen.unknown, seen.read_errors.len()), (0, 0), "{seen:#?}");
    assert!(seen.write_errors.iter().all(|error| error.contains("owner_unavailable")), "{seen:#?}");
    assert!(refused * 100 <= seen.writes, "{seen:#?}");
}
