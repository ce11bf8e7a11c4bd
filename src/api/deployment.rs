//! The parts of a ModelDeployment that this program reads. The resource belongs to the gpustack operator: whatever is
//! not named here is kept as it came.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Replicas, Time};

/// Kind of the target.
pub const DEPLOYMENT_KIND: &str = "ModelDeployment";
/// Plural name of the target, as in its path.
pub const DEPLOYMENT_PLURAL: &str = "modeldeployments";
/// Annotation that names the owner of a target's counts.
pub const BINDING_ANNOTATION: &str = "modeldeployment.gpustack.ai/scaler-binding";
/// Annotation that states the last decision about a target's counts.
pub const DECISION_ANNOTATION: &str = "modeldeployment.gpustack.ai/scaler-decision";

/// A ModelDeployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deployment {
    /// Metadata, as far as it is read.
    pub metadata: DeploymentMeta,
    /// Spec, as far as it is read.
    pub spec: DeploymentSpec,
    /// Status, as far as it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<DeploymentStatus>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Metadata of a ModelDeployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentMeta {
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Resource version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Set once the deployment is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Spec of a ModelDeployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// Roles, keyed by name; their order is not stable.
    pub roles: Vec<Role>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A role of a ModelDeployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Role {
    /// Name of the role.
    pub name: String,
    /// What its replicas do; absent means Server. Spelled in either case, by release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Serving instances; absent means one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// Pods of one instance; absent means one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// Name of the pool that its Pods run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// A command of the user's own: then nothing about its signals is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Elastic expert parallelism: the role is one collective that widens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elastic_ep: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Role {
    /// The count that the role declares.
    pub fn count(&self) -> Replicas {
        self.replicas.unwrap_or(Replicas::MIN)
    }

    /// What its replicas do; `None` for a word that this release does not know.
    pub fn role_kind(&self) -> Option<RoleKind> {
        self.kind
            .as_deref()
            .map_or(Some(RoleKind::Server), RoleKind::parse)
    }

    /// Whether a command of the user's own runs, which leaves its signals unmanaged.
    pub fn is_unmanaged(&self) -> bool {
        self.command.as_ref().is_some_and(|words| !words.is_empty())
    }
}

/// What the replicas of a role do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoleKind {
    /// Prompts and generation both.
    Server,
    /// Prompts.
    Prefill,
    /// Generation.
    Decode,
    /// Encoding of images and the like, before prefill.
    Encode,
}

impl RoleKind {
    /// Reads a kind in either spelling (`Prefill`, `prefill`); the empty word is Server, as an absent one.
    pub fn parse(word: &str) -> Option<Self> {
        if word.is_empty() {
            return Some(Self::Server);
        }
        [Self::Server, Self::Prefill, Self::Decode, Self::Encode]
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(word))
    }

    /// The word in `spec.roles[].kind`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Prefill => "Prefill",
            Self::Decode => "Decode",
            Self::Encode => "Encode",
        }
    }
}

/// Status of a ModelDeployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The one retirement under way, or aborted and not yet declared again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retirement: Option<Retirement>,
    /// Roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleReport>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What the gpustack operator reports of a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleReport {
    /// Name of the role.
    pub name: String,
    /// How its members share load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<Parallelism>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How the members of an instance share load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parallelism {
    /// `External`: each member serves a rank of its own, and answers for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balance: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The retirement of one instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retirement {
    /// Role of the instance.
    pub role_name: String,
    /// Ordinal of the instance.
    pub replica_ordinal: i32,
    /// Generation of the target whose intent began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// UIDs of the Pods that are retired.
    #[serde(rename = "targetMemberUIDs", skip_serializing_if = "Vec::is_empty")]
    pub target_member_uids: Vec<String>,
    /// UID of the Workload that is retired.
    #[serde(rename = "targetWorkloadUID", skip_serializing_if = "Option::is_none")]
    pub target_workload_uid: Option<String>,
    /// `Aborted`, or a stage on the way.
    pub state: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it gives up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Retirement {
    /// Whether it failed and keeps its instance.
    pub fn is_aborted(&self) -> bool {
        self.state == "Aborted"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_that_is_not_known_is_dropped() {
        let object = json!({
            "apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment",
            "metadata": {"name": "t", "namespace": "n", "uid": "u", "labels": {"a": "b"}, "managedFields": [{"manager": "m"}],
                "annotations": {"x": "y"}, "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"model": {"name": "m"}, "roles": [{"name": "a", "image": "i", "env": [{"name": "K"}], "replicas": 2, "elasticEp": {"width": 4}}]},
            "status": {"phase": "Running", "roles": [{"name": "a", "ready": 1, "parallelism": {"loadBalance": "External", "tp": 8}}],
                "retirement": {"roleName": "a", "replicaOrdinal": 0, "state": "Draining", "reason": "ScaleDown"}},
        });
        let view: Deployment = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(view.spec.roles[0].count().get(), 2);
        assert_eq!(serde_json::to_value(&view).unwrap(), object);
    }

    #[test]
    fn kinds_compare_without_case_and_an_absent_one_is_server() {
        assert_eq!(RoleKind::parse("prefill"), Some(RoleKind::Prefill));
        assert_eq!(RoleKind::parse("Encode"), Some(RoleKind::Encode));
        assert_eq!(RoleKind::parse("router"), None);
        assert_eq!(Role::default().role_kind(), Some(RoleKind::Server));
        assert_eq!(Role::default().count(), Replicas::MIN);
    }
}
