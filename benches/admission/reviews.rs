//! Reviews as an API server posts them, of objects of a given size.

#![allow(
    dead_code,
    clippy::expect_used,
    reason = "each bench uses its own part, and a bad review ends it"
)]

use bytes::Bytes;
use mds::admission::{Answer, Decision, Fact, Facts, Operator, Question, Webhook, decide};
use serde_json::{Value, json};

const OPERATOR: &str = "system:serviceaccount:mds-system:mds";

/// One review, ready to be decided.
pub(crate) struct Review {
    pub name: String,
    pub webhook: Webhook,
    pub body: Vec<u8>,
    facts: [Fact; 3],
}

impl Review {
    /// Decode, judge, encode.
    pub(crate) fn decide(&self, operator: &Operator) -> Answer {
        let mut decision = decide(self.webhook, operator, &self.body);
        loop {
            match decision {
                Decision::Answer(answer) => return answer,
                Decision::Ask(pending) => {
                    let facts = pending.questions().iter().map(|question| match question {
                        Question::Target { .. } => self.facts[0].clone(),
                        Question::Scaler { .. } => self.facts[1].clone(),
                        Question::HintScalersOf { .. } => Fact::Names(Vec::new()),
                        Question::HintBinding { .. } => Fact::Annotation(None),
                    });
                    let facts = Facts(facts.collect());
                    decision = pending.answer(&facts);
                }
            }
        }
    }
}

/// The program's own name.
pub(crate) fn operator() -> Operator {
    Operator(OPERATOR.to_owned())
}

/// Metadata as stored objects have it, filled with what a managed object carries until the object has `size` bytes.
fn fill(mut object: Value, size: usize) -> Value {
    let mut entry = 0;
    let mut fields = Vec::new();
    let bare = object.to_string().len();
    let mut grown = bare;
    while grown < size {
        let field = json!({"manager": format!("controller-{entry}"), "operation": "Update", "apiVersion": "worker.gpustack.ai/v1alpha1",
            "time": "2026-11-30T10:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:roles": {"k:{\"name\":\"prefill\"}": {".": {}, "f:image": {}, "f:env": {}, "f:resources": {"f:limits": {"f:nvidia.com/gpu": {}}}}}}}});
        grown += field.to_string().len() + 1;
        fields.push(field);
        entry += 1;
    }
    object["metadata"]["managedFields"] = fields.into();
    object
}

fn deployment(size: usize, image: &str) -> Value {
    let role = |name: &str, kind: &str| {
        json!({"name": name, "kind": kind, "replicas": 2, "size": 1, "instanceType": "h100", "image": image,
            "extraArgs": ["--max-model-len", "32768", "--gpu-memory-utilization", "0.92", "--enable-prefix-caching"],
            "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}, {"name": "HF_HOME", "value": "/models/cache"}],
            "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "32", "memory": "256Gi"}}})
    };
    let object = json!({
        "apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment",
        "metadata": {"name": "llm-serving", "namespace": "default", "uid": "0b7e2f2e-6b0a-4bb8-9f4e-2f8f0d4a1c11", "generation": 12,
            "resourceVersion": "48213", "labels": {"app": "llm", "team": "serving"}, "annotations": {
                "modeldeployment.gpustack.ai/scaler-binding": "{\"scalerName\":\"llm-serving\",\"scalerUID\":\"5d1c7a52-0df6-4a7c-8a86-0f2a4c9c7c01\",\"term\":7}",
                "modeldeployment.gpustack.ai/scaler-decision": "{\"decisionID\":\"7-9f2c4b1d\",\"term\":7,\"vector\":{\"decode\":2,\"prefill\":2}}"}},
        "spec": {"model": {"source": "huggingface", "name": "some/model"}, "roles": [role("prefill", "Prefill"), role("decode", "Decode")]},
        "status": {"phase": "Running", "roles": [{"name": "prefill", "desired": 2, "ready": 2}, {"name": "decode", "desired": 2, "ready": 2}]},
    });
    fill(object, size)
}

fn scaler(size: usize, max: u32, term: u32) -> Value {
    let object = json!({
        "apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeploymentScaler",
        "metadata": {"name": "llm-serving", "namespace": "default", "uid": "5d1c7a52-0df6-4a7c-8a86-0f2a4c9c7c01", "generation": 3,
            "resourceVersion": "48214", "labels": {"team": "serving"}, "finalizers": ["worker.gpustack.ai/scaler-release"]},
        "spec": {
            "targetRef": {"name": "llm-serving"}, "mode": "Active",
            "roles": [{"name": "prefill", "minReplicas": 2, "maxReplicas": 16}, {"name": "decode", "minReplicas": 2, "maxReplicas": max}],
            "ratios": [{"numeratorRole": "prefill", "denominatorRole": "decode", "target": "1", "min": "0.5", "max": "2"}],
            "algorithm": {"type": "TokenThroughput", "tokenThroughput": {
                "prefillTargetTokensPerSecond": "2000", "decodeTargetTokensPerSecond": "800", "stableWindowSeconds": 180}},
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}}},
        "status": {"observedGeneration": 3, "binding": {"targetUID": "0b7e2f2e-6b0a-4bb8-9f4e-2f8f0d4a1c11", "targetName": "llm-serving", "term": term}},
    });
    fill(object, size)
}

fn review(kind: &str, sub: &str, by: &str, object: &Value, old: &Value) -> Vec<u8> {
    let plural = format!("{}s", kind.to_lowercase());
    let group_kind = json!({"group": "worker.gpustack.ai", "version": "v1alpha1", "kind": kind});
    let group_resource =
        json!({"group": "worker.gpustack.ai", "version": "v1alpha1", "resource": plural});
    let mut request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": group_kind, "resource": group_resource, "requestKind": group_kind,
        "requestResource": group_resource, "name": "llm-serving", "namespace": "default", "operation": "UPDATE",
        "userInfo": {"username": by, "uid": "014fbff9a07c", "groups": ["system:authenticated", "developers"],
            "extra": {"authentication.kubernetes.io/credential-id": ["X509SHA256=0123456789abcdef0123456789abcdef"]}},
        "object": object, "oldObject": old, "dryRun": false,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions", "fieldManager": "kubectl-edit"},
    });
    if !sub.is_empty() {
        request["subResource"] = json!(sub);
        request["requestSubResource"] = json!(sub);
    }
    serde_json::to_vec(&json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})).expect("JSON")
}

/// Reviews of each webhook, with objects of about `size` bytes.
pub(crate) fn reviews(size: usize) -> Vec<Review> {
    let bytes = |value: &Value| Fact::Object(Ok(Some(Bytes::from(value.to_string()))));
    let make = |name: &str, webhook: Webhook, body: Vec<u8>| Review {
        name: name.to_owned(),
        webhook,
        body,
        facts: [
            bytes(&deployment(4096, "a:1")),
            bytes(&scaler(4096, 16, 7)),
            Fact::Annotation(None),
        ],
    };
    let (old, new) = (scaler(size, 12, 7), scaler(size, 16, 8));
    let scaler_edit = review("ModelDeploymentScaler", "", "ann", &new, &old);
    vec![
        make("mutate-scaler", Webhook::MutateScaler, scaler_edit.clone()),
        make("validate-scaler", Webhook::ValidateScaler, scaler_edit),
        make(
            "validate-scaler-status",
            Webhook::ValidateScalerStatus,
            review("ModelDeploymentScaler", "status", OPERATOR, &new, &old),
        ),
        make(
            "validate-deployment",
            Webhook::ValidateDeployment,
            review(
                "ModelDeployment",
                "",
                "ann",
                &deployment(size, "a:2"),
                &deployment(size, "a:1"),
            ),
        ),
    ]
}
