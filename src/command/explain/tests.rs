use std::fs;
use std::path::Path;

use super::*;
use crate::command::document::parse;
use crate::command::judged::judge;

/// The page of the one scaler of a text, with the deployments in it.
fn page(text: &str) -> String {
    let judged = judge(&parse("f.yaml", text).unwrap(), &[])
        .unwrap()
        .remove(0);
    assert_eq!(judged.faults, []);
    explain(&judged, judged.policy.as_ref().unwrap())
}

fn sample(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/samples");
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_pair_with_an_encoder_is_explained_with_its_target() {
    let target = "---\napiVersion: worker.gpustack.ai/v1alpha1\nkind: ModelDeployment\nmetadata: {name: llm-serving}\n\
        spec:\n  roles:\n  - {name: encode, kind: Encode}\n  - {name: prefill, kind: Prefill, replicas: 2}\n  \
        - {name: decode, kind: Decode, replicas: 2}\n";
    insta::assert_snapshot!(page(&(sample("token-throughput.yaml") + target)));
}

#[test]
fn a_server_on_one_metric_is_explained() {
    insta::assert_snapshot!(page(&sample("proportional.yaml")));
}

#[test]
fn a_forecast_is_explained() {
    insta::assert_snapshot!(page(&sample("predictive.yaml")));
}

#[test]
fn steps_and_priorities_are_explained() {
    insta::assert_snapshot!(page(&sample("step-policies.yaml")));
    insta::assert_snapshot!(page(&sample("rebalance-priority.yaml")));
}

#[test]
fn a_suspended_scaler_says_so_first() {
    let text = sample("minimal.yaml").replace("spec:\n", "spec:\n  suspend: true\n");
    let page = page(&text);
    assert!(
        page.contains("\n\nIt is suspended: it plans nothing for ModelDeployment llm-serving, and holds no binding.\n"),
        "{page}"
    );
}
