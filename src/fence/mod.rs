//! The binding fence: one owner of a target's replica counts, by annotations and terms.
//!
//! [`judge`] gives the verdict on a write to a ModelDeployment. The webhook asks it about every write; the reconciler
//! asks it about its own before it sends them. Where a verdict rests on a fact about a scaler, it is a [`Question`]
//! that the caller settles with what it read live. [`commit`] builds the reconciler's patches.

pub mod commit;
mod denial;
mod fact;
mod judge;
mod operator;
pub mod payload;
mod rule;
mod state;
mod user;

pub use denial::{Denial, Reason};
pub use fact::{Question, ScalerFacts, StatusBinding};
#[doc(hidden)]
pub use judge::judge_with;
pub use judge::{Actor, Allowed, Verdict, judge};
pub use payload::{Binding, Decision, DecisionId, PayloadError};
#[doc(hidden)]
pub use rule::{Rule, Rules};
pub use state::{RoleCount, TargetState};

#[cfg(test)]
mod tests;
