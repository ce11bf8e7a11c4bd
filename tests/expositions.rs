//! Every recorded body reads to the totals that its index gives.
//!
//! The bodies are not part of the project. They are looked for in `$MDS_DATA`, else in `../shared/data`; where they are
//! not, each test says by name that it skips.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use mds::api::RoleKind;
use mds::signal::Refusal;
use mds::signal::engine::{Collector, Engine, Family, Sample};
use mds::signal::exposition::{self, Reader, Series};
use mds::signal::observation::{Gap, Latency, Observation, Reading, SignalState};
use mds::signal::role::{Role, Roster};
use mds::signal::window::{NewBaseline, Window};
use serde_json::Value;

fn folder() -> Option<PathBuf> {
    let data = std::env::var_os("MDS_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    // A worktree of the project lies one folder deeper than the project.
    [
        data.clone(),
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
    ]
    .into_iter()
    .map(|data| data.join("expositions"))
    .find(|folder| folder.join("ORACLE.jsonl").is_file())
}

/// Runs a test on the recorded bodies, or says that it skips.
macro_rules! recorded {
    ($($(#[$doc:meta])* fn $name:ident($bodies:ident) $body:block)+) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            let Some(folder) = folder() else {
                eprintln!("skipped: {}: no recorded expositions ($MDS_DATA)", stringify!($name));
                return;
            };
            let $bodies = Bodies(folder);
            $body
        }
    )+};
}

struct Bodies(PathBuf);

impl Bodies {
    fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn try_sample(&self, file: &str) -> Result<Sample, Refusal> {
        Collector::default().sample(&self.read(file), None)
    }

    fn sample(&self, file: &str) -> Sample {
        self.try_sample(file)
            .unwrap_or_else(|refusal| panic!("{file}: {refusal}"))
    }

    /// What moved between two bodies that were scraped five seconds apart.
    fn window(&self, before: &str, after: &str) -> Result<Window, NewBaseline> {
        Window::between(&self.sample(before), &self.sample(after), SECONDS_5)
    }

    /// A role of one Pod, after these scrapes five seconds apart.
    fn observe(&self, kind: RoleKind, files: &[&str]) -> Observation {
        observe(kind, files.iter().map(|file| self.try_sample(file)))
    }
}

const SECONDS_5: Duration = Duration::from_secs(5);

fn observe(kind: RoleKind, outcomes: impl Iterator<Item = Result<Sample, Refusal>>) -> Observation {
    let mut role = Role::default();
    let mut now = Duration::ZERO;
    for outcome in outcomes {
        now += SECONDS_5;
        role.record("pod", "container", now, outcome);
    }
    let roster = Roster {
        kind,
        ready: 1,
        expected: &["pod"],
        interval: SECONDS_5,
    };
    role.observe(&roster, now)
}

/// Sums of series by name, with the child of a split family where the oracle names it.
#[derive(Default)]
struct Totals {
    wanted: Vec<String>,
    sums: BTreeMap<String, (u64, f64)>,
}

impl Reader for Totals {
    type Name = usize;

    fn name(&mut self, name: &[u8]) -> Option<usize> {
        let mut name = String::from_utf8_lossy(name).into_owned();
        for engine in ["vllm", "sglang"] {
            if let Some(rest) = name.strip_prefix(&format!("{engine}_")) {
                name = format!("{engine}:{rest}");
            }
        }
        self.wanted.iter().position(|wanted| *wanted == name)
    }

    fn declared(&mut self, _: &[u8]) {}

    fn series(&mut self, series: Series<'_, usize>) {
        let mut key = self.wanted[series.name].clone();
        if let Some(le) = series.le {
            key = format!("{key} {le}");
        } else {
            for (label, value) in series.labels.iter() {
                if [&b"mode"[..], b"source", b"cache_source"].contains(&label) {
                    let (label, value) = (
                        String::from_utf8_lossy(label),
                        String::from_utf8_lossy(value),
                    );
                    key = format!("{key}{{{label}={value}}}");
                }
            }
        }
        let sum = self.sums.entry(key).or_default();
        *sum = (sum.0 + 1, sum.1 + series.value);
    }

    fn bad(&mut self, _: usize) {}
}

fn totals(wanted: Vec<String>, body: &[u8]) -> Totals {
    let mut totals = Totals {
        wanted,
        sums: BTreeMap::new(),
    };
    // The oracle reads what a cut body still says; here that is no sample, so it is given its newline back.
    let mut body = body.to_vec();
    if body.last().is_some_and(|byte| *byte != b'\n') {
        assert_eq!(
            exposition::read(&body, &mut totals),
            Err(Refusal::Truncated)
        );
        totals.sums.clear();
        body.push(b'\n');
    }
    exposition::read(&body, &mut totals).unwrap();
    totals
}

fn close(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan())
        || a.to_bits() == b.to_bits()
        || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// A number of the oracle, which writes `"nan"` and `"inf"` as words.
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

recorded! {
    /// The oracle: what the Python client reads in each file.
    fn every_file_reads_to_the_totals_of_another_parser(bodies) {
        let oracle = String::from_utf8(bodies.read("ORACLE.jsonl")).unwrap();
        let (mut files, mut compared) = (0, 0);
        for row in oracle.lines() {
            let row: Value = serde_json::from_str(row).unwrap();
            let file = row["file"].as_str().unwrap();
            if row["ok"] == false {
                continue;
            }
            files += 1;
            let series = row["series"].as_object().unwrap();
            let hist = row["hist"].as_object().unwrap();
            let mut wanted: Vec<String> = series.keys().map(|key| key.split('{').next().unwrap().to_owned()).collect();
            for family in hist.keys() {
                wanted.extend(["bucket", "sum", "count"].map(|part| format!("{family}_{part}")));
            }
            let totals = totals(wanted, &bodies.read(file));
            for (key, expected) in series {
                let (n, sum) = totals.sums.get(key).copied().unwrap_or_default();
                assert_eq!(Some(n), expected["n"].as_u64(), "{file}: {key}");
                assert!(close(sum, number(&expected["sum"])), "{file}: {key}: {sum}");
                compared += 1;
            }
            for (family, expected) in hist {
                for (part, expected) in expected.as_object().unwrap() {
                    let key = match part.as_str() {
                        "sum" | "count" => format!("{family}_{part}"),
                        le => format!("{family}_bucket {}", le.parse::<f64>().unwrap()),
                    };
                    let (_, sum) = totals.sums.get(&key).copied().unwrap_or_default();
                    assert!(close(sum, number(expected)), "{file}: {key}: {sum}");
                    compared += 1;
                }
            }
        }
        assert!(files > 100 && compared > 3_000, "{files} files, {compared} totals");
    }

    /// vLLM's engines and SGLang's data-parallel ranks are schedulers of their own; tensor and pipeline ranks, API
    /// servers and priorities repeat or split what is there already.
    fn load_is_added_up_and_copies_are_not(bodies) {
        for (file, running, waiting) in [
            ("vllm-0.32.0-live-dp2-load2.prom", 16, 8),
            ("made-vllm-dp4-unbalanced.prom", 43, 17),
            ("made-vllm-external-lb-rank3.prom", 7, 16),
            ("sglang-0.5.23-live-dp2-load2.prom", 13, 6),
            ("sglang-0.5.1-rendered-dpattn8.prom", 160, 8),
            ("sglang-0.5.23-rendered-dpattn8.prom", 160, 8),
            ("sglang-0.5.7-rendered-tp4all.prom", 6, 0),
            ("sglang-0.5.23-live-priority-load.prom", 0, 10),
            ("made-pid-all-gauges.prom", 12, 5),
            ("made-label-escapes.prom", 15, 2),
            ("made-duplicate-series.prom", 1, 15),
            ("made-crlf.prom", 7, 15),
            ("vllm-0.8.5-v0-live-load2.prom", 8, 16),
            ("sglang-0.3.6-rendered-single.prom", 6, 0),
        ] {
            let role = bodies.observe(RoleKind::Server, &[file]);
            assert_eq!((role.running, role.waiting), (Reading::Value(running), Reading::Value(waiting)), "{file}");
        }
        let models = bodies.observe(RoleKind::Server, &["made-two-models-one-pod.prom"]);
        assert_eq!((models.running, models.waiting), (Reading::Value(5), Reading::Missing));
    }

    fn a_cache_gauge_per_api_server_is_read_once(bodies) {
        for (file, expected) in [
            ("vllm-0.11.0-pr28792-pid-partial.prom", 0.653_045_588_047_503_5),
            ("made-legacy-and-new-names.prom", 0.012_942_612_942_612_897),
            ("vllm-0.8.5-v0-live-load3.prom", 0.011_474_609_375),
            ("sglang-0.5.23-live-dp2-load2.prom", 0.2),
            ("made-vllm-dp4-unbalanced.prom", 0.35),
        ] {
            // What a partial copy of a body lacks at its end is not what is looked at here.
            let mut body = bodies.read(file);
            if body.last() != Some(&b'\n') {
                body.push(b'\n');
            }
            let role = observe(RoleKind::Server, [Collector::default().sample(&body, None)].into_iter());
            assert!(role.cache_use.value().is_some_and(|used| close(used, expected)), "{file}: {role:?}");
        }
    }

    fn requests_that_found_no_room_wait_on_a_decode_role(bodies) {
        for file in ["sglang-0.4.6.post5-rendered-decode.prom", "sglang-0.5.23-rendered-decode.prom"] {
            assert_eq!(bodies.observe(RoleKind::Decode, &[file]).waiting, Reading::Value(8), "{file}");
            assert_eq!(bodies.observe(RoleKind::Server, &[file]).waiting, Reading::Value(1), "{file}");
        }
    }

    fn what_is_no_body_of_an_engine_is_refused_with_its_reason(bodies) {
        for (file, refusal) in [
            ("made-empty.prom", Refusal::NoEngineSeries),
            ("made-only-newlines.prom", Refusal::NoEngineSeries),
            ("made-no-engine-series.prom", Refusal::NoEngineSeries),
            ("vllm-0.20.2-live-disablelogstats.prom", Refusal::NoEngineSeries),
            ("made-html-404.prom", Refusal::NoEngineSeries),
            ("made-json-404.prom", Refusal::Truncated),
            ("made-no-trailing-newline.prom", Refusal::Truncated),
            ("made-truncated-in-number.prom", Refusal::Truncated),
            ("made-truncated-in-labels.prom", Refusal::Truncated),
            ("made-truncated-in-name.prom", Refusal::Truncated),
            ("made-mixed-engines.prom", Refusal::TwoEngines),
        ] {
            assert_eq!(bodies.try_sample(file).err(), Some(refusal), "{file}");
        }
    }

    fn the_target_decides_between_two_engines_in_one_body(bodies) {
        let body = bodies.read("made-mixed-engines.prom");
        for (engine, running) in [(Engine::Vllm, 7), (Engine::Sglang, 24)] {
            let sample = Collector::default().sample(&body, Some(engine));
            let role = observe(RoleKind::Server, [sample].into_iter());
            assert_eq!(role.running, Reading::Value(running));
        }
    }

    /// `prometheus_client` writes `_` for the first `:` under OpenMetrics.
    fn a_name_with_an_underscore_for_its_colon_is_the_same_name(bodies) {
        assert_eq!(bodies.sample("made-colon-to-underscore.prom"), bodies.sample("vllm-0.32.0-live-load3.prom"));
        assert_eq!(bodies.sample("made-crlf.prom"), bodies.sample("vllm-0.32.0-live-load3.prom"));
        let (metrics, plain) =
            (bodies.sample("vllm-0.32.0-live-after-openmetrics.om"), bodies.sample("vllm-0.32.0-live-after.prom"));
        assert_eq!(metrics.points(), plain.points());
    }

    fn a_declared_family_without_series_is_a_zero_and_an_absent_one_is_not(bodies) {
        let fresh = bodies.observe(RoleKind::Server, &["vllm-0.32.0-live-dp2-fresh.prom"]);
        assert_eq!((fresh.running, fresh.waiting), (Reading::Value(0), Reading::Value(0)));
        let declared = bodies.observe(RoleKind::Server, &["made-help-type-only.prom"]);
        assert_eq!(declared.running, Reading::Value(0));
        let absent = bodies.observe(RoleKind::Server, &["made-vllm-missing-waiting.prom"]);
        assert_eq!((absent.running, absent.waiting), (Reading::Value(7), Reading::Missing));
        assert_eq!(absent.coverage.gaps.get(&Gap::SeriesMissing), Some(&1));
        let first = bodies.observe(RoleKind::Server, &["vllm-0.8.5-v0-live-fresh.prom"]);
        assert_eq!((first.running, first.signal), (Reading::Missing, SignalState::Missing));
    }

    fn a_reading_that_is_no_number_is_missing_and_not_zero(bodies) {
        let role = bodies.observe(RoleKind::Server, &["made-nan-inf-values.prom"]);
        assert_eq!((role.running, role.waiting), (Reading::Missing, Reading::Missing));
        assert_eq!(role.cache_use, Reading::Missing);
        assert!(!role.coverage.is_complete());
    }

    /// The table of windows: prompt demand and generation of pairs of live bodies, in tokens.
    fn demand_is_what_was_computed(bodies) {
        for (before, after, prompt, generation) in [
            ("vllm-0.20.2-live-kvpressure-load1.prom", "vllm-0.20.2-live-kvpressure-load2.prom", 11_236.0, 1_817.0),
            ("vllm-0.32.0-live-preempt1.prom", "vllm-0.32.0-live-preempt2.prom", 11_791.0, 2_196.0),
            ("vllm-0.32.0-live-load1.prom", "vllm-0.32.0-live-load2.prom", 20_554.0, 3_256.0),
            ("sglang-0.5.23-live-load1.prom", "sglang-0.5.23-live-load2.prom", 7_582.0, 24.0),
            ("sglang-0.5.23-live-load2.prom", "sglang-0.5.23-live-load3.prom", 0.0, 144.0),
            ("sglang-0.5.23-live-load3.prom", "sglang-0.5.23-live-load4.prom", 5_221.0, 510.0),
        ] {
            let window = bodies.window(before, after).unwrap();
            let demand = window.prompt.unwrap();
            assert!(close(demand.rate.get() * 5.0, prompt), "{after}: {demand:?}");
            assert!(!demand.clamped);
            let generated = window.generation.unwrap().get() * 5.0;
            assert!(close(generated, generation), "{after}: {generated}");
        }
    }

    fn a_restart_a_reset_and_one_counter_that_fell_each_begin_a_new_baseline(bodies) {
        for (before, after, why) in [
            ("vllm-0.32.0-live-after.prom", "vllm-0.32.0-live-restarted.prom", NewBaseline::Restarted),
            ("made-vllm-counter-reset-before.prom", "made-vllm-counter-reset-after.prom", NewBaseline::Restarted),
            ("made-vllm-counter-reset-before.prom", "made-vllm-counter-onlyone-decreased.prom", NewBaseline::Decreased),
            ("vllm-0.32.0-live-load1.prom", "vllm-0.32.0-live-dp2-load1.prom", NewBaseline::Restarted),
            ("vllm-0.32.0-live-dp2-load1.prom", "made-vllm-dp4-unbalanced.prom", NewBaseline::Regrouped),
            ("sglang-0.5.23-live-load4.prom", "sglang-0.5.23-live-load1.prom", NewBaseline::Decreased),
        ] {
            assert_eq!(bodies.window(before, after).err(), Some(why), "{after}");
        }
    }

    fn the_percentile_is_the_bucket_that_covers_it(bodies) {
        let role = bodies.observe(RoleKind::Server, &["vllm-0.32.0-live-load1.prom", "vllm-0.32.0-live-load2.prom"]);
        let milliseconds = |latency: Latency| latency.guarded().unwrap().get();
        assert!(close(milliseconds(role.ttft), 2_500.0), "{role:?}");
        assert!(close(milliseconds(role.itl), 50.0), "{role:?}");
        assert_eq!(role.signal, SignalState::Fresh);
        assert!(role.coverage.is_complete());
    }

    fn a_prefill_of_sglang_has_no_time_to_first_token_by_design(bodies) {
        let file = "sglang-0.5.23-rendered-prefill.prom";
        let role = bodies.observe(RoleKind::Prefill, &[file, file]);
        assert_eq!(role.ttft, Latency::Unreported);
    }

    fn an_engine_without_work_is_idle_and_its_latency_holds_nothing(bodies) {
        for file in ["vllm-0.32.0-live-after.prom", "sglang-0.5.23-live-after.prom", "vllm-0.32.0-live-dp2-fresh.prom"] {
            let role = bodies.observe(RoleKind::Server, &[file, file]);
            assert_eq!((role.signal, role.ttft, role.itl), (SignalState::Idle, Latency::Idle, Latency::Idle), "{file}");
            assert!(role.coverage.is_complete(), "{file}: {role:?}");
        }
    }

    /// Whatever is cut away, what is read of the rest is read whole.
    fn a_body_cut_at_any_byte_gives_no_wrong_number(bodies) {
        for file in ["made-vllm-dp4-unbalanced.prom", "made-openmetrics-exemplars.om", "made-label-escapes.prom",
            "sglang-0.3.6-rendered-single.prom", "vllm-0.8.1-prodstack318-partial.prom"] {
            let mut body = bodies.read(file);
            if body.last() != Some(&b'\n') {
                body.push(b'\n');
            }
            let whole = Collector::default().sample(&body, None).unwrap();
            let mut collector = Collector::default();
            for cut in 0..body.len() {
                assert!(!exposition::is_whole(cut, u64::try_from(body.len()).ok()));
                let Ok(part) = collector.sample(&body[..cut], None) else { continue };
                assert_eq!(body[cut - 1], b'\n', "{file} cut at {cut}");
                for point in part.points() {
                    let full = whole.points().iter().find(|full| full.key_cmp(point).is_eq()).unwrap();
                    assert_eq!(full, point, "{file} cut at {cut}");
                }
                for family in [Family::Running, Family::Waiting] {
                    let sum = |sample: &Sample| sample.gauge(family).map_or(0.0, |gauge| gauge.sum);
                    assert!(sum(&part) <= sum(&whole), "{file} cut at {cut}");
                }
            }
        }
    }

    fn every_body_is_read_twice_alike_and_without_a_panic(bodies) {
        let mut collector = Collector::default();
        let mut read = 0;
        for entry in std::fs::read_dir(&bodies.0).unwrap() {
            let body = std::fs::read(entry.unwrap().path()).unwrap();
            let once = collector.sample(&body, None);
            assert_eq!(once, Collector::default().sample(&body, None));
            read += usize::from(once.is_ok());
        }
        assert!(read > 80, "{read}");
    }

    fn huge_bodies_are_read(bodies) {
        let tenants = bodies.sample("made-huge-wanted-1MiB.prom");
        assert_eq!(tenants.points().len(), 13_500);
        assert!(close(tenants.points().iter().map(|point| point.value).sum(), 91_118_250.0));
        assert_eq!(bodies.observe(RoleKind::Server, &["made-long-line-1MiB.prom"]).running, Reading::Value(3));
        assert_eq!(bodies.observe(RoleKind::Server, &["made-huge-1MiB.prom"]).running, Reading::Value(7));
    }
}
