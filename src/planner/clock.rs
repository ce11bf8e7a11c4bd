//! Time never runs backwards within memory.
//!
//! After a failover to a host whose clock is behind, a stored time may lie ahead. A timeout would freeze, a cooldown
//! stretch. So a time of the past that lies after `now` counts as `now`, and an end counts as at most its configured
//! duration away.

use crate::{api::Time, policy::Policy};

use super::memory::Memory;

/// Brings every time in memory to at most what it can be at `now`.
pub(super) fn settle(memory: &mut Memory, policy: &Policy, now: Time) {
    let past = |time: &mut Time| *time = (*time).min(now);
    for role in memory.roles.values_mut() {
        role.last_scale_up.iter_mut().for_each(past);
        role.algorithm.last_panic.iter_mut().for_each(past);
        role.algorithm.demand.retain(|sample| sample.at <= now);
    }
    if let Some(commit) = &mut memory.last_commit {
        past(&mut commit.timestamp);
    }
    if let Some(cohort) = &mut memory.cohort {
        past(&mut cohort.started_at);
    }
    if let Some(exhaustion) = &mut memory.exhaustion {
        exhaustion.next_attempt_at = exhaustion
            .next_attempt_at
            .min(now.plus(super::commit::wait(policy, exhaustion.attempts)));
    }
    if let Some(rebalance) = &mut memory.rebalance {
        rebalance.started_at.iter_mut().for_each(past);
    }
    if let Some(last) = &mut memory.last_scale_down {
        last.aborted_at.iter_mut().for_each(past);
        let longest = now.plus(i64::from(policy.scale_down.cooldown_after_abort));
        last.cooldown_until
            .iter_mut()
            .for_each(|until| *until = (*until).min(longest));
    }
}
