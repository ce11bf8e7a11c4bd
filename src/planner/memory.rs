//! What the planner remembers between passes: exactly what status persists.

use std::collections::BTreeMap;

use crate::{
    algorithm::{RoleMemory, Sample, Trend},
    api::{
        Decimal, Replicas, ScalerStatus, Time, Vector,
        status::{
            Covariance, DemandSample, Exhaustion, LastCommit, LastScaleDown, PendingCohort,
            PredictorStatus, RebalanceStatus, Recommendation, RoleStatus,
        },
    },
    signal::Rate,
};

use super::history::History;

/// The planner's whole memory. Through status and back it is the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// What is remembered of each role, by name.
    pub roles: BTreeMap<String, RolePast>,
    /// The latest write to the target's counts.
    pub last_commit: Option<LastCommit>,
    /// Generation of the target after the first commit under this binding.
    pub first_commit_generation: Option<i64>,
    /// Added replicas that wait for admission.
    pub cohort: Option<PendingCohort>,
    /// The wait after growth found no resources.
    pub exhaustion: Option<Exhaustion>,
    /// The exhaustion episode and its transaction.
    pub rebalance: Option<RebalanceStatus>,
    /// The latest shrink.
    pub last_scale_down: Option<LastScaleDown>,
}

/// What is remembered of one role.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolePast {
    /// Raw recommendations.
    pub history: History,
    /// Last growth.
    pub last_scale_up: Option<Time>,
    /// What the algorithm remembers.
    pub algorithm: RoleMemory,
}

impl Memory {
    /// Reads the memory out of a status. What is not sound is left out: a filter that is not finite, a rate below zero.
    pub fn restore(status: &ScalerStatus) -> Self {
        let mut roles: BTreeMap<String, RolePast> = BTreeMap::new();
        for role in &status.roles {
            let past = roles.entry(role.name.clone()).or_default();
            past.history = History::restore(
                role.stabilization_history
                    .iter()
                    .map(|r| (r.timestamp, r.replicas))
                    .collect(),
            );
            past.last_scale_up = role.last_scale_up_time;
            past.algorithm.last_panic = role.last_panic_time;
        }
        for predictor in &status.predictors {
            let algorithm = &mut roles.entry(predictor.name.clone()).or_default().algorithm;
            algorithm.demand = predictor
                .history
                .iter()
                .filter_map(|s| {
                    Some(Sample {
                        at: s.timestamp,
                        rate: Rate::new(s.tokens_per_second.get())?,
                    })
                })
                .collect();
            algorithm.filter = filter_of(predictor).filter(Trend::is_sound);
            algorithm.observations = predictor
                .sample_count
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0);
        }
        Self {
            roles,
            last_commit: status.last_commit.clone(),
            first_commit_generation: status
                .binding
                .as_ref()
                .and_then(|binding| binding.first_commit_generation),
            cohort: status.pending_cohort.clone(),
            exhaustion: status.exhaustion.clone(),
            rebalance: status.rebalance.clone(),
            last_scale_down: status.last_scale_down.clone(),
        }
    }

    /// Writes the memory into a status, beside what the pass reports there.
    pub fn store(&self, status: &mut ScalerStatus) {
        for (name, past) in &self.roles {
            let role = entry(&mut status.roles, name);
            role.stabilization_history = past
                .history
                .samples()
                .iter()
                .map(|&(timestamp, replicas)| Recommendation {
                    timestamp,
                    replicas,
                })
                .collect();
            role.last_scale_up_time = past.last_scale_up;
            role.last_panic_time = past.algorithm.last_panic;
        }
        status.predictors = self
            .roles
            .iter()
            .filter_map(|(name, past)| predictor(name, &past.algorithm))
            .collect();
        if let Some(binding) = &mut status.binding {
            binding.first_commit_generation = self.first_commit_generation;
        }
        status.last_commit.clone_from(&self.last_commit);
        status.pending_cohort.clone_from(&self.cohort);
        status.exhaustion.clone_from(&self.exhaustion);
        status.rebalance.clone_from(&self.rebalance);
        status.last_scale_down.clone_from(&self.last_scale_down);
    }

    /// Forgets roles that the policy does not name any more.
    pub fn keep_roles(&mut self, kept: &[&str]) {
        self.roles.retain(|name, _| kept.contains(&name.as_str()));
    }
}

fn entry<'a>(roles: &'a mut Vec<RoleStatus>, name: &str) -> &'a mut RoleStatus {
    let index = roles
        .iter()
        .position(|role| role.name == name)
        .unwrap_or_else(|| {
            roles.push(RoleStatus {
                name: name.into(),
                ..RoleStatus::default()
            });
            roles.len() - 1
        });
    &mut roles[index]
}

fn filter_of(predictor: &PredictorStatus) -> Option<Trend> {
    let p = predictor.covariance?;
    Some(Trend {
        level: predictor.level?.get(),
        trend: predictor.trend?.get(),
        p00: p.p00.get(),
        p01: p.p01.get(),
        p11: p.p11.get(),
    })
}

fn predictor(name: &str, algorithm: &RoleMemory) -> Option<PredictorStatus> {
    if algorithm.demand.is_empty() && algorithm.filter.is_none() && algorithm.observations == 0 {
        return None;
    }
    let mut out = PredictorStatus {
        name: name.into(),
        sample_count: (algorithm.observations > 0).then_some(i64::from(algorithm.observations)),
        history: algorithm
            .demand
            .iter()
            .filter_map(|s| {
                Some(DemandSample {
                    timestamp: s.at,
                    tokens_per_second: Decimal::new(s.rate.get())?,
                })
            })
            .collect(),
        ..PredictorStatus::default()
    };
    if let Some(filter) = algorithm.filter {
        let covariance = Decimal::new(filter.p00)
            .zip(Decimal::new(filter.p01))
            .zip(Decimal::new(filter.p11))
            .map(|((p00, p01), p11)| Covariance {
                p00,
                p01,
                p10: p01,
                p11,
            });
        out.level = Decimal::new(filter.level);
        out.trend = Decimal::new(filter.trend);
        out.covariance = covariance;
    }
    Some(out)
}

/// The count of `role` in a vector.
pub(super) fn count_in(vector: &Vector, role: &str) -> Option<Replicas> {
    vector.get(role).copied()
}
