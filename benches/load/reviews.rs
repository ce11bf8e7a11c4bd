//! The reviews that are sent, and who decides them.

use bytes::Bytes;
use mds::admission::{Answer, Fact, Operator, Question, Verdict, Webhook};
use mds::serve::decide::{Decide, Lookup, Step};
use mds::serve::identity::Identity;
use mds::serve::judge::Judge;
use serde_json::{Value, json};

/// A review for one path.
pub struct Case {
    pub name: &'static str,
    pub path: &'static str,
    pub body: Vec<u8>,
    /// A part of the right answer.
    pub expected: &'static str,
}

/// All cases: a kind of review and its size.
pub fn cases() -> Vec<Case> {
    let case = |name, path, review: Value| Case {
        name,
        path,
        body: review.to_string().into_bytes(),
        expected: r#""allowed":true"#,
    };
    vec![
        case(
            "mutate-scaler 4 KiB",
            "/mutate-scaler",
            scaler("CREATE", 4 << 10),
        ),
        case(
            "validate-scaler 4 KiB",
            "/validate-scaler",
            scaler("CREATE", 4 << 10),
        ),
        case(
            "validate-deployment 4 KiB",
            "/validate-deployment",
            deployment(4 << 10),
        ),
        case(
            "mutate-scaler 256 KiB",
            "/mutate-scaler",
            scaler("UPDATE", 256 << 10),
        ),
        case(
            "validate-scaler 256 KiB",
            "/validate-scaler",
            scaler("UPDATE", 256 << 10),
        ),
        case(
            "validate-deployment 256 KiB",
            "/validate-deployment",
            deployment(256 << 10),
        ),
    ]
}

/// The decision of the program.
pub fn judge() -> Judge {
    let operator = Operator("system:serviceaccount:mds-system:mds".to_owned());
    Judge::new(Identity::known(operator))
}

/// No decision at all.
pub struct Constant;

impl Decide for Constant {
    fn decide<'a>(&'a self, _webhook: Webhook, _body: &'a [u8]) -> Step<'a> {
        let body = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","allowed":true}}"#;
        Step::Answer(Answer {
            http: 200,
            body: body.to_vec(),
            verdict: Verdict::Allowed,
            reason: "",
            uid: None,
        })
    }
}

/// Facts from memory: what is measured is the server, not the API server behind it.
pub struct Facts;

impl Lookup for Facts {
    async fn find(&self, question: &Question) -> Fact {
        match question {
            Question::Target { .. } => {
                Fact::Object(Ok(Some(Bytes::from(target("team", "qwen").to_string()))))
            }
            Question::Scaler { .. } => Fact::Object(Ok(None)),
            Question::HintScalersOf { .. } => Fact::Names(Vec::new()),
            Question::HintBinding { .. } => Fact::Annotation(None),
        }
    }
}

/// Pads the managed fields of `object` until the review made by `review` has about `size` bytes.
fn padded(size: usize, mut object: Value, review: impl Fn(&Value) -> Value) -> Value {
    let short = review(&object).to_string().len();
    let longer = {
        object["metadata"]["managedFields"] = json!([managed(0), managed(1)]);
        review(&object).to_string().len()
    };
    let each = (longer - short).div_ceil(2);
    let count = size.saturating_sub(short) / each;
    object["metadata"]["managedFields"] = (0..count).map(managed).collect();
    review(&object)
}

fn managed(index: usize) -> Value {
    json!({
        "manager": format!("controller-{index}"), "operation": "Update", "apiVersion": "worker.gpustack.ai/v1",
        "time": "2026-12-01T10:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, format!("f:example.com/note-{index}"): {}}},
            "f:spec": {"f:roles": {"k:{\"name\":\"prefill\"}": {".": {}, "f:maxReplicas": {}, "f:minReplicas": {}, "f:name": {}}}}}
    })
}

fn review(kind: &str, resource: &str, operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "worker.gpustack.ai", "version": "v1", "kind": kind},
            "resource": {"group": "worker.gpustack.ai", "version": "v1", "resource": resource},
            "requestKind": {"group": "worker.gpustack.ai", "version": "v1", "kind": kind},
            "requestResource": {"group": "worker.gpustack.ai", "version": "v1", "resource": resource},
            "name": object["metadata"]["name"], "namespace": "team", "operation": operation,
            "userInfo": {"username": "alice@example.com", "uid": "014fbff9a07c", "groups": ["system:authenticated", "platform"]},
            "object": object, "oldObject": old, "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions", "fieldManager": "kubectl-client-side-apply"},
        }
    })
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "namespace": "team", "uid": "3f6f1a1e-9f5e-4a55-9d0c-6f8f2f0c1a11", "resourceVersion": "123456",
        "generation": 7, "creationTimestamp": "2026-11-01T10:00:00Z", "labels": {"app.kubernetes.io/name": name}
    })
}

fn scaler(operation: &str, size: usize) -> Value {
    let object = json!({
        "apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeploymentScaler", "metadata": metadata("qwen"),
        "spec": {
            "targetRef": {"name": "qwen"}, "mode": "Active",
            "roles": [{"name": "prefill", "minReplicas": 1, "maxReplicas": 8}, {"name": "decode", "minReplicas": 2, "maxReplicas": 16}],
            "ratios": [{"numeratorRole": "decode", "denominatorRole": "prefill", "min": "1", "target": "2", "max": "4"}],
            "algorithm": {"type": "TokenThroughput", "tokenThroughput": {"prefillTargetTokensPerSecond": "12000", "decodeTargetTokensPerSecond": "1500"}},
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}}
        }
    });
    padded(size, object, |object| {
        let old = if operation == "UPDATE" {
            let mut old = object.clone();
            old["spec"]["roles"][0]["maxReplicas"] = json!(6);
            old
        } else {
            Value::Null
        };
        review(
            "ModelDeploymentScaler",
            "modeldeploymentscalers",
            operation,
            object,
            &old,
        )
    })
}

fn target(namespace: &str, name: &str) -> Value {
    let role = |name: &str, kind: &str, replicas: u32| {
        json!({
            "name": name, "kind": kind, "replicas": replicas, "size": 1, "instanceType": "h100-8", "image": "registry.example.com/vllm:0.12.0",
            "extraArgs": ["--max-model-len=32768", "--enable-prefix-caching", "--kv-transfer-config={\"kv_connector\":\"NixlConnector\"}"],
            "env": [{"name": "HF_HOME", "value": "/models"}, {"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}],
            "resources": {"requests": {"cpu": "16", "memory": "256Gi"}}, "terminationGracePeriodSeconds": 600
        })
    };
    let mut metadata = metadata(name);
    metadata["namespace"] = json!(namespace);
    json!({
        "apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment", "metadata": metadata,
        "spec": {"model": {"repository": "Qwen/Qwen3-235B-A22B"}, "engine": {"type": "vLLM"}, "roles": [role("prefill", "Prefill", 2), role("decode", "Decode", 4)]},
        "status": {"roles": [{"name": "prefill", "desired": 2, "ready": 2}, {"name": "decode", "desired": 4, "ready": 4}]}
    })
}

/// An image edit of a bound deployment: the fence looks at everything it has and allows it.
fn deployment(size: usize) -> Value {
    let mut object = target("team", "qwen");
    object["metadata"]["annotations"] = json!({
        "modeldeployment.gpustack.ai/scaler-binding": r#"{"scalerName":"qwen","scalerUID":"3f6f1a1e-9f5e-4a55-9d0c-6f8f2f0c1a12","term":4}"#,
        "modeldeployment.gpustack.ai/scaler-decision": r#"{"decisionID":"4-k3j9x2","term":4,"vector":{"prefill":2,"decode":4}}"#
    });
    padded(size, object, |object| {
        let mut old = object.clone();
        old["spec"]["roles"][0]["image"] = json!("registry.example.com/vllm:0.11.0");
        review(
            "ModelDeployment",
            "modeldeployments",
            "UPDATE",
            object,
            &old,
        )
    })
}
