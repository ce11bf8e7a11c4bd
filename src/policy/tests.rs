//! What holds for every spec, sound or not.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    Fault, FaultKind, Policy, TargetRole, TargetShape, check, fit, in_field_order,
    largest_that_fits,
    range::{self, Range},
    read, unknown_fields,
};
use crate::api::{Replicas, RoleKind, ScalerSpec, crd};

fn raw(spec: &Value) -> Box<RawValue> {
    RawValue::from_string(spec.to_string()).unwrap()
}

fn judged(spec: &Value) -> Result<Policy, Vec<Fault>> {
    check(&read(&raw(spec)))
}

/// A sound spec with every block of one algorithm.
fn sound(predictive: bool) -> Value {
    let token = json!({"prefillTargetTokensPerSecond": "2000", "decodeTargetTokensPerSecond": "800m", "panicThreshold": 2});
    let algorithm = if predictive {
        json!({"predictive": {"tokenThroughput": token, "decodeTokenCapacityPerReplica": 9, "minPoints": 3}})
    } else {
        json!({"tokenThroughput": token})
    };
    json!({"targetRef": {"name": "t"}, "mode": "Active", "suspend": false, "sampling": {"intervalSeconds": 15},
        "roles": [{"name": "a", "minReplicas": 1, "maxReplicas": 8}, {"name": "b", "maxReplicas": 4}],
        "ratios": [{"numeratorRole": "a", "denominatorRole": "b", "min": "0.5", "target": 1, "max": "2"}],
        "algorithm": algorithm,
        "behavior": {"scaleUp": {"stepPolicy": {"type": "Percent", "value": 50}}, "scaleDown": {"stepPolicy": {"type": "Pods", "value": 2}}},
        "rebalance": {"policy": "Priority", "priority": ["b", "a"]}})
}

/// Any JSON value that is not large.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2_i64..1100).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "b",
            "0",
            "0.5",
            "1e400",
            "Pods",
            "Active",
            "Proportional",
            "ä"
        ])
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let names: &[String] = &FIELD_NAMES;
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

static FIELD_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    fn walk(schema: &Value, found: &mut Vec<String>) {
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            found.push(name.clone());
            walk(child, found);
        }
        if schema["items"].is_object() {
            walk(&schema["items"], found);
        }
    }
    let mut found = vec!["stranger".to_owned()];
    walk(
        &crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"],
        &mut found,
    );
    found
});

/// The pointers of every value in a tree, the root's first.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, child) in fields {
                pointers(child, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(entries) => {
            for (place, child) in entries.iter().enumerate() {
                pointers(child, &format!("{at}/{place}"), found);
            }
        }
        _ => {}
    }
}

/// A sound spec with up to three of its values replaced.
fn nearly_sound() -> impl Strategy<Value = Value> {
    let places = prop::collection::vec((any::<prop::sample::Index>(), any_json()), 0..4);
    (any::<bool>(), places).prop_map(|(predictive, odds)| {
        let mut spec = sound(predictive);
        for (index, odd) in odds {
            let mut all = Vec::new();
            pointers(&spec, "", &mut all);
            *spec.pointer_mut(index.get(&all).as_str()).unwrap() = odd;
        }
        spec
    })
}

fn target() -> TargetShape {
    let role = |name: &str, kind, size| TargetRole {
        name: name.into(),
        kind: Some(kind),
        count: Replicas::MIN,
        size,
        command: false,
        elastic: false,
        instance_type: None,
    };
    TargetShape {
        name: "t".into(),
        roles: vec![
            role("a", RoleKind::Encode, 2),
            role("b", RoleKind::Decode, 1),
            role("a-r2", RoleKind::Server, 1),
        ],
    }
}

proptest! {
    #[test]
    fn no_json_makes_reading_judging_or_fitting_panic(spec in prop_oneof![any_json(), nearly_sound()]) {
        let reading = read(&raw(&spec));
        let _ = check(&reading);
        let _ = fit(&reading, &target());
        let _ = unknown_fields(&spec);
    }

    #[test]
    fn faults_are_in_order_each_once_and_of_parts_of_the_spec(spec in nearly_sound()) {
        let Err(faults) = judged(&spec) else { return Ok(()) };
        prop_assert!(!faults.is_empty());
        let mut sorted = faults.clone();
        in_field_order(&mut sorted);
        prop_assert_eq!(&sorted, &faults);
        for (place, fault) in faults.iter().enumerate() {
            prop_assert!(fault.path == "spec" || fault.path.starts_with("spec."), "{}", fault.path);
            prop_assert!(!fault.message.is_empty());
            prop_assert!(!faults[..place].contains(fault), "{:?} twice", fault);
        }
    }

    #[test]
    fn an_ill_typed_part_is_one_fault_with_nothing_below_it(spec in nearly_sound()) {
        let reading = read(&raw(&spec));
        let faults = check(&reading).err().unwrap_or_default();
        for path in reading.broken.keys() {
            let here: Vec<_> = faults.iter().filter(|fault| fault.path == *path).collect();
            prop_assert_eq!(here.len(), 1, "{}: {:?}", path, here);
            let below = |fault: &&Fault| fault.path.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']));
            prop_assert_eq!(faults.iter().find(below), None);
        }
    }

    #[test]
    fn what_is_accepted_is_accepted_again_as_it_was_read(spec in nearly_sound()) {
        if let Ok(policy) = judged(&spec) {
            let read: ScalerSpec = read(&raw(&spec)).spec;
            let written = serde_json::to_value(&read).unwrap();
            prop_assert_eq!(judged(&written), Ok(policy));
        }
    }

    #[test]
    fn what_the_policy_means_does_not_depend_on_defaults_being_written(spec in nearly_sound()) {
        let filled = crate::admission::filled(&raw(&spec)).unwrap();
        match (judged(&spec), judged(&filled)) {
            (Ok(before), Ok(after)) => prop_assert_eq!(before, after),
            (Err(before), Err(after)) => {
                let paths = |faults: Vec<Fault>| faults.into_iter().map(|fault| (fault.path, fault.kind)).collect::<Vec<_>>();
                prop_assert_eq!(paths(before), paths(after));
            }
            (before, after) => prop_assert!(false, "{:?} against {:?}", before, after),
        }
    }

    #[test]
    fn the_largest_count_that_fits_is_the_last_that_a_fit_accepts(
        deployment in 1..64_usize, role in 1..64_usize, size in 1..100_u32, sibling in prop::option::of(0..1100_u16),
    ) {
        let name = "r".repeat(role);
        let mut shape = target();
        shape.name = "d".repeat(deployment);
        shape.roles = vec![TargetRole { name: name.clone(), kind: Some(RoleKind::Server), size, ..shape.roles[0].clone() }];
        if let Some(ordinal) = sibling {
            let other = TargetRole { name: format!("{name}-r{ordinal}"), ..shape.roles[0].clone() };
            shape.roles.push(other);
        }
        let most = largest_that_fits(&shape, &shape.roles[0]).map_or(0, Replicas::get);
        let accepts = |count: u16| {
            let spec = json!({"roles": [{"name": name, "maxReplicas": count}], "algorithm": {"proportional": {}}});
            fit(&read(&raw(&spec)), &shape).is_empty()
        };
        prop_assert!(most == 0 || accepts(most));
        prop_assert!(most == 1024 || !accepts(most + 1));
    }
}

/// Puts a value at a path of a range, in every list.
fn put(spec: &mut Value, path: &str, value: &Value) {
    match path.split_once('.') {
        _ if spec.is_array() => {
            for entry in spec.as_array_mut().unwrap() {
                put(entry, path, value);
            }
        }
        None => spec[path] = value.clone(),
        Some((first, rest)) => {
            if spec[first].is_null() {
                spec[first] = json!({});
            }
            put(&mut spec[first], rest, value);
        }
    }
}

#[test]
fn every_range_holds_at_both_ends_and_no_further() {
    let mut checked = 0;
    for range in range::ALL {
        let Range { path, min, max } = range;
        let last = max.unwrap_or(i32::MAX);
        let outside = [Some(min - 1), max.map(|max| max + 1)];
        let tried = [Some((min, true)), Some((last, true))]
            .into_iter()
            .chain(outside.map(|value| value.map(|value| (value, false))));
        for (value, inside) in tried.flatten() {
            let mut spec = sound(path.contains("predictive"));
            // One role, so that only the range is judged.
            for field in ["ratios", "rebalance"] {
                spec.as_object_mut().unwrap().remove(field);
            }
            if path == "roles.minReplicas" {
                put(&mut spec, "roles.maxReplicas", &json!(1024));
            } else if path == "roles.maxReplicas" {
                put(&mut spec, "roles.minReplicas", &Value::Null);
            }
            put(&mut spec, path, &json!(value));
            let faults: Vec<(String, FaultKind)> = judged(&spec)
                .err()
                .into_iter()
                .flatten()
                .map(|fault| (fault.path, fault.kind))
                .collect();
            assert_eq!(faults.is_empty(), inside, "{path} = {value}: {faults:?}");
            for (found, kind) in faults {
                let plain = found.replace("[0]", "").replace("[1]", "");
                assert_eq!((plain, kind), (format!("spec.{path}"), FaultKind::Invalid));
            }
            checked += 1;
        }
    }
    // Each range has two ends inside, one value below, and one above where there is an upper end.
    assert_eq!(checked, 15 * 3 + 13);
}
