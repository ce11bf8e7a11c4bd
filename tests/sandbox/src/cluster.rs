//! A cluster as one account sees it: requests as they are sent and answers as they come back.

mod answer;

pub use answer::{Answer, Cause};

use crate::account::Account;
use anyhow::{Context, bail};
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::env;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::process::Command;

/// How long something that is true a moment later is waited for.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The content types of the patches that Kubernetes knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Server-side apply, forced.
    Apply,
}

/// One account at one API server.
#[derive(Clone)]
pub struct Cluster {
    account: Account,
    client: kube::Client,
    kubectl: Option<PathBuf>,
    file: Arc<tempfile::TempPath>,
    resources: Arc<Mutex<HashMap<(String, String), Resource>>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("server", &self.account.server())
            .finish_non_exhaustive()
    }
}

/// How a kind is spelled in a path.
#[derive(Clone, Debug)]
struct Resource {
    plural: String,
    namespaced: bool,
}

/// What `kubectl` did.
#[derive(Clone, Debug)]
pub struct Printed {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Cluster {
    /// Connects an account. `kubectl` names the program to run; `None` takes the one on the `PATH`.
    pub async fn connect(account: Account, kubectl: Option<PathBuf>) -> anyhow::Result<Self> {
        Self::connect_in(&env::temp_dir(), account, kubectl).await
    }

    /// The same, with the kubeconfig in a folder that goes away by itself.
    pub(crate) async fn connect_in(
        folder: &Path,
        account: Account,
        kubectl: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let file = tempfile::Builder::new()
            .prefix("sandbox-kubeconfig-")
            .tempfile_in(folder)?
            .into_temp_path();
        account.write(&file)?;
        Ok(Self {
            client: account.client().await?,
            account,
            kubectl,
            file: Arc::new(file),
            resources: Arc::default(),
        })
    }

    /// The same cluster as another account sees it.
    pub async fn seen_by(&self, account: Account) -> anyhow::Result<Self> {
        Self::connect_in(self.folder(), account, self.kubectl.clone()).await
    }

    /// The account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// A typed client of the account.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Its kubeconfig; it is there as long as this value or a clone of it.
    pub fn kubeconfig(&self) -> &Path {
        &self.file
    }

    /// Where its kubeconfig lies.
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }

    /// The `kubectl` that it runs; `None` is the one on the `PATH`.
    pub fn kubectl_program(&self) -> Option<PathBuf> {
        self.kubectl.clone()
    }

    // === accounts ===

    /// An ordinary user of one namespace, with the rights of the cluster role `edit` there.
    pub async fn editor(&self, namespace: &str, user: &str) -> anyhow::Result<Self> {
        self.grant(namespace, user, "edit").await?;
        let account = self.account.acting_as(user, &[]).in_namespace(namespace);
        self.seen_by(account).await
    }

    /// Gives a user the rights of a cluster role in one namespace.
    pub async fn grant(&self, namespace: &str, user: &str, role: &str) -> anyhow::Result<()> {
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"namespace": namespace, "name": format!("{user}-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }))
        .await?
        .ok()?;
        Ok(())
    }

    /// A service account, by a real token of it that lasts a month.
    pub async fn service_account(&self, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let token = self.token(namespace, name).await?;
        self.seen_by(self.account.with_token(&token).in_namespace(namespace))
            .await
    }

    async fn token(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 30 * 24 * 3600},
        });
        let answer = self.send("POST", &path, Some(&request)).await?.ok()?;
        let token = answer["status"]["token"].as_str();
        Ok(token.context("a token request without a token")?.to_owned())
    }

    // === requests ===

    /// Sends a request with a JSON body.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        self.send_as(method, path, "application/json", body).await
    }

    async fn send_as(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let body = match body {
            Some(body) => serde_json::to_vec(body)?,
            None => Vec::new(),
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content)
            .header(http::header::ACCEPT, "application/json")
            .body(Body::from(body))?;
        let response = self
            .client
            .send(request)
            .await
            .with_context(|| format!("{method} {path}"))?;
        Answer::read(response)
            .await
            .with_context(|| format!("{method} {path}"))
    }

    /// The path of an object: its `apiVersion`, `kind`, `metadata.namespace` and `metadata.name` are looked at.
    pub async fn path(&self, object: &Value) -> anyhow::Result<String> {
        let collection = self.collection(object).await?;
        let name = text(&object["metadata"]["name"]);
        if name.is_empty() {
            bail!("{} without metadata.name", text(&object["kind"]));
        }
        Ok(format!("{collection}/{name}"))
    }

    /// The path of all objects of its kind in its namespace.
    pub async fn collection(&self, object: &Value) -> anyhow::Result<String> {
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let resource = self.resource(version, kind).await?;
        let root = root(version);
        let namespace = match text(&object["metadata"]["namespace"]) {
            "" => self.account.namespace(),
            namespace => namespace,
        };
        Ok(if resource.namespaced {
            format!("{root}/namespaces/{namespace}/{}", resource.plural)
        } else {
            format!("{root}/{}", resource.plural)
        })
    }

    /// Whether the cluster serves a kind.
    pub async fn serves(&self, version: &str, kind: &str) -> anyhow::Result<bool> {
        Ok(self.look_up(version, kind).await?.is_some())
    }

    async fn resource(&self, version: &str, kind: &str) -> anyhow::Result<Resource> {
        match self.look_up(version, kind).await? {
            Some(resource) => Ok(resource),
            None => bail!("the cluster does not serve {kind} in {version}"),
        }
    }

    async fn look_up(&self, version: &str, kind: &str) -> anyhow::Result<Option<Resource>> {
        let key = (version.to_owned(), kind.to_owned());
        let known = self
            .resources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if known.is_some() {
            return Ok(known);
        }
        let answer = self.send("GET", &root(version), None).await?;
        if answer.status == 404 {
            return Ok(None);
        }
        let list = answer.ok()?;
        let resource = list["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|entry| entry["kind"] == kind && !text(&entry["name"]).contains('/'))
            .map(|entry| Resource {
                plural: text(&entry["name"]).to_owned(),
                namespaced: entry["namespaced"] == true,
            });
        if let Some(resource) = &resource {
            self.resources
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(key, resource.clone());
        }
        Ok(resource)
    }

    /// Server-side apply, forced, as field manager `sandbox`.
    pub async fn apply(&self, object: &Value) -> anyhow::Result<Answer> {
        self.patch(object, Patch::Apply, object).await
    }

    /// Creates an object.
    pub async fn create(&self, object: &Value) -> anyhow::Result<Answer> {
        let path = self.collection(object).await?;
        self.send("POST", &path, Some(object)).await
    }

    /// Reads the object that `object` names.
    pub async fn get(&self, object: &Value) -> anyhow::Result<Answer> {
        self.send("GET", &self.path(object).await?, None).await
    }

    /// Patches the object that `object` names.
    pub async fn patch(
        &self,
        object: &Value,
        kind: Patch,
        patch: &Value,
    ) -> anyhow::Result<Answer> {
        self.patch_at(&self.path(object).await?, kind, patch).await
    }

    /// Patches the status of the object that `object` names.
    pub async fn patch_status(
        &self,
        object: &Value,
        kind: Patch,
        patch: &Value,
    ) -> anyhow::Result<Answer> {
        let at = format!("{}/status", self.path(object).await?);
        self.patch_at(&at, kind, patch).await
    }

    /// Patches what is at a path.
    pub async fn patch_at(&self, at: &str, kind: Patch, patch: &Value) -> anyhow::Result<Answer> {
        let (content, query) = match kind {
            Patch::Merge => ("application/merge-patch+json", ""),
            Patch::Json => ("application/json-patch+json", ""),
            Patch::Apply => (
                "application/apply-patch+yaml",
                "?fieldManager=sandbox&force=true",
            ),
        };
        self.send_as("PATCH", &format!("{at}{query}"), content, Some(patch))
            .await
    }

    /// Deletes the object that `object` names.
    pub async fn delete(&self, object: &Value) -> anyhow::Result<Answer> {
        self.send("DELETE", &self.path(object).await?, None).await
    }

    /// A new namespace whose name begins like this, for one test.
    pub async fn namespace(&self, prefix: &str) -> anyhow::Result<String> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": format!("{prefix}-")}});
        let created = self.create(&object).await?.ok()?;
        Ok(text(&created["metadata"]["name"]).to_owned())
    }

    /// Applies a CustomResourceDefinition and waits until its kind is served.
    pub async fn define(&self, definition: &Value) -> anyhow::Result<()> {
        self.apply(definition).await?.ok()?;
        let name = text(&definition["metadata"]["name"]);
        eventually(&format!("{name} is established"), async || {
            let read = self.get(definition).await?.ok()?;
            let conditions = read["status"]["conditions"].as_array();
            let established = conditions
                .into_iter()
                .flatten()
                .any(|one| one["type"] == "Established" && one["status"] == "True");
            if !established {
                bail!("conditions: {}", read["status"]["conditions"]);
            }
            Ok(())
        })
        .await?;
        let plural = text(&definition["spec"]["names"]["plural"]);
        let group = text(&definition["spec"]["group"]);
        for version in definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if version["served"] != true {
                continue;
            }
            let path = format!("/apis/{group}/{}/{plural}?limit=1", text(&version["name"]));
            eventually(&format!("{path} is served"), async || {
                self.send("GET", &path, None).await?.ok()
            })
            .await?;
        }
        Ok(())
    }

    /// Runs the real `kubectl` with this account.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<Printed> {
        let program = self
            .kubectl
            .clone()
            .unwrap_or_else(|| PathBuf::from("kubectl"));
        let output = Command::new(&program)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("cannot run {}", program.display()))?;
        Ok(Printed {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

/// Asks again, for a minute at most, until the answer is no error.
pub async fn eventually<T, E: Display>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> anyhow::Result<T> {
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if began.elapsed() > PATIENCE => {
                bail!("not within {PATIENCE:?}: {what}: {error:#}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn root(version: &str) -> String {
    if version.contains('/') {
        format!("/apis/{version}")
    } else {
        format!("/api/{version}")
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
