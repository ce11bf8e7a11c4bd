//! Every numbered case of the admission rules, against the webhook's function.

#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "a bad table ends the test, and a case is compared part by part"
)]

mod cases;

use cases::post::{answer, object, operation, patch_of, response, review};
use cases::{Case, Table};
use mds::admission::{Verdict, Webhook};
use serde_json::Value;

/// What differs from the table; empty when nothing does.
fn differences(table: &Table, case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut new = object(&table.new_spec(case), case.meta.as_ref());
    let old = table
        .old_spec(case)
        .map(|spec| object(&spec, case.old_meta.as_ref()));

    let mutated = answer(
        Webhook::MutateScaler,
        table,
        case,
        &review(case, &new, old.as_ref()),
    );
    assert_eq!(mutated.verdict, Verdict::Allowed, "{}", case.title());
    let patch = patch_of(&response(&mutated));
    if let Some(expected) = &case.patch {
        let found: Vec<String> = patch.0.iter().map(operation).collect();
        if found != *expected {
            wrong.push(format!("patch: {found:#?}\nexpected: {expected:#?}"));
        }
    }
    json_patch::patch(&mut new, &patch).unwrap();
    for (pointer, value) in &case.stored {
        let found = new["spec"].pointer(pointer).unwrap_or(&Value::Null);
        if found != value {
            wrong.push(format!("stored: {pointer} is {found}, expected {value}"));
        }
    }
    let again = answer(
        Webhook::MutateScaler,
        table,
        case,
        &review(case, &new, old.as_ref()),
    );
    if !patch_of(&response(&again)).0.is_empty() {
        wrong.push("the patch applied to its own result gives a patch".to_owned());
    }

    let body = review(case, &new, old.as_ref());
    let validated = answer(Webhook::ValidateScaler, table, case, &body);
    let dry = String::from_utf8(body)
        .unwrap()
        .replace("\"dryRun\":false", "\"dryRun\":true");
    assert_eq!(
        answer(Webhook::ValidateScaler, table, case, dry.as_bytes()),
        validated,
        "{}: a dry run differs",
        case.title()
    );
    if case.under.is_some_and(|most| validated.body.len() >= most) {
        wrong.push(format!("the answer has {} bytes", validated.body.len()));
    }
    let response = response(&validated);
    assert_eq!(response["uid"], format!("uid-{}", case.n));
    let status = &response["status"];
    let code = if response["allowed"] == true {
        200
    } else {
        status["code"].as_u64().unwrap()
    };
    if code != u64::from(case.expected_code()) {
        wrong.push(format!("code: {code}, expected {}", case.expected_code()));
    }
    let causes = status["details"]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let shown: Vec<String> = causes
        .iter()
        .map(|cause| {
            let text = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
            format!(
                "{} {} {}",
                text("field"),
                text("reason").trim_start_matches("FieldValue"),
                text("message")
            )
        })
        .collect();
    if let Some(path) = &case.any_fault {
        if !shown.iter().any(|cause| cause.starts_with(path.as_str())) {
            wrong.push(format!("no fault at {path}: {shown:#?}"));
        }
    } else if code == 422 || !case.faults.is_empty() {
        let expected = case.expected_faults();
        let same = expected.len() == shown.len()
            && expected.iter().zip(&shown).all(|(expected, found)| {
                found.starts_with(&format!("{} {} ", expected.path, expected.kind))
                    && found.contains(expected.part)
            });
        if !same {
            wrong.push(format!("faults: {shown:#?}\nexpected: {:#?}", case.faults));
        }
    }
    if let Some(message) = &case.message
        && status["message"] != *message
    {
        wrong.push(format!(
            "message: {}, expected {message}",
            status["message"]
        ));
    }
    let warnings: Vec<String> =
        serde_json::from_value(response["warnings"].clone()).unwrap_or_default();
    for part in &case.warnings {
        if !warnings
            .iter()
            .any(|warning| warning.contains(part.as_str()))
        {
            wrong.push(format!("no warning has {part:?}: {warnings:#?}"));
        }
    }
    for part in &case.no {
        if warnings
            .iter()
            .any(|warning| warning.contains(part.as_str()))
        {
            wrong.push(format!("a warning has {part:?}: {warnings:#?}"));
        }
    }
    if warnings.len() > 8 || warnings.iter().any(|warning| warning.chars().count() > 255) {
        wrong.push(format!("too many or too long warnings: {warnings:#?}"));
    }
    wrong
}

#[test]
fn every_case_of_a_scaler_gets_its_verdict() {
    let table = Table::read();
    let mut failed = 0;
    for case in &table.cases {
        let wrong = differences(&table, case);
        if wrong.is_empty() {
            println!("ok    {}", case.title());
        } else {
            failed += 1;
            println!(
                "WRONG {}\n      {}",
                case.title(),
                wrong.join("\n").replace('\n', "\n      ")
            );
        }
    }
    assert_eq!(failed, 0, "of {} cases", table.cases.len());
}
