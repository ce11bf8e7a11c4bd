//! The documents, held to what the tests try: every row of the fence and every case of admission is named, and no other.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a document that cannot be read fails the test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use mds::{
    fence::{Actor, RoleCount, TargetState, Verdict, judge},
    serve::metrics::Metrics,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::Value;

#[test]
fn every_row_of_the_fence_is_documented_and_every_documented_row_is_tried() {
    let tried: BTreeSet<String> = items(&yaml("tests/cases/deployment.yaml")["rows"])
        .map(|row| text(&row["row"]).to_owned())
        .collect();
    let documented: BTreeSet<String> = cells(&page("docs/fence.md"), "tried as")
        .iter()
        .flat_map(|cell| cell.split('"').skip(1).step_by(2))
        .map(str::to_owned)
        .collect();
    assert_eq!(documented, tried);
}

#[test]
fn every_case_that_the_rules_name_is_tried() {
    let tried: BTreeSet<u64> = items(&yaml("tests/cases/scaler.yaml")["cases"])
        .map(|case| case["n"].as_u64().unwrap())
        .collect();
    for cell in cells(&page("docs/admission.md"), "cases") {
        for range in cell.split(", ").filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            for n in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                assert!(
                    tried.contains(&n),
                    "docs/admission.md names case {n}, which tests/cases/scaler.yaml does not have"
                );
            }
        }
    }
}

#[test]
fn the_page_of_cases_is_the_table_that_the_tests_run() {
    let path = root().join("docs/admission-cases.md");
    let expected = page_of_cases();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == expected,
        "run: UPDATE_DOCS=1 cargo test --test documents"
    );
}

#[test]
fn every_word_of_a_refusal_in_the_tests_is_in_the_table_of_codes() {
    let fence = page("docs/fence.md");
    let (_, codes) = fence.split_once("## Codes").unwrap();
    for row in items(&yaml("tests/cases/deployment.yaml")["rows"]) {
        if let Some(reason) = row["reason"].as_str().filter(|_| row["code"].is_u64()) {
            let code = row["code"].to_string();
            let line = codes
                .lines()
                .find(|line| line.starts_with(&format!("| {code}")))
                .unwrap_or_else(|| panic!("{code}"));
            assert!(
                line.contains(&format!("`{reason}`")),
                "{reason} is not in the row of {code}"
            );
        }
    }
}

#[test]
fn the_servers_metrics_are_the_ones_that_are_documented() {
    let mut registry = Registry::default();
    let _metrics = Metrics::register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    // OpenMetrics: a counter's samples end in _total and an info's in _info, their names do not.
    let registered: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| match line.split_once(' ') {
            Some((name, "counter")) => format!("{name}_total"),
            Some((name, "info")) => format!("{name}_info"),
            Some((name, _)) => name.to_owned(),
            None => panic!("{line}"),
        })
        .collect();
    let page = page("docs/metrics.md");
    let (_, server) = page.split_once("## Server").unwrap();
    let (server, _) = server.split_once("## ").unwrap();
    let documented: BTreeSet<String> = server
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_eq!(documented, registered);
}

#[test]
fn the_proof_in_the_readme_is_one_that_a_case_expects() {
    let cases = yaml("tests/cases/scaler.yaml");
    let proofs: Vec<&str> = items(&cases["cases"])
        .flat_map(|case| items(&case["faults"]))
        .filter_map(|fault| text(fault).strip_prefix("spec.ratios[0] Invalid "))
        .collect();
    let readme = page("README.md");
    let shown = readme
        .lines()
        .find(|line| line.contains(" force "))
        .unwrap();
    assert!(proofs.contains(&shown), "{shown}");
}

#[test]
fn the_refusal_in_the_readme_is_what_the_fence_says() {
    let state = |count| TargetState {
        namespace: "default",
        name: "llm-serving",
        uid: "u",
        roles: vec![RoleCount {
            name: "server".into(),
            count,
        }],
        binding: Some(r#"{"scalerName":"llm-serving","scalerUID":"u","term":1}"#),
        ..TargetState::default()
    };
    let Verdict::Deny(denial) = judge(Actor::User, Some(&state(2)), &state(5)) else {
        panic!("not refused");
    };
    let readme = page("README.md");
    let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(&format!("({}): admission webhook", denial.reason.as_str())));
    assert!(
        readme.contains(&format!("denied the request: {}", denial.message)),
        "{denial}"
    );
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    for path in markdown(&root()) {
        let folder = path.parent().unwrap();
        for link in links(&fs::read_to_string(&path).unwrap()) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                path.clone()
            } else {
                folder.join(file)
            };
            assert!(target.exists(), "{}: {link}", path.display());
            if !anchor.is_empty() {
                let anchors = anchors(&fs::read_to_string(&target).unwrap());
                assert!(
                    anchors.contains(anchor),
                    "{}: no heading for {link}",
                    path.display()
                );
            }
        }
    }
}

/// The cases by number, one line each.
fn page_of_cases() -> String {
    let table = yaml("tests/cases/scaler.yaml");
    let mut page = String::from(
        "# Admission, case by case\n\n\
         Made from `tests/cases/scaler.yaml`, the table that the tests run (`UPDATE_DOCS=1 cargo test --test documents`\n\
         writes this page). Each input changes a base: `B` where none is named. A refusal lists its faults, each with path and\n\
         type; its code is 422 where none is given.\n\n",
    );
    page += "| base | spec |\n|---|---|\n";
    for (name, spec) in table["bases"].as_object().unwrap() {
        writeln!(page, "| {name} | `{}` |", cell(&spec.to_string())).unwrap();
    }
    page += "\n| case | input | base | verdict |\n|---|---|---|---|\n";
    let mut cases: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for case in items(&table["cases"]) {
        cases
            .entry(case["n"].as_u64().unwrap())
            .or_default()
            .push(case);
    }
    for (n, group) in cases {
        for case in group {
            let base = case["base"].as_str().unwrap_or("B");
            writeln!(
                page,
                "| {n} | {} | {base} | {} |",
                cell(text(&case["input"])),
                cell(&verdict(case))
            )
            .unwrap();
        }
    }
    page
}

fn verdict(case: &Value) -> String {
    let faults: Vec<String> = items(&case["faults"])
        .map(|fault| {
            let mut words = text(fault).split(' ');
            let path = words.next().unwrap_or_default();
            format!("{} at `{path}`", words.next().unwrap_or_default())
        })
        .collect();
    let mut verdict = match (case["code"].as_u64(), &faults[..]) {
        (Some(code), []) => format!("refused, {code}"),
        (_, []) => "allowed".to_owned(),
        (_, faults) => format!("refused: {}", faults.join(", ")),
    };
    if let Some(path) = case["anyFault"].as_str() {
        write!(verdict, " at `{path}`").unwrap();
    }
    if let Some(message) = case["message"].as_str() {
        write!(verdict, ": {message}").unwrap();
    }
    match case["patch"].as_array() {
        Some(patch) if patch.is_empty() => verdict += "; empty patch",
        Some(patch) => {
            let operations: Vec<String> = patch
                .iter()
                .map(|operation| format!("`{}`", text(operation)))
                .collect();
            write!(verdict, "; patch {}", operations.join(", ")).unwrap();
        }
        None => {}
    }
    for (pointer, value) in case["stored"].as_object().into_iter().flatten() {
        write!(verdict, "; stored `{pointer}` {value}").unwrap();
    }
    for part in items(&case["warnings"]) {
        write!(verdict, "; warning about {}", text(part)).unwrap();
    }
    verdict
}

// === reading ===

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&page(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The last cells of all tables whose last column has this title.
fn cells(page: &str, title: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        let last = line
            .trim_end()
            .trim_end_matches('|')
            .rsplit('|')
            .next()
            .unwrap_or_default()
            .trim();
        if !line.starts_with('|') {
            inside = false;
        } else if last == title {
            inside = true;
        } else if inside && !line.starts_with("|---") {
            found.push(last.to_owned());
        }
    }
    assert!(
        !found.is_empty(),
        "no table has a last column called {title:?}"
    );
    found
}

fn cell(content: &str) -> String {
    content
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && (path.ends_with("docs") || path.ends_with("decisions")) {
            files.extend(markdown(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files
}

fn links(page: &str) -> Vec<String> {
    page.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link.to_owned())
        .collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line
                .trim_start_matches('#')
                .trim()
                .to_lowercase()
                .replace(' ', "-");
            heading
                .chars()
                .filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_')
                .collect()
        })
        .collect()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
