//! What a scaler would recommend for the roles that are observed.

use anyhow::bail;

use super::report::Role;
use crate::algorithm::{Recommendation, RoleMemory, RoleView, recommend};
use crate::api::{Replicas, Time};
use crate::policy::Policy;

/// A scaler's policy, and what its algorithm remembers from pass to pass.
#[derive(Debug)]
pub(super) struct Advisor {
    policy: Policy,
    memory: Vec<RoleMemory>,
}

impl Advisor {
    /// A scaler for the roles of these names.
    ///
    /// # Errors
    /// A role of the scaler that no engine is given for.
    pub(super) fn new(policy: Policy, observed: &[&str]) -> anyhow::Result<Self> {
        let missing = policy
            .roles
            .iter()
            .find(|role| !observed.contains(&role.name.as_str()));
        if let Some(role) = missing {
            let name = &role.name;
            if policy.roles.len() > 1 {
                bail!(
                    "--scaler: its {} roles need names, write --url {name}=URL",
                    policy.roles.len()
                );
            }
            bail!("--scaler: there is no role {name}, write --role {name} or --url {name}=URL");
        }
        Ok(Self {
            policy,
            memory: Vec::new(),
        })
    }

    /// Adds its advice to the roles of a pass. A role that the scaler does not know gets none.
    pub(super) fn advise(&mut self, roles: &mut [Role], now: Time) {
        let places: Vec<usize> = self
            .policy
            .roles
            .iter()
            .filter_map(|known| roles.iter().position(|role| role.name == known.name))
            .collect();
        let views: Vec<RoleView<'_>> = places
            .iter()
            .filter_map(|place| roles.get(*place))
            .map(|role| RoleView {
                kind: role.kind,
                current: Replicas::saturating(i64::try_from(role.current).unwrap_or(i64::MAX)),
                seen: &role.seen,
                at: now,
            })
            .collect();
        let advice = recommend(&self.policy, &views, &self.memory, now);
        let (advice, memory): (Vec<Recommendation>, Vec<RoleMemory>) = advice.into_iter().unzip();
        self.memory = memory;
        for (place, advice) in places.into_iter().zip(advice) {
            if let Some(role) = roles.get_mut(place) {
                role.advice = Some(advice);
            }
        }
    }
}
