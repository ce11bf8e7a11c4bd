use super::*;
use serde_json::{Value, json, value::RawValue};

/// Faults of a spec as (path below spec, kind, message).
fn faults(spec: &Value) -> Vec<(String, FaultKind, String)> {
    let reading = crate::policy::read(&RawValue::from_string(spec.to_string()).unwrap());
    let faults = check(&reading).err().unwrap_or_default();
    faults
        .into_iter()
        .map(|f| {
            (
                f.path
                    .strip_prefix("spec")
                    .unwrap()
                    .trim_start_matches('.')
                    .to_owned(),
                f.kind,
                f.message,
            )
        })
        .collect()
}

fn policy(spec: &Value) -> Policy {
    check(&crate::policy::read(
        &RawValue::from_string(spec.to_string()).unwrap(),
    ))
    .unwrap()
}

fn base() -> Value {
    json!({"targetRef": {"name": "t"}, "roles": [{"name": "server", "maxReplicas": 4}],
        "algorithm": {"proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": "8"}]}}})
}

fn pair() -> Value {
    json!({"targetRef": {"name": "t"}, "roles": [{"name": "prefill", "maxReplicas": 8}, {"name": "decode", "maxReplicas": 8}],
        "algorithm": {"tokenThroughput": {"prefillTargetTokensPerSecond": "2000", "decodeTargetTokensPerSecond": "800"}}})
}

/// `base` with another value at a JSON pointer.
fn with(mut spec: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let mut node = &mut spec;
    for part in parent.split('/').skip(1) {
        node = match node {
            Value::Array(list) => &mut list[part.parse::<usize>().unwrap()],
            other => &mut other[part],
        };
    }
    match node {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        other => other[key] = value,
    }
    spec
}

#[test]
fn a_sound_spec_is_a_policy_with_every_default_in_place() {
    let policy = policy(&base());
    assert_eq!(
        (
            policy.target.as_str(),
            policy.interval,
            policy.pending_timeout
        ),
        ("t", 15, 300)
    );
    assert_eq!(
        policy.scale_up.step,
        crate::ratio::Step::Larger {
            replicas: 4,
            percent: 100
        }
    );
    assert_eq!(
        (
            policy.scale_down.stabilization,
            policy.scale_down.decode_grace
        ),
        (300, 120)
    );
}

#[test]
fn faults_come_all_at_once_in_the_order_of_the_fields() {
    let mut spec = base();
    spec["mode"] = json!("active");
    spec["sampling"] = json!({"intervalSeconds": 4});
    spec["roles"] = json!([{"name": "server", "minReplicas": 5, "maxReplicas": 4}, {"name": "server", "maxReplicas": 0}]);
    spec["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": 1801}});
    let paths: Vec<_> = faults(&spec)
        .into_iter()
        .map(|(path, kind, _)| (path, kind))
        .collect();
    assert_eq!(
        paths,
        [
            ("mode".to_owned(), FaultKind::NotSupported),
            ("sampling.intervalSeconds".to_owned(), FaultKind::Invalid),
            ("roles[0].maxReplicas".to_owned(), FaultKind::Invalid),
            ("roles[1]".to_owned(), FaultKind::Duplicate),
            ("roles[1].maxReplicas".to_owned(), FaultKind::Invalid),
            (
                "behavior.scaleDown.stabilizationWindowSeconds".to_owned(),
                FaultKind::Invalid
            ),
        ]
    );
}

#[test]
fn each_rule_names_its_field_and_the_way_out() {
    let one = |spec: Value, path: &str, kind, message: &str| {
        assert_eq!(faults(&spec), [(path.to_owned(), kind, message.to_owned())]);
    };
    one(
        with(base(), "/roles/0/minReplicas", json!(0)),
        "roles[0].minReplicas",
        FaultKind::Invalid,
        "must be at least 1: a scaler cannot scale to zero",
    );
    one(
        with(base(), "/roles/0/minReplicas", json!(5)),
        "roles[0].maxReplicas",
        FaultKind::Invalid,
        "must be at least minReplicas (5): raise it, or lower minReplicas",
    );
    one(
        with(base(), "/roles/0/maxReplicas", json!(1025)),
        "roles[0].maxReplicas",
        FaultKind::Invalid,
        "must be between 1 and 1024",
    );
    one(
        with(
            base(),
            "/algorithm/proportional/tolerance",
            json!("1.000000001"),
        ),
        "algorithm.proportional.tolerance",
        FaultKind::Invalid,
        "must be at most 1",
    );
    one(
        with(base(), "/algorithm/proportional/tolerance", json!("0")),
        "algorithm.proportional.tolerance",
        FaultKind::Invalid,
        "must be greater than 0",
    );
    one(
        with(
            base(),
            "/algorithm/proportional/roleTargets/0/target",
            json!("abc"),
        ),
        "algorithm.proportional.roleTargets[0].target",
        FaultKind::Invalid,
        "not a quantity: write \"0.5\", \"500m\" or \"8\"",
    );
    one(
        with(base(), "/rebalance", json!({"priority": ["ghost"]})),
        "rebalance.priority[0]",
        FaultKind::NotFound,
        "not in spec.roles (server): add bounds for it, or correct the name",
    );
    one(
        with(
            base(),
            "/algorithm/tokenThroughput",
            json!({"serverTargetTokensPerSecond": "1"}),
        ),
        "algorithm.tokenThroughput",
        FaultKind::Forbidden,
        "type is Proportional: remove this block, or set type: TokenThroughput and remove proportional",
    );
    one(
        with(base(), "/algorithm", json!({})),
        "algorithm.tokenThroughput",
        FaultKind::Required,
        "no block: add tokenThroughput, proportional or predictive",
    );
    one(
        with(base(), "/algorithm", json!({"type": "Predictive"})),
        "algorithm.predictive",
        FaultKind::Required,
        "type is Predictive: add this block",
    );
    one(
        with(base(), "/algorithm", json!({"tokenThroughput": {}})),
        "algorithm.tokenThroughput",
        FaultKind::Required,
        "at least one of prefill-, decode-, serverTargetTokensPerSecond",
    );
    one(
        with(base(), "/targetRef", json!({"name": ""})),
        "targetRef.name",
        FaultKind::Required,
        "name the ModelDeployment to scale: targetRef: {name: llm-serving}",
    );
}

#[test]
fn an_impossible_ratio_is_refused_with_its_proof() {
    let mut spec = pair();
    spec["roles"] = json!([{"name": "prefill", "maxReplicas": 4}, {"name": "decode", "minReplicas": 3, "maxReplicas": 16}]);
    spec["ratios"] = json!([{"numeratorRole": "prefill", "denominatorRole": "decode", "min": "2"}]);
    assert_eq!(
        faults(&spec),
        [(
            "ratios[0]".to_owned(),
            FaultKind::Invalid,
            "no counts keep every bound and ratio: prefill <= 4 (maxReplicas) and prefill/decode >= 2 (ratios[0].min) force decode <= 2, but decode >= 3 \
             (minReplicas); raise maxReplicas of prefill, lower minReplicas of decode or lower ratios[0].min"
                .to_owned()
        )]
    );
}

#[test]
fn ratios_are_judged_part_by_part() {
    let ratio = |fields: Value| {
        let mut ratio = json!({"numeratorRole": "prefill", "denominatorRole": "decode"});
        ratio
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        with(pair(), "/ratios", json!([ratio]))
    };
    for (fields, path, message) in [
        (
            json!({"min": "2", "max": "1"}),
            "ratios[0].max",
            "must be at least min (2)",
        ),
        (
            json!({"min": "2", "target": "1"}),
            "ratios[0].target",
            "must be at least min (2)",
        ),
        (
            json!({"target": "2", "max": "1"}),
            "ratios[0].max",
            "must be at least target (2)",
        ),
        (
            json!({"min": "0"}),
            "ratios[0].min",
            "must be greater than 0",
        ),
        (
            json!({"denominatorRole": "prefill"}),
            "ratios[0].denominatorRole",
            "must differ from numeratorRole",
        ),
    ] {
        assert_eq!(
            faults(&ratio(fields)),
            [(path.to_owned(), FaultKind::Invalid, message.to_owned())]
        );
    }
    let twice = json!([{"numeratorRole": "prefill", "denominatorRole": "decode"}, {"numeratorRole": "prefill", "denominatorRole": "decode"}]);
    assert_eq!(
        faults(&with(pair(), "/ratios", twice)),
        [(
            "ratios[1]".to_owned(),
            FaultKind::Duplicate,
            "\"prefill/decode\" is already at ratios[0]".to_owned()
        )]
    );
    let turned = json!([{"numeratorRole": "prefill", "denominatorRole": "decode"}, {"numeratorRole": "decode", "denominatorRole": "prefill"}]);
    assert_eq!(faults(&with(pair(), "/ratios", turned)), []);
}

#[test]
fn a_role_without_a_target_needs_a_direct_ratio_to_one_that_has_one() {
    let roles = json!([{"name": "a", "maxReplicas": 4}, {"name": "b", "maxReplicas": 4}, {"name": "c", "maxReplicas": 4}]);
    let proportional = json!({"proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "a", "target": 8}]}});
    let spec = json!({"targetRef": {"name": "t"}, "roles": roles, "algorithm": proportional,
        "ratios": [{"numeratorRole": "a", "denominatorRole": "b"}, {"numeratorRole": "b", "denominatorRole": "c"}]});
    assert_eq!(
        faults(&spec),
        [(
            "roles[2].name".to_owned(),
            FaultKind::Required,
            "add it to roleTargets, or add a ratio to one of: a".to_owned()
        )]
    );
}

#[test]
fn a_forecast_needs_both_values_of_one_kind() {
    let spec = with(
        pair(),
        "/algorithm",
        json!({"predictive": {"tokenThroughput": {"prefillTargetTokensPerSecond": "1"}, "decodeTokenCapacityPerReplica": "1"}}),
    );
    assert_eq!(
        faults(&spec),
        [
            (
                "algorithm.predictive.tokenThroughput.decodeTargetTokensPerSecond".to_owned(),
                FaultKind::Required,
                "decodeTokenCapacityPerReplica is set: add decodeTargetTokensPerSecond".to_owned()
            ),
            (
                "algorithm.predictive.prefillTokenCapacityPerReplica".to_owned(),
                FaultKind::Required,
                "prefillTargetTokensPerSecond is set: add prefillTokenCapacityPerReplica"
                    .to_owned()
            ),
        ]
    );
}

#[test]
fn nonpositive_noise_and_zero_windows_mean_the_defaults() {
    let mut spec = pair();
    spec["algorithm"] = json!({"predictive": {"tokenThroughput": {"prefillTargetTokensPerSecond": "1"}, "prefillTokenCapacityPerReplica": "1",
        "qLevel": "0", "qTrend": "-1", "measurementNoise": "3"}});
    spec["behavior"] = json!({"scaleUp": {"maxStepReplicas": 0}, "scaleDown": {"stabilizationWindowSeconds": 0, "cooldownAfterAbortSeconds": 0}});
    let policy = policy(&spec);
    let crate::policy::AlgorithmPolicy::Predictive(predictive) = &policy.algorithm else {
        panic!("{policy:?}")
    };
    assert!(
        (predictive.filter.q_level - 1.0).abs() < 1e-12
            && (predictive.filter.q_trend - 0.1).abs() < 1e-12
    );
    assert!((predictive.filter.measurement_noise - 3.0).abs() < 1e-12);
    assert_eq!(
        (
            policy.scale_down.stabilization,
            policy.scale_down.cooldown_after_abort
        ),
        (300, 300)
    );
    assert_eq!(
        policy.scale_up.step,
        crate::ratio::Step::Larger {
            replicas: 4,
            percent: 100
        }
    );
}

#[test]
fn a_zero_step_policy_forbids_the_direction() {
    let spec = with(
        base(),
        "/behavior",
        json!({"scaleUp": {"stepPolicy": {"type": "Pods", "value": 0}}}),
    );
    assert!(policy(&spec).scale_up.step.is_zero());
    let half = with(
        base(),
        "/behavior",
        json!({"scaleUp": {"stepPolicy": {"type": "Pods"}}}),
    );
    assert_eq!(
        faults(&half),
        [(
            "behavior.scaleUp.stepPolicy.value".to_owned(),
            FaultKind::Required,
            "state how far one pass may move: value: 2".to_owned()
        )]
    );
}
