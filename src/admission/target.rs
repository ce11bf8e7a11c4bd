//! What the verdicts read of a ModelDeployment, borrowed from its JSON; the rest, most of it, is passed over.

use std::borrow::Cow;

use super::review::View;
use super::scan::{Scan, ScanError, once};
use crate::api::{BINDING_ANNOTATION, DECISION_ANNOTATION, Replicas, RoleKind};
use crate::policy::{TargetRole, TargetShape};

/// A ModelDeployment, as far as admission looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeploymentView<'a> {
    /// UID; empty for one that is about to be made.
    pub(crate) uid: Cow<'a, str>,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
    /// The binding annotation.
    pub(crate) binding: Option<Cow<'a, str>>,
    /// The decision annotation.
    pub(crate) decision: Option<Cow<'a, str>>,
    /// Its roles, in their order.
    pub(crate) roles: Vec<RoleView<'a>>,
}

/// A role, as far as admission looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoleView<'a> {
    /// Name.
    pub(crate) name: Cow<'a, str>,
    /// What its replicas do; absent means Server.
    pub(crate) kind: Option<Cow<'a, str>>,
    /// Its count as written; absent means one.
    pub(crate) replicas: Option<i64>,
    /// Pods of one instance; absent means one.
    pub(crate) size: Option<i64>,
    /// Whether it has a command of its own.
    pub(crate) command: bool,
    /// Whether it is one elastic collective.
    pub(crate) elastic: bool,
    /// Name of the pool that its Pods run in.
    pub(crate) instance_type: Option<Cow<'a, str>>,
}

/// What a deployment of this name, as JSON, is to a scaler.
///
/// # Errors
/// Bytes that are no JSON object, and roles of the wrong type.
pub(crate) fn target_of(body: &[u8], name: &str) -> Result<TargetShape, ScanError> {
    DeploymentView::of_bytes(body).map(|view| view.shape(name))
}

impl<'a> View<'a> for DeploymentView<'a> {
    fn read(scan: &mut Scan<'a>) -> Result<Self, ScanError> {
        let mut view = Self::default();
        let (mut metadata, mut spec) = (None, None);
        scan.object(|key, scan| match key {
            "metadata" => once(&mut metadata, "metadata", view.read_metadata(scan)?),
            "spec" => once(&mut spec, "spec", view.read_spec(scan)?),
            _ => scan.skip(),
        })?;
        Ok(view)
    }
}

impl<'a> DeploymentView<'a> {
    /// Reads a deployment that was read live.
    pub(crate) fn of_bytes(body: &'a [u8]) -> Result<Self, ScanError> {
        let mut scan = Scan::of_bytes(body)?;
        let view = Self::read(&mut scan)?;
        scan.end().map(|()| view)
    }

    /// What a scaler's spec is judged against.
    pub(crate) fn shape(&self, name: &str) -> TargetShape {
        TargetShape {
            name: name.to_owned(),
            roles: self
                .roles
                .iter()
                .map(|role| TargetRole {
                    name: role.name.to_string(),
                    kind: role
                        .kind
                        .as_deref()
                        .map_or(Some(RoleKind::Server), RoleKind::parse),
                    size: role
                        .size
                        .and_then(|size| u32::try_from(size).ok())
                        .unwrap_or(1),
                    count: Replicas::saturating(role.replicas.unwrap_or(1)),
                    command: role.command,
                    elastic: role.elastic,
                    instance_type: role.instance_type.as_deref().map(str::to_owned),
                })
                .collect(),
        }
    }

    fn read_metadata(&mut self, scan: &mut Scan<'a>) -> Result<(), ScanError> {
        let (mut uid, mut deletion, mut annotations) = (None, None, None);
        scan.object(|key, scan| match key {
            "uid" => once(&mut uid, "metadata.uid", scan.text("metadata.uid")?),
            "deletionTimestamp" => {
                let text = scan.text("metadata.deletionTimestamp")?;
                once(&mut deletion, "metadata.deletionTimestamp", text.is_some())
            }
            "annotations" if scan.peek()? == b'{' => once(
                &mut annotations,
                "metadata.annotations",
                self.read_annotations(scan)?,
            ),
            _ => scan.skip(),
        })?;
        self.uid = uid.flatten().unwrap_or_default();
        self.deleting = deletion.unwrap_or_default();
        Ok(())
    }

    fn read_annotations(&mut self, scan: &mut Scan<'a>) -> Result<(), ScanError> {
        scan.object(|key, scan| {
            let (place, what) = match key {
                BINDING_ANNOTATION => (&mut self.binding, BINDING_ANNOTATION),
                DECISION_ANNOTATION => (&mut self.decision, DECISION_ANNOTATION),
                _ => return scan.skip(),
            };
            match scan.text(what)? {
                Some(text) => once(place, what, text),
                None => Ok(()),
            }
        })
    }

    fn read_spec(&mut self, scan: &mut Scan<'a>) -> Result<(), ScanError> {
        let mut seen = None;
        scan.object(|key, scan| match key {
            "roles" if scan.peek()? == b'[' => {
                once(&mut seen, "spec.roles", ())?;
                scan.array(|scan| {
                    self.roles.push(RoleView::read(scan)?);
                    Ok(())
                })
            }
            _ => scan.skip(),
        })
    }
}

impl<'a> RoleView<'a> {
    fn read(scan: &mut Scan<'a>) -> Result<Self, ScanError> {
        let mut role = Self::default();
        let mut name = None;
        scan.object(|key, scan| match key {
            "name" => once(
                &mut name,
                "spec.roles[].name",
                scan.text("spec.roles[].name")?,
            ),
            "kind" => text(&mut role.kind, "spec.roles[].kind", scan),
            "instanceType" => text(&mut role.instance_type, "spec.roles[].instanceType", scan),
            "replicas" => count(&mut role.replicas, "spec.roles[].replicas", scan),
            "size" => count(&mut role.size, "spec.roles[].size", scan),
            "command" => {
                if scan.peek()? == b'[' {
                    scan.array(|scan| {
                        role.command = true;
                        scan.skip()
                    })
                } else {
                    scan.skip()
                }
            }
            "elasticEp" => {
                role.elastic |= scan.raw()? != "null";
                Ok(())
            }
            _ => scan.skip(),
        })?;
        role.name = name.flatten().unwrap_or_default();
        Ok(role)
    }
}

fn text<'a>(
    place: &mut Option<Cow<'a, str>>,
    what: &'static str,
    scan: &mut Scan<'a>,
) -> Result<(), ScanError> {
    match scan.text(what)? {
        Some(text) => once(place, what, text),
        None => Ok(()),
    }
}

fn count(
    place: &mut Option<i64>,
    what: &'static str,
    scan: &mut Scan<'_>,
) -> Result<(), ScanError> {
    match scan.raw()? {
        "null" => Ok(()),
        number => once(
            place,
            what,
            number.parse().map_err(|_| ScanError::Type(what))?,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<DeploymentView<'_>, ScanError> {
        DeploymentView::read(&mut Scan::new(text))
    }

    #[test]
    fn a_deployment_is_read_as_far_as_needed() {
        let text = r#"{"status":{"roles":[{"name":"no"}]},"metadata":{"managedFields":[{"annotations":{}}],"uid":"u",
            "annotations":{"a":"b","modeldeployment.gpustack.ai/scaler-binding":"{\"scalerName\":\"s\"}"},"deletionTimestamp":null},
            "spec":{"model":{"roles":[]},"roles":[{"name":"a","env":[{"name":"x","replicas":7}],"replicas":3,"kind":"prefill","size":2},
            {"command":["run"],"elasticEp":{"width":2},"instanceType":"pool","name":"b"},{"name":"c","command":[],"elasticEp":null,"replicas":null}]}}"#;
        let view = read(text).unwrap();
        assert_eq!(view.uid, "u");
        assert!(!view.deleting);
        assert_eq!(view.binding.as_deref(), Some("{\"scalerName\":\"s\"}"));
        assert_eq!(view.decision, None);
        let bare = RoleView::default();
        assert_eq!(
            view.roles,
            [
                RoleView {
                    name: "a".into(),
                    kind: Some("prefill".into()),
                    replicas: Some(3),
                    size: Some(2),
                    ..bare.clone()
                },
                RoleView {
                    name: "b".into(),
                    command: true,
                    elastic: true,
                    instance_type: Some("pool".into()),
                    ..bare.clone()
                },
                RoleView {
                    name: "c".into(),
                    ..bare
                },
            ]
        );
    }

    #[test]
    fn what_a_rule_reads_must_be_of_its_type_and_there_once() {
        for (text, error) in [
            (
                r#"{"spec":{"roles":[{"name":"a","replicas":"2"}]}}"#,
                ScanError::Type("spec.roles[].replicas"),
            ),
            (
                r#"{"spec":{"roles":[{"name":"a","replicas":2.5}]}}"#,
                ScanError::Type("spec.roles[].replicas"),
            ),
            (
                r#"{"spec":{"roles":[{"name":"a","replicas":2,"replicas":3}]}}"#,
                ScanError::Duplicate("spec.roles[].replicas"),
            ),
            (
                r#"{"spec":{"roles":[],"roles":[]}}"#,
                ScanError::Duplicate("spec.roles"),
            ),
            (
                r#"{"metadata":{"annotations":{"modeldeployment.gpustack.ai/scaler-binding":"a","modeldeployment.gpustack.ai/scaler-binding":"b"}}}"#,
                ScanError::Duplicate(BINDING_ANNOTATION),
            ),
            (
                r#"{"metadata":{"annotations":{"modeldeployment.gpustack.ai/scaler-decision":5}}}"#,
                ScanError::Type(DECISION_ANNOTATION),
            ),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
    }
}
