//! The manifests, checked without a cluster: they parse, they hold to the design, and the examples of the documents
//! are the samples. `tests/cluster_manifests.rs` shows them to a real API server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a manifest that cannot be read fails the test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

const API_VERSIONS: [&str; 2] = ["v1", "v1alpha1"];

#[test]
fn every_manifest_parses_and_names_its_kind() {
    for path in yaml_files(&root().join("manifests"))
        .into_iter()
        .chain(yaml_files(&root().join("certs")))
    {
        let documents = documents(&path);
        assert!(!documents.is_empty(), "{} is empty", path.display());
        for document in documents {
            for field in ["apiVersion", "kind"] {
                assert!(
                    document[field].is_string(),
                    "{}: no {field}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn every_file_of_a_folder_is_in_its_kustomization() {
    for folder in [
        "certs",
        "manifests/crd",
        "manifests/rbac",
        "manifests/server",
        "manifests/webhook",
    ] {
        let folder = root().join(folder);
        let listed: BTreeSet<String> =
            strings(&one(&folder.join("kustomization.yaml"))["resources"]).collect();
        let found: BTreeSet<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| is_yaml(Path::new(name)) && name != "kustomization.yaml")
            .collect();
        assert_eq!(listed, found, "{}", folder.display());
    }
}

#[test]
fn the_committed_definition_is_the_one_that_the_types_make() {
    let committed = one(&root().join("manifests/crd/modeldeploymentscalers.yaml"));
    assert!(
        committed == mds::api::crd(),
        "run: mds crd > manifests/crd/modeldeploymentscalers.yaml"
    );
}

// === access ===

#[test]
fn the_program_may_do_exactly_this() {
    let read: &[&str] = &["get", "list", "watch"];
    let change: &[&str] = &["get", "list", "watch", "patch"];
    assert_eq!(
        grants(&one(&root().join("manifests/rbac/clusterrole.yaml"))),
        table(&[
            ("events.k8s.io/events", &["create", "patch"]),
            ("kueue.x-k8s.io/workloads", read),
            ("pods", read),
            ("worker.gpustack.ai/modeldeployments", change),
            ("worker.gpustack.ai/modeldeploymentscalers", change),
            (
                "worker.gpustack.ai/modeldeploymentscalers/status",
                &["patch"]
            ),
        ])
    );
    assert_eq!(
        grants(&one(&root().join("manifests/rbac/role.yaml"))),
        table(&[
            ("coordination.k8s.io/leases", &["create"]),
            (
                "coordination.k8s.io/leases named mds",
                &["get", "update", "patch"]
            ),
        ])
    );
}

#[test]
fn people_get_scalers_and_never_their_status() {
    let roles = documents(&root().join("manifests/rbac/user_roles.yaml"));
    let granted: Vec<_> = roles.iter().map(grants).collect();
    let scalers = "worker.gpustack.ai/modeldeploymentscalers";
    assert_eq!(
        granted,
        [
            table(&[(scalers, &["get", "list", "watch"])]),
            table(&[(
                scalers,
                &["create", "update", "patch", "delete", "deletecollection"]
            )]),
        ]
    );
}

#[test]
fn every_grant_of_the_program_is_bound_to_its_own_account_alone() {
    for binding in documents(&root().join("manifests/rbac/bindings.yaml")) {
        assert_eq!(
            binding["subjects"],
            json!([{"kind": "ServiceAccount", "name": "mds", "namespace": "mds-system"}])
        );
        assert_eq!(binding["roleRef"]["name"], "mds");
    }
    assert_eq!(
        one(&root().join("manifests/server/deployment.yaml"))["spec"]["template"]["spec"]["serviceAccountName"],
        "mds"
    );
}

// === webhooks ===

#[test]
fn webhooks_are_closed_on_failure_and_cover_both_versions() {
    let expected = [
        (
            "/mutate-scaler",
            "modeldeploymentscalers",
            &["CREATE", "UPDATE"][..],
        ),
        (
            "/validate-scaler",
            "modeldeploymentscalers",
            &["CREATE", "UPDATE"],
        ),
        (
            "/validate-scaler-status",
            "modeldeploymentscalers/status",
            &["UPDATE"],
        ),
        (
            "/validate-deployment",
            "modeldeployments",
            &["CREATE", "UPDATE"],
        ),
    ];
    let webhooks = webhooks();
    assert_eq!(webhooks.len(), expected.len());
    for (webhook, (path, resource, operations)) in webhooks.iter().zip(expected) {
        assert_eq!(
            webhook["clientConfig"],
            json!({"service": {"namespace": "mds-system", "name": "mds-webhook", "path": path, "port": 443}})
        );
        assert_eq!(
            webhook["rules"],
            json!([{
                "apiGroups": ["worker.gpustack.ai"],
                "apiVersions": API_VERSIONS,
                "resources": [resource],
                "operations": operations,
                "scope": "Namespaced",
            }])
        );
        assert_eq!(webhook["failurePolicy"], "Fail", "{path}");
        assert_eq!(webhook["matchPolicy"], "Equivalent", "{path}");
        assert_eq!(webhook["sideEffects"], "None", "{path}");
        assert_eq!(webhook["timeoutSeconds"], 10, "{path}");
        assert_eq!(webhook["admissionReviewVersions"], json!(["v1"]), "{path}");
        assert_eq!(webhook["name"], format!("{}.mds.gpustack.ai", &path[1..]));
        for selector in ["namespaceSelector", "objectSelector"] {
            assert!(
                webhook.get(selector).is_none(),
                "{path} must see every namespace and object"
            );
        }
    }
    assert_eq!(webhooks[0]["reinvocationPolicy"], "IfNeeded");
}

#[test]
fn conditions_spare_calls_on_all_but_the_status_webhook_and_are_one_each() {
    for webhook in webhooks() {
        let conditions = webhook["matchConditions"].as_array().map_or(0, Vec::len);
        let status = webhook["clientConfig"]["service"]["path"] == "/validate-scaler-status";
        // Of several conditions a false one outvotes one that fails.
        assert_eq!(conditions, usize::from(!status), "{}", webhook["name"]);
    }
}

#[test]
fn the_condition_of_the_fence_names_the_annotations_that_the_fence_guards() {
    let webhooks = webhooks();
    let condition = webhooks[3]["matchConditions"][0]["expression"]
        .as_str()
        .unwrap();
    for annotation in ["scaler-binding", "scaler-decision"] {
        let key = format!("\"modeldeployment.gpustack.ai/{annotation}\"");
        assert_eq!(
            condition.matches(&key).count(),
            2,
            "{key}: once for a create, once for an update"
        );
    }
}

#[test]
fn cert_manager_fills_both_configurations_from_the_certificate_that_is_served() {
    let certificates = documents(&root().join("certs/certificates.yaml"));
    let served = certificates
        .iter()
        .find(|c| c["spec"]["secretName"] == "mds-webhook-tls")
        .unwrap();
    let from = format!(
        "{}/{}",
        text(&served["metadata"]["namespace"]),
        text(&served["metadata"]["name"])
    );
    for name in ["mutating", "validating"] {
        let configuration = one(&root().join(format!("manifests/webhook/{name}.yaml")));
        assert_eq!(
            configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
            from.as_str()
        );
    }
    let service = one(&root().join("manifests/server/service.yaml"));
    let host = format!(
        "{}.{}.svc",
        text(&service["metadata"]["name"]),
        text(&service["metadata"]["namespace"])
    );
    assert!(
        strings(&served["spec"]["dnsNames"]).any(|name| name == host),
        "{host}"
    );
}

// === the server ===

#[test]
fn the_pod_keeps_to_the_restricted_standard() {
    let pod = &one(&root().join("manifests/server/deployment.yaml"))["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    for container in pod["containers"].as_array().unwrap() {
        assert_eq!(
            container["securityContext"],
            json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            })
        );
    }
    for volume in pod["volumes"].as_array().unwrap() {
        assert!(
            volume["secret"].is_object(),
            "only the certificate is mounted: {volume}"
        );
    }
    let labels = &one(&root().join("manifests/server/namespace.yaml"))["metadata"]["labels"];
    for level in ["enforce", "audit", "warn"] {
        assert_eq!(
            labels[format!("pod-security.kubernetes.io/{level}")],
            "restricted"
        );
    }
}

#[test]
fn ports_probes_service_and_policy_agree() {
    let deployment = one(&root().join("manifests/server/deployment.yaml"));
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let ports: BTreeMap<&str, i64> = container["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| (text(&port["name"]), port["containerPort"].as_i64().unwrap()))
        .collect();
    assert_eq!(ports, BTreeMap::from([("health", 8080), ("webhook", 9443)]));
    let arguments: Vec<String> = strings(&container["args"]).collect();
    assert_eq!(
        arguments,
        [
            "serve",
            "--listen",
            "0.0.0.0:9443",
            "--health-listen",
            "0.0.0.0:8080",
            "--tls-dir",
            "/etc/mds/tls"
        ]
    );
    for (probe, path) in [
        ("startupProbe", "/livez"),
        ("livenessProbe", "/livez"),
        ("readinessProbe", "/readyz"),
    ] {
        assert_eq!(
            container[probe]["httpGet"],
            json!({"path": path, "port": "health"})
        );
    }
    let service = &one(&root().join("manifests/server/service.yaml"))["spec"]["ports"][0];
    assert_eq!(
        (&service["port"], &service["targetPort"]),
        (&json!(443), &json!("webhook"))
    );

    let policy = one(&root().join("manifests/server/networkpolicy.yaml"));
    let open: Vec<i64> = policy["spec"]["ingress"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["ports"][0]["port"].as_i64().unwrap())
        .collect();
    assert_eq!(open, [9443, 8080]);
}

#[test]
fn every_selector_selects_the_pods_of_the_deployment() {
    let deployment = one(&root().join("manifests/server/deployment.yaml"));
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let service = |path: &str| one(&root().join(path))["spec"]["selector"].clone();
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service("manifests/server/service.yaml"), labels);
    assert_eq!(&service("manifests/monitoring/service.yaml"), labels);
    assert_eq!(
        &one(&root().join("manifests/server/poddisruptionbudget.yaml"))["spec"]["selector"]["matchLabels"],
        labels
    );
    assert_eq!(
        &one(&root().join("manifests/server/networkpolicy.yaml"))["spec"]["podSelector"]["matchLabels"],
        labels
    );
}

#[test]
fn a_rollout_and_a_drain_leave_one_pod_answering() {
    let spec = one(&root().join("manifests/server/deployment.yaml"))["spec"].clone();
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    assert_eq!(
        one(&root().join("manifests/server/poddisruptionbudget.yaml"))["spec"]["maxUnavailable"],
        1
    );
}

// === kustomize ===

#[test]
fn the_kustomizations_build() {
    let folders = [
        "manifests",
        "manifests/overlays/no-cert-manager",
        "manifests/monitoring",
        "certs",
    ];
    let mut built = BTreeMap::new();
    for folder in folders {
        let output = match Command::new("kubectl")
            .arg("kustomize")
            .arg(root().join(folder))
            .output()
        {
            Ok(output) => output,
            Err(error) => {
                eprintln!("skipped: no kubectl here ({error})");
                return;
            }
        };
        assert!(
            output.status.success(),
            "{folder}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        built.insert(folder, objects);
    }
    let names = |folder: &str| -> BTreeSet<String> {
        built[folder]
            .iter()
            .map(|o| format!("{}/{}", text(&o["kind"]), text(&o["metadata"]["name"])))
            .collect()
    };
    let missing: BTreeSet<String> = names("manifests")
        .difference(&names("manifests/overlays/no-cert-manager"))
        .cloned()
        .collect();
    assert_eq!(
        missing,
        names("certs"),
        "the overlay leaves out what cert-manager makes, and nothing else"
    );
    for object in &built["manifests/overlays/no-cert-manager"] {
        assert!(
            !object.to_string().contains("cert-manager"),
            "{}",
            object["metadata"]["name"]
        );
    }
}

#[test]
fn the_kustomization_of_the_readme_builds_and_names_the_image() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("<<'END'\n").unwrap();
    let (kustomization, _) = rest.split_once("\nEND\n").unwrap();
    // Beside `manifests`, as the user's folder is.
    let folder = tempfile::Builder::new()
        .prefix("deploy-")
        .tempdir_in(root())
        .unwrap();
    fs::write(folder.path().join("kustomization.yaml"), kustomization).unwrap();
    let output = match Command::new("kubectl")
        .arg("kustomize")
        .arg(folder.path())
        .output()
    {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: no kubectl here ({error})");
            return;
        }
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let deployment = objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "registry.example.com/mds:0.1.0");
}

// === examples ===

#[test]
fn every_sample_is_a_scaler_that_the_types_read() {
    for (name, sample) in samples() {
        assert_eq!(sample["apiVersion"], "worker.gpustack.ai/v1", "{name}");
        assert_eq!(sample["kind"], "ModelDeploymentScaler", "{name}");
        let spec: mds::api::ScalerSpec = serde_json::from_value(sample["spec"].clone())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let back = serde_json::to_value(&spec).unwrap();
        assert_eq!(
            back, sample["spec"],
            "{name}: a field was dropped or changed by the types"
        );
    }
}

#[test]
fn samples_are_the_examples_of_the_reference() {
    let Some(reference) = design("reference-scaling.md") else {
        return;
    };
    let examples: Vec<Value> = yaml_blocks(&reference)
        .iter()
        .flat_map(|block| serde_saphyr::from_multiple::<Value>(block).unwrap())
        .collect();
    let scalers: Vec<&Value> = examples
        .iter()
        .filter(|e| e["kind"] == "ModelDeploymentScaler")
        .collect();
    let samples = samples();
    assert_eq!(
        scalers.len(),
        3,
        "proportional, token throughput, predictive"
    );
    for (scaler, name) in
        scalers
            .into_iter()
            .zip(["proportional", "token-throughput", "predictive"])
    {
        assert_eq!(&samples[name], scaler, "{name}");
    }
    let fragment = |path: &str| {
        examples
            .iter()
            .find_map(|e| e.pointer(path))
            .unwrap()
            .clone()
    };
    let priority = &samples["rebalance-priority"]["spec"]["rebalance"];
    assert_eq!(priority["policy"], "Priority");
    assert_eq!(priority["priority"], fragment("/spec/rebalance/priority"));

    let argo = one(&root().join("manifests/gitops/argocd.yaml"));
    assert_eq!(
        argo["spec"]["ignoreDifferences"],
        fragment("/spec/ignoreDifferences")
    );
    assert_eq!(argo["spec"]["syncPolicy"], fragment("/spec/syncPolicy"));
    let flux = one(&root().join("manifests/gitops/flux.yaml"));
    assert_eq!(flux["spec"]["ignore"], fragment("/spec/ignore"));
}

#[test]
fn scalers_in_the_documents_are_samples() {
    let samples = samples();
    for document in [
        "README.md",
        "docs/gitops.md",
        "docs/admission.md",
        "docs/operations.md",
    ] {
        let Ok(text) = fs::read_to_string(root().join(document)) else {
            panic!("{document} is missing")
        };
        for block in yaml_blocks(&text) {
            let example: Value = serde_saphyr::from_str(&block)
                .unwrap_or_else(|e| panic!("{document}: {e}\n{block}"));
            if example["kind"] == "ModelDeploymentScaler" {
                assert!(
                    samples.values().any(|sample| *sample == example),
                    "{document}: no sample is\n{block}"
                );
            }
        }
    }
}

// === monitoring ===

#[test]
fn the_dashboard_is_a_grid_of_panels_that_each_explain_themselves() {
    let dashboard: Value = serde_json::from_str(
        &fs::read_to_string(root().join("manifests/monitoring/dashboard.json")).unwrap(),
    )
    .unwrap();
    let mut identifiers = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(
            identifiers.insert(panel["id"].as_i64().unwrap()),
            "{} has the id of another",
            panel["title"]
        );
        assert!(
            !text(&panel["description"]).is_empty(),
            "{}",
            panel["title"]
        );
        assert!(
            !text(&panel["targets"][0]["expr"]).is_empty(),
            "{}",
            panel["title"]
        );
        let grid = &panel["gridPos"];
        assert!(
            grid["x"].as_i64().unwrap() + grid["w"].as_i64().unwrap() <= 24,
            "{}",
            panel["title"]
        );
    }
}

#[test]
fn alerts_and_panels_read_only_metrics_that_the_documents_list() {
    let listed = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    for file in ["alerts.yaml", "dashboard.json"] {
        let content = fs::read_to_string(root().join("manifests/monitoring").join(file)).unwrap();
        for name in metric_names(&content) {
            let base = name.strip_suffix("_bucket").unwrap_or(&name);
            assert!(
                listed.contains(&format!("`{base}")),
                "{file}: {name} is not in docs/metrics.md"
            );
        }
    }
}

#[test]
fn every_alert_leads_to_a_heading_of_the_operations_page() {
    let page = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let anchors: BTreeSet<String> = page
        .lines()
        .filter_map(|line| {
            line.strip_prefix("## ")
                .or_else(|| line.strip_prefix("### "))
        })
        .map(|heading| {
            heading
                .to_lowercase()
                .replace(' ', "-")
                .chars()
                .filter(|c| c.is_alphanumeric() || *c == '-')
                .collect()
        })
        .collect();
    let rules = one(&root().join("manifests/monitoring/alerts.yaml"));
    for rule in rules["spec"]["groups"][0]["rules"].as_array().unwrap() {
        let link = text(&rule["annotations"]["runbook_url"]);
        let anchor = link
            .strip_prefix("docs/operations.md#")
            .unwrap_or_else(|| panic!("{link}"));
        assert!(
            anchors.contains(anchor),
            "{}: no heading {anchor}",
            rule["alert"]
        );
    }
}

// === reading ===

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "yaml")
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("certs/dev") {
            files.extend(yaml_files(&path));
        } else if is_yaml(&path) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn documents(path: &Path) -> Vec<Value> {
    let content = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_saphyr::from_multiple(&content).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn one(path: &Path) -> Value {
    let mut documents = documents(path);
    assert_eq!(documents.len(), 1, "{}", path.display());
    documents.remove(0)
}

fn webhooks() -> Vec<Value> {
    ["mutating", "validating"]
        .into_iter()
        .flat_map(|name| {
            one(&root().join(format!("manifests/webhook/{name}.yaml")))["webhooks"]
                .as_array()
                .unwrap()
                .clone()
        })
        .collect()
}

fn samples() -> BTreeMap<String, Value> {
    yaml_files(&root().join("manifests/samples"))
        .into_iter()
        .map(|path| {
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                one(&path),
            )
        })
        .collect()
}

/// A page of the design, which is not part of the project: beside it, or where `MDS_DESIGN` says.
fn design(page: &str) -> Option<String> {
    let folder = std::env::var_os("MDS_DESIGN")
        .map_or_else(|| root().join("../shared/design"), PathBuf::from);
    let found = [
        folder.join(page),
        root().join("../../shared/design").join(page),
    ]
    .into_iter()
    .find_map(|path| fs::read_to_string(path).ok());
    if found.is_none() {
        eprintln!("skipped: no {page} (set MDS_DESIGN to the folder that has it)");
    }
    found
}

fn yaml_blocks(markdown: &str) -> Vec<String> {
    markdown
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// `group/resource` (and ` named x`) to the verbs that a role grants on it.
fn grants(role: &Value) -> BTreeMap<String, Vec<String>> {
    let mut granted = BTreeMap::new();
    for rule in role["rules"].as_array().unwrap() {
        let names: Vec<String> = strings(&rule["resourceNames"]).collect();
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(" named {}", names.join(", "))
        };
        for group in strings(&rule["apiGroups"]) {
            for resource in strings(&rule["resources"]) {
                let key = if group.is_empty() {
                    resource
                } else {
                    format!("{group}/{resource}")
                };
                let before =
                    granted.insert(format!("{key}{names}"), strings(&rule["verbs"]).collect());
                assert!(before.is_none(), "{key} is granted twice");
            }
        }
    }
    granted
}

fn table(rows: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    rows.iter()
        .map(|(key, verbs)| {
            (
                (*key).to_owned(),
                verbs.iter().map(|v| (*v).to_owned()).collect(),
            )
        })
        .collect()
}

fn metric_names(content: &str) -> BTreeSet<String> {
    content
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("mds_"))
        .map(str::to_owned)
        .collect()
}

fn strings(list: &Value) -> impl Iterator<Item = String> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|item| text(item).to_owned())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
