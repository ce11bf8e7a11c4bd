//! The case table of the admission rules (`scaler.yaml`), for the tests against the function and against a real API server.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::option_option,
    clippy::struct_field_names,
    reason = "a reader of test tables: each test program uses its own part, and a bad table ends the test"
)]

pub(crate) mod fence;
pub(crate) mod post;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// The whole table.
#[derive(Deserialize)]
pub(crate) struct Table {
    pub(crate) bases: BTreeMap<String, Value>,
    pub(crate) targets: BTreeMap<String, Value>,
    pub(crate) cases: Vec<Case>,
}

/// One input and its verdict.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) n: u32,
    pub(crate) input: String,
    #[serde(default)]
    pub(crate) base: Option<String>,
    #[serde(default)]
    pub(crate) set: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) remove: Vec<String>,
    #[serde(default)]
    pub(crate) old: Option<Old>,
    #[serde(default)]
    pub(crate) meta: Option<Value>,
    #[serde(default)]
    pub(crate) old_meta: Option<Value>,
    #[serde(default)]
    pub(crate) by: Option<String>,
    #[serde(default)]
    pub(crate) target: Option<Value>,
    #[serde(default)]
    pub(crate) scalers: Vec<String>,
    #[serde(default)]
    pub(crate) binding: Option<String>,
    #[serde(default)]
    pub(crate) code: Option<u16>,
    #[serde(default)]
    pub(crate) faults: Vec<String>,
    #[serde(default)]
    pub(crate) schema: Vec<String>,
    #[serde(default)]
    pub(crate) any_fault: Option<String>,
    #[serde(default)]
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) under: Option<usize>,
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
    #[serde(default)]
    pub(crate) no: Vec<String>,
    #[serde(default)]
    pub(crate) patch: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) stored: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) only: Option<String>,
}

/// The object as it was.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Old {
    #[serde(default)]
    pub(crate) base: Option<String>,
    #[serde(default)]
    pub(crate) set: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) remove: Vec<String>,
}

/// An expected fault: path, type, a part of the message.
pub(crate) struct Expected<'a> {
    pub(crate) path: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) part: &'a str,
}

impl Table {
    /// The committed table.
    pub(crate) fn read() -> Self {
        let text = include_str!("scaler.yaml");
        serde_saphyr::from_str(text).expect("the case table is YAML of this shape")
    }

    fn spec(&self, base: Option<&str>, set: &BTreeMap<String, Value>, remove: &[String]) -> Value {
        let base = base.unwrap_or("B");
        let mut spec = self
            .bases
            .get(base)
            .unwrap_or_else(|| panic!("no base {base}"))
            .clone();
        for pointer in remove {
            take(&mut spec, pointer);
        }
        for (pointer, value) in set {
            put(&mut spec, pointer, made(value));
        }
        spec
    }

    /// The spec that a case submits.
    pub(crate) fn new_spec(&self, case: &Case) -> Value {
        self.spec(case.base.as_deref(), &case.set, &case.remove)
    }

    /// The spec that an UPDATE finds.
    pub(crate) fn old_spec(&self, case: &Case) -> Option<Value> {
        let old = case.old.as_ref()?;
        Some(self.spec(old.base.as_deref(), &old.set, &old.remove))
    }

    /// The ModelDeployment with this name in the table.
    pub(crate) fn deployment(&self, name: &str) -> Value {
        let spec = self
            .targets
            .get(name)
            .unwrap_or_else(|| panic!("no target {name}"));
        json!({
            "apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment",
            "metadata": {"name": "t", "namespace": "default"},
            "spec": made(spec),
        })
    }
}

impl Case {
    /// Its name in a test's output.
    pub(crate) fn title(&self) -> String {
        format!("case {}: {}", self.n, self.input)
    }

    /// The code of the answer.
    pub(crate) fn expected_code(&self) -> u16 {
        self.code
            .unwrap_or(if self.faults.is_empty() { 200 } else { 422 })
    }

    /// The faults of the answer.
    pub(crate) fn expected_faults(&self) -> Vec<Expected<'_>> {
        self.faults
            .iter()
            .map(|fault| {
                let mut words = fault.splitn(3, ' ');
                Expected {
                    path: words.next().unwrap_or_default(),
                    kind: words.next().unwrap_or_default(),
                    part: words.next().unwrap_or_default(),
                }
            })
            .collect()
    }
}

/// Sets the value at a JSON pointer; objects and lists on the way are made.
fn put(root: &mut Value, pointer: &str, value: Value) {
    let mut place = root;
    for key in pointer.split('/').skip(1) {
        place = if let Ok(index) = key.parse::<usize>() {
            if !place.is_array() {
                *place = json!([]);
            }
            let list = place.as_array_mut().expect("a list");
            while list.len() <= index {
                list.push(json!({}));
            }
            &mut list[index]
        } else {
            if !place.is_object() {
                *place = json!({});
            }
            place
                .as_object_mut()
                .expect("an object")
                .entry(key)
                .or_insert(Value::Null)
        };
    }
    *place = value;
}

fn take(root: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = root
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("nothing at {pointer}"));
    let taken = match parent {
        Value::Object(fields) => fields.remove(key).is_some(),
        Value::Array(list) => {
            let index: usize = key.parse().expect("an index");
            index < list.len() && {
                list.remove(index);
                true
            }
        }
        _ => false,
    };
    assert!(taken, "nothing at {pointer}");
}

/// Long values, which the table names by how they are made.
fn made(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(made).collect(),
        Value::Object(fields) => {
            let count = |key: &str| fields.get(key).and_then(Value::as_u64);
            if let Some([Value::String(part), times]) = fields
                .get("$repeat")
                .and_then(Value::as_array)
                .map(Vec::as_slice)
            {
                let times = usize::try_from(times.as_u64().expect("a count")).expect("a count");
                let tail = fields
                    .get("$then")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                return json!(part.repeat(times) + tail);
            }
            if let Some(n) = count("$roles") {
                return (0..n)
                    .map(|i| json!({"name": format!("r{i}"), "maxReplicas": 4}))
                    .collect();
            }
            if let Some(n) = count("$badRoles") {
                return (0..n)
                    .map(|i| json!({"name": format!("r{i}"), "maxReplicas": 2000}))
                    .collect();
            }
            if let Some(n) = count("$targets") {
                return (0..n)
                    .map(|i| json!({"name": format!("r{i}"), "target": "1"}))
                    .collect();
            }
            let pair = |i: u64| {
                let (a, b) = (i / 15, i % 15);
                (
                    format!("r{a}"),
                    format!("r{}", if b < a { b } else { b + 1 }),
                )
            };
            if let Some(n) = count("$ratios") {
                return (0..n)
                    .map(pair)
                    .map(|(a, b)| json!({"numeratorRole": a, "denominatorRole": b, "target": "1"}))
                    .collect();
            }
            if let Some(n) = count("$badRatios") {
                return (0..n)
                    .map(pair)
                    .map(|(a, b)| json!({"numeratorRole": a, "denominatorRole": b, "min": "0"}))
                    .collect();
            }
            fields
                .iter()
                .map(|(key, value)| (key.clone(), made(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}
