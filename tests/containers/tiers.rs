//! Whether all tiers say what the rows in Postgres say: every key of the run, read twice through each gateway.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use tests::clients::Recorded;
use tests::door::Door;
use tests::history::{Operation, Outcome};

use crate::stack::Stack;

/// How often the comparison is begun anew because a write of unknown outcome has landed meanwhile.
const TRIES_MAX: usize = 3;

/// Value and version by user and key.
type Rows = BTreeMap<(String, String), (u64, u64)>;

/// Compares, and adds the reads to the history; how many answers were compared.
pub(crate) async fn agree(stack: &Stack, recorded: &mut Recorded, doors: &[Door]) -> anyhow::Result<usize> {
    for _ in 0..TRIES_MAX {
        let before = rows(stack).await?;
        let known = recorded.history.operations.len();
        let twice = [doors, doors].concat();
        let unanswered = recorded.read_every_key(&twice).await;
        if unanswered > 0 {
            bail!("{unanswered} of the last reads were not answered");
        }
        if rows(stack).await? == before {
            let reads = &recorded.history.operations[known..];
            return compare(&before, recorded, reads);
        }
    }
    bail!("the rows do not come to rest")
}

fn compare(rows: &Rows, recorded: &Recorded, reads: &[Operation]) -> anyhow::Result<usize> {
    for read in reads {
        let name = &recorded.history.names[read.key as usize];
        let row = rows.get(&(name.user.clone(), name.key.clone())).copied();
        let Outcome::Read { value, version } = read.outcome else { bail!("not a read: {read}") };
        if row != value.zip(version) {
            bail!("user {}, entry {}: the row is {row:?}, but {read}", name.user, name.key);
        }
    }
    Ok(reads.len())
}

async fn rows(stack: &Stack) -> anyhow::Result<Rows> {
    let statement = "SELECT usr, key, convert_from(value, 'UTF8'), version FROM entries WHERE key <> 'healed'";
    let text = stack.sql(statement).await?;
    let row = |line: &str| {
        let [user, key, body, version] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        // A body is the run's seed and the value.
        let value = body.split_once(':')?.1.parse().ok()?;
        Some(((user.to_owned(), key.to_owned()), (value, version.parse().ok()?)))
    };
    text.lines().map(|line| row(line).with_context(|| format!("a row of nobody: {line}"))).collect()
}
