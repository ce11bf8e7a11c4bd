//! The scaler's status: observations, decisions and the program's whole memory.
//!
//! Only the program writes it, and what it cannot read back it would forget: so every field is optional, unknown words
//! are kept as text, and a round trip is the identity.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Decimal, Replicas, Term, Time};

/// Counts by role name.
pub type Vector = BTreeMap<String, Replicas>;

/// What the scaler observed, decided and must remember. Written by the program alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalerStatus {
    /// Generation of the spec that the last pass read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The target, and the term of active commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingStatus>,
    /// A commit under way: written before the target is, removed when its outcome is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// One entry for each role of the target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub roles: Vec<RoleStatus>,
    /// The latest write to the target's counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_commit: Option<LastCommit>,
    /// Added replicas that wait for admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_cohort: Option<PendingCohort>,
    /// The wait after growth found no resources, until growth is admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhaustion: Option<Exhaustion>,
    /// The exhaustion episode and its transaction: one replica from a donor to a receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<RebalanceStatus>,
    /// The latest shrink, and what became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_down: Option<LastScaleDown>,
    /// Demand history of the token algorithms, and the filter state of Predictive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub predictors: Vec<PredictorStatus>,
    /// Bound, Active, MetricsReady, Blocked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The target that this scaler plans for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingStatus {
    /// UID of the target: tells a replacement of the same name.
    #[serde(rename = "targetUID", skip_serializing_if = "Option::is_none")]
    pub target_uid: Option<String>,
    /// Name of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_name: Option<String>,
    /// Term used for commits. Outlives a release; absent for a scaler that was never Active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<Term>,
    /// Generation of the scaler when a replacement of the target was first seen; an edit after it acknowledges it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_at_generation: Option<i64>,
    /// Generation of the target after the first commit under this binding: tells which retirements are the scaler's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_commit_generation: Option<i64>,
}

/// A commit that is about to be written, with all that its record will need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Identity of the decision: its term, a dash, a random part.
    #[serde(rename = "decisionID")]
    pub decision_id: String,
    /// Term of the commit.
    pub term: Term,
    /// What kind of commit it is.
    pub kind: IntentKind,
    /// Counts before.
    pub baseline_vector: Vector,
    /// Counts after.
    pub vector: Vector,
    /// Resource version of the target that the plan was made on.
    pub target_resource_version: String,
    /// Generation of the target after the write.
    pub target_generation: i64,
    /// When it was decided.
    pub timestamp: Time,
    /// Rebalancing: the role that grows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub receiver_role: Option<String>,
    /// Rebalancing: the role that shrinks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub donor_role: Option<String>,
    /// Rebalancing: the ordinal that is given away.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub donor_ordinal: Option<i32>,
    /// Rebalancing: the Workload that must be gone before the receiver grows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub donor_workload: Option<WorkloadRef>,
    /// Restore: the retirement that aborted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retirement: Option<RetirementRef>,
    /// Rollback: how many of the cohort's ordinals were admitted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub admitted: Option<i32>,
}

/// What kind of commit an intent announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum IntentKind {
    /// The algorithm moves counts.
    Scale,
    /// A cohort found no resources: its baseline returns.
    Rollback,
    /// A retirement aborted: the counts before it return.
    Restore,
    /// A donor gives one replica.
    Donate,
    /// The receiver takes it.
    Receive,
    /// The donation is taken back.
    Return,
}

/// A Workload, told from a later one of the same name by its UID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRef {
    /// Name of the Workload.
    pub name: String,
    /// UID of the Workload.
    pub uid: String,
}

/// A retirement, told from a later one of the same ordinal by its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetirementRef {
    /// Role of the instance.
    pub role: String,
    /// Ordinal of the instance.
    pub ordinal: i32,
    /// When the retirement began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Time>,
}

/// What was observed of a role, and recommended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleStatus {
    /// Name of the role.
    #[schemars(required)]
    pub name: String,
    /// Count declared on the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// Ready serving replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Fresh, Idle (observed, no work), Missing (no reading, or no window yet) or Stale (expired).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal_state: Option<SignalState>,
    /// Cache-missed prompt tokens per second over the sampled replicas; absent when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_per_second: Option<Decimal>,
    /// Generated tokens per second over the sampled replicas; absent when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation_tokens_per_second: Option<Decimal>,
    /// Running requests over the sampled replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_requests: Option<i64>,
    /// Waiting requests over the sampled replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_requests: Option<i64>,
    /// Mean reported fraction of the KV cache in use, 0 to 1; absent when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_usage: Option<Decimal>,
    /// Milliseconds to the first token, 95th percentile; absent when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_milliseconds: Option<Decimal>,
    /// Milliseconds between tokens, 95th percentile; absent when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_milliseconds: Option<Decimal>,
    /// What the algorithm asks for, before holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_recommended_replicas: Option<i32>,
    /// What is left of it after bounds, ratios, pacing and guards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constrained_replicas: Option<i32>,
    /// The algorithm or constraint that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Last growth of this role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_up_time: Option<Time>,
    /// Last pass at which the panic condition held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_panic_time: Option<Time>,
    /// Recommendations, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub stabilization_history: Vec<Recommendation>,
}

/// How far a role's readings can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SignalState {
    /// Current readings.
    Fresh,
    /// Observed, and without work.
    Idle,
    /// No reading, or no window yet.
    Missing,
    /// The last reading has expired.
    Stale,
}

/// A recommendation of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// When it was made.
    pub timestamp: Time,
    /// What it was.
    pub replicas: Replicas,
}

/// The latest write to the target's counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastCommit {
    /// Identity of the decision.
    #[serde(rename = "decisionID")]
    pub decision_id: String,
    /// Term of the commit.
    pub term: Term,
    /// Counts after it.
    pub vector: Vector,
    /// Counts before it.
    pub baseline_vector: Vector,
    /// When it was decided.
    pub timestamp: Time,
    /// Generation of the target after it.
    pub target_generation: i64,
}

/// Added replicas that wait for admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingCohort {
    /// Identity of the growing decision.
    #[serde(rename = "decisionID")]
    pub decision_id: String,
    /// Its term.
    pub term: Term,
    /// Counts that a rollback restores.
    pub baseline_vector: Vector,
    /// Counts that must be admitted.
    pub target_vector: Vector,
    /// When the growth was decided.
    pub started_at: Time,
}

/// The wait after growth found no resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exhaustion {
    /// Rollbacks in a row.
    pub attempts: i32,
    /// When growth is tried again.
    pub next_attempt_at: Time,
    /// Ordinals that were admitted last time.
    pub admitted: i32,
    /// The roles that could not grow: the receivers of a rebalance.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub roles: Vec<String>,
}

/// An exhaustion episode and its transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RebalanceStatus {
    /// The role that takes a replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_role: Option<String>,
    /// The role that gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub donor_role: Option<String>,
    /// The donor's count after it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub donor_target_replicas: Option<Replicas>,
    /// The receiver's count after it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_target_replicas: Option<Replicas>,
    /// When the transaction began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Generation of the scaler at the rollback that began the episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhaustion_episode_generation: Option<i64>,
    /// Whether the episode has used its donation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub donation_attempted: Option<bool>,
    /// State of the transaction, or why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<RebalanceReason>,
    /// The ordinal that is given away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub donor_ordinal: Option<i32>,
    /// The Workload that must be gone before the receiver grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub donor_workload: Option<WorkloadRef>,
    /// Identity of the transaction's latest decision.
    #[serde(rename = "decisionID", skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<String>,
}

/// State of a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RebalanceReason {
    /// The episode is open, and nothing is under way.
    ResourceExhausted,
    /// The donor retires.
    DonorRelease,
    /// The receiver's replica waits for admission.
    ReceiverAcquire,
    /// No role can give.
    RebalanceNotApplicable,
    /// A role could give, but the policy forbids the step.
    RebalanceBlocked,
    /// The transaction is over.
    DonationAttempted,
}

/// The latest shrink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastScaleDown {
    /// First role that shrank, in the order of the spec.
    pub role: String,
    /// Highest ordinal that it lost.
    pub ordinal: i32,
    /// Counts before the shrink.
    pub pre_scale_down_vector: Vector,
    /// Committed, or Aborted once its retirement failed and was restored.
    pub outcome: ScaleDownOutcome,
    /// When it was restored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aborted_at: Option<Time>,
    /// Until when nothing shrinks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cooldown_until: Option<Time>,
    /// Identity of the shrinking decision.
    #[serde(
        rename = "decisionID",
        skip_serializing_if = "Option::is_none",
        default
    )]
    pub decision_id: Option<String>,
    /// Counts after the shrink.
    #[serde(skip_serializing_if = "Vector::is_empty", default)]
    pub vector: Vector,
    /// Generation of the target after the shrink.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target_generation: Option<i64>,
    /// Start of the aborted retirement that was acted on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retirement_started_at: Option<Time>,
}

/// What became of a shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ScaleDownOutcome {
    /// Written; its retirement runs or is over.
    Committed,
    /// Its retirement failed, and the counts were restored.
    Aborted,
}

/// Demand history of a role, and its filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PredictorStatus {
    /// Name of the role.
    #[schemars(required)]
    pub name: String,
    /// Estimated demand in tokens per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Decimal>,
    /// Change of demand in tokens per second, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trend: Option<Decimal>,
    /// Uncertainty of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covariance: Option<Covariance>,
    /// Observations so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_count: Option<i64>,
    /// Demand over the longer of the two windows, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<DemandSample>,
}

/// Uncertainty of level and trend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Covariance {
    /// Variance of the level.
    pub p00: Decimal,
    /// Covariance of level with trend.
    pub p01: Decimal,
    /// Covariance of trend with level.
    pub p10: Decimal,
    /// Variance of the trend.
    pub p11: Decimal,
}

/// Demand at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DemandSample {
    /// When it was observed.
    pub timestamp: Time,
    /// Tokens per second.
    pub tokens_per_second: Decimal,
}

/// A condition, as Kubernetes defines them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Bound, Active, MetricsReady or Blocked.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// One word that says why.
    #[serde(default)]
    pub reason: String,
    /// A sentence that says why, and what would change it.
    #[serde(default)]
    pub message: String,
    /// Generation of the scaler that was judged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observed_generation: Option<i64>,
    /// When status last changed.
    pub last_transition_time: Time,
}

/// Truth of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It was not judged.
    Unknown,
}
