//! The proxy in front of a real API server: what goes through unchanged, and what each fault does.

#![expect(
    clippy::unwrap_used,
    reason = "a cluster that does not answer fails the test"
)]

use sandbox::cluster::{Cluster, Patch, eventually};
use sandbox::control_plane::ControlPlane;
use sandbox::proxy::{Fault, Proxy, Refusal, Rule, Versions};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A service account that may edit one namespace, beside and through a proxy.
struct Stage {
    proxy: Proxy,
    direct: Cluster,
    through: Cluster,
    object: Value,
}

impl Stage {
    async fn set(versions: Versions) -> Self {
        let plane = ControlPlane::shared().await.unwrap();
        let admin = plane.admin();
        let namespace = admin.namespace("proxy").await.unwrap();
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": "robot"}});
        admin.create(&account).await.unwrap().ok().unwrap();
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"namespace": namespace, "name": "robot"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "robot"}],
        });
        admin.create(&role).await.unwrap().ok().unwrap();
        let direct = admin.service_account(&namespace, "robot").await.unwrap();
        let proxy = Proxy::start_with(direct.account(), versions).await.unwrap();
        let through = direct
            .seen_by(proxy.account(direct.account()))
            .await
            .unwrap();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": "it"}, "data": {"count": "0"},
        });
        eventually("the role is in force", async || {
            direct.apply(&object).await?.ok()
        })
        .await
        .unwrap();
        // Discovery is out of the way: what is counted later is what a test sends.
        through.get(&object).await.unwrap().ok().unwrap();
        Self {
            proxy,
            direct,
            through,
            object,
        }
    }

    fn count(to: u32) -> Value {
        json!({"data": {"count": to.to_string()}})
    }

    async fn write(&self, to: u32) -> anyhow::Result<sandbox::cluster::Answer> {
        self.through
            .patch(&self.object, Patch::Merge, &Self::count(to))
            .await
    }

    async fn stored(&self) -> String {
        let read = self.direct.get(&self.object).await.unwrap().ok().unwrap();
        read["data"]["count"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn what_meets_no_fault_goes_through_as_it_is() {
    for versions in [Versions::Both, Versions::Http1] {
        let stage = Stage::set(versions).await;
        assert!(stage.write(1).await.unwrap().is_success());
        assert_eq!(stage.stored().await, "1");
        let mine = stage.through.get(&stage.object).await.unwrap();
        let theirs = stage.direct.get(&stage.object).await.unwrap();
        assert_eq!((mine.status, mine.body), (theirs.status, theirs.body));
        // The caller's own account, and nobody else's.
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let me = stage.through.create(&review).await.unwrap().ok().unwrap();
        let name = me["status"]["userInfo"]["username"].as_str().unwrap();
        assert!(name.ends_with(":robot"), "{name}");
    }
}

#[tokio::test]
async fn a_refusal_looks_like_the_api_servers_and_ends_after_its_times() {
    let stage = Stage::set(Versions::Both).await;
    for refusal in [
        Refusal::conflict(),
        Refusal::too_many_requests(),
        Refusal::internal_error(),
    ] {
        let rule = Rule::new("PATCH", |_| true, Fault::Refuse(refusal.clone())).times(1);
        let injected = stage.proxy.inject(rule);
        let refused = stage.write(2).await.unwrap();
        assert_eq!(
            (refused.status, refused.reason()),
            (refusal.code, refusal.reason)
        );
        assert_eq!(injected.hits(), 1);
        assert_eq!(stage.stored().await, "0");
    }
    assert!(stage.write(2).await.unwrap().is_success());
    assert_eq!(stage.stored().await, "2");
}

#[tokio::test]
async fn a_cut_request_is_not_carried_out_and_a_lost_answer_is() {
    let stage = Stage::set(Versions::Both).await;
    stage
        .proxy
        .inject(Rule::new("PATCH", |_| true, Fault::Cut).times(1));
    assert!(stage.write(3).await.is_err());
    assert_eq!(stage.stored().await, "0");
    stage
        .proxy
        .inject(Rule::new("PATCH", |_| true, Fault::LoseAnswer).times(1));
    assert!(stage.write(4).await.is_err());
    assert_eq!(stage.stored().await, "4");
}

#[tokio::test]
async fn a_late_write_lands_after_its_caller_was_cut_off() {
    let stage = Stage::set(Versions::Both).await;
    let late = Fault::LandLate(Duration::from_millis(300));
    stage
        .proxy
        .inject(Rule::new("PATCH", |_| true, late).times(1));
    assert!(stage.write(5).await.is_err());
    assert_eq!(stage.stored().await, "0");
    eventually("it lands", async || match stage.stored().await.as_str() {
        "5" => Ok(()),
        other => Err(other.to_owned()),
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_delay_delays_and_a_hang_ends_when_connections_are_cut() {
    let stage = Stage::set(Versions::Both).await;
    let delay = Duration::from_millis(300);
    stage
        .proxy
        .inject(Rule::new("PATCH", |_| true, Fault::Delay(delay)).times(1));
    let began = Instant::now();
    assert!(stage.write(6).await.unwrap().is_success());
    assert!(began.elapsed() >= delay);

    let hang = stage
        .proxy
        .inject(Rule::new("PATCH", |_| true, Fault::Hang).times(1));
    let (answer, ()) = tokio::join!(stage.write(7), async {
        while hang.hits() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stage.proxy.cut();
    });
    assert!(answer.is_err());
    assert_eq!(stage.stored().await, "6");
    assert!(stage.write(8).await.unwrap().is_success());
}

#[tokio::test]
async fn a_watch_breaks_off_at_its_time() {
    let stage = Stage::set(Versions::Both).await;
    let cut = Fault::CutAnswerAfter(Duration::from_millis(300));
    stage
        .proxy
        .inject(Rule::new("GET", |path| path.contains("watch=true"), cut));
    let path = stage.through.collection(&stage.object).await.unwrap();
    let began = Instant::now();
    let watch = stage
        .through
        .send("GET", &format!("{path}?watch=true"), None)
        .await;
    assert!(watch.is_err());
    assert!(began.elapsed() < Duration::from_secs(30));
    let seen = stage.proxy.seen();
    assert!(seen.last().unwrap().faulted);
}
