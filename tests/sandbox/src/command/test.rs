//! `sandbox test`: a command that finds a control plane in its environment.

use super::signals::{Asked, Signals};
use anyhow::{Context, bail};
use sandbox::control_plane::{ControlPlane, FOLDER, KUBECTL, SHARED, SKIPPED, WITHOUT_CONTROLLERS};
use sandbox::process::terminate;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;
use tokio::process::Command;

/// Runs a command with a control plane of its own, and ends the control plane after it
///
/// The command finds the administrator's kubeconfig in MDS_TEST_KUBECONFIG, and kubectl on the PATH. Its exit code is
/// passed on.
#[expect(clippy::doc_markdown, reason = "a help text has no markup")]
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

impl Args {
    /// Runs it.
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let began = Instant::now();
        let plane = tokio::select! {
            plane = ControlPlane::start() => plane?,
            _ = signals.next() => bail!("interrupted"),
        };
        eprintln!(
            "sandbox: {} at {}, ready after {:.1} s",
            plane.origin(),
            plane.admin().account().server(),
            began.elapsed().as_secs_f32()
        );
        if !plane.has_controllers() {
            eprintln!(
                "sandbox: no controller manager here; tests that need one say that they skip"
            );
        }
        let mut command = self.command.into_iter();
        let program = command.next().context("no command")?;
        let mut child = Command::new(&program);
        child.args(command).env(SHARED, plane.admin().kubeconfig());
        if let Some(folder) = plane.folder() {
            child.env(FOLDER, folder);
        }
        if let Some(kubectl) = plane.admin().kubectl_program() {
            let folder = kubectl.parent().map(ToOwned::to_owned).unwrap_or_default();
            let path = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
            child
                .env("PATH", std::env::join_paths(folders)?)
                .env(KUBECTL, kubectl);
        }
        if !plane.has_controllers() {
            child.env(WITHOUT_CONTROLLERS, "1");
        }
        let skipped = tempfile::NamedTempFile::new()?;
        child.env(SKIPPED, skipped.path());
        let mut child = child
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                asked = signals.next() => match (asked, child.id()) {
                    // The command gets Ctrl-C too, and ends by itself; the control plane ends after it.
                    (Asked::ByTerminal, _) | (_, None) => {}
                    (Asked::Alone, Some(pid)) => terminate(pid)?,
                },
            }
        };
        let skipped = std::fs::read_to_string(skipped.path()).unwrap_or_default();
        if !skipped.is_empty() {
            eprintln!("sandbox: {} tests skipped", skipped.lines().count());
            for line in skipped.lines() {
                eprintln!("sandbox:   {line}");
            }
        }
        Ok(ExitCode::from(
            status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1),
        ))
    }
}
