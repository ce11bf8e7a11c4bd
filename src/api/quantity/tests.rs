use proptest::prelude::*;

use super::*;

fn nanos(text: &str) -> Result<i128, QuantityError> {
    Quantity::from(text).nanos().map(Nanos::get)
}

#[test]
fn every_form_of_the_grammar_reads_exactly() {
    for (text, expected) in [
        ("0", 0),
        ("-0", 0),
        ("0.000", 0),
        ("1", 1_000_000_000),
        ("+1", 1_000_000_000),
        ("007", 7_000_000_000),
        ("0.5", 500_000_000),
        (".5", 500_000_000),
        ("5.", 5_000_000_000),
        ("1.G", 1_000_000_000_000_000_000),
        ("-0.1", -100_000_000),
        ("500m", 500_000_000),
        ("1n", 1),
        ("1u", 1_000),
        ("2k", 2_000_000_000_000),
        ("2M", 2_000_000_000_000_000),
        ("3T", 3_000_000_000_000_000_000_000),
        ("3P", 3_000_000_000_000_000_000_000_000),
        ("5E", 5_000_000_000_000_000_000_000_000_000),
        ("5E3", 5_000_000_000_000),
        ("5e3", 5_000_000_000_000),
        ("5E+3", 5_000_000_000_000),
        ("1e-1", 100_000_000),
        ("1E-9", 1),
        ("1Ki", 1_024_000_000_000),
        ("1Mi", 1_048_576_000_000_000),
        ("1Gi", 1_073_741_824_000_000_000),
        ("1Ti", 1_099_511_627_776_000_000_000),
        ("1Pi", 1_125_899_906_842_624_000_000_000),
        ("1Ei", 1_152_921_504_606_846_976_000_000_000),
        ("0.5Ki", 512_000_000_000),
        ("0.333333333", 333_333_333),
        ("100000000000000000000e-12", 100_000_000_000_000_000),
    ] {
        assert_eq!(nanos(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_lies_below_a_nano_is_rounded_away_from_zero() {
    for (text, expected) in [
        ("0.0000000001", 1),
        ("-0.0000000001", -1),
        ("1.0000000001", 1_000_000_001),
        ("1.00000000000000000000", 1_000_000_000),
        ("0.1n", 1),
        ("1e-400", 1),
        ("1e-99999999999999999999", 1),
        ("0.00000000001Ki", 11),
        ("0.0000000000009765625Ki", 1),
        (
            "0.00000000000097656250000000000000000000000000000000000000001Ki",
            2,
        ),
        (
            "0.00000000000000000000000000000000000000000000000000000000001Ei",
            1,
        ),
        (
            "1.0000000000000000000000000000000000000000000000000000000001Ei",
            1_152_921_504_606_846_976_000_000_001,
        ),
    ] {
        assert_eq!(nanos(text), Ok(expected), "{text}");
    }
}

#[test]
fn the_largest_quantity_is_2_to_the_63_less_one() {
    assert_eq!(nanos("9223372036854775807"), Ok(Nanos::MAX.get()));
    assert_eq!(nanos("-9223372036854775807"), Ok(-Nanos::MAX.get()));
    assert_eq!(nanos("7.99Ei"), Ok(9_211_842_821_808_707_338_240_000_000));
    for text in [
        "9223372036854775808",
        "-9223372036854775808",
        "9223372036854775807.0000000001",
        "1e400",
        "1e99999999999999999999",
        "10E",
        "8Ei",
        "99999999999999999999999999999999999999999999999999999999999999",
        "9999999999999999999Ei",
    ] {
        assert_eq!(nanos(text), Err(QuantityError::TooLarge), "{text}");
    }
    assert_eq!(nanos("0e400"), Ok(0));
}

#[test]
fn what_is_not_in_the_grammar_is_malformed() {
    for text in [
        "", "+", "-", ".", "-.", "Ki", "m", "abc", " 1", "1 ", "1K", "1ki", "1KI", "1mi", "1e",
        "1e+", "1e1.5", "1e.5", "1ee3", "1E3k", "1Eik", "--1", "+-1", "1.2.3", "1,5", "0x10",
        "1_000", "\u{661}", "NaN", "Infinity", "1n\0", "½",
    ] {
        assert_eq!(nanos(text), Err(QuantityError::Malformed), "{text:?}");
    }
}

#[test]
fn sixty_four_characters_fit_and_65_do_not() {
    assert_eq!(nanos(&format!("{}1", "0".repeat(63))), Ok(1_000_000_000));
    assert_eq!(nanos(&format!("0.{}1", "0".repeat(61))), Ok(1));
    assert_eq!(nanos(&"0".repeat(65)), Err(QuantityError::TooLong));
    assert_eq!(nanos(&"é".repeat(64)), Err(QuantityError::Malformed));
    assert_eq!(nanos(&"é".repeat(65)), Err(QuantityError::TooLong));
}

#[test]
fn errors_say_what_to_write() {
    assert_eq!(
        QuantityError::Malformed.to_string(),
        r#"not a quantity: write "0.5", "500m" or "8""#
    );
    assert_eq!(
        QuantityError::TooLarge.to_string(),
        "too large: the largest quantity is 9223372036854775807"
    );
    assert_eq!(
        QuantityError::TooLong.to_string(),
        "too long: a quantity has at most 64 characters"
    );
}

#[test]
fn a_quantity_is_stored_as_it_was_written() {
    for json in [
        r#""0.50""#,
        "8",
        "-3",
        r#""not yet judged""#,
        "9223372036854775807",
    ] {
        let quantity: Quantity = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&quantity).unwrap(), json);
    }
}

#[test]
fn a_number_with_a_fraction_is_refused_and_named() {
    let refusal = |json| {
        serde_json::from_str::<Quantity>(json)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal("0.1"),
        r#"0.1 is not an integer: write it in quotes, "0.1" at line 1 column 3"#
    );
    assert_eq!(
        refusal("8.0"),
        r#"8.0 is not an integer: write it in quotes, "8" at line 1 column 3"#
    );
    assert_eq!(
        refusal("9223372036854775808"),
        "9223372036854775808: too large: the largest quantity is 9223372036854775807 at line 1 column 19"
    );
    assert_eq!(
        refusal("true"),
        r#"invalid type: boolean `true`, expected a quantity: a string such as "0.5" or "500m", or an integer at line 1 column 4"#
    );
}

#[test]
fn nanos_display_as_the_shortest_decimal() {
    for (nanos, text) in [
        (0, "0"),
        (500_000_000, "0.5"),
        (8_000_000_000, "8"),
        (1, "0.000000001"),
        (-1, "-0.000000001"),
        (-1_250_000_000, "-1.25"),
        (83_333_333, "0.083333333"),
        (10_000_000_010, "10.00000001"),
    ] {
        assert_eq!(Nanos::new(nanos).to_string(), text);
    }
}

#[test]
fn the_schema_has_two_keys_and_no_description() {
    #[expect(dead_code, reason = "only its schema is read")]
    #[derive(JsonSchema)]
    struct Holder {
        /// Of the field.
        required: Quantity,
        optional: Option<Quantity>,
    }
    let schema = schemars::generate::SchemaSettings::openapi3()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(kube::core::schema::OptionalIntOrString)
        .into_generator()
        .into_root_schema_for::<Holder>();
    let field = |name: &str| &schema.as_value()["properties"][name];
    assert_eq!(
        field("required"),
        &serde_json::json!({ "description": "Of the field.", "x-kubernetes-int-or-string": true, "pattern": PATTERN })
    );
    assert_eq!(field("optional")["pattern"], PATTERN);
    assert_eq!(field("optional")["x-kubernetes-int-or-string"], true);
    assert_eq!(field("optional").get("description"), None);
}

/// What the text means, by schoolbook arithmetic on decimal strings: an independent and slow reading.
fn schoolbook(whole: &str, fraction: &str, doublings: u32, exponent: i32) -> String {
    let mut digits: Vec<u32> = whole
        .chars()
        .chain(fraction.chars())
        .filter_map(|c| c.to_digit(10))
        .collect();
    for _ in 0..doublings {
        let mut carry = 0;
        for digit in digits.iter_mut().rev() {
            (carry, *digit) = ((*digit * 2 + carry) / 10, (*digit * 2 + carry) % 10);
        }
        if carry > 0 {
            digits.insert(0, carry);
        }
    }
    let mut scale = exponent + 9 - i32::try_from(fraction.len()).unwrap();
    let mut up = false;
    while scale < 0 {
        up |= digits.pop().unwrap_or(0) > 0;
        scale += 1;
    }
    digits.extend(std::iter::repeat_n(0, usize::try_from(scale).unwrap()));
    if up {
        digits.insert(0, 0);
        for digit in digits.iter_mut().rev() {
            *digit = (*digit + 1) % 10;
            if *digit > 0 {
                break;
            }
        }
        if digits.iter().all(|&digit| digit == 0) {
            digits = vec![1];
        }
    }
    let text: String = digits
        .iter()
        .filter_map(|&digit| char::from_digit(digit, 10))
        .collect();
    let text = text.trim_start_matches('0');
    if text.is_empty() {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_equals_schoolbook_arithmetic(
        whole in "[0-9]{1,24}",
        fraction in "(0{0,20}[0-9]{0,16})?",
        suffix in prop::sample::select(vec![
            ("", 0, 0), ("n", 0, -9), ("u", 0, -6), ("m", 0, -3), ("k", 0, 3), ("M", 0, 6), ("G", 0, 9),
            ("T", 0, 12), ("P", 0, 15), ("E", 0, 18), ("Ki", 10, 0), ("Mi", 20, 0), ("Gi", 30, 0), ("Ti", 40, 0),
            ("Pi", 50, 0), ("Ei", 60, 0), ("e-7", 0, -7), ("E12", 0, 12), ("e-30", 0, -30),
        ]),
    ) {
        let (text, doublings, exponent) = suffix;
        let written = format!("{whole}.{fraction}{text}");
        prop_assume!(written.len() <= MAX_LENGTH);
        let exact = schoolbook(&whole, &fraction, doublings, exponent);
        let largest = Nanos::MAX.get().to_string();
        let expected = if (exact.len(), &exact) > (largest.len(), &largest) {
            Err(QuantityError::TooLarge)
        } else {
            Ok(exact.parse::<i128>().unwrap())
        };
        prop_assert_eq!(nanos(&written), expected);
    }

    #[test]
    fn a_displayed_number_reads_as_itself(nanos in -Nanos::MAX.get()..=Nanos::MAX.get()) {
        prop_assert_eq!(Nanos::new(nanos).to_string().parse(), Ok(Nanos::new(nanos)));
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = nanos(&text);
    }
}
