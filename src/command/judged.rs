//! A scaler of a file, judged as the webhook judges it.

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Value, value::to_raw_value};

use super::document::{self, Document};
use crate::admission::{Target, cause_word, sentence, target_of, warnings};
use crate::api::DEPLOYMENT_KIND;
use crate::api::scaler::{GROUP, KIND};
use crate::policy::{
    Policy, TargetShape, check, fit, in_field_order, is_subdomain, nearest, read, unknown_fields,
};

/// The versions that the definition serves.
const VERSIONS: [&str; 2] = ["v1", "v1alpha1"];
/// What an object of the API server's has at its top.
const TOP: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Which files a command reads.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Files {
    /// A file with scalers, as YAML or JSON, with one document or several; - is standard input; repeatable
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// A file with a ModelDeployment that is scaled; those in the scalers' own files count too; repeatable
    #[arg(long = "target", value_name = "FILE")]
    targets: Vec<PathBuf>,
}

/// A scaler, and what is to be said of it.
#[derive(Debug)]
pub(super) struct Judged {
    /// File, and place in it.
    pub(super) source: String,
    /// Name, with the namespace in front where there is one.
    pub(super) name: String,
    /// Name of its target; empty where it has none.
    pub(super) target_name: String,
    /// The deployment that it scales, where it is known.
    pub(super) target: Option<TargetShape>,
    /// Every fault, in the order of the fields.
    pub(super) faults: Vec<Finding>,
    /// What is allowed and will disappoint.
    pub(super) warnings: Vec<String>,
    /// The policy, where the spec has no fault of its own.
    pub(super) policy: Option<Policy>,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Path of the field from the object's root.
    pub(super) field: String,
    /// Its type, as Kubernetes names it in `details.causes`.
    pub(super) reason: &'static str,
    /// Value, rule, way out.
    pub(super) message: String,
}

impl Files {
    /// Judges every scaler of the files.
    ///
    /// # Errors
    /// A file that cannot be read, files without any scaler, a target that is none.
    pub(super) fn judge(&self) -> anyhow::Result<Vec<Judged>> {
        let mut documents = Vec::new();
        for path in &self.files {
            documents.extend(document::read(path)?);
        }
        let mut targets = Vec::new();
        for path in &self.targets {
            let found = document::read(path)?;
            if !found.iter().any(Document::is_deployment) {
                bail!("{}: there is no {DEPLOYMENT_KIND} in it", path.display());
            }
            targets.extend(found);
        }
        judge(&documents, &targets)
    }
}

/// Judges every scaler among the documents.
pub(super) fn judge(documents: &[Document], targets: &[Document]) -> anyhow::Result<Vec<Judged>> {
    let scalers: Vec<&Document> = documents
        .iter()
        .filter(|document| document.is_scaler())
        .collect();
    if scalers.is_empty() {
        bail!(
            "there is no {KIND} in the files: it begins with apiVersion: {GROUP}/v1 and kind: {KIND}"
        );
    }
    let known: Vec<&Document> = targets
        .iter()
        .chain(documents)
        .filter(|document| document.is_deployment())
        .collect();
    scalers
        .into_iter()
        .map(|scaler| {
            let others = documents.iter().filter(|other| {
                !std::ptr::eq(*other, scaler)
                    && other.is_scaler()
                    && other.meta("namespace") == scaler.meta("namespace")
                    && other.object["spec"]["targetRef"]["name"]
                        == scaler.object["spec"]["targetRef"]["name"]
            });
            let others: Vec<&str> = others.map(|other| other.meta("name")).collect();
            one(scaler, &known, &others, !targets.is_empty())
        })
        .collect()
}

fn one(
    scaler: &Document,
    deployments: &[&Document],
    others: &[&str],
    asked: bool,
) -> anyhow::Result<Judged> {
    let spec = &scaler.object["spec"];
    let reading = read(&to_raw_value(spec).context("a spec that is no JSON")?);
    let mut faults = about_object(scaler);
    let outcome = check(&reading);
    let (policy, mut wrong) = match outcome {
        Ok(policy) => (Some(policy), Vec::new()),
        Err(wrong) => (None, wrong),
    };
    let target_name = spec["targetRef"]["name"].as_str().unwrap_or_default();
    let namespace = scaler.meta("namespace");
    let deployment = deployments.iter().find(|deployment| {
        let other = deployment.meta("namespace");
        deployment.meta("name") == target_name
            && (other == namespace || other.is_empty() || namespace.is_empty())
    });
    let shape = deployment
        .map(|found| target_of(found.object.to_string().as_bytes(), target_name))
        .transpose()
        .with_context(|| deployment.map_or_else(String::new, |found| found.source.clone()))?;
    if let Some(shape) = &shape {
        wrong.extend(fit(&reading, shape));
        in_field_order(&mut wrong);
    }
    faults.extend(wrong.iter().map(|fault| Finding {
        field: fault.path.clone(),
        reason: cause_word(fault.kind),
        message: sentence(fault),
    }));
    faults.extend(
        unknown_fields(spec)
            .into_iter()
            .map(|(path, near)| unknown(path, near)),
    );
    let mut said = Vec::new();
    if asked && shape.is_none() && !target_name.is_empty() {
        said.push(format!(
            "{DEPLOYMENT_KIND} \"{target_name}\" is in none of the files: rules about its roles are not checked"
        ));
    }
    if let Some(policy) = policy.as_ref().filter(|_| faults.is_empty()) {
        let target = shape.clone().map_or(Target::Unknown, Target::Present);
        said.extend(warnings(policy, &reading.spec, &target, others));
    }
    Ok(Judged {
        source: scaler.source.clone(),
        name: named(namespace, scaler.meta("name")),
        target_name: target_name.to_owned(),
        target: shape,
        faults,
        warnings: said,
        policy,
    })
}

fn named(namespace: &str, name: &str) -> String {
    match (namespace, name) {
        ("", "") => "without a name".to_owned(),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// What the API server itself asks of an object, and its unknown fields at the top.
fn about_object(scaler: &Document) -> Vec<Finding> {
    let mut faults = Vec::new();
    let mut add = |field: &str, reason, message: String| {
        faults.push(Finding {
            field: field.to_owned(),
            reason,
            message,
        });
    };
    let version = scaler.object["apiVersion"].as_str().unwrap_or_default();
    let served = VERSIONS.map(|version| format!("{GROUP}/{version}"));
    if !served.iter().any(|known| known == version) {
        let message = format!(
            "Unsupported value: \"{version}\": supported values: {}",
            served.map(|known| format!("\"{known}\"")).join(", ")
        );
        add("apiVersion", "FieldValueNotSupported", message);
    }
    let name = scaler.meta("name");
    if name.is_empty() && scaler.meta("generateName").is_empty() {
        let message = "Required value: name the scaler: metadata: {name: llm-serving}";
        add("metadata.name", "FieldValueRequired", message.to_owned());
    } else if !name.is_empty() && !is_subdomain(name) {
        let message = format!(
            "Invalid value: \"{name}\": must be a name of lower-case letters, digits, '-' and '.', at most 253 characters"
        );
        add("metadata.name", "FieldValueInvalid", message);
    }
    for field in scaler.object.as_object().into_iter().flat_map(|o| o.keys()) {
        if !TOP.contains(&field.as_str()) {
            let known: Vec<String> = TOP.map(str::to_owned).into();
            faults.push(unknown(field.clone(), nearest(field, known.iter())));
        }
    }
    faults
}

fn unknown(field: String, near: Option<String>) -> Finding {
    let message = match near {
        Some(near) => format!("unknown field: write {near}, or remove it"),
        None => "unknown field: remove it".to_owned(),
    };
    Finding {
        field,
        reason: "FieldUnknown",
        message,
    }
}

impl Judged {
    /// The verdict and all that is to be said, for people.
    pub(super) fn text(&self) -> String {
        use std::fmt::Write as _;
        let verdict = match self.faults.len() {
            0 => "sound".to_owned(),
            1 => "1 fault".to_owned(),
            n => format!("{n} faults"),
        };
        let mut text = format!("{}: {KIND} {}: {verdict}\n", self.source, self.name);
        for fault in &self.faults {
            let _ = writeln!(text, "  {}: {}", fault.field, fault.message);
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
        text
    }

    /// The same as one line of JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::json!({
            "source": self.source,
            "name": self.name,
            "target": self.target_name,
            "targetKnown": self.target.is_some(),
            "verdict": if self.faults.is_empty() { "sound" } else { "refused" },
            "faults": self.faults,
            "warnings": self.warnings,
        })
    }
}
