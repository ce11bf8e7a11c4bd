//! The parts of a Kueue Workload that this program reads; whatever is not named here is kept as it came.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A Workload: the queue's view of one serving instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {
    /// Metadata, as far as it is read.
    pub metadata: WorkloadMeta,
    /// Spec, as far as it is read.
    pub spec: WorkloadSpec,
    /// Status, as far as it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkloadStatus>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Metadata of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadMeta {
    /// Name: that of the instance's Pod group.
    pub name: String,
    /// UID: a re-added ordinal reuses the name.
    pub uid: String,
    /// Set once the Workload is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// Owners: the instance's Pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<Owner>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Spec of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    /// False holds it back; absent means true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Status of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<WorkloadCondition>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A condition of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadCondition {
    /// Its type, such as `Admitted`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Workload {
    /// Whether its instance may run: `Admitted`, active, not evicted, not under deletion. A reservation of quota alone
    /// is not enough.
    pub fn is_admitted(&self) -> bool {
        self.holds("Admitted")
            && self.spec.active != Some(false)
            && !self.holds("Evicted")
            && self.metadata.deletion_timestamp.is_none()
    }

    fn holds(&self, kind: &str) -> bool {
        self.status
            .iter()
            .flat_map(|status| &status.conditions)
            .any(|c| c.kind == kind && c.status == "True")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(conditions: &serde_json::Value, spec: &serde_json::Value) -> Workload {
        serde_json::from_value(json!({"metadata": {"name": "w", "uid": "u"}, "spec": spec, "status": {"conditions": conditions}})).unwrap()
    }

    #[test]
    fn only_admitted_active_workloads_admit() {
        let admitted = json!([{"type": "Admitted", "status": "True"}]);
        assert!(workload(&admitted, &json!({})).is_admitted());
        assert!(!workload(&admitted, &json!({"active": false})).is_admitted());
        assert!(
            !workload(
                &json!([{"type": "QuotaReserved", "status": "True"}]),
                &json!({})
            )
            .is_admitted()
        );
        assert!(!workload(&json!([{"type": "Admitted", "status": "True"}, {"type": "Evicted", "status": "True"}]), &json!({})).is_admitted());
        let mut leaving = workload(&admitted, &json!({}));
        leaving.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
        assert!(!leaving.is_admitted());
    }

    #[test]
    fn nothing_that_is_not_known_is_dropped() {
        let object = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "metadata": {"name": "w", "uid": "u", "labels": {},
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "q", "apiVersion": "v1"}]},
            "spec": {"queueName": "q"}, "status": {"admission": {"clusterQueue": "c"}, "conditions": [{"type": "Admitted", "status": "True", "reason": "r"}]}});
        assert_eq!(
            serde_json::to_value(serde_json::from_value::<Workload>(object.clone()).unwrap())
                .unwrap(),
            object
        );
    }
}
