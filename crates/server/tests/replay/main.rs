//! What is in the append-only file, and in a snapshot, is what is in memory: random commands to a server in this
//! process, with a clock that the test turns, and now and then a second server that reads what the first has written.
//!
//! ```text
//! cargo test -p warmline-server --test replay
//!     a hundred thousand commands; WARMLINE_TEST_SCALE=50 multiplies the number
//! SEED=7 RUNS=1 CHECK_EVERY=1 cargo test -p warmline-server --test replay
//!     one run from its seed, compared after each command: names the one that is propagated wrongly
//! ```
//!
//! The commands are those of the differential test with what it leaves out because two servers do not do it at the same
//! time: keys and fields that expire soon or at once, keys that are evicted, databases that are exchanged, several
//! connections of which some wait, scripts of several commands, transactions, functions, and files that are rewritten,
//! switched off and on, and loaded anew in between. They are on the simulation's disk, whose children are done some
//! time later, or never. The clock of the second server is ahead, by nothing or
//! by a year: what is expired by then is still there when the file does not say that it was removed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../differential/arguments.rs"]
mod arguments;
mod commands;
mod contents;
#[allow(dead_code, reason = "the differential test uses all of it")]
#[path = "../differential/generate.rs"]
mod generate;
mod hidden_slots;
mod life;
#[allow(dead_code, reason = "the differential test uses all of it")]
#[path = "../differential/limits.rs"]
mod limits;
mod propagated;
#[path = "../differential/random.rs"]
mod random;
mod slots;
#[allow(dead_code, reason = "the differential test uses all of it")]
#[path = "../differential/step.rs"]
mod step;
#[path = "../differential/words.rs"]
mod words;
#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "../simulation/world.rs"]
mod world;

use commands::Commands;
use contents::{Contents, Detail};
use life::{Life, shown};
use limits::LIMITS;
use server::config::{AppendFsync, Config, PrefixRule, SetOrigin};
use step::{Command, Step};
use structures::random::Random;
use world::Weather;

const COMMANDS: u64 = 100_000;
const RUN_COMMANDS: u64 = 2_000;
/// Commands between two comparisons.
const CHECK_EVERY: u64 = 400;
/// Number of commands after which a run continues with a server started from a snapshot of the first.
const REBASE_EVERY: u64 = 700;
/// By how much the clock of who reads the file may be ahead.
const AHEAD_MS: &[u64] = &[0, 1, 60, 3_600_000, 31_000_000_000];
const START_UNIX_MS: i64 = 1_700_000_000_123;
/// Of a thousand children, the number that cannot be forked, and the number that are killed.
const WEATHER: Weather =
    Weather { fork: 50, child: 150, write: 0, sync: 0, cut: 0, entry: 0, read: 0, room: None, slow: 0 };
/// Of the commands before a difference, those shown that name its key.
const SHOWN_COMMANDS: usize = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Limits of encodings, and how the base of the append-only file is written, differ from run to run.
fn config_of(seed: u64) -> Config {
    let mut config =
        Config { appendonly: true, appendfsync: AppendFsync::No, save: Vec::new(), ..Config::default() };
    config.enable_debug_command = server::config::ProtectedAction::Yes;
    config.aof_use_rdb_preamble = seed.is_multiple_of(2);
    config.aof_timestamp_enabled = seed.is_multiple_of(5);
    config.memory_prefixes = if seed.is_multiple_of(3) { PrefixRule::Off } else { PrefixRule::Learn };
    let (limits, _) = LIMITS[seed as usize / 2 % LIMITS.len()];
    let limits: Vec<_> = limits.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    config.set(&limits, SetOrigin { loading: true, local: true }).unwrap();
    config
}

/// What runs have come upon.
#[derive(Debug, Default)]
struct Met {
    commands: u64,
    /// Commands that were answered with one.
    errors: u64,
    evicted_keys: u64,
    rewrites: u64,
}

/// One life from its seed, compared again and again with what it has written.
struct Run {
    seed: u64,
    config: Config,
    life: Life,
    /// Of the comparisons, so that how often there are any changes nothing.
    random: Random,
    history: Vec<(usize, Command)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let config = config_of(seed);
        let life = Life::begin(&config, WEATHER, START_UNIX_MS, seed);
        Run { seed, config, life, random: Random::new(!seed), history: Vec::new() }
    }

    fn play(&mut self, met: &mut Met) {
        let every = number("CHECK_EVERY").unwrap_or(CHECK_EVERY);
        let mut commands = Commands::new(self.seed, START_UNIX_MS);
        for count in 1..=RUN_COMMANDS {
            let (client, command) = commands.next(&mut self.life);
            self.history.push((client, command.clone()));
            met.errors += u64::from(self.life.send(client, &command).first() == Some(&b'-'));
            commands.turn_the_clock(&mut self.life);
            if loads_other_data(&command) && self.life.executor.server.config.appendonly {
                self.life.rewrite_log();
            }
            if count % every == 0 {
                self.check(count);
            }
            if count % REBASE_EVERY == 0 || count == RUN_COMMANDS {
                let executor = &self.life.executor;
                met.evicted_keys += executor.db.figures.evicted_keys;
                met.rewrites += executor.server.observed.persistence.log.rewrites;
                self.life = self.life.reborn(&self.config, self.seed);
            }
        }
        met.commands += RUN_COMMANDS;
    }

    /// Compares what is there with what the files give.
    fn check(&mut self, count: u64) {
        let ahead_ms = AHEAD_MS[self.random.below(AHEAD_MS.len() as u64) as usize];
        if self.life.is_logged() {
            // What is done so far of a transaction or of a script is propagated at its end.
            let replayed = self.life.replayed(&self.config, ahead_ms);
            replayed.executor.db.check();
            let there = Contents::of(&replayed.executor, Detail::WithoutTimes);
            let here = Contents::of(&self.life.executor, Detail::WithoutTimes);
            self.compare(count, &here, &there, "the append-only file");
        }
        self.life.executor.db.check();
        let (loaded, libraries) = self.life.snapshot_loaded(&self.config);
        let now_ms = self.life.executor.server.now.unix_ms();
        let here = Contents::of(&self.life.executor, Detail::All).without_expired(now_ms);
        let there = Contents::of_db(&loaded, libraries, Detail::All).without_expired(now_ms);
        self.compare(count, &here, &there, "the snapshot");
    }

    fn compare(&self, count: u64, here: &Contents, there: &Contents, from: &str) {
        let Some((key, difference)) = here.difference(there) else { return };
        let names = |command: &Command| {
            let broad = ["SWAPDB", "FLUSH", "FUNCTION", "SELECT"];
            let is_broad = command.first().is_some_and(|name| {
                let name = String::from_utf8_lossy(name).to_ascii_uppercase();
                broad.iter().any(|broad| name.starts_with(broad))
            });
            is_broad || command.iter().any(|word| *word == key || (!key.is_empty() && word.ends_with(&key)))
        };
        let related: Vec<_> = self.history.iter().filter(|(_, command)| names(command)).collect();
        let shown: String = related[related.len().saturating_sub(SHOWN_COMMANDS)..]
            .iter()
            .map(|(client, command)| format!("  client {client}: {}\n", shown(command)))
            .collect();
        let propagated: String = self.life.propagated(&key, SHOWN_COMMANDS);
        panic!(
            "SEED={} after {count} commands: {from} does not give what is there.\n{difference}\ncommands:\n{shown}\
             last command: {}\npropagated:\n{propagated}",
            self.seed,
            self.history.last().map(|(_, command)| self::shown(command)).unwrap_or_default(),
        );
    }
}

/// Of which no command tells.
fn loads_other_data(command: &Command) -> bool {
    matches!(command.as_slice(), [debug, reload, _, ..] if debug == b"DEBUG" && reload == b"RELOAD")
}

#[test]
fn replay_equals_life() {
    let scale = number("WARMLINE_TEST_SCALE").unwrap_or(1);
    let first = number("SEED").unwrap_or(1);
    let runs = number("RUNS").unwrap_or(COMMANDS * scale / RUN_COMMANDS);
    let mut met = Met::default();
    (first..first + runs).for_each(|seed| Run::new(seed).play(&mut met));
    eprintln!("{met:?}");
    assert!(met.errors * 2 < met.commands, "most commands change or read something");
    assert!(runs < 10 || met.evicted_keys > met.commands / 1000, "memory runs short");
    assert!(runs < 10 || met.rewrites > met.commands / 1000, "the file is rewritten");
}
