//! What a run claims, told as it is decided, and counted.

/// Counts of what held and what did not.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    passed: usize,
    failed: usize,
}

impl Claims {
    /// Tells whether the claim holds, with what is to be said of it.
    pub(crate) fn holds(&mut self, seed: u64, claim: &str, result: anyhow::Result<String>) -> bool {
        match &result {
            Ok(said) if said.is_empty() => println!("ok      seed {seed}: {claim}"),
            Ok(said) => println!("ok      seed {seed}: {claim} ({said})"),
            Err(error) => {
                println!("FAILED  seed {seed}: {claim}");
                format!("{error:#}").lines().for_each(|line| println!("        {line}"));
            }
        }
        *if result.is_ok() { &mut self.passed } else { &mut self.failed } += 1;
        result.is_ok()
    }

    pub(crate) fn passed(&self) -> usize {
        self.passed
    }

    pub(crate) fn failed(&self) -> usize {
        self.failed
    }
}
