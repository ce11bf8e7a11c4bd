//! `sandbox run`: the tour, on a control plane of its own or on a cluster that exists.

use super::signals::Signals;
use anyhow::bail;
use sandbox::account::Account;
use sandbox::cluster::Cluster;
use sandbox::control_plane::ControlPlane;
use sandbox::installation::{Installation, NAMESPACE};
use sandbox::program::{self, Settings};
use sandbox::tour::{self, Teller};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// The exit code of a run that was interrupted, as shells have it.
const INTERRUPTED: u8 = 130;

/// Builds what is needed, starts a control plane, installs mds and walks through a tour of it
///
/// On a terminal it then stays up for kubectl until Ctrl-C. With --cluster it uses a cluster that exists instead, and
/// removes what it made there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ends after the tour, on a terminal too
    #[arg(long)]
    once: bool,

    /// Kubeconfig of a cluster to use; the variable KUBECONFIG is ignored on purpose
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,

    /// With --cluster: does not ask
    #[arg(long, requires = "cluster")]
    yes: bool,

    /// Address at which the API server reaches this machine
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    webhook_address: IpAddr,
}

impl Args {
    /// Runs it.
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        // The programs are built first: a fault in them is told before anything runs.
        tokio::select! {
            built = program::binary() => built.map(drop)?,
            _ = signals.next() => return Ok(INTERRUPTED.into()),
        }
        match &self.cluster {
            None => self.on_its_own(&mut signals).await,
            Some(kubeconfig) => self.on_a_cluster(kubeconfig, &mut signals).await,
        }
    }

    async fn on_its_own(&self, signals: &mut Signals) -> anyhow::Result<ExitCode> {
        let began = Instant::now();
        let plane = tokio::select! {
            plane = ControlPlane::start() => plane?,
            _ = signals.next() => return Ok(INTERRUPTED.into()),
        };
        println!(
            "Control plane: {} at {}, ready after {:.1} s",
            plane.origin(),
            plane.admin().account().server(),
            began.elapsed().as_secs_f32()
        );
        let settings = self.settings();
        let installation = tokio::select! {
            installation = Installation::install(plane.admin(), &settings) => installation?,
            _ = signals.next() => return Ok(INTERRUPTED.into()),
        };
        describe(&installation);
        let kubeconfig = sandbox::repository().join(".sandbox/kubeconfig");
        std::fs::create_dir_all(sandbox::repository().join(".sandbox"))?;
        plane.admin().account().write(&kubeconfig)?;
        // Gone with the control plane, however this ends.
        let kubeconfig = tempfile::TempPath::try_from_path(kubeconfig)?;
        println!("Kubeconfig: {} (the administrator's)", kubeconfig.display());

        let namespace = tour::namespace(plane.admin()).await?;
        let outcome = tokio::select! {
            outcome = walk(&installation, &namespace) => outcome,
            _ = signals.next() => return Ok(INTERRUPTED.into()),
        };
        if outcome.is_err() {
            eprintln!("The program's log:\n{}", installation.program().log());
        }
        outcome?;
        if !self.once && io::stdin().is_terminal() && io::stdout().is_terminal() {
            let kubectl = plane
                .admin()
                .kubectl_program()
                .unwrap_or_else(|| "kubectl".into());
            println!("\nIt stays up until Ctrl-C. In another terminal:\n");
            println!("  export KUBECONFIG={}", kubeconfig.display());
            println!("  {} get mds --all-namespaces", kubectl.display());
            println!(
                "  {} apply -f manifests/samples/minimal.yaml\n",
                kubectl.display()
            );
            signals.next().await;
            println!("\nEnding.");
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn on_a_cluster(&self, file: &Path, signals: &mut Signals) -> anyhow::Result<ExitCode> {
        let admin = Cluster::connect(Account::read(file)?, None).await?;
        println!(
            "Cluster: {} (from {})",
            admin.account().server(),
            file.display()
        );
        if !self.yes && !agreed()? {
            println!("Nothing was done.");
            return Ok(ExitCode::FAILURE);
        }
        untouched(&admin).await?;
        // Not interrupted: what is made must be known, to be removed.
        let installation = match Installation::install_except(
            &admin,
            &self.settings(),
            runs_on_nodes,
        )
        .await
        {
            Ok(installation) => installation,
            Err(error) if format!("{error:#}").contains("failed calling webhook") => {
                let address = self.webhook_address;
                return Err(error.context(format!(
                        "the API server must reach this machine, and does not at {address}: say --webhook-address"
                    )));
            }
            Err(error) => return Err(error),
        };
        describe(&installation);
        let outcome = match tour::namespace(&admin).await {
            Ok(namespace) => {
                let outcome = tokio::select! {
                    outcome = walk(&installation, &namespace) => outcome.map(|()| ExitCode::SUCCESS),
                    _ = signals.next() => Ok(INTERRUPTED.into()),
                };
                println!("\nRemoving what was made.");
                // With the webhooks still there: what is left in it is bound, and its removal is allowed.
                tour::clear(&admin, &namespace).await.and(outcome)
            }
            Err(error) => Err(error),
        };
        installation.remove().await?;
        outcome
    }

    fn settings(&self) -> Settings {
        Settings {
            host: self.webhook_address,
            ..Settings::default()
        }
    }
}

async fn walk(installation: &Installation, namespace: &str) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut teller = Teller::new(&mut out, colour);
    tour::walk(
        installation.admin(),
        installation.account(),
        namespace,
        &mut teller,
    )
    .await?;
    let checks = teller.checks();
    println!("\nThe tour is over: {checks} promises checked, all kept.");
    Ok(())
}

fn describe(installation: &Installation) {
    for object in installation.left_out() {
        println!("Left out here: {object}");
    }
    let program = installation.program();
    println!(
        "mds: serving at https://{} as its own service account, ready after {} ms (a debug build)",
        program.webhook(),
        program.ready_after().as_millis()
    );
}

/// The program runs on this machine, so its Deployment and what goes with it would only be in the way.
fn runs_on_nodes(object: &Value) -> bool {
    [
        "Deployment",
        "PodDisruptionBudget",
        "Service",
        "NetworkPolicy",
    ]
    .iter()
    .any(|kind| object["kind"] == *kind)
}

/// Refuses a cluster where mds is installed: the tour would change it.
async fn untouched(admin: &Cluster) -> anyhow::Result<()> {
    for (version, kind, name) in [
        ("v1", "Namespace", NAMESPACE),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "mds",
        ),
        (
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            "mds",
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "modeldeploymentscalers.worker.gpustack.ai",
        ),
    ] {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        let answer = admin.get(&object).await?;
        if answer.status != 404 {
            answer.ok()?;
            bail!(
                "{kind} {name} is there already: mds is installed in this cluster, and the tour would change it"
            );
        }
    }
    Ok(())
}

fn agreed() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("not on a terminal, so nobody can be asked: say --yes (make run CLUSTER=... YES=1)");
    }
    print!(
        "mds, its definitions and webhooks are installed there and removed again. Go on? [y/N] "
    );
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
