//! A control plane of one's own: etcd, kube-apiserver, and where it was built here, the controller manager with the
//! garbage collector, namespace deletion, service accounts and the aggregation of cluster roles.

use crate::account::Account;
use crate::authority::{Authority, write_token_key};
use crate::binaries::Binaries;
use crate::cluster::Cluster;
use crate::process::{Process, command, free_ports, on_free_ports};
use anyhow::{Context, bail};
use serde_json::json;
use std::env;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// Names the administrator's kubeconfig of a control plane that a whole test run shares.
pub const SHARED: &str = "MDS_TEST_KUBECONFIG";

/// Set beside [`SHARED`] when no controller manager runs there.
pub const WITHOUT_CONTROLLERS: &str = "MDS_TEST_WITHOUT_CONTROLLERS";

/// One for all tests of a program that was started alone. Never dropped; its children watch for the program's end.
static OWN: OnceCell<ControlPlane> = OnceCell::const_new();

/// Names the file that the tests which skip are written to, so that a run can count them.
pub const SKIPPED: &str = "MDS_TEST_SKIPPED";

/// Says that a test skips, and why: on standard error, and where the run counts them.
pub fn skip(test: &str, why: &str) -> anyhow::Result<()> {
    eprintln!("skipped: {test}: {why}");
    if let Some(path) = env::var_os(SKIPPED).filter(|path| !path.is_empty()) {
        let mut file = File::options().append(true).create(true).open(path)?;
        // One write, so that two programs do not mix their lines.
        file.write_all(format!("{test}: {why}\n").as_bytes())?;
    }
    Ok(())
}

/// The longest start that is waited for: a busy machine is slow.
const START: Duration = Duration::from_mins(2);

/// The controllers that run: a cluster without nodes has no use for the others.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
                           clusterrole-aggregation-controller";

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    admin: Cluster,
    controllers: bool,
    // In this order: whoever uses another ends before it, and the folder goes last.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    manager: Option<Process>,
    api_server: Process,
    etcd: Process,
    origin: String,
    folder: tempfile::TempDir,
}

impl ControlPlane {
    /// The one that the test run shares, or else one that all tests of this program share. It ends with the program.
    pub async fn shared() -> anyhow::Result<Self> {
        let (account, kubectl, controllers, folder) =
            if let Some(path) = env::var_os(SHARED).filter(|path| !path.is_empty()) {
                let account = Account::read(&PathBuf::from(path))
                    .with_context(|| format!("{SHARED} is set"))?;
                (
                    account,
                    env::var_os(KUBECTL).map(PathBuf::from),
                    env::var_os(WITHOUT_CONTROLLERS).is_none(),
                    env::var_os(FOLDER).map_or_else(env::temp_dir, PathBuf::from),
                )
            } else {
                let own = OWN.get_or_try_init(Self::start).await?;
                (
                    own.admin.account().clone(),
                    own.admin.kubectl_program(),
                    own.controllers,
                    own.admin.folder().to_owned(),
                )
            };
        Ok(Self {
            // A client of its own: a client does not outlive the runtime of the test that made it.
            admin: Cluster::connect_in(&folder, account, kubectl).await?,
            controllers,
            running: None,
        })
    }

    /// Starts one and waits until it is ready.
    pub async fn start() -> anyhow::Result<Self> {
        let binaries = tokio::task::spawn_blocking(Binaries::locate).await??;
        on_free_ports(async || Self::start_once(&binaries).await).await
    }

    async fn start_once(binaries: &Binaries) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sandbox-").tempdir()?;
        let [client, peer, secure, manager] = free_ports()?;
        let keys = Keys::write(folder.path())?;
        let etcd = start_etcd(binaries, folder.path(), &keys, client, peer)?;
        let controllers = binaries.program("kube-controller-manager");
        let api_server = start_api_server(
            binaries,
            folder.path(),
            &keys,
            client,
            secure,
            controllers.is_some(),
        )?;
        let account = Account::certified(
            &format!("https://127.0.0.1:{secure}"),
            keys.authority.certificate(),
            &keys
                .authority
                .client("sandbox-admin", &["system:masters"])?,
        );
        let mut running = Running {
            manager: None,
            api_server,
            etcd,
            origin: binaries.origin().to_owned(),
            folder,
        };
        let admin = Cluster::connect_in(
            running.folder.path(),
            account.clone(),
            binaries.program("kubectl"),
        )
        .await?;
        running.ready(&admin).await?;
        if let Some(program) = &controllers {
            running.manager = Some(start_manager(
                program,
                running.folder.path(),
                &account,
                manager,
            )?);
            running.controllers_work(&admin).await?;
        }
        Ok(Self {
            admin,
            controllers: controllers.is_some(),
            running: Some(running),
        })
    }

    /// The administrator.
    pub fn admin(&self) -> &Cluster {
        &self.admin
    }

    /// Whether garbage is collected, namespaces go away and roles are aggregated here. Tests that need it
    /// [`skip`] where it is not so.
    pub fn has_controllers(&self) -> bool {
        self.controllers
    }

    /// What it runs on, for people.
    pub fn origin(&self) -> &str {
        self.running
            .as_ref()
            .map_or("shared by the test run", |running| &running.origin)
    }

    /// The API server, for tests that stop it; `None` where it belongs to the whole run.
    pub fn api_server(&mut self) -> Option<&mut Process> {
        self.running.as_mut().map(|running| &mut running.api_server)
    }

    /// Where its logs are.
    pub fn folder(&self) -> Option<&Path> {
        self.running.as_ref().map(|running| running.folder.path())
    }
}

impl Running {
    /// Waits for `/readyz`.
    async fn ready(&mut self, admin: &Cluster) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            self.etcd.still_runs()?;
            self.api_server.still_runs()?;
            let state = match admin.send("GET", "/readyz", None).await {
                Ok(answer) if answer.is_success() => return Ok(()),
                Ok(answer) => answer.message().to_owned(),
                Err(error) => format!("{error:#}"),
            };
            if began.elapsed() > START {
                bail!(
                    "kube-apiserver is not ready after {START:?}: {state}\n{}",
                    self.api_server.last_words()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for the first thing that a controller makes: Pods need it.
    async fn controllers_work(&mut self, admin: &Cluster) -> anyhow::Result<()> {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "default", "name": "default"}});
        let began = Instant::now();
        while !admin.get(&account).await?.is_success() {
            if let Some(manager) = &mut self.manager {
                manager.still_runs()?;
                if began.elapsed() > START {
                    bail!(
                        "no default service account after {START:?}\n{}",
                        manager.last_words()
                    );
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// The files of one control plane's secrets.
struct Keys {
    authority: Authority,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    token_key: PathBuf,
    token_public: PathBuf,
}

impl Keys {
    fn write(folder: &Path) -> anyhow::Result<Self> {
        let authority = Authority::generate()?;
        let ca = folder.join("ca.crt");
        std::fs::write(&ca, authority.certificate())?;
        let (certificate, key) = authority.server()?.write(folder, "server")?;
        let (token_key, token_public) = write_token_key(folder)?;
        Ok(Self {
            authority,
            ca,
            certificate,
            key,
            token_key,
            token_public,
        })
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

fn start_etcd(
    binaries: &Binaries,
    folder: &Path,
    keys: &Keys,
    client: u16,
    peer: u16,
) -> anyhow::Result<Process> {
    let program = binaries.program("etcd").context("etcd is missing")?;
    let client = format!("https://127.0.0.1:{client}");
    let peer = format!("https://127.0.0.1:{peer}");
    let mut flags = vec![
        ("name", "sandbox".to_owned()),
        ("data-dir", show(&folder.join("etcd"))),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("sandbox={peer}")),
        // Nothing here outlives the process.
        ("unsafe-no-fsync", "true".to_owned()),
        ("log-level", "warn".to_owned()),
    ];
    // Nobody else on this machine reads or writes it.
    let (certificate, key, ca) = (show(&keys.certificate), show(&keys.key), show(&keys.ca));
    flags.extend([
        ("cert-file", certificate.clone()),
        ("key-file", key.clone()),
        ("trusted-ca-file", ca.clone()),
        ("client-cert-auth", "true".to_owned()),
        ("peer-cert-file", certificate),
        ("peer-key-file", key),
        ("peer-trusted-ca-file", ca),
        ("peer-client-cert-auth", "true".to_owned()),
    ]);
    Process::start_owning(
        "etcd",
        command(program, &flags),
        &folder.join("etcd.log"),
        Some(folder),
    )
}

fn start_api_server(
    binaries: &Binaries,
    folder: &Path,
    keys: &Keys,
    etcd: u16,
    secure: u16,
    controllers: bool,
) -> anyhow::Result<Process> {
    let program = binaries
        .program("kube-apiserver")
        .context("kube-apiserver is missing")?;
    let mut flags = vec![
        ("etcd-servers", format!("https://127.0.0.1:{etcd}")),
        ("etcd-cafile", show(&keys.ca)),
        ("etcd-certfile", show(&keys.certificate)),
        ("etcd-keyfile", show(&keys.key)),
        ("bind-address", "127.0.0.1".to_owned()),
        ("secure-port", secure.to_string()),
        ("cert-dir", show(&folder.join("certs"))),
        ("tls-cert-file", show(&keys.certificate)),
        ("tls-private-key-file", show(&keys.key)),
        ("client-ca-file", show(&keys.ca)),
        ("authorization-mode", "RBAC".to_owned()),
        (
            "service-account-issuer",
            "https://sandbox.invalid".to_owned(),
        ),
        ("service-account-key-file", show(&keys.token_public)),
        ("service-account-signing-key-file", show(&keys.token_key)),
        ("service-cluster-ip-range", "10.255.0.0/24".to_owned()),
        // A loopback address cannot be an endpoint, and nobody looks for one.
        ("advertise-address", "127.0.0.1".to_owned()),
        ("endpoint-reconciler-type", "none".to_owned()),
        ("allow-privileged", "true".to_owned()),
    ];
    if !controllers {
        // Pods would wait for default service accounts that nobody makes.
        flags.push(("disable-admission-plugins", "ServiceAccount".to_owned()));
    }
    Process::start(
        "kube-apiserver",
        command(program, &flags),
        &folder.join("kube-apiserver.log"),
    )
}

fn start_manager(
    program: &Path,
    folder: &Path,
    account: &Account,
    port: u16,
) -> anyhow::Result<Process> {
    let kubeconfig = folder.join("manager.kubeconfig");
    account.write(&kubeconfig)?;
    let flags = [
        ("kubeconfig", show(&kubeconfig)),
        ("leader-elect", "false".to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("secure-port", port.to_string()),
        ("controllers", CONTROLLERS.to_owned()),
        (
            "service-account-private-key-file",
            show(&folder.join("tokens.key")),
        ),
    ];
    Process::start(
        "kube-controller-manager",
        command(program, &flags),
        &folder.join("kube-controller-manager.log"),
    )
}

/// Names a folder, beside [`SHARED`], that goes away with the control plane: what a test program leaves there is not left.
pub const FOLDER: &str = "MDS_TEST_FOLDER";

/// Names the `kubectl` to use, beside [`SHARED`].
pub const KUBECTL: &str = "MDS_TEST_KUBECTL";
