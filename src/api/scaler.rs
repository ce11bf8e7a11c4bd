//! The scaler: the spec as a user wrote it.
//!
//! Every field is optional here, also those that the schema requires: a rule is judged by `policy`, which reports every
//! fault of a spec at once, so that decoding refuses nothing but a wrong JSON type. The doc comments are what
//! `kubectl explain mds.spec` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Quantity, ScalerStatus};

/// API group of the scaler and of its target.
pub const GROUP: &str = "worker.gpustack.ai";
/// Kind of the scaler.
pub const KIND: &str = "ModelDeploymentScaler";
/// Plural name of the scaler, as in its path.
pub const PLURAL: &str = "modeldeploymentscalers";
/// The finalizer that keeps a scaler until its binding is released.
pub const FINALIZER: &str = "worker.gpustack.ai/scaler-release";

/// A scaler with its metadata, for calls through a [`kube::Client`]; its version is chosen at run time.
pub type Scaler = kube::core::Object<ScalerSpec, ScalerStatus>;

/// Plans replica counts for one ModelDeployment from the metrics of its engines, and in Active mode commits them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalerSpec {
    /// The ModelDeployment in this namespace whose counts are planned. Immutable: to scale another one, make a new
    /// scaler. It may be absent when the scaler is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub target_ref: Option<TargetRef>,
    /// What becomes of a recommendation. Default: Shadow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Stops planning and releases the binding. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How often signals are read, and how long growth may wait for admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Bounds, one entry for every role of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub roles: Option<Vec<RoleBounds>>,
    /// Ratios between the counts of two roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["numeratorRole", "denominatorRole"]))]
    pub ratios: Option<Vec<Ratio>>,
    /// One algorithm, and only the parameters that belong to its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// Pacing and guards in both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,
    /// What happens when growth finds no resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<Rebalance>,
}

/// A reference to a ModelDeployment in the scaler's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// Name of the ModelDeployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        required,
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: Option<String>,
}

/// What becomes of a recommendation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Recommends in status and never writes the target.
    #[default]
    Shadow,
    /// Binds the target and commits.
    Active,
}

/// Cadence and patience.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sampling {
    /// Seconds between two samples of the engines, 5 to 300. Default: 15. A shorter interval reacts sooner and scrapes
    /// more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 300))]
    pub interval_seconds: Option<i32>,
    /// Seconds that added replicas may wait for admission before the growth is rolled back, 60 to 1200. Default: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 1200))]
    pub pending_timeout_seconds: Option<i32>,
}

/// The counts that one role may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleBounds {
    /// Name of a role of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        required,
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: Option<String>,
    /// Fewest replicas, 1 to 1024. Default: 1. A scaler cannot scale to zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub min_replicas: Option<i32>,
    /// Most replicas, 1 to 1024, at least minReplicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, range(min = 1, max = 1024))]
    pub max_replicas: Option<i32>,
}

/// The count of one role divided by the count of another. All three equal fix the ratio; a target alone is a
/// preference; bounds alone are constraints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ratio {
    /// The role whose count is divided: one of roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub numerator_role: Option<String>,
    /// The role that it is divided by: another one of roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub denominator_role: Option<String>,
    /// The preferred ratio, positive, within min and max where those are given: a quantity such as "0.5".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Quantity>,
    /// The least ratio allowed, positive: a quantity such as "0.5".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Quantity>,
    /// The greatest ratio allowed, positive: a quantity such as "2".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Quantity>,
}

/// How a recommendation is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Algorithm {
    /// The algorithm. Omitted: Proportional or Predictive where its block is there, else TokenThroughput.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<AlgorithmKind>,
    /// Parameters of type Proportional.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proportional: Option<Proportional>,
    /// Parameters of type TokenThroughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_throughput: Option<TokenThroughput>,
    /// Parameters of type Predictive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictive: Option<Predictive>,
}

/// How a recommendation is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AlgorithmKind {
    /// One live measurement over a fixed target per replica.
    Proportional,
    /// Token rates over two windows, a burst mode and latency guards.
    TokenThroughput,
    /// Token rates forecast ahead, never below TokenThroughput.
    Predictive,
}

impl AlgorithmKind {
    /// The word in `algorithm.type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proportional => "Proportional",
            Self::TokenThroughput => "TokenThroughput",
            Self::Predictive => "Predictive",
        }
    }
}

/// Parameters of type Proportional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proportional {
    /// The measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub metric: Option<Metric>,
    /// Relative distance from the target inside which the count is held, positive, at most 1. Default: "0.1".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Quantity>,
    /// Targets by role. A role without one needs a ratio to a role that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub role_targets: Option<Vec<RoleTarget>>,
}

/// The measurement of type Proportional.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Metric {
    /// Running plus waiting requests.
    QueueDepth,
    /// Running requests.
    RunningRequests,
    /// Waiting requests.
    WaitingRequests,
    /// Cache-missed prompt tokens per second.
    PromptTokensPerSecond,
    /// Generated tokens per second.
    GenerationTokensPerSecond,
    /// Both token rates together.
    TotalTokensPerSecond,
}

/// What one ready replica of a role should carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleTarget {
    /// One of roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub name: Option<String>,
    /// Requests, or tokens per second, for each ready replica: a positive quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub target: Option<Quantity>,
}

/// Parameters of type TokenThroughput: what one replica of each kind can serve, and when to react. One capacity at
/// least, and one for each scaled kind but Encode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenThroughput {
    /// Cache-missed prompt tokens per second that one Prefill replica serves, positive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_target_tokens_per_second: Option<Quantity>,
    /// Generated tokens per second that one Decode replica serves, positive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_target_tokens_per_second: Option<Quantity>,
    /// Prompt and generated tokens per second that one Server replica serves, positive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_target_tokens_per_second: Option<Quantity>,
    /// Seconds of the stable window, 30 to 600. Default: 180.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 600))]
    pub stable_window_seconds: Option<i32>,
    /// Seconds of the panic window, 10 to 300. Default: 60. Keep it shorter than the stable window.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 300))]
    pub panic_window_seconds: Option<i32>,
    /// Panic starts when the recent rate reaches so many times the capacity of the ready replicas, positive.
    /// Default: "2". At or below "1" it starts at or before capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panic_threshold: Option<Quantity>,
    /// Milliseconds to the first token at the 95th percentile, positive. Default: "500". Guards Prefill and Server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_target_milliseconds: Option<Quantity>,
    /// Milliseconds between tokens at the 95th percentile, positive. Default: "50". Guards Decode and Server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_target_milliseconds: Option<Quantity>,
}

/// Parameters of type Predictive: a local linear trend filter over the token rates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Predictive {
    /// The fallback, which the result is never below.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub token_throughput: Option<TokenThroughput>,
    /// Seconds that demand is forecast ahead, 30 to 600. Default: 300. Make it the time that a replica needs to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 600))]
    pub horizon_seconds: Option<i32>,
    /// Forecast prompt tokens per second for each Prefill replica, positive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_token_capacity_per_replica: Option<Quantity>,
    /// Forecast generated tokens per second for each Decode replica, positive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_token_capacity_per_replica: Option<Quantity>,
    /// Forecast prompt and generated tokens per second for each Server replica, positive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_token_capacity_per_replica: Option<Quantity>,
    /// Process noise of the demand level. Default: "1", also for zero and below. Higher follows faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q_level: Option<Quantity>,
    /// Process noise of the demand trend. Default: "0.1", also for zero and below. Higher follows faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q_trend: Option<Quantity>,
    /// Noise of an observation. Default: "10", also for zero and below. Higher trusts observations less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measurement_noise: Option<Quantity>,
    /// Observations before the forecast counts, 1 to 64. Default: 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub min_points: Option<i32>,
}

/// Pacing and guards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// Growth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScaleUp>,
    /// Shrinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDown>,
}

/// How growth is paced. Without a stepPolicy one pass adds at most the larger of both steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleUp {
    /// Seconds of recommendations that must agree before growth, 0 to 600. Default: 0, no wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 600))]
    pub stabilization_window_seconds: Option<i32>,
    /// Replicas that one pass may add to a role. Default: 4, also stored for zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_step_replicas: Option<i32>,
    /// Percent of the current count that one pass may add, rounded up, 0 to 1000. Default: 100, also stored for zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub max_step_percent: Option<i32>,
    /// One limit instead of both steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_policy: Option<StepPolicy>,
}

/// How shrinking is paced and guarded. Without a stepPolicy one pass removes at most one replica of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleDown {
    /// Seconds whose highest recommendation is the floor, 0 to 1800. Default: 300, which zero means too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1800))]
    pub stabilization_window_seconds: Option<i32>,
    /// Seconds without shrinking after an aborted retirement, 0 to 3600. Default: 300, which zero means too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub cooldown_after_abort_seconds: Option<i32>,
    /// Seconds for which a Decode role does not shrink after it grew, 0 to 3600. Default: 120, which zero means too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub decode_post_scale_up_grace_seconds: Option<i32>,
    /// A limit instead of one replica per pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_policy: Option<StepPolicy>,
}

/// How far one pass may move a role. Zero forbids the direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepPolicy {
    /// The unit of value.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub kind: Option<StepKind>,
    /// How many, at least 0. Zero forbids the direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, range(min = 0))]
    pub value: Option<i32>,
}

/// The unit of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepKind {
    /// Serving replicas, however many Pods each has.
    Pods,
    /// Percent of the current count, rounded up.
    Percent,
}

/// What happens when growth finds no resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rebalance {
    /// Which role may give a replica away. Default: Opposing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<RebalancePolicy>,
    /// Names of roles, highest priority first, for policy Priority. A role takes from those behind it; unlisted roles
    /// neither give nor take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub priority: Option<Vec<String>>,
}

/// Which role may give a replica away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RebalancePolicy {
    /// One whose own recommendation is to shrink.
    #[default]
    Opposing,
    /// One of lower priority, even if it would hold.
    Priority,
    /// None.
    Disabled,
}
