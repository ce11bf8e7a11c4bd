//! The policy over a target: which vectors it allows, and where they lead.

use crate::{
    api::{Replicas, Vector},
    policy::Policy,
    ratio::{Band, Bounds, End, Intervals, Link, System, follow},
};

use super::target::Target;

/// Why a target cannot be planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// Bounds are missing, inconsistent, or exclude the current vector.
    Bounds(String),
    /// The current vector breaks a band.
    Ratio(String),
}

/// The policy's bounds and bands over the roles of a target, in the policy's order.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    names: Vec<String>,
    system: System,
    links: Vec<Link>,
    tight: Intervals,
}

impl Shape {
    /// Bounds must name exactly the target's roles, none of them elastic, and leave some vector. The largest count whose
    /// generated names fit is a maximum too.
    pub(super) fn new(policy: &Policy, target: &Target) -> Result<Self, Conflict> {
        let unknown: Vec<_> = policy
            .roles
            .iter()
            .map(|role| role.name.as_str())
            .filter(|name| target.role(name).is_none())
            .collect();
        if !unknown.is_empty() {
            return Err(Conflict::Bounds(format!(
                "bounds name {}, which the target does not have: remove them",
                unknown.join(", ")
            )));
        }
        let elastic: Vec<_> = target
            .roles
            .iter()
            .filter(|role| role.elastic)
            .map(|role| role.name.as_str())
            .collect();
        if !elastic.is_empty() {
            return Err(Conflict::Bounds(format!(
                "{} has elasticEp, which adds no replicas: such a target cannot be scaled",
                elastic.join(", ")
            )));
        }
        let free: Vec<_> = target
            .roles
            .iter()
            .filter(|role| !policy.roles.iter().any(|bounds| bounds.name == role.name))
            .collect();
        if !free.is_empty() {
            let names: Vec<_> = free.iter().map(|role| role.name.as_str()).collect();
            let hopeless = if free.iter().any(|role| role.unmanaged) {
                "a role with a command has no signals: such a target cannot be scaled"
            } else {
                "add them"
            };
            return Err(Conflict::Bounds(format!(
                "bounds for {} are missing: {hopeless}",
                names.join(", ")
            )));
        }
        let mut bounds = Vec::with_capacity(policy.roles.len());
        for role in &policy.roles {
            let fits = target
                .role(&role.name)
                .map_or(Replicas::MAX, |role| role.fits);
            if fits < role.min {
                return Err(Conflict::Bounds(format!(
                    "{}: generated names fit up to {fits} replicas, and minReplicas is {}",
                    role.name, role.min
                )));
            }
            bounds.push(Bounds {
                min: role.min,
                max: role.max.min(fits),
            });
        }
        let bands = policy
            .ratios
            .iter()
            .map(|r| Band {
                numerator: r.numerator,
                denominator: r.denominator,
                min: r.min,
                max: r.max,
            })
            .collect();
        let links = policy
            .ratios
            .iter()
            .map(|r| Link {
                numerator: r.numerator,
                denominator: r.denominator,
                target: r.target,
                min: r.min,
                max: r.max,
            })
            .collect();
        let system =
            System::new(bounds, bands).map_err(|error| Conflict::Bounds(error.to_string()))?;
        let tight = system
            .tight()
            .map_err(|error| Conflict::Bounds(error.to_string()))?;
        Ok(Self {
            names: policy.roles.iter().map(|role| role.name.clone()).collect(),
            system,
            links,
            tight,
        })
    }

    /// Whether the target's counts keep the policy.
    pub(super) fn check(&self, target: &Target) -> Result<(), Conflict> {
        let current = self.ordered(&target.vector());
        for (index, (bounds, &count)) in self.system.bounds().iter().zip(&current).enumerate() {
            if count < bounds.min || count > bounds.max {
                return Err(Conflict::Bounds(format!(
                    "{} has {count} replicas, outside {} to {}: widen its bounds, or suspend and move the count",
                    self.names[index], bounds.min, bounds.max
                )));
            }
        }
        let Some((band, end)) = self.system.broken(&current) else {
            return Ok(());
        };
        let Band {
            numerator,
            denominator,
            min,
            max,
        } = self.system.bands()[band];
        let (word, limit) = if end == End::Min {
            ("min", min)
        } else {
            ("max", max)
        };
        let limit = limit.map_or_else(String::new, |limit| limit.to_string());
        Err(Conflict::Ratio(format!(
            "{}/{} is {}/{}, beyond ratios[{band}].{word} {limit}: widen the ratio, or suspend and move the counts",
            self.names[numerator],
            self.names[denominator],
            current[numerator],
            current[denominator]
        )))
    }

    /// The smallest and largest count that a role has in any vector of the policy.
    pub(super) fn bounds(&self, role: usize) -> (Replicas, Replicas) {
        (self.tight.lo[role], self.tight.hi[role])
    }

    /// Whether the policy allows a vector.
    pub(super) fn allows(&self, vector: &Vector) -> bool {
        self.system.allows(&self.ordered(vector))
    }

    /// The least vector that the policy allows between two others.
    pub(super) fn least_between(&self, low: &Vector, high: &Vector) -> Option<Vector> {
        let clamp = |vector: &Vector, up: bool| -> Vec<Replicas> {
            let bounds = self.system.bounds().iter();
            self.ordered(vector)
                .into_iter()
                .zip(bounds)
                .map(|(count, b)| {
                    if up {
                        count.max(b.min)
                    } else {
                        count.min(b.max)
                    }
                })
                .collect()
        };
        let found = self
            .system
            .within(clamp(low, true), clamp(high, false))
            .ok()?;
        Some(self.names.iter().cloned().zip(found.lo).collect())
    }

    /// Where the wishes lead without pacing; a role without a wish follows.
    pub(super) fn goal(&self, current: &[Replicas], wishes: &[Option<Replicas>]) -> Vec<Replicas> {
        let reach: Vec<Option<Replicas>> = wishes
            .iter()
            .enumerate()
            .map(|(role, wish)| {
                wish.map(|wish| wish.clamp(self.tight.lo[role], self.tight.hi[role]))
            })
            .collect();
        self.system
            .goal(current, &follow(&self.links, current, &reach))
    }

    /// One pass towards a goal.
    pub(super) fn pass(
        &self,
        current: &[Replicas],
        goal: &[Replicas],
        lowest: &[Replicas],
        highest: &[Replicas],
    ) -> Vec<Replicas> {
        self.system.pass(current, goal, lowest, highest)
    }

    fn ordered(&self, vector: &Vector) -> Vec<Replicas> {
        self.names
            .iter()
            .map(|name| vector.get(name).copied().unwrap_or(Replicas::MIN))
            .collect()
    }
}
