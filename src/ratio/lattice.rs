//! Bound propagation to the fixpoint.
//!
//! Every [`Arc`] that two vectors keep is kept by their component-wise minimum and maximum. So the feasible vectors
//! form a lattice, and propagation decides: either some role is left without a count, or the vector of all smallest
//! counts and the vector of all largest are both feasible. There is no search and no limit.

use super::bound::Arc;

/// The smallest and the largest count of a role; on the way they may cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) lo: i32,
    pub(super) hi: i32,
}

/// A role that propagation left without a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Emptied(pub(super) usize);

/// At most so many roles, so that a set of them is one word.
pub(super) const MOST_ROLES: usize = 64;

/// Arcs, found by either end.
#[derive(Clone, Debug)]
pub(super) struct Net {
    by_x: Vec<Arc>,
    by_y: Vec<Arc>,
    /// For each role, where its arcs start in `by_x` and in `by_y`; one entry more than roles.
    starts: Vec<(u16, u16)>,
}

impl Net {
    /// Of at most [`MOST_ROLES`] roles.
    pub(super) fn new(roles: usize, arcs: impl Iterator<Item = Arc>) -> Self {
        let mut by_x: Vec<Arc> = arcs.collect();
        let mut by_y = by_x.clone();
        by_x.sort_unstable_by_key(|arc| arc.x);
        by_y.sort_unstable_by_key(|arc| arc.y);
        let starts = (0..=roles)
            .map(|role| {
                let x = by_x.partition_point(|arc| arc.x < role);
                let y = by_y.partition_point(|arc| arc.y < role);
                (
                    u16::try_from(x).unwrap_or(u16::MAX),
                    u16::try_from(y).unwrap_or(u16::MAX),
                )
            })
            .collect();
        Self { by_x, by_y, starts }
    }

    /// Tightens the intervals until every arc holds between the smallest counts and between the largest.
    pub(super) fn propagate(&self, intervals: &mut [Interval]) -> Result<(), Emptied> {
        // The roles whose smallest, or largest, count moved since their arcs were last looked at.
        let all = (1_u64 << (intervals.len() - 1) << 1).wrapping_sub(1);
        let (mut raised, mut lowered) = (all, all);
        loop {
            if raised != 0 {
                let x = take_first(&mut raised);
                let lo = intervals[x].lo;
                for arc in &self.by_x[self.starts[x].0.into()..self.starts[x + 1].0.into()] {
                    let other = &mut intervals[arc.y];
                    if !arc.rule.holds(lo, other.lo) {
                        other.lo = arc.rule.least_y(lo);
                        if other.lo > other.hi {
                            return Err(Emptied(arc.y));
                        }
                        raised |= 1 << arc.y;
                    }
                }
            } else if lowered != 0 {
                let y = take_first(&mut lowered);
                let hi = intervals[y].hi;
                for arc in &self.by_y[self.starts[y].1.into()..self.starts[y + 1].1.into()] {
                    let other = &mut intervals[arc.x];
                    if !arc.rule.holds(other.hi, hi) {
                        other.hi = arc.rule.most_x(hi);
                        if other.lo > other.hi {
                            return Err(Emptied(arc.x));
                        }
                        lowered |= 1 << arc.x;
                    }
                }
            } else {
                return Ok(());
            }
        }
    }
}

fn take_first(set: &mut u64) -> usize {
    let first = set.trailing_zeros();
    *set &= *set - 1;
    first as usize
}
