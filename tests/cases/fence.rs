//! The fence's table (`deployment.yaml`).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// The whole table.
#[derive(Deserialize)]
pub(crate) struct Fence {
    pub(crate) payloads: BTreeMap<String, String>,
    pub(crate) scalers: BTreeMap<String, Scaler>,
    pub(crate) rows: Vec<Row>,
}

/// The scaler that a binding names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scaler {
    #[serde(default)]
    pub(crate) mode: String,
    #[serde(default)]
    pub(crate) suspend: bool,
    #[serde(default)]
    pub(crate) term: i64,
    #[serde(default)]
    pub(crate) unreadable: Option<String>,
}

/// One write and its verdict.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) row: String,
    #[serde(default)]
    pub(crate) by: Option<String>,
    #[serde(default)]
    pub(crate) old: State,
    #[serde(default)]
    pub(crate) create: bool,
    #[serde(default)]
    pub(crate) change: Change,
    #[serde(default)]
    pub(crate) deleting: bool,
    #[serde(default)]
    pub(crate) scaler: Option<String>,
    #[serde(default)]
    pub(crate) code: Option<u16>,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) says: Vec<String>,
}

/// Annotations, by the names of their payloads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    #[serde(default)]
    pub(crate) binding: Option<String>,
    #[serde(default)]
    pub(crate) decision: Option<String>,
}

/// What a write changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    #[serde(default)]
    pub(crate) counts: BTreeMap<String, Option<u32>>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) binding: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    pub(crate) decision: Option<Option<String>>,
    #[serde(default)]
    pub(crate) image: Option<String>,
    #[serde(default)]
    pub(crate) labels: Option<Value>,
    #[serde(default)]
    pub(crate) finalizers: Option<Value>,
}

/// Tells `null`, which removes, from a field that is not there.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(from).map(Some)
}

const BINDING: &str = "modeldeployment.gpustack.ai/scaler-binding";
const DECISION: &str = "modeldeployment.gpustack.ai/scaler-decision";

impl Fence {
    /// The committed table.
    pub(crate) fn read() -> Self {
        serde_saphyr::from_str(include_str!("deployment.yaml"))
            .expect("the fence's table is YAML of this shape")
    }

    /// A payload, with the scaler's real UID in it.
    pub(crate) fn payload(&self, name: &str, uid: &str) -> String {
        let text = self
            .payloads
            .get(name)
            .unwrap_or_else(|| panic!("no payload {name}"));
        text.replace("$UID", uid)
            .replace("$OTHER", "00000000-0000-4000-8000-000000000000")
    }

    /// The deployment before a write.
    pub(crate) fn before(&self, row: &Row, namespace: &str, uid: &str) -> Value {
        let mut object = json!({
            "apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment",
            "metadata": {"name": "t", "namespace": namespace, "annotations": {}},
            "spec": {"roles": [{"name": "a", "image": "i:1", "replicas": 2}, {"name": "b", "image": "i:1", "replicas": 2}]},
        });
        for (key, name) in [(BINDING, &row.old.binding), (DECISION, &row.old.decision)] {
            if let Some(name) = name {
                object["metadata"]["annotations"][key] = self.payload(name, uid).into();
            }
        }
        object
    }

    /// The deployment as a write would leave it.
    pub(crate) fn after(&self, row: &Row, before: &Value, uid: &str) -> Value {
        let mut object = before.clone();
        let roles = object["spec"]["roles"].as_array_mut().expect("roles");
        for (name, count) in &row.change.counts {
            match (roles.iter().position(|role| role["name"] == *name), count) {
                (Some(at), Some(count)) => roles[at]["replicas"] = json!(count),
                (Some(at), None) => drop(roles.remove(at)),
                (None, Some(count)) => {
                    roles.push(json!({"name": name, "image": "i:1", "replicas": count}));
                }
                (None, None) => panic!("{}: no role {name}", row.row),
            }
        }
        if let Some(image) = &row.change.image {
            roles[0]["image"] = json!(image);
        }
        for (key, change) in [
            (BINDING, &row.change.binding),
            (DECISION, &row.change.decision),
        ] {
            // An API server drops an empty map.
            let annotations = &mut object["metadata"]["annotations"];
            if annotations.is_null() {
                *annotations = json!({});
            }
            let annotations = annotations.as_object_mut().expect("annotations");
            match change {
                Some(Some(name)) => {
                    drop(annotations.insert(key.to_owned(), self.payload(name, uid).into()));
                }
                Some(None) => assert!(
                    annotations.remove(key).is_some(),
                    "{}: nothing to remove",
                    row.row
                ),
                None => {}
            }
        }
        for (key, value) in [
            ("labels", &row.change.labels),
            ("finalizers", &row.change.finalizers),
        ] {
            if let Some(value) = value {
                object["metadata"][key] = value.clone();
            }
        }
        object
    }
}

impl Row {
    /// The code of the answer.
    pub(crate) fn expected_code(&self) -> u16 {
        self.code.unwrap_or(200)
    }
}
