//! What the verdicts read of a scaler, borrowed from its JSON.

use std::borrow::Cow;

use super::review::View;
use super::scan::{Scan, ScanError, once};
use crate::api::scaler::FINALIZER;

/// A scaler, as far as admission looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScalerView<'a> {
    /// UID; empty for one that is about to be made.
    pub(crate) uid: Cow<'a, str>,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
    /// Whether it carries the release finalizer.
    pub(crate) finalizer: bool,
    /// Its spec as JSON; empty where there is none.
    pub(crate) spec: &'a str,
    /// Its status as JSON; empty where there is none.
    pub(crate) status: &'a str,
}

impl<'a> View<'a> for ScalerView<'a> {
    fn read(scan: &mut Scan<'a>) -> Result<Self, ScanError> {
        let (mut metadata, mut spec, mut status) = (None, None, None);
        scan.object(|key, scan| match key {
            "metadata" => once(&mut metadata, "metadata", Meta::read(scan)?),
            "spec" => once(&mut spec, "spec", scan.raw()?),
            "status" => once(&mut status, "status", scan.raw()?),
            _ => scan.skip(),
        })?;
        let Meta {
            uid,
            deleting,
            finalizer,
        } = metadata.unwrap_or_default();
        Ok(Self {
            uid,
            deleting,
            finalizer,
            spec: spec.unwrap_or_default(),
            status: status.unwrap_or_default(),
        })
    }
}

#[derive(Default)]
struct Meta<'a> {
    uid: Cow<'a, str>,
    deleting: bool,
    finalizer: bool,
}

impl<'a> Meta<'a> {
    fn read(scan: &mut Scan<'a>) -> Result<Self, ScanError> {
        let (mut uid, mut deletion, mut finalizers) = (None, None, None);
        if scan.peek()? != b'{' {
            scan.skip()?;
            return Ok(Self::default());
        }
        scan.object(|key, scan| match key {
            "uid" => once(&mut uid, "metadata.uid", scan.text("metadata.uid")?),
            "deletionTimestamp" => {
                let text = scan.text("metadata.deletionTimestamp")?;
                once(&mut deletion, "metadata.deletionTimestamp", text.is_some())
            }
            "finalizers" => once(&mut finalizers, "metadata.finalizers", {
                let mut found = false;
                if scan.peek()? == b'[' {
                    scan.array(|scan| {
                        found |= scan.text("metadata.finalizers")?.as_deref() == Some(FINALIZER);
                        Ok(())
                    })?;
                } else {
                    scan.skip()?;
                }
                found
            }),
            _ => scan.skip(),
        })?;
        Ok(Self {
            uid: uid.flatten().unwrap_or_default(),
            deleting: deletion.unwrap_or_default(),
            finalizer: finalizers.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ScalerView<'_>, ScanError> {
        ScalerView::read(&mut Scan::new(text))
    }

    #[test]
    fn a_scaler_is_read_as_far_as_needed() {
        let text = r#"{"metadata":{"labels":{"uid":"no"},"finalizers":["a","worker.gpustack.ai/scaler-release"],"uid":"u",
            "deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"a":1},"status":{"b":2}}"#;
        assert_eq!(
            read(text).unwrap(),
            ScalerView {
                uid: "u".into(),
                deleting: true,
                finalizer: true,
                spec: "{\"a\":1}",
                status: "{\"b\":2}",
            }
        );
        let bare = read(r#"{"metadata":{"deletionTimestamp":null,"finalizers":null}}"#);
        assert_eq!(bare, Ok(ScalerView::default()));
        assert_eq!(read("{}"), Ok(ScalerView::default()));
        assert_eq!(
            read(r#"{"spec":{},"spec":{}}"#),
            Err(ScanError::Duplicate("spec"))
        );
    }
}
