//! How far one pass may move a role.

use super::{Bounds, Replicas};

/// How far one pass may move a role in one direction. Zero forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepLimit {
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

impl StepLimit {
    /// The most replicas that a role of `count` replicas may move. Exact: an integer ceiling.
    ///
    /// ```
    /// use mds::{api::Replicas, ratio::StepLimit};
    ///
    /// let count = Replicas::new(25).unwrap();
    /// assert_eq!(StepLimit::Percent(12).of(count), 3); // 25 * 1.12 is above 28 in floating point
    /// assert_eq!(StepLimit::Larger { replicas: 4, percent: 12 }.of(count), 4);
    /// ```
    pub fn of(self, count: Replicas) -> u32 {
        u32::try_from(self.at(i32::from(count))).unwrap_or(0)
    }

    /// Does it forbid every move?
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

    /// The least count that one pass can reach from `count`, at least zero.
    pub(super) fn least(self, count: i32) -> i32 {
        (count - self.at(count)).max(0)
    }

    /// The greatest count that one pass can reach from `count`.
    pub(super) fn most(self, count: i32) -> i32 {
        count + self.at(count)
    }

    /// The step as a number, held within what is more than any role can move.
    fn at(self, count: i32) -> i32 {
        let pods = |limit: u32| i64::from(limit);
        let percent = |limit: u32| (i64::from(limit) * i64::from(count) + 99) / 100;
        let step = match self {
            Self::Pods(limit) => pods(limit),
            Self::Percent(limit) => percent(limit),
            Self::Larger {
                replicas,
                percent: limit,
            } => pods(replicas).max(percent(limit)),
        };
        i32::try_from(step).map_or(FAR, |step| step.min(FAR))
    }
}

/// More than any role can move.
const FAR: i32 = 2048;

/// The step limits of both directions; they are the same for every role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// The most that one pass adds to a role.
    pub up: StepLimit,
    /// The most that one pass removes from a role.
    pub down: StepLimit,
}

impl Pacing {
    /// The counts that one pass may give a role of `count` replicas, guards aside.
    pub fn around(self, count: Replicas) -> Bounds {
        let count = i32::from(count);
        let (lo, hi) = (self.down.least(count), self.up.most(count));
        let (lo, hi) = (
            Replicas::saturating(lo.into()),
            Replicas::saturating(hi.into()),
        );
        Bounds::new(lo, hi).unwrap_or(Bounds::only(lo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(count: i64) -> Replicas {
        Replicas::new(count).unwrap()
    }

    #[test]
    fn percents_round_up_exactly_where_floats_overshoot() {
        // Cases in which `ceil(n * (1 + p/100))` in f64 adds one too many, and `trunc(n * (1 - p/100))` removes one
        // too many.
        for (count, percent, step) in [
            (25, 12, 3),
            (5, 80, 4),
            (10, 90, 9),
            (15, 80, 12),
            (1, 1, 1),
            (1024, 1000, 2048),
        ] {
            assert_eq!(
                StepLimit::Percent(percent).of(replicas(count)),
                step,
                "{percent} % of {count}"
            );
        }
        assert_eq!(StepLimit::Pods(u32::MAX).of(replicas(1)), 2048);
        assert_eq!(StepLimit::Percent(u32::MAX).of(replicas(1024)), 2048);
    }

    #[test]
    fn the_larger_of_both_limits_counts() {
        let step = StepLimit::Larger {
            replicas: 4,
            percent: 100,
        };
        assert_eq!([1, 4, 5].map(|count| step.of(replicas(count))), [4, 4, 5]);
    }

    #[test]
    fn a_pass_never_leaves_one_to_1024() {
        let pacing = Pacing {
            up: StepLimit::Percent(1000),
            down: StepLimit::Percent(100),
        };
        assert_eq!(
            pacing.around(replicas(3)),
            Bounds::new(replicas(1), replicas(33)).unwrap()
        );
        assert_eq!(pacing.around(replicas(1000)), Bounds::ALL);
        let still = Pacing {
            up: StepLimit::Pods(0),
            down: StepLimit::Percent(0),
        };
        assert_eq!(still.around(replicas(7)), Bounds::only(replicas(7)));
    }
}
