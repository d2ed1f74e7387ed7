//! Group commit: many writes in one transaction, each acknowledged after the commit, none failing for its neighbour.

use std::time::Duration;

use sqlx::{SqliteConnection, query_as};
use tokio::sync::mpsc;
use wire::entries::Version;

use super::WriteJob;
use crate::entries::{FencedWrite, WriteAnswer, WriteKind};
use crate::error::{OriginError, WriteError};
use crate::rows::slot_number;
use crate::sqlite::failure;
use crate::sqlite::transaction::{begin, rollback, row, rows, take_numbers};
use crate::verdict::{Demand, Step, step};

/// The most writes of one commit: more would only make each wait longer.
const BATCH_MAX: usize = 64;
/// No more are added once a batch holds this many bytes of values.
const BATCH_BYTES: usize = 4 << 20;

/// Fence and present version.
const LOOK: &str = "SELECT EXISTS (SELECT 1 FROM slots WHERE slot = ?1 AND tenure = ?2), \
    (SELECT version FROM entries WHERE usr = ?3 AND key = ?4)";

const UPSERT: &str = "INSERT INTO entries (usr, key, value, content_type, cache_control, version, updated_ms) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, CAST(unixepoch('subsec') * 1000 AS INTEGER)) \
    ON CONFLICT (usr, key) DO UPDATE SET value = excluded.value, content_type = excluded.content_type, \
    cache_control = excluded.cache_control, version = excluded.version, updated_ms = excluded.updated_ms RETURNING 1";

const DELETE: &str = "DELETE FROM entries WHERE usr = ?1 AND key = ?2 RETURNING 1";

/// Whatever is queued, up to the bounds, started; the transaction has begun.
pub(super) fn collect(first: WriteJob, queue: &mut mpsc::Receiver<WriteJob>) -> Vec<WriteJob> {
    let mut jobs = Vec::with_capacity(BATCH_MAX);
    let mut bytes = 0;
    let mut next = Some(first);
    while let Some(job) = next {
        if job.ticket.start() {
            bytes += size(&job.write);
            jobs.push(job);
        }
        let room = jobs.len() < BATCH_MAX && bytes < BATCH_BYTES;
        next = if room { queue.try_recv().ok() } else { None };
    }
    jobs
}

fn size(write: &FencedWrite) -> usize {
    match &write.kind {
        WriteKind::Put { value, .. } => value.len(),
        WriteKind::Delete => 0,
    }
}

/// Runs started jobs inside the transaction that has begun, ends it, and answers them. Says whether the connection is good.
pub(super) async fn run(connection: &mut SqliteConnection, patience: Duration, jobs: Vec<WriteJob>) -> bool {
    match write_all(connection, jobs.iter().map(|job| &job.write)).await {
        Ok(answers) => commit(connection, jobs, answers).await,
        Err(error) => {
            // Undone as a whole, so that each can be tried alone: the fault is one job's.
            if !rollback(connection).await {
                // SQLite has rolled back by itself, which it does on grave errors only. Nothing is committed.
                answer_all(jobs, &WriteError::NotExecuted(error));
                return false;
            }
            if jobs.len() == 1 {
                answer_all(jobs, &WriteError::NotExecuted(error));
                return true;
            }
            one_by_one(connection, patience, jobs).await
        }
    }
}

async fn one_by_one(connection: &mut SqliteConnection, patience: Duration, jobs: Vec<WriteJob>) -> bool {
    let mut jobs = jobs.into_iter();
    while let Some(job) = jobs.next() {
        if let Err(error) = begin(connection, patience).await {
            let error = WriteError::NotExecuted(error);
            answer_all(std::iter::once(job).chain(jobs), &error);
            return false;
        }
        let good = match write_all(connection, std::iter::once(&job.write)).await {
            Ok(answers) => commit(connection, vec![job], answers).await,
            Err(error) => {
                answer_all([job], &WriteError::NotExecuted(error));
                rollback(connection).await
            }
        };
        if !good {
            let error = WriteError::NotExecuted(OriginError::Unreachable("the connection broke"));
            answer_all(jobs, &error);
            return false;
        }
    }
    true
}

async fn commit(connection: &mut SqliteConnection, jobs: Vec<WriteJob>, answers: Vec<WriteAnswer>) -> bool {
    match sqlx::query("COMMIT").execute(&mut *connection).await {
        Ok(_) => {
            for (job, answer) in jobs.into_iter().zip(answers) {
                let _ = job.reply.send(Ok(answer));
            }
            true
        }
        Err(error) => {
            // Whatever of the transaction is left ends with the connection.
            answer_all(jobs, &failure::of_commit(&error));
            false
        }
    }
}

fn answer_all(jobs: impl IntoIterator<Item = WriteJob>, error: &WriteError) {
    for job in jobs {
        let _ = job.reply.send(Err(error.clone()));
    }
}

async fn write_all<'w>(
    connection: &mut SqliteConnection,
    writes: impl ExactSizeIterator<Item = &'w FencedWrite>,
) -> Result<Vec<WriteAnswer>, OriginError> {
    let mut version = take_numbers(connection, "version", writes.len()).await?;
    let mut answers = Vec::with_capacity(writes.len());
    for write in writes {
        version += 1;
        answers.push(write_one(connection, write, Version(version)).await?);
    }
    Ok(answers)
}

async fn write_one(
    connection: &mut SqliteConnection,
    write: &FencedWrite,
    version: Version,
) -> Result<WriteAnswer, OriginError> {
    let look = query_as::<_, (bool, Option<i64>)>(LOOK)
        .bind(slot_number(write.slot))
        .bind(write.tenure.0)
        .bind(write.user.as_str())
        .bind(write.key.as_str());
    let (owned, present) = row(connection, look).await?.unwrap_or((false, None));
    let demand = Demand::of(&write.precondition);
    match step(owned, present.map(Version), &write.kind, &demand) {
        Step::Fenced => Ok(WriteAnswer::Fenced),
        Step::Fail(present) => Ok(WriteAnswer::PreconditionFailed(present)),
        Step::Absent => Ok(WriteAnswer::Absent),
        Step::Create => put(connection, write, version).await.map(|()| WriteAnswer::Created(version)),
        Step::Replace => put(connection, write, version).await.map(|()| WriteAnswer::Replaced(version)),
        Step::Delete(old) => {
            let delete = query_as::<_, (i64,)>(DELETE).bind(write.user.as_str()).bind(write.key.as_str());
            rows(connection, delete).await.map(|_| WriteAnswer::Deleted(old))
        }
    }
}

async fn put(connection: &mut SqliteConnection, write: &FencedWrite, version: Version) -> Result<(), OriginError> {
    let WriteKind::Put { value, content_type, cache_control } = &write.kind else { return Ok(()) };
    let upsert = query_as::<_, (i64,)>(UPSERT)
        .bind(write.user.as_str())
        .bind(write.key.as_str())
        .bind(value.to_vec())
        .bind(content_type.as_str())
        .bind(cache_control.as_deref())
        .bind(version.0);
    rows(connection, upsert).await.map(|_| ())
}
