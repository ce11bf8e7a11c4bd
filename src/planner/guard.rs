//! Guards: which roles may not grow or shrink in this pass, and why.

use crate::{
    algorithm::Recommendation,
    api::{
        RoleKind, Time,
        status::{Exhaustion, RebalanceReason},
    },
    policy::Policy,
};

use super::{
    constraint::Constraint,
    memory::Memory,
    target::{Target, TargetRole},
};

/// What forbids each direction; `None` where it is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Guards {
    /// Why the role must not grow.
    pub up: Option<Constraint>,
    /// Why the role must not shrink.
    pub down: Option<Constraint>,
}

/// The guards of a role.
pub(super) fn guards(
    policy: &Policy,
    target: &Target,
    role: &TargetRole,
    advice: Recommendation,
    memory: &Memory,
    now: Time,
) -> Guards {
    Guards {
        up: up(role, memory, now),
        down: down(policy, target, role, advice, memory, now),
    }
}

fn up(role: &TargetRole, memory: &Memory, now: Time) -> Option<Constraint> {
    if memory.cohort.is_some() {
        return Some(Constraint::CohortPending);
    }
    if under_way(memory) {
        return Some(Constraint::Rebalancing);
    }
    if role.first_unadmitted().is_some() {
        return Some(Constraint::InstanceUnadmitted);
    }
    memory
        .exhaustion
        .as_ref()
        .filter(|exhaustion| !is_due(exhaustion, now))
        .map(|_| Constraint::ExhaustionBackoff)
}

fn down(
    policy: &Policy,
    target: &Target,
    role: &TargetRole,
    advice: Recommendation,
    memory: &Memory,
    now: Time,
) -> Option<Constraint> {
    if target.retires() {
        return Some(Constraint::RetirementActive);
    }
    if cools_down(policy, memory, now) {
        return Some(Constraint::AbortCooldown);
    }
    if role.kind == Some(RoleKind::Decode) && in_grace(policy, role, memory, now) {
        return Some(Constraint::DecodeGrace);
    }
    (advice.holds || role.seen.ready == 0).then_some(Constraint::Held)
}

/// Whether a transaction is between its first commit and its end.
pub(super) fn under_way(memory: &Memory) -> bool {
    let reason = memory
        .rebalance
        .as_ref()
        .and_then(|rebalance| rebalance.reason);
    matches!(
        reason,
        Some(RebalanceReason::DonorRelease | RebalanceReason::ReceiverAcquire)
    )
}

/// Whether growth may be tried again after a rollback.
pub(super) fn is_due(exhaustion: &Exhaustion, now: Time) -> bool {
    now >= exhaustion.next_attempt_at
}

/// Whether an abort cooldown lasts, over the whole target. An end further away than the cooldown itself comes from a
/// clock that ran ahead: it counts as a whole cooldown from now.
pub(super) fn cools_down(policy: &Policy, memory: &Memory, now: Time) -> bool {
    let until = memory
        .last_scale_down
        .as_ref()
        .and_then(|last| last.cooldown_until);
    until.is_some_and(|until| {
        until.min(now.plus(i64::from(policy.scale_down.cooldown_after_abort))) > now
    })
}

fn in_grace(policy: &Policy, role: &TargetRole, memory: &Memory, now: Time) -> bool {
    let grew = memory
        .roles
        .get(&role.name)
        .and_then(|past| past.last_scale_up);
    grew.is_some_and(|grew| now.since(grew.min(now)) < i64::from(policy.scale_down.decode_grace))
}
