//! Rebalancing: one replica from a donor to a receiver, when growth finds no resources.
//!
//! Donor first: the replica retires, its Workload goes, and only then the receiver grows, so that the transaction never
//! holds more than it had. (The Dynamo planner moves both legs of an opposing pair at once; refused halfway it is over
//! budget, dynamo#12428.)

use crate::{
    api::{
        Replicas, Time, Vector,
        status::{IntentKind, RebalanceReason, RebalanceStatus},
    },
    policy::{Policy, RebalanceOrder},
};

use super::{
    commit::{Donation, Proposal},
    decide::Shape,
    memory::Memory,
    target::Target,
};

/// Seconds that a retirement may take when it names no deadline.
const RETIREMENT: i64 = 300;

/// What a role brings to the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stand {
    /// The count that the role asks for, stabilized.
    pub wish: Replicas,
    /// Whether its upward step is not zero.
    pub may_grow: bool,
    /// Whether its downward step is not zero and every shrink guard passes.
    pub may_shrink: bool,
    /// Whether it is in panic or beyond its latency target.
    pub strained: bool,
}

/// What came of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// Nobody wants to grow.
    Content,
    /// A donor gives.
    Found(Box<Proposal>),
    /// Nobody can give.
    NotApplicable,
    /// Somebody could give, but the policy or the episode forbids it.
    Blocked,
}

/// Looks for a receiver among the roles that could not grow, and for a donor.
pub(super) fn search(
    policy: &Policy,
    target: &Target,
    shape: &Shape,
    memory: &Memory,
    stands: &[Stand],
) -> Search {
    let failed = memory
        .exhaustion
        .as_ref()
        .map_or(&[][..], |exhaustion| &exhaustion.roles);
    let Some(receiver) = receiver(policy, target, failed, stands) else {
        return Search::Content;
    };
    let attempted = memory
        .rebalance
        .as_ref()
        .is_some_and(|r| r.donation_attempted == Some(true));
    if matches!(policy.rebalance, RebalanceOrder::Priority(_)) && attempted {
        return Search::Blocked;
    }
    let donors = donors(policy, target, receiver, stands);
    if donors.is_empty() {
        return Search::NotApplicable;
    }
    let found = donors
        .into_iter()
        .find_map(|donor| donate(policy, target, shape, donor, receiver));
    found.map_or(Search::Blocked, |proposal| {
        Search::Found(Box::new(proposal))
    })
}

fn current(policy: &Policy, target: &Target, role: usize) -> Option<Replicas> {
    target
        .role(&policy.roles.get(role)?.name)
        .map(|role| role.count)
}

fn receiver(
    policy: &Policy,
    target: &Target,
    failed: &[String],
    stands: &[Stand],
) -> Option<usize> {
    let wants = |&role: &usize| {
        let Some((stand, count)) = stands.get(role).zip(current(policy, target, role)) else {
            return false;
        };
        failed.contains(&policy.roles[role].name) && stand.may_grow && stand.wish > count
    };
    match &policy.rebalance {
        RebalanceOrder::Priority(order) => order.iter().copied().find(wants),
        RebalanceOrder::Opposing | RebalanceOrder::Disabled => {
            (0..policy.roles.len()).filter(wants).max_by_key(|&role| {
                let shortfall = current(policy, target, role)
                    .map_or(0, |count| i64::from(stands[role].wish) - i64::from(count));
                (shortfall, std::cmp::Reverse(role))
            })
        }
    }
}

/// Those who could give to the receiver, the best first.
fn donors(policy: &Policy, target: &Target, receiver: usize, stands: &[Stand]) -> Vec<usize> {
    let pool = |role: usize| {
        target
            .role(&policy.roles[role].name)
            .map_or("", |role| role.instance_type.as_str())
    };
    let surplus = |role: usize| {
        current(policy, target, role)
            .map_or(0, |count| i64::from(count) - i64::from(stands[role].wish))
    };
    let able = |role: &usize| {
        let role = *role;
        let above =
            current(policy, target, role).is_some_and(|count| count > policy.roles[role].min);
        role != receiver
            && !pool(role).is_empty()
            && pool(role) == pool(receiver)
            && above
            && stands[role].may_shrink
    };
    match &policy.rebalance {
        RebalanceOrder::Disabled => vec![],
        RebalanceOrder::Opposing => {
            let mut found: Vec<usize> = (0..policy.roles.len())
                .filter(able)
                .filter(|&role| surplus(role) > 0)
                .collect();
            found.sort_by_key(|&role| std::cmp::Reverse(surplus(role)));
            found
        }
        RebalanceOrder::Priority(order) => {
            let behind = order
                .iter()
                .copied()
                .skip_while(|&role| role != receiver)
                .skip(1);
            behind
                .filter(able)
                .filter(|&role| surplus(role) >= 0 && !stands[role].strained)
                .collect()
        }
    }
}

/// The first half of the transaction, if both of its vectors keep the policy.
fn donate(
    policy: &Policy,
    target: &Target,
    shape: &Shape,
    donor: usize,
    receiver: usize,
) -> Option<Proposal> {
    let donor = target.role(&policy.roles[donor].name)?;
    let receiver = &policy.roles[receiver].name;
    let before = target.vector();
    let freed = step(&before, &donor.name, -1)?;
    let taken = step(&freed, receiver, 1)?;
    if !shape.allows(&freed) || !shape.allows(&taken) {
        return None;
    }
    let mut proposal = Proposal::new(IntentKind::Donate, before, freed);
    proposal.donation = Some(Donation {
        receiver: receiver.clone(),
        donor: donor.name.clone(),
        ordinal: u32::from(donor.count.get()) - 1,
        workload: donor.top_workload.clone(),
    });
    Some(proposal)
}

fn step(vector: &Vector, role: &str, by: i64) -> Option<Vector> {
    let count = Replicas::new(i64::from(*vector.get(role)?) + by).ok()?;
    let mut moved = vector.clone();
    moved.insert(role.into(), count);
    Some(moved)
}

/// What becomes of a donor that retires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// It is not gone yet.
    Waiting,
    /// It is gone: the receiver grows, or, where the policy forbids that now, the donor returns.
    Gone(Box<Proposal>),
    /// It is gone, and neither step is left to take.
    Idle,
    /// It did not go in time.
    Expired,
}

/// Follows a donor. Gone means: no retirement of its ordinal, no Pod beyond the declared count, and its Workload, by
/// UID, not there any more.
pub(super) fn release(
    rebalance: &RebalanceStatus,
    target: &Target,
    shape: Option<&Shape>,
    policy: &Policy,
    now: Time,
) -> Release {
    let (Some(donor), Some(receiver)) = (&rebalance.donor_role, &rebalance.receiver_role) else {
        return Release::Idle;
    };
    let Some(role) = target.role(donor) else {
        return Release::Idle;
    };
    let retirement = target
        .retirement
        .as_ref()
        .filter(|retirement| retirement.role == *donor);
    let workload_left = rebalance
        .donor_workload
        .as_ref()
        .zip(target.workloads.as_ref())
        .is_some_and(|(workload, present)| present.contains(&workload.uid));
    if retirement.is_some() || role.lingering || workload_left {
        let started = rebalance.started_at.unwrap_or(now);
        let ends = retirement
            .and_then(|retirement| retirement.deadline)
            .unwrap_or_else(|| started.plus(RETIREMENT));
        let patience = i64::from(role.termination_grace) + i64::from(policy.pending_timeout);
        return if now > ends.plus(patience) {
            Release::Expired
        } else {
            Release::Waiting
        };
    }
    let freed = target.vector();
    if let Some(taken) =
        step(&freed, receiver, 1).filter(|taken| shape.is_some_and(|shape| shape.allows(taken)))
    {
        return Release::Gone(Box::new(with_donation(
            Proposal::new(IntentKind::Receive, freed, taken),
            rebalance,
            donor,
            receiver,
        )));
    }
    // The policy was edited meanwhile: the donor returns to what it had.
    let before = rebalance.donor_target_replicas.map_or(role.count, |count| {
        Replicas::saturating(i64::from(count) + 1)
    });
    let mut returned = freed.clone();
    returned.insert(donor.clone(), role.count.max(before));
    if returned == freed {
        return Release::Idle;
    }
    Release::Gone(Box::new(with_donation(
        Proposal::new(IntentKind::Return, freed, returned),
        rebalance,
        donor,
        receiver,
    )))
}

fn with_donation(
    mut proposal: Proposal,
    rebalance: &RebalanceStatus,
    donor: &str,
    receiver: &str,
) -> Proposal {
    proposal.donation = Some(Donation {
        receiver: receiver.into(),
        donor: donor.into(),
        ordinal: rebalance
            .donor_ordinal
            .and_then(|ordinal| u32::try_from(ordinal).ok())
            .unwrap_or(0),
        workload: rebalance.donor_workload.clone(),
    });
    proposal
}

/// Ends an episode when the scaler's spec or, from outside, the target has changed since it began. A transaction under
/// way goes on without it.
pub(super) fn end_episode(memory: &mut Memory, target: &Target, generation: i64) {
    let external = memory
        .last_commit
        .as_ref()
        .is_some_and(|commit| target.generation > commit.target_generation);
    let edited = memory
        .rebalance
        .as_ref()
        .and_then(|r| r.exhaustion_episode_generation)
        .is_some_and(|began| generation > began);
    if !external && !edited {
        return;
    }
    memory.exhaustion = None;
    let under_way = super::guard::under_way(memory);
    match &mut memory.rebalance {
        Some(rebalance) if under_way => {
            rebalance.exhaustion_episode_generation = None;
            rebalance.donation_attempted = Some(false);
        }
        _ => memory.rebalance = None,
    }
}

/// Notes how a search or a release ended, where an episode is open.
pub(super) fn note(memory: &mut Memory, reason: RebalanceReason) {
    if let Some(rebalance) = &mut memory.rebalance {
        rebalance.reason = Some(reason);
    }
}
