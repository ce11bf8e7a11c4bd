use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn keys(text: &str) -> Result<Vec<(String, String)>, ScanError> {
    let mut scan = Scan::new(text);
    let mut found = Vec::new();
    scan.object(|key, scan| {
        found.push((key.to_owned(), scan.raw()?.to_owned()));
        Ok(())
    })?;
    scan.end()?;
    Ok(found)
}

#[test]
fn fields_are_seen_in_order_with_the_text_of_their_values() {
    let found =
        keys(" { \"a\" : [1, {\"b\": \"]}\"}] ,\"c\\u0064\":\"x\\\"y\" , \"e\":-1.5e3 } ").unwrap();
    assert_eq!(
        found,
        [
            ("a".to_owned(), "[1, {\"b\": \"]}\"}]".to_owned()),
            ("cd".to_owned(), "\"x\\\"y\"".to_owned()),
            ("e".to_owned(), "-1.5e3".to_owned()),
        ]
    );
}

#[test]
fn what_is_no_json_is_an_error_that_says_where() {
    for (text, error) in [
        ("", ScanError::Truncated),
        ("{", ScanError::Truncated),
        ("{\"a\"", ScanError::Truncated),
        ("{\"a\":\"x", ScanError::Truncated),
        ("{\"a\":\"x\\", ScanError::Truncated),
        ("{\"a\":[1,{", ScanError::Truncated),
        ("{\"a\":[1}", ScanError::Syntax(7)),
        ("{\"a\" 1}", ScanError::Syntax(5)),
        ("{\"a\":1,}", ScanError::Syntax(7)),
        ("{\"a\":nil}", ScanError::Syntax(5)),
        ("{\"a\":x}", ScanError::Syntax(5)),
        ("[]", ScanError::Syntax(0)),
        ("{} {}", ScanError::Trailing(3)),
    ] {
        assert_eq!(keys(text), Err(error), "{text}");
    }
    assert_eq!(Scan::of_bytes(b"\xff").unwrap_err(), ScanError::NotUtf8);
}

#[test]
fn brackets_nest_to_128_as_in_serde_json() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(Scan::new(&nested(128)).skip(), Ok(()));
    assert_eq!(Scan::new(&nested(129)).skip(), Err(ScanError::TooDeep));
    let field = |depth: usize| format!("{{\"a\":{}}}", nested(depth));
    assert!(keys(&field(127)).is_ok());
    assert_eq!(keys(&field(128)), Err(ScanError::TooDeep));
}

#[test]
fn texts_are_the_same_json_whatever_order_escapes_and_white_space() {
    for (a, b) in [
        ("", ""),
        (r#"{"a":1,"b":[2]}"#, r#"{"b":[ 2 ],"a":1}"#),
        (r#"{"a":"x"}"#, r#"{"\u0061":"\u0078"}"#),
        ("[]", "[ ]"),
        ("{}", "{ }"),
        ("[1,{}]", "[1, { } ]"),
    ] {
        assert!(same_json(a, b), "{a} {b}");
    }
    for (a, b) in [
        ("", "{}"),
        (r#"{"a":1}"#, r#"{"a":"1"}"#),
        (r#"{"a":1}"#, r#"{"a":2}"#),
        (r#"{"a":1}"#, "{}"),
        (r#"{"a":1,"b":2}"#, r#"{"a":1}"#),
        ("[1]", "[1,2]"),
        ("[1,2]", "[2,1]"),
        ("null", "{}"),
        ("true", "false"),
        (r#"{"a":1,"b":[2]}"#, r#"{"b":[3],"a":1}"#),
    ] {
        assert!(!same_json(a, b), "{a} {b}");
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        "[\\\\\"\\n{}\\[\\],:é]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a\\\\\"]{0,10}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_passed_over_to_its_very_end(value in json(), pretty: bool, tail in "[ \\n]{0,3}[,}\\]]?") {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let whole = format!("{text}{tail}");
        let mut scan = Scan::new(&whole);
        prop_assert_eq!(scan.raw(), Ok(text.as_str()));
    }

    #[test]
    fn sameness_is_that_of_values(a in json(), b in json(), pretty: bool) {
        let text = |value: &Value| if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }.unwrap();
        prop_assert!(same_json(&text(&a), &serde_json::to_string(&a).unwrap()));
        prop_assert_eq!(same_json(&text(&a), &serde_json::to_string(&b).unwrap()), a == b);
    }

    #[test]
    fn a_truncated_value_is_never_passed_over(value in json(), cut in 0_usize..1000) {
        let text = serde_json::to_string(&value).unwrap();
        prop_assume!(text.starts_with(['{', '[', '"']));
        let mut end = text.len() * cut / 1000;
        while !text.is_char_boundary(end) { end -= 1; }
        prop_assert!(Scan::new(&text[..end]).skip().is_err());
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}:,\"\\\\ua0-9 tfn.é]{0,60}") {
        let _ = keys(&text);
        let _ = Scan::new(&text).skip();
        // What serde_json takes for an object, this does too.
        if let Ok(Value::Object(_)) = serde_json::from_str(&text) {
            prop_assert!(keys(&text).is_ok());
        }
    }

    #[test]
    fn the_first_quote_or_backslash_is_found(bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), any::<u8>()], 0..40), from in 0_usize..45) {
        let expected = bytes.iter().enumerate().skip(from).find(|(_, byte)| matches!(byte, b'"' | b'\\')).map(|(at, _)| at);
        prop_assert_eq!(quote_or_backslash(&bytes, from), expected);
    }
}
