//! What one pass knows about a role: the input of every algorithm.

use std::collections::BTreeMap;
use std::fmt;

pub use crate::api::status::SignalState;

use super::refusal::Refusal;

/// A rate in tokens per second: finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// No tokens at all.
    pub const ZERO: Self = Self(0.0);

    /// A rate in tokens per second; `None` for NaN, infinite and negative numbers.
    pub fn new(tokens_per_second: f64) -> Option<Self> {
        measure(tokens_per_second).map(Self)
    }

    /// Tokens per second.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Whether not one token moved.
    pub fn is_zero(self) -> bool {
        self.0 <= 0.0
    }
}

impl std::ops::Add for Rate {
    type Output = Self;

    /// The sum, at most the largest finite number: a rate never becomes infinite.
    fn add(self, other: Self) -> Self {
        Self((self.0 + other.0).min(f64::MAX))
    }
}

impl std::iter::Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(rates: I) -> Self {
        rates.fold(Self::ZERO, std::ops::Add::add)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A duration in milliseconds: finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Milliseconds(f64);

impl Milliseconds {
    /// A duration in milliseconds; `None` for NaN, infinite and negative numbers.
    pub fn new(milliseconds: f64) -> Option<Self> {
        measure(milliseconds).map(Self)
    }

    /// Milliseconds.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A reading: measured, or not to be had. A reading that is missing is never a zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading<T> {
    /// No engine offered it, or what was offered was no number.
    #[default]
    Missing,
    /// Measured, over the engine Pods that answered.
    Value(T),
}

impl<T: Copy> Reading<T> {
    /// The measured value.
    pub const fn value(self) -> Option<T> {
        match self {
            Self::Missing => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<T> From<Option<T>> for Reading<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Self::Value)
    }
}

/// The 95th percentile of a latency of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Latency {
    /// There is work, and no latency was observed. Shrinking holds.
    #[default]
    Missing,
    /// The role is idle and nothing was observed: a measured zero, which holds nothing.
    Idle,
    /// The engine does not report it for this kind of role, by design: an SGLang Prefill has no TTFT.
    /// The guard reads the Decode role of the target instead.
    Unreported,
    /// Milliseconds.
    P95(Milliseconds),
}

impl Latency {
    /// The latency in milliseconds that a guard compares: zero for an idle role, `None` when it is not known.
    pub fn guarded(self) -> Option<Milliseconds> {
        match self {
            Self::Missing | Self::Unreported => None,
            Self::Idle => Some(Milliseconds::default()),
            Self::P95(value) => Some(value),
        }
    }
}

/// Why a role was not wholly seen. Any of them allows growth and forbids shrinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gap {
    /// A scrape was refused: its place in coverage is lost.
    Scrape(Refusal),
    /// A Pod was not scraped yet.
    NotSampled,
    /// The last valid scrape of a Pod is too old.
    Stale,
    /// A Pod is beyond the cap of Pods that are read for one role.
    AboveCap,
    /// A Pod without a rate: new, restarted, reset, or its groups changed.
    NewBaseline,
    /// A Pod answered without a series that the role needs, or with one that is no number.
    SeriesMissing,
    /// Prefix-cache hits exceeded prompts while requests ran or waited: the zero is the clamp's, not the load's.
    ClampedDemand,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scrape(refusal) => refusal.fmt(f),
            Self::NotSampled => f.write_str("not sampled yet"),
            Self::Stale => f.write_str("stale"),
            Self::AboveCap => f.write_str("above the cap of 64 Pods"),
            Self::NewBaseline => f.write_str("new baseline"),
            Self::SeriesMissing => f.write_str("series missing"),
            Self::ClampedDemand => f.write_str("clamped demand"),
        }
    }
}

/// How much of a role was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Engine Pods that gave a valid scrape.
    pub answered: u32,
    /// Ready engine Pods that should have.
    pub expected: u32,
    /// What is missing, and of how many Pods.
    pub gaps: BTreeMap<Gap, u32>,
}

impl Coverage {
    /// Whether every expected Pod was seen whole. Only then may a role shrink.
    pub fn is_complete(&self) -> bool {
        self.answered == self.expected && self.gaps.is_empty()
    }

    /// Counts one more Pod with `gap`.
    pub fn add(&mut self, gap: Gap) {
        let pods = self.gaps.entry(gap).or_default();
        *pods = pods.saturating_add(1);
    }
}

/// One role, one pass. By default nothing is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Ready serving replicas (instances), from Pods and not from metrics.
    pub ready: u32,
    /// How much of the role was seen.
    pub coverage: Coverage,
    /// Requests in execution, summed over answered Pods.
    pub running: Reading<u64>,
    /// Requests that wait for the engine, summed over answered Pods.
    pub waiting: Reading<u64>,
    /// Prompt tokens per second that the prefix cache did not answer.
    pub prompt_rate: Reading<Rate>,
    /// Generated tokens per second.
    pub generation_rate: Reading<Rate>,
    /// Time to first token, 95th percentile.
    pub ttft: Latency,
    /// Inter-token latency, 95th percentile.
    pub itl: Latency,
    /// How far the readings can be relied on. `Missing` until a window is established; `running` and `waiting`
    /// need one scrape only and may have a value before.
    pub signal: SignalState,
    /// Mean fraction of the KV cache in use, over scheduler groups and Pods; 0 to 1.
    pub cache_use: Reading<f64>,
}

impl Default for Observation {
    fn default() -> Self {
        Self {
            ready: 0,
            coverage: Coverage::default(),
            running: Reading::Missing,
            waiting: Reading::Missing,
            prompt_rate: Reading::Missing,
            generation_rate: Reading::Missing,
            ttft: Latency::Missing,
            itl: Latency::Missing,
            signal: SignalState::Missing,
            cache_use: Reading::Missing,
        }
    }
}

fn measure(value: f64) -> Option<f64> {
    // `-0.0 >= 0.0` holds; adding zero makes it the plain zero.
    (value.is_finite() && value >= 0.0).then_some(value + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_no_measure_is_refused_and_not_read_as_zero() {
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            assert_eq!(Rate::new(wrong), None);
            assert_eq!(Milliseconds::new(wrong), None);
        }
        assert_eq!(Rate::new(-0.0).map(|rate| rate.get().to_bits()), Some(0));
    }

    #[test]
    fn a_sum_of_rates_stays_finite() {
        let most = Rate::new(f64::MAX).unwrap();
        assert_eq!((most + most).get().to_bits(), f64::MAX.to_bits());
    }

    #[test]
    fn one_gap_makes_coverage_incomplete() {
        let mut coverage = Coverage {
            answered: 2,
            expected: 2,
            ..Coverage::default()
        };
        assert!(coverage.is_complete());
        coverage.add(Gap::NewBaseline);
        assert!(!coverage.is_complete());
    }

    #[test]
    fn an_idle_latency_counts_as_zero_and_a_missing_one_as_nothing() {
        assert_eq!(Latency::Idle.guarded(), Milliseconds::new(0.0));
        assert_eq!(Latency::Missing.guarded(), None);
        assert_eq!(Latency::Unreported.guarded(), None);
    }
}
