//! Scalers: defaults, and a refusal with its proof.

use super::{Ask, Scene, Teller};
use crate::manifests;
use anyhow::Context;
use serde_json::{Value, json};

/// A sample, in the tour's namespace.
fn sample(scene: &Scene, name: &str) -> anyhow::Result<Value> {
    let path = crate::repository().join("manifests/samples").join(name);
    let mut object = manifests::parse(&path)?
        .pop()
        .with_context(|| format!("{} is empty", path.display()))?;
    object["metadata"]["namespace"] = json!(scene.namespace);
    Ok(object)
}

/// The reference's example: with every default left out, and then in full.
pub(super) async fn defaults(scene: &Scene, teller: &mut Teller<'_>) -> anyhow::Result<()> {
    teller.step("The least that can be written comes back with every default")?;
    let least = sample(scene, "minimal.yaml")?;
    let answer = teller
        .ask(&scene.alice, &least, Ask::Apply, &["/spec"])
        .await?;
    let stored = teller.done(answer, "stored")?;

    // The reference writes all defaults out, and asks for two replicas at the least.
    let full = sample(scene, "proportional.yaml")?;
    let mut expected = full["spec"].clone();
    expected["roles"][0]["minReplicas"] = json!(1);
    teller.check(
        stored["spec"] == expected,
        "it is the reference's example, default for default",
    )?;

    teller.say("The reference's example itself, which says all of that:")?;
    let answer = teller
        .ask(&scene.alice, &full, Ask::Apply, &["/spec/roles"])
        .await?;
    let stored = teller.done(answer, "stored")?;
    teller.check(
        stored["spec"] == full["spec"],
        "nothing that was written is changed, and nothing is added",
    )
}

/// Bounds and a ratio that no pair of counts meets.
pub(super) async fn proof(scene: &Scene, teller: &mut Teller<'_>) -> anyhow::Result<()> {
    teller.step("Bounds and ratios that cannot hold together are refused, with the proof")?;
    let impossible = json!({
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeploymentScaler",
        "metadata": {"namespace": scene.namespace, "name": "impossible"},
        "spec": {
            "targetRef": {"name": "llm-serving"},
            "roles": [
                {"name": "prefill", "minReplicas": 1, "maxReplicas": 4},
                {"name": "decode", "minReplicas": 3, "maxReplicas": 8},
            ],
            "ratios": [{"numeratorRole": "prefill", "denominatorRole": "decode", "min": "2"}],
            "algorithm": {"tokenThroughput": {
                "prefillTargetTokensPerSecond": "2000",
                "decodeTargetTokensPerSecond": "800",
            }},
        },
    });
    let answer = teller
        .ask(&scene.alice, &impossible, Ask::Create, &[])
        .await?;
    teller.refused(&answer, 422, "Invalid")?;
    let causes = answer.causes();
    teller.check(
        causes.len() == 1 && causes[0].field == "spec.ratios[0]",
        "one fault, at spec.ratios[0]",
    )?;
    // Four is prefill's most and two the least ratio, so decode has two at most.
    let proof = &causes[0].message;
    teller.check(
        ["prefill <= 4", "decode <= 2", "decode >= 3"]
            .iter()
            .all(|link| proof.contains(link)),
        "the message is the chain: prefill has 4 at most, so decode has 2 at most, and must have 3",
    )?;
    teller.check(
        proof.contains("raise maxReplicas of prefill"),
        "and it says what would help",
    )?;

    let mut possible = impossible;
    possible["metadata"]["name"] = json!("possible");
    possible["spec"]["roles"][0]["maxReplicas"] = json!(6);
    let path = format!(
        "{}?dryRun=All",
        scene.alice.cluster.collection(&possible).await?
    );
    let answer = scene
        .alice
        .cluster
        .send("POST", &path, Some(&possible))
        .await?;
    teller.done(
        answer,
        "with maxReplicas: 6 for prefill, a dry run of the same is accepted",
    )?;
    Ok(())
}
