//! The real Kueue, built from `tests/kueue` and started for who asks for it: quota decides there, and nobody plays it.
//!
//! Its definitions and webhook configurations are read from its module, as that release has them. Only its integration
//! with plain Pods runs, in namespaces that [`QUEUED`] marks.

use crate::authority::Authority;
use crate::cluster::{Cluster, eventually};
use crate::go;
use crate::health;
use crate::manifests;
use crate::process::{Process, free_ports};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The label, with the value `kueue`, of namespaces whose Pods Kueue looks at.
pub const QUEUED: &str = "sandbox/queued-by";

const MODULE: &str = "sigs.k8s.io/kueue";

/// Where it insists on finding a certificate when it does not make its own, though it serves no metrics here. Only root
/// may write there, so that one word of its main file is replaced in a copy made at build time.
const FIXED_PATH: &str = "\"/etc/kueue/metrics/certs\"";
const PATH_VARIABLE: &str = "KUEUE_METRICS_CERTS";

/// A running Kueue. Start it on a control plane of one's own: when it ends, the Pods of marked namespaces cannot be
/// written any more.
#[derive(Debug)]
pub struct Kueue {
    process: Process,
    _folder: tempfile::TempDir,
}

impl Kueue {
    /// Builds it if need be, stores its definitions, starts it and waits until its webhooks answer.
    pub async fn start(admin: &Cluster) -> anyhow::Result<Self> {
        let (program, module) = tokio::task::spawn_blocking(build).await??;
        for definition in definitions(&module)? {
            admin.define(&definition).await?;
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}});
        admin.apply(&namespace).await?.ok()?;

        let folder = tempfile::Builder::new()
            .prefix("sandbox-kueue-")
            .tempdir()?;
        let authority = Authority::generate()?;
        authority.server()?.write(folder.path(), "tls")?;
        admin.account().write(&folder.path().join("kubeconfig"))?;
        let [webhook, probe] = free_ports()?;
        let probe = SocketAddr::from((Ipv4Addr::LOCALHOST, probe));
        let configuration = folder.path().join("config.yaml");
        fs::write(
            &configuration,
            serde_saphyr::to_string(&configure(folder.path(), webhook, probe))?,
        )?;
        let mut command = Command::new(program);
        command
            .arg(format!("--config={}", configuration.display()))
            .arg(format!(
                "--kubeconfig={}",
                folder.path().join("kubeconfig").display()
            ))
            // Its visibility server wants a certificate of its own.
            .arg("--feature-gates=VisibilityOnDemand=false")
            .env(PATH_VARIABLE, folder.path());
        let log = folder.path().join("log");
        let mut kueue = Self {
            process: Process::start_owning("kueue", command, &log, Some(folder.path()))?,
            _folder: folder,
        };
        kueue.wait_ready(probe).await?;
        let address = format!("127.0.0.1:{webhook}");
        for configuration in webhooks(&module, &address, authority.certificate())? {
            admin.apply(&configuration).await?.ok()?;
        }
        heed(admin).await?;
        Ok(kueue)
    }

    /// Everything that it has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn wait_ready(&mut self, probe: SocketAddr) -> anyhow::Result<()> {
        eventually("kueue is ready", async || {
            match health::get(probe, "/readyz").await? {
                (200, _) => Ok(()),
                (code, text) => bail!("{code} {text}"),
            }
        })
        .await
        .or_else(|error| {
            self.process.still_runs()?;
            Err(error.context(self.process.last_words()))
        })
    }
}

/// The program, and the folder of its module.
fn build() -> anyhow::Result<(PathBuf, PathBuf)> {
    let sources = crate::repository().join("tests/kueue");
    let text =
        fs::read_to_string(sources.join("go.mod")).context("cannot read tests/kueue/go.mod")?;
    let release = go::required(&text, MODULE).context("tests/kueue/go.mod requires no kueue")?;
    let module = go::module(&sources, MODULE)?;
    let build = go::Build {
        name: "kueue",
        release,
        sources: &sources,
        inputs: &["go.mod", "go.sum"],
        linker: String::new(),
        patience: "two minutes the first time",
    };
    let folder = build.folder(|folder| {
        let main = fs::read_to_string(module.join("cmd/kueue/main.go"))?;
        let copy = folder.join("main.go");
        fs::write(&copy, relocate(&main)?)?;
        // Go replaces no file of the module cache, but adds one to a module of ours that has none.
        let overlay = folder.join("overlay.json");
        let replace = json!({"Replace": {sources.join("main.go").display().to_string(): copy.display().to_string()}});
        fs::write(&overlay, replace.to_string())?;
        Ok(vec![format!("-overlay={}", overlay.display())])
    })?;
    Ok((folder.join(build.name), module))
}

/// Its main file, with the fixed path taken from the environment.
fn relocate(main: &str) -> anyhow::Result<String> {
    if main.matches(FIXED_PATH).count() != 1 {
        bail!(
            "this release of Kueue does not name {FIXED_PATH} once: look at tests/sandbox/src/kueue.rs"
        );
    }
    Ok(main.replace(FIXED_PATH, &format!("os.Getenv(\"{PATH_VARIABLE}\")")))
}

fn configure(folder: &Path, webhook: u16, probe: SocketAddr) -> Value {
    json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": probe.to_string()},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": folder.display().to_string()},
        "leaderElection": {"leaderElect": false},
        "internalCertManagement": {"enable": false},
        "integrations": {"frameworks": ["pod"]},
        "managedJobsNamespaceSelector": {"matchLabels": {QUEUED: "kueue"}},
    })
}

/// Its definitions with the stored version alone: the others need a conversion webhook.
fn definitions(module: &Path) -> anyhow::Result<Vec<Value>> {
    let folder = module.join("config/components/crd/bases");
    let mut definitions = Vec::new();
    for entry in
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        for mut definition in manifests::parse(&entry?.path())? {
            let spec = definition["spec"]
                .as_object_mut()
                .context("a definition without spec")?;
            spec.remove("conversion");
            if let Some(versions) = spec.get_mut("versions").and_then(Value::as_array_mut) {
                versions.retain(|version| version["storage"] == true);
            }
            definitions.push(definition);
        }
    }
    Ok(definitions)
}

/// Its webhooks for its own kinds and for Pods, those in marked namespaces only.
fn webhooks(module: &Path, address: &str, authority: &str) -> anyhow::Result<Vec<Value>> {
    let mut configurations =
        manifests::parse(&module.join("config/components/webhook/manifests.yaml"))?;
    for configuration in &mut configurations {
        configuration["metadata"]["name"] = json!("kueue");
        let webhooks = configuration["webhooks"]
            .as_array_mut()
            .context("a webhook configuration without webhooks")?;
        webhooks.retain(|webhook| {
            of_pods(webhook) || webhook["rules"][0]["apiGroups"][0] == "kueue.x-k8s.io"
        });
        for webhook in webhooks {
            if of_pods(webhook) {
                webhook["namespaceSelector"] = json!({"matchLabels": {QUEUED: "kueue"}});
            }
        }
        manifests::lead_to(configuration, address, authority)?;
    }
    Ok(configurations)
}

fn of_pods(webhook: &Value) -> bool {
    webhook["rules"][0]["resources"][0] == "pods"
}

/// Waits until its webhooks are called: a queue with a strategy that does not exist is refused by nobody else.
async fn heed(admin: &Cluster) -> anyhow::Result<()> {
    let flavor = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "probe"},
        "spec": {},
    });
    eventually("Kueue's webhooks are called", async || {
        let path = format!("{}?dryRun=All", admin.collection(&flavor).await?);
        let made = admin.send("POST", &path, Some(&flavor)).await?.ok()?;
        // Its mutating webhook adds the finalizer that keeps a flavor in use.
        if made["metadata"]["finalizers"].is_array() {
            Ok(())
        } else {
            bail!("stored without a finalizer")
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_is_replaced_and_nothing_else() {
        let main = "a := \"/etc/kueue/metrics/certs\"\nb := \"/etc/kueue\"\n";
        assert_eq!(
            relocate(main).unwrap(),
            "a := os.Getenv(\"KUEUE_METRICS_CERTS\")\nb := \"/etc/kueue\"\n"
        );
        assert!(relocate("package main").is_err());
    }
}
