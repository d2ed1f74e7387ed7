//! What the tests of ring changes share: it is part of the harness, for other tests change rings too.

pub(crate) use tests::door::{Door, each, members, owned_by, shares, users};
pub(crate) use tests::ring_change::{FlipHeld, add_standby, cluster, cluster_on_a_file, done, json, refused};
