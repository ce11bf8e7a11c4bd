//! One algorithm, and only its own parameters.

use crate::{
    api::{
        Quantity, ScalerSpec,
        quantity::Nanos,
        scaler::{Algorithm, AlgorithmKind, Metric, Predictive, Proportional, TokenThroughput},
    },
    policy::{
        checked::{
            AlgorithmPolicy, Capacities, Filter, PredictivePolicy, ProportionalPolicy, TokenPolicy,
        },
        defaults,
        fault::FaultKind,
        range,
        read::Reading,
    },
};

use super::{Checker, Sound, constant, quoted, written_as};

/// The fields of the three capacities in a token block, and in a predictive one.
pub(in crate::policy) const FALLBACKS: [&str; 3] = [
    "prefillTargetTokensPerSecond",
    "decodeTargetTokensPerSecond",
    "serverTargetTokensPerSecond",
];
pub(in crate::policy) const FORECASTS: [&str; 3] = [
    "prefillTokenCapacityPerReplica",
    "decodeTokenCapacityPerReplica",
    "serverTokenCapacityPerReplica",
];

const PATH: &str = "spec.algorithm";

/// The algorithm that a spec selects; `None` where its type cannot be read. A block that cannot be read is there all the
/// same.
pub(in crate::policy) fn algorithm_kind(reading: &Reading) -> Option<AlgorithmKind> {
    if reading.broken.contains_key("spec.algorithm.type") {
        return None;
    }
    let algorithm = reading.spec.algorithm.as_ref();
    let has =
        |block: &str, there: bool| there || reading.broken.contains_key(&format!("{PATH}.{block}"));
    let inferred = || {
        if has(
            "proportional",
            algorithm.is_some_and(|a| a.proportional.is_some()),
        ) {
            AlgorithmKind::Proportional
        } else if has(
            "predictive",
            algorithm.is_some_and(|a| a.predictive.is_some()),
        ) {
            AlgorithmKind::Predictive
        } else {
            AlgorithmKind::TokenThroughput
        }
    };
    Some(
        algorithm
            .and_then(|algorithm| algorithm.kind)
            .unwrap_or_else(inferred),
    )
}

/// Whether every ratio names two roles that have bounds.
fn ratios_are_sound(spec: &ScalerSpec) -> bool {
    let known = |name: &Option<String>| {
        name.is_some() && spec.roles.iter().flatten().any(|role| role.name == *name)
    };
    let mut ratios = spec.ratios.iter().flatten();
    ratios.all(|ratio| known(&ratio.numerator_role) && known(&ratio.denominator_role))
}

impl Checker<'_> {
    pub(super) fn algorithm(&mut self, spec: &ScalerSpec) -> Sound<AlgorithmPolicy> {
        if self.broken(PATH) {
            return None;
        }
        let empty = Algorithm::default();
        let algorithm = spec.algorithm.as_ref().unwrap_or(&empty);
        self.broken("spec.algorithm.type");
        let Some(kind) = algorithm_kind(self.reading) else {
            self.blocks(algorithm, spec);
            return None;
        };
        self.strangers(algorithm, kind);
        match kind {
            AlgorithmKind::Proportional => {
                let path = "spec.algorithm.proportional";
                let block = self.block(path, algorithm.proportional.as_ref(), algorithm, kind)?;
                self.proportional(path, block, spec)
                    .map(AlgorithmPolicy::Proportional)
            }
            AlgorithmKind::TokenThroughput => {
                let path = "spec.algorithm.tokenThroughput";
                let block =
                    self.block(path, algorithm.token_throughput.as_ref(), algorithm, kind)?;
                self.tokens(path, block)
                    .map(AlgorithmPolicy::TokenThroughput)
            }
            AlgorithmKind::Predictive => {
                let path = "spec.algorithm.predictive";
                let block = self.block(path, algorithm.predictive.as_ref(), algorithm, kind)?;
                self.predictive(path, block)
                    .map(AlgorithmPolicy::Predictive)
            }
        }
    }

    /// Each block that is there, by itself: which of them is the type's is not known.
    fn blocks(&mut self, algorithm: &Algorithm, spec: &ScalerSpec) {
        if let Some(block) = &algorithm.proportional {
            self.proportional("spec.algorithm.proportional", block, spec);
        }
        if let Some(block) = &algorithm.token_throughput {
            self.tokens("spec.algorithm.tokenThroughput", block);
        }
        if let Some(block) = &algorithm.predictive {
            self.predictive("spec.algorithm.predictive", block);
        }
    }

    /// Blocks that are not the type's.
    fn strangers(&mut self, algorithm: &Algorithm, kind: AlgorithmKind) {
        let blocks = [
            (
                AlgorithmKind::Proportional,
                "proportional",
                algorithm.proportional.is_some(),
            ),
            (
                AlgorithmKind::TokenThroughput,
                "tokenThroughput",
                algorithm.token_throughput.is_some(),
            ),
            (
                AlgorithmKind::Predictive,
                "predictive",
                algorithm.predictive.is_some(),
            ),
        ];
        for (other, name, there) in blocks {
            if !there || other == kind {
                continue;
            }
            let own = blocks
                .iter()
                .find(|(block, ..)| *block == kind)
                .filter(|(.., there)| *there)
                .map(|(_, name, _)| *name);
            let also = own.map_or_else(String::new, |own| format!(" and remove {own}"));
            let message = format!(
                "type is {}: remove this block, or set type: {}{also}",
                kind.as_str(),
                other.as_str()
            );
            self.fault(&format!("{PATH}.{name}"), FaultKind::Forbidden, "", message);
        }
    }

    fn block<'b, T>(
        &mut self,
        path: &str,
        block: Option<&'b T>,
        algorithm: &Algorithm,
        kind: AlgorithmKind,
    ) -> Sound<&'b T> {
        if block.is_none() && !self.broken(path) {
            // The stored type hides whether it was written: without any block it is the fallback.
            let bare = kind == AlgorithmKind::TokenThroughput
                && algorithm.proportional.is_none()
                && algorithm.predictive.is_none();
            let message = if bare {
                "no block: add tokenThroughput, proportional or predictive".to_owned()
            } else {
                format!("type is {}: add this block", kind.as_str())
            };
            self.required(path, &message);
        }
        block
    }

    fn proportional(
        &mut self,
        path: &str,
        block: &Proportional,
        spec: &ScalerSpec,
    ) -> Sound<ProportionalPolicy> {
        let metric = self.metric(&format!("{path}.metric"), block.metric);
        let tolerance_path = format!("{path}.tolerance");
        let mut tolerance = self.positive_or(
            &tolerance_path,
            block.tolerance.as_ref(),
            defaults::TOLERANCE,
        );
        if let (Some(nanos), Some(written)) = (tolerance, &block.tolerance)
            && nanos > Nanos::ONE
        {
            self.invalid(&tolerance_path, &written_as(written), "must be at most 1");
            tolerance = None;
        }
        let targets = self.role_targets(&format!("{path}.roleTargets"), block, spec);
        Some(ProportionalPolicy {
            metric: metric?,
            tolerance: tolerance?,
            targets: targets?,
        })
    }

    fn metric(&mut self, path: &str, metric: Option<Metric>) -> Sound<Metric> {
        if metric.is_none() && !self.broken(path) {
            self.required(path, "choose a measurement: metric: QueueDepth");
        }
        metric
    }

    fn role_targets(
        &mut self,
        path: &str,
        block: &Proportional,
        spec: &ScalerSpec,
    ) -> Sound<Vec<Option<Nanos>>> {
        if self.broken(path) {
            return None;
        }
        let list = block.role_targets.as_deref().unwrap_or_default();
        if list.is_empty() {
            self.required(
                path,
                "give a role its target: roleTargets: [{name: server, target: \"8\"}]",
            );
            return None;
        }
        if list.len() > range::MOST_ROLES {
            self.fault(
                path,
                FaultKind::TooMany,
                &list.len().to_string(),
                format!("must have at most {} entries", range::MOST_ROLES),
            );
            return None;
        }
        let before = self.faults.len();
        let mut targets = vec![None; spec.roles.as_ref().map_or(0, Vec::len)];
        for (index, entry) in list.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if self.broken(&path) {
                continue;
            }
            if let Some(name) = entry.name.as_deref().filter(|name| !name.is_empty())
                && let Some(first) = list[..index]
                    .iter()
                    .position(|other| other.name.as_deref() == Some(name))
            {
                self.fault(
                    &path,
                    FaultKind::Duplicate,
                    &quoted(name),
                    format!("{} is already at roleTargets[{first}]", quoted(name)),
                );
            }
            let role = self.role(&format!("{path}.name"), entry.name.as_deref(), spec);
            let target_path = format!("{path}.target");
            if entry.target.is_none() && !self.broken(&target_path) {
                self.required(
                    &target_path,
                    "state the load of one ready replica: target: \"8\"",
                );
            }
            let target = self.positive(&target_path, entry.target.as_ref()).flatten();
            if let (Some(role), Some(target)) = (role, target)
                && let Some(place) = targets.get_mut(role)
            {
                *place = Some(target);
            }
        }
        // A name that is a fault itself may be the very target, or the ratio, that a role seems to lack.
        if self.faults.len() == before && ratios_are_sound(spec) {
            self.uncoupled(spec, block);
        }
        (self.faults.len() == before).then_some(targets)
    }

    /// Every role needs a target of its own, or a direct ratio to a role that has one.
    fn uncoupled(&mut self, spec: &ScalerSpec, block: &Proportional) {
        let targeted: Vec<&str> = block
            .role_targets
            .iter()
            .flatten()
            .filter_map(|entry| entry.name.as_deref())
            .collect();
        let ratios = spec.ratios.as_deref().unwrap_or_default();
        for (index, role) in spec.roles.iter().flatten().enumerate() {
            let Some(name) = role
                .name
                .as_deref()
                .filter(|name| !name.is_empty() && !targeted.contains(name))
            else {
                continue;
            };
            let coupled = ratios.iter().any(|ratio| {
                let pair = (ratio.numerator_role.as_deref(), ratio.denominator_role.as_deref());
                matches!(pair, (Some(n), Some(d)) if (n == name && targeted.contains(&d)) || (d == name && targeted.contains(&n)))
            });
            if !coupled {
                let known: Vec<&str> = spec
                    .roles
                    .iter()
                    .flatten()
                    .filter_map(|role| role.name.as_deref())
                    .filter(|name| targeted.contains(name))
                    .collect();
                let message = format!(
                    "add it to roleTargets, or add a ratio to one of: {}",
                    known.join(", ")
                );
                self.fault(
                    &format!("spec.roles[{index}].name"),
                    FaultKind::Required,
                    &quoted(name),
                    message,
                );
            }
        }
    }

    fn tokens(&mut self, path: &str, block: &TokenThroughput) -> Sound<TokenPolicy> {
        if self.broken(path) {
            return None;
        }
        let before = self.faults.len();
        let written = [
            &block.prefill_target_tokens_per_second,
            &block.decode_target_tokens_per_second,
            &block.server_target_tokens_per_second,
        ];
        let capacity = self.capacities(path, FALLBACKS, written);
        if written.iter().all(|value| value.is_none()) && self.faults.len() == before {
            self.required(
                path,
                "at least one of prefill-, decode-, serverTargetTokensPerSecond",
            );
        }
        let stable_window = self.seconds(
            &format!("{path}.stableWindowSeconds"),
            block.stable_window_seconds,
            defaults::STABLE_WINDOW_SECONDS,
            range::STABLE_WINDOW,
        );
        let panic_window = self.seconds(
            &format!("{path}.panicWindowSeconds"),
            block.panic_window_seconds,
            defaults::PANIC_WINDOW_SECONDS,
            range::PANIC_WINDOW,
        );
        let panic_threshold = self.positive_or(
            &format!("{path}.panicThreshold"),
            block.panic_threshold.as_ref(),
            defaults::PANIC_THRESHOLD,
        );
        let ttft_target = self.positive_or(
            &format!("{path}.ttftTargetMilliseconds"),
            block.ttft_target_milliseconds.as_ref(),
            defaults::TTFT_TARGET_MILLISECONDS,
        );
        let itl_target = self.positive_or(
            &format!("{path}.itlTargetMilliseconds"),
            block.itl_target_milliseconds.as_ref(),
            defaults::ITL_TARGET_MILLISECONDS,
        );
        Some(TokenPolicy {
            capacity: capacity?,
            stable_window: stable_window?,
            panic_window: panic_window?,
            panic_threshold: panic_threshold?,
            ttft_target: ttft_target?,
            itl_target: itl_target?,
        })
    }

    fn capacities(
        &mut self,
        path: &str,
        fields: [&str; 3],
        written: [&Option<Quantity>; 3],
    ) -> Sound<Capacities> {
        let [prefill, decode, server] = [0, 1, 2].map(|kind: usize| {
            self.positive(&format!("{path}.{}", fields[kind]), written[kind].as_ref())
        });
        Some(Capacities {
            prefill: prefill?,
            decode: decode?,
            server: server?,
        })
    }

    fn predictive(&mut self, path: &str, block: &Predictive) -> Sound<PredictivePolicy> {
        let fallback_path = format!("{path}.tokenThroughput");
        let token = if let Some(fallback) = &block.token_throughput {
            self.tokens(&fallback_path, fallback)
        } else {
            if !self.broken(&fallback_path) {
                self.required(
                    &fallback_path,
                    "state the fallback: tokenThroughput: {serverTargetTokensPerSecond: \"2000\"}",
                );
            }
            None
        };
        let horizon = self.seconds(
            &format!("{path}.horizonSeconds"),
            block.horizon_seconds,
            defaults::HORIZON_SECONDS,
            range::HORIZON,
        );
        let written = [
            &block.prefill_token_capacity_per_replica,
            &block.decode_token_capacity_per_replica,
            &block.server_token_capacity_per_replica,
        ];
        let capacity = self.capacities(path, FORECASTS, written);
        let q_level = self.noise(
            &format!("{path}.qLevel"),
            block.q_level.as_ref(),
            defaults::Q_LEVEL,
        );
        let q_trend = self.noise(
            &format!("{path}.qTrend"),
            block.q_trend.as_ref(),
            defaults::Q_TREND,
        );
        let measurement_noise = self.noise(
            &format!("{path}.measurementNoise"),
            block.measurement_noise.as_ref(),
            defaults::MEASUREMENT_NOISE,
        );
        let min_points = self.seconds(
            &format!("{path}.minPoints"),
            block.min_points,
            defaults::MIN_POINTS,
            range::MIN_POINTS,
        );
        if let Some(fallback) = &block.token_throughput {
            self.paired(path, fallback, written);
        }
        Some(PredictivePolicy {
            token: token?,
            capacity: capacity?,
            horizon: horizon?,
            min_points: min_points?,
            filter: Filter {
                q_level: q_level?,
                q_trend: q_trend?,
                measurement_noise: measurement_noise?,
            },
        })
    }

    /// A forecast needs both values of at least one kind.
    fn paired(
        &mut self,
        path: &str,
        fallback: &TokenThroughput,
        forecasts: [&Option<Quantity>; 3],
    ) {
        let fallbacks = [
            &fallback.prefill_target_tokens_per_second,
            &fallback.decode_target_tokens_per_second,
            &fallback.server_target_tokens_per_second,
        ];
        // What cannot be read is there all the same.
        let broken = |field: String| self.reading.broken.contains_key(&field);
        let now = [0, 1, 2].map(|kind: usize| {
            fallbacks[kind].is_some()
                || broken(format!("{path}.tokenThroughput.{}", FALLBACKS[kind]))
        });
        let ahead = [0, 1, 2].map(|kind: usize| {
            forecasts[kind].is_some() || broken(format!("{path}.{}", FORECASTS[kind]))
        });
        // A fallback without any value is told as such.
        if now == [false; 3] || (0..3).any(|kind| now[kind] && ahead[kind]) {
            return;
        }
        for kind in (0..3).filter(|&kind| ahead[kind]) {
            let path = format!("{path}.tokenThroughput.{}", FALLBACKS[kind]);
            self.required(
                &path,
                &format!("{} is set: add {}", FORECASTS[kind], FALLBACKS[kind]),
            );
        }
        for kind in (0..3).filter(|&kind| now[kind]) {
            let path = format!("{path}.{}", FORECASTS[kind]);
            self.required(
                &path,
                &format!("{} is set: add {}", FALLBACKS[kind], FORECASTS[kind]),
            );
        }
    }

    /// A noise: what is not positive means the default.
    fn noise(&mut self, path: &str, value: Option<&Quantity>, default: &str) -> Sound<f64> {
        let nanos = self
            .quantity(path, value)?
            .filter(|nanos| *nanos > Nanos::new(0))
            .unwrap_or_else(|| constant(default));
        Some(nanos.to_f64())
    }
}
