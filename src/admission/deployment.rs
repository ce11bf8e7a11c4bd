//! Writes to a deployment: the fence.

use std::borrow::Cow;

use serde::Deserialize;

use super::answer::{Denial, Subject, allow, deny};
use super::object::ScalerView;
use super::review::{Operation, Posted, Review, View as _};
use super::scan::Scan;
use super::status::binding;
use super::target::DeploymentView;
use super::{Answer, Decision, Fact, Facts, Operator, Pending, Question, Then};
use crate::api::{BINDING_ANNOTATION, DECISION_ANNOTATION, DEPLOYMENT_KIND, Term};
use crate::fence::{
    self, Actor, Reason, RoleCount, ScalerFacts, StatusBinding, TargetState, Verdict,
};

/// What is left to do once the scaler is known.
#[derive(Debug)]
pub(crate) struct Waiting(fence::Question);

/// Judges a write to a deployment, or asks who the scaler is that it is about.
pub(crate) fn validate<'a>(
    posted: Posted<'a, DeploymentView<'a>>,
    operator: &Operator,
) -> Decision<'a> {
    let Posted { review, new, old } = posted;
    let verdict = {
        let (namespace, name) = (review.namespace.as_ref(), review.name.as_ref());
        let (old, new) = match (review.operation, &new, &old) {
            (Operation::Create, Some(new), _) => (None, new),
            (Operation::Update, Some(new), Some(old)) => (Some(state(namespace, name, old)), new),
            // Any other operation has no rule.
            _ => return Decision::Answer(allow(&review.uid, &[])),
        };
        let actor = if review.is_by(operator) {
            Actor::Operator
        } else {
            Actor::User
        };
        fence::judge(actor, old.as_ref(), &state(namespace, name, new))
    };
    match verdict {
        Verdict::Allow(_) => Decision::Answer(allow(&review.uid, &[])),
        Verdict::Deny(denial) => Decision::Answer(refused(&review, denial)),
        Verdict::Ask(question) => {
            let asked = Question::Scaler {
                namespace: question.namespace().to_owned(),
                name: question.scaler().to_owned(),
            };
            Pending::ask(review, vec![asked], Then::Deployment(Waiting(question)))
        }
    }
}

impl Waiting {
    /// The verdict, with the scaler as it is now.
    pub(crate) fn answer(self, review: &Review<'_>, facts: &Facts) -> Answer {
        let outcome = match facts.0.first() {
            Some(Fact::Object(Ok(None))) => self.0.answer(None),
            Some(Fact::Object(Ok(Some(body)))) => match Facet::read(body) {
                Some(facet) => self.0.answer(Some(&facet.facts())),
                None => Err(self.0.unreadable("its object cannot be read")),
            },
            Some(Fact::Object(Err(why))) => Err(self.0.unreadable(why)),
            _ => Err(self.0.unreadable("no answer")),
        };
        match outcome {
            Ok(_) => allow(&review.uid, &[]),
            Err(denial) => refused(review, denial),
        }
    }
}

fn state<'a>(namespace: &'a str, name: &'a str, view: &'a DeploymentView<'_>) -> TargetState<'a> {
    TargetState {
        namespace,
        name,
        uid: &view.uid,
        deleting: view.deleting,
        // An omitted count is one: the definition's default.
        roles: view
            .roles
            .iter()
            .map(|role| RoleCount {
                name: Cow::Borrowed(role.name.as_ref()),
                count: role.replicas.unwrap_or(1),
            })
            .collect(),
        binding: view.binding.as_deref(),
        decision: view.decision.as_deref(),
    }
}

fn refused(review: &Review<'_>, denial: fence::Denial) -> Answer {
    let denial = Denial {
        code: denial.reason.code(),
        reason: denial.reason.as_str(),
        message: denial.message,
        field: field(denial.reason),
    };
    deny(
        &review.uid,
        Subject::of(review, DEPLOYMENT_KIND),
        &denial,
        &[],
    )
}

/// The field that a reason is about.
fn field(reason: Reason) -> String {
    let annotation = match reason {
        Reason::ReplicasOwned | Reason::RolesChanged | Reason::ReplicasWithoutDecision => {
            return "spec.roles".to_owned();
        }
        Reason::DecisionOwned
        | Reason::VectorMismatch
        | Reason::DecisionReused
        | Reason::CommitWithoutBinding => DECISION_ANNOTATION,
        _ => BINDING_ANNOTATION,
    };
    format!("metadata.annotations[{annotation}]")
}

/// A scaler as the fence asks about it.
struct Facet<'a> {
    view: ScalerView<'a>,
    spec: SpecView<'a>,
    binding: Option<(String, Option<Term>)>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecView<'a> {
    #[serde(borrow)]
    mode: Option<Cow<'a, str>>,
    suspend: Option<bool>,
    #[serde(borrow)]
    target_ref: Option<TargetView<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TargetView<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

impl<'a> Facet<'a> {
    fn read(body: &'a [u8]) -> Option<Self> {
        let mut scan = Scan::of_bytes(body).ok()?;
        let view = ScalerView::read(&mut scan).ok()?;
        scan.end().ok()?;
        let spec = if view.spec.is_empty() {
            SpecView::default()
        } else {
            serde_json::from_str(view.spec).ok()?
        };
        let binding = binding(view.status)
            .and_then(|binding| Some((binding.uid?, binding.term.and_then(Term::new))));
        Some(Self {
            view,
            spec,
            binding,
        })
    }

    fn facts(&self) -> ScalerFacts<'_> {
        ScalerFacts {
            uid: &self.view.uid,
            active: self.spec.mode.as_deref() == Some("Active"),
            suspended: self.spec.suspend == Some(true),
            deleting: self.view.deleting,
            finalizer: self.view.finalizer,
            target_name: self
                .spec
                .target_ref
                .as_ref()
                .and_then(|target| target.name.as_deref())
                .unwrap_or_default(),
            binding: self.binding.as_ref().map(|(uid, term)| StatusBinding {
                target_uid: uid,
                term: *term,
            }),
        }
    }
}
