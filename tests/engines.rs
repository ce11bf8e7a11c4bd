//! The fake engines of the sandbox, as the scraper and `mds observe` read them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

// By path: a dependency on the sandbox would make every test of this crate build a cluster's worth of crates.
#[path = "sandbox/src/engine/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of it is needed here")]
mod engine;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use engine::{Authority, Engine, Fault, Flavour, Load, Model, Stage, Talents};
use mds::api::RoleKind;
use mds::signal::role::{Role, Roster};
use mds::signal::scrape::{Failure, Scraped, Scraper, Tls};
use mds::signal::{Gap, Latency, Observation, Reading, Refusal, SignalState};
use serde_json::Value;

const INTERVAL: Duration = Duration::from_secs(1);

const BUSY: Load = Load {
    requests: 20.0,
    prompt: 200.0,
    output: 20.0,
    prefix_hits: 0.5,
};

/// An engine of its own on `127.0.x.y`.
async fn play(host: u16, flavour: Flavour, stage: Stage) -> Engine {
    let [x, y] = host.to_be_bytes();
    let address = SocketAddr::from((Ipv4Addr::new(127, 0, x, y), 0));
    let model = Model::new(stage, Talents::default(), "tiny", u64::from(host));
    Engine::play(address, flavour, model, None).await.unwrap()
}

fn scraper() -> Scraper {
    Scraper::new(Tls::new(None, None).unwrap())
}

async fn scrape(engine: &Engine) -> Result<Scraped, Failure> {
    scraper()
        .scrape(&engine.url().parse().unwrap(), None, INTERVAL)
        .await
}

/// Scrapes `engine` this many times while it works, and makes a role of it.
async fn observe(engine: &Engine, kind: RoleKind, times: u32) -> Observation {
    let mut role = Role::default();
    let origin = Instant::now();
    for pass in 0..times {
        if pass > 0 {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let scraped = scrape(engine).await.unwrap();
        role.record(
            "pod",
            "1",
            scraped.at.saturating_duration_since(origin),
            Ok(scraped.sample),
        );
    }
    let roster = Roster {
        kind,
        ready: 1,
        expected: &["pod"],
        interval: INTERVAL,
    };
    role.observe(&roster, origin.elapsed())
}

#[tokio::test]
async fn a_busy_engine_of_either_kind_reads_as_fresh_and_an_idle_one_as_idle() {
    for (host, flavour) in [(0x0101, Flavour::Vllm), (0x0102, Flavour::Sglang)] {
        let engine = play(host, flavour, Stage::Server).await;
        let idle = observe(&engine, RoleKind::Server, 2).await;
        assert_eq!(
            (idle.signal, idle.ttft),
            (SignalState::Idle, Latency::Idle),
            "{flavour:?}"
        );
        assert!(idle.coverage.is_complete(), "{idle:?}");
        engine.load(BUSY);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let busy = observe(&engine, RoleKind::Server, 3).await;
        assert_eq!(busy.signal, SignalState::Fresh, "{flavour:?}");
        assert!(busy.coverage.is_complete(), "{busy:?}");
        assert!(
            busy.prompt_rate
                .value()
                .is_some_and(|rate| rate.get() > 100.0),
            "{busy:?}"
        );
        assert!(
            busy.generation_rate
                .value()
                .is_some_and(|rate| rate.get() > 50.0),
            "{busy:?}"
        );
        assert!(
            matches!(busy.ttft, Latency::P95(_)) && matches!(busy.itl, Latency::P95(_)),
            "{busy:?}"
        );
    }
}

#[tokio::test]
async fn a_prefill_of_sglang_shows_no_time_to_first_token_and_a_decode_its_own_queue() {
    let prefill = play(0x0103, Flavour::Sglang, Stage::Prefill).await;
    prefill.load(BUSY);
    assert_eq!(
        observe(&prefill, RoleKind::Prefill, 2).await.ttft,
        Latency::Unreported
    );
    let small = Talents {
        batch: 1,
        ..Talents::default()
    };
    let model = Model::new(Stage::Decode, small, "tiny", 7);
    let address = SocketAddr::from((Ipv4Addr::new(127, 0, 1, 4), 0));
    let decode = Engine::play(address, Flavour::Sglang, model, None)
        .await
        .unwrap();
    decode.load(Load {
        output: 2000.0,
        ..BUSY
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let seen = observe(&decode, RoleKind::Decode, 2).await;
    assert!(
        seen.waiting.value().is_some_and(|waiting| waiting > 3),
        "{seen:?}"
    );
}

#[tokio::test]
async fn every_fault_has_its_reason() {
    let engine = play(0x0105, Flavour::Vllm, Stage::Server).await;
    let families = vec!["num_requests_running".to_owned()];
    for (fault, refusal) in [
        (Fault::Slow(Duration::from_millis(500)), Refusal::Timeout),
        (Fault::Hang, Refusal::Timeout),
        (Fault::HangInBody, Refusal::Timeout),
        (Fault::Truncated, Refusal::Truncated),
        (Fault::CutNumber, Refusal::Truncated),
        (Fault::Down, Refusal::Refused),
        (Fault::Status(503), Refusal::Status(503)),
        (Fault::Redirect, Refusal::Status(307)),
        (Fault::Html, Refusal::NotText),
        (Fault::Huge, Refusal::TooLarge),
    ] {
        engine.fault(fault.clone());
        let failure = scrape(&engine).await.unwrap_err();
        assert_eq!(failure.refusal, refusal, "{fault:?}: {failure}");
    }
    engine.fault(Fault::Slow(Duration::from_millis(50)));
    assert!(scrape(&engine).await.is_ok());
    engine.fault(Fault::Missing(families));
    let seen = observe(&engine, RoleKind::Server, 2).await;
    assert_eq!(
        (seen.running, seen.waiting),
        (Reading::Missing, Reading::Value(0))
    );
    assert_eq!(seen.coverage.gaps, [(Gap::SeriesMissing, 1)].into());
    engine.fault(Fault::None);
    assert!(
        observe(&engine, RoleKind::Server, 2)
            .await
            .coverage
            .is_complete()
    );
}

#[tokio::test]
async fn a_restart_and_a_reset_cost_one_window() {
    let engine = play(0x0106, Flavour::Vllm, Stage::Server).await;
    engine.load(BUSY);
    tokio::time::sleep(Duration::from_millis(500)).await;
    for spoil in [Engine::restart, Engine::reset_counters] {
        let mut role = Role::default();
        let origin = Instant::now();
        let mut states = Vec::new();
        for pass in 0..4 {
            if pass == 2 {
                spoil(&engine);
            }
            let scraped = scrape(&engine).await.unwrap();
            role.record(
                "pod",
                "1",
                scraped.at.saturating_duration_since(origin),
                Ok(scraped.sample),
            );
            let roster = Roster {
                kind: RoleKind::Server,
                ready: 1,
                expected: &["pod"],
                interval: INTERVAL,
            };
            states.push(role.observe(&roster, origin.elapsed()).signal);
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        let (missing, fresh) = (SignalState::Missing, SignalState::Fresh);
        assert_eq!(states, [missing, fresh, missing, fresh]);
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let (ours, theirs) = (Authority::new().unwrap(), Authority::new().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, ours.pem()).unwrap();
    let verifying = Scraper::new(Tls::new(Some(&file), None).unwrap());
    let address = SocketAddr::from((Ipv4Addr::new(127, 0, 1, 7), 0));
    for (authority, expected) in [(ours, None), (theirs, Some(Refusal::Certificate))] {
        let model = Model::new(Stage::Server, Talents::default(), "tiny", 1);
        let tls = authority.certify("127.0.1.7").unwrap();
        let engine = Engine::play(address, Flavour::Sglang, model, Some(tls))
            .await
            .unwrap();
        let scraped = verifying
            .scrape(&engine.url().parse().unwrap(), None, INTERVAL * 5)
            .await;
        assert_eq!(scraped.err().map(|failure| failure.refusal), expected);
    }
}

/// Runs `mds observe` to its end.
async fn mds_observe(args: Vec<String>) -> Output {
    tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_mds"))
            .arg("observe")
            .args(args)
            .output()
    })
    .await
    .unwrap()
    .unwrap()
}

fn words(of: &[&str]) -> Vec<String> {
    of.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observe_reads_a_fleet_of_64_and_one_that_is_broken() {
    let mut engines = Vec::new();
    for host in 0..64 {
        let engine = play(0x0201 + host, Flavour::Sglang, Stage::Server).await;
        engine.load(BUSY);
        engines.push(engine);
    }
    engines[5].fault(Fault::Status(404));
    let mut args = words(&["--passes", "3", "--every", "2s", "--output", "json"]);
    args.extend(
        engines
            .iter()
            .flat_map(|engine| ["--url".to_owned(), engine.url()]),
    );
    let output = mds_observe(args).await;
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    let [first, last] = [&lines[0]["roles"][0], &lines[2]["roles"][0]];
    assert_eq!(first["signalState"], "Missing");
    assert_eq!(last["signalState"], "Fresh", "{last}");
    assert_eq!(last["coverage"]["answered"], 63, "{last}");
    assert_eq!(
        last["coverage"]["gaps"],
        serde_json::json!({ "status 404": 1 })
    );
    assert_eq!(last["errors"][0]["endpoint"], engines[5].url());
    // 63 engines of 20 requests a second with 100 computed tokens each.
    let rate = last["promptTokensPerSecond"].as_f64().unwrap();
    assert!((90_000.0..165_000.0).contains(&rate), "{rate}");
}

#[tokio::test]
async fn observe_reads_recorded_bodies_to_their_numbers() {
    let body = |tokens: u32| {
        format!(
            "vllm:num_requests_running 7\nvllm:num_requests_waiting 16\nvllm:prompt_tokens_total {tokens}\n\
             vllm:generation_tokens_total {tokens}\n"
        )
        .into_bytes()
    };
    let address = SocketAddr::from((Ipv4Addr::new(127, 0, 1, 9), 0));
    let engine = Engine::replay(address, vec![body(0), body(1000)], None)
        .await
        .unwrap();
    let output = mds_observe(words(&[
        "--url",
        &engine.url(),
        "--passes",
        "2",
        "--every",
        "500ms",
    ]))
    .await;
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert!(
        last.contains("server (Server)  Fresh  running 7  waiting 16  prompt "),
        "{text}"
    );
    assert_eq!(engine.scrapes(), 2);
}

#[tokio::test]
async fn observe_says_what_to_write_when_roles_and_urls_do_not_fit() {
    let output = mds_observe(words(&[
        "--url",
        "http://127.0.0.1:1/",
        "--role",
        "a",
        "--role",
        "b",
    ]))
    .await;
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error,
        "mds: --url http://127.0.0.1:1/: there are several roles, write --url ROLE=http://127.0.0.1:1/\n"
    );
}
