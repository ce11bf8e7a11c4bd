//! What a pass says in `MetricsReady` and `Blocked`.

use crate::{algorithm::Reason, api::status::ConditionStatus, policy::Policy};

use super::{constraint::Constraint, pass::RolePlan, target::Target};

/// A condition's content; its time and generation are added where it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word that says why.
    pub reason: ConditionReason,
    /// A sentence that says why, and what would change it.
    pub message: String,
}

/// The reasons of the scaler's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionReason {
    /// Bound: the target is available to this scaler, and bound where the scaler is Active.
    Bound,
    /// Active: commits are allowed.
    Active,
    /// The target does not exist, or is under deletion.
    TargetNotFound,
    /// Another scaler holds the target.
    AlreadyBound,
    /// The target was deleted and made again: an edit of the scaler acknowledges it.
    TargetReplaced,
    /// The binding annotation cannot be read.
    InvalidBinding,
    /// The scaler is suspended.
    Suspended,
    /// The scaler is a Shadow.
    ShadowMode,
    /// Every required signal is there.
    Observed,
    /// Required readings, or complete coverage, are missing.
    WaitingForMetrics,
    /// Nothing blocks.
    Ready,
    /// Bounds are missing, inconsistent, or exclude the current vector.
    BoundsConflict,
    /// The current vector breaks a ratio band.
    RatioConflict,
    /// A step, a window or a guard holds a recommendation.
    PacingBounded,
    /// Growth found no resources.
    ResourceExhausted,
    /// A retirement aborted.
    ScaleDownAborted,
    /// No role can give a replica.
    RebalanceNotApplicable,
    /// A role could give a replica, but the policy or the episode forbids it.
    RebalanceBlocked,
}

impl ConditionReason {
    /// The word in `status.conditions[].reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bound => "Bound",
            Self::Active => "Active",
            Self::TargetNotFound => "TargetNotFound",
            Self::AlreadyBound => "AlreadyBound",
            Self::TargetReplaced => "TargetReplaced",
            Self::InvalidBinding => "InvalidBinding",
            Self::Suspended => "Suspended",
            Self::ShadowMode => "ShadowMode",
            Self::Observed => "Observed",
            Self::WaitingForMetrics => "WaitingForMetrics",
            Self::Ready => "Ready",
            Self::BoundsConflict => "BoundsConflict",
            Self::RatioConflict => "RatioConflict",
            Self::PacingBounded => "PacingBounded",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::ScaleDownAborted => "ScaleDownAborted",
            Self::RebalanceNotApplicable => "RebalanceNotApplicable",
            Self::RebalanceBlocked => "RebalanceBlocked",
        }
    }
}

impl Verdict {
    /// A condition that holds.
    pub fn holds(reason: ConditionReason, message: impl Into<String>) -> Self {
        Self {
            status: ConditionStatus::True,
            reason,
            message: message.into(),
        }
    }

    /// A condition that does not hold.
    pub fn fails(reason: ConditionReason, message: impl Into<String>) -> Self {
        Self {
            status: ConditionStatus::False,
            reason,
            message: message.into(),
        }
    }

    /// A condition that this pass did not judge.
    pub fn unknown(reason: ConditionReason, message: impl Into<String>) -> Self {
        Self {
            status: ConditionStatus::Unknown,
            reason,
            message: message.into(),
        }
    }
}

/// Whether every role but followers has the readings that its algorithm and its guard need.
pub(super) fn metrics(roles: &[RolePlan], target: &Target) -> Verdict {
    let mut lacks = vec![];
    for plan in roles.iter().filter(|plan| plan.raw.is_some()) {
        let Some(role) = target.role(&plan.name) else {
            continue;
        };
        let lack = match plan.advised {
            Reason::NoReadyReplicas => Some("no replica is ready".to_owned()),
            Reason::SignalMissing if role.unmanaged => {
                Some("its command makes its signals unmanaged".to_owned())
            }
            Reason::SignalMissing => Some("no rate yet: two samples make one".to_owned()),
            Reason::SignalStale => Some("the last reading has expired".to_owned()),
            _ if !role.seen.coverage.is_complete() => Some(coverage(role)),
            _ if plan.blind => Some("requests run, but no latency was reported".to_owned()),
            _ => None,
        };
        lacks.extend(lack.map(|lack| format!("{}: {lack}", plan.name)));
    }
    if lacks.is_empty() {
        let unguarded: Vec<_> = roles
            .iter()
            .filter(|plan| plan.unguarded)
            .map(|plan| plan.name.as_str())
            .collect();
        let note = if unguarded.is_empty() {
            String::new()
        } else {
            format!(
                "; {} has no latency guard: its engine reports none",
                unguarded.join(", ")
            )
        };
        return Verdict::holds(
            ConditionReason::Observed,
            format!("all required role signals are available{note}"),
        );
    }
    Verdict::fails(ConditionReason::WaitingForMetrics, lacks.join("; "))
}

fn coverage(role: &super::target::TargetRole) -> String {
    let seen = &role.seen.coverage;
    let gaps: Vec<_> = seen
        .gaps
        .iter()
        .map(|(gap, pods)| format!("{pods} {gap}"))
        .collect();
    format!(
        "{} of {} Pods answered ({})",
        seen.answered,
        seen.expected,
        gaps.join(", ")
    )
}

/// The roles that a step, a window or a guard keeps from where they would go.
pub(super) fn paced(roles: &[RolePlan]) -> Option<Verdict> {
    let held: Vec<_> = roles
        .iter()
        .filter(|plan| plan.ideal != plan.constrained)
        .filter_map(|plan| {
            let cause = plan.paced_by?;
            let word = if cause == Constraint::Held {
                plan.advised.as_str()
            } else {
                cause.as_str()
            };
            Some(format!(
                "{} stays at {} of {} ({word})",
                plan.name, plan.constrained, plan.ideal
            ))
        })
        .collect();
    (!held.is_empty()).then(|| Verdict::holds(ConditionReason::PacingBounded, held.join("; ")))
}

/// What one more rebalance would need, in words.
pub(super) fn unable(policy: &Policy, blocked: bool) -> Verdict {
    let priority = matches!(policy.rebalance, crate::policy::RebalanceOrder::Priority(_));
    match (blocked, priority) {
        (true, true) => Verdict::holds(
            ConditionReason::RebalanceBlocked,
            "this episode has used its donation, or every donation breaks bounds or ratios: edit the scaler to begin a new episode, or free resources",
        ),
        (true, false) => Verdict::holds(
            ConditionReason::RebalanceBlocked,
            "every donation breaks bounds or ratios on its way: widen them, or free resources",
        ),
        (false, true) => Verdict::holds(
            ConditionReason::RebalanceNotApplicable,
            "no role behind the receiver in rebalance.priority can give a replica of the same instanceType: free resources",
        ),
        (false, false) => Verdict::holds(
            ConditionReason::RebalanceNotApplicable,
            "no role of the same instanceType wants to shrink: free resources, or use rebalance.policy Priority",
        ),
    }
}
