use clap::Parser;

use super::roles::{RoleFlag, UrlFlag, deployed, subjects};
use super::*;
use crate::api::quantity::Nanos;
use crate::api::scaler::{Metric, Mode};
use crate::api::{Replicas, Time};
use crate::policy::{
    AlgorithmPolicy, ProportionalPolicy, RebalanceOrder, RolePolicy, ScaleDownPolicy, ScaleUpPolicy,
};
use crate::ratio::Step;
use crate::signal::scrape::Failure;
use crate::signal::{Gap, Milliseconds, Observation, Rate, Reading, Refusal, SignalState};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: ObserveArgs,
}

fn parse(words: &[&str]) -> Result<ObserveArgs, String> {
    let words = ["observe"].iter().chain(words);
    Line::try_parse_from(words)
        .map(|line| line.args)
        .map_err(|error| error.to_string())
}

fn joined(urls: &[&str], roles: &[&str]) -> Result<Vec<Subject>, String> {
    let urls: Vec<UrlFlag> = urls.iter().map(|url| url.parse().unwrap()).collect();
    let roles: Vec<RoleFlag> = roles.iter().map(|role| role.parse().unwrap()).collect();
    subjects(&urls, roles).map_err(|error| error.to_string())
}

#[test]
fn one_role_is_assumed_where_none_is_named() {
    let subjects = joined(&["http://127.0.0.1:1/m?a=b", "http://127.0.0.1:2/"], &[]).unwrap();
    assert_eq!(subjects.len(), 1);
    assert_eq!(
        subjects[0].endpoints[0].to_string(),
        "http://127.0.0.1:1/m?a=b"
    );
    let report = subjects[0].report(2, Duration::from_secs(15), Duration::ZERO, Vec::new());
    assert_eq!(
        (report.name.as_str(), report.kind.as_str(), report.current),
        ("server", "Server", 2)
    );
}

#[test]
fn urls_go_to_their_roles_and_a_count_that_is_told_is_the_current_one() {
    let urls = ["prefill=http://127.0.0.1:1/", "decode=http://127.0.0.1:2/"];
    let subjects = joined(&urls, &["prefill:prefill=4", "decode:Decode"]).unwrap();
    let report = |place: usize| {
        subjects[place].report(1, Duration::from_secs(15), Duration::ZERO, Vec::new())
    };
    assert_eq!((report(0).kind.as_str(), report(0).current), ("Prefill", 4));
    assert_eq!((report(1).kind.as_str(), report(1).current), ("Decode", 1));
}

#[test]
fn what_does_not_fit_together_is_said_with_what_to_write() {
    let two = ["a:Prefill", "b:Decode"];
    for (urls, roles, message) in [
        (
            &["http://h:1/"][..],
            &two[..],
            "--url http://h:1/: there are several roles, write --url ROLE=http://h:1/",
        ),
        (
            &["c=http://h:1/"],
            &two,
            "--url c=http://h:1/: there is no role \"c\", only a, b",
        ),
        (
            &["a=http://h:1/"],
            &two,
            "role b: no engine, write --url b=URL",
        ),
        (&["http://h:1/"], &["a", "a"], "--role a: given twice"),
        (
            &["http://h:1/", "http://h:1/"],
            &[],
            "--url http://h:1/: given twice",
        ),
    ] {
        assert_eq!(joined(urls, roles).unwrap_err(), message);
    }
}

#[test]
fn flags_that_cannot_be_read_say_what_they_must_be() {
    let url = ["--url", "http://h:1/"];
    for (words, message) in [
        (&["--url", "h:1"][..], "must begin with http:// or https://"),
        (
            &["--url", "=http://h:1/"],
            "the role before = must have a name",
        ),
        (
            &["--role", "a:X"],
            "the kind after : must be Server, Prefill, Decode or Encode",
        ),
        (
            &["--role", "a=0"],
            "the count after = must be from 1 to 1024",
        ),
        (&["--role", ":Server"], "the role must have a name"),
        (&["--engine", "tgi"], "must be vllm or sglang"),
        (
            &["--every", "1ms"],
            "must be a duration from 100ms to 5m, such as 15s",
        ),
        (&["--role", "a", "--deployment", "f"], "cannot be used with"),
    ] {
        let words: Vec<&str> = url.iter().chain(words).copied().collect();
        let error = parse(&words).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    assert!(parse(&[]).unwrap_err().contains("--url <[ROLE=]URL>"));
}

#[test]
fn a_deployment_names_roles_kinds_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deployment.yaml");
    let write = |kind: &str| {
        let yaml = format!(
            "spec:\n  roles:\n  - name: p\n    kind: {kind}\n    replicas: 3\n  - name: s\n"
        );
        std::fs::write(&file, yaml).unwrap();
    };
    write("prefill");
    assert_eq!(
        deployed(&file).unwrap(),
        [
            "p:Prefill=3".parse().unwrap(),
            "s:Server".parse::<RoleFlag>().unwrap()
        ]
    );
    write("router");
    let error = deployed(&file).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "--deployment {}: role p: kind \"router\" is not known",
            file.display()
        )
    );
}

fn pass() -> Pass {
    let mut seen = Observation {
        ready: 1,
        running: Reading::Value(7),
        waiting: Reading::Missing,
        prompt_rate: Reading::Value(Rate::new(123.45).unwrap()),
        ttft: crate::signal::Latency::P95(Milliseconds::new(500.0).unwrap()),
        itl: crate::signal::Latency::Missing,
        signal: SignalState::Fresh,
        cache_use: Reading::Value(0.25),
        ..Observation::default()
    };
    seen.coverage.answered = 1;
    seen.coverage.expected = 2;
    seen.coverage.add(Gap::Scrape(Refusal::Status(404)));
    let failure = Failure {
        refusal: Refusal::Status(404),
        detail: "\"no\"".to_owned(),
    };
    let trouble = Trouble {
        endpoint: "http://h:1/".to_owned(),
        failure,
    };
    let role = report::Role {
        name: "s".to_owned(),
        kind: crate::api::RoleKind::Server,
        current: 2,
        seen,
        troubles: vec![trouble],
        advice: None,
    };
    Pass {
        at: "2026-12-01T14:02:15Z".parse().unwrap(),
        roles: vec![role],
    }
}

#[test]
fn a_pass_reads_as_one_line_a_role_with_its_troubles_below() {
    assert_eq!(
        pass().text(),
        "2026-12-01T14:02:15Z  s (Server)  Fresh  running 7  waiting ?  prompt 123.5 tok/s  generation ? tok/s  \
         TTFT 500 ms  ITL ?  cache 25%  coverage 1/2\n    \
         http://h:1/: status 404: \"no\"\n    not whole: status 404, 1 of 2\n"
    );
}

#[test]
fn a_pass_is_one_json_object_in_which_a_missing_reading_is_null() {
    let line = pass().json().unwrap();
    assert_eq!(line.matches('\n').count(), 1);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    let role = &value["roles"][0];
    assert_eq!(value["timestamp"], "2026-12-01T14:02:15Z");
    assert_eq!(
        (&role["running"], &role["waiting"]),
        (&serde_json::json!(7), &serde_json::Value::Null)
    );
    assert_eq!(role["signalState"], "Fresh");
    assert_eq!(
        role["coverage"]["gaps"],
        serde_json::json!({ "status 404": 1 })
    );
    assert_eq!(role["errors"][0]["endpoint"], "http://h:1/");
}

/// A scaler that wants two requests a replica of each of these roles.
fn policy(roles: &[&str]) -> Policy {
    let replicas = |count| Replicas::new(count).unwrap();
    let nanos = |whole: i128| Nanos::new(whole * Nanos::ONE.get());
    Policy {
        target: "t".to_owned(),
        mode: Mode::Shadow,
        suspend: false,
        interval: 15,
        pending_timeout: 300,
        roles: roles
            .iter()
            .map(|name| RolePolicy {
                name: (*name).to_owned(),
                min: replicas(1),
                max: replicas(9),
            })
            .collect(),
        ratios: Vec::new(),
        algorithm: AlgorithmPolicy::Proportional(ProportionalPolicy {
            metric: Metric::RunningRequests,
            tolerance: Nanos::new(100_000_000),
            targets: roles.iter().map(|_| Some(nanos(2))).collect(),
        }),
        scale_up: ScaleUpPolicy {
            stabilization: 0,
            step: Step::Pods(1),
        },
        scale_down: ScaleDownPolicy {
            stabilization: 300,
            cooldown_after_abort: 300,
            decode_grace: 120,
            step: Step::Pods(1),
        },
        rebalance: RebalanceOrder::Disabled,
    }
}

#[test]
fn a_scaler_advises_the_roles_that_it_knows() {
    let mut roles = pass().roles;
    let mut advisor = Advisor::new(policy(&["s"]), &["s"]).unwrap();
    advisor.advise(&mut roles, Time::from_seconds(1_796_000_000));
    let pass = Pass { roles, ..pass() };
    assert!(
        pass.text()
            .contains("\n    recommends 4 of 2: Proportional\n"),
        "{}",
        pass.text()
    );
    let json: serde_json::Value = serde_json::from_str(&pass.json().unwrap()).unwrap();
    let role = &json["roles"][0];
    assert_eq!(
        (&role["rawRecommendedReplicas"], &role["reason"]),
        (&4.into(), &"Proportional".into())
    );
}

#[test]
fn a_scaler_of_roles_that_nobody_named_says_what_to_write() {
    let error = |roles: &[&str]| {
        Advisor::new(policy(roles), &["server"])
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(&["a", "b"]),
        "--scaler: its 2 roles need names, write --url a=URL"
    );
    assert_eq!(
        error(&["a"]),
        "--scaler: there is no role a, write --role a or --url a=URL"
    );
}
