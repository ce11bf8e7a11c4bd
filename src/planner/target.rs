//! A target as a pass finds it: counts, kinds, instances, the retirement, and what was observed.

use std::collections::BTreeSet;

use crate::{
    api::{Replicas, RoleKind, Time, Vector, status::WorkloadRef},
    signal::Observation,
};

/// The target of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// Name of the deployment.
    pub name: String,
    /// Generation of its spec.
    pub generation: i64,
    /// Its roles.
    pub roles: Vec<TargetRole>,
    /// The retirement under way, or aborted and not yet declared again.
    pub retirement: Option<Retirement>,
    /// UIDs of the Workloads that exist for it; `None` in a cluster without Kueue's API.
    pub workloads: Option<BTreeSet<String>>,
}

/// One role of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetRole {
    /// Name of the role.
    pub name: String,
    /// What its replicas do; `None` for a word that this release does not know.
    pub kind: Option<RoleKind>,
    /// The count that it declares.
    pub count: Replicas,
    /// Pods of one instance.
    pub size: u32,
    /// Name of its pool; empty when it has none.
    pub instance_type: String,
    /// A command of the user's own: no signals.
    pub unmanaged: bool,
    /// One collective that widens: it cannot be scaled.
    pub elastic: bool,
    /// The largest count whose generated names fit.
    pub fits: Replicas,
    /// Declared ordinals whose instance is admitted.
    pub admitted: BTreeSet<u32>,
    /// Whether a Pod with an ordinal at or above the declared count exists.
    pub lingering: bool,
    /// The Workload of the highest declared ordinal, where there is one.
    pub top_workload: Option<WorkloadRef>,
    /// Seconds that its Pods may take to terminate.
    pub termination_grace: u32,
    /// What was observed.
    pub seen: Observation,
    /// When it was observed.
    pub seen_at: Time,
}

/// The retirement of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retirement {
    /// Role of the instance.
    pub role: String,
    /// Ordinal of the instance.
    pub ordinal: u32,
    /// Generation of the target whose intent began it.
    pub generation: Option<i64>,
    /// Whether it failed and keeps its instance.
    pub aborted: bool,
    /// When it began.
    pub started_at: Option<Time>,
    /// When it gives up.
    pub deadline: Option<Time>,
}

impl Target {
    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&TargetRole> {
        self.roles.iter().find(|role| role.name == name)
    }

    /// The declared counts.
    pub fn vector(&self) -> Vector {
        self.roles
            .iter()
            .map(|role| (role.name.clone(), role.count))
            .collect()
    }

    /// Whether a retirement is active in any state, or a Pod beyond a declared count is left.
    pub fn retires(&self) -> bool {
        self.retirement.is_some() || self.roles.iter().any(|role| role.lingering)
    }
}

impl TargetRole {
    /// The first declared ordinal that is not admitted.
    pub fn first_unadmitted(&self) -> Option<u32> {
        (0..u32::from(self.count.get())).find(|ordinal| !self.admitted.contains(ordinal))
    }
}
