//! The manifests, shown to a real API server: applied by server-side apply and read back, within their own rights, and
//! with the match conditions tried out against webhooks that do not answer.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a cluster that does not answer fails the test"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use kube::{
    Client,
    api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::{self, Scope},
};
use sandbox::control_plane::ControlPlane;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const MANAGER: &str = "cluster-manifests";
const BINDING: &str = "modeldeployment.gpustack.ai/scaler-binding";
const DECISION: &str = "modeldeployment.gpustack.ai/scaler-decision";

// === apply and read back ===

#[tokio::test]
async fn every_manifest_is_applied_and_reads_back_as_written() {
    let cluster = Cluster::connect().await;
    cluster
        .apply_folder(&module("github.com/cert-manager/cert-manager@v1.21.2").join("deploy/crds"))
        .await;
    // The server itself last: what it needs is then there.
    for object in kustomize("manifests") {
        let read = cluster.apply(&object).await;
        assert_contains(&read, &object, &name_of(&object));
    }
    // A second apply by the same manager changes nothing.
    for object in kustomize("manifests") {
        let before = cluster.read(&object).await;
        let after = cluster.apply(&object).await;
        assert_eq!(
            before["metadata"]["resourceVersion"],
            after["metadata"]["resourceVersion"],
            "{} was written again",
            name_of(&object)
        );
    }
    cluster.remove_webhooks().await;
}

#[tokio::test]
async fn every_sample_is_applied_and_reads_back_as_written() {
    let cluster = Cluster::connect().await;
    cluster.install_definitions().await;
    let namespace = cluster.namespace("samples").await;
    for path in files(&root().join("manifests/samples")) {
        for version in ["v1", "v1alpha1"] {
            let mut sample = documents(&path).remove(0);
            sample["apiVersion"] = json!(format!("worker.gpustack.ai/{version}"));
            sample["metadata"]["namespace"] = json!(namespace);
            let read = cluster.apply(&sample).await;
            assert_contains(&read, &sample, &path.display().to_string());
        }
        cluster
            .delete(&json!({
                "apiVersion": "worker.gpustack.ai/v1",
                "kind": "ModelDeploymentScaler",
                "metadata": {"namespace": namespace, "name": "llm-serving"},
            }))
            .await;
    }
}

#[tokio::test]
async fn the_tools_that_manifests_are_written_for_accept_them() {
    let cluster = Cluster::connect().await;
    let definitions = [
        (
            "github.com/cert-manager/cert-manager@v1.21.2",
            "deploy/crds",
            "",
        ),
        (
            "github.com/argoproj/argo-cd/v3@v3.3.0",
            "manifests/crds",
            "application-crd.yaml",
        ),
        (
            "github.com/fluxcd/kustomize-controller@v1.9.0",
            "config/crd/bases",
            "",
        ),
        (
            "github.com/prometheus-operator/prometheus-operator@v0.85.0",
            "example/prometheus-operator-crd",
            "prometheusrules.yaml",
        ),
        (
            "github.com/prometheus-operator/prometheus-operator@v0.85.0",
            "example/prometheus-operator-crd",
            "servicemonitors.yaml",
        ),
    ];
    for (name, folder, file) in definitions {
        let folder = module(name).join(folder);
        for path in files(&folder)
            .iter()
            .filter(|path| path.to_string_lossy().ends_with(file))
        {
            for object in documents(path)
                .iter()
                .filter(|object| object["kind"] == "CustomResourceDefinition")
            {
                cluster.apply(object).await;
            }
        }
    }
    for namespace in ["mds-system", "argocd", "flux-system"] {
        cluster
            .apply(
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            )
            .await;
    }
    let mut objects = kustomize("certs");
    objects.extend(kustomize("manifests/monitoring"));
    for path in files(&root().join("manifests/gitops")) {
        objects.extend(documents(&path));
    }
    for object in objects {
        let read = cluster.apply(&object).await;
        assert_contains(&read, &object, &name_of(&object));
    }
}

// === the manual ===

#[tokio::test]
async fn kubectl_explain_is_the_manual() {
    let cluster = Cluster::connect().await;
    cluster.install_definitions().await;
    for (field, says) in [
        ("spec.sampling.intervalSeconds", "5 to 300"),
        ("spec.targetRef", "mmutable"),
        ("spec.ratios.min", "least ratio"),
        (
            "status.lastCommit.targetGeneration",
            "Generation of the target",
        ),
    ] {
        let text = cluster.kubectl(&["explain", &format!("modeldeploymentscalers.{field}")]);
        let (_, description) = text
            .split_once("DESCRIPTION:")
            .unwrap_or_else(|| panic!("{field}: {text}"));
        assert!(
            description
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(says),
            "{field}: {description}"
        );
    }
}

// === rights ===

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn the_account_may_do_what_the_program_does_and_nothing_else() {
    let cluster = Cluster::connect().await;
    cluster.install_rights().await;
    let verbs = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let read = &["get", "list", "watch"][..];
    let change = &["get", "list", "watch", "patch"][..];
    // Group, resource, subresource, namespace, name; the verbs that are granted.
    let cases = [
        (
            [
                "worker.gpustack.ai",
                "modeldeploymentscalers",
                "",
                "default",
                "",
            ],
            change,
        ),
        (
            [
                "worker.gpustack.ai",
                "modeldeploymentscalers",
                "status",
                "default",
                "",
            ],
            &["patch"],
        ),
        (
            ["worker.gpustack.ai", "modeldeployments", "", "default", ""],
            change,
        ),
        (
            [
                "worker.gpustack.ai",
                "modeldeployments",
                "status",
                "default",
                "",
            ],
            &[],
        ),
        (["", "pods", "", "default", ""], read),
        (["", "pods", "exec", "default", ""], &[]),
        (["", "secrets", "", "mds-system", ""], &[]),
        (["", "configmaps", "", "mds-system", ""], &[]),
        (["kueue.x-k8s.io", "workloads", "", "default", ""], read),
        (
            ["kueue.x-k8s.io", "workloads", "status", "default", ""],
            &[],
        ),
        (
            ["events.k8s.io", "events", "", "default", ""],
            &["create", "patch"],
        ),
        (["", "events", "", "default", ""], &[]),
        (
            ["coordination.k8s.io", "leases", "", "mds-system", "mds"],
            &["get", "create", "update", "patch"],
        ),
        (
            ["coordination.k8s.io", "leases", "", "mds-system", "another"],
            &["create"],
        ),
        (
            ["coordination.k8s.io", "leases", "", "kube-system", "mds"],
            &[],
        ),
        (
            [
                "admissionregistration.k8s.io",
                "validatingwebhookconfigurations",
                "",
                "",
                "mds",
            ],
            &[],
        ),
        (
            ["authentication.k8s.io", "selfsubjectreviews", "", "", ""],
            &["create"],
        ),
        (["authentication.k8s.io", "tokenreviews", "", "", ""], &[]),
    ];
    for ([group, resource, subresource, namespace, name], granted) in cases {
        let allowed: Vec<&str> = {
            let mut allowed = Vec::new();
            for verb in verbs {
                let answer = cluster.create(&json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "metadata": {},
                    "spec": {
                        "user": "system:serviceaccount:mds-system:mds",
                        "groups": ["system:serviceaccounts", "system:serviceaccounts:mds-system", "system:authenticated"],
                        "resourceAttributes": {
                            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                            "namespace": namespace, "name": name,
                        },
                    },
                })).await.unwrap();
                if answer["status"]["allowed"] == true {
                    allowed.push(verb);
                }
            }
            allowed
        };
        assert_eq!(
            allowed, granted,
            "{group}/{resource}/{subresource} {namespace}/{name}"
        );
    }
}

#[tokio::test]
async fn who_may_edit_a_namespace_may_edit_its_scalers_and_not_their_status() {
    let cluster = Cluster::connect().await;
    if !cluster.aggregates_roles {
        eprintln!("skipped: nobody aggregates cluster roles on this control plane");
        return;
    }
    cluster.install_rights().await;
    let namespace = cluster.namespace("people").await;
    for (user, role) in [("ed", "edit"), ("vi", "view")] {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": user, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        cluster.create(&binding).await.unwrap();
    }
    let may = async |user: &str, verb: &str, subresource: &str| {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {
                "user": user,
                "resourceAttributes": {
                    "verb": verb, "group": "worker.gpustack.ai", "resource": "modeldeploymentscalers",
                    "subresource": subresource, "namespace": namespace,
                },
            },
        });
        cluster.create(&review).await.unwrap()["status"]["allowed"] == true
    };
    for (user, verb) in [("ed", "create"), ("vi", "get")] {
        eventually(async || {
            if may(user, verb, "").await {
                Ok(())
            } else {
                Err(format!("{user} may not {verb}"))
            }
        })
        .await;
    }
    for verb in [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ] {
        assert!(may("ed", verb, "").await, "ed {verb}");
        assert!(!may("ed", verb, "status").await, "ed {verb} status");
    }
    assert!(!may("vi", "patch", "").await);
}

#[tokio::test]
async fn the_pod_is_admitted_where_the_restricted_standard_is_enforced() {
    let cluster = Cluster::connect().await;
    cluster.install_rights().await;
    let deployment = kustomize("manifests")
        .into_iter()
        .find(|o| o["kind"] == "Deployment")
        .unwrap();
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "mds-system"},
        "spec": deployment["spec"]["template"]["spec"],
    });
    cluster
        .dry_run_create(&pod)
        .await
        .unwrap_or_else(|e| panic!("{e}"));

    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let refusal = cluster.dry_run_create(&pod).await.unwrap_err();
    assert!(
        refusal.contains("violates PodSecurity \"restricted:latest\""),
        "{refusal}"
    );
}

// === match conditions ===

/// What the API server did with a write while no webhook answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Sent,
    Spared,
}
use Call::{Sent, Spared};

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn conditions_spare_writes_that_touch_neither_counts_nor_annotations_and_no_others() {
    let cluster = Cluster::connect().await;
    cluster.install_definitions().await;
    let namespace = cluster.namespace("conditions").await;
    let deployment = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "worker.gpustack.ai/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {"roles": [{"name": "a", "replicas": 2}, {"name": "b"}]},
        })
    };
    let bound = deployment("bound", json!({BINDING: "b", DECISION: ""}));
    let free = deployment("free", json!({"other": "x"}));
    let bare = deployment("bare", Value::Null);
    for object in [&bound, &free, &bare] {
        cluster.create(object).await.unwrap();
    }
    cluster
        .install_webhooks_that_nobody_answers(&namespace)
        .await;

    for (annotations, expected) in [
        (json!({}), Spared),
        (json!({"other": "x"}), Spared),
        (json!({BINDING: ""}), Sent),
        (json!({DECISION: ""}), Sent),
        (json!({BINDING: "b", DECISION: "d"}), Sent),
    ] {
        let object = deployment("new", annotations.clone());
        assert_eq!(
            call(cluster.dry_run_create(&object).await),
            expected,
            "create with {annotations}"
        );
    }

    let pointer = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let every: &[&Value] = &[&bound, &free, &bare];
    let (only_bound, only_free, only_bare) = ([&bound], [&free], [&bare]);
    let replicas = |index: usize, value: i32| json!([{"op": "replace", "path": format!("/spec/roles/{index}/replicas"), "value": value}]);
    let cases: Vec<(&[&Value], Value, Call)> = vec![
        (
            every,
            json!([{"op": "add", "path": "/spec/roles/0/image", "value": "new"}]),
            Spared,
        ),
        (
            every,
            json!([{"op": "add", "path": "/spec/roles/0/extraArgs", "value": ["--x"]}]),
            Spared,
        ),
        (
            every,
            json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
            Spared,
        ),
        (
            every,
            json!([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hold"]}]),
            Spared,
        ),
        (every, replicas(0, 2), Spared),
        (every, replicas(1, 1), Spared),
        // An omitted count is stored as 1.
        (
            every,
            json!([{"op": "remove", "path": "/spec/roles/1/replicas"}]),
            Spared,
        ),
        (every, replicas(0, 3), Sent),
        (every, replicas(1, 2), Sent),
        (
            every,
            json!([{"op": "remove", "path": "/spec/roles/0/replicas"}]),
            Sent,
        ),
        (
            every,
            json!([{"op": "replace", "path": "/spec/roles/0/name", "value": "c"}]),
            Sent,
        ),
        (
            every,
            json!([{"op": "remove", "path": "/spec/roles/1"}]),
            Sent,
        ),
        (
            every,
            json!([{"op": "remove", "path": "/spec/roles/0"}]),
            Sent,
        ),
        (
            every,
            json!([{"op": "replace", "path": "/spec/roles", "value": []}]),
            Sent,
        ),
        (
            every,
            json!([{"op": "remove", "path": "/spec/roles"}]),
            Sent,
        ),
        (
            every,
            json!([{"op": "add", "path": "/spec/roles/-", "value": {"name": "c"}}]),
            Sent,
        ),
        (
            every,
            json!([{"op": "move", "from": "/spec/roles/1", "path": "/spec/roles/0"}]),
            Sent,
        ),
        // Names and counts swapped: the same set of each, another vector.
        (
            every,
            json!([
                {"op": "replace", "path": "/spec/roles/0/replicas", "value": 1},
                {"op": "replace", "path": "/spec/roles/1/replicas", "value": 2},
            ]),
            Sent,
        ),
        (
            &only_bare,
            json!([{"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}}]),
            Spared,
        ),
        (
            &only_bare,
            json!([{"op": "add", "path": "/metadata/annotations", "value": {BINDING: ""}}]),
            Sent,
        ),
        (
            &only_bare,
            json!([{"op": "add", "path": "/metadata/annotations", "value": {DECISION: ""}}]),
            Sent,
        ),
        (
            &only_free,
            json!([{"op": "add", "path": pointer(BINDING), "value": ""}]),
            Sent,
        ),
        (
            &only_free,
            json!([{"op": "add", "path": pointer(DECISION), "value": "{}"}]),
            Sent,
        ),
        (
            &only_free,
            json!([{"op": "remove", "path": "/metadata/annotations"}]),
            Spared,
        ),
        (
            &only_bound,
            json!([{"op": "add", "path": "/metadata/annotations/other", "value": "y"}]),
            Spared,
        ),
        (
            &only_bound,
            json!([{"op": "replace", "path": pointer(BINDING), "value": "c"}]),
            Sent,
        ),
        (
            &only_bound,
            json!([{"op": "replace", "path": pointer(BINDING), "value": ""}]),
            Sent,
        ),
        (
            &only_bound,
            json!([{"op": "replace", "path": pointer(DECISION), "value": "d"}]),
            Sent,
        ),
        (
            &only_bound,
            json!([{"op": "remove", "path": pointer(BINDING)}]),
            Sent,
        ),
        (
            &only_bound,
            json!([{"op": "remove", "path": pointer(DECISION)}]),
            Sent,
        ),
        (
            &only_bound,
            json!([{"op": "remove", "path": "/metadata/annotations"}]),
            Sent,
        ),
    ];
    for (objects, patch, expected) in cases {
        for object in objects {
            let answer = cluster.dry_run_patch(object, &patch).await;
            assert_eq!(
                call(answer),
                expected,
                "{} {patch}",
                object["metadata"]["name"]
            );
        }
    }
    // Status is not the fence's: never sent.
    let answer = cluster
        .dry_run_patch_status(
            &bound,
            &json!([{"op": "add", "path": "/status", "value": {"x": 1}}]),
        )
        .await;
    assert_eq!(call(answer), Spared);
    // Deletion is not sent.
    cluster.delete(&bound).await;
    cluster.remove_webhooks().await;
}

/// A condition may only cost so much, and one that costs more is a refusal.
#[tokio::test]
async fn conditions_can_afford_the_largest_deployments() {
    let cluster = Cluster::connect().await;
    cluster.install_definitions().await;
    let namespace = cluster.namespace("large").await;
    let roles: Vec<Value> = (0..64)
        .map(|n| json!({"name": format!("role-{n}"), "replicas": 1024, "extraArgs": ["x".repeat(12 << 10)]}))
        .collect();
    let large = json!({
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {
            "name": "large",
            "namespace": namespace,
            // Together a little below the 256 KiB that annotations may have.
            "annotations": {BINDING: "b".repeat(100 << 10), DECISION: "d".repeat(100 << 10), "other": "o".repeat(50 << 10)},
        },
        "spec": {"roles": roles},
    });
    cluster.create(&large).await.unwrap();
    cluster
        .install_webhooks_that_nobody_answers(&namespace)
        .await;
    let label = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    assert_eq!(call(cluster.dry_run_patch(&large, &label).await), Spared);
    let count = json!([{"op": "replace", "path": "/spec/roles/63/replicas", "value": 1}]);
    assert_eq!(call(cluster.dry_run_patch(&large, &count).await), Sent);
    cluster.remove_webhooks().await;
}

#[tokio::test]
async fn conditions_spare_a_scalers_labels_and_send_its_spec_and_finalizers() {
    let cluster = Cluster::connect().await;
    cluster.install_definitions().await;
    let namespace = cluster.namespace("scalers").await;
    let mut scaler = documents(&root().join("manifests/samples/minimal.yaml")).remove(0);
    scaler["metadata"]["namespace"] = json!(namespace);
    cluster.create(&scaler).await.unwrap();
    cluster
        .install_webhooks_that_nobody_answers(&namespace)
        .await;

    let mut another = scaler.clone();
    another["metadata"]["name"] = json!("another");
    assert_eq!(call(cluster.dry_run_create(&another).await), Sent);
    for (patch, expected) in [
        (
            json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
            Spared,
        ),
        (
            json!([{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]),
            Spared,
        ),
        (
            json!([{"op": "replace", "path": "/spec/roles/0/maxReplicas", "value": 16}]),
            Spared,
        ),
        (
            json!([{"op": "replace", "path": "/spec/roles/0/maxReplicas", "value": 15}]),
            Sent,
        ),
        (
            json!([{"op": "add", "path": "/spec/suspend", "value": true}]),
            Sent,
        ),
        (
            json!([{"op": "replace", "path": "/spec/algorithm/proportional/roleTargets/0/target", "value": 8}]),
            Sent,
        ),
        (
            json!([{"op": "add", "path": "/metadata/finalizers", "value": ["worker.gpustack.ai/scaler-release"]}]),
            Sent,
        ),
    ] {
        assert_eq!(
            call(cluster.dry_run_patch(&scaler, &patch).await),
            expected,
            "{patch}"
        );
    }
    let status = json!([{"op": "add", "path": "/status", "value": {"observedGeneration": 1}}]);
    assert_eq!(
        call(cluster.dry_run_patch_status(&scaler, &status).await),
        Sent
    );
    // Deletion is not sent: a scaler can go while no webhook answers.
    cluster.delete(&scaler).await;
    cluster.remove_webhooks().await;
}

// === beside a GitOps tool ===

/// A deployment as it lies in Git, and a scaler's commit to it.
async fn a_scaled_deployment(cluster: &Cluster, namespace: &str, git: &Value) {
    cluster.apply_as("gitops", git).await.unwrap();
    let commit = json!([
        {"op": "replace", "path": "/spec/roles/0/replicas", "value": 5},
        {"op": "add", "path": "/metadata/annotations", "value": {BINDING: "b", DECISION: "d"}},
    ]);
    cluster.patch(git, &commit).await.unwrap();
    cluster
        .install_webhooks_that_nobody_answers(namespace)
        .await;
}

fn in_git(namespace: &str, role: &Value) -> Value {
    json!({
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "llm-serving", "namespace": namespace},
        "spec": {"roles": [role]},
    })
}

fn assert_still_scaled(read: &Value) {
    assert_eq!(read["spec"]["roles"][0]["replicas"], 5);
    assert_eq!(read["spec"]["roles"][0]["image"], "new");
    assert_eq!(
        read["metadata"]["annotations"],
        json!({BINDING: "b", DECISION: "d"})
    );
}

#[tokio::test]
async fn a_tool_that_leaves_counts_out_of_git_neither_changes_them_nor_calls_the_webhook() {
    let cluster = Cluster::connect().await;
    cluster.install_definitions().await;
    let namespace = cluster.namespace("gitops").await;
    a_scaled_deployment(
        &cluster,
        &namespace,
        &in_git(&namespace, &json!({"name": "a", "image": "old"})),
    )
    .await;

    let synced = cluster
        .apply_as(
            "gitops",
            &in_git(&namespace, &json!({"name": "a", "image": "new"})),
        )
        .await;
    assert_still_scaled(&synced.unwrap());
    cluster.remove_webhooks().await;
}

#[tokio::test]
async fn a_tool_that_ignores_the_documented_pointers_does_neither() {
    let cluster = Cluster::connect().await;
    cluster.install_definitions().await;
    let argo = documents(&root().join("manifests/gitops/argocd.yaml")).remove(0);
    let flux = documents(&root().join("manifests/gitops/flux.yaml")).remove(0);
    for pointers in [
        &argo["spec"]["ignoreDifferences"][0]["jsonPointers"],
        &flux["spec"]["ignore"][0]["paths"],
    ] {
        let namespace = cluster.namespace("gitops").await;
        a_scaled_deployment(
            &cluster,
            &namespace,
            &in_git(
                &namespace,
                &json!({"name": "a", "image": "old", "replicas": 2}),
            ),
        )
        .await;

        // Git has a count and a stale annotation; what is ignored is taken out before the sync.
        let mut wanted = in_git(
            &namespace,
            &json!({"name": "a", "image": "new", "replicas": 2}),
        );
        wanted["metadata"]["annotations"] = json!({BINDING: "stale", DECISION: "stale"});
        assert_eq!(
            call(cluster.apply_as("gitops", &wanted).await),
            Sent,
            "without the exclusion"
        );
        for pointer in pointers.as_array().unwrap() {
            remove(&mut wanted, text(pointer));
        }
        assert_still_scaled(&cluster.apply_as("gitops", &wanted).await.unwrap());
        cluster.remove_webhooks().await;
    }
}

/// Why the documents say when counts may leave Git: a field that only the tool owns goes when the tool lets it go.
#[tokio::test]
async fn a_count_that_nobody_else_wrote_falls_to_its_default_when_it_leaves_git() {
    let cluster = Cluster::connect().await;
    cluster.install_definitions().await;
    let namespace = cluster.namespace("gitops").await;
    let with = in_git(&namespace, &json!({"name": "a", "replicas": 3}));
    let without = in_git(&namespace, &json!({"name": "a"}));
    cluster.apply_as("gitops", &with).await.unwrap();
    let dropped = cluster.apply_as("gitops", &without).await.unwrap();
    assert_eq!(dropped["spec"]["roles"][0]["replicas"], 1);

    // Handed over first, it stays.
    cluster.apply_as("gitops", &with).await.unwrap();
    cluster.apply_as("handover", &with).await.unwrap();
    let kept = cluster.apply_as("gitops", &without).await.unwrap();
    assert_eq!(kept["spec"]["roles"][0]["replicas"], 3);
}

/// Removes what a JSON pointer names.
fn remove(object: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let removed = object
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(&key.replace("~1", "/"));
    assert!(removed.is_some(), "{pointer}");
}

fn call(answer: Result<Value, String>) -> Call {
    match answer {
        Ok(_) => Spared,
        Err(refusal) if refusal.contains("failed calling webhook") => Sent,
        Err(other) => panic!("neither sent nor spared: {other}"),
    }
}

// === the cluster ===

/// A control plane of this file's own, since its tests take the webhooks away from everybody. One test at a time.
struct Cluster {
    client: Client,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    aggregates_roles: bool,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Cluster {
    async fn connect() -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let plane = PLANE.get_or_try_init(ControlPlane::start).await.unwrap();
        let admin = plane.admin();
        let cluster = Self {
            // A client of its own: one does not outlive the runtime of the test that made it.
            client: admin.account().client().await.unwrap(),
            kubeconfig: admin.kubeconfig().to_owned(),
            kubectl: admin.kubectl_program().unwrap_or_else(|| "kubectl".into()),
            aggregates_roles: plane.has_controllers(),
            _alone: alone,
        };
        cluster.remove_webhooks().await;
        cluster
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    async fn api(&self, object: &Value) -> Api<DynamicObject> {
        let (group, version) = match text(&object["apiVersion"]).split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text(&object["apiVersion"])),
        };
        let kind = GroupVersionKind::gvk(group, version, text(&object["kind"]));
        // A definition that was just made is served a moment later.
        let (resource, capabilities) =
            eventually(|| discovery::pinned_kind(&self.client, &kind)).await;
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) if capabilities.scope == Scope::Namespaced => {
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            _ => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Server-side apply, as `kubectl apply --server-side` does it.
    async fn apply(&self, object: &Value) -> Value {
        let parameters = PatchParams::apply(MANAGER);
        let patch = Patch::Apply(object);
        let applied = self
            .api(object)
            .await
            .patch(text(&object["metadata"]["name"]), &parameters, &patch)
            .await;
        let applied = applied.unwrap_or_else(|e| panic!("{}: {e}", name_of(object)));
        if object["kind"] == "CustomResourceDefinition" {
            self.wait_until_established(object).await;
        }
        serde_json::to_value(applied).unwrap()
    }

    /// Server-side apply by another manager, forced, as GitOps tools do it.
    async fn apply_as(&self, manager: &str, object: &Value) -> Result<Value, String> {
        let parameters = PatchParams::apply(manager).force();
        let api = self.api(object).await;
        let applied = api
            .patch(
                text(&object["metadata"]["name"]),
                &parameters,
                &Patch::Apply(object),
            )
            .await;
        applied
            .map(|a| serde_json::to_value(a).unwrap())
            .map_err(|e| e.to_string())
    }

    /// JSON Patch, as mds writes.
    async fn patch(&self, object: &Value, operations: &Value) -> Result<Value, String> {
        let patch =
            Patch::Json::<DynamicObject>(serde_json::from_value(operations.clone()).unwrap());
        let api = self.api(object).await;
        let patched = api
            .patch(
                text(&object["metadata"]["name"]),
                &PatchParams::default(),
                &patch,
            )
            .await;
        patched
            .map(|p| serde_json::to_value(p).unwrap())
            .map_err(|e| e.to_string())
    }

    async fn wait_until_established(&self, definition: &Value) {
        eventually(async || {
            let read = self.read(definition).await;
            let conditions = read["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let established = conditions
                .iter()
                .any(|c| c["type"] == "Established" && c["status"] == "True");
            if established {
                Ok(())
            } else {
                Err(format!("{}: {conditions:?}", name_of(definition)))
            }
        })
        .await;
    }

    async fn apply_folder(&self, folder: &Path) {
        for path in files(folder) {
            for object in documents(&path) {
                self.apply(&object).await;
            }
        }
    }

    async fn read(&self, object: &Value) -> Value {
        let read = self
            .api(object)
            .await
            .get(text(&object["metadata"]["name"]))
            .await;
        serde_json::to_value(read.unwrap_or_else(|e| panic!("{}: {e}", name_of(object)))).unwrap()
    }

    async fn create(&self, object: &Value) -> Result<Value, String> {
        self.create_with(object, &PostParams::default()).await
    }

    async fn dry_run_create(&self, object: &Value) -> Result<Value, String> {
        self.create_with(
            object,
            &PostParams {
                dry_run: true,
                ..PostParams::default()
            },
        )
        .await
    }

    async fn create_with(&self, object: &Value, parameters: &PostParams) -> Result<Value, String> {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let created = self
            .api(object)
            .await
            .create(parameters, &typed)
            .await
            .map_err(|e| e.to_string())?;
        Ok(serde_json::to_value(created).unwrap())
    }

    async fn dry_run_patch(&self, object: &Value, operations: &Value) -> Result<Value, String> {
        let (parameters, patch) = dry_run(operations);
        let api = self.api(object).await;
        let patched = api
            .patch(text(&object["metadata"]["name"]), &parameters, &patch)
            .await;
        patched
            .map(|p| serde_json::to_value(p).unwrap())
            .map_err(|e| e.to_string())
    }

    async fn dry_run_patch_status(
        &self,
        object: &Value,
        operations: &Value,
    ) -> Result<Value, String> {
        let (parameters, patch) = dry_run(operations);
        let api = self.api(object).await;
        let patched = api
            .patch_status(text(&object["metadata"]["name"]), &parameters, &patch)
            .await;
        patched
            .map(|p| serde_json::to_value(p).unwrap())
            .map_err(|e| e.to_string())
    }

    async fn delete(&self, object: &Value) {
        let api = self.api(object).await;
        let name = text(&object["metadata"]["name"]);
        api.delete(name, &DeleteParams::default())
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", name_of(object)));
    }

    async fn namespace(&self, name: &str) -> String {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": format!("{name}-")}});
        text(&self.create(&object).await.unwrap()["metadata"]["name"]).to_owned()
    }

    /// The definitions of scaler and deployment.
    async fn install_definitions(&self) {
        self.apply(&model_deployments()).await;
        self.apply_folder(&root().join("manifests/crd")).await;
    }

    async fn install_rights(&self) {
        for object in kustomize("manifests/server")
            .iter()
            .filter(|o| o["kind"] == "Namespace")
        {
            self.apply(object).await;
        }
        for object in kustomize("manifests/rbac") {
            self.apply(&object).await;
        }
    }

    /// The configurations as they are. Their Service leads nowhere here, so that what is sent fails, and fails closed.
    async fn install_webhooks_that_nobody_answers(&self, namespace: &str) {
        for object in kustomize("manifests/webhook") {
            self.apply(&object).await;
        }
        // The API server reads its configurations a moment later.
        let mut probe = documents(&root().join("manifests/samples/minimal.yaml")).remove(0);
        probe["metadata"] = json!({"name": "probe", "namespace": namespace});
        let mut claimed = json!({
            "apiVersion": "worker.gpustack.ai/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": {"name": "probe", "namespace": namespace, "annotations": {}},
            "spec": {"roles": [{"name": "a"}]},
        });
        claimed["metadata"]["annotations"][BINDING] = json!("");
        for object in [probe, claimed] {
            eventually(async || match self.dry_run_create(&object).await {
                Ok(_) => Err("still admitted"),
                Err(_) => Ok(()),
            })
            .await;
        }
    }

    async fn remove_webhooks(&self) {
        for kind in [
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ] {
            let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "mds"}});
            let _ = self
                .api(&object)
                .await
                .delete("mds", &DeleteParams::default())
                .await;
        }
    }
}

/// The deployment's definition is its operator's. This one is looser than any: what a stricter one refuses never gets as
/// far as a webhook.
fn model_deployments() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let role = json!({
        "type": "object",
        "required": ["name"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "name": {"type": "string"},
            "replicas": {"type": "integer", "format": "int32", "default": 1},
        },
    });
    let roles = json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": role,
    });
    let mut spec = open.clone();
    spec["properties"] = json!({"roles": roles});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": open}});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "modeldeployments.worker.gpustack.ai"},
        "spec": {
            "group": "worker.gpustack.ai",
            "names": {"kind": "ModelDeployment", "plural": "modeldeployments", "singular": "modeldeployment"},
            "scope": "Namespaced",
            "versions": [version("v1alpha1", true), version("v1", false)],
        },
    })
}

fn dry_run(operations: &Value) -> (PatchParams, Patch<DynamicObject>) {
    let parameters = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    (
        parameters,
        Patch::Json(serde_json::from_value(operations.clone()).unwrap()),
    )
}

/// Asks again for a while what is true a moment later.
async fn eventually<T, E: std::fmt::Debug>(mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let mut last = None;
    for _ in 0..150 {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not within 15 s: {last:?}");
}

// === reading ===

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of a Go module, fetched into the module cache.
fn module(name: &str) -> PathBuf {
    let output = Command::new("go")
        .args(["mod", "download", "-json", name])
        .current_dir(env::temp_dir())
        .output()
        .unwrap();
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{name}: {e}"));
    PathBuf::from(
        answer["Dir"]
            .as_str()
            .unwrap_or_else(|| panic!("{name}: {answer}")),
    )
}

fn kustomize(folder: &str) -> Vec<Value> {
    let output = Command::new("kubectl")
        .arg("kustomize")
        .arg(root().join(folder))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{folder}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension().is_some_and(|e| e == "yaml") && !path.ends_with("kustomization.yaml")
        })
        .collect();
    files.sort();
    files
}

fn documents(path: &Path) -> Vec<Value> {
    serde_saphyr::from_multiple(&fs::read_to_string(path).unwrap())
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Everything written is there as it was written; the API server may add.
fn assert_contains(read: &Value, written: &Value, path: &str) {
    match (read, written) {
        (Value::Object(read), Value::Object(written)) => {
            for (key, value) in written {
                let found = read
                    .get(key)
                    .unwrap_or_else(|| panic!("{path}.{key} was dropped"));
                assert_contains(found, value, &format!("{path}.{key}"));
            }
        }
        (Value::Array(read), Value::Array(written)) => {
            assert_eq!(read.len(), written.len(), "{path}");
            for (index, (read, written)) in read.iter().zip(written).enumerate() {
                assert_contains(read, written, &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(read, written, "{path}"),
    }
}

fn name_of(object: &Value) -> String {
    format!(
        "{}/{}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
