//! Pacing, guards, and who may give a replica away.

use crate::{
    api::{
        ScalerSpec,
        scaler::{RebalancePolicy, StepKind, StepPolicy},
    },
    policy::{
        checked::{RebalanceOrder, ScaleDownPolicy, ScaleUpPolicy},
        defaults,
        fault::FaultKind,
        range::{self, Range},
    },
    ratio::Step,
};

use super::{Checker, Sound, quoted};

impl Checker<'_> {
    pub(super) fn scale_up(&mut self, spec: &ScalerSpec) -> Sound<ScaleUpPolicy> {
        let path = "spec.behavior.scaleUp";
        if self.broken("spec.behavior") || self.broken(path) {
            return None;
        }
        let block = spec
            .behavior
            .as_ref()
            .and_then(|behavior| behavior.scale_up.clone())
            .unwrap_or_default();
        let stabilization = self.seconds(
            &format!("{path}.stabilizationWindowSeconds"),
            block.stabilization_window_seconds,
            defaults::UP_WINDOW_SECONDS,
            range::UP_WINDOW,
        );
        let replicas = self.or_default(
            &format!("{path}.maxStepReplicas"),
            block.max_step_replicas,
            defaults::MAX_STEP_REPLICAS,
            range::MAX_STEP_REPLICAS,
        );
        let percent = self.or_default(
            &format!("{path}.maxStepPercent"),
            block.max_step_percent,
            defaults::MAX_STEP_PERCENT,
            range::MAX_STEP_PERCENT,
        );
        let policy = self.step(&format!("{path}.stepPolicy"), block.step_policy.as_ref());
        let both = replicas
            .zip(percent)
            .map(|(replicas, percent)| Step::Larger { replicas, percent });
        Some(ScaleUpPolicy {
            stabilization: stabilization?,
            step: policy?.or(both)?,
        })
    }

    pub(super) fn scale_down(&mut self, spec: &ScalerSpec) -> Sound<ScaleDownPolicy> {
        let path = "spec.behavior.scaleDown";
        if self.broken("spec.behavior") || self.broken(path) {
            return None;
        }
        let block = spec
            .behavior
            .as_ref()
            .and_then(|behavior| behavior.scale_down.clone())
            .unwrap_or_default();
        let stabilization = self.or_default(
            &format!("{path}.stabilizationWindowSeconds"),
            block.stabilization_window_seconds,
            defaults::DOWN_WINDOW_SECONDS,
            range::DOWN_WINDOW,
        );
        let cooldown_after_abort = self.or_default(
            &format!("{path}.cooldownAfterAbortSeconds"),
            block.cooldown_after_abort_seconds,
            defaults::COOLDOWN_AFTER_ABORT_SECONDS,
            range::COOLDOWN,
        );
        let decode_grace = self.or_default(
            &format!("{path}.decodePostScaleUpGraceSeconds"),
            block.decode_post_scale_up_grace_seconds,
            defaults::DECODE_POST_SCALE_UP_GRACE_SECONDS,
            range::DECODE_GRACE,
        );
        let policy = self.step(&format!("{path}.stepPolicy"), block.step_policy.as_ref());
        Some(ScaleDownPolicy {
            stabilization: stabilization?,
            cooldown_after_abort: cooldown_after_abort?,
            decode_grace: decode_grace?,
            step: policy?.unwrap_or(Step::Pods(1)),
        })
    }

    /// An integer for which zero means the default too.
    fn or_default(
        &mut self,
        path: &str,
        value: Option<i32>,
        default: i32,
        range: Range,
    ) -> Sound<u32> {
        let value = self.integer(path, value, default, range)?;
        u32::try_from(if value == 0 { default } else { value }).ok()
    }

    fn step(&mut self, path: &str, policy: Option<&StepPolicy>) -> Sound<Option<Step>> {
        if self.broken(path) {
            return None;
        }
        let Some(policy) = policy else {
            return Some(None);
        };
        let (kind_path, value_path) = (format!("{path}.type"), format!("{path}.value"));
        if policy.kind.is_none() && !self.broken(&kind_path) {
            self.required(&kind_path, "choose the unit of value: type: Pods");
        }
        let value = match policy.value {
            None => {
                if !self.broken(&value_path) {
                    self.required(&value_path, "state how far one pass may move: value: 2");
                }
                None
            }
            value => self.seconds(&value_path, value, 0, range::STEP_VALUE),
        };
        Some(Some(match (policy.kind?, value?) {
            (StepKind::Pods, n) => Step::Pods(n),
            (StepKind::Percent, n) => Step::Percent(n),
        }))
    }

    pub(super) fn rebalance(&mut self, spec: &ScalerSpec) -> Sound<RebalanceOrder> {
        let path = "spec.rebalance.priority";
        if self.broken("spec.rebalance") {
            return None;
        }
        self.broken("spec.rebalance.policy");
        let block = spec.rebalance.clone().unwrap_or_default();
        let order = if self.broken(path) {
            None
        } else {
            self.priority(path, &block.priority.unwrap_or_default(), spec)
        };
        Some(match block.policy.unwrap_or_default() {
            RebalancePolicy::Opposing => RebalanceOrder::Opposing,
            RebalancePolicy::Priority => RebalanceOrder::Priority(order?),
            RebalancePolicy::Disabled => RebalanceOrder::Disabled,
        })
    }

    fn priority(&mut self, path: &str, list: &[String], spec: &ScalerSpec) -> Sound<Vec<usize>> {
        if list.len() > range::MOST_ROLES {
            self.fault(
                path,
                FaultKind::TooMany,
                &list.len().to_string(),
                format!("must have at most {} entries", range::MOST_ROLES),
            );
            return None;
        }
        let mut order = Vec::with_capacity(list.len());
        for (index, name) in list.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if self.broken(&path) {
                continue;
            }
            if let Some(first) = list[..index].iter().position(|other| other == name) {
                self.fault(
                    &path,
                    FaultKind::Duplicate,
                    &quoted(name),
                    format!("{} is already at priority[{first}]", quoted(name)),
                );
                continue;
            }
            order.extend(self.role(&path, Some(name), spec));
        }
        (order.len() == list.len()).then_some(order)
    }
}
