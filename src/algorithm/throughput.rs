//! TokenThroughput: demand over capacity, averaged over two windows, with a panic mode.
//!
//! The windows and the panic mode are Knative's and `AIBrix`'s; demand and the latency guard are those of `HeteroScale`
//! (arXiv 2508.19559). Unlike Knative's, panic compares the raw rate with the capacity of the ready replicas, so that a
//! single replica does not panic above its own capacity.

use crate::{
    api::{Replicas, RoleKind, Time, quantity::Nanos},
    policy::TokenPolicy,
    signal::{Observation, Rate},
};

use super::{number::ceil_div, recommend::Sample, window::average};

/// The demand on a role of this kind, if it was read: prompts for Prefill, generation for Decode, both for Server.
pub(super) fn demand(kind: RoleKind, seen: &Observation) -> Option<Rate> {
    match kind {
        RoleKind::Prefill => seen.prompt_rate.value(),
        RoleKind::Decode => seen.generation_rate.value(),
        RoleKind::Server => Some(seen.prompt_rate.value()? + seen.generation_rate.value()?),
        RoleKind::Encode => None,
    }
}

/// What the windows say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Windows {
    /// Average demand over the stable window, in tokens per second.
    pub stable: f64,
    /// The count that both windows ask for.
    pub count: Replicas,
    /// Whether panic lasts.
    pub panic: bool,
    /// The last pass at which the panic condition held.
    pub last_panic: Option<Time>,
}

/// Judges the windows at `now`; `None` when nothing inside the stable window was observed.
///
/// Panic begins when the recent average reaches the threshold times the capacity of the ready replicas, inclusive, and
/// lasts until a whole stable window has passed since the last pass at which that held.
pub(super) fn judge(
    samples: &[Sample],
    capacity: Nanos,
    ready: u32,
    policy: &TokenPolicy,
    interval: u32,
    last_panic: Option<Time>,
    now: Time,
) -> Option<Windows> {
    let stable = average(samples, interval, policy.stable_window, now)?;
    let recent = average(samples, interval, policy.panic_window, now).unwrap_or(stable);
    let each = capacity.to_f64();
    let limit = policy.panic_threshold.to_f64() * f64::from(ready) * each;
    let last_panic = if recent >= limit {
        Some(now)
    } else {
        last_panic
    };
    let panic = last_panic.is_some_and(|at| now.since(at) < i64::from(policy.stable_window));
    let steady = ceil_div(stable, each);
    let count = if panic {
        steady.max(ceil_div(recent, each))
    } else {
        steady
    };
    Some(Windows {
        stable,
        count,
        panic,
        last_panic,
    })
}
