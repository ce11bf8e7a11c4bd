//! `mds observe`: what the scaler would read from engines, pass by pass.

mod advise;
mod report;
mod roles;

use super::Outcome;
use crate::policy::Policy;
use crate::serve::deadline::go_duration;
use crate::signal::engine::Engine;
use crate::signal::role::{MAX_PODS, Role};
use crate::signal::scrape::{Endpoint, Scraped, Scraper, Tls};
use advise::Advisor;
use anyhow::Context;
use futures::future::join_all;
use report::{Pass, Trouble};
use roles::{RoleFlag, Subject, UrlFlag, subjects};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// The process of an endpoint that no Pod stands behind: restarts show in its counters only.
const UNKNOWN_PROCESS: &str = "";

/// Reads live engines and prints, each pass, what a scaler would see
///
/// Give the metrics URL of every engine. With several roles, say which role an engine is of, and what the roles are:
///
///   mds observe --url prefill=http://10.0.0.7:8000/metrics --url decode=http://10.0.0.8:8000/metrics --role prefill:Prefill --role decode:Decode
///
/// The first pass is a baseline: rates and latencies need two. Exit codes: 0 stopped, 1 failed, 2 wrong usage.
#[derive(Debug, clap::Args)]
pub struct ObserveArgs {
    /// Metrics URL of an engine, with the name of its role in front where there are several; repeatable
    #[arg(long = "url", value_name = "[ROLE=]URL", required = true)]
    urls: Vec<UrlFlag>,

    /// A role, what it serves (Server, Prefill, Decode, Encode; default Server), and its count on the target (default: the number of its URLs); repeatable
    #[arg(
        long = "role",
        value_name = "NAME[:KIND][=CURRENT]",
        conflicts_with = "deployment"
    )]
    roles: Vec<RoleFlag>,

    /// A ModelDeployment as YAML or JSON, which names the roles, their kinds and their counts
    #[arg(long, value_name = "FILE")]
    deployment: Option<PathBuf>,

    /// Which engine answers, vllm or sglang; needed only where one body has series of both
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,

    /// The sampling interval, as a duration such as 15s: at least 100ms, at most 5m
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = interval)]
    every: Duration,

    /// Stop after this many passes; without it, observe until interrupted
    #[arg(long, value_name = "COUNT")]
    passes: Option<NonZeroU32>,

    /// How a pass is printed: text for people, json for scripts (one object a line)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output: Output,

    /// PEM file of the authorities that https engines are verified by; default: the system's
    #[arg(long, value_name = "FILE")]
    engine_ca_file: Option<PathBuf>,

    /// Name that https engines must prove; default: the host of the URL
    #[arg(long, value_name = "NAME")]
    engine_server_name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

impl ObserveArgs {
    pub(super) fn run(self) -> Outcome {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let outcome = runtime.block_on(run(self));
        // A look-up of a name may still be under way.
        runtime.shutdown_background();
        outcome.map(|()| ExitCode::SUCCESS)
    }
}

/// Observes until the passes are done, or Ctrl-C.
///
/// # Errors
/// Roles and URLs that do not fit together, files that cannot be used, an output that is closed.
pub async fn run(args: ObserveArgs) -> anyhow::Result<()> {
    run_with(args, None).await
}

/// As [`run`], with what a scaler of this policy would recommend in each pass. The interval is that of the command
/// line, in whole seconds.
///
/// # Errors
/// Those of [`run`], and a role of the policy that no engine is given for.
pub async fn run_with(args: ObserveArgs, policy: Option<Policy>) -> anyhow::Result<()> {
    let tls = Tls::new(
        args.engine_ca_file.as_deref(),
        args.engine_server_name.as_deref(),
    )?;
    let declared = args
        .deployment
        .as_deref()
        .map(roles::deployed)
        .transpose()?;
    let mut subjects = subjects(&args.urls, declared.unwrap_or(args.roles))?;
    let names: Vec<&str> = subjects
        .iter()
        .map(|subject| subject.name.as_str())
        .collect();
    let mut advisor = policy
        .map(|policy| {
            let interval = u32::try_from(args.every.as_secs().max(1)).unwrap_or(u32::MAX);
            Advisor::new(Policy { interval, ..policy }, &names)
        })
        .transpose()?;
    let scraper = Scraper::new(tls);
    let origin = Instant::now();
    let mut ticks = tokio::time::interval(args.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut passes = 0;
    loop {
        let pass = async {
            ticks.tick().await;
            let all = subjects
                .iter_mut()
                .map(|subject| observe(subject, &scraper, args.engine, args.every, origin));
            let roles = join_all(all).await;
            Pass {
                at: jiff::Timestamp::now(),
                roles,
            }
        };
        let mut pass = tokio::select! {
            interrupted = tokio::signal::ctrl_c() => return interrupted.context("cannot catch Ctrl-C"),
            pass = pass => pass,
        };
        if let Some(advisor) = &mut advisor {
            advisor.advise(&mut pass.roles, pass.at.into());
        }
        let printed = match args.output {
            Output::Text => pass.text(),
            Output::Json => pass.json()?,
        };
        match io::stdout().lock().write_all(printed.as_bytes()) {
            // Whoever read has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("cannot write to standard output")?,
        }
        passes += 1;
        if args.passes.is_some_and(|most| passes >= most.get()) {
            return Ok(());
        }
    }
}

/// One pass over one role.
async fn observe(
    subject: &mut Subject,
    scraper: &Scraper,
    engine: Option<Engine>,
    every: Duration,
    origin: Instant,
) -> report::Role {
    let endpoints: Vec<Endpoint> = subject.endpoints.iter().take(MAX_PODS).cloned().collect();
    let answers = endpoints
        .iter()
        .map(|endpoint| scraper.scrape(endpoint, engine, every));
    let mut troubles = Vec::new();
    let mut answered = 0;
    for (endpoint, answer) in endpoints.iter().zip(join_all(answers).await) {
        let (at, outcome) = match answer {
            Ok(Scraped { at, sample }) => {
                answered += 1;
                (at.saturating_duration_since(origin), Ok(sample))
            }
            Err(failure) => {
                let refusal = failure.refusal;
                troubles.push(Trouble {
                    endpoint: endpoint.to_string(),
                    failure,
                });
                (origin.elapsed(), Err(refusal))
            }
        };
        subject
            .role
            .record(&endpoint.to_string(), UNKNOWN_PROCESS, at, outcome);
    }
    subject.report(answered, every, origin.elapsed(), troubles)
}

fn interval(text: &str) -> Result<Duration, String> {
    go_duration(text)
        .filter(|every| (Duration::from_millis(100)..=Duration::from_mins(5)).contains(every))
        .ok_or_else(|| "must be a duration from 100ms to 5m, such as 15s".to_owned())
}

#[cfg(test)]
mod tests;
