//! Handing a certificate to the cluster: the Secret that the server mounts, the bundle that the API server trusts.

use crate::serve::sentence::sentence;
use crate::serve::tls::{CertificatePem, Pair, not_after};
use anyhow::{anyhow, bail, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Resource};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Debug;
use std::time::Duration;

/// Who the fields written here belong to.
const FIELD_MANAGER: &str = "mds-certs";

/// Authorities that stay in a bundle beside the new one.
const KEPT: usize = 2;

/// A Secret by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretName {
    namespace: String,
    name: String,
}

impl SecretName {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => bail!("write NAMESPACE/NAME, such as mds-system/mds-webhook-tls"),
        }
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Stores the pair, without the authority's key.
pub(super) async fn secret(
    client: Client,
    name: &SecretName,
    authority: &CertificatePem,
    pair: &Pair,
) -> anyhow::Result<()> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.name.clone()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(BTreeMap::from([
            ("ca.crt".to_owned(), ByteString(authority.0.clone())),
            (
                "tls.crt".to_owned(),
                ByteString(pair.certificate().0.clone()),
            ),
            ("tls.key".to_owned(), ByteString(pair.key().0.clone())),
        ])),
        ..Secret::default()
    };
    let api = Api::<Secret>::namespaced(client, &name.namespace);
    api.patch(
        &name.name,
        &PatchParams::apply(FIELD_MANAGER).force(),
        &Patch::Apply(&secret),
    )
    .await
    .map_err(|error| anyhow!("cannot store Secret {name}: {}", sentence(&error)))?;
    Ok(())
}

/// Writes the authority into both configurations of that name; a line about each.
pub(super) async fn webhooks(
    client: Client,
    name: &str,
    authority: &CertificatePem,
    now: Duration,
) -> anyhow::Result<Vec<String>> {
    let mutating =
        trust::<MutatingWebhookConfiguration>(client.clone(), name, authority, now).await?;
    let validating = trust::<ValidatingWebhookConfiguration>(client, name, authority, now).await?;
    Ok(vec![mutating, validating])
}

/// A webhook configuration, as far as its clients.
trait Configuration: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {
    fn clients(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl Configuration for MutatingWebhookConfiguration {
    fn clients(&self) -> Vec<(&str, &WebhookClientConfig)> {
        self.webhooks
            .iter()
            .flatten()
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    fn clients(&self) -> Vec<(&str, &WebhookClientConfig)> {
        self.webhooks
            .iter()
            .flatten()
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

async fn trust<C>(
    client: Client,
    name: &str,
    authority: &CertificatePem,
    now: Duration,
) -> anyhow::Result<String>
where
    C: Configuration,
    C: Resource<Scope = kube::core::ClusterResourceScope>,
{
    let kind = C::kind(&());
    let api = Api::<C>::all(client);
    let found = api
        .get(name)
        .await
        .map_err(|error| anyhow!("cannot read {kind} {name}: {}", sentence(&error)))?;
    let patch = patch(&found.clients(), authority, now)?;
    let count = found.clients().len();
    ensure!(
        count > 0,
        "{kind} {name} has no webhooks: apply the manifests first"
    );
    api.patch(
        name,
        &PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        },
        &Patch::<()>::Json(patch),
    )
    .await
    .map_err(|error| anyhow!("cannot write {kind} {name}: {}", sentence(&error)))?;
    Ok(format!(
        "{kind} {name} trusts the authority, in {count} webhooks"
    ))
}

/// One bundle for each webhook; a `test` of its name keeps a list that changed meanwhile from being mixed up.
fn patch(
    clients: &[(&str, &WebhookClientConfig)],
    authority: &CertificatePem,
    now: Duration,
) -> serde_json::Result<json_patch::Patch> {
    let operations: Vec<_> = clients
        .iter()
        .enumerate()
        .flat_map(|(index, (name, client))| {
            let before = client.ca_bundle.as_ref().map_or(&[][..], |bundle| bundle.0.as_slice());
            let bundle = ByteString(bundle(authority, before, now));
            [
                json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": name}),
                json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": bundle}),
            ]
        })
        .collect();
    serde_json::from_value(operations.into())
}

/// The new authority, then those of `before` that are still valid.
fn bundle(authority: &CertificatePem, before: &[u8], now: Duration) -> Vec<u8> {
    let new = CertificateDer::from_pem_slice(&authority.0).ok();
    let valid = |der: &CertificateDer<'_>| {
        let expires = not_after(der).and_then(|seconds| u64::try_from(seconds).ok());
        expires.is_some_and(|seconds| Duration::from_secs(seconds) > now)
    };
    let mut bundle = authority.0.clone();
    CertificateDer::pem_slice_iter(before)
        .map_while(Result::ok)
        .filter(|old| Some(old) != new.as_ref() && valid(old))
        .take(KEPT)
        .for_each(|old| bundle.extend_from_slice(pem(&old).as_bytes()));
    bundle
}

/// RFC 7468, section 5.
fn pem(der: &CertificateDer<'_>) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tls::authority::{AUTHORITY_LIFE, Authority};

    const NOW: Duration = Duration::from_hours(500_000);

    fn ders(bundle: &[u8]) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(bundle)
            .map(Result::unwrap)
            .collect()
    }

    #[test]
    fn a_bundle_keeps_what_is_valid_and_nothing_twice() {
        let authority = |now| Authority::generate(now).unwrap().certificate().clone();
        let (new, old, expired) = (
            authority(NOW),
            authority(NOW),
            authority(NOW.saturating_sub(AUTHORITY_LIFE)),
        );
        let first = bundle(&old, b"", NOW);
        assert_eq!(ders(&first), ders(&old.0));
        assert_eq!(ders(&bundle(&old, &first, NOW)), ders(&old.0));
        let before = [old.0.as_slice(), &expired.0, &new.0].concat();
        let both = bundle(&new, &before, NOW);
        assert_eq!(ders(&both), [ders(&new.0), ders(&old.0)].concat());
        assert_eq!(bundle(&new, b"no bundle at all", NOW), new.0);
    }

    #[test]
    fn the_patch_names_the_webhook_that_it_means() {
        let authority = CertificatePem(b"x".to_vec());
        let client = WebhookClientConfig::default();
        let patch = patch(&[("a.mds", &client)], &authority, NOW).unwrap();
        let expected = json!([
            {"op": "test", "path": "/webhooks/0/name", "value": "a.mds"},
            {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "eA=="},
        ]);
        assert_eq!(serde_json::to_value(patch).unwrap(), expected);
    }

    #[test]
    fn a_secret_has_a_namespace_and_a_name() {
        let name = SecretName::parse("mds-system/mds-webhook-tls").unwrap();
        assert_eq!(name.to_string(), "mds-system/mds-webhook-tls");
        for wrong in ["", "a", "/a", "a/", "a/b/c"] {
            assert!(SecretName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
