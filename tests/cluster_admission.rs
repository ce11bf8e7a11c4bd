//! The numbered cases of the admission rules and the rows of the fence, posted through a real API server.
//!
//! The tables are those of the tests against the function. Here the schema, CEL, the match conditions and the order of
//! the webhooks take part: a case counts as kept when code, path and warnings are right, whoever refused.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a cluster that does not answer fails the test"
)]

mod cases;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use cases::fence::{Fence, Row};
use cases::{Case, Table};
use kube::api::{Api, DynamicObject, Patch as Change, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use sandbox::cluster::{Answer, Cluster, Patch, eventually};
use sandbox::control_plane::ControlPlane;
use sandbox::installation::Shared;
use sandbox::manifests;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const FINALIZER: &str = "worker.gpustack.ai/scaler-release";

fn scaler(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeploymentScaler",
        "metadata": {"namespace": namespace, "name": name},
    })
}

fn with_spec(mut object: Value, spec: Value) -> Value {
    object["spec"] = spec;
    object
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

// === scalers ===

/// Posts a case into a namespace of its own, and says what differs from the table.
async fn differences(site: &Shared, table: &Table, case: &Case) -> Vec<String> {
    let namespace = site.admin.namespace("case").await.unwrap();
    let target = case.target.as_ref().map(|target| {
        let mut deployment = table.deployment(target.as_str().unwrap());
        deployment["metadata"]["namespace"] = json!(namespace);
        deployment
    });
    let submitted = table.new_spec(case);
    let mut object = with_spec(scaler(&namespace, "s"), submitted.clone());
    if let Some(labels) = case.meta.as_ref().and_then(|meta| meta.get("labels")) {
        object["metadata"]["labels"] = labels.clone();
    }
    for other in &case.scalers {
        let other = with_spec(scaler(&namespace, other), submitted.clone());
        site.admin.create(&other).await.unwrap().ok().unwrap();
    }
    // A scaler that was there before its target was admitted without it.
    if let Some(old) = table.old_spec(case) {
        let old = with_spec(scaler(&namespace, "s"), old);
        site.admin.create(&old).await.unwrap().ok().unwrap();
    }
    if let Some(target) = &target {
        site.admin.create(target).await.unwrap().ok().unwrap();
    }
    let answer = if case.old.is_some() {
        let mut change = vec![json!({"op": "replace", "path": "/spec", "value": submitted})];
        if let Some(labels) = object["metadata"].get("labels") {
            change.push(json!({"op": "add", "path": "/metadata/labels", "value": labels}));
        }
        let change = Value::from(change);
        site.admin.patch(&object, Patch::Json, &change).await
    } else {
        if !case.scalers.is_empty() {
            wait_for_hints(&site.admin, case, &object).await;
        }
        site.admin.create(&object).await
    };
    let wrong = compare(case, &submitted, &answer.unwrap());
    site.admin
        .delete(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        .await
        .unwrap();
    wrong
}

/// Asks until the program's cache, which follows the API server, knows the other scalers.
async fn wait_for_hints(admin: &Cluster, case: &Case, object: &Value) {
    let path = format!("{}?dryRun=All", admin.collection(object).await.unwrap());
    eventually(&case.title(), async || {
        let answer = admin.send("POST", &path, Some(object)).await?;
        let known = |name: &String| answer.warnings.iter().any(|said| said.contains(name));
        if case.scalers.iter().all(known) {
            Ok(())
        } else {
            bail!("warnings: {:#?}", answer.warnings)
        }
    })
    .await
    .unwrap();
}

fn compare(case: &Case, submitted: &Value, answer: &Answer) -> Vec<String> {
    let mut wrong = Vec::new();
    let code = if answer.is_success() {
        200
    } else {
        answer.status
    };
    if code != case.expected_code() {
        wrong.push(format!(
            "{code} {}, expected {}",
            answer.message(),
            case.expected_code()
        ));
        return wrong;
    }
    if code == 200 {
        compare_stored(case, submitted, answer, &mut wrong);
    } else {
        compare_faults(case, answer, &mut wrong);
    }
    wrong
}

fn compare_stored(case: &Case, submitted: &Value, answer: &Answer, wrong: &mut Vec<String>) {
    let spec = &answer.body["spec"];
    for (pointer, value) in &case.stored {
        let found = spec.pointer(pointer).unwrap_or(&Value::Null);
        if found != value {
            wrong.push(format!("stored: {pointer} is {found}, expected {value}"));
        }
    }
    if let Some(patch) = &case.patch {
        let mut expected = json!({"spec": submitted});
        json_patch::patch(&mut expected, &patch_of(patch)).unwrap();
        if *spec != expected["spec"] {
            wrong.push(format!("stored: {spec}, expected {}", expected["spec"]));
        }
    }
    let said = |part: &str| answer.warnings.iter().any(|one| one.contains(part));
    for part in case.warnings.iter().filter(|part| !said(part)) {
        wrong.push(format!("no warning has {part:?}: {:#?}", answer.warnings));
    }
    for part in case.no.iter().filter(|part| said(part)) {
        wrong.push(format!("a warning has {part:?}: {:#?}", answer.warnings));
    }
}

/// The operations of a case, which are written as `op path value`.
fn patch_of(operations: &[String]) -> json_patch::Patch {
    let operations: Vec<Value> = operations
        .iter()
        .map(|operation| {
            let [op, path, value] = operation.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("no operation: {operation}");
            };
            json!({"op": op, "path": path, "value": serde_json::from_str::<Value>(value).unwrap()})
        })
        .collect();
    serde_json::from_value(operations.into()).unwrap()
}

/// The webhook's faults are those of the table, word for word. The API server's own refusals have its own words, and
/// its own order: then the paths count, all of them.
fn compare_faults(case: &Case, answer: &Answer, wrong: &mut Vec<String>) {
    let by_webhook = answer.message().contains("mds.gpustack.ai");
    // The API server's remark that CEL was not tried is about no field.
    let causes: Vec<_> = answer
        .causes()
        .into_iter()
        .filter(|cause| cause.field != "<nil>")
        .collect();
    let fields: BTreeSet<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    let expected = case.expected_faults();
    let same = if !case.schema.is_empty() {
        !by_webhook && fields == case.schema.iter().map(String::as_str).collect()
    } else if let Some(path) = &case.any_fault {
        fields.contains(path.as_str())
    } else if by_webhook {
        expected.len() == causes.len()
            && expected.iter().zip(&causes).all(|(expected, found)| {
                found.field == expected.path
                    && found.reason.trim_start_matches("FieldValue") == expected.kind
                    && found.message.contains(expected.part)
            })
    } else {
        fields == expected.iter().map(|fault| fault.path).collect()
    };
    if !same {
        wrong.push(format!(
            "faults by {}: {causes:#?} {}\nexpected: {:#?} {:?} {:?}",
            if by_webhook { "webhook" } else { "API server" },
            answer.message(),
            case.faults,
            case.any_fault,
            case.schema
        ));
    }
}

/// Why a case is not posted.
fn reason_not_posted(case: &Case) -> &'static str {
    match case.n {
        59 | 60 | 79 | 80 | 82 | 83 => "what it changes is of an older release: no write stores it",
        69 | 81 => "it is under deletion, which no write says",
        70 => "its target cannot be read, which a cluster that works does not do",
        99 => "the binding is in the program's cache with a UID that the table makes up",
        n => panic!("case {n} is not posted, and nobody says why"),
    }
}

#[tokio::test]
async fn every_case_that_can_be_posted_gets_its_verdict() {
    stage().await;
    let site = Shared::connect().await.unwrap();
    let table = Table::read();
    let posted: Vec<&Case> = table
        .cases
        .iter()
        .filter(|case| case.only.is_none())
        .collect();
    let mut failed = 0;
    for case in &posted {
        let wrong = differences(&site, &table, case).await;
        if wrong.is_empty() {
            println!("ok    {}", case.title());
        } else {
            failed += 1;
            println!("WRONG {}\n      {}", case.title(), wrong.join("\n      "));
        }
    }
    for case in table.cases.iter().filter(|case| case.only.is_some()) {
        println!("not posted: {}: {}", case.title(), reason_not_posted(case));
    }
    println!(
        "{} of {} cases were posted",
        posted.len(),
        table.cases.len()
    );
    assert_eq!(failed, 0, "of {} cases", posted.len());
}

#[tokio::test]
async fn a_dry_run_gets_the_same_verdict_and_stores_nothing() {
    stage().await;
    let site = Shared::connect().await.unwrap();
    let table = Table::read();
    let namespace = site.admin.namespace("dry").await.unwrap();
    for (n, code) in [(1, 201), (54, 422)] {
        let case = table.cases.iter().find(|case| case.n == n).unwrap();
        let object = with_spec(scaler(&namespace, &format!("s{n}")), table.new_spec(case));
        let path = format!(
            "{}?dryRun=All",
            site.admin.collection(&object).await.unwrap()
        );
        let dry = site.admin.send("POST", &path, Some(&object)).await.unwrap();
        assert_eq!(dry.status, code, "{}", dry.message());
        assert_eq!(site.admin.get(&object).await.unwrap().status, 404);
        let real = site.admin.create(&object).await.unwrap();
        assert_eq!(
            (real.status, real.causes(), &real.warnings),
            (dry.status, dry.causes(), &dry.warnings)
        );
        assert_eq!(real.body["spec"], dry.body["spec"]);
    }
}

#[tokio::test]
async fn two_managers_may_apply_the_same_scaler_because_nobody_owns_its_defaults() {
    stage().await;
    let site = Shared::connect().await.unwrap();
    let table = Table::read();
    let namespace = site.admin.namespace("managers").await.unwrap();
    let kind = GroupVersionKind::gvk("worker.gpustack.ai", "v1", "ModelDeploymentScaler");
    let resource = ApiResource::from_gvk_with_plural(&kind, "modeldeploymentscalers");
    let api: Api<DynamicObject> = Api::namespaced_with(site.admin.client(), &namespace, &resource);
    let object = with_spec(scaler(&namespace, "s"), table.bases["B"].clone());
    let mut stored = Vec::new();
    for manager in ["one", "two"] {
        let applied = api
            .patch("s", &PatchParams::apply(manager), &Change::Apply(&object))
            .await
            .unwrap();
        stored.push(applied.data["spec"].clone());
    }
    assert_eq!(stored[0], table.bases["stored"]);
    assert_eq!(stored[1], stored[0]);
}

// === status ===

#[tokio::test]
async fn only_the_program_writes_status_and_its_terms_never_go_back() {
    stage().await;
    let site = Shared::connect().await.unwrap();
    let table = Table::read();
    let namespace = site.admin.namespace("status").await.unwrap();
    let object = with_spec(scaler(&namespace, "s"), table.bases["stored"].clone());
    site.admin.create(&object).await.unwrap().ok().unwrap();

    let write = |uid: &str, term: i64| json!({"status": {"binding": {"targetUID": uid, "targetName": "t", "term": term}}});
    let by_user = site
        .admin
        .patch_status(&object, Patch::Merge, &write("u", 1))
        .await
        .unwrap();
    assert_eq!((by_user.status, by_user.reason()), (403, "StatusOwned"));
    for (change, code, reason) in [
        (write("u", 5), 200, ""),
        (write("u", 4), 409, "TermBackwards"),
        (json!({"status": {"binding": null}}), 409, "TermBackwards"),
        (
            json!({"status": {"binding": {"term": null}}}),
            409,
            "TermBackwards",
        ),
        (write("v", 4), 200, ""),
        (write("v", 5), 200, ""),
    ] {
        let answer = site
            .account
            .patch_status(&object, Patch::Merge, &change)
            .await
            .unwrap();
        assert_eq!(
            (answer.status, answer.reason()),
            (code, reason),
            "{change}: {}",
            answer.message()
        );
    }
    // A status write carries no spec with it.
    let both = json!({"spec": {"suspend": true}, "status": {"observedGeneration": 7}});
    let answer = site
        .account
        .patch_status(&object, Patch::Merge, &both)
        .await
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(answer["spec"], table.bases["stored"]);
    assert_eq!(answer["status"]["observedGeneration"], 7);
}

// === the fence ===

/// A row with the state that it finds, made before there was a fence.
struct Scene {
    row: Row,
    namespace: String,
    uid: String,
}

/// The rows' states: bindings that no webhook would have let in among them. Made once, before the program is installed.
static STAGE: OnceCell<Vec<Scene>> = OnceCell::const_new();

async fn stage() -> &'static [Scene] {
    STAGE.get_or_init(build_stage).await
}

async fn build_stage() -> Vec<Scene> {
    let plane = ControlPlane::shared().await.unwrap();
    let admin = plane.admin();
    let installed = manifests::read(&sandbox::repository().join("manifests")).unwrap();
    for object in installed
        .iter()
        .filter(|object| manifests::is_webhook(object))
    {
        let answer = admin.delete(object).await.unwrap();
        assert!(
            answer.is_success() || answer.status == 404,
            "{}",
            answer.message()
        );
    }
    let definitions = installed.into_iter().chain(manifests::target().unwrap());
    for object in definitions.filter(|object| object["kind"] == "CustomResourceDefinition") {
        admin.define(&object).await.unwrap();
    }
    let fence = Fence::read();
    let mut scenes = Vec::new();
    for row in &fence.rows {
        if reason_not_staged(&fence, row).is_some() {
            continue;
        }
        scenes.push(build(admin, &fence, row).await);
    }
    scenes
}

/// Why a row is not posted.
fn reason_not_staged(fence: &Fence, row: &Row) -> Option<&'static str> {
    let named = row.scaler.as_ref().map(|name| &fence.scalers[name]);
    if named.is_some_and(|scaler| scaler.unreadable.is_some()) {
        Some("its scaler cannot be read, which a cluster that works does not do")
    } else if row.create && row.by.is_some() {
        Some("the program's account has no right to create deployments")
    } else {
        None
    }
}

async fn build(admin: &Cluster, fence: &Fence, row: &Row) -> Scene {
    let namespace = admin.namespace("row").await.unwrap();
    let mut owner = "00000000-0000-4000-8000-000000000001".to_owned();
    let named = row.scaler.as_ref().map(|name| &fence.scalers[name]);
    let object = scaler(&namespace, "s");
    if let Some(facts) = named {
        let mut object = with_spec(
            object.clone(),
            json!({"targetRef": {"name": "t"}, "mode": facts.mode, "suspend": facts.suspend,
                "roles": [{"name": "a", "maxReplicas": 4}, {"name": "b", "maxReplicas": 4}]}),
        );
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        let made = eventually_made(admin, &object).await;
        uid(&made).clone_into(&mut owner);
    }
    if !row.create {
        let mut target = fence.before(row, &namespace, &owner);
        if row.deleting {
            target["metadata"]["finalizers"] = json!(["example.com/keep"]);
        }
        let target = eventually_made(admin, &target).await;
        if let Some(facts) = named {
            let status = json!({"status": {"binding": {"targetUID": uid(&target), "targetName": "t", "term": facts.term}}});
            let answer = admin.patch_status(&object, Patch::Merge, &status).await;
            answer.unwrap().ok().unwrap();
        }
        if row.deleting {
            admin.delete(&target).await.unwrap().ok().unwrap();
        }
    }
    Scene {
        row: row.clone(),
        namespace,
        uid: owner,
    }
}

/// Creates an object; webhooks that were just taken away may still be called for a moment.
async fn eventually_made(admin: &Cluster, object: &Value) -> Value {
    for _ in 0..100 {
        let answer = admin.create(object).await.unwrap();
        if answer.is_success() {
            return answer.body;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not made within 10 s: {object}");
}

#[tokio::test]
async fn every_row_of_the_fence_is_kept_for_users_and_for_the_programs_account() {
    let scenes = stage().await;
    let site = Shared::connect().await.unwrap();
    let fence = Fence::read();
    let mut failed = 0;
    for Scene {
        row,
        namespace,
        uid,
    } in scenes
    {
        // An administrator is a user like any other.
        let by = match row.by.as_deref() {
            Some("operator") => &site.account,
            _ => &site.admin,
        };
        let before = fence.before(row, namespace, uid);
        let answer = if row.create {
            by.create(&fence.after(row, &before, uid)).await
        } else {
            let before = site.admin.get(&before).await.unwrap().ok().unwrap();
            let after = fence.after(row, &before, uid);
            let change = serde_json::to_value(json_patch::diff(&before, &after)).unwrap();
            by.patch(&before, Patch::Json, &change).await
        };
        let answer = answer.unwrap();
        let code = if answer.is_success() {
            200
        } else {
            answer.status
        };
        let reason = row.reason.as_deref().unwrap_or_default();
        let says = row.says.iter().all(|part| answer.message().contains(part));
        if code == row.expected_code() && answer.reason() == reason && says {
            println!("ok    {}", row.row);
        } else {
            failed += 1;
            println!(
                "WRONG {}\n      {code} {} {}, expected {} {reason} {:?}",
                row.row,
                answer.reason(),
                answer.message(),
                row.expected_code(),
                row.says
            );
        }
    }
    for row in &fence.rows {
        if let Some(reason) = reason_not_staged(&fence, row) {
            println!("not posted: {}: {reason}", row.row);
        }
    }
    println!("{} of {} rows were posted", scenes.len(), fence.rows.len());
    assert_eq!(failed, 0, "of {} rows", scenes.len());
}
