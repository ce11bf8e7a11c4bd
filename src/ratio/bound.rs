//! The counts that a role may have, and the counts that a ratio allows.

use crate::api::{Replicas, quantity::Nanos};

/// The counts of one role from `lo` to `hi`, both included; `lo <= hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    lo: Replicas,
    hi: Replicas,
}

impl Bounds {
    /// Every count that a role can have.
    pub const ALL: Self = Self {
        lo: Replicas::MIN,
        hi: Replicas::MAX,
    };

    /// From `lo` to `hi`; `None` when `lo > hi`.
    pub fn new(lo: Replicas, hi: Replicas) -> Option<Self> {
        (lo <= hi).then_some(Self { lo, hi })
    }

    /// One count only.
    pub const fn only(count: Replicas) -> Self {
        Self {
            lo: count,
            hi: count,
        }
    }

    /// The smallest count.
    pub const fn lo(self) -> Replicas {
        self.lo
    }

    /// The largest count.
    pub const fn hi(self) -> Replicas {
        self.hi
    }

    /// Is `count` one of them?
    pub fn contains(self, count: Replicas) -> bool {
        self.lo <= count && count <= self.hi
    }

    /// The one of them that is nearest to `count`.
    pub fn clamp(self, count: Replicas) -> Replicas {
        count.clamp(self.lo, self.hi)
    }
}

/// Which end of a range: of a role's bounds, or of a ratio's band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The least: `minReplicas`, `ratios[].min`.
    Min,
    /// The greatest: `maxReplicas`, `ratios[].max`.
    Max,
}

/// A ratio between two roles, each by its place in the list of roles: `min <= numerator/denominator <= max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The role whose count is divided.
    pub numerator: usize,
    /// The role whose count it is divided by.
    pub denominator: usize,
    /// The least ratio, positive.
    pub min: Option<Nanos>,
    /// The preferred ratio, positive. It is no constraint: a follower's wish comes from it.
    pub target: Option<Nanos>,
    /// The greatest ratio, positive.
    pub max: Option<Nanos>,
}

impl Ratio {
    /// The value at one end of the band.
    pub const fn end(&self, end: End) -> Option<Nanos> {
        match end {
            End::Min => self.min,
            End::Max => self.max,
        }
    }

    /// Does the pair of counts keep this end of the band?
    pub fn holds(&self, end: End, numerator: Replicas, denominator: Replicas) -> bool {
        let (n, d) = (i64::from(numerator), i64::from(denominator));
        self.end(end).is_none_or(|ratio| match end {
            End::Min => below(ratio) * d <= NANOS * n,
            End::Max => NANOS * n <= above(ratio) * d,
        })
    }

    /// The ends that are given, as constraints.
    pub(super) fn arcs(&self) -> impl Iterator<Item = (End, Arc)> + use<> {
        let (n, d) = (self.numerator, self.denominator);
        let min = self
            .min
            .map(|min| (End::Min, Arc::new(d, n, Rule::linear(below(min), NANOS))));
        let max = self
            .max
            .map(|max| (End::Max, Arc::new(n, d, Rule::linear(NANOS, above(max)))));
        min.into_iter().chain(max)
    }

    /// The smallest numerator whose ratio to `denominator` is at least `ratio`.
    pub(super) fn numerator_for(ratio: Nanos, denominator: i32) -> i32 {
        Rule::linear(below(ratio), NANOS).least_y(denominator)
    }

    /// The smallest denominator to which the ratio of `numerator` is at most `ratio`.
    pub(super) fn denominator_for(ratio: Nanos, numerator: i32) -> i32 {
        Rule::linear(NANOS, above(ratio)).least_y(numerator)
    }
}

/// Nanos in one.
const NANOS: i64 = 1_000_000_000;

/// A ratio above this one means what this one means: no pair of counts exceeds 1024.
const LARGEST: i64 = 1025 * NANOS;

/// The ratio less the slack of one nano: a user cannot write 1/3, and the nearest quantity is off by less than a
/// nano. Two different ratios of counts up to 1024 differ by more than 950 nanos.
fn below(ratio: Nanos) -> i64 {
    nanos(ratio) - 1
}

/// The ratio and the slack of one nano.
fn above(ratio: Nanos) -> i64 {
    nanos(ratio) + 1
}

fn nanos(ratio: Nanos) -> i64 {
    i64::try_from(ratio.get()).map_or(LARGEST, |nanos| nanos.min(LARGEST))
}

/// A constraint between two roles that holds for the minimum and the maximum of any two vectors for which it holds:
/// the greatest `x` grows with the greatest `y`, and the least `y` with the least `x`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) rule: Rule,
}

impl Arc {
    pub(super) const fn new(x: usize, y: usize, rule: Rule) -> Self {
        Self { x, y, rule }
    }
}

/// What an [`Arc`] says about its `x` and its `y`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// `a*x <= b*y`, with `a >= 0` and `b > 0`; the products stay below 2^51.
    Linear { a: i64, b: i64 },
    /// `x < y`.
    Less,
    /// One pass may shrink a role from `x` to `y`.
    Shrink(super::StepLimit),
    /// One pass may grow a role from `y` to `x`.
    Grow(super::StepLimit),
}

impl Rule {
    const fn linear(a: i64, b: i64) -> Self {
        Self::Linear { a, b }
    }

    /// The greatest `x` beside a `y` of at most `y`.
    pub(super) fn most_x(self, y: i32) -> i32 {
        match self {
            Self::Linear { a: 0, .. } => i32::MAX,
            Self::Linear { a, b } => narrow((b * i64::from(y)).div_euclid(a)),
            Self::Less => y - 1,
            Self::Shrink(step) => search(|x| step.least(x) <= y),
            Self::Grow(step) => step.most(y),
        }
    }

    /// The least `y` beside an `x` of at least `x`.
    pub(super) fn least_y(self, x: i32) -> i32 {
        match self {
            Self::Linear { a, b } => narrow((a * i64::from(x) + b - 1).div_euclid(b)),
            Self::Less => x + 1,
            Self::Shrink(step) => step.least(x),
            Self::Grow(step) => search(|y| step.most(y) < x) + 1,
        }
    }

    /// Does the pair keep the rule? The usual question of propagation, answered without a division.
    pub(super) fn holds(self, x: i32, y: i32) -> bool {
        match self {
            Self::Linear { a, b } => a * i64::from(x) <= b * i64::from(y),
            Self::Less => x < y,
            Self::Shrink(step) => step.least(x) <= y,
            Self::Grow(step) => x <= step.most(y),
        }
    }
}

fn narrow(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The greatest count of at most 1024 for which `holds`, zero if there is none; it holds up to some count.
fn search(holds: impl Fn(i32) -> bool) -> i32 {
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
