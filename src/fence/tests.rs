//! Every row of both tables: the same file that the webhook and the real API server are put to.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::api::Term;

const UID: &str = "5d1c7a52-0df6-4a7c-8a86-0f2a4c9c7c01";

fn table() -> Value {
    serde_saphyr::from_str(include_str!("../../tests/cases/deployment.yaml")).unwrap()
}

fn payload(table: &Value, name: &Value) -> Option<String> {
    let name = name.as_str()?;
    let text = table["payloads"][name].as_str().unwrap();
    Some(
        text.replace("$UID", UID)
            .replace("$OTHER", "00000000-0000-4000-8000-000000000000"),
    )
}

fn state<'a>(
    roles: &'a BTreeMap<String, i64>,
    binding: Option<&'a str>,
    decision: Option<&'a str>,
    deleting: bool,
) -> TargetState<'a> {
    TargetState {
        namespace: "default",
        name: "t",
        uid: "u1",
        deleting,
        roles: roles
            .iter()
            .map(|(name, count)| RoleCount {
                name: name.into(),
                count: *count,
            })
            .collect(),
        binding,
        decision,
    }
}

/// The verdict on a row, its question answered.
fn verdict(table: &Value, row: &Value) -> Result<Allowed, Denial> {
    let before = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 2)]);
    let mut after = before.clone();
    for (name, count) in row["change"]["counts"].as_object().into_iter().flatten() {
        match count.as_i64() {
            Some(count) => drop(after.insert(name.clone(), count)),
            None => drop(after.remove(name)),
        }
    }
    let old_texts = ["binding", "decision"].map(|key| payload(table, &row["old"][key]));
    let mut new_texts = old_texts.clone();
    for (text, key) in new_texts.iter_mut().zip(["binding", "decision"]) {
        if let Some(change) = row["change"].get(key) {
            *text = payload(table, change);
        }
    }
    let deleting = row["deleting"].as_bool().unwrap_or_default();
    let old = state(
        &before,
        old_texts[0].as_deref(),
        old_texts[1].as_deref(),
        deleting,
    );
    let new = state(
        &after,
        new_texts[0].as_deref(),
        new_texts[1].as_deref(),
        deleting,
    );
    let actor = if row["by"] == "operator" {
        Actor::Operator
    } else {
        Actor::User
    };
    match judge(actor, (row["create"] != true).then_some(&old), &new) {
        Verdict::Allow(allowed) => Ok(allowed),
        Verdict::Deny(denial) => Err(denial),
        Verdict::Ask(question) => {
            let scaler = &table["scalers"][row["scaler"].as_str().unwrap_or_default()];
            if let Some(why) = scaler["unreadable"].as_str() {
                return Err(question.unreadable(why));
            }
            let facts = ScalerFacts {
                uid: UID,
                active: scaler["mode"] == "Active",
                suspended: scaler["suspend"] == true,
                deleting: false,
                finalizer: true,
                target_name: "t",
                binding: Some(StatusBinding {
                    target_uid: "u1",
                    term: scaler["term"].as_i64().and_then(Term::new),
                }),
            };
            let exists = question.scaler() == "s" && !scaler.is_null();
            question.answer(exists.then_some(&facts))
        }
    }
}

#[test]
fn every_row_of_the_table_has_its_verdict_code_and_words() {
    let table = table();
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.len() > 50, "{} rows", rows.len());
    for row in rows {
        let name = row["row"].as_str().unwrap();
        let found = verdict(&table, row);
        match (row["reason"].as_str(), found) {
            (None, Ok(_)) => {}
            (Some(reason), Err(denial)) => {
                assert_eq!(denial.reason.as_str(), reason, "{name}: {denial}");
                assert_eq!(
                    u64::from(denial.reason.code()),
                    row["code"].as_u64().unwrap(),
                    "{name}"
                );
                for word in row["says"].as_array().into_iter().flatten() {
                    assert!(
                        denial
                            .message
                            .contains(word.as_str().unwrap_or(&word.to_string())),
                        "{name}: {denial}"
                    );
                }
            }
            (wanted, found) => panic!("{name}: wanted {wanted:?}, found {found:?}"),
        }
    }
}

mod payloads {
    use super::*;

    #[test]
    fn only_one_strict_object_is_a_binding() {
        let good = r#"{"scalerName":"s","scalerUID":"u","term":1}"#;
        assert_eq!(Binding::parse(good).unwrap().to_text(), good);
        assert!(
            Binding::parse(
                r#" {"x":[1],"scalerName":"s.x","scalerUID":"u","term":9223372036854775807} "#
            )
            .is_ok()
        );
        let at_limit = format!("{good}{}", " ".repeat(payload::MAX_BYTES - good.len()));
        assert!(Binding::parse(&at_limit).is_ok());
        assert!(Binding::parse(&format!("{at_limit} ")).is_err());
        for bad in [
            "",
            "null",
            "[]",
            r#"["s","u",1]"#,
            "{}",
            "not JSON",
            r#"{"scalerName":"s","scalerUID":"u","term":1}x"#,
            r#"{"scalerName":"s","scalerUID":"u","term":1,"term":1}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":1,"t\u0065rm":2}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":1,"x":1,"x":1}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":1.0}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":1e0}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":"1"}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":0}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":-1}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":9223372036854775808}"#,
            r#"{"scalerName":"s","scalerUID":"u","term":null}"#,
            r#"{"scalerName":"S","scalerUID":"u","term":1}"#,
            r#"{"scalerName":"-a","scalerUID":"u","term":1}"#,
            r#"{"scalerName":"a..b","scalerUID":"u","term":1}"#,
            r#"{"scalerName":"","scalerUID":"u","term":1}"#,
            r#"{"scalerName":"s","scalerUID":"","term":1}"#,
            r#"{"scalerName":"s","term":1}"#,
        ] {
            assert!(Binding::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_one_strict_object_is_a_decision() {
        let good = r#"{"decisionID":"1-x","term":1,"vector":{"a":1,"b":1024}}"#;
        assert_eq!(Decision::parse(good).unwrap().to_text(), good);
        assert!(Decision::parse(good).unwrap().is_prefixed());
        for (id, prefixed) in [
            ("1-", false),
            ("2-x", false),
            ("01-x", false),
            ("x", false),
            ("1-a-b", true),
        ] {
            let text = good.replace("1-x", id);
            assert_eq!(
                Decision::parse(&text).unwrap().is_prefixed(),
                prefixed,
                "{id}"
            );
        }
        for bad in [
            r#""vector":{}"#,
            r#""vector":{"a":0}"#,
            r#""vector":{"a":1025}"#,
            r#""vector":{"a":1.0}"#,
            r#""vector":{"a":"1"}"#,
            r#""vector":{"a":1,"a":1}"#,
            r#""vector":[1]"#,
            r#""vector":null"#,
        ] {
            let text = format!(r#"{{"decisionID":"1-x","term":1,{bad}}}"#);
            assert!(Decision::parse(&text).is_err(), "{text}");
        }
        assert!(Decision::parse(&good.replace("1-x", "")).is_err());
    }

    #[test]
    fn a_renewal_rewrites_the_term_and_no_other_byte() {
        let text =
            r#"{ "b":{"term":7}, "t\u0065rm" : 5 , "scalerUID":"u","scalerName":"s","a":1e9}"#;
        assert_eq!(
            Binding::with_term(text, Term::new(12).unwrap()).unwrap(),
            r#"{ "b":{"term":7}, "t\u0065rm" : 12 , "scalerUID":"u","scalerName":"s","a":1e9}"#
        );
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;
    use crate::api::{BINDING_ANNOTATION, Deployment, Replicas, Vector};

    fn annotation() -> impl Strategy<Value = Option<String>> {
        prop_oneof![
            2 => Just(None),
            1 => ".{0,40}".prop_map(Some),
            6 => ("[st]", "[uv]", 1..4_i64).prop_map(|(name, uid, term)| Some(
                format!(r#"{{"scalerName":"{name}","scalerUID":"{uid}","term":{term}}}"#))),
            6 => ("[1-3]", "[xy]", 1..4_i64, 1..4_i64, 1..4_i64).prop_map(|(head, tail, term, a, b)| Some(
                format!(r#"{{"decisionID":"{head}-{tail}","term":{term},"vector":{{"a":{a},"b":{b}}}}}"#))),
        ]
    }

    type Sample = (Vec<(String, i64)>, Option<String>, Option<String>, bool);

    fn sample() -> impl Strategy<Value = Sample> {
        (
            proptest::collection::vec(("[abc]", 1..4_i64), 0..4),
            annotation(),
            annotation(),
            any::<bool>(),
        )
    }

    fn view(sample: &Sample) -> TargetState<'_> {
        let roles = sample
            .0
            .iter()
            .map(|(name, count)| RoleCount {
                name: name.into(),
                count: *count,
            })
            .collect();
        let (binding, decision) = (sample.1.as_deref(), sample.2.as_deref());
        TargetState {
            namespace: "d",
            name: "t",
            uid: "u1",
            deleting: sample.3,
            roles,
            binding,
            decision,
        }
    }

    fn actor() -> impl Strategy<Value = Actor> {
        prop_oneof![Just(Actor::User), Just(Actor::Operator)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_stays_the_same_is_allowed_to_everybody(actor in actor(), s in sample()) {
            prop_assert_eq!(judge(actor, Some(&view(&s)), &view(&s)), Verdict::Allow(Allowed::Untouched));
        }

        #[test]
        fn the_order_of_roles_is_nothing(actor in actor(), a in sample(), b in sample()) {
            let mut turned = view(&b);
            turned.roles.reverse();
            let outcome = |verdict| match verdict {
                Verdict::Deny(denial) => Err(denial.reason),
                Verdict::Allow(allowed) => Ok(Some(allowed)),
                Verdict::Ask(_) => Ok(None),
            };
            prop_assert_eq!(
                outcome(judge(actor, Some(&view(&a)), &view(&b))),
                outcome(judge(actor, Some(&view(&a)), &turned))
            );
        }

        #[test]
        fn bound_counts_move_only_with_a_decision_that_states_them(actor in actor(), a in sample(), b in sample()) {
            let (old, new) = (view(&a), view(&b));
            let owner = old.binding.and_then(|text| Binding::parse(text).ok());
            let moved = old.roles.iter().any(|role| new.count(&role.name) != Some(role.count))
                && old.roles.iter().all(|role| old.count(&role.name).is_some());
            if let Some(owner) = owner && moved {
                match judge(actor, Some(&old), &new) {
                    Verdict::Deny(_) => {}
                    Verdict::Allow(Allowed::Commit) => {
                        let decision = Decision::parse(new.decision.unwrap()).unwrap();
                        prop_assert_eq!(actor, Actor::Operator);
                        prop_assert_eq!(decision.term, owner.term);
                        prop_assert_eq!(decision.vector.len(), new.roles.len());
                        for role in &new.roles {
                            prop_assert_eq!(i64::from(decision.vector[&*role.name]), role.count);
                        }
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }

        #[test]
        fn a_user_takes_a_binding_only_from_an_absent_scaler(a in sample(), b in sample()) {
            let (old, mut new) = (view(&a), view(&b));
            new.binding = None;
            if old.binding.is_some_and(|text| Binding::parse(text).is_ok()) {
                match judge(Actor::User, Some(&old), &new) {
                    Verdict::Deny(_) => {}
                    Verdict::Ask(question) => {
                        prop_assert_eq!(question.answer(None), Ok(Allowed::OrphanRecovery));
                        prop_assert!(old.same_vector(&new));
                    }
                    Verdict::Allow(other) => prop_assert!(false, "{other:?}"),
                }
            }
        }

        #[test]
        fn a_built_commit_applies_and_is_allowed(
            counts in proptest::collection::btree_map("[a-f]{1,3}", (proptest::option::of(1..=1024_i64), 1..=1024_i64), 1..10),
            term in 1..100_i64,
        ) {
            let term = Term::new(term).unwrap();
            let roles: Vec<Value> = counts.iter().map(|(name, (old, _))| match old {
                Some(old) => serde_json::json!({"name": name, "replicas": old, "image": "i"}),
                None => serde_json::json!({"name": name}),
            }).collect();
            let free = serde_json::json!({"metadata": {"name": "t", "uid": "u1", "resourceVersion": "7"}, "spec": {"roles": roles}});
            let apply = |object: &Value, patch: &json_patch::Patch| {
                let mut object = object.clone();
                json_patch::patch(&mut object, patch).unwrap();
                object
            };
            let read = |object: &Value| serde_json::from_value::<Deployment>(object.clone()).unwrap();
            let judged = |old: &Value, new: &Value| judge(
                Actor::Operator, Some(&commit::state_of(&read(old))), &commit::state_of(&read(new)));

            let bound = apply(&free, &commit::acquire(&read(&free), "s", "u", term));
            let Verdict::Ask(question) = judged(&free, &bound) else { panic!("an Acquire asks") };
            let facts = ScalerFacts { uid: "u", active: true, suspended: false, deleting: false, finalizer: true,
                target_name: "t", binding: Some(StatusBinding { target_uid: "u1", term: Some(term) }) };
            prop_assert_eq!(question.answer(Some(&facts)), Ok(Allowed::Acquire));

            let vector: Vector = counts.iter().map(|(name, (_, new))| (name.clone(), Replicas::new(*new).unwrap())).collect();
            let id = DecisionId::new(term, "r").unwrap();
            let committed = apply(&bound, &commit::commit(&read(&bound), &id, term, &vector).unwrap());
            prop_assert_eq!(judged(&bound, &committed), Verdict::Allow(Allowed::Commit));

            let next = term.next().unwrap();
            let renewed = apply(&committed, &commit::renew(&read(&committed), next).unwrap());
            prop_assert!(matches!(judged(&committed, &renewed), Verdict::Ask(_)));
            let released = apply(&renewed, &commit::release(&read(&renewed)).unwrap());
            prop_assert!(released["metadata"]["annotations"].get(BINDING_ANNOTATION).is_none());
            let Verdict::Ask(question) = judged(&renewed, &released) else { panic!("a Release asks") };
            prop_assert_eq!(question.answer(None), Ok(Allowed::Release));
        }
    }
}
