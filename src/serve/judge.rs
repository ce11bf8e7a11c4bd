//! `admission` behind the server's seam, once this program knows who it is.

use super::decide::{Asked, Decide, Step};
use super::identity::Identity;
use crate::admission::{Decision, Facts, Pending, Question, Webhook, decide, refuse, uid_of};

/// Decides by `admission`. Until the identity is known every review is refused: a guess would open the fence.
#[derive(Clone, Debug)]
pub struct Judge(Identity);

impl Judge {
    /// For the program with this identity.
    pub fn new(identity: Identity) -> Self {
        Self(identity)
    }
}

impl Decide for Judge {
    fn decide<'a>(&'a self, webhook: Webhook, body: &'a [u8]) -> Step<'a> {
        match self.0.get() {
            Some(operator) => step(decide(webhook, operator, body)),
            None => Step::Answer(refuse(
                &uid_of(body).unwrap_or_default(),
                503,
                "NotReady",
                "mds does not know its own account yet; try again",
                Some(1),
            )),
        }
    }
}

impl<'a> Asked<'a> for Pending<'a> {
    fn questions(&self) -> &[Question] {
        Pending::questions(self)
    }

    fn answer(self: Box<Self>, facts: &Facts) -> Step<'a> {
        step(Pending::answer(*self, facts))
    }
}

fn step(decision: Decision<'_>) -> Step<'_> {
    match decision {
        Decision::Answer(answer) => Step::Answer(answer),
        Decision::Ask(pending) => Step::Ask(pending),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_decided_by_a_program_that_does_not_know_itself() {
        let judge = Judge::new(Identity::default());
        let review = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}"#;
        for webhook in Webhook::ALL {
            let Step::Answer(answer) = judge.decide(webhook, review) else {
                panic!("it asks");
            };
            let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(answer["response"]["uid"], "u");
            assert_eq!(answer["response"]["allowed"], false);
            assert_eq!(answer["response"]["status"]["code"], 503);
            assert_eq!(answer["response"]["status"]["reason"], "NotReady");
        }
    }
}
