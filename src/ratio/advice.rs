//! What is feasible but will disappoint: bounds that no vector reaches, and steps too fine for the ratios.

use super::{
    Bounds, Direction, End, Goal, Lattice, Pacing, Ratio, Replicas, StepLimit,
    bound::{Arc, Rule},
    lattice::{Interval, Net},
};

/// A bound that no feasible vector reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Place of the role.
    pub role: usize,
    /// Which of its bounds.
    pub end: End,
    /// The bound, as given.
    pub bound: Replicas,
    /// The count nearest to it that occurs.
    pub nearest: Replicas,
}

/// A role that has room, and that no pass can ever move that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Place of the role.
    pub role: usize,
    /// The way that it cannot go.
    pub direction: Direction,
    /// The least `stepPolicy: Pods` with which it can.
    pub pods: u32,
}

/// Where the passes of a run start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From the largest vector down, or from the smallest up.
    Far,
    /// From the counts that the target has.
    Current,
}

/// A run of passes that stops before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    /// Where it starts.
    pub start: Start,
    /// Which way it goes: down to the smallest feasible vector, or up to the largest.
    pub direction: Direction,
    /// The vector where it stops; a role without ratios stands at its end.
    pub at: Vec<Replicas>,
    /// The least `stepPolicy: Pods` with which it would come to its end.
    pub pods: u32,
}

impl Lattice<'_> {
    /// Each bound that no feasible vector reaches, in the order of roles.
    pub fn unreachable(&self) -> impl Iterator<Item = Unreachable> + '_ {
        self.system
            .bounds
            .iter()
            .zip(&self.reach)
            .enumerate()
            .flat_map(|(role, (bounds, reach))| {
                let min = (End::Min, bounds.lo(), reach.lo());
                let max = (End::Max, bounds.hi(), reach.hi());
                [min, max]
                    .into_iter()
                    .filter(|(_, bound, nearest)| bound != nearest)
                    .map(move |(end, bound, nearest)| Unreachable {
                        role,
                        end,
                        bound,
                        nearest,
                    })
            })
    }

    /// Each role that can have several counts and that no pass, from no feasible vector, can move up, or down: a step
    /// of zero, or one that is finer than the grain of a ratio. In the order of roles, up before down.
    pub fn stuck(&self, pacing: Pacing) -> Vec<Stuck> {
        let mut stuck = Vec::new();
        for role in 0..self.reach.len() {
            if self.reach[role].lo() == self.reach[role].hi() {
                continue;
            }
            for (direction, step) in [(Direction::Up, pacing.up), (Direction::Down, pacing.down)] {
                let moves = |step: StepLimit| self.moves(role, direction, step);
                if !moves(step) {
                    stuck.push(Stuck {
                        role,
                        direction,
                        pods: least_pods(|pods| moves(StepLimit::Pods(pods))),
                    });
                }
            }
        }
        stuck
    }

    /// Can one pass move the role that way from some feasible vector? One propagation over the vectors before and
    /// after the pass, as one system of twice the roles. Step limits are monotone, so that the lattice stays one.
    fn moves(&self, role: usize, direction: Direction, step: StepLimit) -> bool {
        if step.is_zero() {
            return false;
        }
        if !self.system.is_coupled(role) {
            return true;
        }
        let roles = self.reach.len();
        let component = self.system.component(role);
        let here = |role: &usize| self.system.component(*role) == component;
        let ratios = self
            .system
            .ratios
            .iter()
            .filter(|ratio| here(&ratio.numerator));
        let both = ratios
            .flat_map(Ratio::arcs)
            .flat_map(|(_, arc)| [arc, Arc::new(arc.x + roles, arc.y + roles, arc.rule)]);
        let steps = (0..roles).filter(here).map(|before| match direction {
            Direction::Up => Arc::new(before + roles, before, Rule::Grow(step)),
            Direction::Down => Arc::new(before, before + roles, Rule::Shrink(step)),
        });
        let moved = match direction {
            Direction::Up => Arc::new(role, role + roles, Rule::Less),
            Direction::Down => Arc::new(role + roles, role, Rule::Less),
        };
        let net = Net::new(2 * roles, both.chain(steps).chain([moved]));
        let mut intervals: Vec<Interval> = self
            .reach
            .iter()
            .chain(&self.reach)
            .copied()
            .map(Interval::from)
            .collect();
        net.propagate(&mut intervals).is_ok()
    }

    /// Each run of passes that stops short: from the largest vector down and from the smallest up, and, where
    /// `current` is given and feasible, from there both ways. A direction whose step is zero is not run: nothing
    /// moves, which [`Lattice::stuck`] tells.
    pub fn halts(&self, pacing: Pacing, current: Option<&[Replicas]>) -> Vec<Halt> {
        let current = current
            .filter(|current| self.system.allows(current))
            .map(<[_]>::to_vec);
        let mut halts = Vec::new();
        for (direction, step) in [(Direction::Down, pacing.down), (Direction::Up, pacing.up)] {
            if step.is_zero() {
                continue;
            }
            let far = if direction == Direction::Up {
                self.least()
            } else {
                self.greatest()
            };
            for (start, from) in [(Start::Far, Some(&far)), (Start::Current, current.as_ref())] {
                let Some(from) = from else { continue };
                let Some(at) = self.halt(from, direction, step) else {
                    continue;
                };
                let pods =
                    least_pods(|pods| self.halt(from, direction, StepLimit::Pods(pods)).is_none());
                halts.push(Halt {
                    start,
                    direction,
                    at,
                    pods,
                });
            }
        }
        halts
    }

    /// Where the run stops, if that is not its end.
    fn halt(
        &self,
        from: &[Replicas],
        direction: Direction,
        step: StepLimit,
    ) -> Option<Vec<Replicas>> {
        let end = if direction == Direction::Up {
            self.greatest()
        } else {
            self.least()
        };
        let roles = self.reach.len();
        let still = StepLimit::Pods(0);
        let pacing = match direction {
            Direction::Up => Pacing {
                up: step,
                down: still,
            },
            Direction::Down => Pacing {
                up: still,
                down: step,
            },
        };
        // A role without ratios always gets there, in up to a thousand passes: it starts at its end.
        let mut at: Vec<Replicas> = (0..roles)
            .map(|role| {
                if self.system.is_coupled(role) {
                    from[role]
                } else {
                    end[role]
                }
            })
            .collect();
        let goal = Goal {
            wishes: end.clone(),
            directions: vec![direction; roles],
            counts: end,
        };
        loop {
            let allowed: Vec<Bounds> = at.iter().map(|&count| pacing.around(count)).collect();
            // The vector stays feasible all along, so that a pass always has an answer.
            let next = self.pass(&at, &goal, &allowed).ok()?;
            if next == at {
                break;
            }
            at = next;
        }
        (at != goal.counts).then_some(at)
    }
}

/// The least number of replicas a step for which `enough`; more is always enough where less is, and 1023 is.
fn least_pods(enough: impl Fn(u32) -> bool) -> u32 {
    let (mut no, mut yes) = (0, 1023);
    while yes - no > 1 {
        let middle = u32::midpoint(no, yes);
        if enough(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}
