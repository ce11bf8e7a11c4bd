//! A spec in which every rule holds and every default is in place.

use crate::{
    api::{
        Replicas, RoleKind,
        quantity::Nanos,
        scaler::{Metric, Mode},
    },
    ratio::{Band, Bounds, Step, System},
};

/// A scaler's spec, checked and defaulted. Roles are named by their place in `roles`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name of the target.
    pub target: String,
    /// What becomes of a recommendation.
    pub mode: Mode,
    /// Whether planning is stopped.
    pub suspend: bool,
    /// Seconds between two samples, 5 to 300.
    pub interval: u32,
    /// Seconds that growth may wait for admission, 60 to 1200.
    pub pending_timeout: u32,
    /// Bounds, in the order of the spec: 1 to 16.
    pub roles: Vec<RolePolicy>,
    /// Ratios, in the order of the spec: at most 64.
    pub ratios: Vec<RatioPolicy>,
    /// How a recommendation is found.
    pub algorithm: AlgorithmPolicy,
    /// How growth is paced.
    pub scale_up: ScaleUpPolicy,
    /// How shrinking is paced and guarded.
    pub scale_down: ScaleDownPolicy,
    /// Which role may give a replica away.
    pub rebalance: RebalanceOrder,
}

impl Policy {
    /// Its bounds and bands; `None` only for a policy that no check made.
    pub fn system(&self) -> Option<System> {
        let bounds = self.roles.iter().map(|role| Bounds {
            min: role.min,
            max: role.max,
        });
        let bands = self.ratios.iter().map(|ratio| Band {
            numerator: ratio.numerator,
            denominator: ratio.denominator,
            min: ratio.min,
            max: ratio.max,
        });
        System::new(bounds.collect(), bands.collect()).ok()
    }
}

/// A role's place in [`Policy::roles`].
pub type RoleIndex = usize;

/// The counts that one role may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolePolicy {
    /// Name of the role.
    pub name: String,
    /// Fewest replicas.
    pub min: Replicas,
    /// Most replicas, at least `min`.
    pub max: Replicas,
}

/// A ratio between two roles; the parts that are given are positive, and `min <= target <= max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatioPolicy {
    /// The role whose count is divided.
    pub numerator: RoleIndex,
    /// The role that it is divided by: another one.
    pub denominator: RoleIndex,
    /// The preferred ratio.
    pub target: Option<Nanos>,
    /// The least ratio.
    pub min: Option<Nanos>,
    /// The greatest ratio.
    pub max: Option<Nanos>,
}

/// How a recommendation is found.
#[derive(Clone, Debug, PartialEq)]
pub enum AlgorithmPolicy {
    /// One measurement over a fixed target.
    Proportional(ProportionalPolicy),
    /// Token rates over two windows.
    TokenThroughput(TokenPolicy),
    /// Token rates forecast ahead.
    Predictive(PredictivePolicy),
}

/// Parameters of Proportional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProportionalPolicy {
    /// The measurement.
    pub metric: Metric,
    /// Relative distance inside which the count is held: positive, at most one.
    pub tolerance: Nanos,
    /// The target of each role, by its place; `None` for a follower.
    pub targets: Vec<Option<Nanos>>,
}

/// What one replica of each kind serves, in nanos of tokens per second; positive where given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacities {
    /// Prompt tokens of a Prefill replica.
    pub prefill: Option<Nanos>,
    /// Generated tokens of a Decode replica.
    pub decode: Option<Nanos>,
    /// Both of a Server replica.
    pub server: Option<Nanos>,
}

impl Capacities {
    /// The capacity of a replica of this kind; Encode has none.
    pub const fn of(&self, kind: RoleKind) -> Option<Nanos> {
        match kind {
            RoleKind::Prefill => self.prefill,
            RoleKind::Decode => self.decode,
            RoleKind::Server => self.server,
            RoleKind::Encode => None,
        }
    }
}

/// Parameters of TokenThroughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPolicy {
    /// What one replica serves.
    pub capacity: Capacities,
    /// Seconds of the stable window, 30 to 600.
    pub stable_window: u32,
    /// Seconds of the panic window, 10 to 300; may be the longer one.
    pub panic_window: u32,
    /// Panic starts at so many times the ready capacity.
    pub panic_threshold: Nanos,
    /// Milliseconds to the first token at the 95th percentile.
    pub ttft_target: Nanos,
    /// Milliseconds between tokens at the 95th percentile.
    pub itl_target: Nanos,
}

/// Parameters of Predictive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictivePolicy {
    /// The fallback.
    pub token: TokenPolicy,
    /// What one replica is forecast to serve.
    pub capacity: Capacities,
    /// Seconds that demand is forecast ahead, 30 to 600.
    pub horizon: u32,
    /// Observations before the forecast counts, 1 to 64.
    pub min_points: u32,
    /// Noise of the filter.
    pub filter: Filter,
}

/// Noise of the filter, each positive and finite: nonpositive values of the spec have become the defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    /// Process noise of the level, per step.
    pub q_level: f64,
    /// Process noise of the trend, per step.
    pub q_trend: f64,
    /// Noise of an observation.
    pub measurement_noise: f64,
}

/// How growth is paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleUpPolicy {
    /// Seconds of agreeing recommendations, 0 to 600; zero: no wait.
    pub stabilization: u32,
    /// How far one pass may add.
    pub step: Step,
}

/// How shrinking is paced and guarded: zeros of the spec have become the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleDownPolicy {
    /// Seconds whose highest recommendation is the floor, 1 to 1800.
    pub stabilization: u32,
    /// Seconds without shrinking after an aborted retirement, 1 to 3600.
    pub cooldown_after_abort: u32,
    /// Seconds for which a Decode role does not shrink after it grew, 1 to 3600.
    pub decode_grace: u32,
    /// How far one pass may remove.
    pub step: Step,
}

/// Which role may give a replica away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebalanceOrder {
    /// One whose own recommendation is to shrink.
    Opposing,
    /// One behind the receiver in this list, highest priority first.
    Priority(Vec<RoleIndex>),
    /// None.
    Disabled,
}
