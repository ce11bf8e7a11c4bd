//! The programs of the control plane: a folder with `etcd`, `kube-apiserver` and `kubectl`, and where it was built here,
//! `kube-controller-manager`.
//!
//! Built from `tests/controlplane` into `.sandbox/`, once for each state of that module's sources. `KUBEBUILDER_ASSETS`,
//! as users of envtest have it, is used instead when it is set, and then Go is not needed.

use anyhow::{Context, bail};
use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the built binary is called, one link each.
const PROGRAMS: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
];

/// A folder with the programs.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
    origin: String,
}

impl Binaries {
    /// The folder that the environment names, or else the one that is built here, now if need be.
    pub fn locate() -> anyhow::Result<Self> {
        if let Some(folder) = env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()) {
            let folder = PathBuf::from(folder);
            for program in ["etcd", "kube-apiserver"] {
                if !folder.join(program).is_file() {
                    bail!(
                        "KUBEBUILDER_ASSETS is set, but {} is not there: correct or unset it",
                        folder.join(program).display()
                    );
                }
            }
            let origin = format!("KUBEBUILDER_ASSETS ({})", folder.display());
            return Ok(Self { folder, origin });
        }
        Self::build(&crate::repository())
    }

    fn build(repository: &Path) -> anyhow::Result<Self> {
        let sources = repository.join("tests/controlplane");
        let module = fs::read_to_string(sources.join("go.mod"))
            .context("cannot read tests/controlplane/go.mod")?;
        let release = required(&module, "k8s.io/kubernetes")
            .context("tests/controlplane/go.mod requires no k8s.io/kubernetes")?;
        let mut key = DefaultHasher::new();
        for file in ["go.mod", "go.sum", "main.go"] {
            fs::read(sources.join(file))
                .with_context(|| format!("cannot read tests/controlplane/{file}"))?
                .hash(&mut key);
        }
        let folder = repository
            .join(".sandbox")
            .join(format!("controlplane-{release}-{:016x}", key.finish()));
        let built = Self {
            origin: format!("Kubernetes {release}, built from tests/controlplane"),
            folder,
        };
        let binary = built.folder.join("controlplane");
        if binary.is_file() {
            return Ok(built);
        }

        fs::create_dir_all(&built.folder)
            .with_context(|| format!("cannot make {}", built.folder.display()))?;
        // Test programs may come here at the same time: the first builds, the others wait.
        let lock = File::create(built.folder.join("lock"))?;
        lock.lock()?;
        if binary.is_file() {
            return Ok(built);
        }
        for program in PROGRAMS {
            let link = built.folder.join(program);
            if !link.is_symlink() {
                symlink("controlplane", link)?;
            }
        }
        let unfinished = built.folder.join("controlplane.unfinished");
        go_build(&sources, release, &unfinished)?;
        fs::rename(&unfinished, &binary)?;
        Ok(built)
    }

    /// Where a program is, if it is in the folder.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.folder.join(name);
        path.is_file().then_some(path)
    }

    /// Which programs these are, for people.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

fn go_build(sources: &Path, release: &str, output: &Path) -> anyhow::Result<()> {
    let version = "k8s.io/component-base/version";
    let mut numbers = release.trim_start_matches('v').split('.');
    let (major, minor) = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    let mut go = Command::new("go");
    go.current_dir(sources)
        .args(["build", "-buildvcs=false", "-ldflags"])
        .arg(format!(
            "-s -w -X {version}.gitVersion={release} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
        ))
        .arg("-o")
        .arg(output)
        .arg(".")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = match go.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "the control plane is built with Go, and go is not on the PATH: install Go 1.26 or later (https://go.dev/dl), \
             or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver"
        ),
        Err(error) => return Err(error).context("cannot start go"),
    };
    let stderr = child.stderr.take();
    let complaints = std::thread::spawn(move || stderr.map(io::read_to_string).transpose());
    let mut progress = Progress::begin(&format!(
        "building Kubernetes {release} from its Go modules (some minutes the first time)"
    ));
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None => progress.tick(),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    progress.end();
    if !status.success() {
        let complaints = complaints.join().ok().and_then(Result::ok).flatten();
        bail!(
            "go build failed in tests/controlplane ({status}):\n{}",
            complaints.unwrap_or_default().trim_end()
        );
    }
    Ok(())
}

/// The version that a `go.mod` requires of a module.
fn required<'a>(module: &'a str, name: &str) -> Option<&'a str> {
    module.lines().find_map(|line| {
        let mut words = line
            .trim()
            .trim_start_matches("require ")
            .split_whitespace();
        (words.next() == Some(name)).then(|| words.next()).flatten()
    })
}

/// One line on standard error that says how long it takes: rewritten on a terminal, else repeated now and then.
struct Progress {
    text: String,
    began: Instant,
    shown: u64,
    terminal: bool,
}

impl Progress {
    fn begin(text: &str) -> Self {
        let progress = Self {
            text: text.to_owned(),
            began: Instant::now(),
            shown: 0,
            terminal: io::stderr().is_terminal(),
        };
        progress.show(0);
        progress
    }

    fn tick(&mut self) {
        let seconds = self.began.elapsed().as_secs();
        if seconds >= self.shown + if self.terminal { 1 } else { 30 } {
            self.shown = seconds;
            self.show(seconds);
        }
    }

    fn show(&self, seconds: u64) {
        let mut out = io::stderr().lock();
        // A broken terminal is no reason not to build.
        let _ = if self.terminal {
            write!(out, "\r{}: {seconds} s ", self.text)
        } else {
            writeln!(out, "{}: {seconds} s", self.text)
        };
        let _ = out.flush();
    }

    fn end(&self) {
        self.show(self.began.elapsed().as_secs());
        if self.terminal {
            eprintln!();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_the_one_that_the_module_requires() {
        let module =
            fs::read_to_string(crate::repository().join("tests/controlplane/go.mod")).unwrap();
        let release = required(&module, "k8s.io/kubernetes").unwrap();
        assert!(release.starts_with("v1."), "{release}");
        // Every staging module is replaced by its published release.
        let staging = format!("v0.{}", &release["v1.".len()..]);
        let replaced: Vec<_> = module.lines().filter(|line| line.contains("=>")).collect();
        assert!(!replaced.is_empty());
        for line in replaced {
            assert!(line.ends_with(&format!(" {staging}")), "{line}");
        }
        assert_eq!(required("require a.b/c v1.2.3", "a.b/c"), Some("v1.2.3"));
    }
}
