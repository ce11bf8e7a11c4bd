//! Any bytes as an exposition. Lines together must read as each of them alone: the fast paths are not to be seen.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mds::signal::exposition::{MAX_BAD_LINES, Reader, Series, read};

/// Names of one letter are wanted.
#[derive(Default)]
struct Notes {
    series: Vec<(u8, Option<u64>, u64, Vec<(Vec<u8>, Vec<u8>)>)>,
    bad: u32,
}

impl Reader for Notes {
    type Name = u8;

    fn name(&mut self, name: &[u8]) -> Option<u8> {
        match name {
            [letter @ b'a'..=b'f'] => Some(*letter),
            _ => None,
        }
    }

    fn declared(&mut self, _: &[u8]) {}

    fn series(&mut self, series: Series<'_, u8>) {
        let labels = series
            .labels
            .iter()
            .filter(|(name, _)| !(series.le.is_some() && name == b"le"));
        self.series.push((
            series.name,
            series.le.map(f64::to_bits),
            series.value.to_bits(),
            labels
                .map(|(name, value)| (name.to_vec(), value.to_vec()))
                .collect(),
        ));
    }

    fn bad(&mut self, _: u8) {
        self.bad += 1;
    }
}

fuzz_target!(|body: &[u8]| {
    let mut together = Notes::default();
    let outcome = read(body, &mut together);
    let Ok(summary) = outcome else { return };
    assert!(body.is_empty() || body.ends_with(b"\n"));
    assert!(summary.bad <= MAX_BAD_LINES);
    let mut alone = Notes::default();
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let comment = line.trim_ascii();
        if comment
            .strip_prefix(b"#")
            .is_some_and(|text| text != text.trim_ascii() && text.trim_ascii() == b"EOF")
        {
            break;
        }
        read(line, &mut alone).unwrap();
    }
    assert_eq!(together.series, alone.series);
    assert_eq!(together.bad, alone.bad);
});
