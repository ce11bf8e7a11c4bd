use proptest::prelude::*;

use super::*;

/// Name, labels, `le`, value.
type Line = (String, Vec<(String, String)>, Option<f64>, f64);

/// A reader of the names that it is told, which writes down what it is shown.
#[derive(Default)]
struct Notes {
    wanted: &'static [&'static str],
    declared: Vec<String>,
    lines: Vec<Line>,
    bad: u32,
}

impl Reader for Notes {
    type Name = &'static str;

    fn name(&mut self, name: &[u8]) -> Option<&'static str> {
        self.wanted
            .iter()
            .copied()
            .find(|wanted| wanted.as_bytes() == name)
    }

    fn declared(&mut self, family: &[u8]) {
        self.declared.push(text(family));
    }

    fn series(&mut self, series: Series<'_, &'static str>) {
        let labels = series
            .labels
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        self.lines
            .push((series.name.to_owned(), labels, series.le, series.value));
    }

    fn bad(&mut self, _: &'static str) {
        self.bad += 1;
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn notes(body: &[u8]) -> (Notes, Result<Summary, Refusal>) {
    let mut notes = Notes {
        wanted: &["a", "b_bucket"],
        ..Notes::default()
    };
    let result = read(body, &mut notes);
    (notes, result)
}

/// The values of `a`, or the error.
fn values(body: &str) -> Result<Vec<f64>, Refusal> {
    let (notes, result) = notes(body.as_bytes());
    result.map(|_| notes.lines.iter().map(|line| line.3).collect())
}

#[test]
fn values_are_read_as_the_format_writes_them() {
    let table: &[(&str, f64)] = &[
        ("a 7\n", 7.0),
        ("a 7.0\n", 7.0),
        ("a{} 7\n", 7.0),
        ("a{x=\"1\"} 9278.0\n", 9278.0),
        ("a{x=\"1\"}9278.0\n", 9278.0),
        ("a 1.045282e+06\n", 1_045_282.0),
        ("a -0.5\n", -0.5),
        ("a +Inf\n", f64::INFINITY),
        ("a -inf\n", f64::NEG_INFINITY),
        ("   a { x = \"1\" , } 3   \n", 3.0),
        ("\ta\t3\t\n", 3.0),
        ("a 3\r\n", 3.0),
        ("a 3 1796098880\n", 3.0),
        ("a 3 1796098880.5 # {id=\"x # } y\"} 0.4\n", 3.0),
        ("a 3 # {id=\"x\"} 0.4 1796098880.5\n", 3.0),
        ("a 9007199254740993\n", 9_007_199_254_740_992.0),
        ("a 123456789012345.0\n", 123_456_789_012_345.0),
    ];
    for (body, expected) in table {
        let read = values(body);
        assert_eq!(
            read.as_ref()
                .map(|read| read.iter().map(|v| v.to_bits()).collect::<Vec<_>>()),
            Ok(vec![expected.to_bits()]),
            "{body}"
        );
    }
    assert!(values("a NaN\n").unwrap()[0].is_nan());
}

#[test]
fn a_bad_line_costs_itself() {
    for bad in [
        "a",
        "a ",
        "a x",
        "a 0x10",
        "a 1_000",
        "a 7 garbage",
        "a{x=\"1\" 7",
        "a{x=1} 7",
        "a{=\"1\"} 7",
        "a{x=\"1} 7",
        "a{x=\"1\\",
        "a{x=\"1\"}",
        "a{x=\"1\"}}",
        "a{x=\"1\"y=\"2\"} 7",
        "a{,x=\"1\"} 7",
    ] {
        let (notes, result) = notes(format!("a 1\n{bad}\na 2\n").as_bytes());
        assert_eq!(result, Ok(Summary { samples: 2, bad: 1 }), "{bad}");
        assert_eq!(notes.bad, 1);
    }
}

#[test]
fn six_bad_lines_cost_the_body() {
    assert_eq!(values(&"a x\n".repeat(5)), Ok(vec![]));
    assert_eq!(values(&"a x\n".repeat(6)), Err(Refusal::Malformed));
    assert_eq!(values(&"unwanted x\n".repeat(600)), Ok(vec![]));
}

#[test]
fn a_body_without_its_last_newline_is_no_sample() {
    assert_eq!(values("a 9278.0"), Err(Refusal::Truncated));
    assert_eq!(values("a 1\na 927"), Err(Refusal::Truncated));
    assert_eq!(values(""), Ok(vec![]));
    assert_eq!(values("\n\n\n"), Ok(vec![]));
}

#[test]
fn a_body_shorter_than_its_content_length_is_not_whole() {
    assert!(is_whole(10, None));
    assert!(is_whole(10, Some(10)));
    assert!(!is_whole(9, Some(10)));
}

#[test]
fn nothing_is_read_behind_the_end_of_an_openmetrics_body() {
    assert_eq!(values("a 1\n# EOF\na 2\n"), Ok(vec![1.0]));
    assert_eq!(values("a 1\n# EOF\r\na 2\n"), Ok(vec![1.0]));
    assert_eq!(values("a 1\n# EOFX\n#EOF\na 2\n"), Ok(vec![1.0, 2.0]));
}

#[test]
fn a_longer_name_is_another_name() {
    assert_eq!(
        values("a{x=\"1\"} 1\na_b{x=\"1\"} 2\nxa 3\na{x=\"2\"} 4\n"),
        Ok(vec![1.0, 4.0])
    );
}

#[test]
fn labels_keep_commas_braces_equals_signs_and_escapes_inside_their_values() {
    let (notes, result) = notes(b"a{x=\"q\\\"b\\\\c\\nd},{=#e\",y=\"\xff\"} 4\n");
    assert_eq!(result, Ok(Summary { samples: 1, bad: 0 }));
    let labels = &notes.lines[0].1;
    assert_eq!(labels[0], ("x".into(), "q\\\"b\\\\c\\nd},{=#e".into()));
    assert_eq!(labels[1], ("y".into(), "\u{fffd}".into()));
}

#[test]
fn declared_families_are_told_and_commented_lines_are_not_read() {
    let (notes, result) =
        notes(b"# HELP vllm:x Some text.\n# TYPE vllm:x gauge\n# TYPE vllm:y gauge\n# a comment\n#a 9\n# TYPE\n");
    assert_eq!(result, Ok(Summary::default()));
    assert_eq!(notes.declared, ["vllm:x", "vllm:y"]);
}

#[test]
fn buckets_are_read_wherever_le_stands() {
    let body = "b_bucket{e=\"0\",le=\"0.5\",m=\"x\"} 1.0\nb_bucket{e=\"0\",le=\"+Inf\",m=\"x\"} 2.0\n\
                b_bucket{le=\"1.0\",e=\"0\"} 3\nb_bucket{le=\"2.5\",e=\"0\"} 4 17\nb_bucket{le=\"5\",e=\"1\"} 5\n";
    let (notes, _) = notes(body.as_bytes());
    let read: Vec<_> = notes
        .lines
        .iter()
        .map(|line| (line.2.unwrap(), line.3))
        .collect();
    assert_eq!(
        read,
        [
            (0.5, 1.0),
            (f64::INFINITY, 2.0),
            (1.0, 3.0),
            (2.5, 4.0),
            (5.0, 5.0)
        ]
    );
}

#[test]
fn a_bucket_boundary_that_is_no_number_is_a_bad_line() {
    let (notes, result) =
        notes(b"b_bucket{le=\"1\"} 1\nb_bucket{le=\"x\"} 2\nb_bucket{le=\"1\\\"2\"} 3\n");
    assert_eq!(result, Ok(Summary { samples: 1, bad: 2 }));
    assert_eq!(notes.lines.len(), 1);
}

#[test]
fn caps_hold() {
    assert_eq!(values(&"\n".repeat(MAX_BODY)), Ok(vec![]));
    assert_eq!(values(&"\n".repeat(MAX_BODY + 1)), Err(Refusal::TooLarge));
    let long = format!("a{{x=\"{}\"}} 7\na 8\n", "y".repeat(MAX_LINE));
    let (notes, result) = notes(long.as_bytes());
    assert_eq!(
        (result, notes.lines.len()),
        (Ok(Summary { samples: 1, bad: 1 }), 1)
    );
    assert_eq!(values(&"a 1\n".repeat(20_000)).map(|v| v.len()), Ok(20_000));
    assert_eq!(values(&"a 1\n".repeat(20_001)), Err(Refusal::TooLarge));
}

/// A label value, as text and as written.
fn value_of_a_label() -> impl Strategy<Value = String> {
    "[a-z0-9 ,={}#:/\u{e9}-]{0,12}(\\\\[\\\\n\"])?[a-z}]{0,3}"
}

proptest! {
    /// The fast path must not be seen: lines of one histogram mixed with any others read as each alone.
    #[test]
    fn lines_together_read_as_each_alone(
        lines in prop::collection::vec((0..3usize, value_of_a_label(), 0..4usize, any::<bool>()), 1..12)
    ) {
        let lines: Vec<String> = lines.iter().map(|(shape, label, le, last)| {
            let le = ["0.5", "1", "+Inf", "x"][*le];
            match (shape, last) {
                (0, false) => format!("b_bucket{{le=\"{le}\",m=\"{label}\"}} 7.0\n"),
                (0, true) => format!("b_bucket{{m=\"{label}\",le=\"{le}\"}} 12.5\n"),
                (1, _) => format!("a{{m=\"{label}\"}} 3\n"),
                _ => format!("c{{m=\"{label}\"}} 3\n"),
            }
        }).collect();
        let (together, result) = notes(lines.concat().as_bytes());
        let alone: Vec<Notes> = lines.iter().map(|line| notes(line.as_bytes()).0).collect();
        let bad: u32 = alone.iter().map(|notes| notes.bad).sum();
        if bad <= MAX_BAD_LINES {
            prop_assert_eq!(result.map(|summary| summary.bad), Ok(bad));
            let values = |notes: &Notes| notes.lines.iter().map(|l| (l.0.clone(), l.2, l.3)).collect::<Vec<_>>();
            prop_assert_eq!(values(&together), alone.iter().flat_map(values).collect::<Vec<_>>());
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(body in prop::collection::vec(prop::sample::select(&b"ab_buckt{}le=\"\\,.# \n\r0179+-EOFHLPTY\xff"[..]), 0..200)) {
        let _ = notes(&body);
    }

    /// A number that was cut short would be a smaller number.
    #[test]
    fn a_cut_body_is_refused_or_gives_whole_numbers_only(values_written in prop::collection::vec(0..100_000u32, 1..6), cut in 0..200usize) {
        let lines: Vec<String> = values_written.iter().map(|v| format!("a{{x=\"{v}\"}} {v}.0\n")).collect();
        let body = lines.concat();
        let cut = cut.min(body.len());
        if let Ok(read) = values(&body[..cut]) {
            let whole: Vec<f64> = values_written.iter().map(|v| f64::from(*v)).collect();
            prop_assert_eq!(&read[..], &whole[..read.len()]);
        }
    }
}
