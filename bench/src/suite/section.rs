//! A part of the report: a heading, a table, and what must be said about it.

use std::fmt::Write;

use super::rounds::Medians;

/// One measurement's result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Sentences below the table.
    pub(crate) notes: Vec<String>,
    /// Right answers that were counted.
    pub(crate) answers: u64,
    /// Failed and wrong answers.
    pub(crate) errors: u64,
    /// Plots: file name and SVG.
    pub(crate) plots: Vec<(String, String)>,
}

impl Section {
    pub(crate) fn new(id: &'static str, title: &str, header: &[&str]) -> Self {
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Self { id, title: title.to_owned(), header, ..Self::default() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// A section of comparisons of speed.
    pub(crate) fn comparison(id: &'static str, title: &str) -> Self {
        let header = [
            "conns",
            "value",
            "server",
            "rps",
            "ours ÷ it",
            "rounds",
            "CPU µs",
            "ours ÷ it",
            "p50 µs",
            "p99 µs",
            "cores busy",
            "errors",
        ];
        Self::new(id, title, &header)
    }

    /// The rows of one comparison; the first subject is ours.
    pub(crate) fn compare(&mut self, connections: usize, value_bytes: usize, names: &[&str], medians: &[Medians]) {
        let Some(ours) = medians.first() else { return };
        for (index, (name, it)) in names.iter().zip(medians).enumerate() {
            let ratio = |ours: f64, it: f64| {
                if index == 0 || it == 0.0 { "–".to_owned() } else { format!("{:.2}", ours / it) }
            };
            self.answers += it.answers;
            self.errors += it.errors;
            self.rows.push(vec![
                connections.to_string(),
                bytes(value_bytes as f64),
                (*name).to_owned(),
                count(it.rps),
                ratio(ours.rps, it.rps),
                format!("{}–{}", count(it.rps_range.0), count(it.rps_range.1)),
                if it.cpu_us == 0.0 { "–".to_owned() } else { format!("{:.1}", it.cpu_us) },
                ratio(ours.cpu_us, it.cpu_us),
                format!("{:.0}", it.p50_us),
                format!("{:.0}", it.p99_us),
                if it.cpu_us == 0.0 {
                    "–".to_owned()
                } else {
                    format!("{:.0} · {:.0} %", it.busy.0 * 100.0, it.busy.1 * 100.0)
                },
                it.errors.to_string(),
            ]);
        }
    }

    /// As Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("### {}: {}\n", self.id, self.title);
        // Writing to a String cannot fail.
        if !self.header.is_empty() {
            let _ = writeln!(text, "| {} |", self.header.join(" | "));
            let _ = writeln!(text, "|{}", " --- |".repeat(self.header.len()));
        }
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{note}");
        }
        for (file, _) in &self.plots {
            let _ = writeln!(text, "\n![{}](img/{file})", self.title);
        }
        text
    }
}

/// A number with separators: 12,345.
pub(crate) fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in bytes: 256 B, 4 KiB, 1.5 MiB.
pub(crate) fn bytes(value: f64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        let size = value / f64::from(1_u32 << shift);
        if size >= 1.0 {
            return if size.fract() < 0.05 { format!("{size:.0} {unit}") } else { format!("{size:.1} {unit}") };
        }
    }
    format!("{value:.0} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([999.0, 1000.0, 1_234_567.4].map(count), ["999", "1,000", "1,234,567"]);
        assert_eq!([256.0, 4096.0, 1.5 * 1024.0 * 1024.0].map(bytes), ["256 B", "4 KiB", "1.5 MiB"]);
    }

    #[test]
    fn ratios_are_ours_over_the_peers() {
        let mut section = Section::comparison("P1", "hits");
        let medians = [300.0, 200.0].map(|rps| Medians { rps, cpu_us: rps, ..Medians::default() });
        section.compare(8, 256, &["ours", "theirs"], &medians);
        assert_eq!((section.rows[0][4].as_str(), section.rows[1][4].as_str()), ("–", "1.50"));
        assert!(section.markdown().contains("| 8 | 256 B | theirs | 200 | 1.50 |"), "{}", section.markdown());
    }
}
