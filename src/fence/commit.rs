//! The reconciler's patches, and the next term.
//!
//! Each patch tests what it was planned on and carries the resource version that was read. What it makes of the object,
//! [`judge`](super::judge()) sees before it is sent.

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::PointerBuf,
};
use serde_json::{Value, json};

use super::{Binding, Decision, DecisionId, PayloadError, RoleCount, TargetState};
use crate::api::{
    BINDING_ANNOTATION, DECISION_ANNOTATION, Deployment, Replicas, ScalerStatus, Term, Vector,
    status::BindingStatus,
};

/// Why no patch can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no binding to commit under, to renew or to release.
    #[error("the target has no binding")]
    Unbound,
    /// The vector does not name exactly the target's roles.
    #[error("the vector's roles are not the target's: {0:?}")]
    Roles(String),
    /// The stored binding does not parse.
    #[error("the binding does not parse: {0}")]
    Payload(#[from] PayloadError),
    /// The status cannot be written as JSON.
    #[error("the status cannot be written: {0}")]
    Status(#[from] serde_json::Error),
}

/// One above the highest of the status term for this target UID, the binding's and the decision's; 1 where there is
/// none, `None` after the last.
pub fn next_term(
    status: Option<Term>,
    binding: Option<Term>,
    decision: Option<Term>,
) -> Option<Term> {
    status
        .max(binding)
        .max(decision)
        .map_or(Some(Term::FIRST), Term::next)
}

/// A deployment as the fence sees it.
pub fn state_of(target: &Deployment) -> TargetState<'_> {
    let meta = &target.metadata;
    let annotation = |key: &str| meta.annotations.as_ref()?.get(key).map(String::as_str);
    TargetState {
        namespace: &meta.namespace,
        name: &meta.name,
        uid: &meta.uid,
        deleting: meta.deletion_timestamp.is_some(),
        roles: target
            .spec
            .roles
            .iter()
            .map(|role| RoleCount {
                name: (&*role.name).into(),
                count: role.count().into(),
            })
            .collect(),
        binding: annotation(BINDING_ANNOTATION),
        decision: annotation(DECISION_ANNOTATION),
    }
}

/// Counts and their decision, in one write: step 2 of "Nothing lost".
pub fn commit(
    target: &Deployment,
    id: &DecisionId,
    term: Term,
    vector: &Vector,
) -> Result<Patch, BuildError> {
    let binding = state_of(target).binding.ok_or(BuildError::Unbound)?;
    if vector.len() != target.spec.roles.len() {
        return Err(BuildError::Roles(format!(
            "{} of {}",
            vector.len(),
            target.spec.roles.len()
        )));
    }
    let mut patch = vec![
        test(&["metadata", "uid"], target.metadata.uid.as_str().into()),
        test(
            &["metadata", "annotations", BINDING_ANNOTATION],
            binding.into(),
        ),
    ];
    let mut counts = Vec::new();
    for (at, role) in target.spec.roles.iter().enumerate() {
        let at = at.to_string();
        let count = *vector
            .get(&role.name)
            .ok_or_else(|| BuildError::Roles(role.name.clone()))?;
        let place = ["spec", "roles", at.as_str(), "replicas"];
        patch.push(test(
            &["spec", "roles", at.as_str(), "name"],
            role.name.as_str().into(),
        ));
        match role.replicas {
            Some(old) => {
                patch.push(test(&place, number(old)));
                if old != count {
                    counts.push(replace(&place, number(count)));
                }
            }
            // No test of an absent path: it would fail. The resource version stands for it.
            None if count != Replicas::MIN => counts.push(add(&place, number(count))),
            None => {}
        }
    }
    patch.append(&mut counts);
    let decision = Decision {
        id: id.as_str().into(),
        term,
        vector: vector.clone(),
    };
    annotate(target, &mut patch, DECISION_ANNOTATION, &decision.to_text());
    patch.push(version(target));
    Ok(Patch(patch))
}

/// Takes an unclaimed target for a scaler.
pub fn acquire(target: &Deployment, scaler_name: &str, scaler_uid: &str, term: Term) -> Patch {
    let binding = Binding {
        scaler_name: scaler_name.into(),
        scaler_uid: scaler_uid.into(),
        term,
    };
    let mut patch = vec![test(
        &["metadata", "uid"],
        target.metadata.uid.as_str().into(),
    )];
    annotate(target, &mut patch, BINDING_ANNOTATION, &binding.to_text());
    patch.push(version(target));
    Patch(patch)
}

/// Raises the term of the stored binding and leaves its other bytes alone.
pub fn renew(target: &Deployment, term: Term) -> Result<Patch, BuildError> {
    let binding = state_of(target).binding.ok_or(BuildError::Unbound)?;
    let path = ["metadata", "annotations", BINDING_ANNOTATION];
    Ok(Patch(vec![
        test(&["metadata", "uid"], target.metadata.uid.as_str().into()),
        test(&path, binding.into()),
        replace(&path, Binding::with_term(binding, term)?.into()),
        version(target),
    ]))
}

/// Gives the target up.
pub fn release(target: &Deployment) -> Result<Patch, BuildError> {
    let binding = state_of(target).binding.ok_or(BuildError::Unbound)?;
    let path = ["metadata", "annotations", BINDING_ANNOTATION];
    Ok(Patch(vec![
        test(&["metadata", "uid"], target.metadata.uid.as_str().into()),
        test(&path, binding.into()),
        PatchOperation::Remove(RemoveOperation {
            path: pointer(&path),
        }),
        version(target),
    ]))
}

/// A scaler as it was read, for writes to its status.
#[derive(Clone, Copy, Debug)]
pub struct ScalerRead<'a> {
    /// UID.
    pub uid: &'a str,
    /// Resource version.
    pub resource_version: &'a str,
    /// Status, where there is one.
    pub status: Option<&'a ScalerStatus>,
}

/// Takes a term in the scaler's status, under its resource version: no term is given out twice.
pub fn take_term(
    scaler: ScalerRead<'_>,
    target_uid: &str,
    target_name: &str,
    term: Term,
) -> Result<Patch, BuildError> {
    let kept = scaler
        .status
        .and_then(|status| status.binding.clone())
        .filter(|binding| binding.target_uid.as_deref() == Some(target_uid));
    let mut binding: BindingStatus = match kept {
        Some(binding) => binding,
        None => serde_json::from_value(json!({}))?,
    };
    binding.target_uid = Some(target_uid.to_owned());
    binding.target_name = Some(target_name.to_owned());
    binding.term = Some(term);
    let binding = serde_json::to_value(binding)?;
    let written = match scaler.status {
        None => add(&["status"], json!({"binding": binding})),
        Some(_) => add(&["status", "binding"], binding),
    };
    Ok(Patch(vec![
        test(&["metadata", "uid"], scaler.uid.into()),
        replace(
            &["metadata", "resourceVersion"],
            scaler.resource_version.into(),
        ),
        written,
    ]))
}

/// Who writes a status.
#[derive(Clone, Copy, Debug)]
pub enum Holder<'a> {
    /// The process that took this term for this target UID.
    Term(&'a str, Term),
    /// A process that holds no term: for a Shadow scaler, or a release.
    Nobody,
}

/// Replaces the status. A failed test means that another process took over.
pub fn write_status(
    scaler: ScalerRead<'_>,
    holder: Holder<'_>,
    status: &ScalerStatus,
) -> Result<Patch, BuildError> {
    let mut patch = vec![test(&["metadata", "uid"], scaler.uid.into())];
    match holder {
        Holder::Term(target_uid, term) => {
            patch.push(test(&["status", "binding", "targetUID"], target_uid.into()));
            patch.push(test(&["status", "binding", "term"], term.get().into()));
        }
        Holder::Nobody => {
            let read = scaler
                .status
                .and_then(|status| status.binding.as_ref()?.term);
            patch.extend(read.map(|term| test(&["status", "binding", "term"], term.get().into())));
            patch.push(replace(
                &["metadata", "resourceVersion"],
                scaler.resource_version.into(),
            ));
        }
    }
    patch.push(add(&["status"], serde_json::to_value(status)?));
    Ok(Patch(patch))
}

/// Sets an annotation; the map first, where there is none.
fn annotate(target: &Deployment, patch: &mut Vec<PatchOperation>, key: &str, text: &str) {
    if target.metadata.annotations.is_none() {
        patch.push(add(&["metadata", "annotations"], json!({})));
    }
    patch.push(add(&["metadata", "annotations", key], text.into()));
}

/// Makes a stale read a conflict.
fn version(target: &Deployment) -> PatchOperation {
    replace(
        &["metadata", "resourceVersion"],
        target.metadata.resource_version.as_str().into(),
    )
}

fn number(count: Replicas) -> Value {
    i64::from(count).into()
}

fn pointer(path: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(path.iter().copied())
}

fn test(path: &[&str], value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: pointer(path),
        value,
    })
}

fn add(path: &[&str], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: pointer(path),
        value,
    })
}

fn replace(path: &[&str], value: Value) -> PatchOperation {
    PatchOperation::Replace(ReplaceOperation {
        path: pointer(path),
        value,
    })
}
