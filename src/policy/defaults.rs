//! What an absent field means, stated once: the mutating webhook stores these values, and every reader uses them.

/// `sampling.intervalSeconds`.
pub const INTERVAL_SECONDS: i32 = 15;
/// `sampling.pendingTimeoutSeconds`.
pub const PENDING_TIMEOUT_SECONDS: i32 = 300;
/// `roles[].minReplicas`.
pub const MIN_REPLICAS: i32 = 1;
/// `algorithm.proportional.tolerance`.
pub const TOLERANCE: &str = "0.1";
/// `stableWindowSeconds` of the token algorithms.
pub const STABLE_WINDOW_SECONDS: i32 = 180;
/// `panicWindowSeconds` of the token algorithms.
pub const PANIC_WINDOW_SECONDS: i32 = 60;
/// `panicThreshold` of the token algorithms.
pub const PANIC_THRESHOLD: &str = "2";
/// `ttftTargetMilliseconds` of the token algorithms.
pub const TTFT_TARGET_MILLISECONDS: &str = "500";
/// `itlTargetMilliseconds` of the token algorithms.
pub const ITL_TARGET_MILLISECONDS: &str = "50";
/// `algorithm.predictive.horizonSeconds`.
pub const HORIZON_SECONDS: i32 = 300;
/// `algorithm.predictive.qLevel`, also for what is not positive.
pub const Q_LEVEL: &str = "1";
/// `algorithm.predictive.qTrend`, also for what is not positive.
pub const Q_TREND: &str = "0.1";
/// `algorithm.predictive.measurementNoise`, also for what is not positive.
pub const MEASUREMENT_NOISE: &str = "10";
/// `algorithm.predictive.minPoints`.
pub const MIN_POINTS: i32 = 6;
/// `behavior.scaleUp.stabilizationWindowSeconds`.
pub const UP_WINDOW_SECONDS: i32 = 0;
/// `behavior.scaleUp.maxStepReplicas`, also for zero.
pub const MAX_STEP_REPLICAS: i32 = 4;
/// `behavior.scaleUp.maxStepPercent`, also for zero.
pub const MAX_STEP_PERCENT: i32 = 100;
/// `behavior.scaleDown.stabilizationWindowSeconds`; zero means it too.
pub const DOWN_WINDOW_SECONDS: i32 = 300;
/// `behavior.scaleDown.cooldownAfterAbortSeconds`; zero means it too.
pub const COOLDOWN_AFTER_ABORT_SECONDS: i32 = 300;
/// `behavior.scaleDown.decodePostScaleUpGraceSeconds`; zero means it too.
pub const DECODE_POST_SCALE_UP_GRACE_SECONDS: i32 = 120;
