//! The seam to `admission`, and the one to the cluster.
//!
//! The server knows how to receive, bound, time and answer a review. What the answer is, a [`Decide`] says; what it must
//! know first, a [`Lookup`] finds. In the program these are `admission` and the cluster; tests put slow and panicking ones here.

use crate::admission::{Answer, Fact, Facts, Question, Webhook};
use std::future::Future;

/// Judges reviews. No I/O: what has to be read is asked for.
pub trait Decide: Send + Sync + 'static {
    /// Decides the review in `body`, or says what it must know first.
    ///
    /// A panic is caught and becomes a refusal.
    fn decide<'a>(&'a self, webhook: Webhook, body: &'a [u8]) -> Step<'a>;
}

/// How far a decision got.
pub enum Step<'a> {
    /// It is made.
    Answer(Answer),
    /// It waits for facts.
    Ask(Box<dyn Asked<'a> + Send + 'a>),
}

/// A decision that waits for facts.
pub trait Asked<'a> {
    /// What must be known, a few at most.
    fn questions(&self) -> &[Question];

    /// Goes on with one fact a question, in order.
    fn answer(self: Box<Self>, facts: &Facts) -> Step<'a>;
}

/// Finds facts in the cluster.
pub trait Lookup: Send + Sync + 'static {
    /// Finds one fact. Live reads have a deadline of their own and never fail otherwise than inside the [`Fact`].
    fn find(&self, question: &Question) -> impl Future<Output = Fact> + Send;
}
