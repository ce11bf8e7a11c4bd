use super::*;
use crate::signal::engine::Collector;

const SECOND: Duration = Duration::from_secs(1);

fn sample(body: &str) -> Sample {
    Collector::default().sample(body.as_bytes(), None).unwrap()
}

fn window(before: &str, after: &str) -> Result<Window, NewBaseline> {
    Window::between(&sample(before), &sample(after), SECOND)
}

/// Prompt demand and whether it was clamped, in one second.
fn demand(before: &str, after: &str) -> (f64, bool) {
    let demand = window(before, after).unwrap().prompt.unwrap();
    (demand.rate.get(), demand.clamped)
}

fn generation(before: &str, after: &str) -> Option<f64> {
    window(before, after).unwrap().generation.map(Rate::get)
}

/// A vLLM counter of one engine.
fn vllm(prompt: u32, hits: u32) -> String {
    format!("vllm:prompt_tokens_total {prompt}\nvllm:prefix_cache_hits_total {hits}\n")
}

#[test]
fn a_rate_is_over_the_time_that_passed_and_not_over_the_interval() {
    let (before, after) = (
        sample("vllm:generation_tokens_total 100\n"),
        sample("vllm:generation_tokens_total 400\n"),
    );
    for (elapsed, rate) in [(1.0, 300.0), (20.0, 15.0), (0.5, 600.0)] {
        let window = Window::between(&before, &after, Duration::from_secs_f64(elapsed)).unwrap();
        assert_eq!(window.generation, Rate::new(rate));
    }
    assert_eq!(
        Window::between(&before, &after, Duration::ZERO),
        Err(NewBaseline::First)
    );
}

/// An engine restart gave -800 tokens (RL#4052).
#[test]
fn an_engine_restart_gives_no_negative_tokens() {
    let (before, after) = (
        "vllm:generation_tokens_total 900\n",
        "vllm:generation_tokens_total 100\n",
    );
    assert_eq!(window(before, after), Err(NewBaseline::Decreased));
}

#[test]
fn one_counter_that_fell_costs_the_whole_pod_its_window() {
    let before = "vllm:generation_tokens_total 900\nvllm:prompt_tokens_total 5\n";
    let after = "vllm:generation_tokens_total 950\nvllm:prompt_tokens_total 4\n";
    assert_eq!(window(before, after), Err(NewBaseline::Decreased));
}

#[test]
fn a_part_that_fell_is_seen_though_the_sum_rose() {
    let body = |a: u32, b: u32| {
        format!(
            "sglang:generation_tokens_total{{is_streaming=\"true\"}} {a}\n\
             sglang:generation_tokens_total{{is_streaming=\"false\"}} {b}\n"
        )
    };
    assert_eq!(
        window(&body(10, 10), &body(100, 9)),
        Err(NewBaseline::Decreased)
    );
    assert_eq!(generation(&body(10, 10), &body(100, 11)), Some(91.0));
}

#[test]
fn a_counter_that_vanished_was_reset() {
    let before =
        "vllm:generation_tokens_total{x=\"1\"} 900\nvllm:generation_tokens_total{x=\"2\"} 1\n";
    let after = "vllm:generation_tokens_total{x=\"1\"} 950\n";
    assert_eq!(window(before, after), Err(NewBaseline::Decreased));
}

#[test]
fn another_process_or_another_set_of_schedulers_is_a_new_baseline() {
    let body = |start: u32, engines: &[u32]| {
        let counters: String = engines
            .iter()
            .flat_map(|e| {
                [format!(
                    "vllm:generation_tokens_total{{engine=\"{e}\"}} 5\n"
                )]
            })
            .collect();
        format!("process_start_time_seconds {start}\n{counters}")
    };
    assert!(window(&body(1, &[0, 1]), &body(1, &[0, 1])).is_ok());
    assert_eq!(
        window(&body(1, &[0]), &body(2, &[0])),
        Err(NewBaseline::Restarted)
    );
    assert_eq!(
        window(&body(1, &[0]), &body(1, &[0, 1])),
        Err(NewBaseline::Regrouped)
    );
    assert_eq!(
        window(&body(1, &[0, 1]), &body(1, &[1])),
        Err(NewBaseline::Regrouped)
    );
    assert!(
        window(
            &body(1, &[]).replace("process", "vllm:x 1\nprocess"),
            &body(1, &[0])
        )
        .is_ok()
    );
}

/// A child absent before and present now counts from zero only if its family was declared or a sibling was there.
#[test]
fn a_child_that_comes_late_counts_from_zero_only_where_its_family_was_known() {
    let late = "sglang:realtime_tokens_total{mode=\"decode\"} 40\nsglang:realtime_tokens_total{mode=\"prefill_compute\"} 7\n";
    let sibling = "sglang:realtime_tokens_total{mode=\"prefill_compute\"} 7\n";
    let declared = "# TYPE sglang:realtime_tokens_total counter\n";
    let unknown = "sglang:num_running_reqs 0\n";
    assert_eq!(generation(sibling, late), Some(40.0));
    assert_eq!(generation(declared, late), Some(40.0));
    assert_eq!(generation(unknown, late), None);
}

/// Prefix reuse that is ignored over-scales prefill (dynamo#8314).
#[test]
fn tokens_that_a_cache_answered_are_no_demand() {
    assert_eq!(demand(&vllm(0, 0), &vllm(1000, 400)), (600.0, false));
}

/// Hits that stay zero while caching works (vllm-ascend#16639) over-read demand, which is the safe side.
#[test]
fn hits_that_stay_zero_leave_all_prompts_as_demand() {
    assert_eq!(demand(&vllm(0, 0), &vllm(1000, 0)), (1000.0, false));
}

/// Hits counted again at each look-up (vllm#25780, vllm#43736).
#[test]
fn hits_above_prompts_clamp_to_zero_and_say_so() {
    assert_eq!(demand(&vllm(0, 0), &vllm(22_884, 89_600)), (0.0, true));
}

#[test]
fn each_scheduler_is_clamped_by_itself_and_not_on_the_sum() {
    let body = |prompts: [u32; 2], hits: [u32; 2]| {
        [0, 1]
            .map(|engine| {
                format!(
                    "vllm:prompt_tokens_total{{engine=\"{engine}\"}} {}\nvllm:prefix_cache_hits_total{{engine=\"{engine}\"}} {}\n",
                    prompts[engine], hits[engine]
                )
            })
            .concat()
    };
    assert_eq!(
        demand(&body([0, 0], [0, 0]), &body([1000, 100], [0, 900])),
        (1000.0, true)
    );
}

/// Newer engines export what they computed (vllm#30189).
#[test]
fn computed_tokens_are_preferred_then_cached_tokens_then_hits() {
    let before = "vllm:prompt_tokens_total 0\nvllm:prefix_cache_hits_total 0\nvllm:prompt_tokens_cached_total 0\n\
                  vllm:prompt_tokens_by_source_total{source=\"local_compute\"} 0\n\
                  vllm:prompt_tokens_by_source_total{source=\"local_cache_hit\"} 0\n";
    let after = "vllm:prompt_tokens_total 1000\nvllm:prefix_cache_hits_total 5000\nvllm:prompt_tokens_cached_total 300\n\
                 vllm:prompt_tokens_by_source_total{source=\"local_compute\"} 650\n\
                 vllm:prompt_tokens_by_source_total{source=\"local_cache_hit\"} 350\n";
    assert_eq!(demand(before, after), (650.0, false));
    let without = |text: &str, name: &str| -> String {
        text.lines()
            .filter(|line| !line.contains(name))
            .flat_map(|line| [line, "\n"])
            .collect()
    };
    let cut = |text: &str| without(text, "by_source");
    assert_eq!(demand(&cut(before), &cut(after)), (700.0, false));
    // The formula needs its counter in both samples.
    assert_eq!(demand(&cut(before), after), (700.0, false));
    let cut = |text: &str| without(&without(text, "by_source"), "cached");
    assert_eq!(demand(&cut(before), &cut(after)), (0.0, true));
}

#[test]
fn of_two_names_for_one_counter_one_is_read() {
    let body = |prompt: u32, hits: u32| {
        format!(
            "{}vllm:gpu_prefix_cache_hits_total {hits}\n",
            vllm(prompt, hits)
        )
    };
    assert_eq!(demand(&body(0, 0), &body(100, 30)), (70.0, false));
    let old = |prompt: u32, hits: u32| {
        body(prompt, hits).replace("vllm:prefix_cache", "vllm:other_cache")
    };
    assert_eq!(demand(&old(0, 0), &old(100, 30)), (70.0, false));
}

#[test]
fn sglang_prompts_come_from_what_was_computed_while_it_is_computed() {
    let finished = "sglang:prompt_tokens_total 512\nsglang:generation_tokens_total 2\nsglang:cached_tokens_total 12\n";
    let live = format!(
        "{finished}sglang:realtime_tokens_total{{mode=\"prefill_compute\"}} 7000\nsglang:realtime_tokens_total{{mode=\"decode\"}} 24\n"
    );
    let effective = format!(
        "{live}sglang:prefill_effective_tokens_total{{mode=\"input\"}} 6900\nsglang:prefill_effective_tokens_total{{mode=\"device_hit\"}} 99\n"
    );
    let zero = |text: &str| -> String {
        text.lines()
            .map(|line| line.rsplit_once(' ').unwrap().0)
            .flat_map(|series| [series, " 0\n"])
            .collect()
    };
    assert_eq!(demand(&zero(&effective), &effective), (6900.0, false));
    assert_eq!(demand(&zero(&live), &live), (7000.0, false));
    assert_eq!(demand(&zero(finished), finished), (500.0, false));
    assert_eq!(generation(&zero(&live), &live), Some(24.0));
    assert_eq!(generation(&zero(finished), finished), Some(2.0));
    let bare = "sglang:prompt_tokens_total 512\n";
    assert_eq!(demand(&zero(bare), bare), (512.0, false));
    let hits_only =
        format!("{bare}sglang:prefill_effective_tokens_total{{mode=\"host_hit\"}} 112\n");
    assert_eq!(demand(&zero(&hits_only), &hits_only), (400.0, false));
}

#[test]
fn the_total_of_cached_tokens_is_not_added_to_its_parts() {
    let body = |prompt: u32, part: u32, total: u32| {
        format!(
            "sglang:prompt_tokens_total {prompt}\nsglang:cached_tokens_total{{cache_source=\"device\"}} {part}\n\
             sglang:cached_tokens_total{{cache_source=\"total\"}} {total}\n"
        )
    };
    assert_eq!(demand(&body(0, 0, 0), &body(100, 30, 40)), (60.0, false));
}

#[test]
fn a_counter_that_was_no_number_before_does_not_count_from_zero() {
    let body = |value: &str| {
        format!("vllm:num_requests_running 1\nvllm:generation_tokens_total {value}\n")
    };
    for wrong in ["NaN", "-1", "x"] {
        assert_eq!(generation(&body(wrong), &body("1000000")), None, "{wrong}");
        assert_eq!(generation(&body("1000000"), &body(wrong)), None, "{wrong}");
    }
}

#[test]
fn other_buckets_are_a_new_baseline() {
    let body = |boundaries: &[&str]| -> String {
        boundaries
            .iter()
            .flat_map(|le| {
                [format!(
                    "vllm:time_to_first_token_seconds_bucket{{le=\"{le}\"}} 5\n"
                )]
            })
            .collect()
    };
    assert!(window(&body(&["1", "+Inf"]), &body(&["1", "+Inf"])).is_ok());
    for other in [&["1", "2", "+Inf"][..], &["+Inf"], &["2", "+Inf"]] {
        assert_eq!(
            window(&body(&["1", "+Inf"]), &body(other)),
            Err(NewBaseline::Rebucketed)
        );
    }
}

#[test]
fn a_sum_of_seconds_that_lost_its_last_digit_is_no_reset() {
    let body = |sum: &str| format!("vllm:time_to_first_token_seconds_sum {sum}\n");
    assert!(window(&body("227.25533485412598"), &body("227.25533485412595")).is_ok());
    assert_eq!(
        window(&body("227.3"), &body("227.2")),
        Err(NewBaseline::Decreased)
    );
}
