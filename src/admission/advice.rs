//! Warnings about a scaler that is allowed: what will disappoint, in the order of what matters most.

use crate::api::quantity::Nanos;
use crate::api::scaler::{RebalancePolicy, ScalerSpec};
use crate::api::{DEPLOYMENT_KIND, Quantity, RoleKind};
use crate::policy::{
    AlgorithmPolicy, Capacities, Policy, RebalanceOrder, TargetShape, TokenPolicy,
};
use crate::ratio::{End, System};

mod movement;

/// A warning's length at most, in characters: the API server cuts longer ones.
const CHARS: usize = 255;
/// More warnings than these are noise.
const COUNT: usize = 8;
/// With more ready Pods than these a role's coverage is incomplete, and it never shrinks.
const SAMPLED_PODS: u16 = 64;

/// What is known around a scaler.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// It was not looked for.
    Unknown,
    /// It does not exist.
    Absent,
    /// It is being deleted.
    Deleting,
    /// It is there.
    Present(TargetShape),
}

/// The warnings about a policy without faults, most important first: at most eight, each below 256 characters.
///
/// `spec` is what the policy was read from: what was written, before defaults took its place. `others` are the other
/// scalers that name the target.
pub(crate) fn warnings(
    policy: &Policy,
    spec: &ScalerSpec,
    target: &Target,
    others: &[&str],
) -> Vec<String> {
    let mut said = Vec::new();
    let system = movement::system(policy);
    about_target(policy, system.as_ref(), target, &mut said);
    about_others(policy, others, &mut said);
    if let Some(system) = &system {
        movement::warn(policy, system, target, &mut said);
    }
    about_windows(policy, &mut said);
    about_capacities(policy, target, &mut said);
    about_sizes(policy, &mut said);
    about_defaults(spec, &mut said);
    about_priority(policy, spec, &mut said);
    about_ratios(policy, &mut said);
    about_fixed_roles(policy, &mut said);
    about_sampling(policy, &mut said);
    said.truncate(COUNT);
    for warning in &mut said {
        shorten(warning);
    }
    said
}

/// Names are up to 253 characters long: what follows them may not fit.
fn shorten(warning: &mut String) {
    if warning.chars().count() > CHARS {
        let end = warning
            .char_indices()
            .nth(CHARS - 3)
            .map_or(warning.len(), |(end, _)| end);
        warning.truncate(end);
        warning.push_str("...");
    }
}

fn about_target(policy: &Policy, system: Option<&System>, target: &Target, said: &mut Vec<String>) {
    let name = &policy.target;
    match target {
        Target::Unknown => {}
        Target::Absent => said.push(format!(
            "{DEPLOYMENT_KIND} \"{name}\" does not exist yet: rules about its roles are not checked, and planning waits (TargetNotFound)"
        )),
        Target::Deleting => said.push(format!(
            "{DEPLOYMENT_KIND} \"{name}\" is being deleted: rules about its roles are not checked"
        )),
        Target::Present(shape) => {
            about_unbounded_roles(policy, shape, said);
            about_counts(policy, shape, said);
            about_bands(policy, system, target, said);
        }
    }
}

fn about_unbounded_roles(policy: &Policy, shape: &TargetShape, said: &mut Vec<String>) {
    for role in &shape.roles {
        if policy.roles.iter().any(|bounds| bounds.name == role.name) {
            continue;
        }
        let (name, target) = (&role.name, &policy.target);
        said.push(if role.command || role.elastic {
            let why = if role.command { "command" } else { "elasticEp" };
            format!("{DEPLOYMENT_KIND} \"{target}\" cannot be scaled: its role \"{name}\" has {why}, so that it cannot have the bounds that every role needs (BoundsConflict)")
        } else {
            format!("role \"{name}\" of {DEPLOYMENT_KIND} \"{target}\" has no bounds here: planning stops with BoundsConflict until it is in spec.roles")
        });
    }
}

/// Counts that the policy excludes: planning stops until policy and counts agree.
fn about_counts(policy: &Policy, shape: &TargetShape, said: &mut Vec<String>) {
    let count = |name: &str| {
        shape
            .roles
            .iter()
            .find(|role| role.name == name)
            .map(|role| role.count)
    };
    for bounds in &policy.roles {
        if let Some(count) = count(&bounds.name)
            && !(bounds.min..=bounds.max).contains(&count)
        {
            said.push(format!(
                "role \"{}\" has {count} replicas, outside {}..{}: planning stops with BoundsConflict until bounds and count agree",
                bounds.name, bounds.min, bounds.max
            ));
        }
    }
}

fn about_bands(policy: &Policy, system: Option<&System>, target: &Target, said: &mut Vec<String>) {
    if let Some(counts) = movement::current(policy, target)
        && let Some((band, end)) = system.and_then(|system| system.broken(&counts))
    {
        let ratio = &policy.ratios[band];
        let (n, d) = (ratio.numerator, ratio.denominator);
        let (end, limit) = match end {
            End::Min => ("below min", ratio.min),
            End::Max => ("above max", ratio.max),
        };
        said.push(format!(
            "{} {} and {} {} replicas are {end} {} of ratios[{band}]: planning stops with RatioConflict until ratio and counts agree",
            counts[n],
            policy.roles[n].name,
            counts[d],
            policy.roles[d].name,
            limit.map_or_else(String::new, |limit| limit.to_string()),
        ));
    }
}

fn about_others(policy: &Policy, others: &[&str], said: &mut Vec<String>) {
    if let Some(first) = others.first() {
        let more = match others.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        said.push(format!(
            "scaler \"{first}\"{more} names {DEPLOYMENT_KIND} \"{}\" too: one of them can bind it, the others report AlreadyBound",
            policy.target
        ));
    }
}

fn tokens(policy: &Policy) -> Option<(&'static str, &TokenPolicy, Option<&Capacities>)> {
    match &policy.algorithm {
        AlgorithmPolicy::Proportional(_) => None,
        AlgorithmPolicy::TokenThroughput(token) => Some(("algorithm.tokenThroughput", token, None)),
        AlgorithmPolicy::Predictive(predictive) => Some((
            "algorithm.predictive.tokenThroughput",
            &predictive.token,
            Some(&predictive.capacity),
        )),
    }
}

fn about_windows(policy: &Policy, said: &mut Vec<String>) {
    let Some((block, token, _)) = tokens(policy) else {
        return;
    };
    if token.panic_window >= token.stable_window {
        said.push(format!(
            "{block}.panicWindowSeconds {} is not shorter than stableWindowSeconds {}: bursts are seen no sooner than trends",
            token.panic_window, token.stable_window
        ));
    }
    if token.panic_threshold <= Nanos::ONE {
        said.push(format!(
            "{block}.panicThreshold is at most 1: panic starts at or before capacity, and holds every shrink"
        ));
    }
}

/// The names of a kind's capacity fields: for now, and ahead.
const fn capacity_fields(kind: RoleKind) -> (&'static str, &'static str) {
    match kind {
        RoleKind::Prefill => (
            "prefillTargetTokensPerSecond",
            "prefillTokenCapacityPerReplica",
        ),
        RoleKind::Decode => (
            "decodeTargetTokensPerSecond",
            "decodeTokenCapacityPerReplica",
        ),
        RoleKind::Server | RoleKind::Encode => (
            "serverTargetTokensPerSecond",
            "serverTokenCapacityPerReplica",
        ),
    }
}

const WITH_CAPACITY: [RoleKind; 3] = [RoleKind::Prefill, RoleKind::Decode, RoleKind::Server];

fn about_capacities(policy: &Policy, target: &Target, said: &mut Vec<String>) {
    let Some((_, token, forecast)) = tokens(policy) else {
        return;
    };
    for kind in WITH_CAPACITY {
        let (now, ahead) = capacity_fields(kind);
        let has_now = token.capacity.of(kind).is_some();
        let has_ahead = forecast.is_some_and(|capacity| capacity.of(kind).is_some());
        if forecast.is_some() && has_now != has_ahead {
            let (given, lacking) = if has_now { (now, ahead) } else { (ahead, now) };
            said.push(format!(
                "{given} is set without {lacking}: roles of kind {} need both, and are refused once the target has one",
                kind.as_str()
            ));
        }
        if let Target::Present(shape) = target
            && (has_now || has_ahead)
            && !shape.roles.iter().any(|role| role.kind == Some(kind))
        {
            said.push(format!(
                "{} is set, but {DEPLOYMENT_KIND} \"{}\" has no role of kind {}: it is not used",
                if has_now { now } else { ahead },
                policy.target,
                kind.as_str()
            ));
        }
    }
}

fn about_sizes(policy: &Policy, said: &mut Vec<String>) {
    for (i, role) in policy.roles.iter().enumerate() {
        if role.max.get() > SAMPLED_PODS {
            said.push(format!(
                "roles[{i}].maxReplicas {} is above {SAMPLED_PODS}: with more than {SAMPLED_PODS} ready Pods role \"{}\" is observed in part only, and never shrinks",
                role.max, role.name
            ));
        }
    }
}

/// Values that were written, and mean something else.
fn about_defaults(spec: &ScalerSpec, said: &mut Vec<String>) {
    if let Some(down) = spec
        .behavior
        .as_ref()
        .and_then(|behavior| behavior.scale_down.as_ref())
    {
        for (field, value, default) in [
            (
                "stabilizationWindowSeconds",
                down.stabilization_window_seconds,
                300,
            ),
            (
                "cooldownAfterAbortSeconds",
                down.cooldown_after_abort_seconds,
                300,
            ),
            (
                "decodePostScaleUpGraceSeconds",
                down.decode_post_scale_up_grace_seconds,
                120,
            ),
        ] {
            if value == Some(0) {
                said.push(format!("behavior.scaleDown.{field} 0 means the default, {default} seconds: it does not switch the guard off"));
            }
        }
    }
    let predictive = spec
        .algorithm
        .as_ref()
        .and_then(|algorithm| algorithm.predictive.as_ref());
    if let Some(predictive) = predictive {
        for (field, value, default) in [
            ("qLevel", &predictive.q_level, "1"),
            ("qTrend", &predictive.q_trend, "0.1"),
            ("measurementNoise", &predictive.measurement_noise, "10"),
        ] {
            if let Some(Ok(nanos)) = value.as_ref().map(Quantity::nanos)
                && nanos.get() <= 0
            {
                said.push(format!("algorithm.predictive.{field} is not positive, which means the default, \"{default}\""));
            }
        }
    }
}

fn about_priority(policy: &Policy, spec: &ScalerSpec, said: &mut Vec<String>) {
    let listed = spec
        .rebalance
        .as_ref()
        .and_then(|rebalance| rebalance.priority.as_ref())
        .is_some_and(|names| !names.is_empty());
    match &policy.rebalance {
        RebalanceOrder::Priority(order) if order.is_empty() => said.push(
            "rebalance.policy is Priority without a priority list: no role gives or takes; list roles, highest priority first".to_owned(),
        ),
        RebalanceOrder::Opposing | RebalanceOrder::Disabled if listed => {
            let word = match spec.rebalance.as_ref().and_then(|rebalance| rebalance.policy) {
                Some(RebalancePolicy::Disabled) => "Disabled",
                _ => "Opposing",
            };
            said.push(format!(
                "rebalance.priority is only read under policy Priority; the policy is {word}"
            ));
        }
        RebalanceOrder::Priority(_) | RebalanceOrder::Opposing | RebalanceOrder::Disabled => {}
    }
}

fn about_ratios(policy: &Policy, said: &mut Vec<String>) {
    for (i, ratio) in policy.ratios.iter().enumerate() {
        if ratio.min.is_none() && ratio.target.is_none() && ratio.max.is_none() {
            said.push(format!(
                "ratios[{i}] ({}/{}) has no min, target or max: it only makes both roles move as one component",
                policy.roles[ratio.numerator].name, policy.roles[ratio.denominator].name
            ));
        }
    }
}

fn about_fixed_roles(policy: &Policy, said: &mut Vec<String>) {
    for (i, role) in policy.roles.iter().enumerate() {
        if role.min == role.max {
            said.push(format!(
                "roles[{i}] (\"{}\") has minReplicas and maxReplicas {}: it never moves",
                role.name, role.min
            ));
        }
    }
}

fn about_sampling(policy: &Policy, said: &mut Vec<String>) {
    let Some((block, token, _)) = tokens(policy) else {
        return;
    };
    let (field, window) = if token.panic_window < token.stable_window {
        ("panicWindowSeconds", token.panic_window)
    } else {
        ("stableWindowSeconds", token.stable_window)
    };
    if policy.interval > window / 3 {
        said.push(format!(
            "sampling.intervalSeconds {} is above a third of {block}.{field} {window}: fewer than three samples lie in that window",
            policy.interval
        ));
    }
}
