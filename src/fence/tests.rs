//! Every row of both tables: the same file that the webhook and the real API server are put to.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::api::Term;

const UID: &str = "5d1c7a52-0df6-4a7c-8a86-0f2a4c9c7c01";

fn table() -> Value {
    serde_saphyr::from_str(include_str!("../../tests/cases/deployment.yaml")).unwrap()
}

fn payload(table: &Value, name: &Value) -> Option<String> {
    let name = name.as_str()?;
    let text = table["payloads"][name].as_str().unwrap();
    Some(
        text.replace("$UID", UID)
            .replace("$OTHER", "00000000-0000-4000-8000-000000000000"),
    )
}

fn state<'a>(
    roles: &'a BTreeMap<String, i64>,
    binding: Option<&'a str>,
    decision: Option<&'a str>,
    deleting: bool,
) -> TargetState<'a> {
    TargetState {
        namespace: "default",
        name: "t",
        uid: "u1",
        deleting,
        roles: roles
            .iter()
            .map(|(name, count)| RoleCount {
                name: name.into(),
                count: *count,
            })
            .collect(),
        binding,
        decision,
    }
}

/// The verdict on a row, its question answered.
fn verdict(table: &Value, row: &Value) -> Result<Allowed, Denial> {
    let before = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 2)]);
    let mut after = before.clone();
    for (name, count) in row["change"]["counts"].as_object().into_iter().flatten() {
        match count.as_i64() {
            Some(count) => drop(after.insert(name.clone(), count)),
            None => drop(after.remove(name)),
        }
    }
    let old_texts = ["binding", "decision"].map(|key| payload(table, &row["old"][key]));
    let mut new_texts = old_texts.clone();
    for (text, key) in new_texts.iter_mut().zip(["binding", "decision"]) {
        if let Some(change) = row["change"].get(key) {
            *text = payload(table, change);
        }
    }
    let deleting = row["deleting"].as_bool().unwrap_or_default();
    let old = state(
        &before,
        old_texts[0].as_deref(),
        old_texts[1].as_deref(),
        deleting,
    );
    let new = state(
        &after,
        new_texts[0].as_deref(),
        new_texts[1].as_deref(),
        deleting,
    );
    let actor = if row["by"] == "operator" {
        Actor::Operator
    } else {
        Actor::User
    };
    match judge(actor, (row["create"] != true).then_some(&old), &new) {
        Verdict::Allow(allowed) => Ok(allowed),
        Verdict::Deny(denial) => Err(denial),
        Verdict::Ask(question) => {
            let scaler = &table["scalers"][row["scaler"].as_str().unwrap_or_default()];
            if let Some(why) = scaler["unreadable"].as_str() {
                return Err(question.unreadable(why));
            }
            let facts = ScalerFacts {
                uid: UID,
                active: scaler["mode"] == "Active",
                suspended: scaler["suspend"] == true,
                deleting: false,
                finalizer: true,
                target_name: "t",
                binding: Some(StatusBinding {
                    target_uid: "u1",
                    term: scaler["term"].as_i64().and_then(Term::new),
                }),
            };
            let exists = question.scaler() == "s" && !scaler.is_null();
            question.answer(exists.then_some(&facts))
        }
    }
}

#[test]
fn every_row_of_the_table_has_its_verdict_code_and_words() {
    let table = table();
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.len() > 50, "{} rows", rows.len());
    for row in rows {
        let name = row["row"].as_str().unwrap();
        let found = verdict(&table, row);
        match (row["reason"].as_str(), found) {
            (None, Ok(_)) => {}
            (Some(reason), Err(denial)) => {
                assert_eq!(denial.reason.as_str(), reason, "{name}: {denial}");
                assert_eq!(
                    u64::from(denial.reason.code()),
                    row["code"].as_u64().unwrap(),
                    "{name}"
                );
                for word in row["says"].as_array().into_iter().flatten() {
                    assert!(
                        denial
                            .message
                            .contains(word.as_str().unwrap_or(&word.to_string())),
                        "{name}: {denial}"
                    );
                }
            }
            (wanted, found) => panic!("{name}: wanted {wanted:?}, found {found:?}"),
        }
    }
}
