//! The verdict on a write.

use super::{Denial, Question, Rules, TargetState, operator, user};

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// This program's own service account.
    Operator,
    /// Everybody else, cluster administrators and other controllers included.
    User,
}

/// Why a write is allowed: the row or the shape that it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allowed {
    /// Counts and annotations stay as they are, or a CREATE has no annotation.
    Untouched,
    /// A user edits counts that nobody claims, or removes a decision there.
    Unclaimed,
    /// A user adds a role to a bound target; its count is owned at once.
    RoleAdded,
    /// A user removes the binding of a scaler that is gone.
    OrphanRecovery,
    /// A user removes a binding that did not parse.
    InvalidBindingRemoved,
    /// A user replaces a binding that did not parse by one that is true in every part.
    InvalidBindingRepaired,
    /// The program takes an unclaimed target for a scaler.
    Acquire,
    /// The program raises the term of a binding.
    Renew,
    /// The program writes counts and their decision.
    Commit,
    /// The program repeats a commit that was already carried out.
    Replay,
    /// The program gives a target up.
    Release,
}

impl Allowed {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Untouched => "Untouched",
            Self::Unclaimed => "Unclaimed",
            Self::RoleAdded => "RoleAdded",
            Self::OrphanRecovery => "OrphanRecovery",
            Self::InvalidBindingRemoved => "InvalidBindingRemoved",
            Self::InvalidBindingRepaired => "InvalidBindingRepaired",
            Self::Acquire => "Acquire",
            Self::Renew => "Renew",
            Self::Commit => "Commit",
            Self::Replay => "Replay",
            Self::Release => "Release",
        }
    }
}

/// What the fence says of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be stored.
    Allow(Allowed),
    /// It may not.
    Deny(Denial),
    /// It depends on who a scaler is now.
    Ask(Question),
}

/// Judges a CREATE (no `old`) or an UPDATE. Total: every input has a verdict. A DELETE is always allowed.
pub fn judge(actor: Actor, old: Option<&TargetState<'_>>, new: &TargetState<'_>) -> Verdict {
    judge_with(Rules::ALL, actor, old, new)
}

/// [`judge`] with some rules only.
pub fn judge_with(
    rules: Rules,
    actor: Actor,
    old: Option<&TargetState<'_>>,
    new: &TargetState<'_>,
) -> Verdict {
    let Some(old) = old else {
        return user::create(rules, new);
    };
    // Most writes edit neither; both tables allow them, also under deletion, so that nothing need be parsed.
    if old.binding == new.binding && old.decision == new.decision && old.same_vector(new) {
        return Verdict::Allow(Allowed::Untouched);
    }
    match actor {
        Actor::User => user::update(rules, old, new),
        Actor::Operator => operator::update(rules, old, new),
    }
}
