//! The decision annotation: no bytes panic, and what parses is written back to what it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mds::fence::Decision;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(decision) = Decision::parse(text) else {
        return;
    };
    assert!(!decision.id.is_empty() && !decision.vector.is_empty());
    // Escapes may grow when written; what still fits reads back.
    let written = decision.to_text();
    if written.len() <= mds::fence::payload::MAX_BYTES {
        assert_eq!(Decision::parse(&written).ok().as_ref(), Some(&decision));
    }
});
