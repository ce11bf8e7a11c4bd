//! The word that says what decided a recommendation.

use std::fmt;

use crate::api::scaler::AlgorithmKind;

/// What decided a recommendation: the first that applies, in this order. A hold is named only where the raw count lies
/// below the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No replica is ready: the count is held.
    NoReadyReplicas,
    /// The readings that the algorithm needs are not there: the count is held.
    SignalMissing,
    /// The readings have expired: the count is held.
    SignalStale,
    /// The forecast has too few observations: the fallback decided.
    PredictorWarmingUp,
    /// Recent demand reached the panic threshold, at most one stable window ago.
    Panic,
    /// A latency lies above 1.2 times its target: one replica more, at least.
    LatencyGuardScaleUp,
    /// A latency lies above its target, or is not known while there is work: no shrinking.
    LatencyGuardHold,
    /// One replica less would leave the others above 80 % of their capacity: no shrinking.
    PredictiveConsolidationHold,
    /// Not every replica was seen: no shrinking.
    PartialCoverage,
    /// The load lies within the tolerance: the count is held.
    WithinTolerance,
    /// The algorithm itself.
    Algorithm(AlgorithmKind),
    /// A ratio to another role: this one has no recommendation of its own.
    RatioCoupled,
}

impl Reason {
    /// The word in `status.roles[].reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoReadyReplicas => "NoReadyReplicas",
            Self::SignalMissing => "SignalMissing",
            Self::SignalStale => "SignalStale",
            Self::PredictorWarmingUp => "PredictorWarmingUp",
            Self::Panic => "Panic",
            Self::LatencyGuardScaleUp => "LatencyGuardScaleUp",
            Self::LatencyGuardHold => "LatencyGuardHold",
            Self::PredictiveConsolidationHold => "PredictiveConsolidationHold",
            Self::PartialCoverage => "PartialCoverage",
            Self::WithinTolerance => "WithinTolerance",
            Self::Algorithm(kind) => kind.as_str(),
            Self::RatioCoupled => "RatioCoupled",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
