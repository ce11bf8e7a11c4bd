//! The rules of the house, read off the sources: which room may use which, what stays pure, how files are named.

#![expect(
    clippy::unwrap_used,
    reason = "a source that cannot be read fails the test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What each room may use, by the arrows of `src/lib.rs`. `command` and `main` see all; nobody sees them.
const ARROWS: [(&str, &[&str]); 10] = [
    ("api", &[]),
    ("ratio", &["api"]),
    ("policy", &["api", "ratio"]),
    ("fence", &["api", "ratio", "policy"]),
    ("admission", &["api", "ratio", "policy", "fence"]),
    ("serve", &["api", "ratio", "policy", "fence", "admission"]),
    ("signal", &["api"]),
    ("algorithm", &["api", "ratio", "policy", "signal"]),
    (
        "planner",
        &["api", "ratio", "policy", "signal", "algorithm"],
    ),
    (
        "reconcile",
        &[
            "api",
            "ratio",
            "policy",
            "fence",
            "signal",
            "algorithm",
            "planner",
        ],
    ),
];

/// Rooms that only compute. Of `signal`, everything but the scraper does.
const PURE: [&str; 6] = ["ratio", "policy", "fence", "algorithm", "planner", "signal"];
const IMPURE_PARTS: [&str; 2] = ["signal/scrape.rs", "signal/scrape/"];

/// Paths that a pure room may not name: runtimes, clients, clocks, randomness, logs, files, sockets.
const IMPURE: [&str; 25] = [
    "tokio",
    "tokio_util",
    "tokio_rustls",
    "futures",
    "hyper",
    "hyper_util",
    "axum",
    "tower",
    "kube",
    "rustls",
    "tracing",
    "log",
    "rand",
    "getrandom",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::time::SystemTime",
    "std::time::Instant",
    "SystemTime",
    "Instant",
    "Timestamp::now",
    "jiff::Timestamp::now",
];
const IMPURE_WORDS: [&str; 6] = [
    "async",
    "await",
    "println",
    "eprintln",
    "dbg",
    "RandomState",
];

const VAGUE_NAMES: [&str; 8] = [
    "util", "utils", "common", "helper", "helpers", "manager", "types", "misc",
];
const LONGEST_FILE: usize = 600;

#[test]
fn rooms_use_only_the_rooms_that_their_arrows_allow() {
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let rooms: BTreeSet<&str> = arrows.keys().copied().chain(["command"]).collect();
    let mut faults = Vec::new();
    for source in sources("src") {
        let Some(allowed) = arrows.get(source.room.as_str()) else {
            continue;
        };
        for used in source.rooms_used() {
            if rooms.contains(used.as_str())
                && used != source.room
                && !allowed.contains(&used.as_str())
            {
                faults.push(format!(
                    "{}: {} may not use {used}",
                    source.name, source.room
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pure_rooms_name_no_runtime_client_clock_randomness_log_file_or_socket() {
    let mut faults = Vec::new();
    for source in sources("src") {
        if PURE.contains(&source.room.as_str())
            && !IMPURE_PARTS
                .iter()
                .any(|part| source.name.starts_with(part))
        {
            faults.extend(
                source
                    .impurities()
                    .into_iter()
                    .map(|what| format!("{}: {what}", source.name)),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_room_of_the_table_exists_and_every_folder_is_in_it() {
    let known: BTreeSet<String> = ARROWS
        .iter()
        .map(|(room, _)| (*room).to_owned())
        .chain(["command".into()])
        .collect();
    let found: BTreeSet<String> = sources("src")
        .into_iter()
        .map(|s| s.room)
        .filter(|room| !room.is_empty())
        .collect();
    assert_eq!(found, known);
}

#[test]
fn no_file_has_a_name_that_says_nothing() {
    for root in ["src", "tests", "benches", "fuzz/fuzz_targets"] {
        for path in rust_files(&root_folder().join(root)) {
            for part in path.strip_prefix(root_folder()).unwrap_or(&path) {
                let part = part.to_string_lossy();
                let stem = part.strip_suffix(".rs").unwrap_or(&part);
                assert!(!VAGUE_NAMES.contains(&stem), "{}: {stem}", path.display());
            }
        }
    }
}

#[test]
fn no_file_is_over_600_lines_tests_excepted() {
    for source in sources("src")
        .into_iter()
        .chain(sources("tests/sandbox/src"))
    {
        let lines = source.code.lines().count();
        assert!(lines <= LONGEST_FILE, "{}: {lines} lines", source.name);
    }
}

#[test]
fn every_fuzz_target_is_one_that_cargo_fuzz_runs() {
    let manifest = fs::read_to_string(root_folder().join("fuzz/Cargo.toml")).unwrap();
    for path in rust_files(&root_folder().join("fuzz/fuzz_targets")) {
        let name = path.file_stem().unwrap().to_string_lossy();
        assert!(
            manifest.contains(&format!("\nname = \"{name}\"\n")),
            "fuzz/Cargo.toml has no [[bin]] {name}"
        );
    }
}

#[test]
fn every_test_that_a_document_names_exists() {
    let mut known = BTreeSet::new();
    for root in ["src", "tests"] {
        for path in rust_files(&root_folder().join(root)) {
            let tokens = tokens(&fs::read_to_string(&path).unwrap());
            known.extend(
                tokens
                    .windows(2)
                    .filter(|pair| pair[0] == "fn")
                    .map(|pair| pair[1].clone()),
            );
        }
    }
    for page in ["docs/fence.md", "docs/admission.md"] {
        for (row, names) in rows_with_tests(&fs::read_to_string(root_folder().join(page)).unwrap())
        {
            for name in names {
                assert!(
                    known.contains(&name),
                    "{page}: no test {name}, named in the row\n{row}"
                );
            }
        }
    }
}

// The checks above are only worth something if they can fail.

#[test]
fn a_grouped_import_of_a_clock_in_a_pure_room_is_found() {
    let source = Source::new(
        "fence/x.rs",
        "use std::{collections::BTreeMap, time::{Duration, Instant as Clock}};\n",
    );
    assert_eq!(source.impurities(), ["std::time::Instant"]);
}

#[test]
fn an_async_function_a_log_and_a_read_of_the_clock_are_found() {
    let source = Source::new(
        "planner/x.rs",
        "async fn f() { tracing::info!(\"x\"); let now = jiff::Timestamp::now(); std::fs::read(\"x\"); }",
    );
    assert_eq!(
        source.impurities(),
        [
            "async",
            "jiff::Timestamp::now",
            "std::fs::read",
            "tracing::info"
        ]
    );
}

#[test]
fn comments_strings_and_test_modules_do_not_count() {
    let source = Source::new(
        "fence/x.rs",
        "// use tokio;\n/* use crate::serve; /* nested */ */\nfn f() -> &'static str { let _c = '\"'; r#\"tokio::spawn \"# }\n\
         #[cfg(test)]\nmod tests { use std::fs; use crate::serve::X; }\n",
    );
    assert_eq!(source.impurities(), Vec::<String>::new());
    assert_eq!(source.rooms_used(), BTreeSet::new());
}

#[test]
fn an_arrow_is_found_through_crate_groups_and_super() {
    let grouped = Source::new(
        "ratio/x.rs",
        "use crate::{api::Quantity, serve::{tls, http}};\nfn f() { crate::planner::go() }",
    );
    assert_eq!(
        grouped.rooms_used(),
        ["api", "planner", "serve"].map(String::from).into()
    );
    let climbing = Source::new(
        "ratio/deep/x.rs",
        "use super::super::super::fence::judge; use super::sibling;",
    );
    assert_eq!(climbing.rooms_used(), ["fence".to_owned()].into());
}

// === reading documents ===

/// The rows of the tables whose last column is `test`, each with the names in that column.
fn rows_with_tests(page: &str) -> Vec<(&str, Vec<String>)> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for line in page.lines() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split(" | ")
            .map(str::trim)
            .collect();
        if !line.starts_with('|') {
            in_table = false;
        } else if cells.last() == Some(&"test") {
            in_table = true;
        } else if in_table && !line.starts_with("|---") {
            let last = line
                .trim_end_matches('|')
                .rsplit('|')
                .next()
                .unwrap_or_default();
            rows.push((
                line,
                last.split('`')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect(),
            ));
        }
    }
    rows
}

// === reading sources ===

struct Source {
    /// Relative to the folder that was read, with slashes.
    name: String,
    /// The first folder, or the stem of a file at the top; empty for `lib` and `main`.
    room: String,
    /// The text up to its test module.
    code: String,
}

impl Source {
    fn new(name: &str, text: &str) -> Self {
        let first = name.split('/').next().unwrap_or_default();
        let room = match first.strip_suffix(".rs").unwrap_or(first) {
            "lib" | "main" => "",
            room => room,
        };
        let end = ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\nmod tests;"]
            .iter()
            .filter_map(|mark| text.find(mark))
            .min()
            .unwrap_or(text.len());
        Self {
            name: name.to_owned(),
            room: room.to_owned(),
            code: text[..end].to_owned(),
        }
    }

    /// How many `super` lead from this file's module to the crate's root.
    fn depth(&self) -> usize {
        let parts = self.name.split('/').count();
        if self.name.ends_with("/mod.rs") {
            parts - 1
        } else {
            parts
        }
    }

    fn rooms_used(&self) -> BTreeSet<String> {
        let mut used = BTreeSet::new();
        for path in paths(&tokens(&self.code)) {
            let supers = path.iter().take_while(|part| *part == "super").count();
            let room = match path.first().map(String::as_str) {
                Some("crate" | "mds") => path.get(1),
                Some("super") if supers >= self.depth() => path.get(supers),
                _ => None,
            };
            used.extend(room.cloned());
        }
        used
    }

    fn impurities(&self) -> Vec<String> {
        let tokens = tokens(&self.code);
        let words = tokens
            .iter()
            .filter(|token| IMPURE_WORDS.contains(&token.as_str()))
            .cloned();
        let named = paths(&tokens).into_iter().filter_map(|path| {
            let joined = path.join("::");
            let impure = IMPURE
                .iter()
                .any(|bad| joined == *bad || joined.starts_with(&format!("{bad}::")));
            impure.then_some(joined)
        });
        words
            .chain(named)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

fn root_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<Source> {
    let root = root_folder().join(folder);
    let mut found = Vec::new();
    for path in rust_files(&root) {
        let relative = path.strip_prefix(&root).unwrap();
        let name = relative
            .iter()
            .map(|part| part.to_string_lossy())
            .collect::<Vec<_>>()
            .join("/");
        if name.ends_with("/tests.rs") || name.contains("/tests/") {
            continue;
        }
        found.push(Source::new(&name, &fs::read_to_string(&path).unwrap()));
    }
    assert!(!found.is_empty(), "no sources in {}", root.display());
    found
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Identifiers and marks of a source, without comments, strings and character literals.
fn tokens(code: &str) -> Vec<String> {
    let chars: Vec<char> = code.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let c = at(i);
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            i = end_of_comment(&chars, i);
        } else if c == '"' {
            i = end_of_string(&chars, i);
        } else if c == '\'' {
            // A lifetime has no closing quote two or more characters on.
            i = if at(i + 1) == '\\' {
                (i + 3..chars.len())
                    .find(|&j| at(j) == '\'')
                    .unwrap_or(chars.len())
                    + 1
            } else if at(i + 2) == '\'' {
                i + 3
            } else {
                i + 1
            };
        } else if c.is_alphabetic() || c == '_' {
            let start = i;
            while at(i).is_alphanumeric() || at(i) == '_' {
                i += 1;
            }
            let word: String = chars[start..i].iter().collect();
            if matches!(word.as_str(), "r" | "br") && matches!(at(i), '"' | '#') {
                i = end_of_raw_string(&chars, i);
            } else {
                tokens.push(word);
            }
        } else if c == ':' && at(i + 1) == ':' {
            tokens.push("::".into());
            i += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            i += 1;
        }
    }
    tokens
}

fn end_of_comment(chars: &[char], start: usize) -> usize {
    let (mut i, mut open) = (start, 0usize);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (open, i) = (open + 1, i + 2),
            ('*', Some('/')) => {
                (open, i) = (open - 1, i + 2);
                if open == 0 {
                    break;
                }
            }
            _ => i += 1,
        }
    }
    i
}

fn end_of_string(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

fn end_of_raw_string(chars: &[char], start: usize) -> usize {
    let hashes = chars[start..].iter().take_while(|c| **c == '#').count();
    if chars.get(start + hashes) != Some(&'"') {
        return start + hashes; // r#ident
    }
    let close: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    let from = start + hashes + 1;
    (from..chars.len())
        .find(|&i| chars[i..].starts_with(&close))
        .map_or(chars.len(), |i| i + close.len())
}

/// Every path that the tokens name, the trees of `use` spelled out.
fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if is_word(&tokens[i]) {
            i = path(tokens, i, Vec::new(), &mut found);
        } else {
            i += 1;
        }
    }
    found
}

/// Reads one path, or one tree of paths, that begins at `i` below `prefix`; returns where it ends.
fn path(
    tokens: &[String],
    mut i: usize,
    mut prefix: Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    let at = |i: usize| tokens.get(i).map_or("", String::as_str);
    loop {
        if at(i) == "{" && !prefix.is_empty() {
            i += 1;
            while i < tokens.len() && at(i) != "}" {
                i = if is_word(at(i)) || at(i) == "*" {
                    path(tokens, i, prefix.clone(), found)
                } else {
                    i + 1
                };
            }
            return i + 1;
        }
        if !(is_word(at(i)) || at(i) == "*" && !prefix.is_empty()) {
            break;
        }
        prefix.push(at(i).to_owned());
        i += 1;
        if at(i) == "::" && (is_word(at(i + 1)) || matches!(at(i + 1), "{" | "*")) {
            i += 1;
        } else {
            break;
        }
    }
    found.push(prefix);
    i
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
