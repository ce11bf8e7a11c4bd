//! The control plane itself: it starts, answers, collects garbage, and ends.

use sandbox::cluster::eventually;
use sandbox::control_plane::{ControlPlane, skip};
use serde_json::{Value, json};

fn config_map(namespace: &str, name: &str, owner: Option<&Value>) -> Value {
    let owners: Vec<Value> = owner
        .into_iter()
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
            })
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners},
    })
}

#[tokio::test]
async fn what_an_owner_leaves_behind_is_collected() {
    let plane = ControlPlane::shared().await.unwrap();
    if !plane.has_controllers() {
        skip(
            "what_an_owner_leaves_behind_is_collected",
            "no garbage collector",
        )
        .unwrap();
        return;
    }
    let admin = plane.admin();
    let namespace = admin.namespace("garbage").await.unwrap();
    let owner = admin
        .create(&config_map(&namespace, "owner", None))
        .await
        .unwrap()
        .ok()
        .unwrap();
    let orphan = config_map(&namespace, "owned", Some(&owner));
    admin.create(&orphan).await.unwrap().ok().unwrap();
    admin.delete(&owner).await.unwrap().ok().unwrap();
    eventually("the owned object is gone", async || {
        match admin.get(&orphan).await?.status {
            404 => Ok(()),
            status => anyhow::bail!("{status}"),
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_service_accounts_token_carries_its_real_name() {
    let plane = ControlPlane::shared().await.unwrap();
    let admin = plane.admin();
    let namespace = admin.namespace("accounts").await.unwrap();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": "robot"}});
    admin.create(&account).await.unwrap().ok().unwrap();
    let robot = admin.service_account(&namespace, "robot").await.unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let me = robot.create(&review).await.unwrap().ok().unwrap();
    assert_eq!(
        me["status"]["userInfo"]["username"],
        json!(format!("system:serviceaccount:{namespace}:robot"))
    );
}

#[tokio::test]
async fn an_editor_may_edit_its_own_namespace_and_no_other() {
    let plane = ControlPlane::shared().await.unwrap();
    if !plane.has_controllers() {
        skip(
            "an_editor_may_edit_its_own_namespace_and_no_other",
            "nobody aggregates cluster roles",
        )
        .unwrap();
        return;
    }
    let admin = plane.admin();
    let mine = admin.namespace("mine").await.unwrap();
    let theirs = admin.namespace("theirs").await.unwrap();
    let alice = admin.editor(&mine, "alice").await.unwrap();
    eventually("alice may create here", async || {
        alice.apply(&config_map(&mine, "a", None)).await?.ok()
    })
    .await
    .unwrap();
    let refused = alice.create(&config_map(&theirs, "a", None)).await.unwrap();
    assert_eq!((refused.status, refused.reason()), (403, "Forbidden"));
}

#[tokio::test]
async fn kubectl_works_with_the_written_kubeconfig() {
    let plane = ControlPlane::shared().await.unwrap();
    let printed = plane
        .admin()
        .kubectl(&["get", "namespace", "default", "-o", "name"])
        .await
        .unwrap();
    assert_eq!(
        (printed.code, printed.out.trim()),
        (0, "namespace/default"),
        "{}",
        printed.err
    );
}
