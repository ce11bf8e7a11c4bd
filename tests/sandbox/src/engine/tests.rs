use std::time::Duration;

use super::Flavour;
use super::exposition::write;
use super::model::{Load, Model, Stage, Talents};

const BUSY: Load = Load {
    requests: 10.0,
    prompt: 1000.0,
    output: 50.0,
    prefix_hits: 0.25,
};

fn busy(talents: Talents, seconds: u64) -> Model {
    let mut model = Model::new(Stage::Server, talents, "tiny", 1);
    model.load = BUSY;
    model.advance(Duration::from_secs(seconds));
    model
}

#[test]
fn an_engine_computes_what_is_asked_less_what_its_cache_answers() {
    let model = busy(Talents::default(), 60);
    let counters = &model.counters;
    let asked = 60.0 * BUSY.requests * BUSY.prompt;
    assert!(
        (counters.prompt / asked - 1.0).abs() < 0.1,
        "{}",
        counters.prompt
    );
    assert!((counters.computed / counters.prompt - 0.75).abs() < 0.01);
    assert!((counters.computed + counters.cached - counters.prompt).abs() < 1e-6);
    assert!((counters.generation / (60.0 * BUSY.requests * BUSY.output) - 1.0).abs() < 0.15);
}

#[test]
fn more_than_an_engine_can_do_waits() {
    let slow = Talents {
        prefill: 2000.0,
        batch: 32,
        ..Talents::default()
    };
    let model = busy(slow, 60);
    assert_eq!(model.running(), 32);
    assert!(model.waiting() > 300, "{}", model.waiting());
    // It computes as much as it can, and no more.
    assert!(
        (model.counters.computed / (60.0 * 2000.0) - 1.0).abs() < 0.05,
        "{}",
        model.counters.computed
    );
}

#[test]
fn a_full_cache_holds_the_batch_below_its_limit() {
    let small = Talents {
        cache: 5_000.0,
        ..Talents::default()
    };
    let model = busy(small, 30);
    assert!(
        model.running() < 8 && model.waiting() > 0,
        "{} {}",
        model.running(),
        model.waiting()
    );
    let mut smaller = Model::new(
        Stage::Server,
        Talents {
            cache: 10.0,
            ..small
        },
        "tiny",
        1,
    );
    smaller.load = BUSY;
    smaller.advance(Duration::from_secs(30));
    assert!(
        smaller.counters.finished > 0.0,
        "a request longer than the cache runs alone"
    );
}

#[test]
fn the_same_seed_and_load_give_the_same_page_however_often_it_is_asked() {
    let once = busy(Talents::default(), 10);
    let mut often = Model::new(Stage::Server, Talents::default(), "tiny", 1);
    often.load = BUSY;
    for _ in 0..1000 {
        often.advance(Duration::from_millis(10));
    }
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        assert_eq!(write(&once, flavour), write(&often, flavour));
    }
}

#[test]
fn an_idle_engine_comes_to_rest() {
    let mut model = busy(Talents::default(), 10);
    model.load = Load::NONE;
    model.advance(Duration::from_mins(1));
    assert_eq!((model.running(), model.waiting()), (0, 0));
    assert!(model.cache_use() <= 0.0);
    assert!((model.counters.finished_prompt - model.counters.prompt).abs() < 1e-6);
}

#[test]
fn a_prefill_engine_generates_first_tokens_only() {
    let mut model = Model::new(Stage::Prefill, Talents::default(), "tiny", 1);
    model.load = BUSY;
    model.advance(Duration::from_secs(10));
    assert!(model.counters.finished > 50.0);
    assert!((model.counters.generation - model.counters.finished).abs() < 1.5);
    assert!(!write(&model, Flavour::Sglang).contains("time_to_first_token"));
}

#[test]
fn a_restart_begins_anew_at_another_time_and_a_reset_at_the_same() {
    let mut model = busy(Talents::default(), 10);
    let began = model.began;
    model.reset_counters();
    assert!(model.counters.prompt <= 0.0 && model.running() > 0);
    assert!((model.began - began).abs() < 1e-9);
    model.restart();
    assert!(model.began > began && model.running() == 0);
    assert_eq!(model.load, BUSY);
}
