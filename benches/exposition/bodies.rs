//! Bodies to measure with: recorded ones where they are to be had, and always one that is made here.

use std::fmt::Write;
use std::path::PathBuf;

/// A body and what to call it.
pub(crate) struct Body {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// The made body of about 300 KiB, then the recorded ones.
pub(crate) fn bodies() -> Vec<Body> {
    let mut bodies = vec![Body {
        name: "made-300KiB",
        bytes: made(300 << 10, 0),
    }];
    let recorded = [
        "vllm-0.32.0-live-load3.prom",
        "sglang-0.5.23-live-dp2-load2.prom",
        "sglang-0.5.23-rendered-dpattn8.prom",
    ];
    for name in recorded {
        if let Some(bytes) = read(name) {
            bodies.push(Body { name, bytes });
        }
    }
    bodies
}

fn read(name: &str) -> Option<Vec<u8>> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let told = std::env::var_os("MDS_DATA").map(PathBuf::from);
    told.into_iter()
        .chain([here.join("../shared/data"), here.join("../../shared/data")])
        .find_map(|data| std::fs::read(data.join("expositions").join(name)).ok())
}

/// An SGLang body of at least `size` bytes after so many seconds of work: what is wanted in its true proportion, one
/// line in eight, among histograms that are not.
pub(crate) fn made(size: usize, seconds: u32) -> Vec<u8> {
    let mut body = String::with_capacity(size + 8192);
    let ranks = "moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"";
    let model = "engine_type=\"unified\",model_name=\"a-model-of-usual-name\"";
    for (gauge, value) in [
        ("num_running_reqs", 24),
        ("num_queue_reqs", 3),
        ("num_used_tokens", 90_112),
    ] {
        let _ = writeln!(
            body,
            "# HELP sglang:{gauge} A gauge.\n# TYPE sglang:{gauge} gauge"
        );
        let _ = writeln!(body, "sglang:{gauge}{{{model},{ranks}}} {value}.0");
    }
    let _ = writeln!(body, "# TYPE sglang:realtime_tokens_total counter");
    for (mode, rate) in [("prefill_compute", 2000), ("decode", 600)] {
        let _ = writeln!(
            body,
            "sglang:realtime_tokens_total{{{model},mode=\"{mode}\",{ranks}}} {}.0",
            rate * seconds
        );
    }
    for family in ["time_to_first_token_seconds", "inter_token_latency_seconds"] {
        histogram(&mut body, family, model, 20, seconds * 100);
    }
    let mut family = 0;
    while body.len() < size {
        histogram(
            &mut body,
            &format!("per_stage_{family}_latency_seconds"),
            model,
            20,
            seconds * 7,
        );
        family += 1;
    }
    body.into_bytes()
}

fn histogram(body: &mut String, family: &str, labels: &str, boundaries: u32, count: u32) {
    let _ = writeln!(
        body,
        "# HELP sglang:{family} A histogram.\n# TYPE sglang:{family} histogram"
    );
    let _ = writeln!(body, "sglang:{family}_sum{{{labels}}} {}.25", count / 3);
    for boundary in 1..=boundaries {
        let le = f64::from(boundary) / 10.0;
        let _ = writeln!(
            body,
            "sglang:{family}_bucket{{engine_type=\"unified\",le=\"{le:?}\",model_name=\"a-model-of-usual-name\"}} {}.0",
            count * boundary / boundaries
        );
    }
    let _ = writeln!(
        body,
        "sglang:{family}_bucket{{engine_type=\"unified\",le=\"+Inf\",model_name=\"a-model-of-usual-name\"}} {count}.0"
    );
    let _ = writeln!(body, "sglang:{family}_count{{{labels}}} {count}.0");
}
