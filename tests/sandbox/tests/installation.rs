//! `mds` installed from `manifests/`: what is stored, who it runs as, and the tour.

use sandbox::installation::{ACCOUNT, NAMESPACE, Shared};
use sandbox::manifests;
use sandbox::tour::{self, Teller};
use serde_json::{Value, json};

/// Everything written is there as it was written; the API server may add.
fn contains(read: &Value, written: &Value) -> bool {
    match (read, written) {
        (Value::Object(read), Value::Object(written)) => written
            .iter()
            .all(|(key, value)| read.get(key).is_some_and(|found| contains(found, value))),
        (Value::Array(read), Value::Array(written)) => {
            read.len() == written.len() && read.iter().zip(written).all(|(a, b)| contains(a, b))
        }
        _ => read == written,
    }
}

#[tokio::test]
async fn the_webhooks_are_stored_as_written_but_for_where_they_lead() {
    let site = Shared::connect().await.unwrap();
    let folder = sandbox::repository().join("manifests/webhook");
    let webhooks = manifests::read(&folder).unwrap();
    assert_eq!(webhooks.len(), 2);
    for written in webhooks {
        let mut read = site.admin.get(&written).await.unwrap().ok().unwrap();
        let pairs = read["webhooks"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .zip(written["webhooks"].as_array().unwrap());
        for (stored, webhook) in pairs {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
            let url = format!("https://{}{path}", site.installation.program().webhook());
            assert_eq!(stored["clientConfig"]["url"], json!(url));
            stored["clientConfig"] = webhook["clientConfig"].clone();
        }
        assert!(contains(&read, &written), "{read:#}");
    }
}

#[tokio::test]
async fn the_program_runs_as_its_own_service_account() {
    let site = Shared::connect().await.unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let me = site.account.create(&review).await.unwrap().ok().unwrap();
    let name = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    assert_eq!(me["status"]["userInfo"]["username"], json!(name));
    let (code, text) = site.installation.program().health("/readyz").await.unwrap();
    assert_eq!(code, 200, "{text}");
}

#[tokio::test]
async fn every_promise_of_the_tour_is_kept() {
    let site = Shared::connect().await.unwrap();
    let mut told = Vec::new();
    let mut teller = Teller::new(&mut told, false);
    let namespace = tour::namespace(&site.admin).await.unwrap();
    let outcome = tour::walk(&site.admin, &site.account, &namespace, &mut teller).await;
    let told = String::from_utf8(told).unwrap();
    assert!(outcome.is_ok(), "{told}\n{outcome:?}");
}
