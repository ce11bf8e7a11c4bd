//! Which cluster a command talks to.

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::PathBuf;
use std::time::Duration;

/// The cluster, for commands that need one.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ClusterArgs {
    /// Kubeconfig of the cluster; without it, the one that mds runs in
    ///
    /// The variable KUBECONFIG alone is ignored on purpose: it may name another cluster.
    #[arg(long, env = "MDS_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ClusterArgs {
    /// A client that retries nothing by itself: who has a deadline retries on purpose, or not at all.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)
                    .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                    .await
                    .with_context(|| format!("cannot use the kubeconfig {}", path.display()))?
            }
            None => Config::incluster().context("not in a cluster, so set --kubeconfig")?,
        };
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(2));
        Client::try_from(config).context("cannot make a client for the cluster")
    }
}
