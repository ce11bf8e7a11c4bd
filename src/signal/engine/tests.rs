use super::*;
use crate::signal::Refusal;

fn sample(body: &str) -> Result<Sample, Refusal> {
    Collector::default().sample(body.as_bytes(), None)
}

fn sum(body: &str, family: Family) -> f64 {
    sample(body).unwrap().gauge(family).unwrap().sum
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

#[test]
fn every_name_of_the_tables_is_found_in_each_of_its_spellings() {
    for engine in Engine::ALL {
        for (name, family) in engine.table() {
            let (part, suffix) = match family.shape() {
                Shape::Histogram => (Part::Count, "_count"),
                Shape::Gauge | Shape::Counter => (Part::Value, ""),
            };
            let expected = Name {
                engine: Some(engine),
                family: *family,
                part,
            };
            for prefix in [
                format!("{engine}:"),
                format!("{engine}_"),
                format!("ray_{engine}:"),
                format!("ray_{engine}_"),
            ] {
                let (of, rest) = Engine::of(format!("{prefix}{name}{suffix}").as_bytes())
                    .map(|(e, r)| (e, r.to_vec()))
                    .unwrap();
                assert_eq!(
                    (of, sample_name(of, &rest)),
                    (engine, Some(expected)),
                    "{prefix}{name}"
                );
                assert_eq!(declared_family(engine, name.as_bytes()), Some(*family));
            }
        }
    }
}

#[test]
fn a_name_that_only_looks_alike_is_not_found() {
    for name in [
        "num_requests_waiting_by_reason",
        "num_requests_running_extra",
        "iteration_tokens_total",
        "iteration_tokens_total_count",
        "prompt_tokens_created",
        "prompt_tokens_total_sum",
        "time_to_first_token_seconds",
        "request_time_per_output_token_seconds_sum",
        "external_prefix_cache_hits_total",
        "",
    ] {
        assert_eq!(sample_name(Engine::Vllm, name.as_bytes()), None, "{name}");
    }
    assert_eq!(Engine::of(b"xvllm:num_requests_running"), None);
    assert_eq!(Engine::of(b"vllmnum_requests_running"), None);
}

#[test]
fn openmetrics_declares_a_counter_without_its_total() {
    assert_eq!(
        declared_family(Engine::Vllm, b"prompt_tokens"),
        Some(Family::Prompt)
    );
    assert_eq!(
        declared_family(Engine::Vllm, b"num_requests_running_total"),
        None
    );
}

#[test]
fn an_engine_is_read_from_its_word() {
    assert_eq!("vllm".parse(), Ok(Engine::Vllm));
    assert_eq!("sglang".parse(), Ok(Engine::Sglang));
    assert_eq!(
        "SGLang".parse::<Engine>().unwrap_err().to_string(),
        "must be vllm or sglang"
    );
}

#[test]
fn every_family_has_a_place_of_its_own_in_a_set() {
    let mut set = Families::default();
    for (_, family) in Engine::ALL.iter().flat_map(|engine| engine.table()) {
        set.insert(*family);
    }
    for (_, family) in Engine::ALL.iter().flat_map(|engine| engine.table()) {
        assert!(set.contains(*family));
    }
    assert!(!set.contains(Family::ProcessStart));
}

#[test]
fn schedulers_of_one_pod_are_added_up() {
    let body = "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 8\n\
                vllm:num_requests_running{engine=\"3\",model_name=\"m\"} 5\n";
    assert!(close(sum(body, Family::Running), 13.0));
    let body = "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 8\n\
                sglang:num_running_reqs{dp_rank=\"3\",tp_rank=\"3\"} 5\n";
    assert!(close(sum(body, Family::Running), 13.0));
}

#[test]
fn ranks_that_repeat_a_scheduler_are_read_once() {
    let body = "sglang:num_running_reqs{tp_rank=\"10\"} 90\nsglang:num_running_reqs{tp_rank=\"9\"} 7\n\
                sglang:num_running_reqs{tp_rank=\"9\",pp_rank=\"1\"} 80\n";
    assert!(close(sum(body, Family::Running), 7.0));
    let unlabelled = format!("{body}sglang:num_running_reqs 6\n");
    assert!(close(sum(&unlabelled, Family::Running), 6.0));
}

#[test]
fn an_empty_priority_is_the_total_of_the_others() {
    let parts =
        "sglang:num_queue_reqs{priority=\"0\"} 5\nsglang:num_queue_reqs{priority=\"10\"} 6\n";
    assert!(close(sum(parts, Family::Waiting), 11.0));
    let with_total = format!("{parts}sglang:num_queue_reqs{{priority=\"\"}} 12\n");
    assert!(close(sum(&with_total, Family::Waiting), 12.0));
}

#[test]
fn several_api_servers_show_one_gauge() {
    let body = "vllm:kv_cache_usage_perc{pid=\"1\"} 0.0\nvllm:kv_cache_usage_perc{pid=\"2\"} 0.6\n\
                vllm:kv_cache_usage_perc{pid=\"3\"} 0.0\n";
    assert_eq!(
        sample(body).unwrap().cache_use(),
        Some(Gauge {
            sum: 0.6,
            series: 1,
            whole: true
        })
    );
}

#[test]
fn of_identical_series_the_last_one_counts_whatever_the_order_of_their_labels() {
    let body = "vllm:num_requests_running{a=\"1\",b=\"2\"} 3\nvllm:num_requests_running{b=\"2\",a=\"1\"} 4\n\
                vllm:num_requests_running{a=\"2\",b=\"1\"} 5\n";
    assert!(close(sum(body, Family::Running), 9.0));
}

#[test]
fn a_series_that_is_no_number_is_missing_and_the_others_still_speak() {
    for wrong in ["NaN", "+Inf", "-Inf", "-1"] {
        let body = format!(
            "vllm:num_requests_running{{engine=\"0\"}} {wrong}\nvllm:num_requests_running{{engine=\"1\"}} 5\n"
        );
        let gauge = sample(&body).unwrap().gauge(Family::Running);
        assert_eq!(
            gauge,
            Some(Gauge {
                sum: 5.0,
                series: 1,
                whole: false
            }),
            "{wrong}"
        );
    }
    assert_eq!(
        sample("vllm:num_requests_running NaN\n")
            .unwrap()
            .gauge(Family::Running),
        None
    );
}

#[test]
fn a_line_that_cannot_be_read_is_a_missing_series() {
    let body =
        "vllm:num_requests_running{engine=\"0\" 3\nvllm:num_requests_running{engine=\"1\"} 5\n";
    let gauge = sample(body).unwrap().gauge(Family::Running);
    assert_eq!(
        gauge,
        Some(Gauge {
            sum: 5.0,
            series: 1,
            whole: false
        })
    );
}

#[test]
fn the_new_name_of_a_gauge_is_read_and_the_old_one_only_without_it() {
    let both = "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n";
    assert_eq!(
        sample(both).unwrap().cache_use().map(|gauge| gauge.sum),
        Some(0.25)
    );
    let old = "vllm:gpu_cache_usage_perc 0.5\n# TYPE vllm:kv_cache_usage_perc gauge\n";
    assert_eq!(
        sample(old).unwrap().cache_use().map(|gauge| gauge.sum),
        Some(0.5)
    );
}

#[test]
fn a_body_of_two_engines_needs_a_target_that_says_which() {
    let body = "vllm:num_requests_running 3\nsglang:num_running_reqs 4\n";
    assert_eq!(sample(body), Err(Refusal::TwoEngines));
    let told = Collector::default()
        .sample(body.as_bytes(), Some(Engine::Sglang))
        .unwrap();
    assert_eq!(
        (
            told.engine(),
            told.gauge(Family::Running).map(|gauge| gauge.sum)
        ),
        (Engine::Sglang, Some(4.0))
    );
    // One engine's series decide over the other's declarations.
    let body = "# TYPE vllm:num_requests_running gauge\nsglang:num_running_reqs 4\n";
    assert_eq!(
        sample(body).map(|sample| sample.engine()),
        Ok(Engine::Sglang)
    );
}

#[test]
fn a_collector_that_is_used_again_remembers_nothing() {
    let mut collector = Collector::default();
    let body = b"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_running NaN\nprocess_start_time_seconds 5\n";
    collector.sample(body, None).unwrap();
    let again = collector
        .sample(b"sglang:num_running_reqs 1\n", None)
        .unwrap();
    assert_eq!(again, sample("sglang:num_running_reqs 1\n").unwrap());
    assert!(!again.knows(Family::Waiting));
}
