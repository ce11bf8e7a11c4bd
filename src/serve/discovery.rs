//! Which version of a kind to use, learned from the API server's discovery.
//!
//! Each group version is asked for on its own: a broken one (an aggregated API whose server is down) must not hide the
//! others. Why not the preferred version, and which one for which kind: the constants say.

use super::sentence::sentence;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

/// The group of targets and scalers.
pub const GROUP: &str = "worker.gpustack.ai";

/// How long one version's list of resources may take.
const DEADLINE: Duration = Duration::from_secs(3);

/// How often discovery looks again.
const PERIOD: Duration = Duration::from_secs(30);

/// A look that says "not served" is not believed for longer than this by those who ask: a definition may just have come.
const FRESH: Duration = Duration::from_secs(2);

/// A kind and the versions to use it in, best first.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The kind's name.
    pub name: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// Best first.
    pub versions: [&'static str; 2],
}

/// `ModelDeployment`. Its `v1`, where there is one, may be an aggregated view whose writes arrive under another account.
pub const TARGET: Kind = Kind {
    name: "ModelDeployment",
    plural: "modeldeployments",
    versions: ["v1alpha1", "v1"],
};

/// `ModelDeploymentScaler`. Its `v1` is hidden where an aggregated API takes that group version.
pub const SCALER: Kind = Kind {
    name: "ModelDeploymentScaler",
    plural: "modeldeploymentscalers",
    versions: ["v1", "v1alpha1"],
};

/// Whether a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// Discovery has not said, and why not.
    Unknown(String),
    /// Not by this API server, now.
    No,
    /// In this version.
    In(&'static str),
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(error) => write!(f, "not known: {error}"),
            Self::No => f.write_str("not served"),
            Self::In(version) => f.write_str(version),
        }
    }
}

/// What the API server lists under one group version.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Listing {
    Resources(Vec<String>),
    Absent,
    Failed(String),
}

/// Looks for one kind, and keeps looking.
pub struct Discovery {
    client: Client,
    kind: &'static Kind,
    served: watch::Sender<Served>,
    /// When the last look ended. Held during a look, so that many who ask at once cause one.
    looked: Mutex<Option<Instant>>,
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discovery")
            .field("kind", &self.kind.name)
            .field("served", &*self.served.borrow())
            .finish_non_exhaustive()
    }
}

impl Discovery {
    /// For `kind`; looks when asked to.
    pub fn new(client: Client, kind: &'static Kind) -> Arc<Self> {
        let (served, _) =
            watch::channel(Served::Unknown("discovery has not answered yet".to_owned()));
        Arc::new(Self {
            client,
            kind,
            served,
            looked: Mutex::new(None),
        })
    }

    /// The kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// What is known now, and every change of it.
    pub fn subscribe(&self) -> watch::Receiver<Served> {
        self.served.subscribe()
    }

    /// What is known; "not served" is looked at again unless that was just now.
    pub async fn served(&self) -> Served {
        let known = self.served.borrow().clone();
        if matches!(known, Served::In(_)) {
            known
        } else {
            self.look(FRESH).await
        }
    }

    /// Looks, unless somebody did within `age`.
    pub async fn look(&self, age: Duration) -> Served {
        let mut looked = self.looked.lock().await;
        if looked.is_none_or(|at| at.elapsed() >= age) {
            let [first, second] = self.kind.versions;
            let (one, two) = tokio::join!(self.list(first), self.list(second));
            self.served.send_if_modified(|served| {
                let next = choose(self.kind, served, &[(first, one), (second, two)]);
                let changed = *served != next;
                if changed {
                    tracing::info!(kind = self.kind.name, version = %next, "discovery");
                    *served = next;
                }
                changed
            });
            *looked = Some(Instant::now());
        }
        self.served.borrow().clone()
    }

    /// Looks for ever: every 30 s, sooner while nothing is known.
    pub async fn keep_looking(self: Arc<Self>) {
        let mut pause = Duration::from_millis(100);
        loop {
            let served = self.look(Duration::ZERO).await;
            pause = match served {
                Served::Unknown(_) => (pause * 2).min(PERIOD),
                _ => PERIOD,
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn list(&self, version: &str) -> Listing {
        match timeout(DEADLINE, self.ask(version)).await {
            Ok(listing) => listing,
            Err(_) => Listing::Failed(format!(
                "{GROUP}/{version}: no answer within {} s",
                DEADLINE.as_secs()
            )),
        }
    }

    async fn ask(&self, version: &str) -> Listing {
        #[derive(Deserialize)]
        struct Resources {
            resources: Vec<Resource>,
        }
        #[derive(Deserialize)]
        struct Resource {
            name: String,
        }
        let failed =
            |what: &dyn fmt::Display| Listing::Failed(format!("{GROUP}/{version}: {what}"));
        let request = match Request::get(format!("/apis/{GROUP}/{version}")).body(Body::empty()) {
            Ok(request) => request,
            Err(error) => return failed(&error),
        };
        let response = match self.client.send(request).await {
            Ok(response) => response,
            Err(error) => return failed(&sentence(&error)),
        };
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Listing::Absent,
            status => return failed(&status),
        }
        let body = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return failed(&error),
        };
        match serde_json::from_slice::<Resources>(&body) {
            Ok(list) => Listing::Resources(
                list.resources
                    .into_iter()
                    .map(|resource| resource.name)
                    .collect(),
            ),
            Err(error) => failed(&error),
        }
    }
}

/// The best version that lists the kind. A version in use stays while its own listing fails: that it is gone is not known.
fn choose(kind: &Kind, before: &Served, listings: &[(&'static str, Listing)]) -> Served {
    let mut failure = None;
    for (version, listing) in listings {
        match listing {
            Listing::Resources(names) if names.iter().any(|name| name == kind.plural) => {
                return Served::In(version);
            }
            Listing::Resources(_) | Listing::Absent => {}
            Listing::Failed(_) if *before == Served::In(version) => return before.clone(),
            Listing::Failed(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Served::No, |error| Served::Unknown(error.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one version lists: the kinds, others only, nothing, or an error.
    #[derive(Clone, Copy)]
    enum V {
        Kinds,
        Others,
        Absent,
        Fails,
    }

    impl V {
        fn listing(self) -> Listing {
            let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
            match self {
                V::Kinds => Listing::Resources(names(&[TARGET.plural, SCALER.plural])),
                V::Others => Listing::Resources(names(&["modelroutes"])),
                V::Absent => Listing::Absent,
                V::Fails => Listing::Failed("503".to_owned()),
            }
        }
    }

    /// Each row: what was used before, what `v1` and `v1alpha1` list, and what is used then.
    fn check(kind: &Kind, rows: &[(Served, V, V, Served)]) {
        for (index, (before, v1, v1alpha1, after)) in rows.iter().enumerate() {
            let listings = kind.versions.map(|version| {
                let listed = if version == "v1" { v1 } else { v1alpha1 };
                (version, listed.listing())
            });
            assert_eq!(choose(kind, before, &listings), *after, "row {index}");
        }
    }

    const V1: Served = Served::In("v1");
    const ALPHA: Served = Served::In("v1alpha1");

    fn unknown() -> Served {
        Served::Unknown("503".to_owned())
    }

    #[test]
    fn the_target_is_v1alpha1_wherever_that_lists_it() {
        let rows = [
            (Served::No, V::Kinds, V::Kinds, ALPHA),
            (Served::No, V::Fails, V::Kinds, ALPHA),
            (V1, V::Kinds, V::Kinds, ALPHA),
            (Served::No, V::Kinds, V::Absent, V1),
            (Served::No, V::Kinds, V::Others, V1),
        ];
        check(&TARGET, &rows);
    }

    #[test]
    fn the_scaler_is_v1_where_that_lists_it_and_a_broken_v1_does_not_hide_v1alpha1() {
        let rows = [
            (Served::No, V::Kinds, V::Kinds, V1),
            (Served::No, V::Others, V::Kinds, ALPHA),
            (Served::No, V::Fails, V::Kinds, ALPHA),
        ];
        check(&SCALER, &rows);
    }

    #[test]
    fn not_served_is_said_only_when_nothing_failed() {
        let rows = [
            (Served::No, V::Absent, V::Absent, Served::No),
            (Served::No, V::Others, V::Others, Served::No),
            (Served::No, V::Absent, V::Fails, unknown()),
            (Served::No, V::Fails, V::Others, unknown()),
        ];
        check(&TARGET, &rows);
        check(&SCALER, &rows);
    }

    #[test]
    fn a_version_in_use_stays_while_its_listing_fails() {
        let rows = [
            (ALPHA, V::Kinds, V::Fails, ALPHA),
            (ALPHA, V::Fails, V::Fails, ALPHA),
            (ALPHA, V::Kinds, V::Absent, V1),
            (ALPHA, V::Absent, V::Absent, Served::No),
            (V1, V::Fails, V::Absent, V1),
        ];
        check(&TARGET, &rows);
    }
}
