//! The defaulting patch: what the mutating webhook adds to a spec.
//!
//! It adds what is missing and rewrites nothing but two zeros that mean their defaults, so that a GitOps tool sees no
//! drift. Only the presence of fields is read, in one pass and without a tree; a part of the wrong JSON type is stepped
//! over, and schema or validation names it.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, json, value::RawValue};

use crate::policy::defaults as value;

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
pub(super) fn filled(spec: &RawValue) -> Option<Value> {
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

/// A part of a spec: absent (`null` too), an object, or of another type.
#[derive(Default)]
enum Part<T> {
    #[default]
    Absent,
    Object(T),
    Other,
}

/// Whether a field is there; `null` is not.
#[derive(Clone, Copy, Default)]
struct Presence(bool);

/// An integer for which zero means the default.
#[derive(Clone, Copy, Default)]
enum Step {
    #[default]
    Absent,
    Zero,
    Other,
}

/// A word: absent (`null` too), a string, or of another type.
#[derive(Default)]
enum Word<'a> {
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Other,
}

/// The entries of a list, those that are objects; empty for what is no list.
#[derive(Default)]
struct Entries(Vec<Part<RoleShape>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
#[derive(Default)]
struct SpecShape<'a> {
    mode: Presence,
    suspend: Presence,
    sampling: Part<SamplingShape>,
    roles: Entries,
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
                to.text("rebalance/policy", "Opposing")
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
                block.fill("algorithm/tokenThroughput", to)
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

impl<'de> Deserialize<'de> for Presence {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Option::<IgnoredAny>::deserialize(from).map(|field| Self(field.is_some()))
    }
}

/// What a value of any JSON type becomes: the visitors below name what they care for, and everything else is `Other`.
macro_rules! others {
    () => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any value")
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (numbers) => {
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
    };
    (text) => {
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
    };
    (list) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::other())
        }
    };
    (map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::other())
        }
    };
}

impl<T> Part<T> {
    const fn other() -> Self {
        Self::Other
    }
}

impl Step {
    const fn other() -> Self {
        Self::Other
    }
}

impl Word<'_> {
    const fn other() -> Self {
        Self::Other
    }
}

impl Entries {
    const fn other() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Part<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Any<T> {
            type Value = Part<T>;
            others!();
            others!(numbers);
            others!(text);
            others!(list);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Part::Object)
            }
        }
        from.deserialize_any(Any(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Step;
            others!();
            others!(text);
            others!(list);
            others!(map);
            fn visit_i64<E>(self, number: i64) -> Result<Step, E> {
                Ok(if number == 0 { Step::Zero } else { Step::Other })
            }
            fn visit_u64<E>(self, number: u64) -> Result<Step, E> {
                Ok(if number == 0 { Step::Zero } else { Step::Other })
            }
        }
        from.deserialize_any(Any)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Word<'de>;
            others!();
            others!(numbers);
            others!(list);
            others!(map);
            fn visit_borrowed_str<E>(self, word: &'de str) -> Result<Word<'de>, E> {
                Ok(Word::Text(Cow::Borrowed(word)))
            }
            fn visit_str<E>(self, word: &str) -> Result<Word<'de>, E> {
                Ok(Word::Text(Cow::Owned(word.to_owned())))
            }
        }
        from.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Entries;
            others!();
            others!(numbers);
            others!(text);
            others!(map);
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        from.deserialize_any(Any)
    }
}

#[cfg(test)]
#[path = "defaults/tests.rs"]
mod tests;
