//! Every row of the fence, against the webhook's function.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a bad table ends the test"
)]

mod cases;

use bytes::Bytes;
use cases::fence::{Fence, Row};
use cases::post::{OPERATOR, response};
use mds::admission::{Answer, Decision, Fact, Facts, Operator, Question, Webhook, decide};
use serde_json::{Value, json};

const UID: &str = "5d1c7a52-0df6-4a7c-8a86-0f2a4c9c7c01";
const TARGET_UID: &str = "0b7e2f2e-6b0a-4bb8-9f4e-2f8f0d4a1c11";

fn review(row: &Row, new: &Value, old: Option<&Value>) -> Vec<u8> {
    let by = if row.by.as_deref() == Some("operator") {
        OPERATOR
    } else {
        "ann"
    };
    let request = json!({
        "uid": "u", "name": "t", "namespace": "default", "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "kind": {"group": "worker.gpustack.ai", "version": "v1alpha1", "kind": "ModelDeployment"},
        "userInfo": {"username": by}, "object": new, "oldObject": old,
    });
    serde_json::to_vec(&json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})).unwrap()
}

fn scaler(fence: &Fence, row: &Row, name: &str) -> Fact {
    let Some(scaler) = row.scaler.as_ref().map(|name| &fence.scalers[name]) else {
        return Fact::Object(Ok(None));
    };
    if let Some(sentence) = &scaler.unreadable {
        return Fact::Object(Err(sentence.clone()));
    }
    if name != "s" {
        return Fact::Object(Ok(None));
    }
    let object = json!({
        "apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeploymentScaler",
        "metadata": {"name": "s", "namespace": "default", "uid": UID, "finalizers": ["worker.gpustack.ai/scaler-release"]},
        "spec": {"targetRef": {"name": "t"}, "mode": scaler.mode, "suspend": scaler.suspend, "roles": [{"name": "a", "maxReplicas": 4}]},
        "status": {"binding": {"targetUID": TARGET_UID, "targetName": "t", "term": scaler.term}},
    });
    Fact::Object(Ok(Some(Bytes::from(object.to_string()))))
}

fn answer(fence: &Fence, row: &Row, body: &[u8]) -> Answer {
    let operator = Operator(OPERATOR.to_owned());
    let mut decision = decide(Webhook::ValidateDeployment, &operator, body);
    for _ in 0..4 {
        match decision {
            Decision::Answer(answer) => return answer,
            Decision::Ask(pending) => {
                let facts = pending.questions().iter().map(|question| match question {
                    Question::Scaler { namespace, name } => {
                        assert_eq!(namespace, "default");
                        scaler(fence, row, name)
                    }
                    other => panic!("{}: no row asks {other:?}", row.row),
                });
                let facts = Facts(facts.collect());
                decision = pending.answer(&facts);
            }
        }
    }
    panic!("{}: asked for ever", row.row);
}

fn differences(fence: &Fence, row: &Row) -> Vec<String> {
    let mut before = fence.before(row, "default", UID);
    let mut after = fence.after(row, &before, UID);
    for object in [&mut before, &mut after] {
        if !row.create {
            object["metadata"]["uid"] = json!(TARGET_UID);
        }
        if row.deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
    }
    let body = review(row, &after, (!row.create).then_some(&before));
    let answer = answer(fence, row, &body);
    let response = response(&answer);
    let status = &response["status"];
    let mut wrong = Vec::new();
    let code = if response["allowed"] == true {
        200
    } else {
        status["code"].as_u64().unwrap()
    };
    if code != u64::from(row.expected_code())
        || answer.reason != row.reason.as_deref().unwrap_or_default()
    {
        wrong.push(format!(
            "{code} {} {}, expected {} {:?}",
            answer.reason,
            status["message"],
            row.expected_code(),
            row.reason
        ));
    }
    if code != 200 {
        if status["reason"] != answer.reason
            || status["details"]["causes"][0]["reason"] != answer.reason
        {
            wrong.push(format!("the reason is not in status and details: {status}"));
        }
        let message = status["message"].as_str().unwrap();
        wrong.extend(
            row.says
                .iter()
                .filter(|part| !message.contains(part.as_str()))
                .map(|part| format!("{part} is not in: {message}")),
        );
        let mut words = message.split(|c: char| !c.is_alphanumeric());
        if words.any(|word| word.eq_ignore_ascii_case("operator"))
            && !message.contains("gpustack operator")
        {
            wrong.push(format!("whose operator? {message}"));
        }
        if (code == 503) != (status["details"]["retryAfterSeconds"] == 1) {
            wrong.push(format!("retryAfterSeconds: {status}"));
        }
    }
    wrong
}

#[test]
fn every_row_of_the_fence_gets_its_verdict() {
    let fence = Fence::read();
    let mut failed = 0;
    for row in &fence.rows {
        let wrong = differences(&fence, row);
        if wrong.is_empty() {
            println!("ok    {}", row.row);
        } else {
            failed += 1;
            println!("WRONG {}\n      {}", row.row, wrong.join("\n      "));
        }
    }
    assert_eq!(failed, 0, "of {} rows", fence.rows.len());
}
