//! The whole executor under random commands with random settings: it must not panic, keep every invariant of the data,
//! answer in whole replies, and save what it loads.
//!
//! ```text
//! cargo test -p warmline-server --test executor              a few runs; WARMLINE_TEST_SCALE multiplies them
//! WARMLINE_FUZZ_MINUTES=30 cargo test ...                    as many as fit
//! SEED=7 RUNS=1 cargo test ...                               one run again
//! ```
//!
//! A run that fails is shortened to the steps that it needs, and these are printed. The fuzz target `executor` makes its
//! choices from a fuzzer's bytes in the same way.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../differential/arguments.rs"]
#[allow(dead_code)]
mod arguments;
mod commands;
mod payload;
#[path = "../differential/random.rs"]
mod random;
mod run;
mod settings;
mod shrink;
#[path = "../differential/words.rs"]
mod words;
mod world;

use random::Random;
use run::Run;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::response::Value;
use world::{Step, World};

/// Name and arguments.
pub type Command = Vec<Vec<u8>>;

const RUNS: u64 = 25;
const STEPS: usize = 1500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

static SEED: AtomicU64 = AtomicU64::new(0);

/// A panic within a script ends the process: then its seed is all that is known of it.
fn tell_seed_of_panics() {
    let hook = take_hook();
    set_hook(Box::new(move |info| {
        let _ = writeln!(std::io::stderr(), "SEED={} RUNS=1", SEED.load(Ordering::Relaxed));
        hook(info);
    }));
}

#[test]
fn random_commands_leave_everything_in_order() {
    world::enter_directory();
    tell_seed_of_panics();
    let first = number("SEED").unwrap_or(1);
    let runs = number("RUNS").unwrap_or(RUNS * number("WARMLINE_TEST_SCALE").unwrap_or(1));
    let minutes = number("WARMLINE_FUZZ_MINUTES").map(|minutes| Duration::from_secs(60 * minutes));
    let started = Instant::now();
    let mut seed = first;
    while minutes.map_or(seed < first + runs, |minutes| started.elapsed() < minutes) {
        SEED.store(seed, Ordering::Relaxed);
        let mut run = Run::new(Random::new(seed));
        if catch_unwind(AssertUnwindSafe(|| run.go(STEPS))).is_err() {
            let text = shrink::report(&run.beginning);
            panic!("SEED={seed} RUNS=1 fails:\n{text}");
        }
        seed += 1;
    }
    eprintln!("{} runs of {STEPS} steps, seeds {first}..{seed}", seed - first);
}

/// What is not compared, with whatever it is an argument of: options about the whole process and about output at the end of a turn;
/// DEBUG, some of which goes on in turns that follow; what tells how much the process takes, what was sampled turn by turn,
/// invalidations sent at the end of a turn, and what comes in no order; LCS, which asks for the product of two lengths.
const LEFT_OUT: &[&str] = &[
    "maxmemory",
    "maxmemory-clients",
    "client-output-buffer-limit",
    "command",
    "debug",
    "lcs",
    "info",
    "stats",
    "doctor",
    "hotkeys",
    "prefixes",
    "bcast",
    "psubscribe",
    "pubsub",
];

/// What is found out once for a pipeline holds for each of its commands: both worlds answer the same and hold the same.
#[test]
fn a_pipeline_does_what_its_commands_do_one_by_one() {
    world::enter_directory();
    tell_seed_of_panics();
    let first = number("SEED").unwrap_or(1);
    let runs = number("RUNS").unwrap_or(RUNS * number("WARMLINE_TEST_SCALE").unwrap_or(1));
    for seed in first..first + runs {
        SEED.store(seed, Ordering::Relaxed);
        let mut random = Random::new(seed);
        let config = settings::config(&mut random);
        let mut worlds = [true, false].map(|has_pipelines| {
            let mut world = World::new(config.clone());
            world.has_pipelines = has_pipelines;
            world
        });
        let mut generator = commands::Generator::new(random);
        for _ in 0..STEPS {
            let step = generator.step();
            if is_left_out(&step) {
                continue;
            }
            let [at_once, one_by_one] = worlds.each_mut().map(|world| world.perform(&step));
            let differing = at_once.iter().zip(&one_by_one).position(|(a, b)| a != b);
            if differing.is_some() || at_once.len() != one_by_one.len() {
                let shown = differing.map(|at| (at, &at_once[at], &one_by_one[at]));
                panic!("SEED={seed} RUNS=1: {}: {shown:?}", shrink::shown(&step));
            }
        }
        let digest = Step::command(0, vec![b"DEBUG".to_vec(), b"DIGEST".to_vec()]);
        let [at_once, one_by_one] = worlds.each_mut().map(|world| world.perform(&digest));
        assert_eq!(at_once, one_by_one, "SEED={seed} RUNS=1");
    }
}

fn is_left_out(step: &Step) -> bool {
    let Step::Commands { commands, .. } = step else { return false };
    let is_named = |word: &Vec<u8>| LEFT_OUT.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    commands.iter().flatten().any(is_named)
}

#[test]
fn settings_and_names_exist() {
    assert_eq!(commands::unknown_names(), Vec::<&str>::new());
    let mut world = World::new(settings::config(&mut Random::new(1)));
    for args in settings::all_changes() {
        let received = world.perform(&Step::command(0, args.clone()));
        let shown = shrink::shown(&Step::command(0, args));
        assert_eq!(received, [Value::Simple(b"OK".to_vec())], "{shown}");
    }
}

/// Payloads of every type that can be stored are taken apart and put together as they were: changes go where they are meant to.
#[test]
fn payloads_are_taken_apart_and_put_together() {
    let mut world = World::new(settings::config(&mut Random::new(1)));
    let long: String = "x".repeat(5000);
    let ask = |world: &mut World, words: &[&[u8]]| {
        let args = words.iter().map(|word| word.to_vec()).collect();
        world.perform(&Step::command(0, args))
    };
    for words in [
        &["SET", "k", "value"][..],
        &["RPUSH", "k", "1", "-5000", "element", &long],
        &["SADD", "k", "1", "2", "70000"],
        &["SADD", "k", "a", "b", "3"],
        &["SADD", "k", "a", &long],
        &["HSET", "k", "f", "v", "n", "123456789012"],
        &["HSETEX", "k", "EX", "100", "FIELDS", "1", "f", "v"],
        &["HSET", "k", "f", &long],
        &["ZADD", "k", "1.5", "a", "2", "b"],
        &["ZADD", "k", "1", &long],
        &[
            "EVAL",
            "for i = 1, 120 do redis.call('XADD', 'k', i, 'f', i) end \
          redis.call('XGROUP', 'CREATE', 'k', 'g', 0) \
          return redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 'k', '>')",
            "0",
        ],
    ] {
        let command: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert!(!ask(&mut world, &command)[0].is_error(), "{words:?}");
        let digest = ask(&mut world, &[b"DEBUG", b"DIGEST-VALUE", b"k"]);
        let [Value::Bulk(payload)] = &ask(&mut world, &[b"DUMP", b"k"])[..] else { panic!("no payload") };
        let again = payload::unchanged(payload);
        ask(&mut world, &[b"DEL", b"k"]);
        let restored = ask(&mut world, &[b"RESTORE", b"k", b"0", &again]);
        assert_eq!(restored, [Value::Simple(b"OK".to_vec())], "{words:?}");
        assert_eq!(ask(&mut world, &[b"DEBUG", b"DIGEST-VALUE", b"k"]), digest, "{words:?}");
        ask(&mut world, &[b"DEL", b"k"]);
    }
}
