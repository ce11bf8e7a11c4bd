//! Which vector to take: reach, direction, goal, pass.

use crate::api::{Replicas, quantity::Nanos};

use super::system::{Intervals, System};

/// Nanos in one.
const UNIT: i128 = 1_000_000_000;

/// A ratio as a follower reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The role whose count is divided.
    pub numerator: usize,
    /// The role that it is divided by.
    pub denominator: usize,
    /// The preferred ratio, if there is one.
    pub target: Option<Nanos>,
    /// The least ratio, if there is one.
    pub min: Option<Nanos>,
    /// The greatest ratio, if there is one.
    pub max: Option<Nanos>,
}

/// Completes wishes: a role without one follows its direct neighbours that have one.
///
/// It wishes what the ratios' targets ask for, the largest where there are several; without a target, its current count
/// within what the bands allow; without such a neighbour, its current count. One nano is forgiven, as everywhere.
pub fn follow(links: &[Link], current: &[Replicas], wishes: &[Option<Replicas>]) -> Vec<Replicas> {
    current
        .iter()
        .enumerate()
        .map(|(role, &count)| {
            wishes
                .get(role)
                .copied()
                .flatten()
                .unwrap_or_else(|| follower(role, count, links, wishes))
        })
        .collect()
}

fn follower(
    role: usize,
    current: Replicas,
    links: &[Link],
    wishes: &[Option<Replicas>],
) -> Replicas {
    let wish = |other: usize| {
        wishes
            .get(other)
            .copied()
            .flatten()
            .map(i128::from_replicas)
    };
    let (mut asked, mut low, mut high) = (None, 1_i128, i128::from_replicas(Replicas::MAX));
    for link in links {
        let (other, over) = if link.numerator == role {
            (link.denominator, true)
        } else if link.denominator == role {
            (link.numerator, false)
        } else {
            continue;
        };
        let Some(other) = wish(other) else { continue };
        // role = ratio * other, or role = other / ratio; each end with its nano.
        let at_least = |ratio: Nanos| {
            if over {
                ceil((ratio.get() - 1) * other, UNIT)
            } else {
                ceil(other * UNIT, ratio.get() + 1)
            }
        };
        let at_most = |ratio: Nanos| {
            if over {
                (ratio.get() + 1) * other / UNIT
            } else {
                other * UNIT / (ratio.get() - 1).max(1)
            }
        };
        if let Some(target) = link.target {
            asked = asked.max(Some(at_least(target)));
        }
        let (least, most) = if over {
            (link.min, link.max)
        } else {
            (link.max, link.min)
        };
        low = low.max(least.map_or(1, at_least));
        high = high.min(most.map_or(high, at_most));
    }
    let count = asked.unwrap_or_else(|| i128::from_replicas(current).min(high).max(low));
    Replicas::saturating(i64::try_from(count).unwrap_or(i64::MAX))
}

fn ceil(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

trait FromReplicas {
    fn from_replicas(count: Replicas) -> Self;
}

impl FromReplicas for i128 {
    fn from_replicas(count: Replicas) -> Self {
        Self::from(count.get())
    }
}

impl System {
    /// Where each component is to go, without pacing: the least total shortfall of the wishes, then the least total
    /// surplus, over the feasible vectors at or above the current counts where a wish lies above, at or below them
    /// otherwise. It is unique. `current` must be allowed; a component whose current counts are not keeps them.
    pub fn goal(&self, current: &[Replicas], wishes: &[Replicas]) -> Vec<Replicas> {
        let Ok(tight) = self.tight() else {
            return current.to_vec();
        };
        let reach: Vec<Replicas> = wishes
            .iter()
            .zip(tight.lo.iter().zip(&tight.hi))
            .map(|(&wish, (&lo, &hi))| wish.clamp(lo, hi))
            .collect();
        let up = self.directions(current, &reach);
        let lo = (0..current.len())
            .map(|i| if up[i] { current[i] } else { tight.lo[i] })
            .collect();
        let hi = (0..current.len())
            .map(|i| if up[i] { tight.hi[i] } else { current[i] })
            .collect();
        let Ok(Intervals { lo, hi }) = self.within(lo, hi) else {
            return current.to_vec();
        };
        let raised = (0..current.len())
            .map(|i| lo[i].max(reach[i].min(hi[i])))
            .collect();
        self.within(raised, hi)
            .map_or_else(|_| current.to_vec(), |found| found.lo)
    }

    /// One pass towards a goal between the counts that pacing and guards leave: up, the greatest feasible vector at or
    /// below both; down, the least at or above both.
    pub fn pass(
        &self,
        current: &[Replicas],
        goal: &[Replicas],
        lowest: &[Replicas],
        highest: &[Replicas],
    ) -> Vec<Replicas> {
        let up = self.directions(current, goal);
        let lo = (0..current.len())
            .map(|i| {
                if up[i] {
                    current[i]
                } else {
                    current[i].min(goal[i].max(lowest[i]))
                }
            })
            .collect();
        let hi = (0..current.len())
            .map(|i| {
                if up[i] {
                    current[i].max(goal[i].min(highest[i]))
                } else {
                    current[i]
                }
            })
            .collect();
        let Ok(Intervals { lo, hi }) = self.within(lo, hi) else {
            return current.to_vec();
        };
        (0..current.len())
            .map(|i| if up[i] { hi[i] } else { lo[i] })
            .collect()
    }

    /// For each role whether its component goes up: some wish in it lies above the current count.
    fn directions(&self, current: &[Replicas], wishes: &[Replicas]) -> Vec<bool> {
        let components = self.components();
        let mut up = vec![false; current.len()];
        for (role, &component) in components.iter().enumerate() {
            up[component] |= wishes[role] > current[role];
        }
        components.iter().map(|&component| up[component]).collect()
    }
}
