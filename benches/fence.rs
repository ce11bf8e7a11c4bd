//! What a verdict costs, at ten roles.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mds::fence::{Actor, RoleCount, TargetState, judge};

const BINDING: &str =
    r#"{"scalerName":"llm","scalerUID":"5d1c7a52-0df6-4a7c-8a86-0f2a4c9c7c01","term":5}"#;

fn decision(id: &str, first: i64) -> String {
    let rest: Vec<String> = (1..10).map(|at| format!(r#","role-{at}":2"#)).collect();
    let rest = rest.concat();
    format!(r#"{{"decisionID":"5-{id}","term":5,"vector":{{"role-0":{first}{rest}}}}}"#)
}

fn target(first: i64, decision: &str) -> TargetState<'_> {
    let roles = (0..10)
        .map(|at| RoleCount {
            name: format!("role-{at}").into(),
            count: if at == 0 { first } else { 2 },
        })
        .collect();
    TargetState {
        namespace: "default",
        name: "llm",
        uid: "u",
        deleting: false,
        roles,
        binding: Some(BINDING),
        decision: Some(decision),
    }
}

fn verdicts(c: &mut Criterion) {
    let (before, after) = (decision("aaaaaaaa", 2), decision("bbbbbbbb", 3));
    let old = target(2, &before);
    let (counts, commit) = (target(3, &before), target(3, &after));
    c.bench_function("judge/image edit", |b| {
        b.iter(|| judge(Actor::User, black_box(Some(&old)), black_box(&old)));
    });
    c.bench_function("judge/refused count", |b| {
        b.iter(|| judge(Actor::User, black_box(Some(&old)), black_box(&counts)));
    });
    c.bench_function("judge/commit", |b| {
        b.iter(|| judge(Actor::Operator, black_box(Some(&old)), black_box(&commit)));
    });
}

criterion_group!(benches, verdicts);
criterion_main!(benches);
