//! Caches for warnings: which scalers name a target, and how a target is bound.
//!
//! They may be stale and never decide a verdict. What is kept of an object is a name and a string: a cluster with 10,000
//! targets costs a few megabytes.

use super::discovery::{Discovery, GROUP, Kind, Served};
use futures::{Stream, StreamExt};
use kube::api::ApiResource;
use kube::core::metadata::PartialObjectMeta;
use kube::core::{DynamicObject, NamespaceResourceScope, ObjectMeta, Resource};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_kind};
use kube::{Api, Client};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The annotation that binds a target to a scaler.
const BINDING: &str = "modeldeployment.gpustack.ai/scaler-binding";

/// Objects a page of a first list. A scaler's status may have 400 KiB, and a page is held whole while it is read.
const PAGE: u32 = 50;

/// Both caches.
#[derive(Debug, Default)]
pub struct Hints {
    /// Scaler to the name of its target.
    scalers: Index,
    /// Target to its binding annotation, for those that have one.
    targets: Index,
}

/// Namespace, then name, to one string.
#[derive(Debug, Default)]
struct Index {
    entries: RwLock<Entries>,
    /// The first list is complete, or there was nothing to list. Once true it stays: a later restart of the watch makes
    /// hints staler, not the server unready.
    listed: AtomicBool,
}

type Entries = HashMap<String, HashMap<String, String>>;

impl Hints {
    /// The scalers in `namespace` that name `target`, sorted.
    pub fn scalers_of(&self, namespace: &str, target: &str) -> Vec<String> {
        let entries = self
            .scalers
            .entries
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = entries
            .get(namespace)
            .into_iter()
            .flatten()
            .filter(|(_, named)| *named == target)
            .map(|(name, _)| name.clone())
            .collect();
        names.sort_unstable();
        names
    }

    /// The binding annotation of a target.
    pub fn binding(&self, namespace: &str, target: &str) -> Option<String> {
        let entries = self
            .targets
            .entries
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        entries.get(namespace)?.get(target).cloned()
    }

    /// What is missing before the caches have been filled once.
    pub fn missing(&self, targets: &Discovery, scalers: &Discovery) -> Result<(), String> {
        for (index, discovery) in [(&self.scalers, scalers), (&self.targets, targets)] {
            if !index.listed.load(Ordering::Acquire) {
                return Err(match &*discovery.subscribe().borrow() {
                    Served::Unknown(error) => {
                        format!("discovery of {}: {error}", discovery.kind().plural)
                    }
                    _ => format!(
                        "the first list of {} is not complete",
                        discovery.kind().plural
                    ),
                });
            }
        }
        Ok(())
    }

    /// Follows the scalers, for ever.
    pub async fn follow_scalers(self: Arc<Self>, client: Client, discovery: Arc<Discovery>) {
        let open = |version| {
            let api =
                Api::<NamedTarget>::all_with(client.clone(), &resource(discovery.kind(), version));
            watch_kind(api, watcher::Config::default().page_size(PAGE)).default_backoff()
        };
        let value = |scaler: &NamedTarget| Some(scaler.spec.target_ref.name.clone());
        self.scalers.follow(&discovery, open, value).await;
    }

    /// Follows the targets' metadata, for ever.
    pub async fn follow_targets(self: Arc<Self>, client: Client, discovery: Arc<Discovery>) {
        let open = |version| {
            let resource = resource(discovery.kind(), version);
            let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), &resource);
            watch_kind(api, watcher::Config::default().page_size(PAGE)).default_backoff()
        };
        let value = |target: &PartialObjectMeta<DynamicObject>| {
            target.metadata.annotations.as_ref()?.get(BINDING).cloned()
        };
        self.targets.follow(&discovery, open, value).await;
    }
}

impl Index {
    async fn follow<K, S>(
        &self,
        discovery: &Discovery,
        open: impl Fn(&'static str) -> S,
        value: impl Fn(&K) -> Option<String>,
    ) where
        K: Resource,
        S: Stream<Item = watcher::Result<Event<K>>>,
    {
        let mut served = discovery.subscribe();
        loop {
            let now = served.borrow_and_update().clone();
            let changed = match now {
                Served::In(version) => tokio::select! {
                    changed = served.changed() => changed,
                    () = self.fill(discovery.kind(), open(version), &value) => Ok(()),
                },
                Served::No => {
                    *self.entries.write().unwrap_or_else(PoisonError::into_inner) = Entries::new();
                    self.listed.store(true, Ordering::Release);
                    served.changed().await
                }
                Served::Unknown(_) => served.changed().await,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    async fn fill<K: Resource>(
        &self,
        kind: &Kind,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
        value: &impl Fn(&K) -> Option<String>,
    ) {
        let mut events = pin!(events);
        let mut listing = Entries::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listing = Entries::new(),
                Ok(Event::InitApply(object)) => put(&mut listing, &object, value(&object)),
                Ok(Event::InitDone) => {
                    let listed = std::mem::take(&mut listing);
                    *self.entries.write().unwrap_or_else(PoisonError::into_inner) = listed;
                    self.listed.store(true, Ordering::Release);
                }
                Ok(Event::Apply(object)) => {
                    let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
                    put(&mut entries, &object, value(&object));
                }
                Ok(Event::Delete(object)) => {
                    let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
                    put(&mut entries, &object, None);
                }
                Err(error) => {
                    tracing::warn!(%error, kind = kind.name, "the watch for hints failed, it is tried again");
                }
            }
        }
    }
}

/// Enters, changes or removes one object.
fn put<K: Resource>(entries: &mut Entries, object: &K, value: Option<String>) {
    let meta = object.meta();
    let (Some(namespace), Some(name)) = (meta.namespace.as_deref(), meta.name.as_deref()) else {
        return;
    };
    match value {
        Some(value) => {
            entries
                .entry(namespace.to_owned())
                .or_default()
                .insert(name.to_owned(), value);
        }
        None => {
            if let Some(names) = entries.get_mut(namespace) {
                names.remove(name);
                if names.is_empty() {
                    entries.remove(namespace);
                }
            }
        }
    }
}

fn resource(kind: &Kind, version: &str) -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: version.to_owned(),
        api_version: format!("{GROUP}/{version}"),
        kind: kind.name.to_owned(),
        plural: kind.plural.to_owned(),
    }
}

/// A scaler, as far as its target's name.
#[derive(Clone, Debug, Deserialize)]
struct NamedTarget {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: NamedTargetSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NamedTargetSpec {
    target_ref: TargetRef,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TargetRef {
    name: String,
}

impl Resource for NamedTarget {
    type DynamicType = ApiResource;
    type Scope = NamespaceResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.kind)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.group)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.version)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
