//! What is feasible and will still disappoint: bounds that nothing reaches, roles that cannot move, ways that stop
//! half-way.

use crate::api::Replicas;

use super::{
    lattice::{Edge, Interval, Net, Rule},
    system::{Arc, System},
};

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

    /// The least count that one pass can reach from `count`, at least zero.
    pub(super) fn least(self, count: i32) -> i32 {
        (count - self.at(count)).max(0)
    }

    /// The greatest count that one pass can reach from `count`.
    pub(super) fn most(self, count: i32) -> i32 {
        count + self.at(count)
    }

    /// The step, held within more than any role can move.
    fn at(self, count: i32) -> i32 {
        const FAR: i64 = 2048;
        let step = self.of(Replicas::saturating(count.into())).min(FAR);
        i32::try_from(step).unwrap_or(0)
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
        let Ok(tight) = self.tight() else {
            return false;
        };
        let roles = self.roles();
        let once: Vec<Interval> = tight
            .lo
            .iter()
            .zip(&tight.hi)
            .map(Interval::between)
            .collect();
        let mut both = [&once[..], &once[..]].concat();
        let bands = self.arcs().iter().map(Arc::edge).flat_map(|edge| {
            let (x, y) = (edge.x + roles, edge.y + roles);
            [edge, Edge { x, y, ..edge }]
        });
        let paces = (0..roles).map(|role| match direction {
            Direction::Up => (role + roles, role, Rule::Grow(step)),
            Direction::Down => (role, role + roles, Rule::Shrink(step)),
        });
        let moved = match direction {
            Direction::Up => (role, role + roles, Rule::Less),
            Direction::Down => (role + roles, role, Rule::Less),
        };
        let steps = paces.chain([moved]).map(|(x, y, rule)| Edge { x, y, rule });
        Net::new(2 * roles, bands.chain(steps))
            .propagate(&mut both)
            .is_ok()
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
    ///
    /// A larger step is never behind a smaller one: pass by pass its vector is as near to the goal or nearer. So that
    /// halving finds it.
    pub fn step_that_arrives(
        &self,
        start: &[Replicas],
        direction: Direction,
        most: u32,
    ) -> Option<u32> {
        let arrives = |step| self.journey(start, direction, Step::Pods(step)).arrives();
        if most == 0 || !arrives(most) {
            return None;
        }
        let (mut short, mut enough) = (0, most);
        while enough - short > 1 {
            let middle = u32::midpoint(short, enough);
            if arrives(middle) {
                enough = middle;
            } else {
                short = middle;
            }
        }
        Some(enough)
    }
}
