//! Processor time of other processes.

/// The unit of the times in `/proc`: 1/100 s on every machine Linux runs on today.
pub const TICKS_PER_SECOND: u64 = 100;

/// The processor time, in ticks, that a process has used in user and system mode, all its threads together.
pub fn process_ticks(pid: u32) -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks(&stat).ok_or_else(|| anyhow::anyhow!("/proc/{pid}/stat cannot be read"))
}

/// Fields 14 and 15; the name in the second field may hold blanks and brackets.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_whatever_the_name_is() {
        let stat = "77 (a (b) c) S 1 77 77 0 -1 4194560 1 2 3 4 120 30 5 6 20 0 1 0 99 1 2";
        assert_eq!(ticks(stat), Some(150));
        assert_eq!(ticks("77 (x) S 1"), None);
    }
}
