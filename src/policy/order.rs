//! Faults in the order of the fields.

use super::fault::Fault;

/// The fields of a spec in the order in which people write them, block by block.
const FIELDS: [&str; 53] = [
    "spec",
    "targetRef",
    "mode",
    "suspend",
    "sampling",
    "intervalSeconds",
    "pendingTimeoutSeconds",
    "roles",
    "ratios",
    "numeratorRole",
    "denominatorRole",
    "algorithm",
    "type",
    "proportional",
    "metric",
    "tolerance",
    "roleTargets",
    "name",
    "minReplicas",
    "maxReplicas",
    "min",
    "target",
    "max",
    "tokenThroughput",
    "prefillTargetTokensPerSecond",
    "decodeTargetTokensPerSecond",
    "serverTargetTokensPerSecond",
    "stableWindowSeconds",
    "panicWindowSeconds",
    "panicThreshold",
    "ttftTargetMilliseconds",
    "itlTargetMilliseconds",
    "predictive",
    "horizonSeconds",
    "prefillTokenCapacityPerReplica",
    "decodeTokenCapacityPerReplica",
    "serverTokenCapacityPerReplica",
    "qLevel",
    "qTrend",
    "measurementNoise",
    "minPoints",
    "behavior",
    "scaleUp",
    "scaleDown",
    "stabilizationWindowSeconds",
    "maxStepReplicas",
    "maxStepPercent",
    "cooldownAfterAbortSeconds",
    "decodePostScaleUpGraceSeconds",
    "stepPolicy",
    "value",
    "rebalance",
    "policy",
];

/// Sorts faults by their fields: blocks in the order of the spec, entries by place. Faults of one field stay in order.
pub fn in_field_order(faults: &mut [Fault]) {
    faults.sort_by_cached_key(|fault| key(&fault.path));
}

/// The ranks of a path's fields, each with its place in a list; a list itself comes before its entries.
fn key(path: &str) -> Vec<(usize, Option<usize>)> {
    path.split('.')
        .map(|part| {
            let (name, place) = match part.split_once('[') {
                Some((name, place)) => (name, place.trim_end_matches(']').parse().ok()),
                None => (part, None),
            };
            let rank = FIELDS.iter().position(|field| *field == name);
            (rank.unwrap_or(FIELDS.len()), place)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::crd, policy::FaultKind};
    use serde_json::Value;

    fn names(schema: &Value, found: &mut Vec<String>) {
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            found.push(name.clone());
            names(child, found);
        }
        if schema["items"].is_object() {
            names(&schema["items"], found);
        }
    }

    #[test]
    fn every_field_of_the_schema_has_a_rank_and_no_rank_is_unused() {
        let crd = crd();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut found = vec!["spec".to_owned()];
        // `priority` comes last.
        names(schema, &mut found);
        found.retain(|name| name != "priority");
        found.sort();
        found.dedup();
        let mut ranked: Vec<_> = FIELDS.map(str::to_owned).into();
        ranked.sort();
        assert_eq!(found, ranked);
    }

    #[test]
    fn blocks_come_in_the_order_of_the_spec_and_entries_by_place() {
        let order = [
            "spec",
            "spec.mode",
            "spec.roles",
            "spec.roles[0].name",
            "spec.roles[2]",
            "spec.roles[2].minReplicas",
            "spec.roles[10].name",
            "spec.ratios[0].denominatorRole",
            "spec.ratios[0].target",
            "spec.algorithm.proportional",
            "spec.algorithm.tokenThroughput.panicThreshold",
            "spec.algorithm.predictive.tokenThroughput",
            "spec.algorithm.predictive.tokenThroughput.serverTargetTokensPerSecond",
            "spec.algorithm.predictive.minPoints",
            "spec.behavior.scaleDown.stepPolicy.type",
            "spec.behavior.scaleDown.stepPolicy.value",
            "spec.rebalance.policy",
            "spec.rebalance.priority[1]",
        ];
        let fault = |path: &&str| Fault {
            path: (*path).to_owned(),
            kind: FaultKind::Invalid,
            value: String::new(),
            message: String::new(),
        };
        let mut faults: Vec<Fault> = order.iter().rev().map(fault).collect();
        in_field_order(&mut faults);
        let sorted: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(sorted, order);
    }
}
