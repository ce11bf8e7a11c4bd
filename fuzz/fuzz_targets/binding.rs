//! The binding annotation: no bytes panic, what parses is written back to what it was, and a renewal moves the term alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mds::fence::Binding;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(binding) = Binding::parse(text) else {
        return;
    };
    assert!(text.len() <= mds::fence::payload::MAX_BYTES);
    let written = binding.to_text();
    if written.len() <= mds::fence::payload::MAX_BYTES {
        assert_eq!(Binding::parse(&written).ok().as_ref(), Some(&binding));
    }
    assert_eq!(
        Binding::with_term(text, binding.term).ok().as_deref(),
        Some(text)
    );
    if let Some(next) = binding.term.next() {
        // A term of one more digit may pass the limit of length; otherwise it reads back.
        if let Ok(renewed) = Binding::with_term(text, next)
            && renewed.len() <= mds::fence::payload::MAX_BYTES
        {
            let read: Binding<'_> = Binding::parse(&renewed).expect("a renewed binding parses");
            assert_eq!(
                (read.scaler_name, read.scaler_uid, read.term),
                (binding.scaler_name, binding.scaler_uid, next)
            );
        }
    }
});
