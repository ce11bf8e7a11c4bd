//! The rules by name, so that the model check can take out one at a time and see it missed.

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One rule of the fence.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

rules! {
    /// A CREATE carries neither annotation.
    CreateBare,
    /// A user does not change a bound count.
    UserCounts,
    /// A user does not touch the decision of a bound target.
    UserDecision,
    /// A user does not change or spoil a binding.
    UserBinding,
    /// A user removes a binding only when its scaler is gone.
    UserOrphan,
    /// A recovery changes no count.
    RecoveryKeeps,
    /// A user does not install a binding.
    InstallBinding,
    /// A user does not install or change a decision.
    InstallDecision,
    /// A repaired binding names a scaler that may own the target.
    RepairEntitled,
    /// A repaired binding's term is the next one.
    RepairTerm,
    /// A repair leaves counts and decision alone.
    RepairKeeps,
    /// The program does not overwrite a binding that does not parse.
    InvalidStays,
    /// What the program writes parses.
    Payload,
    /// An acquired binding names a scaler that may own the target.
    AcquireEntitled,
    /// An acquired term is above the decision's.
    AcquireRises,
    /// An acquired term is the one in the scaler's status.
    AcquireTerm,
    /// Acquire and Renew leave the counts alone.
    TakeKeepsCounts,
    /// Acquire and Renew leave the decision alone.
    TakeKeepsDecision,
    /// A binding passes to no other scaler.
    RenewOwner,
    /// A renewed term rises.
    RenewRises,
    /// A renewed term is the one in the scaler's status.
    RenewTerm,
    /// Renew rewrites nothing but the term.
    RenewBytes,
    /// A decision needs a binding.
    CommitBound,
    /// A decision has the binding's term.
    CommitTerm,
    /// A decision's vector is the counts.
    CommitVector,
    /// A commit leaves the role set alone.
    CommitRoles,
    /// A new decision has a new ID.
    CommitFresh,
    /// A new decision's ID starts with its term.
    CommitPrefix,
    /// Counts move only with a decision.
    CommitDecision,
    /// A binding is released only when its scaler may not hold it.
    ReleaseEntitled,
    /// A release leaves the counts alone.
    ReleaseKeepsCounts,
    /// A release leaves the decision alone.
    ReleaseKeepsDecision,
}

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules(Option<Rule>);

impl Rules {
    /// All of them.
    pub const ALL: Self = Self(None);

    /// All but one.
    pub const fn without(rule: Rule) -> Self {
        Self(Some(rule))
    }

    pub(super) fn has(self, rule: Rule) -> bool {
        self.0 != Some(rule)
    }
}
