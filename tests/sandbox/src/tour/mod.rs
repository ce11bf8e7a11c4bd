//! The tour: what the webhooks do, each step a real request through a real API server, checked.
//!
//! Two speakers: alice, who may edit one namespace, and the program's own service account. The tour itself acts with the
//! latter where a binding or a commit is needed, and says so.

mod binding;
mod scaler;
mod teller;

pub use teller::{Ask, Speaker, Teller};

use crate::cluster::{Cluster, Patch, eventually};
use anyhow::bail;
use serde_json::{Value, json};

/// The one who edits.
const USER: &str = "alice";

/// What the steps share.
struct Scene {
    alice: Speaker,
    mds: Speaker,
    namespace: String,
}

/// Makes the namespace that a tour walks through.
pub async fn namespace(admin: &Cluster) -> anyhow::Result<String> {
    admin.namespace("tour").await
}

/// Removes it with all that is in it, and waits until it is gone: some controller has to do that.
pub async fn clear(admin: &Cluster, namespace: &str) -> anyhow::Result<()> {
    // A tour that was broken off leaves a scaler that waits for a release which nobody gives.
    let scalers = json!({
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeploymentScaler",
        "metadata": {"namespace": namespace},
    });
    let list = admin
        .send("GET", &admin.collection(&scalers).await?, None)
        .await?
        .ok()?;
    for item in list["items"].as_array().into_iter().flatten() {
        let mut scaler = scalers.clone();
        scaler["metadata"]["name"] = item["metadata"]["name"].clone();
        let strip = json!({"metadata": {"finalizers": null}});
        admin.patch(&scaler, Patch::Merge, &strip).await?.ok()?;
    }
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    admin.delete(&object).await?.ok()?;
    eventually(
        &format!("namespace {namespace} is gone"),
        async || match admin.get(&object).await?.status {
            404 => Ok(()),
            status => bail!("{status}"),
        },
    )
    .await
}

/// Walks through all steps in a namespace, with the administrator's and the program's accounts.
pub async fn walk(
    admin: &Cluster,
    account: &Cluster,
    namespace: &str,
    teller: &mut Teller<'_>,
) -> anyhow::Result<()> {
    let scene = Scene {
        alice: Speaker {
            name: USER,
            cluster: alice(admin, namespace).await?,
        },
        mds: Speaker {
            name: "mds (played by the tour)",
            cluster: account.clone(),
        },
        namespace: namespace.to_owned(),
    };
    teller.say(&format!(
        "{USER} may edit the namespace {namespace}; nothing else. She could be a GitOps tool."
    ))?;
    scaler::defaults(&scene, teller).await?;
    scaler::proof(&scene, teller).await?;
    let bound = binding::bind(&scene, teller).await?;
    binding::ownership(&scene, &bound, teller).await?;
    binding::stale_term(&scene, &bound, teller).await?;
    binding::orphan(&scene, &bound, teller).await
}

/// A user with the rights to edit scalers and deployments in one namespace, once they are in force.
async fn alice(admin: &Cluster, namespace: &str) -> anyhow::Result<Cluster> {
    let alice = admin.editor(namespace, USER).await?;
    // `edit` gathers these where a controller aggregates roles; not every control plane has one.
    for role in ["mds-scaler-editor", "sandbox-modeldeployment-editor"] {
        admin.grant(namespace, USER, role).await?;
    }
    for resource in ["modeldeployments", "modeldeploymentscalers"] {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "namespace": namespace, "verb": "create", "group": "worker.gpustack.ai", "resource": resource,
            }},
        });
        eventually(&format!("{USER} may create {resource}"), async || {
            let answer = alice.create(&review).await?.ok()?;
            if answer["status"]["allowed"] != true {
                bail!("{}", answer["status"]);
            }
            Ok(())
        })
        .await?;
    }
    Ok(alice)
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}
