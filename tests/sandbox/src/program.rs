//! `mds` as a child process: its certificates, its server, and how to disturb it.

use crate::account::Account;
use crate::health;
use crate::process::{Process, Signal, free_ports, on_free_ports};
use anyhow::{Context, bail};
use serde_json::Value;
use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// Names the `mds` to run; without it, it is built.
pub const PROGRAM: &str = "MDS_BIN";

/// The longest start that is waited for.
const START: Duration = Duration::from_mins(1);

/// The longest stop: five seconds of drain delay, fifteen of drain, and a busy machine.
const STOP: Duration = Duration::from_mins(1);

/// How a program is started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on, which the API server must reach.
    pub host: IpAddr,
    /// Further arguments of `mds serve`.
    pub arguments: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            // Nothing here withdraws endpoints: a drain need not wait for it.
            arguments: vec!["--drain-delay=0s".to_owned()],
        }
    }
}

/// A running `mds serve`.
#[derive(Debug)]
pub struct Program {
    process: Process,
    webhook: SocketAddr,
    health: SocketAddr,
    authority: String,
    folder: tempfile::TempDir,
    ready_after: Duration,
}

impl Program {
    /// Makes its certificates, starts it under an account, and waits until it is ready.
    pub async fn start(account: &Account, settings: &Settings) -> anyhow::Result<Self> {
        let mds = binary().await?;
        on_free_ports(async || Self::start_once(&mds, account, settings).await).await
    }

    async fn start_once(
        mds: &Path,
        account: &Account,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sandbox-mds-").tempdir()?;
        let tls = folder.path().join("tls");
        let authority = certificates(mds, &tls, settings.host).await?;
        let kubeconfig = folder.path().join("kubeconfig");
        account.write(&kubeconfig)?;

        let [webhook, health] = free_ports()?;
        let webhook = SocketAddr::new(settings.host, webhook);
        let health = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), health);
        let mut command = Command::new(mds);
        command
            .arg("serve")
            .arg(format!("--listen={webhook}"))
            .arg(format!("--health-listen={health}"))
            .arg(format!("--tls-dir={}", tls.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(&settings.arguments);
        let began = Instant::now();
        let process = Process::start_owning(
            "mds serve",
            command,
            &folder.path().join("log"),
            Some(folder.path()),
        )?;
        let mut program = Self {
            process,
            webhook,
            health,
            authority,
            folder,
            ready_after: Duration::ZERO,
        };
        program.wait_ready().await?;
        program.ready_after = began.elapsed();
        Ok(program)
    }

    /// Waits until `/readyz` says yes.
    pub async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            self.process.still_runs()?;
            let state = match self.health("/readyz").await {
                Ok((200, _)) => return Ok(()),
                Ok((code, text)) => format!("{code} {text}"),
                Err(error) => format!("{error:#}"),
            };
            if began.elapsed() > START {
                bail!(
                    "mds is not ready after {START:?}: {state}\n{}",
                    self.process.last_words()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks the health port: `/livez`, `/readyz`, `/metrics`.
    pub async fn health(&self, path: &str) -> anyhow::Result<(u16, String)> {
        health::get(self.health, path).await
    }

    /// Where the API server calls it.
    pub fn webhook(&self) -> SocketAddr {
        self.webhook
    }

    /// The certificate that its own is signed by, PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// How long it took from its start to ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// The directory that it reads its certificate from.
    pub fn tls_dir(&self) -> PathBuf {
        self.folder.path().join("tls")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Everything that it has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Sends a signal: pause it, let it go on, kill it.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        self.process.signal(signal)
    }

    /// Ends it politely, and says how it ended.
    pub async fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        self.process.stop(STOP).await
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Makes a serving certificate with `mds certs`; the authority's certificate comes back.
async fn certificates(mds: &Path, dir: &Path, host: IpAddr) -> anyhow::Result<String> {
    let output = tokio::process::Command::new(mds)
        .args(["certs", "--dns-name", "localhost"])
        .arg("--dir")
        .arg(dir)
        .arg("--ip")
        .arg(host.to_string())
        .output()
        .await
        .with_context(|| format!("cannot run {}", mds.display()))?;
    if !output.status.success() {
        bail!(
            "mds certs: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    let path = dir.join("ca.crt");
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The program: the one that the environment names, or else built from this repository, once for this process.
pub async fn binary() -> anyhow::Result<PathBuf> {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    if let Some(path) = env::var_os(PROGRAM).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    BUILT.get_or_try_init(build).await.cloned()
}

async fn build() -> anyhow::Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = tokio::process::Command::new(cargo)
        .current_dir(crate::repository())
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "mds",
            "--bin",
            "mds",
        ])
        .arg("--message-format=json")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("mds does not build: {}", output.status);
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|message| message["target"]["name"] == "mds" && message["executable"].is_string())
        .and_then(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo built no mds")
}
