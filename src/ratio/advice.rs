//! What is feasible and will still disappoint: bounds that nothing reaches, roles that cannot move, ways that stop
//! half-way.

use crate::api::Replicas;

use super::system::{Infeasible, Intervals, System};

/// How far one pass may move a role in one direction. Zero forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many replicas.
    Pods(u32),
    /// So many percent of the current count, rounded up.
    Percent(u32),
    /// The larger of both.
    Larger {
        /// So many replicas.
        replicas: u32,
        /// So many percent of the current count, rounded up.
        percent: u32,
    },
}

impl Step {
    /// How many replicas a role of this count may move.
    pub fn of(self, count: Replicas) -> i64 {
        let percent = |p: u32| (i64::from(count) * i64::from(p) + 99) / 100;
        match self {
            Self::Pods(n) => i64::from(n),
            Self::Percent(p) => percent(p),
            Self::Larger {
                replicas,
                percent: p,
            } => i64::from(replicas).max(percent(p)),
        }
    }

    /// Whether the direction is forbidden.
    pub const fn is_zero(self) -> bool {
        matches!(
            self,
            Self::Pods(0)
                | Self::Percent(0)
                | Self::Larger {
                    replicas: 0,
                    percent: 0
                }
        )
    }
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// More replicas.
    Up,
    /// Fewer replicas.
    Down,
}

/// Where a way through passes ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// The vector of its last pass.
    pub stops: Vec<Replicas>,
    /// The vector that it was to reach.
    pub goal: Vec<Replicas>,
}

impl Journey {
    /// Whether it reached its goal.
    pub fn arrives(&self) -> bool {
        self.stops == self.goal
    }
}

impl System {
    /// Whether a role can move by one replica or more in this direction in some single pass: there is a feasible vector
    /// from which one pass reaches a feasible one.
    ///
    /// Step limits are monotone in the count, so this is one propagation over pairs of vectors, before and after.
    pub fn can_move(&self, role: usize, direction: Direction, step: Step) -> bool {
        let Ok(before) = self.tight() else {
            return false;
        };
        let after = before.clone();
        self.settle(before, after, role, direction, step).is_ok()
    }

    fn settle(
        &self,
        mut before: Intervals,
        mut after: Intervals,
        role: usize,
        direction: Direction,
        step: Step,
    ) -> Result<(), Infeasible> {
        let reach = |count: Replicas| {
            let moved = step.of(count);
            i64::from(count)
                + if direction == Direction::Up {
                    moved
                } else {
                    -moved
                }
        };
        loop {
            let old = (before.clone(), after.clone());
            for other in 0..self.roles() {
                // Up: before <= after <= reach(before). Down: reach(before) <= after <= before.
                let (low, high) = if direction == Direction::Up {
                    (&mut before, &mut after)
                } else {
                    (&mut after, &mut before)
                };
                low.hi[other] = low.hi[other].min(high.hi[other]);
                high.lo[other] = high.lo[other].max(low.lo[other]);
                if other == role {
                    let less = |count: Replicas| {
                        Replicas::new(i64::from(count) - 1).map_err(|_| Infeasible)
                    };
                    let more = |count: Replicas| {
                        Replicas::new(i64::from(count) + 1).map_err(|_| Infeasible)
                    };
                    low.hi[other] = low.hi[other].min(less(high.hi[other])?);
                    high.lo[other] = high.lo[other].max(more(low.lo[other])?);
                }
                if direction == Direction::Up {
                    after.hi[other] =
                        after.hi[other].min(Replicas::saturating(reach(before.hi[other])));
                    while reach(before.lo[other]) < i64::from(after.lo[other]) {
                        before.lo[other] = Replicas::new(i64::from(before.lo[other]) + 1)
                            .map_err(|_| Infeasible)?;
                    }
                } else {
                    after.lo[other] =
                        after.lo[other].max(Replicas::saturating(reach(before.lo[other])));
                    while reach(before.hi[other]) > i64::from(after.hi[other]) {
                        before.hi[other] = Replicas::new(i64::from(before.hi[other]) - 1)
                            .map_err(|_| Infeasible)?;
                    }
                }
            }
            before = self.within(before.lo, before.hi)?;
            after = self.within(after.lo, after.hi)?;
            if (&before, &after) == (&old.0, &old.1) {
                return Ok(());
            }
        }
    }

    /// The way of passes from `start`, which is allowed, to the least or the greatest vector.
    pub fn journey(&self, start: &[Replicas], direction: Direction, step: Step) -> Journey {
        let Ok(tight) = self.tight() else {
            return Journey {
                stops: start.to_vec(),
                goal: start.to_vec(),
            };
        };
        let wishes = if direction == Direction::Up {
            tight.hi
        } else {
            tight.lo
        };
        let goal = self.goal(start, &wishes);
        let mut current = start.to_vec();
        loop {
            let lowest: Vec<_> = current
                .iter()
                .map(|&count| Replicas::saturating(i64::from(count) - step.of(count)))
                .collect();
            let highest: Vec<_> = current
                .iter()
                .map(|&count| Replicas::saturating(i64::from(count) + step.of(count)))
                .collect();
            let next = self.pass(&current, &goal, &lowest, &highest);
            if next == current {
                return Journey {
                    stops: current,
                    goal,
                };
            }
            current = next;
        }
    }

    /// The smallest step in replicas with which the way from `start` arrives, up to `most`.
    pub fn step_that_arrives(
        &self,
        start: &[Replicas],
        direction: Direction,
        most: u32,
    ) -> Option<u32> {
        (1..=most).find(|&replicas| {
            self.journey(start, direction, Step::Pods(replicas))
                .arrives()
        })
    }
}
