//! `mds` in a cluster: what `manifests/` holds, the program under its own service account, and webhooks that lead to it.

use crate::cluster::{Cluster, eventually};
use crate::control_plane::ControlPlane;
use crate::manifests;
use crate::program::{Program, Settings};
use anyhow::bail;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The program's namespace, and its service account's name.
pub const NAMESPACE: &str = "mds-system";
/// The program's service account.
pub const ACCOUNT: &str = "mds";

/// An installed `mds`.
#[derive(Debug)]
pub struct Installation {
    admin: Cluster,
    account: Cluster,
    program: Program,
    made: Vec<Value>,
    left_out: Vec<String>,
}

/// One for all tests of a program. Never dropped; the server watches for the program's end.
static SHARED: OnceCell<Installation> = OnceCell::const_new();

/// An installation that all tests of a program share, as one test sees it.
#[derive(Debug)]
pub struct Shared {
    /// The administrator.
    pub admin: Cluster,
    /// The program's own account.
    pub account: Cluster,
    /// The server's process id and the like.
    pub installation: &'static Installation,
}

impl Shared {
    /// Installs `mds` into the shared control plane, once for this program.
    pub async fn connect() -> anyhow::Result<Self> {
        let plane = ControlPlane::shared().await?;
        let installation = SHARED
            .get_or_try_init(|| async {
                Installation::install(plane.admin(), &Settings::default()).await
            })
            .await?;
        // Clients of its own: a client does not outlive the runtime of the test that made it.
        let account = installation.account.account().clone();
        Ok(Self {
            admin: plane.admin().clone(),
            account: plane.admin().seen_by(account).await?,
            installation,
        })
    }
}

impl Installation {
    /// Installs it as it is, into a control plane that was made for it.
    pub async fn install(admin: &Cluster, settings: &Settings) -> anyhow::Result<Self> {
        Self::install_except(admin, settings, |_| false).await
    }

    /// Installs it without those objects that the caller leaves out. Where this fails, what it made is removed.
    pub async fn install_except(
        admin: &Cluster,
        settings: &Settings,
        left_out: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Self> {
        let mut made = Vec::new();
        match Self::install_into(admin, settings, left_out, &mut made).await {
            Ok((account, program, left_out)) => Ok(Self {
                admin: admin.clone(),
                account,
                program,
                made,
                left_out,
            }),
            Err(error) => {
                if let Err(second) = remove(admin, &made).await {
                    bail!("{error:#}; and not all that was made was removed: {second:#}");
                }
                Err(error)
            }
        }
    }

    async fn install_into(
        admin: &Cluster,
        settings: &Settings,
        leave_out: impl Fn(&Value) -> bool,
        made: &mut Vec<Value>,
    ) -> anyhow::Result<(Cluster, Program, Vec<String>)> {
        let folder = crate::repository().join("manifests");
        let mut left_out = Vec::new();
        let mut webhooks = Vec::new();
        let mut objects = Vec::new();
        for object in manifests::read(&folder)? {
            let foreign = manifests::is_for_cert_manager(&object)
                && !admin
                    .serves(text(&object["apiVersion"]), text(&object["kind"]))
                    .await?;
            if foreign || leave_out(&object) {
                left_out.push(title(&object));
            } else if manifests::is_webhook(&object) {
                webhooks.push(object);
            } else {
                objects.push(object);
            }
        }
        // Definitions and namespaces first, as kubectl orders them too.
        objects.sort_by_key(|object| match text(&object["kind"]) {
            "Namespace" => 0,
            "CustomResourceDefinition" => 1,
            _ => 2,
        });
        // The target's definition may be there already, with objects: it is then used as it is.
        for object in manifests::target()? {
            if !admin.get(&object).await?.is_success() {
                put(admin, &object, made).await?;
            }
        }
        for object in &objects {
            put(admin, object, made).await?;
        }

        let account = admin.service_account(NAMESPACE, ACCOUNT).await?;
        let program = Program::start(account.account(), settings).await?;
        // Only now: until the program answers, every write that a webhook sees would fail.
        for mut object in webhooks {
            manifests::lead_to(
                &mut object,
                &program.webhook().to_string(),
                program.authority(),
            )?;
            put(admin, &object, made).await?;
        }
        heed(admin).await?;
        Ok((account, program, left_out))
    }

    /// The administrator.
    pub fn admin(&self) -> &Cluster {
        &self.admin
    }

    /// The program's own account: a real token of its service account.
    pub fn account(&self) -> &Cluster {
        &self.account
    }

    /// The running program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The running program, to disturb it.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// What of `manifests/` was not applied here.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Removes what the installation made, the webhooks first.
    pub async fn remove(self) -> anyhow::Result<()> {
        remove(&self.admin, &self.made).await
    }
}

/// Applies an object, and notes it where it was not there.
async fn put(admin: &Cluster, object: &Value, made: &mut Vec<Value>) -> anyhow::Result<()> {
    let before = admin.get(object).await?;
    if before.status == 404 {
        made.push(json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": {"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]},
        }));
    }
    if object["kind"] == "CustomResourceDefinition" {
        admin.define(object).await
    } else {
        match admin.apply(object).await?.ok() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.context(title(object))),
        }
    }
}

/// Removes objects, the last made first, and waits until they are gone.
async fn remove(admin: &Cluster, made: &[Value]) -> anyhow::Result<()> {
    for object in made.iter().rev() {
        let answer = admin.delete(object).await?;
        if answer.status != 404 {
            answer.ok()?;
        }
    }
    for object in made {
        eventually(&format!("{} is gone", title(object)), async || match admin
            .send("GET", &admin.path(object).await?, None)
            .await?
            .status
        {
            404 => Ok(()),
            status => bail!("{status}"),
        })
        .await?;
    }
    Ok(())
}

/// Waits until the API server sends writes to all three kinds of webhook: it reads its configurations a moment after
/// they are stored. Nothing is stored here.
async fn heed(admin: &Cluster) -> anyhow::Result<()> {
    let scaler = json!({
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeploymentScaler",
        "metadata": {"namespace": "default", "name": "probe"},
        "spec": {
            "targetRef": {"name": "probe"},
            "roles": [{"name": "server", "minReplicas": 2, "maxReplicas": 1}],
            "algorithm": {"proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": "8"}]}},
        },
    });
    let mut sound = scaler.clone();
    sound["spec"]["roles"][0]["maxReplicas"] = json!(2);
    let claimed = json!({
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"namespace": "default", "name": "probe", "annotations": {
            "modeldeployment.gpustack.ai/scaler-binding": "{}",
        }},
        "spec": {"roles": [{"name": "server"}]},
    });
    for (object, expected) in [(&scaler, 422), (&claimed, 403)] {
        eventually(
            &format!("a bad {} is refused", text(&object["kind"])),
            async || {
                let answer = dry_run(admin, object).await?;
                if answer.status == expected && answer.message().contains("mds.gpustack.ai") {
                    Ok(())
                } else {
                    bail!("{} {}", answer.status, answer.message())
                }
            },
        )
        .await?;
    }
    eventually("a scaler is defaulted", async || {
        let stored = dry_run(admin, &sound).await?.ok()?;
        if stored["spec"]["mode"] == "Shadow" {
            Ok(())
        } else {
            bail!("stored as {}", stored["spec"])
        }
    })
    .await
}

async fn dry_run(admin: &Cluster, object: &Value) -> anyhow::Result<crate::cluster::Answer> {
    let path = format!("{}?dryRun=All", admin.collection(object).await?);
    admin.send("POST", &path, Some(object)).await
}

fn title(object: &Value) -> String {
    format!(
        "{} {}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
