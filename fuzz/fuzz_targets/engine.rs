//! Any two bodies as two scrapes of one Pod, in each kind of role: no panic, no number that is none, nothing that the
//! second scrape could say of a time before the first.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mds::api::RoleKind;
use mds::signal::engine::{Collector, Engine, Sample};
use mds::signal::role::{Role, Roster};
use mds::signal::window::Window;
use mds::signal::{Latency, SignalState};

fn check(sample: &Sample) {
    assert!(sample.points().is_sorted_by(|a, b| a.key_cmp(b).is_lt()));
    assert!(
        sample
            .points()
            .iter()
            .all(|point| point.value.is_finite() && point.value >= 0.0)
    );
    // A body against itself: nothing moved.
    let still = Window::between(sample, sample, Duration::from_secs(1)).unwrap();
    assert!(
        still
            .prompt
            .is_none_or(|demand| demand.rate.is_zero() && !demand.clamped)
    );
    assert!(still.generation.is_none_or(|rate| rate.is_zero()));
}

fuzz_target!(|input: (&[u8], &[u8], Option<bool>)| {
    let (first, second, declared) = input;
    let declared = declared.map(|vllm| if vllm { Engine::Vllm } else { Engine::Sglang });
    let mut collector = Collector::default();
    let mut role = Role::default();
    for (at, body) in [(1, first), (16, second)] {
        let sample = collector.sample(body, declared);
        if let Ok(sample) = &sample {
            check(sample);
        }
        role.record("pod", "1", Duration::from_secs(at), sample);
    }
    for kind in [
        RoleKind::Server,
        RoleKind::Prefill,
        RoleKind::Decode,
        RoleKind::Encode,
    ] {
        let roster = Roster {
            kind,
            ready: 1,
            expected: &["pod"],
            interval: Duration::from_secs(15),
        };
        let seen = role.observe(&roster, Duration::from_secs(16));
        assert!(seen.cache_use.value().is_none_or(|used| used >= 0.0));
        if seen.signal == SignalState::Idle {
            assert_eq!(seen.running.value(), Some(0));
            assert!(!matches!(seen.ttft, Latency::Missing));
        }
        if seen.coverage.is_complete() {
            assert_eq!(seen.coverage.answered, 1);
            assert!(
                seen.signal == SignalState::Idle
                    || seen.signal == SignalState::Fresh
                    || kind == RoleKind::Encode
            );
        }
    }
});
