//! Certificates and keys of one control plane, random for each.

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// An authority that signs servers and clients.
#[derive(Debug)]
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
#[derive(Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// Makes one.
    pub fn generate() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("sandbox authority", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// Its certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for a loopback server; it may be a client as well, as etcd's members are to each other.
    pub fn server(&self) -> anyhow::Result<Pair> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params
            .subject_alt_names
            .push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params.distinguished_name = name("sandbox server", &[]);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.sign(params)
    }

    /// A certificate for a client: Kubernetes reads the user from the common name and the groups from the organisations.
    pub fn client(&self, user: &str, groups: &[&str]) -> anyhow::Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> anyhow::Result<Pair> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok(Pair {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl Pair {
    /// Writes `NAME.crt` and `NAME.key` into a directory.
    pub fn write(&self, dir: &Path, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
        let (certificate, key) = (
            dir.join(format!("{name}.crt")),
            dir.join(format!("{name}.key")),
        );
        fs::write(&certificate, &self.certificate)
            .with_context(|| format!("cannot write {}", certificate.display()))?;
        write_private(&key, &self.key)?;
        Ok((certificate, key))
    }
}

/// Writes a key that signs service account tokens, and its public half: `tokens.key`, `tokens.pub`.
pub fn write_token_key(dir: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let key = KeyPair::generate()?;
    let (private, public) = (dir.join("tokens.key"), dir.join("tokens.pub"));
    write_private(&private, &key.serialize_pem())?;
    fs::write(&public, key.public_key_pem())
        .with_context(|| format!("cannot write {}", public.display()))?;
    Ok((private, public))
}

/// Writes a file that only its owner reads.
pub fn write_private(path: &Path, content: &str) -> anyhow::Result<()> {
    fs::write(path, "")
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o600)))
        .and_then(|()| fs::write(path, content))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn name(common: &str, organisations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for organisation in organisations {
        name.push(DnType::OrganizationName, *organisation);
    }
    name.push(DnType::CommonName, common);
    name
}
