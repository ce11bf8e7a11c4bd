//! The scaler's CustomResourceDefinition, generated from the types.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{
    ScalerSpec, ScalerStatus,
    scaler::{GROUP, KIND, PLURAL},
};

/// The CustomResourceDefinition: `v1` (storage) and `v1alpha1` with one schema, so that no conversion is needed.
///
/// Both are served because an aggregated API for `v1` of this group, where the target's operator has one, hides a
/// definition's `v1` behind it.
pub fn crd() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": {"openAPIV3Schema": schema()},
            "subresources": {"status": {}},
            "additionalPrinterColumns": printer_columns(),
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": format!("{KIND}List"),
                "plural": PLURAL,
                "singular": KIND.to_lowercase(),
                "shortNames": ["mds"],
            },
            "scope": "Namespaced",
            "versions": [version("v1", true), version("v1alpha1", false)],
        },
    })
}

fn printer_columns() -> Value {
    let condition = |name: &str| json!({"name": name, "type": "string", "jsonPath": format!(".status.conditions[?(@.type==\"{name}\")].status")});
    json!([
        {"name": "Target", "type": "string", "jsonPath": ".spec.targetRef.name"},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
        {"name": "Algorithm", "type": "string", "jsonPath": ".spec.algorithm.type"},
        condition("Bound"),
        condition("Active"),
        condition("Blocked"),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

fn schema() -> Value {
    let mut spec = structural::<ScalerSpec>();
    spec["x-kubernetes-validations"] = json!([{
        // An absent optional is an error in CEL: `has` first.
        "rule": "has(self.targetRef) == has(oldSelf.targetRef) && (!has(self.targetRef) || self.targetRef == oldSelf.targetRef)",
        "message": "immutable: make a new scaler for another target",
        "reason": "FieldValueForbidden",
        "fieldPath": ".targetRef",
    }]);
    json!({
        "description": "Plans replica counts for one ModelDeployment from the metrics of its engines.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": structural::<ScalerStatus>(),
        },
    })
}

/// The structural schema of a type: no references, no `nullable`, no null in an enum, as a server-side apply or
/// `kubectl explain` expects it.
fn structural<T: schemars::JsonSchema>() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Some(root) = schema.as_object_mut() {
        root.remove("title");
    }
    simplify(&mut schema);
    schema
}

/// Absence is how an optional field is left out here, not `null`; words with descriptions of their own become one
/// enum; defaults belong to the mutating webhook alone.
fn simplify(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = node.get_mut(key) {
            branches.retain(|branch| {
                branch.get("nullable") != Some(&json!(true))
                    || branch.get("type").is_some_and(|t| t != "null")
            });
            branches.retain(|branch| branch.get("enum") != Some(&json!([null])));
        }
    }
    if let Some(Value::Array(branches)) = node.get("anyOf")
        && let [Value::Object(only)] = branches.as_slice()
    {
        let only = only.clone();
        node.remove("anyOf");
        for (key, value) in only {
            node.entry(key).or_insert(value);
        }
    }
    if let Some(Value::Array(branches)) = node.remove("oneOf") {
        let words = branches.iter().map(|b| {
            b.get("const")
                .or_else(|| b["enum"].get(0))
                .cloned()
                .unwrap_or_default()
        });
        let meanings: Vec<String> = branches
            .iter()
            .filter_map(|b| {
                Some(format!(
                    "{}: {}",
                    b.get("const").or_else(|| b["enum"].get(0))?.as_str()?,
                    b.get("description")?.as_str()?
                ))
            })
            .collect();
        node.insert("enum".into(), words.collect());
        node.insert("type".into(), json!("string"));
        let description = node
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let full = format!("{description} {}", meanings.join(" "))
            .trim()
            .to_owned();
        node.insert("description".into(), Value::String(full));
    }
    node.remove("nullable");
    node.remove("default");
    if let Some(Value::Array(words)) = node.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    // schemars writes whole bounds as floats for some integer types.
    for key in ["minimum", "maximum"] {
        if let Some(bound) = node.get_mut(key)
            && let Some(whole) = bound
                .as_f64()
                .filter(|f| f.fract() == 0.0)
                .and_then(|f| format!("{f}").parse::<i64>().ok())
        {
            *bound = json!(whole);
        }
    }
    if let Some(Value::String(text)) = node.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    require_list_keys(node);
    each_child(node, simplify);
}

/// The API server takes a list's keys only when its entries must have them, also where reading is lenient.
fn require_list_keys(node: &mut Map<String, Value>) {
    let Some(Value::Array(keys)) = node.get("x-kubernetes-list-map-keys").cloned() else {
        return;
    };
    if let Some(Value::Object(entry)) = node.get_mut("items")
        && let Value::Array(required) = entry.entry("required").or_insert_with(|| json!([]))
    {
        for key in keys {
            if !required.contains(&key) {
                required.push(key);
            }
        }
    }
}

fn each_child(node: &mut Map<String, Value>, visit: fn(&mut Value)) {
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(visit);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            visit(child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Map<String, Value>)) {
        let Value::Object(node) = schema else { return };
        visit(path, node);
        for (name, child) in node
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            walk(child, &format!("{path}.{name}"), visit);
        }
        for key in ["items", "additionalProperties"] {
            if let Some(child) = node.get(key) {
                walk(child, &format!("{path}[]"), visit);
            }
        }
    }

    #[test]
    fn every_field_says_what_it_means() {
        walk(&schema(), "", &mut |path, node| {
            let plain = path.is_empty()
                || [".apiVersion", ".kind", ".metadata"].contains(&path)
                || path.ends_with("[]");
            assert!(
                plain || node.contains_key("description"),
                "{path} has no description"
            );
        });
    }

    #[test]
    fn the_schema_is_structural_and_states_no_default() {
        walk(&schema(), "", &mut |path, node| {
            for key in [
                "$ref", "anyOf", "oneOf", "allOf", "nullable", "default", "title", "const",
            ] {
                assert!(!node.contains_key(key), "{path} has {key}");
            }
            assert!(
                node.contains_key("type") || node.contains_key("x-kubernetes-int-or-string"),
                "{path} has no type"
            );
            let format = node.get("format").and_then(Value::as_str);
            assert!(
                matches!(format, None | Some("int32" | "int64" | "date-time")),
                "{path} has format {format:?}"
            );
        });
    }

    #[test]
    fn the_keys_of_every_list_are_required() {
        let mut lists = 0;
        walk(&schema(), "", &mut |path, node| {
            let Some(Value::Array(keys)) = node.get("x-kubernetes-list-map-keys") else {
                return;
            };
            lists += 1;
            for key in keys {
                let required = node["items"]["required"].as_array();
                assert!(required.is_some_and(|r| r.contains(key)), "{path}: {key}");
            }
        });
        assert_eq!(lists, 6);
    }

    #[test]
    fn the_definition_is_below_200_kib() {
        let bytes = serde_json::to_vec(&crd()).unwrap().len();
        assert!(bytes < 200 * 1024, "{bytes} bytes");
    }

    #[test]
    fn ranges_words_and_keys_are_in_the_schema() {
        let spec = &schema()["properties"]["spec"]["properties"];
        assert_eq!(
            spec["sampling"]["properties"]["intervalSeconds"]["minimum"],
            json!(5)
        );
        assert_eq!(
            spec["sampling"]["properties"]["intervalSeconds"]["maximum"],
            json!(300)
        );
        assert_eq!(spec["mode"]["enum"], json!(["Shadow", "Active"]));
        assert_eq!(spec["roles"]["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(
            spec["roles"]["items"]["required"],
            json!(["name", "maxReplicas"])
        );
        assert_eq!(
            spec["ratios"]["items"]["properties"]["min"]["x-kubernetes-int-or-string"],
            json!(true)
        );
        assert_eq!(
            spec["algorithm"]["properties"]["proportional"]["required"],
            json!(["metric", "roleTargets"])
        );
        assert_eq!(
            schema()["properties"]["spec"]["required"],
            json!(["targetRef", "roles"])
        );
    }
}
