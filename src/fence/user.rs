//! What users may write: everybody but this program's own account.

use super::{
    Allowed, Binding, Decision, Question, Reason, Rule, Rules, TargetState, Verdict,
    denial::{Faults, short, shown},
    fact::About,
};
use crate::api::{BINDING_ANNOTATION, DECISION_ANNOTATION};

/// A CREATE, by anybody.
pub(super) fn create(rules: Rules, new: &TargetState<'_>) -> Verdict {
    let mut faults = Faults::default();
    for (value, annotation) in [
        (new.binding, BINDING_ANNOTATION),
        (new.decision, DECISION_ANNOTATION),
    ] {
        if value.is_some() && rules.has(Rule::CreateBare) {
            faults.add(
                Reason::AnnotationInstall,
                format!("a new deployment cannot carry {annotation}"),
            );
        }
    }
    faults
        .into_denial("remove it; a scaler binds the deployment once it exists")
        .map_or(Verdict::Allow(Allowed::Untouched), Verdict::Deny)
}

/// An UPDATE that changes the vector or an annotation.
pub(super) fn update(rules: Rules, old: &TargetState<'_>, new: &TargetState<'_>) -> Verdict {
    match old.binding.map(Binding::parse) {
        Some(Ok(owner)) => bound(rules, &owner, old, new),
        _ => unclaimed(rules, old, new),
    }
}

fn bound(
    rules: Rules,
    owner: &Binding<'_>,
    old: &TargetState<'_>,
    new: &TargetState<'_>,
) -> Verdict {
    let mut faults = Faults::default();
    // Row: a count of a role that existed changes, or such a role disappears.
    if rules.has(Rule::UserCounts) {
        for role in &old.roles {
            let fault = match new.count(&role.name) {
                Some(count) if count == role.count => continue,
                Some(count) => format!(
                    "role {}: replicas {} to {count}",
                    shown(&role.name),
                    role.count
                ),
                None => format!(
                    "role {}: it has {} replicas and would go",
                    shown(&role.name),
                    role.count
                ),
            };
            faults.add(Reason::ReplicasOwned, fault);
        }
    }
    // Row: the decision is added, changed or removed; removed together with the binding it waits for the answer.
    let removed = old.binding.is_some() && new.binding.is_none();
    let decision_removed = old.decision.is_some() && new.decision.is_none();
    let with_binding = removed && decision_removed;
    let touched = format!("annotation {DECISION_ANNOTATION} is the scaler's");
    if rules.has(Rule::UserDecision) && old.decision != new.decision && !with_binding {
        faults.add(Reason::DecisionOwned, touched.clone());
    }
    // Row: the binding is added, changed, or made unparsable.
    let taken = format!("annotation {BINDING_ANNOTATION} is the scaler's");
    if rules.has(Rule::UserBinding) && old.binding != new.binding && !removed {
        faults.add(Reason::BindingOwned, taken.clone());
    }
    // Invariant 5: a recovery changes no count, an added role's included.
    let added = new.roles.len() != old.roles.len()
        || new.roles.iter().any(|role| old.count(&role.name).is_none());
    if removed && added && rules.has(Rule::RecoveryKeeps) {
        faults.add(
            Reason::BindingOwned,
            format!("{taken}, and removing it must leave the roles as they are"),
        );
    }
    let advice = format!(
        "ModelDeploymentScaler {} owns the replica counts; to release them set its mode: Shadow or suspend: true, or delete it",
        shown(&owner.scaler_name)
    );
    if let Some(denial) = faults.into_denial(&advice) {
        return Verdict::Deny(denial);
    }
    if !removed {
        return Verdict::Allow(Allowed::RoleAdded);
    }
    // Rows: the binding is removed. Only of an orphan.
    let mut faults = Faults::default();
    if with_binding {
        faults.add(Reason::DecisionOwned, touched);
    }
    faults.add(Reason::BindingOwned, format!("{taken}, which exists"));
    match faults.into_denial(&advice) {
        Some(denial) => Verdict::Ask(Question::new(
            rules,
            &owner.scaler_name,
            &owner.scaler_uid,
            old,
            About::Orphan(denial),
        )),
        None => Verdict::Allow(Allowed::OrphanRecovery),
    }
}

fn unclaimed(rules: Rules, old: &TargetState<'_>, new: &TargetState<'_>) -> Verdict {
    let mut faults = Faults::default();
    // Row: the decision is added or changed.
    if rules.has(Rule::InstallDecision) && new.decision.is_some() && new.decision != old.decision {
        faults.add(
            Reason::AnnotationInstall,
            format!("annotation {DECISION_ANNOTATION} is written by mds alone"),
        );
    }
    let mut allowed = Allowed::Unclaimed;
    let mut ask = None;
    if new.binding != old.binding {
        match (old.binding, new.binding) {
            // Row: a binding that did not parse is removed.
            (_, None) => allowed = Allowed::InvalidBindingRemoved,
            // Row: the binding is added.
            (None, Some(_)) => {
                if rules.has(Rule::InstallBinding) {
                    faults.add(
                        Reason::AnnotationInstall,
                        format!("annotation {BINDING_ANNOTATION} is written by mds alone"),
                    );
                }
            }
            // Rows: a binding that did not parse is replaced.
            (Some(_), Some(text)) => match Binding::parse(text) {
                Ok(binding) => {
                    let kept = old.same_vector(new) && old.decision == new.decision;
                    if rules.has(Rule::RepairKeeps) && !kept {
                        faults.add(
                            Reason::AnnotationInstall,
                            format!("a repair of {BINDING_ANNOTATION} leaves counts and decision as they are"),
                        );
                    }
                    let floor = old.decision.and_then(|text| Decision::parse(text).ok());
                    ask = Some(Question::new(
                        rules,
                        &binding.scaler_name,
                        &binding.scaler_uid,
                        old,
                        About::Repair(binding.term, floor.map(|decision| decision.term)),
                    ));
                }
                Err(error) => faults.add(
                    Reason::AnnotationInstall,
                    format!(
                        "annotation {BINDING_ANNOTATION} still does not parse ({})",
                        short(&error)
                    ),
                ),
            },
        }
    }
    match (
        faults.into_denial(
            "remove it, and create a ModelDeploymentScaler that targets this deployment",
        ),
        ask,
    ) {
        (Some(denial), _) => Verdict::Deny(denial),
        (None, Some(question)) => Verdict::Ask(question),
        (None, None) => Verdict::Allow(allowed),
    }
}
