//! What this program itself may write: exactly one of six shapes.

use super::{
    Allowed, Binding, Decision, Question, Reason, Rule, Rules, TargetState, Verdict,
    denial::{Faults, short, shown},
    fact::About,
};
use crate::api::{BINDING_ANNOTATION, DECISION_ANNOTATION, Replicas};

/// An UPDATE that changes the vector or an annotation.
pub(super) fn update(rules: Rules, old: &TargetState<'_>, new: &TargetState<'_>) -> Verdict {
    let write = Write {
        rules,
        old,
        new,
        counts: !old.same_vector(new),
        decision: old.decision != new.decision,
    };
    let mut faults = Faults::default();
    let outcome = match (old.binding, new.binding) {
        (before, after) if before == after => write.commit(&mut faults),
        (None, Some(after)) => write.acquire(&mut faults, after),
        (Some(before), after) => match (Binding::parse(before), after) {
            (Ok(owner), None) => Some(write.release(&mut faults, &owner)),
            (Ok(owner), Some(after)) => write.renew(&mut faults, before, &owner, after),
            (Err(_), after) => write.overwrite(&mut faults, after),
        },
        (None, None) => None,
    };
    match (
        faults.into_denial("read the target again and plan again"),
        outcome,
    ) {
        (Some(denial), _) => Verdict::Deny(denial),
        (None, Some(verdict)) => verdict,
        (None, None) => Verdict::Allow(Allowed::Untouched),
    }
}

struct Write<'a> {
    rules: Rules,
    old: &'a TargetState<'a>,
    new: &'a TargetState<'a>,
    counts: bool,
    decision: bool,
}

impl Write<'_> {
    /// Shapes `Commit` and `Replay`: the binding stays.
    fn commit(&self, faults: &mut Faults) -> Option<Verdict> {
        let binding = self.old.binding.and_then(|text| Binding::parse(text).ok());
        if binding.is_none() && self.rules.has(Rule::CommitBound) {
            faults.add(
                Reason::CommitWithoutBinding,
                format!("counts or {DECISION_ANNOTATION} would change, and no scaler is bound"),
            );
            return None;
        }
        if !self.decision || self.new.decision.is_none() {
            if self.rules.has(Rule::CommitDecision) {
                let fault = if self.decision {
                    format!("{DECISION_ANNOTATION} of a bound target would go")
                } else {
                    self.moved()
                };
                faults.add(Reason::ReplicasWithoutDecision, fault);
            }
            return Some(Verdict::Allow(Allowed::Commit));
        }
        let decision = match Decision::parse(self.new.decision.unwrap_or_default()) {
            Ok(decision) => decision,
            Err(error) => {
                if self.rules.has(Rule::Payload) {
                    faults.add(
                        Reason::InvalidPayload,
                        format!(
                            "annotation {DECISION_ANNOTATION} does not parse ({})",
                            short(&error)
                        ),
                    );
                }
                return Some(Verdict::Allow(Allowed::Commit));
            }
        };
        let before = self
            .old
            .decision
            .and_then(|text| Decision::parse(text).ok());
        if !self.counts && before.as_ref() == Some(&decision) {
            return Some(Verdict::Allow(Allowed::Replay));
        }
        if self.rules.has(Rule::CommitPrefix) && !decision.is_prefixed() {
            faults.add(
                Reason::InvalidPayload,
                format!(
                    "decisionID {} does not start with its term, {}-",
                    shown(&decision.id),
                    decision.term
                ),
            );
        }
        if let Some(binding) = binding.filter(|binding| binding.term != decision.term)
            && self.rules.has(Rule::CommitTerm)
        {
            faults.add(
                Reason::TermMismatch,
                format!(
                    "the decision's term is {}, that of the binding of scaler {} is {}",
                    decision.term,
                    shown(&binding.scaler_name),
                    binding.term
                ),
            );
        }
        if self.rules.has(Rule::CommitRoles) && !self.old.same_roles(self.new) {
            faults.add(
                Reason::RolesChanged,
                format!("a commit changes no role set: {}", self.moved()),
            );
        }
        if self.rules.has(Rule::CommitVector) {
            self.vector(faults, &decision);
        }
        if self.rules.has(Rule::CommitFresh)
            && before.is_some_and(|before| before.id == decision.id)
        {
            faults.add(
                Reason::DecisionReused,
                format!("decisionID {} was used before", shown(&decision.id)),
            );
        }
        Some(Verdict::Allow(Allowed::Commit))
    }

    /// The decision's vector is the new counts, role for role.
    fn vector(&self, faults: &mut Faults, decision: &Decision<'_>) {
        for role in &self.new.roles {
            let stated = decision.vector.get(&*role.name).copied().map(i64::from);
            if stated != Some(role.count) || self.new.count(&role.name).is_none() {
                let stated = stated.map_or_else(|| "nothing".to_owned(), |count| count.to_string());
                faults.add(
                    Reason::VectorMismatch,
                    format!(
                        "role {}: replicas {}, the decision says {stated}",
                        shown(&role.name),
                        role.count
                    ),
                );
            }
        }
        let absent = |name: &&String| !self.new.roles.iter().any(|role| role.name == name.as_str());
        for name in decision.vector.keys().filter(absent) {
            let count = decision.vector.get(name).copied().unwrap_or(Replicas::MIN);
            faults.add(
                Reason::VectorMismatch,
                format!(
                    "role {}: the decision says {count}, and there is no such role",
                    shown(name)
                ),
            );
        }
    }

    /// Shape `Acquire`: no binding before.
    fn acquire(&self, faults: &mut Faults, after: &str) -> Option<Verdict> {
        let binding = self.parsed(faults, after)?;
        let before = self
            .old
            .decision
            .and_then(|text| Decision::parse(text).ok());
        if let Some(decision) = before.filter(|decision| binding.term <= decision.term)
            && self.rules.has(Rule::AcquireRises)
        {
            faults.add(
                Reason::TermBackwards,
                format!(
                    "the binding's term {} is not above the decision's, {}",
                    binding.term, decision.term
                ),
            );
        }
        self.keeps(
            faults,
            Reason::CommitWithoutBinding,
            Rule::TakeKeepsCounts,
            Rule::TakeKeepsDecision,
        );
        Some(self.ask(&binding, About::Acquire(binding.term)))
    }

    /// Shape `Renew`: bound before and after.
    fn renew(
        &self,
        faults: &mut Faults,
        before: &str,
        owner: &Binding<'_>,
        after: &str,
    ) -> Option<Verdict> {
        let binding = self.parsed(faults, after)?;
        let same =
            (&binding.scaler_name, &binding.scaler_uid) == (&owner.scaler_name, &owner.scaler_uid);
        if !same && self.rules.has(Rule::RenewOwner) {
            faults.add(
                Reason::BindingStolen,
                format!(
                    "scaler {} ({}) owns the target, not {} ({})",
                    shown(&owner.scaler_name),
                    shown(&owner.scaler_uid),
                    shown(&binding.scaler_name),
                    shown(&binding.scaler_uid)
                ),
            );
        } else if same && binding.term <= owner.term && self.rules.has(Rule::RenewRises) {
            faults.add(
                Reason::TermBackwards,
                format!(
                    "the binding's term {} is not above {}",
                    binding.term, owner.term
                ),
            );
        } else if same
            && self.rules.has(Rule::RenewBytes)
            && Binding::with_term(before, binding.term).ok().as_deref() != Some(after)
        {
            faults.add(
                Reason::InvalidPayload,
                format!("a renewal of {BINDING_ANNOTATION} rewrites nothing but its term"),
            );
        }
        self.keeps(
            faults,
            Reason::TermMismatch,
            Rule::TakeKeepsCounts,
            Rule::TakeKeepsDecision,
        );
        Some(self.ask(&binding, About::Renew(binding.term)))
    }

    /// Shape `Release`: no binding after.
    fn release(&self, faults: &mut Faults, owner: &Binding<'_>) -> Verdict {
        self.keeps(
            faults,
            Reason::CommitWithoutBinding,
            Rule::ReleaseKeepsCounts,
            Rule::ReleaseKeepsDecision,
        );
        if self.old.deleting || self.new.deleting {
            return Verdict::Allow(Allowed::Release);
        }
        self.ask(owner, About::Release)
    }

    /// No shape: a binding that does not parse is a person's to mend.
    fn overwrite(&self, faults: &mut Faults, after: Option<&str>) -> Option<Verdict> {
        if self.rules.has(Rule::InvalidStays) {
            faults.add(
                Reason::InvalidPayload,
                format!("annotation {BINDING_ANNOTATION} does not parse, so its owner is unknown; a user has to fix or remove it"),
            );
            return None;
        }
        let binding = Binding::parse(after?).ok()?;
        Some(self.ask(&binding, About::Acquire(binding.term)))
    }

    fn parsed<'a>(&self, faults: &mut Faults, text: &'a str) -> Option<Binding<'a>> {
        match Binding::parse(text) {
            Ok(binding) => Some(binding),
            Err(error) => {
                if self.rules.has(Rule::Payload) {
                    faults.add(
                        Reason::InvalidPayload,
                        format!(
                            "annotation {BINDING_ANNOTATION} would not parse ({})",
                            short(&error)
                        ),
                    );
                }
                None
            }
        }
    }

    /// Counts and decision stay as they are.
    fn keeps(&self, faults: &mut Faults, reason: Reason, counts: Rule, decision: Rule) {
        if self.counts && self.rules.has(counts) {
            faults.add(Reason::ReplicasWithoutDecision, self.moved());
        }
        if self.decision && self.rules.has(decision) {
            faults.add(
                reason,
                format!("{DECISION_ANNOTATION} would change together with {BINDING_ANNOTATION}"),
            );
        }
    }

    fn ask(&self, binding: &Binding<'_>, about: About) -> Verdict {
        Verdict::Ask(Question::new(
            self.rules,
            &binding.scaler_name,
            &binding.scaler_uid,
            self.old,
            about,
        ))
    }

    /// Every role that differs, with both counts.
    fn moved(&self) -> String {
        let shows =
            |count: Option<i64>| count.map_or_else(|| "none".to_owned(), |count| count.to_string());
        let mut parts = Vec::new();
        for role in &self.old.roles {
            let after = self.new.count(&role.name);
            if after != Some(role.count) {
                parts.push(format!(
                    "role {}: replicas {} to {}",
                    shown(&role.name),
                    role.count,
                    shows(after)
                ));
            }
        }
        for role in &self.new.roles {
            if self.old.count(&role.name).is_none() {
                parts.push(format!(
                    "role {}: replicas none to {}",
                    shown(&role.name),
                    role.count
                ));
            }
        }
        parts.join(", ")
    }
}
