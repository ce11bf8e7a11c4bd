//! Which engines are of which role.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};

use super::Role;
use super::report::{self, Trouble};
use crate::api::{Deployment, Replicas, RoleKind};
use crate::signal::role::Roster;
use crate::signal::scrape::Endpoint;

/// The name of the one role that is assumed where none is named.
const ASSUMED: &str = "server";

/// `[ROLE=]URL`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UrlFlag {
    role: Option<String>,
    endpoint: Endpoint,
}

impl FromStr for UrlFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A URL may have an equals sign of its own, behind its scheme.
        let (role, url) = match text.split_once('=') {
            Some((role, url)) if !role.contains(':') => (Some(role), url),
            _ => (None, text),
        };
        if role == Some("") {
            return Err("the role before = must have a name".to_owned());
        }
        let endpoint = url
            .parse()
            .map_err(|error: crate::signal::scrape::EndpointError| error.to_string())?;
        Ok(Self {
            role: role.map(str::to_owned),
            endpoint,
        })
    }
}

/// `NAME[:KIND][=CURRENT]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RoleFlag {
    name: String,
    kind: RoleKind,
    current: Option<Replicas>,
}

impl FromStr for RoleFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, current) = match text.split_once('=') {
            Some((rest, count)) => {
                let count = count
                    .parse()
                    .ok()
                    .and_then(|count: u16| Replicas::try_from(i64::from(count)).ok());
                (
                    rest,
                    Some(count.ok_or("the count after = must be from 1 to 1024")?),
                )
            }
            None => (text, None),
        };
        let (name, kind) = rest.split_once(':').unwrap_or((rest, "Server"));
        if name.is_empty() {
            return Err("the role must have a name".to_owned());
        }
        let kind = RoleKind::parse(kind)
            .ok_or("the kind after : must be Server, Prefill, Decode or Encode")?;
        Ok(Self {
            name: name.to_owned(),
            kind,
            current,
        })
    }
}

/// The roles of the ModelDeployment in a file.
pub(super) fn deployed(path: &Path) -> anyhow::Result<Vec<RoleFlag>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("--deployment {}", path.display()))?;
    let deployment: Deployment = serde_saphyr::from_str(&text)
        .with_context(|| format!("--deployment {}", path.display()))?;
    deployment
        .spec
        .roles
        .iter()
        .map(|role| {
            let kind = role.role_kind().with_context(|| {
                let kind = role.kind.as_deref().unwrap_or_default();
                format!(
                    "--deployment {}: role {}: kind {kind:?} is not known",
                    path.display(),
                    role.name
                )
            })?;
            Ok(RoleFlag {
                name: role.name.clone(),
                kind,
                current: role.replicas,
            })
        })
        .collect()
}

/// A role that is observed.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    kind: RoleKind,
    /// The count on the target, where it was told.
    current: Option<Replicas>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) role: Role,
}

impl Subject {
    /// What a pass makes of it.
    pub(super) fn report(
        &self,
        ready: u32,
        interval: Duration,
        now: Duration,
        troubles: Vec<Trouble>,
    ) -> report::Role {
        let uids: Vec<String> = self.endpoints.iter().map(Endpoint::to_string).collect();
        let expected: Vec<&str> = uids.iter().map(String::as_str).collect();
        let roster = Roster {
            kind: self.kind,
            ready,
            expected: &expected,
            interval,
        };
        report::Role {
            name: self.name.clone(),
            kind: self.kind,
            current: self
                .current
                .map_or(u64::try_from(uids.len()).unwrap_or(u64::MAX), |count| {
                    u64::from(count.get())
                }),
            seen: self.role.observe(&roster, now),
            troubles,
            advice: None,
        }
    }
}

/// Puts URLs and roles together.
pub(super) fn subjects(urls: &[UrlFlag], roles: Vec<RoleFlag>) -> anyhow::Result<Vec<Subject>> {
    let mut subjects: Vec<Subject> = Vec::with_capacity(roles.len());
    for RoleFlag {
        name,
        kind,
        current,
    } in roles
    {
        if subjects.iter().any(|known| known.name == name) {
            bail!("--role {name}: given twice");
        }
        subjects.push(Subject {
            name,
            kind,
            current,
            endpoints: Vec::new(),
            role: Role::default(),
        });
    }
    let told = !subjects.is_empty();
    for (place, UrlFlag { role, endpoint }) in urls.iter().enumerate() {
        if urls
            .iter()
            .take(place)
            .any(|earlier| earlier.endpoint == *endpoint)
        {
            bail!("--url {endpoint}: given twice");
        }
        let name = match (role, subjects.as_slice()) {
            (Some(name), _) => name.clone(),
            (None, [only]) => only.name.clone(),
            (None, []) => ASSUMED.to_owned(),
            (None, _) => {
                bail!("--url {endpoint}: there are several roles, write --url ROLE={endpoint}")
            }
        };
        let known = subjects.iter().position(|subject| subject.name == name);
        if known.is_none() && told {
            let names: Vec<&str> = subjects
                .iter()
                .map(|subject| subject.name.as_str())
                .collect();
            bail!(
                "--url {name}={endpoint}: there is no role {name:?}, only {}",
                names.join(", ")
            );
        }
        let known = known.unwrap_or_else(|| {
            subjects.push(Subject {
                name,
                kind: RoleKind::Server,
                current: None,
                endpoints: Vec::new(),
                role: Role::default(),
            });
            subjects.len() - 1
        });
        if let Some(subject) = subjects.get_mut(known) {
            subject.endpoints.push(endpoint.clone());
        }
    }
    if let Some(empty) = subjects.iter().find(|subject| subject.endpoints.is_empty()) {
        bail!(
            "role {}: no engine, write --url {}=URL",
            empty.name,
            empty.name
        );
    }
    Ok(subjects)
}
