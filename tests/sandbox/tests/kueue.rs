//! The real Kueue on a real API server decides who gets quota.

use anyhow::bail;
use sandbox::cluster::{Cluster, eventually};
use sandbox::control_plane::{ControlPlane, skip};
use sandbox::kueue::{Kueue, QUEUED};
use serde_json::{Value, json};

fn queues(namespace: &str) -> Vec<Value> {
    let kueue = |kind: &str, metadata: Value, spec: Value| json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec});
    vec![
        kueue("ResourceFlavor", json!({"name": "gpu"}), json!({})),
        kueue(
            "ClusterQueue",
            json!({"name": "gpus"}),
            json!({
                "namespaceSelector": {},
                "resourceGroups": [{
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [{"name": "gpu", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "2"}]}],
                }],
            }),
        ),
        kueue(
            "LocalQueue",
            json!({"name": "gpus", "namespace": namespace}),
            json!({"clusterQueue": "gpus"}),
        ),
    ]
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": "gpus", "kueue.x-k8s.io/pod-group-name": name},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "1"},
        },
        "spec": {"containers": [{
            "name": "main", "image": "engine",
            "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
        }]},
    })
}

/// A condition of the Workload that carries a group's name: its status and message.
async fn condition(
    admin: &Cluster,
    namespace: &str,
    name: &str,
    kind: &str,
) -> anyhow::Result<(String, String)> {
    let workload = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"namespace": namespace, "name": name},
    });
    let read = admin.get(&workload).await?.ok()?;
    let conditions = read["status"]["conditions"].as_array();
    let Some(found) = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == kind)
    else {
        bail!("no condition {kind}: {}", read["status"]);
    };
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Ok((text("status"), text("message")))
}

#[tokio::test]
async fn two_of_three_instances_fit_into_a_quota_of_two() {
    let plane = ControlPlane::start().await.unwrap();
    if !plane.has_controllers() {
        skip(
            "two_of_three_instances_fit_into_a_quota_of_two",
            "no garbage collector",
        )
        .unwrap();
        return;
    }
    let admin = plane.admin();
    let kueue = Kueue::start(admin).await.unwrap();
    let namespace = "queued";
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {QUEUED: "kueue"}}});
    admin.create(&object).await.unwrap().ok().unwrap();
    for queue in queues(namespace) {
        admin.create(&queue).await.unwrap().ok().unwrap();
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": "default"}});
    eventually("the default service account is there", async || {
        admin.get(&account).await?.ok()
    })
    .await
    .unwrap();

    for name in ["one", "two"] {
        admin
            .create(&pod(namespace, name))
            .await
            .unwrap()
            .ok()
            .unwrap();
        eventually(&format!("{name} is admitted"), async || {
            match condition(admin, namespace, name, "Admitted").await? {
                (status, _) if status == "True" => Ok(()),
                other => bail!("{other:?}"),
            }
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", kueue.log()));
    }
    let third = pod(namespace, "three");
    admin.create(&third).await.unwrap().ok().unwrap();
    eventually("the third waits", async || {
        match condition(admin, namespace, "three", "QuotaReserved").await? {
            (status, message)
                if status == "False" && message.contains("insufficient unused quota") =>
            {
                Ok(())
            }
            other => bail!("{other:?}"),
        }
    })
    .await
    .unwrap();
    let gates = admin.get(&third).await.unwrap().ok().unwrap()["spec"]["schedulingGates"].clone();
    assert!(
        gates.to_string().contains("kueue.x-k8s.io/admission"),
        "{gates}"
    );
}
