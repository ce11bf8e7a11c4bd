//! Any text as the API server's `timeout` parameter: a day at most, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mds::serve::deadline::{Deadline, go_duration};
use std::time::{Duration, Instant};

fuzz_target!(|text: &str| {
    if let Some(duration) = go_duration(text) {
        assert!(duration <= Duration::from_hours(24));
    }
    let now = Instant::now();
    assert!(Deadline::of(now, Some(text)).instant() <= now + Duration::from_secs(9));
});
