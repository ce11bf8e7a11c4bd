use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parse(words: &[&str]) -> Result<Args, String> {
    Line::try_parse_from(["feasible"].iter().chain(words))
        .map(|line| line.args)
        .map_err(|error| error.to_string())
}

fn asked(words: &[&str]) -> Answer {
    let (source, spec) = parse(words).unwrap().questions().unwrap().remove(0);
    answer(source, &spec).unwrap()
}

#[test]
fn bounds_that_the_ratios_narrow_are_shown_beside_the_given_ones() {
    let found = asked(&[
        "--role",
        "prefill=..8",
        "--role",
        "decode=3..16",
        "--ratio",
        "prefill/decode=0.5..2",
    ]);
    assert_eq!(
        found.text(),
        "possible\n  \
         role         bounds     reached\n  \
         prefill        1..8        2..8\n  \
         decode        3..16       3..16\n  \
         advice: prefill.minReplicas 1 can never be used; 2 is the least that the ratios allow\n"
    );
    assert_eq!(
        found.json(),
        json!({
            "source": "", "feasible": true,
            "roles": [{"name": "prefill", "minReplicas": 1, "maxReplicas": 8, "least": 2, "most": 8},
                {"name": "decode", "minReplicas": 3, "maxReplicas": 16, "least": 3, "most": 16}],
            "advice": ["prefill.minReplicas 1 can never be used; 2 is the least that the ratios allow"],
        })
    );
}

#[test]
fn an_impossible_set_comes_with_its_proof() {
    let found = asked(&[
        "--role",
        "prefill=1..4",
        "--role",
        "decode=3..16",
        "--ratio",
        "prefill/decode=2..",
    ]);
    assert_eq!(
        found.text(),
        "impossible\n  spec.ratios[0]: Invalid value: \"prefill/decode\": no counts keep every bound and ratio: \
         prefill <= 4 (maxReplicas) and prefill/decode >= 2 (ratios[0].min) force decode <= 2, but decode >= 3 \
         (minReplicas); raise maxReplicas of prefill, lower minReplicas of decode or lower ratios[0].min\n"
    );
    assert_eq!(found.json()["feasible"], false);
}

#[test]
fn a_fixed_ratio_that_the_step_cannot_follow_is_advised_against() {
    let words = ["--role", "a=2..8", "--role", "b=1..4", "--ratio", "a/b=2"];
    let text = asked(&words).text();
    assert!(text.contains("never shrink"), "{text}");
    let wide: Vec<&str> = words.iter().copied().chain(["--step-down", "2"]).collect();
    let text = asked(&wide).text();
    assert!(!text.contains("never shrink"), "{text}");
}

#[test]
fn flags_that_cannot_be_read_say_what_they_must_be() {
    for (words, message) in [
        (&["--role", "a"][..], "must be NAME=MIN..MAX"),
        (&["--role", "a=1..x"], "must be NAME=MIN..MAX"),
        (&["--role", "a=2", "--ratio", "a=1"], "must be A/B=MIN..MAX"),
        (
            &["--role", "a=2", "--ratio", "a/b=.."],
            "must be A/B=MIN..MAX",
        ),
        (
            &["--role", "a=2", "--step-up", "x%"],
            "must be a number of replicas",
        ),
        (&["--role", "a=2", "-f", "x"], "cannot be used with"),
        (&["--ratio", "a/b=1"], "required"),
        (&[], "required"),
    ] {
        let error = parse(words).unwrap_err();
        assert!(error.contains(message), "{words:?}: {error}");
    }
}

#[test]
fn rules_of_a_spec_hold_for_flags_too() {
    let text = asked(&["--role", "a=0..2", "--role", "a=3", "--ratio", "a/c=x.."]).text();
    for part in [
        "spec.roles[0].minReplicas: Invalid value: 0: must be at least 1: a scaler cannot scale to zero",
        "spec.roles[1]: Duplicate value: \"a\"",
        "spec.ratios[0].denominatorRole: Not found: \"c\"",
        "spec.ratios[0].min: Invalid value: \"x\": not a quantity",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn of_a_scaler_only_roles_ratios_and_behavior_are_read() {
    let spec =
        json!({"mode": "active", "roles": [{"name": "a", "maxReplicas": 4}], "algorithm": 7});
    assert_eq!(
        answer("f: x".to_owned(), &spec).unwrap().text(),
        "f: x\npossible\n  role      bounds     reached\n  a           1..4        1..4\n"
    );
}
