//! `mds certs`: a local authority and a serving certificate, where there is no cert-manager.

use super::Outcome;
use super::cluster::ClusterArgs;
use crate::serve::tls::authority::{Authority, Subject};
use crate::serve::tls::revision::{self, File, Readers};
use crate::serve::tls::{CertificatePem, KeyPem, Pair};
use anyhow::{Context, bail};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

mod publish;

/// Makes a serving certificate, and the authority that signs it
///
/// For clusters without cert-manager, and for trying mds out. Writes ca.crt, ca.key, tls.crt and tls.key into a
/// directory that 'mds serve --tls-dir' reads; keys are readable by their owner only. All files change at once, the way
/// the kubelet swaps a Secret, so a running server takes the new pair up without losing a connection.
///
/// Run again, it keeps the authority and renews the serving certificate. An authority that would expire before the
/// serving certificate is replaced.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  \
    mds certs --dir certs/dev --ip 127.0.0.1\n  \
    mds certs --dir certs/dev --secret mds-system/mds-webhook-tls --patch-webhooks")]
pub(super) struct Args {
    /// Directory to write to; made when it is not there
    #[arg(long, env = "MDS_CERTS_DIR", value_name = "DIR")]
    dir: PathBuf,

    /// DNS name of the server; may be repeated
    ///
    /// Without any name or address: mds-webhook.mds-system.svc, which is what the API server calls.
    #[arg(
        long = "dns-name",
        env = "MDS_CERTS_DNS_NAMES",
        value_name = "NAME",
        value_delimiter = ','
    )]
    dns_names: Vec<String>,

    /// Address of the server; may be repeated
    #[arg(
        long = "ip",
        env = "MDS_CERTS_IPS",
        value_name = "IP",
        value_delimiter = ','
    )]
    addresses: Vec<IpAddr>,

    /// Days that the serving certificate is valid, 1 to 3650
    #[arg(long, env = "MDS_CERTS_VALID_DAYS", value_name = "DAYS", default_value_t = 90,
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    valid_days: u32,

    /// Store the pair as a Secret of type kubernetes.io/tls, with ca.crt in it
    #[arg(long, env = "MDS_CERTS_SECRET", value_name = "NAMESPACE/NAME", value_parser = publish::SecretName::parse)]
    secret: Option<publish::SecretName>,

    /// Write the authority into both webhook configurations, so that the API server trusts the server
    ///
    /// Valid authorities that are there stay beside it: the server may present the certificate before for a while.
    #[arg(long, env = "MDS_CERTS_PATCH_WEBHOOKS")]
    patch_webhooks: bool,

    /// Name of the two webhook configurations
    #[arg(
        long,
        env = "MDS_CERTS_WEBHOOKS",
        value_name = "NAME",
        default_value = "mds"
    )]
    webhooks: String,

    #[command(flatten)]
    cluster: ClusterArgs,
}

impl Args {
    pub(super) fn run(self) -> Outcome {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .context("the clock is before 1970")?;
        let life = Duration::from_hours(24) * self.valid_days;
        let (authority, origin) = authority(&self.dir, now, life)?;
        let mut subject = Subject {
            dns_names: self.dns_names,
            addresses: self.addresses,
        };
        if subject.dns_names.is_empty() && subject.addresses.is_empty() {
            subject
                .dns_names
                .push("mds-webhook.mds-system.svc".to_owned());
        }
        let pair = authority.issue(&subject, now, life)?;
        write(&self.dir, now, &authority, &pair)
            .with_context(|| format!("cannot write to {}", self.dir.display()))?;
        println!(
            "{}: tls.crt is valid for {} days, {origin}",
            self.dir.display(),
            self.valid_days
        );

        if self.secret.is_some() || self.patch_webhooks {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let client = self.cluster.client().await?;
                if let Some(secret) = &self.secret {
                    publish::secret(client.clone(), secret, authority.certificate(), &pair).await?;
                    println!("stored as Secret {secret}");
                }
                if self.patch_webhooks {
                    for line in
                        publish::webhooks(client, &self.webhooks, authority.certificate(), now)
                            .await?
                    {
                        println!("{line}");
                    }
                }
                anyhow::Ok(())
            })?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The stored authority, unless it is not there or ends too soon.
fn authority(
    dir: &Path,
    now: Duration,
    life: Duration,
) -> anyhow::Result<(Authority, &'static str)> {
    let (certificate, key) = (dir.join("ca.crt"), dir.join("ca.key"));
    let certificate = match fs::read(&certificate) {
        Ok(bytes) => CertificatePem(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Authority::generate(now)?, "signed by a new authority"));
        }
        Err(error) => bail!("cannot read {}: {error}", certificate.display()),
    };
    let key = fs::read(&key).with_context(|| {
        format!(
            "{} is there, its key {} is not readable: add it, or use another --dir",
            dir.join("ca.crt").display(),
            key.display()
        )
    })?;
    let stored = Authority::restore(certificate, &KeyPem(key))?;
    if stored.expires() < now + life {
        return Ok((
            Authority::generate(now)?,
            "signed by a new authority: the old one expires too soon",
        ));
    }
    Ok((stored, "signed by the authority that was there"))
}

fn write(dir: &Path, now: Duration, authority: &Authority, pair: &Pair) -> io::Result<()> {
    let file = |name, content, readers| File {
        name,
        content,
        readers,
    };
    let authority_key = authority.key();
    let files = [
        file("ca.crt", &authority.certificate().0, Readers::All),
        file("ca.key", &authority_key.0, Readers::Owner),
        file("tls.crt", &pair.certificate().0, Readers::All),
        file("tls.key", &pair.key().0, Readers::Owner),
    ];
    revision::write(dir, now.as_nanos(), &files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tls::authority::AUTHORITY_LIFE;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn an_authority_that_would_end_before_its_leaf_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let now = Duration::from_hours(500_000);
        let life = DAY * 90;
        let (first, _) = authority(home.path(), now, life).unwrap();
        let subject = Subject {
            dns_names: vec!["a".to_owned()],
            addresses: Vec::new(),
        };
        let pair = first.issue(&subject, now, life).unwrap();
        write(home.path(), now, &first, &pair).unwrap();

        let last = (now + AUTHORITY_LIFE).checked_sub(life).unwrap();
        let (kept, _) = authority(home.path(), last, life).unwrap();
        assert_eq!(kept.certificate(), first.certificate());
        let (replaced, origin) = authority(home.path(), last + DAY, life).unwrap();
        assert_ne!(replaced.certificate(), first.certificate());
        assert_eq!(
            origin,
            "signed by a new authority: the old one expires too soon"
        );
    }

    #[test]
    fn an_authority_without_its_key_is_not_replaced_in_silence() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("ca.crt"), "x").unwrap();
        let refused = authority(home.path(), DAY, DAY).err().unwrap().to_string();
        assert!(
            refused.contains("ca.key is not readable: add it, or use another --dir"),
            "{refused}"
        );
    }
}
