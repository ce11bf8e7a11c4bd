//! Reviews of the table's cases, posted to the webhook's function with the facts of the case.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use mds::admission::{Answer, Decision, Fact, Facts, Operator, Question, Webhook, decide};
use serde_json::{Value, json};

use super::{Case, Table};

pub(crate) const OPERATOR: &str = "system:serviceaccount:mds-system:mds";

fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        into.extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

pub(crate) fn object(spec: &Value, meta: Option<&Value>) -> Value {
    let mut metadata = json!({"name": "s", "namespace": "default", "uid": "u-1"});
    if let Some(meta) = meta {
        merge(&mut metadata, meta);
    }
    json!({"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeploymentScaler", "metadata": metadata, "spec": spec})
}

pub(crate) fn review(case: &Case, new: &Value, old: Option<&Value>) -> Vec<u8> {
    let by = if case.by.as_deref() == Some("operator") {
        OPERATOR
    } else {
        "ann"
    };
    let request = json!({
        "uid": format!("uid-{}", case.n),
        "kind": {"group": "worker.gpustack.ai", "version": "v1", "kind": "ModelDeploymentScaler"},
        "resource": {"group": "worker.gpustack.ai", "version": "v1", "resource": "modeldeploymentscalers"},
        "name": "s", "namespace": "default",
        "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "userInfo": {"username": by, "groups": ["system:authenticated"]},
        "object": new, "oldObject": old, "dryRun": false,
    });
    serde_json::to_vec(&json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})).unwrap()
}

pub(crate) fn facts(table: &Table, case: &Case, questions: &[Question]) -> Facts {
    let found = questions.iter().map(|question| match question {
        Question::Target { namespace, .. } => {
            assert_eq!(namespace, "default");
            assert_ne!(
                case.target,
                Some(json!("unasked")),
                "{}: the target is not to be read",
                case.title()
            );
            let bytes = |value: &Value| Some(Bytes::from(value.to_string()));
            Fact::Object(match &case.target {
                None => Ok(None),
                Some(Value::String(name)) => Ok(bytes(&table.deployment(name))),
                Some(other) => match (&other["deleting"], &other["unreadable"]) {
                    (Value::String(name), _) => {
                        let mut deployment = table.deployment(name);
                        deployment["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                        Ok(bytes(&deployment))
                    }
                    (_, Value::String(sentence)) => Err(sentence.clone()),
                    _ => panic!("{}: what target is that?", case.title()),
                },
            })
        }
        Question::HintScalersOf { .. } => {
            Fact::Names([&["s".to_owned()], case.scalers.as_slice()].concat())
        }
        Question::HintBinding { .. } => Fact::Annotation(case.binding.clone()),
        Question::Scaler { .. } => {
            panic!("{}: no rule of a scaler asks for a scaler", case.title())
        }
    });
    Facts(found.collect())
}

pub(crate) fn answer(webhook: Webhook, table: &Table, case: &Case, body: &[u8]) -> Answer {
    let operator = Operator(OPERATOR.to_owned());
    let mut decision = decide(webhook, &operator, body);
    for _ in 0..4 {
        match decision {
            Decision::Answer(answer) => return answer,
            Decision::Ask(pending) => {
                let facts = facts(table, case, pending.questions());
                decision = pending.answer(&facts);
            }
        }
    }
    panic!("{}: asked for ever", case.title());
}

pub(crate) fn response(answer: &Answer) -> Value {
    assert_eq!(answer.http, 200);
    let review: Value = serde_json::from_slice(&answer.body).unwrap();
    review["response"].clone()
}

pub(crate) fn patch_of(response: &Value) -> json_patch::Patch {
    let Some(text) = response["patch"].as_str() else {
        assert!(response.get("patchType").is_none());
        return json_patch::Patch::default();
    };
    assert_eq!(response["patchType"], "JSONPatch");
    let patch: json_patch::Patch = serde_json::from_slice(&STANDARD.decode(text).unwrap()).unwrap();
    assert!(!patch.0.is_empty(), "an empty patch is to be left out");
    patch
}

pub(crate) fn operation(op: &json_patch::PatchOperation) -> String {
    let op = serde_json::to_value(op).unwrap();
    format!(
        "{} {} {}",
        op["op"].as_str().unwrap(),
        op["path"].as_str().unwrap(),
        op["value"]
    )
}
