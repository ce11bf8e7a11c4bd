//! What holds for every review, sound or not.

mod cases;

use cases::post::{OPERATOR, answer, object, patch_of, response, review};
use cases::{Case, Table};
use mds::admission::{Decision, Operator, Verdict, Webhook, decide, uid_of};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

fn table() -> &'static Table {
    static TABLE: std::sync::OnceLock<Table> = std::sync::OnceLock::new();
    TABLE.get_or_init(Table::read)
}

fn webhook() -> impl Strategy<Value = Webhook> {
    prop::sample::select(Webhook::ALL.to_vec())
}

/// A case with the objects that it submits.
fn submitted() -> impl Strategy<Value = (&'static Case, Value, Option<Value>)> {
    any::<Index>().prop_map(|index| {
        let table = table();
        let case = index.get(&table.cases);
        let new = object(&table.new_spec(case), case.meta.as_ref());
        let old = table
            .old_spec(case)
            .map(|spec| object(&spec, case.old_meta.as_ref()));
        (case, new, old)
    })
}

/// What has no place where it is put.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..2000).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.-]{0,4}".prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{}, null, 3])),
        Just(json!({"name": "server", "type": "Predictive", "value": -1})),
    ]
}

/// The pointers of every value in a document.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            pointers(
                value,
                &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                found,
            );
        }),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(i, value)| pointers(value, &format!("{at}/{i}"), found)),
        _ => {}
    }
}

fn spoil(object: &mut Value, index: Index, odd: Value) {
    let mut found = Vec::new();
    pointers(&object["spec"], "/spec", &mut found);
    pointers(&object["metadata"], "/metadata", &mut found);
    if let Some(place) = object.pointer_mut(index.get(&found).as_str()) {
        *place = odd;
    }
}

fn well_formed(body: &[u8], answer: &mds::admission::Answer) -> Result<(), TestCaseError> {
    let written: Value = serde_json::from_slice(&answer.body)
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    if answer.http == 400 {
        prop_assert_eq!(answer.verdict, Verdict::Malformed);
        prop_assert_eq!(&written["kind"], "Status");
        return Ok(());
    }
    prop_assert_eq!(answer.http, 200);
    prop_assert_eq!(&written["apiVersion"], "admission.k8s.io/v1");
    prop_assert_eq!(&written["kind"], "AdmissionReview");
    prop_assert_eq!(
        written["response"]["uid"].as_str().map(str::to_owned),
        uid_of(body)
    );
    prop_assert_eq!(answer.uid.clone(), uid_of(body));
    let allowed = answer.verdict == Verdict::Allowed;
    prop_assert_eq!(&written["response"]["allowed"], allowed);
    prop_assert_eq!(answer.reason.is_empty(), allowed);
    let status = &written["response"]["status"];
    if allowed {
        prop_assert!(status.is_null());
    } else {
        prop_assert_eq!(&status["reason"], answer.reason);
        prop_assert!(
            status["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty())
        );
        prop_assert!(matches!(
            status["code"].as_u64(),
            Some(403 | 409 | 422 | 503)
        ));
    }
    prop_assert!(answer.body.len() < 64 << 10);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_get_an_answer(webhook in webhook(), body in prop::collection::vec(any::<u8>(), 0..200)) {
        let Decision::Answer(answer) = decide(webhook, &Operator(OPERATOR.to_owned()), &body) else {
            return Err(TestCaseError::fail("asked about garbage"));
        };
        prop_assert_eq!(answer.http, 400);
        well_formed(&body, &answer)?;
    }

    #[test]
    fn a_review_with_broken_bytes_gets_an_answer(
        (case, new, old) in submitted(),
        webhook in webhook(),
        edits in prop::collection::vec((any::<Index>(), 0_usize..3, prop::sample::select(b"{}[]\",:\\0a-\n\xff".to_vec())), 1..6),
    ) {
        let mut body = review(case, &new, old.as_ref());
        for (index, how, byte) in edits {
            let at = index.index(body.len());
            match how {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                _ => { body.remove(at); }
            }
        }
        if let Decision::Answer(answer) = decide(webhook, &Operator(OPERATOR.to_owned()), &body) {
            well_formed(&body, &answer)?;
        }
    }

    #[test]
    fn a_truncated_review_is_malformed((case, new, old) in submitted(), end: Index) {
        let body = review(case, &new, old.as_ref());
        let body = &body[..end.index(body.len())];
        for webhook in Webhook::ALL {
            let Decision::Answer(answer) = decide(webhook, &Operator(OPERATOR.to_owned()), body) else {
                return Err(TestCaseError::fail("asked about a part"));
            };
            prop_assert_eq!(answer.verdict, Verdict::Malformed);
            well_formed(body, &answer)?;
        }
    }

    #[test]
    fn an_object_with_an_odd_value_is_judged_and_a_dry_run_is_judged_the_same(
        (case, mut new, old) in submitted(),
        odds in prop::collection::vec((any::<Index>(), odd()), 1..4),
    ) {
        for (index, odd) in odds {
            spoil(&mut new, index, odd);
        }
        let mut case = case.clone();
        // The facts do not depend on the spec that was spoiled.
        if case.target == Some(json!("unasked")) {
            case.target = None;
        }
        let body = review(&case, &new, old.as_ref());
        let answered = answer(Webhook::ValidateScaler, table(), &case, &body);
        well_formed(&body, &answered)?;
        let dry = String::from_utf8(body).unwrap().replace("\"dryRun\":false", "\"dryRun\":true");
        prop_assert_eq!(answer(Webhook::ValidateScaler, table(), &case, dry.as_bytes()), answered);
    }

    #[test]
    fn defaults_never_deny_and_applied_to_their_own_result_they_add_nothing(
        (case, mut new, old) in submitted(),
        odds in prop::collection::vec((any::<Index>(), odd()), 0..4),
    ) {
        for (index, odd) in odds {
            spoil(&mut new, index, odd);
        }
        let body = review(case, &new, old.as_ref());
        let answered = answer(Webhook::MutateScaler, table(), case, &body);
        well_formed(&body, &answered)?;
        if answered.http == 400 {
            // Metadata that is none: the API server never sends that.
            return Ok(());
        }
        prop_assert_eq!(answered.verdict, Verdict::Allowed);
        let patch = patch_of(&response(&answered));
        json_patch::patch(&mut new, &patch).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let again = answer(Webhook::MutateScaler, table(), case, &review(case, &new, old.as_ref()));
        prop_assert!(patch_of(&response(&again)).0.is_empty());
    }
}
