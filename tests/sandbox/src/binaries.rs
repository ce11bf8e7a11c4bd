//! The programs of the control plane: a folder with `etcd`, `kube-apiserver` and `kubectl`, and where it was built here,
//! `kube-controller-manager`.
//!
//! Built from `tests/controlplane` into `.sandbox/`, once for each state of that module's sources. `KUBEBUILDER_ASSETS`,
//! as users of envtest have it, is used instead when it is set, and then Go is not needed.

use crate::go;
use anyhow::{Context, bail};
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

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
        let release = go::required(&module, "k8s.io/kubernetes")
            .context("tests/controlplane/go.mod requires no k8s.io/kubernetes")?;
        let version = "k8s.io/component-base/version";
        let mut numbers = release.trim_start_matches('v').split('.');
        let mut number = || numbers.next().unwrap_or_default();
        let build = go::Build {
            name: "controlplane",
            release,
            sources: &sources,
            inputs: &["go.mod", "go.sum", "main.go"],
            // Without it the API server has no version, and clients that read one fail.
            linker: format!(
                "-X {version}.gitVersion={release} -X {version}.gitMajor={} -X {version}.gitMinor={}",
                number(),
                number()
            ),
            patience: "some minutes the first time",
        };
        let folder = build.folder(|folder| {
            for program in PROGRAMS {
                let link = folder.join(program);
                if !link.is_symlink() {
                    symlink(build.name, link)?;
                }
            }
            Ok(Vec::new())
        })?;
        Ok(Self {
            origin: format!("Kubernetes {release}, built from tests/controlplane"),
            folder,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_the_one_that_the_module_requires() {
        let module =
            fs::read_to_string(crate::repository().join("tests/controlplane/go.mod")).unwrap();
        let release = go::required(&module, "k8s.io/kubernetes").unwrap();
        assert!(release.starts_with("v1."), "{release}");
        // Every staging module is replaced by its published release.
        let staging = format!("v0.{}", &release["v1.".len()..]);
        let replaced: Vec<_> = module.lines().filter(|line| line.contains("=>")).collect();
        assert!(!replaced.is_empty());
        for line in replaced {
            assert!(line.ends_with(&format!(" {staging}")), "{line}");
        }
        assert_eq!(
            go::required("require a.b/c v1.2.3", "a.b/c"),
            Some("v1.2.3")
        );
    }
}
