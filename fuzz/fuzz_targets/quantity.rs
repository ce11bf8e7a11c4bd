//! Any text as a quantity: it is refused, or its canonical form reads as the same number.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mds::api::quantity::{Nanos, Quantity};

fuzz_target!(|text: &str| {
    if let Ok(nanos) = Quantity::from(text).nanos() {
        assert!(nanos.get().abs() <= Nanos::MAX.get());
        assert_eq!(nanos.to_string().parse(), Ok(nanos), "{text:?}");
    }
});
