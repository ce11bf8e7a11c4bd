//! Bound propagation to the fixpoint.
//!
//! Every [`Edge`] that two vectors keep is kept by their component-wise minimum and maximum: the feasible vectors form a
//! lattice, and propagation decides it. Either some role is left without a count, or the vector of all smallest counts
//! and the vector of all largest are both feasible. There is no search and no limit.

use super::advice::Step;

/// The most roles of a net, so that a set of them is one word.
pub(super) const MOST_ROLES: usize = 64;

/// The smallest and the largest count of a role; on the way they may cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub lo: i32,
    pub hi: i32,
}

/// Some role is left without a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Empty;

/// A constraint between two roles: the greatest `x` grows with the greatest `y`, the least `y` with the least `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub x: usize,
    pub y: usize,
    pub rule: Rule,
}

/// What an [`Edge`] says about its `x` and its `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// `a*x <= b*y`, both positive; the products stay below 2^51.
    Linear { a: i64, b: i64 },
    /// `x < y`.
    Less,
    /// One pass may shrink a role from `x` to `y`.
    Shrink(Step),
    /// One pass may grow a role from `y` to `x`.
    Grow(Step),
}

impl Rule {
    /// Does the pair keep it? What propagation mostly asks, answered without a division.
    fn holds(self, x: i32, y: i32) -> bool {
        match self {
            Self::Linear { a, b } => a * i64::from(x) <= b * i64::from(y),
            Self::Less => x < y,
            Self::Shrink(step) => step.least(x) <= y,
            Self::Grow(step) => x <= step.most(y),
        }
    }

    /// The greatest `x` beside a `y` of at most `y`, where `known` is too great. It is often the next one: a slow cycle
    /// winds down count by count, and a product is cheaper than a quotient.
    fn most_x(self, y: i32, known: i32) -> i32 {
        match self {
            _ if self.holds(known - 1, y) => known - 1,
            Self::Linear { a, b } => narrow((b * i64::from(y)).div_euclid(a)),
            Self::Less => y - 1,
            Self::Shrink(step) => last(|x| step.least(x) <= y),
            Self::Grow(step) => step.most(y),
        }
    }

    /// The least `y` beside an `x` of at least `x`, where `known` is too small.
    fn least_y(self, x: i32, known: i32) -> i32 {
        match self {
            _ if self.holds(x, known + 1) => known + 1,
            Self::Linear { a, b } => narrow((a * i64::from(x) + b - 1).div_euclid(b)),
            Self::Less => x + 1,
            Self::Shrink(step) => step.least(x),
            Self::Grow(step) => last(|y| step.most(y) < x) + 1,
        }
    }
}

fn narrow(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The greatest count of at most 1024 for which `holds`, zero if there is none; it holds up to some count.
fn last(holds: impl Fn(i32) -> bool) -> i32 {
    let (mut yes, mut no) = (0, 1025);
    while no - yes > 1 {
        let middle = i32::midpoint(yes, no);
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// Edges, found by either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Net {
    by_x: Vec<Edge>,
    by_y: Vec<Edge>,
    /// For each role where its edges start in `by_x` and in `by_y`; one entry more than roles.
    starts: Vec<(usize, usize)>,
}

impl Net {
    /// Of at most [`MOST_ROLES`] roles.
    pub(super) fn new(roles: usize, edges: impl Iterator<Item = Edge>) -> Self {
        let mut by_x: Vec<Edge> = edges.collect();
        let mut by_y = by_x.clone();
        by_x.sort_unstable_by_key(|edge| edge.x);
        by_y.sort_unstable_by_key(|edge| edge.y);
        let starts = (0..=roles)
            .map(|role| {
                (
                    by_x.partition_point(|edge| edge.x < role),
                    by_y.partition_point(|edge| edge.y < role),
                )
            })
            .collect();
        Self { by_x, by_y, starts }
    }

    /// Tightens intervals, none of them empty, until every edge holds between the smallest counts and between the
    /// largest. A role's edges are looked at again only when it moved.
    pub(super) fn propagate(&self, intervals: &mut [Interval]) -> Result<(), Empty> {
        let all = u64::MAX >> (MOST_ROLES - intervals.len().clamp(1, MOST_ROLES));
        let (mut raised, mut lowered) = (all, all);
        while let Some(x) = take_first(&mut raised) {
            let Some(&Interval { lo, .. }) = intervals.get(x) else {
                continue;
            };
            for edge in &self.by_x[self.starts[x].0..self.starts[x + 1].0] {
                let other = &mut intervals[edge.y];
                if !edge.rule.holds(lo, other.lo) {
                    other.lo = edge.rule.least_y(lo, other.lo);
                    if other.lo > other.hi {
                        return Err(Empty);
                    }
                    raised |= 1 << edge.y;
                }
            }
        }
        // Smallest counts follow from smallest counts alone, and largest from largest.
        while let Some(y) = take_first(&mut lowered) {
            let Some(&Interval { hi, .. }) = intervals.get(y) else {
                continue;
            };
            for edge in &self.by_y[self.starts[y].1..self.starts[y + 1].1] {
                let other = &mut intervals[edge.x];
                if !edge.rule.holds(other.hi, hi) {
                    other.hi = edge.rule.most_x(hi, other.hi);
                    if other.lo > other.hi {
                        return Err(Empty);
                    }
                    lowered |= 1 << edge.x;
                }
            }
        }
        Ok(())
    }
}

fn take_first(set: &mut u64) -> Option<usize> {
    let first = usize::try_from(set.trailing_zeros()).ok()?;
    (first < MOST_ROLES).then(|| {
        *set &= *set - 1;
        first
    })
}
