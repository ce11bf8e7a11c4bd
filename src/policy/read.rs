//! Reading a spec from JSON.
//!
//! The fast path is one typed decoding. Where a JSON type or a word is wrong it stops at the first fault; the slow path
//! then walks the value along the schema of the definition, names every such fault, takes the ill-typed part out and
//! decodes what is left, so that all faults of a request are reported together.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Value, value::RawValue};

use crate::api::{ScalerSpec, crd, quantity::QuantityError};

use super::fault::{Fault, FaultKind};

/// A spec, and what of it could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// What could be read; an ill-typed part is absent here.
    pub spec: ScalerSpec,
    /// The ill-typed parts, by path: no further fault is reported of them.
    pub(super) broken: BTreeMap<String, Fault>,
}

impl Reading {
    /// A spec that was decoded elsewhere.
    pub fn of(spec: ScalerSpec) -> Self {
        Self {
            spec,
            broken: BTreeMap::new(),
        }
    }

    /// Whether every part has the JSON type and word that the schema wants.
    pub fn is_whole(&self) -> bool {
        self.broken.is_empty()
    }
}

/// Reads a spec; `null` is an empty one.
pub fn read(spec: &RawValue) -> Reading {
    // Duplicate keys make the typed decoding fail; a `Value` takes the last of them, as the API server's own decoder does.
    serde_json::from_str(spec.get()).map_or_else(|_| sweep(spec.get()), Reading::of)
}

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].take()
});

fn sweep(spec: &str) -> Reading {
    let mut reading = Reading::default();
    let Ok(mut value) = serde_json::from_str::<Value>(spec) else {
        return reading;
    };
    if value.is_null() {
        return reading;
    }
    if clean(&mut value, &SCHEMA, "spec", &mut reading.broken) {
        // What is left has the types of the schema, and the schema is generated from the types.
        reading.spec = serde_json::from_value(value).unwrap_or_default();
    }
    reading
}

/// Takes out what has another type than the schema says; false when the value itself has.
fn clean(
    value: &mut Value,
    schema: &Value,
    path: &str,
    broken: &mut BTreeMap<String, Fault>,
) -> bool {
    let refused = refusal(value, schema);
    if let Some((kind, message)) = refused {
        broken.insert(
            path.to_owned(),
            Fault {
                path: path.to_owned(),
                kind,
                value: brief(value),
                message,
            },
        );
        return false;
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| {
                let known = &schema["properties"][name];
                field.is_null()
                    || known.is_null()
                    || clean(field, known, &format!("{path}.{name}"), broken)
            });
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter_mut().enumerate() {
                if !clean(entry, &schema["items"], &format!("{path}[{index}]"), broken) {
                    // The places of the others stay what they are.
                    *entry = if schema["items"]["type"] == "object" {
                        Value::Object(serde_json::Map::new())
                    } else {
                        Value::String(String::new())
                    };
                }
            }
        }
        _ => {}
    }
    true
}

fn refusal(value: &Value, schema: &Value) -> Option<(FaultKind, String)> {
    if schema["x-kubernetes-int-or-string"] == true {
        if value.is_u64() && !value.is_i64() {
            return Some((FaultKind::Invalid, QuantityError::TooLarge.to_string()));
        }
        let fits = value.is_string() || value.is_i64();
        return (!fits).then(|| {
            (
                FaultKind::TypeInvalid,
                "must be a quantity in quotes, or an integer: write \"0.5\", \"500m\" or \"8\""
                    .to_owned(),
            )
        });
    }
    let word = schema["type"].as_str()?;
    let fits = match word {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        _ => true,
    };
    if !fits {
        let message = match word {
            "integer" if value.is_number() => "must be a whole number of 32 bits".to_owned(),
            "array" => "must be a list".to_owned(),
            "integer" => "must be a whole number, without quotes".to_owned(),
            "boolean" => "must be true or false, without quotes".to_owned(),
            "string" => "must be a string".to_owned(),
            _ => "must be an object".to_owned(),
        };
        return Some((FaultKind::TypeInvalid, message));
    }
    let words = schema["enum"].as_array()?;
    (!words.contains(value)).then(|| {
        let words: Vec<_> = words.iter().map(Value::to_string).collect();
        (
            FaultKind::NotSupported,
            format!("supported values: {}", words.join(", ")),
        )
    })
}

/// A value as JSON, cut where it is long.
pub(super) fn brief(value: &Value) -> String {
    const LONGEST: usize = 64;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Fields that the schema does not know, each with the nearest name that it does: the API server prunes them.
pub fn unknown_fields(spec: &Value) -> Vec<(String, Option<String>)> {
    let mut found = vec![];
    strangers(spec, &SCHEMA, "spec", &mut found);
    found
}

fn strangers(value: &Value, schema: &Value, path: &str, found: &mut Vec<(String, Option<String>)>) {
    match value {
        Value::Object(fields) => {
            let Some(known) = schema["properties"].as_object() else {
                return;
            };
            for (name, field) in fields {
                let path = format!("{path}.{name}");
                match known.get(name) {
                    Some(schema) => strangers(field, schema, &path, found),
                    None => found.push((path, nearest(name, known.keys()))),
                }
            }
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                strangers(entry, &schema["items"], &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// The known name with the fewest edits, if it is near: at most a third of its letters.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    known
        .map(|word| (edits(&name.to_lowercase(), &word.to_lowercase()), word))
        .filter(|(edits, word)| *edits <= word.len() / 3)
        .min()
        .map(|(_, word)| word.clone())
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(json: &str) -> Reading {
        read(&RawValue::from_string(json.into()).unwrap())
    }

    fn faults(json: &str) -> Vec<(String, FaultKind, String, String)> {
        reading(json)
            .broken
            .into_values()
            .map(|f| (f.path, f.kind, f.value, f.message))
            .collect()
    }

    #[test]
    fn every_wrong_type_and_word_is_named_and_the_rest_is_read() {
        let json = r#"{"mode": "active", "suspend": "yes", "sampling": {"intervalSeconds": 7.5, "pendingTimeoutSeconds": 90},
            "roles": [{"name": "a", "maxReplicas": "4"}, 7, {"name": "b", "maxReplicas": 3000000000}], "ratios": {},
            "algorithm": {"type": "", "proportional": {"tolerance": 0.1}}}"#;
        let at = |path: &str, kind, value: &str, message: &str| {
            (path.to_owned(), kind, value.to_owned(), message.to_owned())
        };
        assert_eq!(
            faults(json),
            [
                at(
                    "spec.algorithm.proportional.tolerance",
                    FaultKind::TypeInvalid,
                    "0.1",
                    "must be a quantity in quotes, or an integer: write \"0.5\", \"500m\" or \"8\""
                ),
                at(
                    "spec.algorithm.type",
                    FaultKind::NotSupported,
                    "\"\"",
                    r#"supported values: "Proportional", "TokenThroughput", "Predictive""#
                ),
                at(
                    "spec.mode",
                    FaultKind::NotSupported,
                    "\"active\"",
                    r#"supported values: "Shadow", "Active""#
                ),
                at(
                    "spec.ratios",
                    FaultKind::TypeInvalid,
                    "{}",
                    "must be a list"
                ),
                at(
                    "spec.roles[0].maxReplicas",
                    FaultKind::TypeInvalid,
                    "\"4\"",
                    "must be a whole number, without quotes"
                ),
                at(
                    "spec.roles[1]",
                    FaultKind::TypeInvalid,
                    "7",
                    "must be an object"
                ),
                at(
                    "spec.roles[2].maxReplicas",
                    FaultKind::TypeInvalid,
                    "3000000000",
                    "must be a whole number of 32 bits"
                ),
                at(
                    "spec.sampling.intervalSeconds",
                    FaultKind::TypeInvalid,
                    "7.5",
                    "must be a whole number of 32 bits"
                ),
                at(
                    "spec.suspend",
                    FaultKind::TypeInvalid,
                    "\"yes\"",
                    "must be true or false, without quotes"
                ),
            ]
        );
        let read = reading(json).spec;
        assert_eq!(read.sampling.unwrap().pending_timeout_seconds, Some(90));
        assert_eq!(read.roles.unwrap()[2].name.as_deref(), Some("b"));
    }

    #[test]
    fn a_spec_that_is_no_object_is_one_fault() {
        assert_eq!(faults("7").len(), 1);
        assert_eq!(reading("null"), Reading::default());
    }

    #[test]
    fn unknown_fields_come_with_the_nearest_known_name() {
        let spec = serde_json::json!({"roles": [{"name": "a", "maxReplica": 3}], "behaviour": {}, "xyz": 1});
        assert_eq!(
            unknown_fields(&spec),
            [
                ("spec.behaviour".into(), Some("behavior".into())),
                (
                    "spec.roles[0].maxReplica".into(),
                    Some("maxReplicas".into())
                ),
                ("spec.xyz".into(), None),
            ]
        );
    }
}
