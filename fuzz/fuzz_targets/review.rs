//! Any bytes, posted to each of the four webhooks: as the whole body, and as the object inside a sound envelope.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use mds::admission::{Answer, Decision, Fact, Facts, Operator, Question, Verdict, Webhook, decide, uid_of};
use serde_json::Value;

const OPERATOR: &str = "mds";

fn answer(webhook: Webhook, body: &[u8], fact: &[u8]) -> Answer {
    let operator = Operator(OPERATOR.to_owned());
    let mut decision = decide(webhook, &operator, body);
    for _ in 0..4 {
        match decision {
            Decision::Answer(answer) => return answer,
            Decision::Ask(pending) => {
                let facts = pending.questions().iter().map(|question| match question {
                    Question::Target { .. } | Question::Scaler { .. } => match fact.first() {
                        None => Fact::Object(Ok(None)),
                        Some(0) => Fact::Object(Err("no answer".to_owned())),
                        Some(_) => Fact::Object(Ok(Some(Bytes::copy_from_slice(fact)))),
                    },
                    Question::HintScalersOf { .. } => Fact::Names(vec!["other".to_owned()]),
                    Question::HintBinding { .. } => Fact::Annotation(std::str::from_utf8(fact).ok().map(str::to_owned)),
                });
                let facts = Facts(facts.collect());
                decision = pending.answer(&facts);
            }
        }
    }
    panic!("asked for ever");
}

fn judge(webhook: Webhook, body: &[u8], fact: &[u8]) {
    let answer = answer(webhook, body, fact);
    let written: Value = serde_json::from_slice(&answer.body).expect("an answer is JSON");
    if answer.http == 400 {
        assert_eq!(answer.verdict, Verdict::Malformed);
        return;
    }
    assert_eq!(answer.http, 200);
    assert_eq!(written["response"]["uid"].as_str(), uid_of(body).as_deref());
    assert_eq!(answer.uid, uid_of(body));
    assert_eq!(written["response"]["allowed"] == true, answer.verdict == Verdict::Allowed);
    if webhook == Webhook::MutateScaler {
        assert_eq!(answer.verdict, Verdict::Allowed);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, data)) = data.split_first() else { return };
    let (body, fact) = data.split_at(data.iter().position(|&byte| byte == 0).unwrap_or(data.len()));
    // The byte that divides them belongs to neither.
    let fact = fact.get(1..).unwrap_or_default();
    let webhook = Webhook::ALL[usize::from(how) % 4];
    if how & 4 == 0 {
        judge(webhook, body, fact);
        return;
    }
    let (kind, sub) = match webhook {
        Webhook::MutateScaler | Webhook::ValidateScaler => ("ModelDeploymentScaler", ""),
        Webhook::ValidateScalerStatus => ("ModelDeploymentScaler", "status"),
        Webhook::ValidateDeployment => ("ModelDeployment", ""),
    };
    let by = if how & 8 == 0 { OPERATOR } else { "ann" };
    // The new and the old object, one after the other.
    let half = body.iter().position(|&byte| byte == b'\n').unwrap_or(body.len());
    let (new, old) = body.split_at(half);
    let operation = if old.is_empty() { "CREATE" } else { "UPDATE" };
    let mut review = format!(
        "{{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{{\"uid\":\"u\",\"operation\":\"{operation}\",\
         \"kind\":{{\"group\":\"worker.gpustack.ai\",\"kind\":\"{kind}\"}},\"subResource\":\"{sub}\",\"namespace\":\"n\",\"name\":\"s\",\
         \"userInfo\":{{\"username\":\"{by}\"}},\"object\":"
    )
    .into_bytes();
    review.extend_from_slice(new);
    if !old.is_empty() {
        review.extend_from_slice(b",\"oldObject\":");
        review.extend_from_slice(old);
    }
    review.extend_from_slice(b"}}");
    judge(webhook, &review, fact);
});
