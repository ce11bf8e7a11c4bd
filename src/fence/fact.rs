//! The one fact that a verdict may rest on from outside: who a scaler is now.

use super::{
    Allowed, Denial, Reason, Rule, Rules, TargetState,
    denial::{short, shown},
};
use crate::api::Term;

/// A scaler as it is now, read live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts, each a field of the object"
)]
pub struct ScalerFacts<'a> {
    /// Its UID.
    pub uid: &'a str,
    /// Whether its mode is `Active`.
    pub active: bool,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Whether it is under deletion.
    pub deleting: bool,
    /// Whether it carries the release finalizer.
    pub finalizer: bool,
    /// Name of its target.
    pub target_name: &'a str,
    /// Its `status.binding`, where it has one.
    pub binding: Option<StatusBinding<'a>>,
}

/// The parts of `status.binding` that the fence reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusBinding<'a> {
    /// UID of the target that it is about.
    pub target_uid: &'a str,
    /// The last term taken.
    pub term: Option<Term>,
}

/// What a verdict depends on: "who is this scaler now?"
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    scaler: String,
    uid: String,
    namespace: String,
    target_name: String,
    target_uid: String,
    about: About,
    rules: Rules,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// May a user remove its binding? If not, this is why.
    Orphan(Denial),
    /// May a user put its binding in the place of one that did not parse? The old decision's term is the second.
    Repair(Term, Option<Term>),
    Acquire(Term),
    Renew(Term),
    Release,
}

impl Question {
    pub(super) fn new(
        rules: Rules,
        scaler: &str,
        uid: &str,
        target: &TargetState<'_>,
        about: About,
    ) -> Self {
        Self {
            scaler: scaler.to_owned(),
            uid: uid.to_owned(),
            namespace: target.namespace.to_owned(),
            target_name: target.name.to_owned(),
            target_uid: target.uid.to_owned(),
            about,
            rules,
        }
    }

    /// Name of the scaler to read.
    pub fn scaler(&self) -> &str {
        &self.scaler
    }

    /// Namespace of scaler and target.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The verdict, with the scaler as read live; `None` where there is none of that name.
    pub fn answer(&self, scaler: Option<&ScalerFacts<'_>>) -> Result<Allowed, Denial> {
        let named = scaler.filter(|scaler| scaler.uid == self.uid);
        match &self.about {
            About::Orphan(denial) => match named {
                Some(_) if self.rules.has(Rule::UserOrphan) => Err(denial.clone()),
                _ => Ok(Allowed::OrphanRecovery),
            },
            About::Repair(term, floor) => {
                if self.rules.has(Rule::RepairEntitled) {
                    self.entitled(Reason::AnnotationInstall, scaler)?;
                }
                let status = named.and_then(|scaler| self.term(scaler));
                let next = status.max(*floor).map_or(Some(Term::FIRST), Term::next);
                if self.rules.has(Rule::RepairTerm) && next != Some(*term) {
                    return Err(self.wrong_term(Reason::AnnotationInstall, *term, next));
                }
                Ok(Allowed::InvalidBindingRepaired)
            }
            About::Acquire(term) => {
                if self.rules.has(Rule::AcquireEntitled) {
                    self.entitled(Reason::ScalerNotEntitled, scaler)?;
                }
                let status = named.and_then(|scaler| self.term(scaler));
                if self.rules.has(Rule::AcquireTerm) && status != Some(*term) {
                    return Err(self.wrong_term(Reason::TermMismatch, *term, status));
                }
                Ok(Allowed::Acquire)
            }
            About::Renew(term) => {
                if self.rules.has(Rule::RenewTerm) {
                    let Some(named) = named else {
                        return Err(self.denial(
                            Reason::ScalerNotEntitled,
                            "it does not exist with that UID",
                        ));
                    };
                    let status = self.term(named);
                    if status != Some(*term) {
                        return Err(self.wrong_term(Reason::TermMismatch, *term, status));
                    }
                }
                Ok(Allowed::Renew)
            }
            About::Release => match named {
                Some(scaler)
                    if self.rules.has(Rule::ReleaseEntitled)
                        && scaler.active
                        && !scaler.suspended
                        && !scaler.deleting =>
                {
                    Err(self.denial(
                        Reason::ReleaseRefused,
                        "it is Active and holds the binding: suspend it, set mode: Shadow, or delete it first",
                    ))
                }
                _ => Ok(Allowed::Release),
            },
        }
    }

    /// The refusal where the scaler could not be read; `why` is a sentence for people.
    pub fn unreadable(&self, why: &str) -> Denial {
        Denial {
            reason: Reason::ScalerUnreadable,
            message: format!(
                "could not read ModelDeploymentScaler {}/{}: {}; try again",
                self.namespace,
                self.scaler,
                short(&why)
            ),
        }
    }

    /// The term in the scaler's status, if that is about this target.
    fn term(&self, scaler: &ScalerFacts<'_>) -> Option<Term> {
        scaler
            .binding
            .filter(|binding| binding.target_uid == self.target_uid)
            .and_then(|binding| binding.term)
    }

    /// Whether the scaler may own the target.
    fn entitled(&self, reason: Reason, scaler: Option<&ScalerFacts<'_>>) -> Result<(), Denial> {
        let fault = match scaler {
            None => "it does not exist in this namespace: create it first".to_owned(),
            Some(s) if s.uid != self.uid => {
                format!("its UID is {}, not {}", shown(s.uid), shown(&self.uid))
            }
            Some(s) if s.deleting => "it is under deletion".to_owned(),
            Some(s) if !s.active => "it is not Active: set mode: Active".to_owned(),
            Some(s) if s.suspended => "it is suspended: set suspend: false".to_owned(),
            Some(s) if !s.finalizer => "it lacks the release finalizer".to_owned(),
            Some(s) if s.target_name != self.target_name => {
                format!(
                    "it targets {}, not {}",
                    shown(s.target_name),
                    shown(&self.target_name)
                )
            }
            Some(_) => return Ok(()),
        };
        Err(self.denial(reason, &fault))
    }

    fn wrong_term(&self, reason: Reason, term: Term, right: Option<Term>) -> Denial {
        let right = right.map_or_else(
            || "it has none for this target".to_owned(),
            |right| format!("the right one is {right}"),
        );
        self.denial(reason, &format!("term {term} is not its term: {right}"))
    }

    fn denial(&self, reason: Reason, fault: &str) -> Denial {
        Denial {
            reason,
            message: format!(
                "the binding names ModelDeploymentScaler {}: {fault}",
                shown(&self.scaler)
            ),
        }
    }
}
