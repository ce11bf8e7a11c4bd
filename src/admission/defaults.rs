//! The defaulting patch: what the mutating webhook adds to a spec.
//!
//! It adds what is missing and rewrites nothing but two zeros that mean their defaults, so that a GitOps tool sees no
//! drift. Only the presence of fields is read, in one pass and without a tree; a part of the wrong JSON type is stepped
//! over, and schema or validation names it.

mod part;

use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::policy::defaults as value;
use part::{Entries, Part, Presence, Step, Word};

/// The patch of a spec as JSON, its operations in the order of the fields; empty when nothing is missing.
pub(super) fn patch(spec: &RawValue) -> String {
    let mut patch = Operations(String::new());
    if let Ok(Part::Object(shape)) = serde_json::from_str::<Part<SpecShape<'_>>>(spec.get()) {
        shape.fill(&mut patch);
        patch.close();
    }
    patch.0
}

/// The spec with its defaults; `None` for one that is no JSON.
pub(crate) fn filled(spec: &RawValue) -> Option<Value> {
    let mut object = json!({"spec": serde_json::from_str::<Value>(spec.get()).ok()?});
    let text = patch(spec);
    if !text.is_empty() {
        let patch: json_patch::Patch = serde_json::from_str(&text).ok()?;
        json_patch::patch(&mut object, &patch).ok()?;
    }
    Some(object["spec"].take())
}

/// Operations as they are written.
struct Operations(String);

impl Operations {
    fn add(&mut self, path: &str, value: impl fmt::Display) {
        self.write("add", path, value);
    }

    /// Adds a text.
    fn text(&mut self, path: &str, value: &str) {
        self.write("add", path, format_args!("\"{value}\""));
    }

    fn write(&mut self, operation: &str, path: &str, value: impl fmt::Display) {
        use fmt::Write as _;
        let joint = if self.0.is_empty() { '[' } else { ',' };
        // Writing to memory cannot fail.
        let _ = write!(
            self.0,
            "{joint}{{\"op\":\"{operation}\",\"path\":\"/spec/{path}\",\"value\":{value}}}"
        );
    }

    fn close(&mut self) {
        if !self.0.is_empty() {
            self.0.push(']');
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
#[derive(Default)]
struct SpecShape<'a> {
    mode: Presence,
    suspend: Presence,
    sampling: Part<SamplingShape>,
    roles: Entries<RoleShape>,
    algorithm: Part<AlgorithmShape<'a>>,
    behavior: Part<BehaviorShape>,
    rebalance: Part<RebalanceShape>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SamplingShape {
    interval_seconds: Presence,
    pending_timeout_seconds: Presence,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RoleShape {
    min_replicas: Presence,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct AlgorithmShape<'a> {
    #[serde(rename = "type")]
    kind: Word<'a>,
    proportional: Part<ProportionalShape>,
    token_throughput: Part<TokenShape>,
    predictive: Part<PredictiveShape>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProportionalShape {
    tolerance: Presence,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TokenShape {
    stable_window_seconds: Presence,
    panic_window_seconds: Presence,
    panic_threshold: Presence,
    ttft_target_milliseconds: Presence,
    itl_target_milliseconds: Presence,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PredictiveShape {
    token_throughput: Part<TokenShape>,
    horizon_seconds: Presence,
    q_level: Presence,
    q_trend: Presence,
    measurement_noise: Presence,
    min_points: Presence,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BehaviorShape {
    scale_up: Part<ScaleUpShape>,
    scale_down: Part<ScaleDownShape>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScaleUpShape {
    stabilization_window_seconds: Presence,
    max_step_replicas: Step,
    max_step_percent: Step,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "the fields' own names")]
struct ScaleDownShape {
    stabilization_window_seconds: Presence,
    cooldown_after_abort_seconds: Presence,
    decode_post_scale_up_grace_seconds: Presence,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RebalanceShape {
    policy: Presence,
}

impl SpecShape<'_> {
    fn fill(&self, to: &mut Operations) {
        if !self.mode.0 {
            to.text("mode", "Shadow");
        }
        if !self.suspend.0 {
            to.add("suspend", false);
        }
        match &self.sampling {
            Part::Absent => to.add(
                "sampling",
                format_args!(
                    "{{\"intervalSeconds\":{},\"pendingTimeoutSeconds\":{}}}",
                    value::INTERVAL_SECONDS,
                    value::PENDING_TIMEOUT_SECONDS
                ),
            ),
            Part::Object(sampling) => {
                number(
                    to,
                    "sampling/intervalSeconds",
                    sampling.interval_seconds,
                    value::INTERVAL_SECONDS,
                );
                number(
                    to,
                    "sampling/pendingTimeoutSeconds",
                    sampling.pending_timeout_seconds,
                    value::PENDING_TIMEOUT_SECONDS,
                );
            }
            Part::Other => {}
        }
        for (index, role) in self.roles.0.iter().enumerate() {
            if let Part::Object(role) = role
                && !role.min_replicas.0
            {
                to.add(&format!("roles/{index}/minReplicas"), value::MIN_REPLICAS);
            }
        }
        match &self.algorithm {
            Part::Absent => to.add("algorithm", "{\"type\":\"TokenThroughput\"}"),
            Part::Object(algorithm) => algorithm.fill(to),
            Part::Other => {}
        }
        match &self.behavior {
            Part::Absent => to.add(
                "behavior",
                format_args!(
                    "{{\"scaleUp\":{},\"scaleDown\":{}}}",
                    scale_up(),
                    scale_down()
                ),
            ),
            Part::Object(behavior) => behavior.fill(to),
            Part::Other => {}
        }
        match &self.rebalance {
            Part::Absent => to.add("rebalance", "{\"policy\":\"Opposing\"}"),
            Part::Object(rebalance) if !rebalance.policy.0 => {
                to.text("rebalance/policy", "Opposing");
            }
            Part::Object(_) | Part::Other => {}
        }
    }
}

impl AlgorithmShape<'_> {
    fn fill(&self, to: &mut Operations) {
        let kind = match &self.kind {
            Word::Text(word) => word,
            Word::Absent => {
                let inferred = match (&self.proportional, &self.predictive) {
                    (Part::Object(_) | Part::Other, _) => "Proportional",
                    (Part::Absent, Part::Object(_) | Part::Other) => "Predictive",
                    (Part::Absent, Part::Absent) => "TokenThroughput",
                };
                to.text("algorithm/type", inferred);
                inferred
            }
            Word::Other => return,
        };
        match (
            kind,
            &self.proportional,
            &self.token_throughput,
            &self.predictive,
        ) {
            ("Proportional", Part::Object(block), ..) => text(
                to,
                "algorithm/proportional/tolerance",
                block.tolerance,
                value::TOLERANCE,
            ),
            ("TokenThroughput", _, Part::Object(block), _) => {
                block.fill("algorithm/tokenThroughput", to);
            }
            ("Predictive", _, _, Part::Object(block)) => block.fill(to),
            _ => {}
        }
    }
}

impl TokenShape {
    fn fill(&self, path: &str, to: &mut Operations) {
        number(
            to,
            &format!("{path}/stableWindowSeconds"),
            self.stable_window_seconds,
            value::STABLE_WINDOW_SECONDS,
        );
        number(
            to,
            &format!("{path}/panicWindowSeconds"),
            self.panic_window_seconds,
            value::PANIC_WINDOW_SECONDS,
        );
        text(
            to,
            &format!("{path}/panicThreshold"),
            self.panic_threshold,
            value::PANIC_THRESHOLD,
        );
        text(
            to,
            &format!("{path}/ttftTargetMilliseconds"),
            self.ttft_target_milliseconds,
            value::TTFT_TARGET_MILLISECONDS,
        );
        text(
            to,
            &format!("{path}/itlTargetMilliseconds"),
            self.itl_target_milliseconds,
            value::ITL_TARGET_MILLISECONDS,
        );
    }
}

impl PredictiveShape {
    fn fill(&self, to: &mut Operations) {
        if let Part::Object(fallback) = &self.token_throughput {
            fallback.fill("algorithm/predictive/tokenThroughput", to);
        }
        number(
            to,
            "algorithm/predictive/horizonSeconds",
            self.horizon_seconds,
            value::HORIZON_SECONDS,
        );
        number(
            to,
            "algorithm/predictive/minPoints",
            self.min_points,
            value::MIN_POINTS,
        );
        text(
            to,
            "algorithm/predictive/qLevel",
            self.q_level,
            value::Q_LEVEL,
        );
        text(
            to,
            "algorithm/predictive/qTrend",
            self.q_trend,
            value::Q_TREND,
        );
        text(
            to,
            "algorithm/predictive/measurementNoise",
            self.measurement_noise,
            value::MEASUREMENT_NOISE,
        );
    }
}

impl BehaviorShape {
    fn fill(&self, to: &mut Operations) {
        match &self.scale_up {
            Part::Absent => to.add("behavior/scaleUp", scale_up()),
            Part::Object(up) => {
                let path = "behavior/scaleUp/stabilizationWindowSeconds";
                number(
                    to,
                    path,
                    up.stabilization_window_seconds,
                    value::UP_WINDOW_SECONDS,
                );
                step(
                    to,
                    "behavior/scaleUp/maxStepReplicas",
                    up.max_step_replicas,
                    value::MAX_STEP_REPLICAS,
                );
                step(
                    to,
                    "behavior/scaleUp/maxStepPercent",
                    up.max_step_percent,
                    value::MAX_STEP_PERCENT,
                );
            }
            Part::Other => {}
        }
        match &self.scale_down {
            Part::Absent => to.add("behavior/scaleDown", scale_down()),
            Part::Object(down) => {
                let path = "behavior/scaleDown";
                number(
                    to,
                    &format!("{path}/stabilizationWindowSeconds"),
                    down.stabilization_window_seconds,
                    value::DOWN_WINDOW_SECONDS,
                );
                number(
                    to,
                    &format!("{path}/cooldownAfterAbortSeconds"),
                    down.cooldown_after_abort_seconds,
                    value::COOLDOWN_AFTER_ABORT_SECONDS,
                );
                number(
                    to,
                    &format!("{path}/decodePostScaleUpGraceSeconds"),
                    down.decode_post_scale_up_grace_seconds,
                    value::DECODE_POST_SCALE_UP_GRACE_SECONDS,
                );
            }
            Part::Other => {}
        }
    }
}

fn scale_up() -> String {
    format!(
        "{{\"stabilizationWindowSeconds\":{},\"maxStepReplicas\":{},\"maxStepPercent\":{}}}",
        value::UP_WINDOW_SECONDS,
        value::MAX_STEP_REPLICAS,
        value::MAX_STEP_PERCENT
    )
}

fn scale_down() -> String {
    format!(
        "{{\"stabilizationWindowSeconds\":{},\"cooldownAfterAbortSeconds\":{},\"decodePostScaleUpGraceSeconds\":{}}}",
        value::DOWN_WINDOW_SECONDS,
        value::COOLDOWN_AFTER_ABORT_SECONDS,
        value::DECODE_POST_SCALE_UP_GRACE_SECONDS
    )
}

fn number(to: &mut Operations, path: &str, field: Presence, default: i32) {
    if !field.0 {
        to.add(path, default);
    }
}

fn text(to: &mut Operations, path: &str, field: Presence, default: &str) {
    if !field.0 {
        to.text(path, default);
    }
}

/// The contract stores the default for a zero too.
fn step(to: &mut Operations, path: &str, field: Step, default: i32) {
    match field {
        Step::Absent => to.add(path, default),
        Step::Zero => to.write("replace", path, default),
        Step::Other => {}
    }
}

#[cfg(test)]
#[path = "defaults/tests.rs"]
mod tests;
