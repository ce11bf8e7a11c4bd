//! A small real cluster on one machine, for tests, benches and `make run`.
//!
//! Nothing of the Kubernetes API is imitated: etcd, kube-apiserver and the controller manager are upstream's, built from
//! Go modules ([`binaries`]). `mds` itself runs as a child process ([`program`]), never as a library.
//!
//! | module | what it gives |
//! |---|---|
//! | [`control_plane`] | starts and ends a control plane; shares one between test programs |
//! | [`cluster`] | one account at one API server: raw requests, apply, `kubectl` |
//! | [`account`] | other accounts: users, service accounts, through a proxy |
//! | [`manifests`] | `manifests/` as a cluster gets it, with webhooks that lead to a loopback port |
//! | [`installation`] | `mds` installed, running and heeded |
//! | [`program`] | `mds certs` and `mds serve` under the real service account |
//! | [`proxy`] | faults between a program and the API server |
//! | [`kueue`] | the real Kueue, for who asks for it |
//! | [`engine`] | fake vLLM and SGLang engines under a load, with faults on demand |
//! | [`tour`] | what `make run` shows |
//! | [`process`] | children that end with their parent |
//!
//! A controller or an engine that the sandbox plays itself gets a module of its own here, and says what it stands for.

pub mod account;
pub mod authority;
pub mod binaries;
pub mod cluster;
pub mod control_plane;
pub mod engine;
mod go;
mod health;
pub mod installation;
pub mod kueue;
pub mod manifests;
pub mod process;
pub mod program;
pub mod proxy;
pub mod tour;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Installs the crypto provider that both TLS and the client look for. Again does nothing.
pub fn install_crypto() {
    // Fails only when there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
