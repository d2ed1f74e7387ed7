//! Reads of the origin that come at the same time share a statement.
//!
//! Sound for loads (G3) and for direct reads (G6) alike: a statement begins, in a fresh snapshot, after each of its reads was
//! asked for, so that each sees what it could have seen alone. That is no joining of loads (G1), which needs guard and reign.

use std::sync::Arc;

use origin::{Origin, OriginError};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::entry_name::EntryName;
use crate::l1::Content;
use crate::limits;
use crate::metrics::Metrics;
use crate::shared_trips::{Asked, Bounds, RoundTrip, SharedTrips};

/// What the origin has of a name.
type Row = Result<Content, OriginError>;

/// The reads of one node.
pub(crate) struct OriginReads {
    trips: Arc<SharedTrips<Statement>>,
    metrics: Arc<Metrics>,
}

/// A read that was asked for; may be dropped.
pub(crate) struct AskedRead {
    asked: Asked<Row>,
    /// Counted from the question: reads that were asked for together wait together, in whatever order they are looked at.
    until: Instant,
}

impl OriginReads {
    pub(crate) fn new(origin: Origin, metrics: &Arc<Metrics>, tasks: TaskTracker) -> Self {
        let bounds = Bounds {
            trips: limits::ORIGIN_READ_STATEMENTS,
            questions: limits::ORIGIN_READS_PER_STATEMENT,
            waiting: limits::ORIGIN_READS_WAITING_MAX,
        };
        let statement = Statement { origin, metrics: Arc::clone(metrics) };
        Self { trips: SharedTrips::new(statement, bounds, tasks), metrics: Arc::clone(metrics) }
    }

    /// The committed entry.
    pub(crate) async fn read(&self, name: &EntryName) -> Row {
        self.metrics.origin_reads.inc();
        AskedRead::begun(self.trips.ask(name.clone())).row().await
    }

    /// The committed entries of several names, read by one statement where it has room for them.
    pub(crate) fn read_all(&self, names: Vec<EntryName>) -> Vec<AskedRead> {
        self.metrics.origin_reads.inc_by(names.len() as u64);
        self.trips.ask_all(names).into_iter().map(AskedRead::begun).collect()
    }
}

impl AskedRead {
    fn begun(asked: Asked<Row>) -> Self {
        Self { asked, until: Instant::now() + limits::ORIGIN_READ }
    }

    /// What came back.
    pub(crate) async fn row(self) -> Row {
        match timeout_at(self.until, self.asked.answer()).await {
            Ok(Some(row)) => row,
            Ok(None) => Err(OriginError::Unreachable("too many reads wait for the database")),
            Err(_) => Err(OriginError::Timeout),
        }
    }
}

/// One statement.
struct Statement {
    origin: Origin,
    metrics: Arc<Metrics>,
}

impl Statement {
    async fn read_one(&self, name: &EntryName) -> Row {
        self.metrics.origin_read_statements.inc();
        Ok(self.origin.read_entry(&name.user, &name.key).await?.map(Arc::new))
    }

    /// Until the database does not answer any more: then the rest has the same error.
    async fn one_by_one(&self, names: &[EntryName]) -> Vec<Row> {
        let mut rows = Vec::with_capacity(names.len());
        for name in names {
            let row = self.read_one(name).await;
            if let Err(error) = &row
                && !error.may_be_of_one_row()
            {
                rows.resize(names.len(), row);
                break;
            }
            rows.push(row);
        }
        rows
    }

    async fn read_many(&self, names: &[EntryName]) -> Result<Vec<Content>, OriginError> {
        self.metrics.origin_read_statements.inc();
        let names: Vec<_> = names.iter().map(|name| (&name.user, &name.key)).collect();
        let rows = self.origin.read_entries(&names).await?;
        Ok(rows.into_iter().map(|row| row.map(Arc::new)).collect())
    }
}

impl RoundTrip for Statement {
    type Question = EntryName;
    type Answer = Row;

    async fn make(&self, names: Vec<EntryName>) -> Vec<Row> {
        // Cheaper for the database than a list of one.
        if let [name] = &names[..] {
            return vec![self.read_one(name).await];
        }
        match self.read_many(&names).await {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            // One row that cannot be read is nobody's error but its own readers'.
            Err(error) if error.may_be_of_one_row() => self.one_by_one(&names).await,
            Err(error) => vec![Err(error); names.len()],
        }
    }
}

#[cfg(test)]
mod tests;
