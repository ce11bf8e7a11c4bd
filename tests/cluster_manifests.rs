//! The manifests, shown to a real API server: applied by server-side apply and read back, within their own rights, and
//! with the match conditions tried out against webhooks that do not answer.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a cluster that does not answer fails the test"
)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use kube::{
    Client, ResourceExt,
    api::{Api, DynamicObject, Patch, PatchParams, PostParams},
    core::{ErrorResponse, GroupVersionKind},
    discovery::{ApiResource, Scope, pinned_kind},
};
use serde_json::{Value, json};

const MANAGER: &str = "cluster-manifests-test";
