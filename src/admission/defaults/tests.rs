use super::*;
use proptest::prelude::*;

fn raw(spec: &Value) -> Box<RawValue> {
    RawValue::from_string(spec.to_string()).unwrap()
}

fn operations(spec: &Value) -> Vec<(String, String, Value)> {
    let text = patch(&raw(spec));
    if text.is_empty() {
        return vec![];
    }
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    list.into_iter()
        .map(|op| {
            (
                op["op"].as_str().unwrap().to_owned(),
                op["path"].as_str().unwrap().to_owned(),
                op["value"].clone(),
            )
        })
        .collect()
}

fn added(spec: &Value) -> Vec<(String, Value)> {
    operations(spec)
        .into_iter()
        .map(|(op, path, value)| {
            assert_eq!(op, "add");
            (path, value)
        })
        .collect()
}

#[test]
fn the_first_case_gets_its_patch_in_table_order() {
    let spec = json!({"targetRef": {"name": "t"}, "roles": [{"name": "server", "maxReplicas": 4}],
        "algorithm": {"proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": "8"}]}}});
    assert_eq!(
        added(&spec),
        [
            ("/spec/mode".to_owned(), json!("Shadow")),
            ("/spec/suspend".to_owned(), json!(false)),
            (
                "/spec/sampling".to_owned(),
                json!({"intervalSeconds": 15, "pendingTimeoutSeconds": 300})
            ),
            ("/spec/roles/0/minReplicas".to_owned(), json!(1)),
            ("/spec/algorithm/type".to_owned(), json!("Proportional")),
            (
                "/spec/algorithm/proportional/tolerance".to_owned(),
                json!("0.1")
            ),
            (
                "/spec/behavior".to_owned(),
                json!({"scaleUp": {"stabilizationWindowSeconds": 0, "maxStepReplicas": 4, "maxStepPercent": 100},
                    "scaleDown": {"stabilizationWindowSeconds": 300, "cooldownAfterAbortSeconds": 300, "decodePostScaleUpGraceSeconds": 120}})
            ),
            ("/spec/rebalance".to_owned(), json!({"policy": "Opposing"})),
        ]
    );
    assert_eq!(operations(&filled(&raw(&spec)).unwrap()), []);
}

#[test]
fn only_two_zeros_are_replaced() {
    let spec = json!({"mode": "Active", "suspend": true, "sampling": {"intervalSeconds": 0, "pendingTimeoutSeconds": 0},
        "algorithm": {"type": "TokenThroughput"}, "rebalance": {"policy": ""},
        "behavior": {"scaleUp": {"stabilizationWindowSeconds": 0, "maxStepReplicas": 0, "maxStepPercent": 0, "stepPolicy": {"type": "Pods", "value": 1}},
            "scaleDown": {"stabilizationWindowSeconds": 0, "cooldownAfterAbortSeconds": 0, "decodePostScaleUpGraceSeconds": 0}}});
    let replace = |path: &str, value: i32| ("replace".to_owned(), path.to_owned(), json!(value));
    assert_eq!(
        operations(&spec),
        [
            replace("/spec/behavior/scaleUp/maxStepReplicas", 4),
            replace("/spec/behavior/scaleUp/maxStepPercent", 100)
        ]
    );
}

#[test]
fn the_type_is_inferred_only_where_it_is_absent() {
    for (algorithm, kind) in [
        (
            json!({"proportional": {"tolerance": "1"}, "predictive": {}}),
            Some("Proportional"),
        ),
        (json!({"predictive": 7}), Some("Predictive")),
        (json!({"tokenThroughput": "x"}), Some("TokenThroughput")),
        (json!({"type": null}), Some("TokenThroughput")),
        (json!({"type": ""}), None),
        (json!({"type": 7}), None),
    ] {
        let found = added(&json!({"algorithm": algorithm}))
            .into_iter()
            .find(|(path, _)| path == "/spec/algorithm/type");
        assert_eq!(
            found.map(|(_, value)| value),
            kind.map(Value::from),
            "{algorithm}"
        );
    }
}

#[test]
fn nested_and_outer_blocks_of_predictive_are_filled() {
    let spec = json!({"algorithm": {"type": "Predictive", "predictive": {"tokenThroughput": {"panicThreshold": "3"}, "qLevel": "0"}, "tokenThroughput": {}}});
    let paths: Vec<_> = added(&spec)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.starts_with("/spec/algorithm"))
        .collect();
    assert_eq!(
        paths,
        [
            "/spec/algorithm/predictive/tokenThroughput/stableWindowSeconds",
            "/spec/algorithm/predictive/tokenThroughput/panicWindowSeconds",
            "/spec/algorithm/predictive/tokenThroughput/ttftTargetMilliseconds",
            "/spec/algorithm/predictive/tokenThroughput/itlTargetMilliseconds",
            "/spec/algorithm/predictive/horizonSeconds",
            "/spec/algorithm/predictive/minPoints",
            "/spec/algorithm/predictive/qTrend",
            "/spec/algorithm/predictive/measurementNoise",
        ]
    );
}

#[test]
fn what_is_malformed_is_stepped_over() {
    for spec in [json!(7), json!("x"), json!([]), Value::Null] {
        assert_eq!(operations(&spec), []);
    }
    let spec = json!({"mode": 7, "suspend": [], "sampling": "x", "roles": {"a": 1}, "algorithm": [1], "behavior": 1.5, "rebalance": false});
    assert_eq!(operations(&spec), []);
    let mixed = json!({"mode": "m", "suspend": false, "sampling": {"intervalSeconds": {}, "pendingTimeoutSeconds": 1}, "roles": [7, {"name": "b"}],
        "algorithm": {"type": "X"}, "behavior": {"scaleUp": [], "scaleDown": null}, "rebalance": {"policy": 1}});
    let paths: Vec<_> = added(&mixed).into_iter().map(|(path, _)| path).collect();
    assert_eq!(
        paths,
        ["/spec/roles/1/minReplicas", "/spec/behavior/scaleDown"]
    );
}

/// A spec of known words in any shape, malformed ones included.
fn any_spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(0)),
        Just(json!(0.0)),
        Just(json!(7)),
        Just(json!(true)),
        Just(json!("Predictive")),
        Just(json!("Proportional")),
        Just(json!("")),
    ];
    let key = prop::sample::select(vec![
        "mode",
        "suspend",
        "sampling",
        "intervalSeconds",
        "roles",
        "minReplicas",
        "algorithm",
        "type",
        "proportional",
        "tolerance",
        "tokenThroughput",
        "predictive",
        "behavior",
        "scaleUp",
        "maxStepReplicas",
        "maxStepPercent",
        "scaleDown",
        "stepPolicy",
        "rebalance",
        "policy",
        "other",
    ]);
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_patch_of_a_patched_spec_is_empty(spec in any_spec()) {
        let filled = filled(&raw(&spec)).unwrap();
        prop_assert_eq!(patch(&raw(&filled)), "");
    }

    #[test]
    fn nothing_that_was_written_changes_but_two_zeros(spec in any_spec()) {
        for (op, path, value) in operations(&spec) {
            let before = json!({"spec": &spec}).pointer(&path).cloned().unwrap_or(Value::Null);
            let zero = op == "replace" && before == json!(0) && (path.ends_with("maxStepReplicas") || path.ends_with("maxStepPercent"));
            prop_assert!((op == "add" && before.is_null()) || zero, "{} {} {}", op, path, value);
        }
    }
}
