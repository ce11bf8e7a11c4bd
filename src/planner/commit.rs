//! What a pass proposes to write, and what its record changes in memory.
//!
//! A commit is announced as an [`Intent`] in status, written to the target, and then recorded by [`record`] from that
//! intent: a process that dies in between leaves all that its successor needs.

use crate::{
    api::{
        Replicas, Time, Vector,
        status::{
            Exhaustion, Intent, IntentKind, LastCommit, LastScaleDown, PendingCohort,
            RebalanceReason, RebalanceStatus, RetirementRef, ScaleDownOutcome, WorkloadRef,
        },
    },
    policy::Policy,
};

use super::memory::{Memory, count_in};

/// The longest wait between two attempts to grow without resources.
const LONGEST_WAIT: i64 = 3600;

/// A commit that a pass proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What kind of commit it is.
    pub kind: IntentKind,
    /// Counts before.
    pub baseline: Vector,
    /// Counts after.
    pub vector: Vector,
    /// Rebalancing: who gives what to whom.
    pub donation: Option<Donation>,
    /// Restore: the retirement that aborted.
    pub retirement: Option<RetirementRef>,
    /// Rollback: how many of the cohort's ordinals were admitted.
    pub admitted: Option<i32>,
}

/// Who gives what to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Donation {
    /// The role that grows.
    pub receiver: String,
    /// The role that shrinks.
    pub donor: String,
    /// The ordinal that is given away.
    pub ordinal: u32,
    /// The Workload that must be gone before the receiver grows.
    pub workload: Option<WorkloadRef>,
}

impl Proposal {
    pub(super) fn new(kind: IntentKind, baseline: Vector, vector: Vector) -> Self {
        Self {
            kind,
            baseline,
            vector,
            donation: None,
            retirement: None,
            admitted: None,
        }
    }

    /// The intent that announces this proposal. The ID's random part, term and versions are the caller's.
    pub fn intent(
        &self,
        decision_id: String,
        term: crate::api::Term,
        resource_version: String,
        generation: i64,
        now: Time,
    ) -> Intent {
        let moves = i64::from(self.baseline != self.vector);
        let donation = self.donation.as_ref();
        Intent {
            decision_id,
            term,
            kind: self.kind,
            baseline_vector: self.baseline.clone(),
            vector: self.vector.clone(),
            target_resource_version: resource_version,
            target_generation: generation + moves,
            timestamp: now,
            receiver_role: donation.map(|d| d.receiver.clone()),
            donor_role: donation.map(|d| d.donor.clone()),
            donor_ordinal: donation.and_then(|d| i32::try_from(d.ordinal).ok()),
            donor_workload: donation.and_then(|d| d.workload.clone()),
            retirement: self.retirement.clone(),
            admitted: self.admitted,
        }
    }
}

/// Records a commit that was carried out: `lastCommit` and the recovery fields, from the intent alone. `generation` is
/// the scaler's, which names an exhaustion episode.
pub fn record(memory: &mut Memory, intent: &Intent, policy: &Policy, generation: i64) {
    memory.last_commit = Some(LastCommit {
        decision_id: intent.decision_id.clone(),
        term: intent.term,
        vector: intent.vector.clone(),
        baseline_vector: intent.baseline_vector.clone(),
        timestamp: intent.timestamp,
        target_generation: intent.target_generation,
    });
    memory
        .first_commit_generation
        .get_or_insert(intent.target_generation);
    match intent.kind {
        IntentKind::Scale => {
            grew(memory, intent);
            shrank(memory, intent, policy);
        }
        IntentKind::Donate => {
            shrank(memory, intent, policy);
            donated(memory, intent);
        }
        IntentKind::Receive => {
            grew(memory, intent);
            if let Some(rebalance) = &mut memory.rebalance {
                rebalance.reason = Some(RebalanceReason::ReceiverAcquire);
                rebalance.decision_id = Some(intent.decision_id.clone());
            }
        }
        IntentKind::Return => over(memory),
        IntentKind::Rollback => rolled_back(memory, intent, policy, generation),
        IntentKind::Restore => restored(memory, intent, policy),
    }
}

/// The roles whose count `intent` changes in this direction, with both counts.
fn moved(intent: &Intent, up: bool) -> impl Iterator<Item = (&String, Replicas, Replicas)> {
    intent.vector.iter().filter_map(move |(role, &after)| {
        let before = count_in(&intent.baseline_vector, role)?;
        (if up { after > before } else { after < before }).then_some((role, before, after))
    })
}

fn grew(memory: &mut Memory, intent: &Intent) {
    let mut any = false;
    for (role, ..) in moved(intent, true) {
        memory.roles.entry(role.clone()).or_default().last_scale_up = Some(intent.timestamp);
        any = true;
    }
    if any {
        // What this commit shrinks is shrunk in the baseline too: a rollback undoes growth alone.
        let mut baseline = intent.baseline_vector.clone();
        baseline.extend(moved(intent, false).map(|(role, _, after)| (role.clone(), after)));
        memory.cohort = Some(PendingCohort {
            decision_id: intent.decision_id.clone(),
            term: intent.term,
            baseline_vector: baseline,
            target_vector: intent.vector.clone(),
            started_at: intent.timestamp,
        });
    }
}

fn shrank(memory: &mut Memory, intent: &Intent, policy: &Policy) {
    let lowered: Vec<_> = moved(intent, false).collect();
    if let Some(cohort) = memory
        .cohort
        .as_mut()
        .filter(|cohort| cohort.decision_id != intent.decision_id)
    {
        for (role, _, after) in &lowered {
            cohort.baseline_vector.insert((*role).clone(), *after);
            cohort.target_vector.insert((*role).clone(), *after);
        }
    }
    let first = policy
        .roles
        .iter()
        .find_map(|role| lowered.iter().find(|(name, ..)| **name == role.name));
    let Some((role, before, _)) = first.or(lowered.first()) else {
        return;
    };
    let cooldown_until = memory
        .last_scale_down
        .as_ref()
        .and_then(|last| last.cooldown_until)
        .filter(|&until| until > intent.timestamp);
    memory.last_scale_down = Some(LastScaleDown {
        role: (*role).clone(),
        ordinal: i32::from(before.get()) - 1,
        pre_scale_down_vector: intent.baseline_vector.clone(),
        outcome: ScaleDownOutcome::Committed,
        aborted_at: None,
        cooldown_until,
        decision_id: Some(intent.decision_id.clone()),
        vector: intent.vector.clone(),
        target_generation: Some(intent.target_generation),
        retirement_started_at: None,
    });
}

fn donated(memory: &mut Memory, intent: &Intent) {
    let (Some(receiver), Some(donor)) = (&intent.receiver_role, &intent.donor_role) else {
        return;
    };
    let episode = memory
        .rebalance
        .as_ref()
        .and_then(|rebalance| rebalance.exhaustion_episode_generation);
    memory.rebalance = Some(RebalanceStatus {
        receiver_role: Some(receiver.clone()),
        donor_role: Some(donor.clone()),
        donor_target_replicas: count_in(&intent.vector, donor),
        receiver_target_replicas: count_in(&intent.vector, receiver)
            .map(|count| Replicas::saturating(i64::from(count) + 1)),
        started_at: Some(intent.timestamp),
        exhaustion_episode_generation: episode,
        donation_attempted: Some(true),
        reason: Some(RebalanceReason::DonorRelease),
        donor_ordinal: intent.donor_ordinal,
        donor_workload: intent.donor_workload.clone(),
        decision_id: Some(intent.decision_id.clone()),
    });
}

/// The transaction is over; the episode goes on, where one is left.
pub(super) fn over(memory: &mut Memory) {
    let Some(rebalance) = &mut memory.rebalance else {
        return;
    };
    if rebalance.exhaustion_episode_generation.is_some() {
        rebalance.reason = Some(RebalanceReason::DonationAttempted);
    } else {
        memory.rebalance = None;
    }
}

fn rolled_back(memory: &mut Memory, intent: &Intent, policy: &Policy, generation: i64) {
    let cohort = memory.cohort.take();
    let failed = cohort.as_ref().map_or_else(
        || {
            moved(intent, false)
                .map(|(role, ..)| role.clone())
                .collect()
        },
        |cohort| grown(cohort).map(|(role, _)| role.clone()).collect(),
    );
    let attempts = memory
        .exhaustion
        .as_ref()
        .map_or(0, |e| e.attempts)
        .saturating_add(1);
    memory.exhaustion = Some(Exhaustion {
        attempts,
        next_attempt_at: intent.timestamp.plus(wait(policy, attempts)),
        admitted: intent.admitted.unwrap_or(0),
        roles: failed,
    });
    match &memory.rebalance {
        None => {
            memory.rebalance = Some(RebalanceStatus {
                exhaustion_episode_generation: Some(generation),
                donation_attempted: Some(false),
                reason: Some(RebalanceReason::ResourceExhausted),
                ..RebalanceStatus::default()
            });
        }
        Some(rebalance) if rebalance.reason == Some(RebalanceReason::ReceiverAcquire) => {
            over(memory);
        }
        Some(_) => {}
    }
}

/// Seconds until the next attempt after so many rollbacks in a row: the pending timeout, doubled each time, at most an
/// hour.
pub(super) fn wait(policy: &Policy, attempts: i32) -> i64 {
    let doublings = u32::try_from(attempts - 1).unwrap_or(0).min(12);
    (i64::from(policy.pending_timeout) << doublings).min(LONGEST_WAIT)
}

fn restored(memory: &mut Memory, intent: &Intent, policy: &Policy) {
    let raised: Vec<_> = moved(intent, true)
        .map(|(role, before, after)| (role.clone(), before, after))
        .collect();
    if let Some(cohort) = &mut memory.cohort {
        for (role, before, after) in &raised {
            for vector in [&mut cohort.baseline_vector, &mut cohort.target_vector] {
                if let Some(count) = vector.get_mut(role) {
                    *count = Replicas::saturating(
                        i64::from(*count) + i64::from(*after) - i64::from(*before),
                    );
                }
            }
        }
    }
    let Some(retirement) = &intent.retirement else {
        return;
    };
    if memory.rebalance.as_ref().is_some_and(|rebalance| {
        rebalance.reason == Some(RebalanceReason::DonorRelease)
            && rebalance.donor_role.as_ref() == Some(&retirement.role)
    }) {
        over(memory);
    }
    let last = memory.last_scale_down.get_or_insert_with(|| LastScaleDown {
        role: retirement.role.clone(),
        ordinal: retirement.ordinal,
        pre_scale_down_vector: intent.vector.clone(),
        outcome: ScaleDownOutcome::Aborted,
        aborted_at: None,
        cooldown_until: None,
        decision_id: None,
        vector: intent.baseline_vector.clone(),
        target_generation: None,
        retirement_started_at: None,
    });
    last.outcome = ScaleDownOutcome::Aborted;
    last.aborted_at = Some(intent.timestamp);
    last.cooldown_until = Some(
        intent
            .timestamp
            .plus(i64::from(policy.scale_down.cooldown_after_abort)),
    );
    last.retirement_started_at = retirement.started_at;
}

/// The roles that a cohort grew, with its added ordinals.
pub(super) fn grown(
    cohort: &PendingCohort,
) -> impl Iterator<Item = (&String, std::ops::Range<u32>)> {
    cohort.target_vector.iter().filter_map(|(role, &after)| {
        let before = count_in(&cohort.baseline_vector, role)?;
        (after > before).then(|| (role, u32::from(before.get())..u32::from(after.get())))
    })
}
