//! One recommendation per role.

use crate::{
    api::{Replicas, RoleKind, Time, quantity::Nanos, scaler::AlgorithmKind},
    policy::{AlgorithmPolicy, Policy, PredictivePolicy, ProportionalPolicy, TokenPolicy},
    signal::{Observation, Rate, SignalState},
};

use super::{
    guard::{Breach, Guard},
    kalman::Trend,
    predictive, proportional,
    reason::Reason,
    throughput,
    window::average,
};

/// A role as a pass finds it.
#[derive(Clone, Copy, Debug)]
pub struct RoleView<'a> {
    /// What its replicas do.
    pub kind: RoleKind,
    /// The count that the target declares. A hold is this count, never the ready one.
    pub current: Replicas,
    /// What was observed.
    pub seen: &'a Observation,
    /// When it was observed: a pass that plans again on an old observation records nothing twice.
    pub at: Time,
}

/// Demand at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When it was observed.
    pub at: Time,
    /// Tokens per second.
    pub rate: Rate,
}

/// What a role's algorithm remembers between passes; status persists all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoleMemory {
    /// Demand over the longer of the two windows, oldest first; the newest sample is always kept.
    pub demand: Vec<Sample>,
    /// The last pass at which the panic condition held.
    pub last_panic: Option<Time>,
    /// The filter, from the first demand above zero on.
    pub filter: Option<Trend>,
    /// Observations that the predictor has seen, leading zeros included.
    pub observations: u32,
}

/// What the algorithm asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// The count before holds; `None` for a follower, whose count comes from its ratios.
    pub raw: Option<Replicas>,
    /// What decided.
    pub reason: Reason,
    /// Whether the role must not shrink.
    pub holds: bool,
    /// Whether no latency guards the role because none is reported.
    pub unguarded: bool,
    /// Whether there is work, and a latency that the guard needs was not read.
    pub blind: bool,
}

impl Recommendation {
    const fn hold(current: Replicas, reason: Reason) -> Self {
        Self {
            raw: Some(current),
            reason,
            holds: true,
            unguarded: false,
            blind: false,
        }
    }
}

/// Recommends a count for each role of the policy, and brings the memory up to date. `roles` and `memory` are in the
/// order of [`Policy::roles`]; a missing memory is an empty one.
pub fn recommend(
    policy: &Policy,
    roles: &[RoleView<'_>],
    memory: &[RoleMemory],
    now: Time,
) -> Vec<(Recommendation, RoleMemory)> {
    let pair = roles
        .iter()
        .find(|role| role.kind == RoleKind::Decode)
        .map(|role| role.seen);
    roles
        .iter()
        .enumerate()
        .map(|(index, role)| {
            let old = memory.get(index).cloned().unwrap_or_default();
            match &policy.algorithm {
                AlgorithmPolicy::Proportional(p) => {
                    (proportionally(p, index, role), RoleMemory::default())
                }
                AlgorithmPolicy::TokenThroughput(p) => Tokens {
                    policy: p,
                    forecast: None,
                    interval: policy.interval,
                    pair,
                    now,
                }
                .recommend(role, old),
                AlgorithmPolicy::Predictive(p) => Tokens {
                    policy: &p.token,
                    forecast: Some(p),
                    interval: policy.interval,
                    pair,
                    now,
                }
                .recommend(role, old),
            }
        })
        .collect()
}

const FOLLOWER: Recommendation = Recommendation {
    raw: None,
    reason: Reason::RatioCoupled,
    holds: false,
    unguarded: false,
    blind: false,
};

fn proportionally(
    policy: &ProportionalPolicy,
    index: usize,
    role: &RoleView<'_>,
) -> Recommendation {
    let Some(target) = policy.targets.get(index).copied().flatten() else {
        return FOLLOWER;
    };
    if role.seen.ready == 0 {
        return Recommendation::hold(role.current, Reason::NoReadyReplicas);
    }
    let total = match (
        role.seen.signal,
        proportional::total(policy.metric, role.seen),
    ) {
        (SignalState::Stale, _) => return Recommendation::hold(role.current, Reason::SignalStale),
        (_, None) => return Recommendation::hold(role.current, Reason::SignalMissing),
        (_, Some(total)) => total,
    };
    let partial = !role.seen.coverage.is_complete();
    let (raw, reason) = match proportional::count(total, role.seen.ready, target, policy.tolerance)
    {
        None => (role.current, Reason::WithinTolerance),
        Some(raw) if partial && raw < role.current => (raw, Reason::PartialCoverage),
        Some(raw) => (raw, Reason::Algorithm(AlgorithmKind::Proportional)),
    };
    Recommendation {
        raw: Some(raw),
        reason,
        holds: partial,
        unguarded: false,
        blind: false,
    }
}

/// The token algorithms: one pass, one role.
struct Tokens<'a> {
    policy: &'a TokenPolicy,
    forecast: Option<&'a PredictivePolicy>,
    interval: u32,
    pair: Option<&'a Observation>,
    now: Time,
}

impl Tokens<'_> {
    fn recommend(
        &self,
        role: &RoleView<'_>,
        mut memory: RoleMemory,
    ) -> (Recommendation, RoleMemory) {
        if role.kind == RoleKind::Encode {
            return (FOLLOWER, RoleMemory::default());
        }
        if role.seen.ready == 0 {
            return (
                Recommendation::hold(role.current, Reason::NoReadyReplicas),
                memory,
            );
        }
        let demand = throughput::demand(role.kind, role.seen);
        let (rate, capacity) = match (role.seen.signal, demand, self.policy.capacity.of(role.kind))
        {
            (SignalState::Stale, ..) => {
                return (
                    Recommendation::hold(role.current, Reason::SignalStale),
                    memory,
                );
            }
            (SignalState::Fresh | SignalState::Idle, Some(rate), Some(capacity)) => {
                (rate, capacity)
            }
            _ => {
                return (
                    Recommendation::hold(role.current, Reason::SignalMissing),
                    memory,
                );
            }
        };
        self.record(
            Sample { at: role.at, rate },
            role.seen.coverage.is_complete(),
            &mut memory,
        );
        let windows = throughput::judge(
            &memory.demand,
            capacity,
            role.seen.ready,
            self.policy,
            self.interval,
            memory.last_panic,
            self.now,
        );
        let Some(windows) = windows else {
            return (
                Recommendation::hold(role.current, Reason::SignalMissing),
                memory,
            );
        };
        memory.last_panic = windows.last_panic;
        let guard = Guard::judge(role.kind, role.seen, self.pair, self.policy);
        let recommendation = self.weigh(role, &memory, &windows, guard, capacity);
        (recommendation, memory)
    }

    /// Windows, forecast and guard together: the count, and the first reason that decided it.
    fn weigh(
        &self,
        role: &RoleView<'_>,
        memory: &RoleMemory,
        windows: &throughput::Windows,
        guard: Guard,
        capacity: Nanos,
    ) -> Recommendation {
        let one_more = Replicas::saturating(i64::from(role.current) + 1);
        let warm = self
            .forecast
            .filter(|p| memory.observations >= p.min_points)
            .and_then(|p| Some((p, p.capacity.of(role.kind)?)));
        let mut raw = windows.count;
        if let Some((p, each)) = warm {
            if let Some(filter) = &memory.filter {
                raw = raw.max(predictive::count(filter, each, p));
            }
            if windows.panic {
                raw = raw.max(one_more);
            }
        }
        let asked = raw;
        if guard.breach == Breach::ScaleUp {
            raw = raw.max(one_more);
        }
        let shrinks = raw < role.current;
        let fewest = role.seen.ready.min(u32::from(role.current.get()));
        let consolidation = warm.is_some_and(|(p, each)| {
            predictive::must_not_consolidate(
                memory.filter.as_ref(),
                windows.stable,
                fewest,
                capacity,
                each,
                p.horizon,
            )
        });
        let partial = !role.seen.coverage.is_complete();
        let reason = if self.forecast.is_some() && warm.is_none() {
            Reason::PredictorWarmingUp
        } else if windows.panic {
            Reason::Panic
        } else if raw > asked {
            Reason::LatencyGuardScaleUp
        } else if shrinks && guard.holds() {
            Reason::LatencyGuardHold
        } else if shrinks && consolidation {
            Reason::PredictiveConsolidationHold
        } else if shrinks && partial {
            Reason::PartialCoverage
        } else {
            Reason::Algorithm(if self.forecast.is_some() {
                AlgorithmKind::Predictive
            } else {
                AlgorithmKind::TokenThroughput
            })
        };
        Recommendation {
            raw: Some(raw),
            reason,
            holds: windows.panic || guard.holds() || consolidation || partial,
            unguarded: guard.off,
            blind: guard.blind,
        }
    }

    /// Takes a new observation into the history and the filter.
    ///
    /// What was seen of a role in part may justify growth, but it is no measurement of the whole: below the average it
    /// is left out, or it would pull down the windows and the trend long after the role is seen whole again.
    fn record(&self, sample: Sample, complete: bool, memory: &mut RoleMemory) {
        let last = memory.demand.last().map(|newest| newest.at);
        if last.is_some_and(|last| sample.at <= last) {
            return;
        }
        if !complete
            && let Some(known) = average(
                &memory.demand,
                self.interval,
                self.policy.stable_window,
                self.now,
            )
            && sample.rate.get() < known
        {
            return;
        }
        if let Some(p) = self.forecast {
            let steps = last.map_or(1, |last| steps_between(last, sample.at, self.interval));
            memory.filter = match memory.filter.filter(Trend::is_sound) {
                None if sample.rate.is_zero() => None,
                None => Some(Trend::first(sample.rate.get(), self.interval)),
                Some(filter) => Some(
                    filter
                        .observe(sample.rate.get(), steps, self.interval, &p.filter)
                        .unwrap_or_else(|| Trend::first(sample.rate.get(), self.interval)),
                ),
            };
            memory.observations = memory.observations.saturating_add(1);
        }
        let keep = i64::from(self.policy.stable_window.max(self.policy.panic_window))
            + i64::from(self.interval);
        memory.demand.retain(|old| sample.at.since(old.at) <= keep);
        memory.demand.push(sample);
    }
}

/// Sampling intervals between two observations, to the nearest, at least one.
fn steps_between(earlier: Time, later: Time, interval: u32) -> u32 {
    let interval = i64::from(interval.max(1));
    let steps = (later.since(earlier).max(0).saturating_mul(2) + interval) / (2 * interval);
    u32::try_from(steps.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "recommend/tests.rs"]
pub(super) mod tests;
