//! Refusals, as people and tools read them.

use std::fmt;

/// Why a write is refused: a stable word. The order is that of the tables: the first broken rule gives the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A user changes a count that a scaler owns.
    ReplicasOwned,
    /// A user touches the decision of a bound target.
    DecisionOwned,
    /// A user touches a binding.
    BindingOwned,
    /// An annotation is installed by someone who may not.
    AnnotationInstall,
    /// A payload does not parse, or is not of the right make.
    InvalidPayload,
    /// A term does not rise.
    TermBackwards,
    /// A term is not the one in force.
    TermMismatch,
    /// A commit changes the set of roles.
    RolesChanged,
    /// The decision's vector is not the counts.
    VectorMismatch,
    /// A decision without a binding.
    CommitWithoutBinding,
    /// A binding passes to another scaler.
    BindingStolen,
    /// Counts move without a decision.
    ReplicasWithoutDecision,
    /// A decision ID is used again.
    DecisionReused,
    /// A fact about the scaler is not true.
    ScalerNotEntitled,
    /// The scaler still holds the binding.
    ReleaseRefused,
    /// The scaler could not be read.
    ScalerUnreadable,
}

impl Reason {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReplicasOwned => "ReplicasOwned",
            Self::DecisionOwned => "DecisionOwned",
            Self::BindingOwned => "BindingOwned",
            Self::AnnotationInstall => "AnnotationInstall",
            Self::InvalidPayload => "InvalidPayload",
            Self::TermBackwards => "TermBackwards",
            Self::TermMismatch => "TermMismatch",
            Self::RolesChanged => "RolesChanged",
            Self::VectorMismatch => "VectorMismatch",
            Self::CommitWithoutBinding => "CommitWithoutBinding",
            Self::BindingStolen => "BindingStolen",
            Self::ReplicasWithoutDecision => "ReplicasWithoutDecision",
            Self::DecisionReused => "DecisionReused",
            Self::ScalerNotEntitled => "ScalerNotEntitled",
            Self::ReleaseRefused => "ReleaseRefused",
            Self::ScalerUnreadable => "ScalerUnreadable",
        }
    }

    /// The HTTP code.
    pub const fn code(self) -> u16 {
        match self {
            Self::ReplicasOwned
            | Self::DecisionOwned
            | Self::BindingOwned
            | Self::AnnotationInstall
            | Self::BindingStolen
            | Self::ScalerNotEntitled
            | Self::ReleaseRefused
            | Self::RolesChanged => 403,
            Self::TermBackwards | Self::TermMismatch => 409,
            Self::InvalidPayload
            | Self::VectorMismatch
            | Self::CommitWithoutBinding
            | Self::ReplicasWithoutDecision
            | Self::DecisionReused => 422,
            Self::ScalerUnreadable => 503,
        }
    }

    /// Seconds after which to try again, where that helps.
    pub const fn retry_after_seconds(self) -> Option<u32> {
        match self {
            Self::ScalerUnreadable => Some(1),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    /// The first rule that the write breaks.
    pub reason: Reason,
    /// Every fault, who owns the target, and the next step.
    pub message: String,
}

/// Faults of one write.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(Reason, String)>);

impl Faults {
    pub(super) fn add(&mut self, reason: Reason, fault: impl Into<String>) {
        self.0.push((reason, fault.into()));
    }

    /// The refusal, if there is a fault: faults in table order, then the next step.
    pub(super) fn into_denial(mut self, advice: &str) -> Option<Denial> {
        self.0.sort_by_key(|(reason, _)| *reason);
        let reason = self.0.first()?.0;
        let faults: Vec<String> = self.0.into_iter().map(|(_, fault)| fault).collect();
        let mut message = faults.join("; ");
        if !advice.is_empty() {
            message.push_str(": ");
            message.push_str(advice);
        }
        Some(Denial { reason, message })
    }
}

/// A foreign value in a message: quoted, escaped, at most 80 characters.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// An error in a message: a foreign key or value in it may be long.
pub(super) fn short(error: &impl ToString) -> String {
    let text = error.to_string();
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
