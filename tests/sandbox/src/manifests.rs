//! `manifests/` as a cluster gets it.
//!
//! Read through its kustomizations and applied as it is, but for one thing: no Service leads to a program that runs
//! beside the cluster, so each webhook's `service` becomes a `url` with the certificate that signs it.

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The group of the objects that a cluster without cert-manager does without.
const CERT_MANAGER: &str = "cert-manager.io/";

/// Every object that a kustomization lists, in its order. Only `resources` is understood: anything else would change
/// what is applied, and is an error.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let path = folder.join("kustomization.yaml");
    let kustomization: Value = parse(&path)?.pop().unwrap_or_default();
    for key in kustomization
        .as_object()
        .into_iter()
        .flat_map(|map| map.keys())
    {
        if !["apiVersion", "kind", "resources"].contains(&key.as_str()) {
            bail!("{}: {key} is not understood here", path.display());
        }
    }
    let mut objects = Vec::new();
    for resource in kustomization["resources"].as_array().into_iter().flatten() {
        let resource = folder.join(resource.as_str().unwrap_or_default());
        if resource.is_dir() {
            objects.extend(read(&resource)?);
        } else {
            objects.extend(parse(&resource)?);
        }
    }
    Ok(objects)
}

/// Every document of a YAML file.
pub fn parse(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("cannot read {}", path.display()))
}

/// Whether cert-manager reads it, and nobody else.
pub fn is_for_cert_manager(object: &Value) -> bool {
    object["apiVersion"]
        .as_str()
        .is_some_and(|version| version.starts_with(CERT_MANAGER))
}

/// Whether it is a webhook configuration.
pub fn is_webhook(object: &Value) -> bool {
    matches!(
        object["kind"].as_str(),
        Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration")
    )
}

/// The definition of the target, and the role that lets editors edit it: not ours to ship, so not in `manifests/`.
pub fn target() -> anyhow::Result<Vec<Value>> {
    let folder = crate::repository().join("tests/sandbox/definitions");
    let mut objects = parse(&folder.join("modeldeployments.yaml"))?;
    objects.extend(parse(&folder.join("editors.yaml"))?);
    Ok(objects)
}

/// Leads every webhook of a configuration to a program at `address` (host and port), trusted by `authority` (PEM).
pub fn lead_to(configuration: &mut Value, address: &str, authority: &str) -> anyhow::Result<()> {
    let webhooks = configuration["webhooks"]
        .as_array_mut()
        .context("a webhook configuration without webhooks")?;
    for webhook in webhooks {
        let config = &mut webhook["clientConfig"];
        let path = config["service"]["path"]
            .as_str()
            .context("a webhook that leads to no service")?;
        *config = json!({
            "url": format!("https://{address}{path}"),
            "caBundle": STANDARD.encode(authority),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn ours() -> Vec<Value> {
        read(&crate::repository().join("manifests")).unwrap()
    }

    #[test]
    fn nothing_but_where_a_webhook_leads_is_changed() {
        let webhooks: Vec<Value> = ours().into_iter().filter(is_webhook).collect();
        assert_eq!(webhooks.len(), 2);
        for original in webhooks {
            let mut changed = original.clone();
            lead_to(&mut changed, "127.0.0.1:9", "PEM").unwrap();
            let pairs = original["webhooks"]
                .as_array()
                .unwrap()
                .iter()
                .zip(changed["webhooks"].as_array_mut().unwrap());
            for (before, after) in pairs {
                let service = &before["clientConfig"]["service"];
                let path = service["path"].as_str().unwrap();
                assert_eq!(
                    after["clientConfig"],
                    json!({"url": format!("https://127.0.0.1:9{path}"), "caBundle": "UEVN"})
                );
                after["clientConfig"] = before["clientConfig"].clone();
            }
            assert_eq!(original, changed);
        }
    }

    #[test]
    fn a_kustomization_lists_what_kubectl_builds_from_it() {
        let name = |object: &Value| {
            format!(
                "{} {} {}",
                object["apiVersion"], object["kind"], object["metadata"]["name"]
            )
        };
        let ours: BTreeSet<String> = ours().iter().map(name).collect();
        let folder = crate::repository().join("manifests");
        let Ok(built) = std::process::Command::new("kubectl")
            .arg("kustomize")
            .arg(&folder)
            .output()
        else {
            eprintln!("skipped: no kubectl");
            return;
        };
        assert!(built.status.success());
        let built: Vec<Value> =
            serde_saphyr::from_multiple(&String::from_utf8(built.stdout).unwrap()).unwrap();
        assert_eq!(ours, built.iter().map(name).collect());
    }

    #[test]
    fn a_kustomization_that_would_change_objects_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kustomization.yaml"), "namePrefix: x-\n").unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("namePrefix is not understood here"),
            "{error}"
        );
    }

    #[test]
    fn a_webhook_without_a_service_is_an_error() {
        let mut odd = json!({"webhooks": [{"clientConfig": {"url": "https://x"}}]});
        assert!(lead_to(&mut odd, "127.0.0.1:9", "PEM").is_err());
    }
}
