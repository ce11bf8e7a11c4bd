//! How a recommendation is found, in plain words.

use super::{Page, listed, seconds};
use crate::api::RoleKind;
use crate::api::quantity::Nanos;
use crate::api::scaler::Metric;
use crate::policy::{
    AlgorithmPolicy, Policy, PredictivePolicy, ProportionalPolicy, TargetShape, TokenPolicy,
};

/// Nanos in a percent.
const PERCENT: i128 = 10_000_000;

/// The algorithm, what each role is held to, and who follows whom.
pub(super) fn describe(policy: &Policy, target: Option<&TargetShape>, page: &mut Page) {
    match &policy.algorithm {
        AlgorithmPolicy::Proportional(block) => proportional(policy, block, page),
        AlgorithmPolicy::TokenThroughput(block) => {
            page.part("Demand: TokenThroughput");
            tokens(block, page);
            encoders(policy, target, page);
        }
        AlgorithmPolicy::Predictive(block) => {
            page.part("Demand: Predictive");
            tokens(&block.token, page);
            forecast(policy, block, page);
            encoders(policy, target, page);
        }
    }
}

fn proportional(policy: &Policy, block: &ProportionalPolicy, page: &mut Page) {
    page.part("Demand: Proportional");
    let (what, unit) = metric(block.metric);
    page.item(&format!(
        "Each pass reads {what} of a role, and divides by what one ready replica should carry, rounded up."
    ));
    for (role, target) in policy.roles.iter().zip(&block.targets) {
        if let Some(target) = target {
            page.item(&format!("{}: {target} {unit} a replica.", role.name));
        }
    }
    page.item(&format!(
        "A load within {} % of that changes nothing.",
        Nanos::new(block.tolerance.get() * 1_000_000_000 / PERCENT)
    ));
    let leads = |role: usize| block.targets.get(role).is_some_and(Option::is_some);
    for follower in (0..policy.roles.len()).filter(|&role| !leads(role)) {
        follows(policy, follower, &leads, page);
    }
}

const fn metric(metric: Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::QueueDepth => ("the running and waiting requests", "requests"),
        Metric::RunningRequests => ("the running requests", "requests"),
        Metric::WaitingRequests => ("the waiting requests", "requests"),
        Metric::PromptTokensPerSecond => (
            "the prompt tokens per second that no cache served",
            "tokens per second",
        ),
        Metric::GenerationTokensPerSecond => {
            ("the generated tokens per second", "tokens per second")
        }
        Metric::TotalTokensPerSecond => (
            "the prompt and generated tokens per second",
            "tokens per second",
        ),
    }
}

fn tokens(block: &TokenPolicy, page: &mut Page) {
    page.item(&format!(
        "The average demand of the last {} is divided by what one replica serves, rounded up:",
        seconds(block.stable_window)
    ));
    for (kind, what) in [
        (
            RoleKind::Prefill,
            "prompt tokens per second that no cache served",
        ),
        (RoleKind::Decode, "generated tokens per second"),
        (RoleKind::Server, "prompt and generated tokens per second"),
    ] {
        if let Some(capacity) = block.capacity.of(kind) {
            page.item(&format!("{}: {capacity} {what}.", kind.as_str()));
        }
    }
    page.item(&format!(
        "Panic: once the last {} reach {} times what the ready replicas serve, the larger of both averages counts, and nothing shrinks for {}.",
        seconds(block.panic_window),
        block.panic_threshold,
        seconds(block.stable_window)
    ));
    page.item(&format!(
        "Latency at the 95th percentile above {} ms to the first token (Prefill, Server) or {} ms between tokens (Decode, Server) stops shrinking; above 1.2 times that it asks for one replica more.",
        block.ttft_target, block.itl_target
    ));
}

fn forecast(policy: &Policy, block: &PredictivePolicy, page: &mut Page) {
    page.item(&format!(
        "Demand is forecast {} ahead, {} passes, and divided by what one replica is forecast to serve; the larger count of both is taken:",
        seconds(block.horizon),
        block.horizon / policy.interval.max(1)
    ));
    for kind in [RoleKind::Prefill, RoleKind::Decode, RoleKind::Server] {
        if let Some(capacity) = block.capacity.of(kind) {
            page.item(&format!("{}: {capacity} tokens per second.", kind.as_str()));
        }
    }
    page.item(&format!(
        "The first {} observations forecast nothing. A role shrinks only if those that stay would carry at most 80 % of what they serve.",
        block.min_points
    ));
}

/// Encode roles have no tokens of their own.
fn encoders(policy: &Policy, target: Option<&TargetShape>, page: &mut Page) {
    let Some(shape) = target else {
        page.item(
            "Which role is of which kind is the target's to say (--target FILE): roles of kind Encode follow their ratios.",
        );
        return;
    };
    let kind = |role: usize| {
        shape
            .role(&policy.roles[role].name)
            .and_then(|known| known.kind)
    };
    let leads = |role: usize| matches!(kind(role), Some(RoleKind::Prefill | RoleKind::Decode));
    for follower in 0..policy.roles.len() {
        if kind(follower) == Some(RoleKind::Encode) {
            follows(policy, follower, &leads, page);
        }
    }
}

/// Whom a role without a recommendation of its own follows, and how.
fn follows(policy: &Policy, follower: usize, leads: &dyn Fn(usize) -> bool, page: &mut Page) {
    let mut leaders: Vec<&str> = Vec::new();
    let mut preferred = false;
    for ratio in &policy.ratios {
        let other = match follower {
            role if role == ratio.numerator => ratio.denominator,
            role if role == ratio.denominator => ratio.numerator,
            _ => continue,
        };
        if leads(other) {
            let name = policy.roles[other].name.as_str();
            if !leaders.contains(&name) {
                leaders.push(name);
            }
            preferred |= ratio.target.is_some();
        }
    }
    let how = match (preferred, leaders.len()) {
        (true, 1) => "it takes the count that the preferred ratio asks for",
        (true, _) => "it takes the largest count that a preferred ratio asks for",
        (false, _) => "it keeps its count as long as the ratios let it",
    };
    page.item(&format!(
        "{} has no demand of its own and follows {}: {how}.",
        policy.roles[follower].name,
        listed(&leaders)
    ));
}
