//! The range of every integer of the spec, stated once. The schema states them too, for `kubectl explain` and editors; a
//! test compares both.

/// Inclusive ends of a range; no upper end means the largest int32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Path below `spec`, without list places.
    pub path: &'static str,
    /// Least value.
    pub min: i32,
    /// Greatest value.
    pub max: Option<i32>,
}

const fn range(path: &'static str, min: i32, max: i32) -> Range {
    Range {
        path,
        min,
        max: Some(max),
    }
}

const fn at_least(path: &'static str, min: i32) -> Range {
    Range {
        path,
        min,
        max: None,
    }
}

pub(super) const INTERVAL: Range = range("sampling.intervalSeconds", 5, 300);
pub(super) const PENDING_TIMEOUT: Range = range("sampling.pendingTimeoutSeconds", 60, 1200);
pub(super) const MIN_REPLICAS: Range = range("roles.minReplicas", 1, 1024);
pub(super) const MAX_REPLICAS: Range = range("roles.maxReplicas", 1, 1024);
pub(super) const STABLE_WINDOW: Range =
    range("algorithm.tokenThroughput.stableWindowSeconds", 30, 600);
pub(super) const PANIC_WINDOW: Range =
    range("algorithm.tokenThroughput.panicWindowSeconds", 10, 300);
pub(super) const HORIZON: Range = range("algorithm.predictive.horizonSeconds", 30, 600);
pub(super) const MIN_POINTS: Range = range("algorithm.predictive.minPoints", 1, 64);
pub(super) const UP_WINDOW: Range = range("behavior.scaleUp.stabilizationWindowSeconds", 0, 600);
pub(super) const MAX_STEP_REPLICAS: Range = at_least("behavior.scaleUp.maxStepReplicas", 0);
pub(super) const MAX_STEP_PERCENT: Range = range("behavior.scaleUp.maxStepPercent", 0, 1000);
pub(super) const STEP_VALUE: Range = at_least("behavior.scaleUp.stepPolicy.value", 0);
pub(super) const DOWN_WINDOW: Range =
    range("behavior.scaleDown.stabilizationWindowSeconds", 0, 1800);
pub(super) const COOLDOWN: Range = range("behavior.scaleDown.cooldownAfterAbortSeconds", 0, 3600);
pub(super) const DECODE_GRACE: Range =
    range("behavior.scaleDown.decodePostScaleUpGraceSeconds", 0, 3600);

/// Most roles of a scaler, targets of Proportional and names of a priority list.
pub(super) const MOST_ROLES: usize = 16;
/// Most ratios of a scaler.
pub(super) const MOST_RATIOS: usize = 64;

#[cfg(test)]
pub(super) const ALL: [Range; 15] = [
    INTERVAL,
    PENDING_TIMEOUT,
    MIN_REPLICAS,
    MAX_REPLICAS,
    STABLE_WINDOW,
    PANIC_WINDOW,
    HORIZON,
    MIN_POINTS,
    UP_WINDOW,
    MAX_STEP_REPLICAS,
    MAX_STEP_PERCENT,
    STEP_VALUE,
    DOWN_WINDOW,
    COOLDOWN,
    DECODE_GRACE,
];

impl Range {
    /// The rule in words.
    pub(super) fn rule(self) -> String {
        match (self.path, self.max) {
            ("roles.minReplicas" | "roles.maxReplicas", Some(max)) => {
                format!("must be between 1 and {max}")
            }
            (_, Some(max)) => format!("must be between {} and {max}", self.min),
            (_, None) => format!("must be at least {}", self.min),
        }
    }

    /// Whether a value lies in the range.
    pub(super) fn contains(self, value: i32) -> bool {
        value >= self.min && self.max.is_none_or(|max| value <= max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::crd;
    use serde_json::Value;

    fn walk(node: &Value, path: &str, found: &mut Vec<(String, Option<i64>, Option<i64>)>) {
        if node["type"] == "integer" {
            found.push((
                path.to_owned(),
                node["minimum"].as_i64(),
                node["maximum"].as_i64(),
            ));
        }
        for (name, child) in node["properties"].as_object().into_iter().flatten() {
            walk(
                child,
                if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                }
                .as_str(),
                found,
            );
        }
        if node["items"].is_object() {
            walk(&node["items"], path, found);
        }
    }

    #[test]
    fn schema_and_webhook_state_the_same_ranges() {
        let mut found = vec![];
        walk(
            &crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"],
            "",
            &mut found,
        );
        assert_eq!(found.len(), 18, "{found:?}");
        for (path, min, max) in found {
            // The fallback block of Predictive and both step policies are read by one rule each.
            let rule = path
                .replace("predictive.tokenThroughput.", "tokenThroughput.")
                .replace("scaleDown.stepPolicy", "scaleUp.stepPolicy");
            let range = ALL
                .iter()
                .find(|range| range.path == rule)
                .unwrap_or_else(|| panic!("no rule for {path}"));
            assert_eq!(
                (min, max),
                (Some(i64::from(range.min)), range.max.map(i64::from)),
                "{path}"
            );
        }
    }
}
