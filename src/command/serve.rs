//! `mds serve`: the webhook server.

use super::Outcome;
use super::cluster::ClusterArgs;
use crate::admission::Operator;
use crate::serve::connection::Patience;
use crate::serve::deadline::go_duration;
use crate::serve::discovery::{Discovery, SCALER, TARGET};
use crate::serve::health::{Health, Readiness};
use crate::serve::hints::Hints;
use crate::serve::identity::Identity;
use crate::serve::judge::Judge;
use crate::serve::listener::{Drained, Open, Port, Transport};
use crate::serve::lookup::Cluster;
use crate::serve::metrics::{Exposition, Metrics};
use crate::serve::review::{Limits, Reviews};
use crate::serve::shutdown::Signals;
use crate::serve::tls::{Certificate, Directory};
use anyhow::Context;
use prometheus_client::registry::Registry;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tracing_subscriber::EnvFilter;

/// Connections of the health port: the kubelet, Prometheus, and somebody who looks.
const HEALTH_CONNECTIONS: usize = 64;

/// The client logs each failed call as an error, without saying which; this program says it better.
const DEFAULT_LOG: &str = "info,kube_client::client::builder=off";

/// The exit code of a stop that cut requests off.
const CUT_OFF: u8 = 3;

/// Runs the admission webhook server
///
/// Serves /mutate-scaler, /validate-scaler, /validate-scaler-status and /validate-deployment over TLS 1.2 and 1.3,
/// HTTP/1.1 and HTTP/2; and /livez, /readyz and /metrics over plain HTTP on a second port. It is ready once it has a
/// certificate, knows its own account, and has listed every kind that the cluster serves.
///
/// SIGTERM or SIGINT: /readyz fails at once; connections are accepted for --drain-delay more; then every request is
/// finished, for --drain-timeout at most. A second signal ends it at once.
///
/// Exit codes: 0 stopped with every request answered, 1 could not start, 2 wrong usage, 3 requests were cut off.
///
/// Durations are written as 500ms, 10s or 2m.
#[derive(Debug, clap::Args)]
#[expect(clippy::doc_markdown, reason = "a help text has no markup")]
pub(super) struct Args {
    /// Address of the webhook port
    #[arg(
        long,
        env = "MDS_LISTEN",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:9443"
    )]
    listen: SocketAddr,

    /// Address of the port for health and metrics, plain HTTP
    #[arg(
        long,
        env = "MDS_HEALTH_LISTEN",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    health_listen: SocketAddr,

    /// Directory with tls.crt and tls.key, PEM; a changed pair is taken up without a restart
    #[arg(
        long,
        env = "MDS_TLS_DIR",
        value_name = "DIR",
        default_value = "/etc/mds/tls"
    )]
    tls_dir: PathBuf,

    /// How often the directory is looked at, as a duration
    #[arg(long, env = "MDS_TLS_POLL", value_name = "DURATION", default_value = "5s", value_parser = some_duration)]
    tls_poll: Duration,

    /// Username of the account that mds itself writes with; without it, the API server is asked
    #[arg(long, env = "MDS_IDENTITY", value_name = "USERNAME")]
    identity: Option<String>,

    /// Largest body of a request, in bytes
    #[arg(long, env = "MDS_MAX_BODY", value_name = "BYTES", default_value_t = 8 << 20)]
    max_body: usize,

    /// Bytes of all bodies that are being decided; more are refused with 503
    #[arg(long, env = "MDS_MAX_BODIES", value_name = "BYTES", default_value_t = 64 << 20)]
    max_bodies: usize,

    /// Reviews that are being decided; more are refused with 503
    #[arg(
        long,
        env = "MDS_MAX_IN_FLIGHT",
        value_name = "COUNT",
        default_value_t = 256
    )]
    max_in_flight: usize,

    /// Connections of the webhook port; more wait
    #[arg(long, env = "MDS_MAX_CONNECTIONS", value_name = "COUNT", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_connections: u32,

    /// Longest TLS handshake, and longest wait for a first request after it, as a duration
    #[arg(long, env = "MDS_HANDSHAKE_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = some_duration)]
    handshake_timeout: Duration,

    /// How long a connection may be idle, as a duration; API servers leave after 90 s themselves
    #[arg(long, env = "MDS_IDLE_TIMEOUT", value_name = "DURATION", default_value = "100s", value_parser = some_duration)]
    idle_timeout: Duration,

    /// Age at which a connection is closed politely, as a duration; clients come back and spread over the replicas
    #[arg(long, env = "MDS_MAX_CONNECTION_AGE", value_name = "DURATION", default_value = "15m", value_parser = some_duration)]
    max_connection_age: Duration,

    /// How long connections are still accepted after SIGTERM, as a duration: endpoints are withdrawn meanwhile
    #[arg(long, env = "MDS_DRAIN_DELAY", value_name = "DURATION", default_value = "5s", value_parser = duration)]
    drain_delay: Duration,

    /// How long running requests may take after that, as a duration
    #[arg(long, env = "MDS_DRAIN_TIMEOUT", value_name = "DURATION", default_value = "15s", value_parser = duration)]
    drain_timeout: Duration,

    /// What is logged, as JSON lines on standard error: error, warn, info, debug, or a filter such as mds::serve=debug
    #[arg(long, env = "MDS_LOG", value_name = "FILTER", default_value = DEFAULT_LOG)]
    log: String,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// A duration as Go writes them.
fn duration(text: &str) -> Result<Duration, String> {
    go_duration(text).ok_or_else(|| "write a duration such as 500ms, 10s or 2m".to_owned())
}

/// One that something waits for again and again, or that a peer must be able to keep.
fn some_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        short if short < Duration::from_millis(10) => Err("write at least 10ms".to_owned()),
        long => Ok(long),
    }
}

impl Args {
    pub(super) fn run(self) -> Outcome {
        let filter = EnvFilter::try_new(&self.log).context("--log is no filter")?;
        tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
        // The place and the message, as one line like every other; the request's uid follows with the refusal.
        std::panic::set_hook(Box::new(
            |panic| tracing::error!(%panic, "a panic, which is a bug"),
        ));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let outcome = runtime.block_on(self.serve());
        // What still runs is background work without an end.
        runtime.shutdown_background();
        outcome
    }

    async fn serve(self) -> Outcome {
        let mut signals = Signals::catch().context("cannot catch signals")?;
        let webhook = bind("--listen", self.listen).await?;
        let health = bind("--health-listen", self.health_listen).await?;
        let client = self.cluster.client().await?;

        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let exposition = Exposition::new(registry);

        let certificate = Certificate::load(Directory::new(&self.tls_dir), metrics.clone());
        let identity = match &self.identity {
            Some(username) => Identity::known(Operator(username.clone())),
            None => Identity::default(),
        };
        let targets = Discovery::new(client.clone(), &TARGET);
        let scalers = Discovery::new(client.clone(), &SCALER);
        let hints = Arc::new(Hints::default());

        tokio::spawn(Arc::clone(&certificate).keep_fresh(self.tls_poll));
        tokio::spawn(identity.clone().learn(client.clone()));
        tokio::spawn(Arc::clone(&targets).keep_looking());
        tokio::spawn(Arc::clone(&scalers).keep_looking());
        tokio::spawn(Arc::clone(&hints).follow_targets(client.clone(), Arc::clone(&targets)));
        tokio::spawn(Arc::clone(&hints).follow_scalers(client.clone(), Arc::clone(&scalers)));

        let readiness = Arc::new(readiness(
            &certificate,
            &identity,
            &hints,
            &targets,
            &scalers,
        ));
        let patience = Patience {
            handshake: self.handshake_timeout,
            first_request: self.handshake_timeout,
            idle: self.idle_timeout,
            age: self.max_connection_age,
            farewell: self.drain_timeout,
        };
        let limits = Limits {
            body: self.max_body,
            bodies: self.max_bodies,
            in_flight: self.max_in_flight,
        };
        let cluster = Cluster::new(client, targets, scalers, hints);
        let reviews = Arc::new(Reviews::new(
            Judge::new(identity),
            cluster,
            limits,
            metrics.clone(),
        ));
        let transport = Transport::Tls(certificate.server_config().context("TLS")?, metrics);
        let health = health.open(
            Transport::Plain,
            Arc::new(Health::new(Arc::clone(&readiness), exposition)),
            Patience::default(),
            HEALTH_CONNECTIONS,
        );
        let webhook = webhook.open(
            transport,
            reviews,
            patience,
            usize::try_from(self.max_connections)?,
        );
        tracing::info!(webhook = %webhook.address(), health = %health.address(), version = env!("CARGO_PKG_VERSION"), "serving");

        let signal = signals.next().await;
        tracing::info!(signal, delay = ?self.drain_delay, "shutting down");
        readiness.drain();
        let stop = stop(webhook, self.drain_delay, self.drain_timeout);
        let drained = tokio::select! {
            drained = stop => drained,
            signal = signals.next() => {
                tracing::warn!(signal, "a second signal: the drain ends here");
                Drained::CutOff
            }
        };
        drop(health);
        tracing::info!(?drained, "stopped");
        Ok(match drained {
            Drained::All => ExitCode::SUCCESS,
            Drained::CutOff => ExitCode::from(CUT_OFF),
        })
    }
}

async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<Port> {
    Port::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} ({flag})"))
}

async fn stop(webhook: Open, delay: Duration, timeout: Duration) -> Drained {
    sleep(delay).await;
    webhook.drain(timeout).await
}

fn readiness(
    certificate: &Arc<Certificate>,
    identity: &Identity,
    hints: &Arc<Hints>,
    targets: &Arc<Discovery>,
    scalers: &Arc<Discovery>,
) -> Readiness {
    let certificate = Arc::clone(certificate);
    let identity = identity.clone();
    let (hints, targets, scalers) = (Arc::clone(hints), Arc::clone(targets), Arc::clone(scalers));
    Readiness::new()
        .when("certificate", move || {
            certificate
                .is_loaded()
                .then_some(())
                .ok_or_else(|| "no usable pair in --tls-dir, see the log".to_owned())
        })
        .when("identity", move || {
            identity
                .get()
                .map(drop)
                .ok_or_else(|| "the API server has not said who this is".to_owned())
        })
        .when("lists", move || hints.missing(&targets, &scalers))
}
