//! Which nodes are well: by active checks, by how requests to them go, and how they come back.
//!
//! A node may be passed by for two reasons. It is *silent*: its health route does not answer (in doubt after a failed request,
//! unhealthy after failed checks); what ends that is an answer. Or it is *ejected*: it answers, but fails more than the others;
//! what ends that is time. Neither gives its users another owner: their reads go detached, their writes are refused.

pub(crate) mod active;
pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod outlier;
pub(crate) mod slow_start;
pub(crate) mod standing;
pub(crate) mod watch;
