//! Reading manifests: YAML or JSON, several documents a file, lists unpacked.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::api::{DEPLOYMENT_KIND, scaler::GROUP, scaler::KIND};

/// The path that means standard input.
const STDIN: &str = "-";

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    /// The file, with the object's place where it has several: `scalers.yaml#2`.
    pub(super) source: String,
    /// The object.
    pub(super) object: Value,
}

impl Document {
    fn is(&self, kind: &str) -> bool {
        self.object["kind"] == kind
            && self.object["apiVersion"]
                .as_str()
                .and_then(|version| version.split_once('/'))
                .is_some_and(|(group, _)| group == GROUP)
    }

    /// Whether it is a scaler.
    pub(super) fn is_scaler(&self) -> bool {
        self.is(KIND)
    }

    /// Whether it is a deployment that can be scaled.
    pub(super) fn is_deployment(&self) -> bool {
        self.is(DEPLOYMENT_KIND)
    }

    /// A text of the metadata; empty where it is absent.
    pub(super) fn meta(&self, field: &str) -> &str {
        self.object["metadata"][field].as_str().unwrap_or_default()
    }
}

/// Every object of a file, or of standard input for `-`.
///
/// # Errors
/// A file that cannot be read, or that is neither YAML nor JSON.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Document>> {
    let mut text = String::new();
    let name = if path == Path::new(STDIN) {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("standard input")?;
        "standard input".to_owned()
    } else {
        text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        path.display().to_string()
    };
    parse(&name, &text).with_context(|| name)
}

/// The objects of a text.
pub(super) fn parse(name: &str, text: &str) -> anyhow::Result<Vec<Document>> {
    // JSON is YAML, and this reader refuses a key that is there twice.
    let quiet = serde_saphyr::options! { with_snippet: false };
    let mut objects = Vec::new();
    for object in serde_saphyr::from_multiple_with_options::<Value>(text, quiet)? {
        unpack(object, &mut objects);
    }
    let several = objects.len() > 1;
    Ok(objects
        .into_iter()
        .enumerate()
        .map(|(place, object)| Document {
            source: if several {
                format!("{name}#{}", place + 1)
            } else {
                name.to_owned()
            },
            object,
        })
        .collect())
}

fn unpack(mut object: Value, objects: &mut Vec<Value>) {
    let is_list = object["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"));
    match object.get_mut("items") {
        Some(Value::Array(items)) if is_list => objects.append(items),
        _ => objects.push(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_of_a_file_are_numbered_and_lists_are_unpacked() {
        let text = "---\n# nothing\n---\nkind: A\nquoted: \"0.5\"\nplain: 8\nswitch: yes\n---\n\
                    {\"kind\": \"BList\",\t\"items\": [{\"kind\": \"B\"}, {\"kind\": \"C\"}]}\n";
        let found = parse("f.yaml", text).unwrap();
        assert_eq!(
            found,
            [
                Document {
                    source: "f.yaml#1".into(),
                    // As kubectl reads YAML: yes is true.
                    object: json!({"kind": "A", "quoted": "0.5", "plain": 8, "switch": true})
                },
                Document {
                    source: "f.yaml#2".into(),
                    object: json!({"kind": "B"})
                },
                Document {
                    source: "f.yaml#3".into(),
                    object: json!({"kind": "C"})
                },
            ]
        );
        assert_eq!(parse("f", "a: 1").unwrap()[0].source, "f");
        assert_eq!(parse("f", "").unwrap(), []);
    }

    #[test]
    fn what_is_no_yaml_or_has_a_key_twice_is_an_error() {
        for text in ["a: [", "a: 1\na: 2", "{\"a\": 1, \"a\": 2}"] {
            assert!(parse("f", text).is_err(), "{text}");
        }
    }

    #[test]
    fn objects_are_known_by_group_and_kind() {
        let of = |text: &str| parse("f", text).unwrap().remove(0);
        let scaler = of(
            "{apiVersion: worker.gpustack.ai/v1alpha1, kind: ModelDeploymentScaler, metadata: {name: a}}",
        );
        assert!(scaler.is_scaler() && !scaler.is_deployment());
        assert_eq!((scaler.meta("name"), scaler.meta("namespace")), ("a", ""));
        assert!(of("{apiVersion: worker.gpustack.ai/v1, kind: ModelDeployment}").is_deployment());
        assert!(!of("{apiVersion: apps/v1, kind: ModelDeployment}").is_deployment());
        assert!(!of("{kind: ModelDeploymentScaler}").is_scaler());
    }
}
