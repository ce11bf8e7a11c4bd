//! One pass, for people and for scripts.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::algorithm::Recommendation;
use crate::api::RoleKind;
use crate::signal::scrape::Failure;
use crate::signal::{Latency, Observation, Reading};

/// What was seen at a time.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) at: jiff::Timestamp,
    pub(super) roles: Vec<Role>,
}

/// One role in a pass.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) name: String,
    pub(super) kind: RoleKind,
    pub(super) current: u64,
    pub(super) seen: Observation,
    pub(super) troubles: Vec<Trouble>,
    /// What the scaler recommends, where one is given.
    pub(super) advice: Option<Recommendation>,
}

/// An endpoint that gave no sample.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) endpoint: String,
    pub(super) failure: Failure,
}

impl Pass {
    /// A line for a role, and below it a line for each trouble.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for role in &self.roles {
            let Observation {
                coverage,
                running,
                waiting,
                prompt_rate,
                generation_rate,
                ..
            } = &role.seen;
            let _ = writeln!(
                text,
                "{:.0}  {} ({})  {:?}  running {}  waiting {}  prompt {} tok/s  generation {} tok/s  TTFT {}  ITL {}  cache {}  coverage {}/{}",
                self.at,
                role.name,
                role.kind.as_str(),
                role.seen.signal,
                whole(*running),
                whole(*waiting),
                tenths(prompt_rate.value().map(crate::signal::Rate::get)),
                tenths(generation_rate.value().map(crate::signal::Rate::get)),
                latency(role.seen.ttft),
                latency(role.seen.itl),
                role.seen
                    .cache_use
                    .value()
                    .map_or("?".to_owned(), |used| format!("{:.0}%", used * 100.0)),
                coverage.answered,
                coverage.expected,
            );
            if let Some(Recommendation { raw, reason, .. }) = &role.advice {
                let raw =
                    raw.map_or_else(|| "what its ratios say".to_owned(), |raw| raw.to_string());
                let _ = writeln!(text, "    recommends {raw} of {}: {reason}", role.current);
            }
            for trouble in &role.troubles {
                let _ = writeln!(text, "    {}: {}", trouble.endpoint, trouble.failure);
            }
            for (gap, pods) in &coverage.gaps {
                let _ = writeln!(
                    text,
                    "    not whole: {gap}, {pods} of {}",
                    coverage.expected
                );
            }
        }
        text
    }

    /// One JSON object on one line.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        let roles: Vec<Value> = self.roles.iter().map(Role::json).collect();
        let pass = json!({ "timestamp": self.at.to_string(), "roles": roles });
        serde_json::to_string(&pass).map(|line| line + "\n")
    }
}

impl Role {
    /// A reading that is missing is null.
    fn json(&self) -> Value {
        let seen = &self.seen;
        let gaps: serde_json::Map<String, Value> = seen
            .coverage
            .gaps
            .iter()
            .map(|(gap, pods)| (gap.to_string(), json!(pods)))
            .collect();
        let errors: Vec<Value> = self
            .troubles
            .iter()
            .map(|trouble| {
                json!({
                    "endpoint": trouble.endpoint,
                    "reason": trouble.failure.refusal.to_string(),
                    "detail": trouble.failure.detail,
                })
            })
            .collect();
        let p95 = |latency: Latency| latency.guarded().map(crate::signal::Milliseconds::get);
        json!({
            "name": self.name,
            "kind": self.kind.as_str(),
            "current": self.current,
            "ready": seen.ready,
            "signalState": seen.signal,
            "running": seen.running.value(),
            "waiting": seen.waiting.value(),
            "promptTokensPerSecond": seen.prompt_rate.value().map(crate::signal::Rate::get),
            "generationTokensPerSecond": seen.generation_rate.value().map(crate::signal::Rate::get),
            "ttftMilliseconds": p95(seen.ttft),
            "itlMilliseconds": p95(seen.itl),
            "kvCacheUsage": seen.cache_use.value(),
            "rawRecommendedReplicas": self.advice.and_then(|advice| advice.raw).map(i64::from),
            "reason": self.advice.map(|advice| advice.reason.as_str()),
            "coverage": {
                "answered": seen.coverage.answered,
                "expected": seen.coverage.expected,
                "complete": seen.coverage.is_complete(),
                "gaps": gaps,
            },
            "errors": errors,
        })
    }
}

fn whole(count: Reading<u64>) -> String {
    count
        .value()
        .map_or("?".to_owned(), |count| count.to_string())
}

fn tenths(rate: Option<f64>) -> String {
    rate.map_or("?".to_owned(), |rate| format!("{rate:.1}"))
}

fn latency(latency: Latency) -> String {
    match latency {
        Latency::Missing => "?".to_owned(),
        Latency::Idle => "idle".to_owned(),
        Latency::Unreported => "unreported".to_owned(),
        Latency::P95(p95) => format!("{:.0} ms", p95.get()),
    }
}
