//! Children that end with their parent: on drop, on panic, on Ctrl-C, and when the parent is killed.
//!
//! Beside each child runs a shell that reads from a pipe. Nobody writes to it; when the parent is gone, however it went,
//! the pipe closes and the shell kills the child. Both have process groups of their own, so that Ctrl-C reaches the
//! parent alone and the order of ending is the parent's.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a child that should end is looked at.
const POLL: Duration = Duration::from_millis(20);

/// What the shell beside a child does. The folder is removed last, when the others that write there are gone too.
const WATCH: &str =
    r#"read -r _; kill -s KILL "$1"; if [ -n "${2-}" ]; then sleep 1; rm -rf -- "$2"; fi"#;

/// A running child and its log.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    watcher: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

/// A signal that tests send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ends it politely.
    Terminate,
    /// Ends it at once.
    Kill,
    /// Pauses it: a process that does not know that time goes on.
    Stop,
    /// Lets a paused one go on.
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Kill => "KILL",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        }
    }
}

impl Process {
    /// Starts a program; both its outputs go to `log`.
    pub fn start(name: &str, command: Command, log: &Path) -> anyhow::Result<Self> {
        Self::start_owning(name, command, log, None)
    }

    /// Starts a program to which a folder belongs: it is removed when the parent is gone without having done so.
    pub fn start_owning(
        name: &str,
        mut command: Command,
        log: &Path,
        folder: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .spawn()
            .with_context(|| {
                format!(
                    "cannot start {name} ({})",
                    command.get_program().to_string_lossy()
                )
            })?;
        let pid = child.id();
        let watcher = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .arg(pid.to_string())
            .args(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => {
                let mut child = child;
                let _ = child.kill();
                let _ = child.wait();
                return Err(error).context("cannot start sh");
            }
        };
        Ok(Self {
            name: name.to_owned(),
            child,
            watcher,
            log: log.to_owned(),
            ended: None,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it has written so far.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Where it writes to.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The last lines of its log, for a message.
    pub fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.dismiss_watcher();
            self.ended = Some(status);
        }
        self.ended
    }

    /// An error when it has ended: what it was, and its last words.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(status) => bail!("{} ended: {status}\n{}", self.name, self.last_words()),
        }
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        self.still_runs()?;
        send(signal, self.pid()).with_context(|| self.name.clone())
    }

    /// Waits until it ends by itself.
    pub async fn wait(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if began.elapsed() > patience {
                bail!(
                    "{} still runs after {patience:?}\n{}",
                    self.name,
                    self.last_words()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends it politely and waits.
    pub async fn stop(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::Terminate)?;
        self.wait(patience).await
    }

    /// Ends it at once and waits.
    pub fn kill(&mut self) {
        // The watcher first: it must not outlive the child and meet another process of the same id.
        self.dismiss_watcher();
        if self.ended.is_none() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    fn dismiss_watcher(&mut self) {
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends somebody else's child politely.
pub fn terminate(pid: u32) -> anyhow::Result<()> {
    send(Signal::Terminate, pid)
}

fn send(signal: Signal, pid: u32) -> anyhow::Result<()> {
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", signal.name()])
        .arg(pid.to_string())
        .status()?;
    if !status.success() {
        bail!("cannot send {} to process {pid}", signal.name());
    }
    Ok(())
}

/// A command whose arguments are given as `--name=value` pairs.
pub fn command(program: impl AsRef<OsStr>, flags: &[(&str, String)]) -> Command {
    let mut command = Command::new(program);
    for (name, value) in flags {
        command.arg(format!("--{name}={value}"));
    }
    command
}

/// Starts something on free ports, again when somebody else took one in between.
pub async fn on_free_ports<T>(start: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut attempts = 1;
    loop {
        match start().await {
            Err(error)
                if attempts < 3
                    && format!("{error:#}")
                        .to_ascii_lowercase()
                        .contains("address already in use") =>
            {
                attempts += 1;
            }
            outcome => return outcome,
        }
    }
}

/// Loopback ports that are free now. All are held until all are known, so they differ.
pub fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free loopback port")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(dir: &Path) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", "echo here; exec sleep 600"]);
        Process::start("sleeper", command, &dir.join("log")).unwrap()
    }

    fn runs(pid: u32) -> bool {
        Command::new("sh")
            .args(["-c", "kill -s 0 \"$1\" 2>/dev/null", "sh"])
            .arg(pid.to_string())
            .status()
            .unwrap()
            .success()
    }

    #[test]
    fn a_child_ends_when_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let child = sleeper(dir.path());
        let (pid, watcher) = (child.pid(), child.watcher.id());
        assert!(runs(pid) && runs(watcher));
        drop(child);
        assert!(!runs(pid) && !runs(watcher));
    }

    #[tokio::test]
    async fn a_child_ends_when_its_parent_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = sleeper(dir.path());
        // What the kernel does to the pipe of a parent that was killed.
        drop(child.watcher.stdin.take());
        let status = child.wait(Duration::from_secs(10)).await.unwrap();
        assert!(!status.success());
    }

    #[tokio::test]
    async fn a_port_that_was_taken_is_no_reason_to_give_up_at_once() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let attempts = AtomicU32::new(0);
        let started = on_free_ports(async || match attempts.fetch_add(1, Ordering::SeqCst) {
            0 => bail!("bind: Address already in use (os error 98)"),
            n => Ok(n),
        });
        assert_eq!(started.await.unwrap(), 1);
        let failed = on_free_ports(async || -> anyhow::Result<()> { bail!("no such file") });
        assert_eq!(failed.await.unwrap_err().to_string(), "no such file");
    }

    #[tokio::test]
    async fn an_early_end_is_told_with_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo cannot go on >&2; exit 7"]);
        let mut child = Process::start("it", command, &dir.path().join("log")).unwrap();
        child.wait(Duration::from_secs(10)).await.unwrap();
        let error = child.still_runs().unwrap_err().to_string();
        assert_eq!(error, "it ended: exit status: 7\ncannot go on");
    }
}
