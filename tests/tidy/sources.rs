//! Files are small and say what they are; nothing is skipped; nothing speaks of the machine it was written on.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{assert_none, root};

const FILE_MAX_LINES: usize = 400;
/// "About 70": a function over this is not about 70.
const FUNCTION_MAX_LINES: usize = 80;
/// Directories at the top that are not the repository's.
const NOT_OURS: [&str; 3] = ["target", ".git", "data"];

/// Every file of the repository, with its path from the top.
fn files() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut directories = vec![root()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory can be listed") {
            let path = entry.expect("an entry can be read").path();
            let name = path.strip_prefix(root()).expect("below the top").to_owned();
            if NOT_OURS.iter().any(|ours| name == Path::new(ours)) {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((name, text));
            }
        }
    }
    found
}

fn rust_files() -> Vec<(PathBuf, String)> {
    files().into_iter().filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

#[test]
fn every_source_file_opens_with_what_it_is() {
    let silent = rust_files().into_iter().filter(|(_, text)| !text.starts_with("//!"));
    assert_none(&silent.map(|(path, _)| format!("{} has no //! line", path.display())).collect::<Vec<_>>());
}

#[test]
fn source_files_are_small() {
    let sizes = rust_files().into_iter().map(|(path, text)| (path, text.lines().count()));
    let big = sizes.filter(|(_, lines)| *lines > FILE_MAX_LINES);
    assert_none(&big.map(|(path, lines)| format!("{} has {lines} lines", path.display())).collect::<Vec<_>>());
}

#[test]
fn functions_are_short() {
    let mut complaints = Vec::new();
    for (path, text) in rust_files() {
        for (name, lines) in functions(&text).into_iter().filter(|(_, lines)| *lines > FUNCTION_MAX_LINES) {
            complaints.push(format!("{}: `{name}` has {lines} lines", path.display()));
        }
    }
    assert_none(&complaints);
}

#[test]
fn no_test_is_skipped() {
    // In two parts, so that this file does not hold it.
    let mark = ["#[", "ignore"].concat();
    let skipping = rust_files().into_iter().filter(|(_, text)| text.contains(&mark));
    assert_none(&skipping.map(|(path, _)| format!("{} skips a test", path.display())).collect::<Vec<_>>());
}

#[test]
fn the_repository_does_not_speak_of_where_it_was_written() {
    let words = [
        ["/wo", "rk/"],
        ["/fa", "rm/"],
        ["../sha", "red"],
        [".lib", "rary/"],
        ["sub", "agent"],
        ["helper ", "session"],
        ["large language ", "model"],
    ]
    .map(|parts| parts.concat());
    let mut complaints = Vec::new();
    for (path, text) in files() {
        let holds = |line: &str| words.iter().any(|word| line.to_lowercase().contains(word));
        let lines = text.lines().enumerate().filter(|(_, line)| holds(line));
        complaints.extend(lines.map(|(number, line)| format!("{}:{}: {line}", path.display(), number + 1)));
    }
    assert_none(&complaints);
}

/// The name and length of each function of formatted source: it ends at the first `}` as far left as it began.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some((before, after)) = code.split_once("fn ") else { continue };
        if !before.split_whitespace().all(|word| word.starts_with("pub") || ["async", "const"].contains(&word)) {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        // A one-liner has its end in its own line and no such line below, or only that of a neighbour.
        let opens = lines[start..].iter().position(|line| line.ends_with('{') || line.ends_with(['}', ';']));
        if !opens.is_some_and(|at| lines[start + at].ends_with('{')) {
            continue;
        }
        let length = lines[start..].iter().position(|line| *line == end).map_or(0, |length| length + 1);
        found.push((after.split(['(', '<']).next().unwrap_or_default(), length));
    }
    found
}

#[test]
fn functions_are_measured_from_their_first_line_to_their_brace() {
    let text = "fn one() {}\nimpl X {\n    pub(crate) async fn three() {\n        fn_like();\n    }\n}\nfn split(\n    a: u8,\n) {\n}\n";
    assert_eq!(functions(text), [("three", 3), ("split", 4)]);
}
