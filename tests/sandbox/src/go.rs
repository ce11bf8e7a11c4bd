//! Go programs, built from modules of this repository into a folder that git ignores, once for each state of their
//! sources.

use anyhow::{Context, bail};
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is built.
#[derive(Clone, Debug)]
pub(crate) struct Build<'a> {
    /// The name of the program, and the beginning of its folder's.
    pub name: &'a str,
    /// The release of what is inside.
    pub release: &'a str,
    /// The module.
    pub sources: &'a Path,
    /// Files of the module that decide what is built.
    pub inputs: &'a [&'a str],
    /// What the linker is told.
    pub linker: String,
    /// The size of the work, for people.
    pub patience: &'a str,
}

impl Build<'_> {
    /// The folder that holds the program, built now if need be. `prepare` runs first; it gets the folder, and returns
    /// further arguments of `go build`.
    pub(crate) fn folder(
        &self,
        prepare: impl FnOnce(&Path) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<PathBuf> {
        let mut key = DefaultHasher::new();
        for file in self.inputs {
            let path = self.sources.join(file);
            fs::read(&path)
                .with_context(|| format!("cannot read {}", path.display()))?
                .hash(&mut key);
        }
        let folder = crate::repository().join(".sandbox").join(format!(
            "{}-{}-{:016x}",
            self.name,
            self.release,
            key.finish()
        ));
        let program = folder.join(self.name);
        if program.is_file() {
            return Ok(folder);
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // Test programs may come here at the same time: the first builds, the others wait.
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        if program.is_file() {
            return Ok(folder);
        }
        let arguments = prepare(&folder)?;
        let unfinished = folder.join(format!("{}.unfinished", self.name));
        self.run(&arguments, &unfinished)?;
        fs::rename(&unfinished, &program)?;
        Ok(folder)
    }

    fn run(&self, arguments: &[String], output: &Path) -> anyhow::Result<()> {
        let mut child = go()
            .current_dir(self.sources)
            .args([
                "build",
                "-buildvcs=false",
                "-ldflags",
                &format!("-s -w {}", self.linker),
            ])
            .args(arguments)
            .arg("-o")
            .arg(output)
            .arg(".")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(absent)?;
        let stderr = child.stderr.take();
        let complaints = std::thread::spawn(move || stderr.map(io::read_to_string).transpose());
        let mut progress = Progress::begin(&format!(
            "building {} {} from its Go modules ({})",
            self.name, self.release, self.patience
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
                "go build failed in {} ({status}):\n{}",
                self.sources.display(),
                complaints.unwrap_or_default().trim_end()
            );
        }
        Ok(())
    }
}

/// The folder of a module that another one requires, fetched into the module cache.
pub(crate) fn module(sources: &Path, name: &str) -> anyhow::Result<PathBuf> {
    for arguments in [
        &["mod", "download", name][..],
        &["list", "-m", "-f", "{{.Dir}}", name],
    ] {
        let output = go()
            .current_dir(sources)
            .args(arguments)
            .output()
            .map_err(absent)?;
        if !output.status.success() {
            bail!(
                "go {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if folder.is_dir() && folder.is_absolute() {
            return Ok(folder);
        }
    }
    bail!("go knows no folder of {name}")
}

fn go() -> Command {
    Command::new("go")
}

fn absent(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::NotFound {
        anyhow::anyhow!(
            "the control plane is built with Go, and go is not on the PATH: install Go 1.26 or later (https://go.dev/dl), \
             or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver"
        )
    } else {
        anyhow::Error::from(error).context("cannot start go")
    }
}

/// The version that a `go.mod` requires of a module.
pub(crate) fn required<'a>(module: &'a str, name: &str) -> Option<&'a str> {
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
