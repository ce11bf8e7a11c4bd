//! A local authority, for where there is no cert-manager: it signs serving certificates and nothing else.

use super::expiry::not_after;
use super::pair::{CertificatePem, KeyPem, Pair, PairError};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;

/// The subject of every authority made here. The issuer of a leaf must be spelled the same, so it never changes.
const SUBJECT: &str = "mds local authority";

/// How long an authority lasts: ten years.
pub const AUTHORITY_LIFE: Duration = Duration::from_hours(3652 * 24);

/// Clocks differ: a new certificate is valid a little before it was made.
const CLOCK_SKEW: Duration = Duration::from_mins(5);

/// What a serving certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// DNS names, such as `mds-webhook.mds-system.svc`.
    pub dns_names: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
}

/// Why no certificate was made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A name is no DNS name, or a key cannot be made or read.
    #[error("{0}")]
    Generate(#[from] rcgen::Error),
    /// Neither a name nor an address was given.
    #[error("a serving certificate needs a DNS name or an address")]
    NoSubject,
    /// The stored authority is unusable.
    #[error("the authority in ca.crt and ca.key cannot be used: {0}")]
    Stored(#[source] PairError),
    /// The stored authority is unreadable.
    #[error("ca.crt holds no certificate with a date")]
    NoDate,
    /// The stored key is no text.
    #[error("ca.key is not PEM")]
    KeyEncoding,
}

/// An authority: a certificate that signs others, and its key.
pub struct Authority {
    certificate: CertificatePem,
    expires: Duration,
    key: KeyPair,
}

impl Authority {
    /// Makes a new one at `now`, which is the time since 1970.
    pub fn generate(now: Duration) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let expires = now + AUTHORITY_LIFE;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        valid(&mut params, now.saturating_sub(CLOCK_SKEW), expires);
        let certificate = CertificatePem(params.self_signed(&key)?.pem().into_bytes());
        Ok(Self {
            certificate,
            expires,
            key,
        })
    }

    /// Takes up a stored one.
    pub fn restore(certificate: CertificatePem, key: &KeyPem) -> Result<Self, AuthorityError> {
        Pair::new(certificate.clone(), key.clone())
            .certified()
            .map_err(AuthorityError::Stored)?;
        let der = CertificateDer::from_pem_slice(&certificate.0)
            .map_err(|error| AuthorityError::Stored(PairError::Certificate(error)))?;
        let expires = not_after(&der)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .ok_or(AuthorityError::NoDate)?;
        let key = std::str::from_utf8(&key.0).map_err(|_| AuthorityError::KeyEncoding)?;
        Ok(Self {
            certificate,
            expires: Duration::from_secs(expires),
            key: KeyPair::from_pem(key)?,
        })
    }

    /// The certificate that clients trust.
    pub fn certificate(&self) -> &CertificatePem {
        &self.certificate
    }

    /// The key, to be stored where only its owner reads.
    pub fn key(&self) -> KeyPem {
        KeyPem(self.key.serialize_pem().into_bytes())
    }

    /// Until when it signs, as time since 1970.
    pub fn expires(&self) -> Duration {
        self.expires
    }

    /// Makes a serving certificate with a key of its own, valid from `now` for `life`.
    pub fn issue(
        &self,
        subject: &Subject,
        now: Duration,
        life: Duration,
    ) -> Result<Pair, AuthorityError> {
        let mut params = CertificateParams::new(subject.dns_names.clone())?;
        params
            .subject_alt_names
            .extend(subject.addresses.iter().copied().map(SanType::IpAddress));
        if params.subject_alt_names.is_empty() {
            return Err(AuthorityError::NoSubject);
        }
        // Clients look at the alternative names only; the common name may be absent.
        params.distinguished_name = DistinguishedName::new();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, now.saturating_sub(CLOCK_SKEW), now + life);
        let key = KeyPair::generate()?;
        let issuer = issuer(&self.key);
        let leaf = params.signed_by(&key, &issuer)?;
        Ok(Pair::new(
            CertificatePem(leaf.pem().into_bytes()),
            KeyPem(key.serialize_pem().into_bytes()),
        ))
    }
}

fn issuer(key: &KeyPair) -> Issuer<'static, &KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject();
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Issuer::new(params, key)
}

fn subject() -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, SUBJECT);
    name
}

/// Both times since 1970.
fn valid(params: &mut CertificateParams, from: Duration, until: Duration) {
    params.not_before = date_time_ymd(1970, 1, 1) + from;
    params.not_after = date_time_ymd(1970, 1, 1) + until;
}
