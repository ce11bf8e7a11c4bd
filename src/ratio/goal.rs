//! Where a vector should go, and how far it gets in one pass.
//!
//! A goal has the least total shortfall, then the least total surplus, over the feasible vectors that lie on one side
//! of the current counts. It is unique, and two propagations find it. The least sum of distances would do worse: one
//! overloaded role whose ratio drags two idle ones along would never grow.

use super::{Bounds, Lattice, Ratio, Replicas, System, lattice::Interval};

/// The way a component moves; one that stays where it is moves down by nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Some role of the component wishes for more than it has.
    Up,
    /// None does.
    Down,
}

/// Where the current counts should go, without pacing. One entry a role in each list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// What each role wishes for, within its reach; followers have theirs from their neighbours.
    pub wishes: Vec<Replicas>,
    /// The way each role's component moves.
    pub directions: Vec<Direction>,
    /// The counts to reach: feasible.
    pub counts: Vec<Replicas>,
}

/// Why there is no goal, or no pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GoalError {
    /// A list has not one entry a role.
    #[error("a list has not one entry for each role")]
    Length,
    /// The current counts are not feasible: see [`System::violations`].
    #[error("the current counts break a bound or a ratio")]
    Infeasible,
}

impl Lattice<'_> {
    /// The goal of each component: from the `current` counts, which must be feasible, towards the `wishes`. A role
    /// without a wish is a follower.
    pub fn goal(
        &self,
        current: &[Replicas],
        wishes: &[Option<Replicas>],
    ) -> Result<Goal, GoalError> {
        let system = self.system;
        let roles = self.reach.len();
        if current.len() != roles || wishes.len() != roles {
            return Err(GoalError::Length);
        }
        if !system.allows(current) {
            return Err(GoalError::Infeasible);
        }
        let wishes = self.wishes(current, wishes);
        let mut up = 0_u64;
        for role in 0..roles {
            if wishes[role] > current[role] {
                up |= 1 << system.component(role);
            }
        }
        let directions: Vec<Direction> = (0..roles)
            .map(|role| {
                if up >> system.component(role) & 1 == 1 {
                    Direction::Up
                } else {
                    Direction::Down
                }
            })
            .collect();

        let mut intervals: Vec<Interval> = (0..roles)
            .map(|role| match directions[role] {
                Direction::Up => Interval {
                    lo: current[role].into(),
                    hi: self.reach[role].hi().into(),
                },
                Direction::Down => Interval {
                    lo: self.reach[role].lo().into(),
                    hi: current[role].into(),
                },
            })
            .collect();
        // The current counts lie in these intervals, and the largest counts that the first propagation leaves are
        // feasible and lie above what the second starts from: neither can end empty.
        system
            .net
            .propagate(&mut intervals)
            .map_err(|_| GoalError::Infeasible)?;
        for (interval, &wish) in intervals.iter_mut().zip(&wishes) {
            interval.lo = interval.lo.max(interval.hi.min(wish.into()));
        }
        system
            .net
            .propagate(&mut intervals)
            .map_err(|_| GoalError::Infeasible)?;
        let counts = intervals
            .into_iter()
            .map(|interval| interval.bounds().lo())
            .collect();
        Ok(Goal {
            wishes,
            directions,
            counts,
        })
    }

    /// One step towards `goal`: as far as `allowed` lets each role go, which holds its current count. Every role of
    /// the answer lies between its current count and its goal, and the answer is feasible.
    pub fn pass(
        &self,
        current: &[Replicas],
        goal: &Goal,
        allowed: &[Bounds],
    ) -> Result<Vec<Replicas>, GoalError> {
        let roles = self.reach.len();
        if [
            current.len(),
            allowed.len(),
            goal.counts.len(),
            goal.directions.len(),
        ] != [roles; 4]
        {
            return Err(GoalError::Length);
        }
        let mut intervals: Vec<Interval> = (0..roles)
            .map(|role| {
                let (now, goal_count) = (current[role], goal.counts[role]);
                match goal.directions[role] {
                    Direction::Up => Interval {
                        lo: now.into(),
                        hi: now.max(goal_count.min(allowed[role].hi())).into(),
                    },
                    Direction::Down => Interval {
                        lo: now.min(goal_count.max(allowed[role].lo())).into(),
                        hi: now.into(),
                    },
                }
            })
            .collect();
        self.system
            .net
            .propagate(&mut intervals)
            .map_err(|_| GoalError::Infeasible)?;
        let counts = intervals
            .into_iter()
            .map(Interval::bounds)
            .zip(&goal.directions);
        Ok(counts
            .map(|(bounds, way)| {
                if *way == Direction::Up {
                    bounds.hi()
                } else {
                    bounds.lo()
                }
            })
            .collect())
    }

    /// The wish of each role within its reach, followers included.
    fn wishes(&self, current: &[Replicas], wishes: &[Option<Replicas>]) -> Vec<Replicas> {
        let own: Vec<Option<Replicas>> = self
            .reach
            .iter()
            .zip(wishes)
            .map(|(reach, wish)| wish.map(|wish| reach.clamp(wish)))
            .collect();
        let wish =
            |role: usize| self.reach[role].clamp(follow(self.system, role, current[role], &own));
        (0..own.len())
            .map(|role| own[role].unwrap_or_else(|| wish(role)))
            .collect()
    }
}

/// What a follower wishes for: what the targets of its ratios ask for beside the neighbours' own wishes, the most if
/// there are several; without a target its current count, as far as the bands beside those wishes allow it.
fn follow(system: &System, role: usize, current: Replicas, own: &[Option<Replicas>]) -> Replicas {
    let mut asked = None;
    let (mut lo, mut hi) = (i32::from(Replicas::MIN), i32::from(Replicas::MAX));
    for ratio in &system.ratios {
        let beside = |neighbour: usize| own[neighbour].map(i32::from);
        let (wish, asks): (_, fn(_, _) -> _) = if ratio.numerator == role {
            (beside(ratio.denominator), Ratio::numerator_for)
        } else if ratio.denominator == role {
            (beside(ratio.numerator), Ratio::denominator_for)
        } else {
            continue;
        };
        let Some(wish) = wish else { continue };
        if let Some(target) = ratio.target {
            asked = asked.max(Some(asks(target, wish)));
        }
        for (_, arc) in ratio.arcs() {
            if arc.y == role {
                lo = lo.max(arc.rule.least_y(wish));
            } else {
                hi = hi.min(arc.rule.most_x(wish));
            }
        }
    }
    Replicas::saturating(
        asked
            .unwrap_or_else(|| i32::from(current).min(hi).max(lo))
            .into(),
    )
}
