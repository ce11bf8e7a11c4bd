//! The fence: who owns the counts, whose commit counts, and how an orphan is recovered.

use super::{Ask, Scene, Teller, uid};
use crate::cluster::Patch;
use serde_json::{Value, json};

const BINDING: &str = "modeldeployment.gpustack.ai/scaler-binding";
const DECISION: &str = "modeldeployment.gpustack.ai/scaler-decision";
const BINDING_PATH: &str = "/metadata/annotations/modeldeployment.gpustack.ai~1scaler-binding";
const DECISION_PATH: &str = "/metadata/annotations/modeldeployment.gpustack.ai~1scaler-decision";
const FINALIZER: &str = "worker.gpustack.ai/scaler-release";
const COUNT_PATH: &str = "/spec/roles/0/replicas";

/// A scaler and the deployment that it owns.
pub(super) struct Bound {
    scaler: Value,
    target: Value,
}

impl Bound {
    fn binding(&self, term: u32) -> String {
        json!({"scalerName": self.scaler["metadata"]["name"], "scalerUID": uid(&self.scaler), "term": term}).to_string()
    }
}

fn decision(term: u32, name: &str, count: u32) -> String {
    json!({"decisionID": format!("{term}-{name}"), "term": term, "vector": {"server": count}})
        .to_string()
}

/// Makes a deployment, and the program's account binds it.
pub(super) async fn bind(scene: &Scene, teller: &mut Teller<'_>) -> anyhow::Result<Bound> {
    teller.step("A scaler that is Active takes the counts of its deployment")?;
    let deployment = json!({
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"namespace": scene.namespace, "name": "llm-serving"},
        "spec": {"roles": [{"name": "server", "replicas": 2, "image": "vllm/vllm-openai:v0.11.0"}]},
    });
    let answer = teller
        .ask(&scene.alice, &deployment, Ask::Create, &["/spec"])
        .await?;
    let target = teller.done(answer, "a deployment with two servers")?;

    let scaler = json!({
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeploymentScaler",
        "metadata": {"namespace": scene.namespace, "name": "llm-serving"},
    });
    let active = json!({"spec": {"mode": "Active"}});
    let answer = teller
        .ask(
            &scene.alice,
            &scaler,
            Ask::Change(Patch::Merge, &active),
            &["/spec/mode"],
        )
        .await?;
    let scaler = teller.done(answer, "the scaler may write from now on")?;

    teller.say(
        "What follows is the reconciler's work. Here the tour does it, with a real token of the program's service\n\
         account: the release finalizer, a term in the status, and the binding on the deployment.",
    )?;
    let bound = Bound { scaler, target };
    let finalizer = json!([{"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}]);
    let answer = teller
        .ask(
            &scene.mds,
            &bound.scaler,
            Ask::Change(Patch::Json, &finalizer),
            &["/metadata/finalizers"],
        )
        .await?;
    teller.done(answer, "the finalizer is there")?;
    let status = json!([{"op": "add", "path": "/status", "value": {
        "binding": {"targetUID": uid(&bound.target), "targetName": "llm-serving", "term": 1},
    }}]);
    let answer = teller
        .ask(
            &scene.mds,
            &bound.scaler,
            Ask::ChangeStatus(&status),
            &["/status/binding"],
        )
        .await?;
    teller.done(answer, "term 1 is taken")?;
    let binding = json!([{"op": "add", "path": "/metadata/annotations", "value": {BINDING: bound.binding(1)}}]);
    let answer = teller
        .ask(
            &scene.mds,
            &bound.target,
            Ask::Change(Patch::Json, &binding),
            &["/metadata/annotations"],
        )
        .await?;
    teller.done(answer, "the deployment is bound")?;
    Ok(bound)
}

/// What the owner's rights take from everybody else, and what not.
pub(super) async fn ownership(
    scene: &Scene,
    bound: &Bound,
    teller: &mut Teller<'_>,
) -> anyhow::Result<()> {
    teller.step("A bound deployment: its counts are the scaler's, the rest stays free")?;
    let count = json!([{"op": "replace", "path": COUNT_PATH, "value": 5}]);
    let answer = teller
        .ask(
            &scene.alice,
            &bound.target,
            Ask::Change(Patch::Json, &count),
            &[],
        )
        .await?;
    teller.refused(&answer, 403, "ReplicasOwned")?;
    teller.check(
        answer.message().contains("llm-serving") && answer.message().contains("server"),
        "the message names the scaler and the role",
    )?;
    let image = json!([{"op": "replace", "path": "/spec/roles/0/image", "value": "vllm/vllm-openai:v0.11.1"}]);
    let answer = teller
        .ask(
            &scene.alice,
            &bound.target,
            Ask::Change(Patch::Json, &image),
            &["/spec"],
        )
        .await?;
    let object = teller.done(answer, "the image edit goes through")?;
    teller.check(
        object.pointer(COUNT_PATH) == Some(&json!(2)),
        "still two servers",
    )
}

/// Terms are fencing tokens: who holds an old one writes nothing.
pub(super) async fn stale_term(
    scene: &Scene,
    bound: &Bound,
    teller: &mut Teller<'_>,
) -> anyhow::Result<()> {
    teller.step("A process that was overtaken is turned away")?;
    let commit = |term: u32, name: &str, count: u32| {
        json!([
            {"op": "add", "path": DECISION_PATH, "value": decision(term, name, count)},
            {"op": "replace", "path": COUNT_PATH, "value": count},
        ])
    };
    let first = commit(1, "first", 3);
    let answer = teller
        .ask(
            &scene.mds,
            &bound.target,
            Ask::Change(Patch::Json, &first),
            &[COUNT_PATH],
        )
        .await?;
    teller.done(
        answer,
        "a commit under term 1: three servers, and a decision that says so",
    )?;

    teller.say("Another process takes over: it takes term 2 and renews the binding.")?;
    let term = json!([{"op": "replace", "path": "/status/binding/term", "value": 2}]);
    let answer = teller
        .ask(
            &scene.mds,
            &bound.scaler,
            Ask::ChangeStatus(&term),
            &["/status/binding"],
        )
        .await?;
    teller.done(answer, "term 2 is taken")?;
    let renewal = json!([{"op": "replace", "path": BINDING_PATH, "value": bound.binding(2)}]);
    let answer = teller
        .ask(
            &scene.mds,
            &bound.target,
            Ask::Change(Patch::Json, &renewal),
            &[BINDING_PATH],
        )
        .await?;
    teller.done(answer, "the binding carries term 2")?;

    teller.say("The first process wakes up and does not know. Its account is the right one; its term is not.")?;
    let stale = commit(1, "late", 7);
    let answer = teller
        .ask(
            &scene.mds,
            &bound.target,
            Ask::Change(Patch::Json, &stale),
            &[],
        )
        .await?;
    teller.refused(&answer, 409, "TermMismatch")?;
    let back = json!([{"op": "replace", "path": BINDING_PATH, "value": bound.binding(1)}]);
    let answer = teller
        .ask(
            &scene.mds,
            &bound.target,
            Ask::Change(Patch::Json, &back),
            &[],
        )
        .await?;
    teller.refused(&answer, 409, "TermBackwards")?;
    let object = scene.mds.cluster.get(&bound.target).await?.ok()?;
    teller.check(
        object.pointer(COUNT_PATH) == Some(&json!(3)),
        "still three servers",
    )
}

/// A binding whose scaler is gone without having released it.
pub(super) async fn orphan(
    scene: &Scene,
    bound: &Bound,
    teller: &mut Teller<'_>,
) -> anyhow::Result<()> {
    teller.step("A binding that lost its scaler can be removed, and only then")?;
    let removal = json!([
        {"op": "remove", "path": BINDING_PATH},
        {"op": "remove", "path": DECISION_PATH},
    ]);
    let answer = teller
        .ask(
            &scene.alice,
            &bound.target,
            Ask::Change(Patch::Json, &removal),
            &[],
        )
        .await?;
    // Both annotations are the scaler's; the first rule of the table is about the decision.
    teller.refused(&answer, 403, "DecisionOwned")?;
    let binding_only = json!([{"op": "remove", "path": BINDING_PATH}]);
    let answer = teller
        .ask(
            &scene.alice,
            &bound.target,
            Ask::Change(Patch::Json, &binding_only),
            &[],
        )
        .await?;
    teller.refused(&answer, 403, "BindingOwned")?;

    teller.say("Somebody takes the finalizer away and deletes the scaler: nothing releases the deployment.")?;
    let strip = json!({"metadata": {"finalizers": null}});
    let answer = teller
        .ask(
            &scene.alice,
            &bound.scaler,
            Ask::Change(Patch::Merge, &strip),
            &[],
        )
        .await?;
    teller.done(answer, "the finalizer is gone")?;
    let answer = teller
        .ask(&scene.alice, &bound.scaler, Ask::Delete, &[])
        .await?;
    teller.done(answer, "the scaler is gone")?;

    let mut greedy = removal.clone();
    if let Some(operations) = greedy.as_array_mut() {
        operations.push(json!({"op": "replace", "path": COUNT_PATH, "value": 9}));
    }
    let answer = teller
        .ask(
            &scene.alice,
            &bound.target,
            Ask::Change(Patch::Json, &greedy),
            &[],
        )
        .await?;
    teller.refused(&answer, 403, "ReplicasOwned")?;
    let answer = teller
        .ask(
            &scene.alice,
            &bound.target,
            Ask::Change(Patch::Json, &removal),
            &["/spec"],
        )
        .await?;
    let object = teller.done(answer, "recovered: both annotations are gone")?;
    let annotations = &object["metadata"]["annotations"];
    teller.check(
        annotations[BINDING].is_null() && annotations[DECISION].is_null(),
        "nobody owns the counts",
    )?;
    teller.check(
        object.pointer(COUNT_PATH) == Some(&json!(3)),
        "and they are what they were",
    )?;
    let count = json!([{"op": "replace", "path": COUNT_PATH, "value": 5}]);
    let answer = teller
        .ask(
            &scene.alice,
            &bound.target,
            Ask::Change(Patch::Json, &count),
            &[COUNT_PATH],
        )
        .await?;
    teller.done(answer, "alice scales by hand again")?;
    Ok(())
}
