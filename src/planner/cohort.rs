//! A cohort: added replicas that are admitted together, or rolled back together.

use crate::{
    api::{
        Replicas, Time, Vector,
        status::{IntentKind, PendingCohort},
    },
    policy::Policy,
};

use super::{
    commit::{Proposal, grown},
    decide::Shape,
    memory::{Memory, count_in},
    target::Target,
};

/// Where a cohort stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Every added ordinal is admitted.
    Admitted,
    /// Some are not, and there is time left.
    Waiting,
    /// Some are not, and the time is over.
    TimedOut,
}

/// Where the cohort stands at `now`, and how many of its ordinals are admitted. Ordinals that are not declared any more,
/// and roles that are gone, are not waited for.
pub(super) fn standing(
    cohort: &PendingCohort,
    target: &Target,
    policy: &Policy,
    now: Time,
) -> (Standing, u32) {
    let (mut admitted, mut missing) = (0, 0);
    for (name, ordinals) in grown(cohort) {
        let Some(role) = target.role(name) else {
            continue;
        };
        for ordinal in ordinals.filter(|&ordinal| ordinal < u32::from(role.count.get())) {
            if role.admitted.contains(&ordinal) {
                admitted += 1;
            } else {
                missing += 1;
            }
        }
    }
    let standing = if missing == 0 {
        Standing::Admitted
    } else if now.since(cohort.started_at) >= i64::from(policy.pending_timeout) {
        Standing::TimedOut
    } else {
        Standing::Waiting
    };
    (standing, admitted)
}

/// The write that takes a cohort back: its whole baseline at once. Where the policy was edited meanwhile and forbids the
/// baseline, the least vector between it and the current one that keeps the present policy; the baseline where there is
/// none.
pub(super) fn rollback(
    cohort: &PendingCohort,
    target: &Target,
    shape: Option<&Shape>,
    admitted: u32,
) -> Option<Proposal> {
    let current = target.vector();
    let baseline: Vector = target
        .roles
        .iter()
        .map(|role| {
            (
                role.name.clone(),
                count_in(&cohort.baseline_vector, &role.name)
                    .map_or(role.count, |before| before.min(role.count)),
            )
        })
        .collect();
    let kept = shape
        .and_then(|shape| shape.least_between(&baseline, &current))
        .unwrap_or(baseline);
    let mut proposal = Proposal::new(IntentKind::Rollback, current, kept);
    proposal.admitted = Some(i32::try_from(admitted).unwrap_or(i32::MAX));
    (proposal.vector != proposal.baseline).then_some(proposal)
}

/// The cohort is admitted: the wait is over. The episode's number and its donation stay.
pub(super) fn admitted(memory: &mut Memory) {
    memory.cohort = None;
    memory.exhaustion = None;
    if memory
        .rebalance
        .as_ref()
        .is_some_and(|r| r.reason == Some(crate::api::status::RebalanceReason::ReceiverAcquire))
    {
        super::commit::over(memory);
    }
}

/// How many replicas an attempt may add while an exhaustion lasts: those that were admitted last time, at least one.
pub(super) fn allowance(admitted: i32) -> i64 {
    i64::from(admitted).clamp(1, i64::from(Replicas::MAX))
}
