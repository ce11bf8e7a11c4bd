//! Who a request comes from: a kubeconfig with one context, and others that are made from it.

use crate::authority::{Pair, write_private};
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::path::Path;

/// One account at one API server.
#[derive(Clone)]
pub struct Account {
    cluster: Value,
    user: Value,
    namespace: String,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never its secrets.
        f.debug_struct("Account")
            .field("server", &self.server())
            .finish_non_exhaustive()
    }
}

impl Account {
    /// An account with a client certificate.
    pub fn certified(server: &str, authority: &str, pair: &Pair) -> Self {
        Self {
            cluster: json!({
                "server": server,
                "certificate-authority-data": STANDARD.encode(authority),
            }),
            user: json!({
                "client-certificate-data": STANDARD.encode(&pair.certificate),
                "client-key-data": STANDARD.encode(&pair.key),
            }),
            namespace: "default".to_owned(),
        }
    }

    /// The current context of a kubeconfig.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let config = Kubeconfig::read_from(path)
            .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
        let config = serde_json::to_value(config)?;
        let named = |list: &str, name: &Value, field: &str| -> anyhow::Result<Value> {
            config[list]
                .as_array()
                .into_iter()
                .flatten()
                .find(|entry| entry["name"] == *name)
                .map(|entry| entry[field].clone())
                .with_context(|| format!("{}: {list} has no entry {name}", path.display()))
        };
        let current = &config["current-context"];
        if current.as_str().unwrap_or_default().is_empty() {
            bail!("{}: no current-context", path.display());
        }
        let context = named("contexts", current, "context")?;
        Ok(Self {
            cluster: named("clusters", &context["cluster"], "cluster")?,
            user: named("users", &context["user"], "user")?,
            namespace: context["namespace"]
                .as_str()
                .unwrap_or("default")
                .to_owned(),
        })
    }

    /// The same API server with a bearer token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            user: json!({"token": token}),
            ..self.clone()
        }
    }

    /// The same API server without credentials.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self {
            user: json!({}),
            ..self.clone()
        }
    }

    /// The same account, acting as somebody else: what the API server calls impersonation.
    #[must_use]
    pub fn acting_as(&self, user: &str, groups: &[&str]) -> Self {
        let mut account = self.clone();
        account.user["as"] = json!(user);
        if !groups.is_empty() {
            account.user["as-groups"] = json!(groups);
        }
        account
    }

    /// The same account through another address, such as a proxy's.
    #[must_use]
    pub fn through(&self, server: &str, authority: &str) -> Self {
        Self {
            cluster: json!({
                "server": server,
                "certificate-authority-data": STANDARD.encode(authority),
            }),
            ..self.clone()
        }
    }

    /// The same account, with this namespace where none is named.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// The namespace where a request names none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The address of the API server.
    pub fn server(&self) -> &str {
        self.cluster["server"].as_str().unwrap_or_default()
    }

    /// The certificates that it is trusted by, PEM; empty where the kubeconfig names none.
    pub fn authority(&self) -> anyhow::Result<String> {
        if let Some(data) = self.cluster["certificate-authority-data"].as_str() {
            return Ok(String::from_utf8(STANDARD.decode(data)?)?);
        }
        match self.cluster["certificate-authority"].as_str() {
            Some(path) => {
                std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
            }
            None => Ok(String::new()),
        }
    }

    /// Writes it as a kubeconfig that only its owner reads.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        write_private(path, &serde_saphyr::to_string(&self.document())?)
    }

    /// A client that retries nothing by itself, so that a test sees every answer.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        crate::install_crypto();
        let config: Kubeconfig = serde_json::from_value(self.document())?;
        let mut config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Ok(kube::Client::try_from(config)?)
    }

    fn document(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": self.cluster}],
            "users": [{"name": "sandbox", "user": self.user}],
            "contexts": [{
                "name": "sandbox",
                "context": {"cluster": "sandbox", "user": "sandbox", "namespace": self.namespace},
            }],
            "current-context": "sandbox",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn administrator() -> Account {
        let pair = Pair {
            certificate: "certificate".to_owned(),
            key: "key".to_owned(),
        };
        Account::certified("https://127.0.0.1:1", "authority", &pair)
    }

    #[test]
    fn a_written_account_reads_back_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let account = administrator()
            .acting_as("alice", &["team"])
            .in_namespace("n");
        account.write(&path).unwrap();
        let read = Account::read(&path).unwrap();
        assert_eq!(read.document(), account.document());
        assert_eq!(read.server(), "https://127.0.0.1:1");
        assert_eq!(read.authority().unwrap(), "authority");
    }

    #[test]
    fn a_token_replaces_the_certificate() {
        let document = administrator().with_token("t").document();
        assert_eq!(document["users"][0]["user"], json!({"token": "t"}));
    }
}
