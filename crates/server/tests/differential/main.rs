//! The same random commands to two servers: all replies and all data must be the same.
//!
//! ```text
//! cargo test -p warmline-server --test differential
//!     this server against itself with other encodings and the other index of sorted sets
//! REFERENCE=127.0.0.1:7000 cargo test -p warmline-server --test differential -- --ignored --nocapture
//!     this server against a reference, started with `--enable-debug-command yes`; it is flushed
//!     the same two servers, and what subscribers and clients with copies hear of each command, are compared too
//! SERVER=127.0.0.1:6379        this server too runs already, say as a release build
//! SEED=1 COMMANDS=1000000      which commands (printed), and how many
//! ```
//!
//! Commands come in runs. Each run starts from nothing with its own seed and settings, and ends with all contents
//! compared, so that a difference is explained by one run's commands; those not needed for it are left out of the
//! report. What is compared otherwise than byte for byte is in `compare.rs`, what is not sent in `generate.rs`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arguments;
mod compare;
mod contents;
mod events;
mod generate;
mod limits;
mod link;
#[path = "../process/mod.rs"]
mod process;
mod random;
mod shrink;
mod step;
mod words;

use compare::Comparer;
use events::Listeners;
use generate::{Generator, Traits};
use limits::{DEFAULT, LIMITS, rules, shows};
use link::{Link, Pair};
use process::Process;
use random::Random;
use server::commands::GROUPS;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use step::{Command, Step};
use wire::response::Value;

const RUN_COMMANDS: usize = 12_000;
/// These wait for each other's events, so there are fewer.
const EVENT_RUN_COMMANDS: usize = 3_000;
/// What led to an event is mostly near.
const SHOWN_BEFORE_EVENT: usize = 6;
/// Between these a run takes serialised values out of the server, to restore them.
const PART_COMMANDS: usize = 1_000;
/// Number of differences after which a run ends.
const DIFFERENCES_MAX: usize = 30;
/// A history that cannot be shortened further is cut off in the report; the seed brings it back.
const SHOWN_STEPS: usize = 40;

/// What is set on the servers for a run.
pub struct Settings {
    name: String,
    here: Vec<(&'static str, &'static str)>,
    there: Vec<(&'static str, &'static str)>,
    /// OBJECT ENCODING and DUMP must agree too.
    same_encodings: bool,
    /// The other side has rules by key, and gets others while the run lasts.
    has_rules: bool,
}

impl Settings {
    /// Both sides keep data alike, by limits that differ from run to run.
    fn alike(run: u64) -> Settings {
        let (limits, name) = LIMITS[run as usize % LIMITS.len()];
        let index = if (run / LIMITS.len() as u64).is_multiple_of(2) { "fbtree" } else { "skiplist" };
        let there = [DEFAULT, limits].concat();
        let here = [there.as_slice(), &[("zset-index", index)]].concat();
        Settings { name: format!("{name}, {index}"), here, there, same_encodings: true, has_rules: false }
    }

    /// Both sides are of our own and keep data each in its own way.
    fn unlike(run: u64) -> Settings {
        let (limits, name) = LIMITS[1 + run as usize % (LIMITS.len() - 1)];
        let hidden = limits.iter().filter(|(name, _)| !shows(name)).copied();
        let there = DEFAULT.iter().copied().chain(hidden).chain([("zset-index", "skiplist")]).collect();
        Settings {
            name: name.to_owned(),
            here: DEFAULT.to_vec(),
            there,
            same_encodings: false,
            has_rules: true,
        }
    }
}

/// An empty server with the settings.
fn reset(pair: &mut Pair, settings: &Settings) {
    for (link, options) in [(&mut pair.here, &settings.here), (&mut pair.there, &settings.there)] {
        link.ask(&["RESET"]);
        for (name, value) in options {
            let answer = link.ask(&["CONFIG", "SET", name, value]);
            assert!(!answer.is_error(), "{name} {value}: {answer:?}");
        }
        link.ask(&["FLUSHALL"]);
        link.ask(&["SCRIPT", "FLUSH"]);
        link.ask(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    }
}

/// Serialised values of some keys.
fn take_payloads(dumper: &mut Link, generator: &mut Generator) {
    for key_type in ["string", "list", "set", "zset", "hash", "stream", "hll", "geo"] {
        let key = generator.source.key_of(key_type);
        if let Value::Bulk(payload) = dumper.ask_bytes(&[b"DUMP", &key]) {
            let place = generator.source.random.below(40) as usize;
            match generator.payloads.get_mut(place) {
                Some(old) => *old = payload,
                None => generator.payloads.push(payload),
            }
        }
    }
}

/// How often each command was answered, and how often with an error.
#[derive(Default)]
struct Tally {
    by_name: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    fn add(&mut self, command: &Command, reply: &Value) {
        let command = generate::called_by_script(command).unwrap_or(command);
        let name = command.first().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
        let entry = self.by_name.entry(name.unwrap_or_default()).or_default();
        entry.0 += 1;
        entry.1 += u64::from(reply.is_error());
    }

    /// What a comparison is worth: many commands and few errors.
    fn print(&self) {
        let known = |name: &str| GROUPS.iter().flat_map(|group| group.iter()).any(|row| row.name == name);
        let (mut kinds, mut total, mut errors) = (0, 0, 0);
        for (name, (all, failed)) in self.by_name.iter().filter(|(name, _)| known(name)) {
            (kinds, total, errors) = (kinds + 1, total + all, errors + failed);
            if *all > 100 && failed * 10 > all * 9 {
                eprintln!("  {name}: {failed} of {all} were errors");
            }
        }
        eprintln!("{total} commands of {kinds} kinds, {errors} errors");
    }
}

/// One run; the commands that lead to a difference, if there is one.
fn play(
    pair: &mut Pair,
    dumper: &mut Link,
    settings: &Settings,
    (seed, now_ms): (u64, i64),
    tally: &mut Tally,
) -> Option<Vec<Step>> {
    reset(pair, settings);
    let mut generator = Generator::new(seed, now_ms);
    let mut comparer = Comparer::new(settings.same_encodings, Traits::of_seed(seed));
    let mut done: Vec<Step> = Vec::new();
    let mut random = Random::new(seed);
    while done.len() < RUN_COMMANDS {
        if settings.has_rules {
            // Over a connection of its own: the others may be in a transaction. A history that is shortened is played
            // without.
            let answer = dumper.ask(&["CONFIG", "SET", "key-policy", &rules(&mut random)]);
            assert!(!answer.is_error(), "{answer:?}");
        }
        let steps = generator.steps(PART_COMMANDS);
        let mut differs_at = None;
        pair.run(&steps, |at, command, here, there| {
            tally.add(command, &there);
            let agree = comparer.agree(command, here, there);
            if !agree {
                differs_at = Some(at);
            }
            agree
        });
        let count = differs_at.map_or(steps.len(), |at| at + 1);
        done.extend_from_slice(&steps[..count]);
        if differs_at.is_some() {
            return Some(shrink::shrink(pair, settings, Traits::of_seed(seed), done));
        }
        take_payloads(dumper, &mut generator);
    }
    let last = contents::compare(pair, settings.same_encodings, Traits::of_seed(seed))?;
    done.push(Step::words(&["RESET"]));
    done.extend(last);
    Some(shrink::shrink(pair, settings, Traits::of_seed(seed), done))
}

/// Words as redis-cli takes them.
fn shown(step: &Step) -> String {
    let Step::Command(args) = step else { return "(pause)".to_owned() };
    let word = |arg: &Vec<u8>| {
        let plain =
            !arg.is_empty() && arg.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte));
        let text = arg.escape_ascii().to_string().replace("\\'", "'");
        match text.len() {
            0..400 if plain => text,
            0..400 => format!("\"{text}\""),
            _ => format!("\"{}...({} bytes)\"", &text[..100], arg.len()),
        }
    };
    args.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The history with the last command's replies.
fn report(pair: &mut Pair, settings: &Settings, steps: &[Step]) -> String {
    let mut text = String::new();
    reset(pair, settings);
    let mut replies = Vec::new();
    pair.run(steps, |_, _, here, there| {
        replies = vec![here, there];
        true
    });
    if steps.len() > SHOWN_STEPS {
        writeln!(text, "  ({} commands before these)", steps.len() - SHOWN_STEPS).unwrap();
    }
    for step in &steps[steps.len().saturating_sub(SHOWN_STEPS)..] {
        writeln!(text, "  {}", shown(step)).unwrap();
    }
    for (side, reply) in ["here", "there"].iter().zip(&replies) {
        let shown = format!("{reply:?}");
        let shown = readable(reply).unwrap_or(shown);
        writeln!(text, "  {side}: {}", &shown[..shown.floor_char_boundary(2500)]).unwrap();
    }
    text
}

fn readable(value: &Value) -> Option<String> {
    Some(match value {
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(k, v)| Some(format!("{}: {}", readable(k)?, readable(v)?)));
            format!("{{{}}}", pairs.collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Integer(n) => format!(":{n}"),
        other => match (other.as_bytes(), other.as_list()) {
            (Some(bytes), _) => format!("\"{}\"", bytes.escape_ascii()),
            (_, Some(items)) => {
                format!("[{}]", items.iter().map(readable).collect::<Option<Vec<_>>>()?.join(" "))
            }
            _ => return None,
        },
    })
}

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Plays runs until `commands` have been sent, and fails with all differences.
fn play_all(pair: &mut Pair, dumper: &mut Link, settings: fn(u64) -> Settings, seed: u64, commands: u64) {
    let now_ms = now_ms();
    let (mut differences, mut tally) = (0, Tally::default());
    for run in 0..commands.div_ceil(RUN_COMMANDS as u64) {
        let settings = settings(run);
        let run_seed = seed.wrapping_add(run);
        if let Some(steps) = play(pair, dumper, &settings, (run_seed, now_ms), &mut tally) {
            let text = report(pair, &settings, &steps);
            eprintln!("SEED={seed}, run {run} ({}):\n{text}", settings.name);
            differences += 1;
        }
        assert!(differences < DIFFERENCES_MAX, "{differences} differences with SEED={seed}");
    }
    tally.print();
    assert!(differences == 0, "{differences} differences with SEED={seed}");
}

/// Commands one by one, and what other clients hear of each.
fn play_events(
    pair: &mut Pair,
    listeners: &mut Listeners,
    settings: fn(u64) -> Settings,
    seed: u64,
    commands: u64,
) {
    let mut differences = 0;
    for run in 0..commands.div_ceil(EVENT_RUN_COMMANDS as u64) {
        let settings = settings(run);
        // When a key that expires is found to be gone differs.
        let seed = (0..).map(|n| seed + run * 100 + n).find(|seed| !Traits::of_seed(*seed).expiring).unwrap();
        reset(pair, &settings);
        let mut generator = Generator::new(seed, now_ms());
        listeners.begin();
        let mut done: Vec<Step> = Vec::new();
        for step in generator.steps(EVENT_RUN_COMMANDS) {
            let mut reply = Value::Null;
            pair.run(std::slice::from_ref(&step), |_, _, _, there| {
                reply = there;
                true
            });
            done.push(step);
            let step = done.last().unwrap();
            if let Some(heard) = listeners.hear(step, &reply) {
                eprintln!("seed {seed} ({}), {} heard:", settings.name, heard.by);
                let shown_from = done.len().saturating_sub(SHOWN_BEFORE_EVENT);
                done[shown_from..].iter().for_each(|step| eprintln!("  {}", shown(step)));
                eprintln!("  here: {:?}\n  there: {:?}", heard.here, heard.there);
                differences += 1;
                assert!(differences < DIFFERENCES_MAX, "{differences} differences");
            }
        }
    }
    assert!(differences == 0, "{differences} differences");
}

/// Whatever the encodings, others hear the same.
#[test]
fn encodings_do_not_show_in_events() {
    let scale = number("WARMLINE_TEST_SCALE").unwrap_or(1);
    let options = ["--enable-debug-command", "yes"];
    let (one, other) = (Process::start(&options), Process::start(&options));
    let address = |process: &Process| format!("127.0.0.1:{}", process.port);
    let mut pair =
        Pair { here: Link::connect("one", &address(&one)), there: Link::connect("other", &address(&other)) };
    let mut listeners = Listeners::connect(&address(&one), &address(&other));
    let seed = number("SEED").unwrap_or(1);
    play_events(&mut pair, &mut listeners, Settings::unlike, seed, EVENT_RUN_COMMANDS as u64 * scale);
}

/// What others hear from the reference.
#[test]
#[ignore = "needs a reference server in REFERENCE"]
fn events_are_the_reference_s() {
    let reference =
        std::env::var("REFERENCE").expect("REFERENCE=host:port names a server that may be flushed");
    let process = Process::start(&["--enable-debug-command", "yes"]);
    let server = format!("127.0.0.1:{}", process.port);
    let mut pair = Pair {
        here: Link::connect("this server", &server),
        there: Link::connect("the reference", &reference),
    };
    let mut listeners = Listeners::connect(&server, &reference);
    let seed = number("SEED").unwrap_or(1);
    let commands = number("COMMANDS").unwrap_or(100_000);
    play_events(&mut pair, &mut listeners, Settings::alike, seed, commands);
}

/// Whatever the encodings, the replies are the same.
#[test]
fn encodings_do_not_show() {
    let scale = number("WARMLINE_TEST_SCALE").unwrap_or(1);
    let options = ["--enable-debug-command", "yes"];
    let (one, other) = (Process::start(&options), Process::start(&options));
    let address = |process: &Process| format!("127.0.0.1:{}", process.port);
    let mut pair =
        Pair { here: Link::connect("one", &address(&one)), there: Link::connect("other", &address(&other)) };
    let mut dumper = Link::connect("other", &address(&other));
    let seed = number("SEED").unwrap_or(1);
    play_all(&mut pair, &mut dumper, Settings::unlike, seed, 3 * RUN_COMMANDS as u64 * scale);
}

/// What the reference answers.
#[test]
#[ignore = "needs a reference server in REFERENCE"]
fn replies_are_the_reference_s() {
    let reference =
        std::env::var("REFERENCE").expect("REFERENCE=host:port names a server that may be flushed");
    let process =
        std::env::var("SERVER").is_err().then(|| Process::start(&["--enable-debug-command", "yes"]));
    let server = match &process {
        Some(process) => format!("127.0.0.1:{}", process.port),
        None => std::env::var("SERVER").unwrap(),
    };
    let mut pair = Pair {
        here: Link::connect("this server", &server),
        there: Link::connect("the reference", &reference),
    };
    let mut dumper = Link::connect("the reference", &reference);
    let seed = number("SEED").unwrap_or_else(|| u64::from(std::process::id()) * 1_000_003);
    let commands = number("COMMANDS").unwrap_or(1_000_000);
    eprintln!("SEED={seed} COMMANDS={commands}");
    play_all(&mut pair, &mut dumper, Settings::alike, seed, commands);
}
