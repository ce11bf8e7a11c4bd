//! The words for what kept a role from its recommendation.

use std::fmt;

/// What changed a recommended count, or would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Constraint {
    /// `minReplicas`.
    BoundedByMin,
    /// `maxReplicas`, or the largest count whose generated names fit.
    BoundedByMax,
    /// A ratio band.
    RatioBand,
    /// Growth waits until the window agrees.
    StabilizingUp,
    /// Shrinking waits for the window's highest recommendation to pass.
    StabilizingDown,
    /// The step of one pass.
    StepLimited,
    /// Added replicas wait for admission.
    CohortPending,
    /// A declared replica of the role is not admitted.
    InstanceUnadmitted,
    /// A retirement runs, or Pods beyond a declared count are left.
    RetirementActive,
    /// A retirement aborted a short time ago.
    AbortCooldown,
    /// A Decode role grew a short time ago.
    DecodeGrace,
    /// Growth found no resources, and the next attempt is not due.
    ExhaustionBackoff,
    /// A rebalance is under way.
    Rebalancing,
    /// The algorithm holds: the role's reason says why.
    Held,
}

impl Constraint {
    /// The word in `status.roles[].reason`; [`Constraint::Held`] has none of its own.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BoundedByMin => "BoundedByMin",
            Self::BoundedByMax => "BoundedByMax",
            Self::RatioBand => "RatioBand",
            Self::StabilizingUp => "StabilizingUp",
            Self::StabilizingDown => "StabilizingDown",
            Self::StepLimited => "StepLimited",
            Self::CohortPending => "CohortPending",
            Self::InstanceUnadmitted => "InstanceUnadmitted",
            Self::RetirementActive => "RetirementActive",
            Self::AbortCooldown => "AbortCooldown",
            Self::DecodeGrace => "DecodeGrace",
            Self::ExhaustionBackoff => "ExhaustionBackoff",
            Self::Rebalancing => "Rebalancing",
            Self::Held => "Held",
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
