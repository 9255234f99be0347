//! The whole executor in a world that is made up from a seed: a disk that fills and fails, power that goes at any call,
//! children that are killed, a clock that is set, clients that send in pieces, stall and vanish, scripts that are put
//! aside, a log that is switched off and on. After each end the server is started again on what is left.
//!
//! ```text
//! WARMLINE_TEST_SCALE=10 cargo test -p warmline-server --test simulation     ten times as long
//! WARMLINE_TEST_SEED=n cargo test -p warmline-server --test simulation       one episode again
//! ```
//!
//! What must be so, whatever happens:
//!
//! 1. What is found is the history up to some unit (a command, transaction or script), whole: nothing by half, nothing
//!    out of order. All data is compared, by its digest, with that of a server that was sent the same and kept nothing.
//! 2. With `appendfsync always` all that was acknowledged is found. With `everysec` all that was acknowledged two seconds
//!    before, not counting time in which writes were refused; and all that was written, if only the process ended.
//!    Without the file, the last save that was said to have succeeded, or a later one. What CONFIG SET has switched holds
//!    from its reply on; the next start reads what it has switched to once that is complete.
//! 3. A start succeeds, unless a read fails, or an fsync had failed and the power went before a rewrite made up for it.
//! 4. Requests are answered or refused with a reason; once the disk is well again, writes are accepted.
//! 5. On a disk whose calls take 15 s, clients that read go on: in a turn of the loop the server waits for no call but what
//!    [`Episode::may_wait`] names: with `appendfsync always` any; for SAVE and CONFIG SET; and for the names that files are
//!    given where a child begins and ends. It never waits for the append-only file's fsync in the background.
//! 6. A server with nothing to do makes hardly any calls, and files do not pile up.
//!
//! `network` has several servers, and connections between them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod confirmed_replies;
mod failed_fsync;
mod forks;
mod history;
mod leftovers;
mod loading;
mod network;
mod nodes_conf;
mod peer;
mod promise;
mod requests;
mod slow_disk;
mod stalled_disk;
mod switched_off;
mod world;

use history::{History, Unit, ask};
use peer::{Peer, RECEIPT, Request};
use promise::Source;
use requests::Shape;
use server::clock::Clock;
use server::config::{AppendFsync, Config, PrefixRule, ProtectedAction, SavePoint};
use server::engine::loading::RestoreError;
use server::engine::{Executor, Seeds};
use server::server::{Identity, ProcessRequest, Shutdown};
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use server::sys::world::World;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Once};
use structures::hash::HashSeed;
use structures::random::Random;
use world::{Disk, End, Weather};

/// The first instant: 2026-01-01, midnight.
const START_UNIX_US: i64 = 1_767_225_600_000_000;
const DAY_US: i64 = 86_400_000_000;
/// Longer turns of the clock are those of a process that did not run.
const TURN_US_MAX: u64 = 100_000;
const PEERS: usize = 4;
const FILES_MAX: usize = 60;
/// How fast time goes for a script that is to be put aside, with each look at the clock.
const PACE_US: u64 = 100;
/// Far more turns of the loop than a script is put aside.
const SLICES_MAX: usize = 10_000;

pub fn server_of(config: Config, monotonic_us: u64) -> Executor {
    server_with(config, monotonic_us, 3)
}

/// The ids of its histories are drawn from `random`.
pub fn server_with(config: Config, monotonic_us: u64, random: u64) -> Executor {
    let identity = Identity {
        run_id: "0".repeat(40),
        process_id: 1,
        executable: String::new(),
        config_file: String::new(),
        started: Default::default(),
    };
    let mut clock = Clock::standing_at(START_UNIX_US / 1000);
    clock.advance_ms(monotonic_us / 1000);
    Executor::new(config, clock, identity, Seeds { hash: HashSeed::new(1, 2), random, secret: [4; 32] })
}

pub fn connect(executor: &mut Executor) -> ClientHandle {
    executor.connect(ConnectionFigures { is_loopback: true, ..ConnectionFigures::default() })
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    commands: u64,
    put_aside: u64,
    switched: u64,
    lives: u64,
    power_cuts: u64,
    refused: u64,
    /// For a slow disk.
    waits: u64,
    faults: u64,
    calls: u64,
}

struct Episode {
    random: Random,
    disk: Arc<Disk>,
    config: Config,
    source: Source,
    /// The administrator changes how the data is kept.
    switches: bool,
    history: History,
    executor: Option<Box<Executor>>,
    peers: Vec<Peer>,
    units: u64,
    /// The last unit of the history, if it is a script that has been put aside.
    in_flight: Option<u64>,
    has_been_busy: bool,
    /// What is to be in the clock of the next tick.
    monotonic_us: u64,
    unix_offset_us: i64,
    /// Time in which the server ran.
    active_us: u64,
    acknowledged: VecDeque<(u64, usize)>,
    /// When writing last failed, in active time.
    trouble_us: Option<u64>,
    /// The disk has lost what an fsync had failed for, and no rewrite has made up for it.
    lacks_pages: bool,
    mended_after_ticks: u32,
    /// The next process knows nothing of that.
    forgotten_pages: bool,
    /// And the power has gone since.
    lost_power: bool,
    /// The append-only file was written to, and complete, at the end of the last tick.
    log_was_in_use: bool,
    /// How many units the last child holds, at least.
    forked: usize,
    forks: u64,
    /// How many had been done when the last tick began.
    units_before: usize,
    saves: u64,
    /// An administrator has asked for something in this tick that the server may do at once.
    asked: bool,
    figures_before: slow_disk::FiguresBefore,
    pending_fsync_since_us: Option<u64>,
    idle_ticks: u64,
    idle_calls: u64,
    totals: Totals,
}

impl Episode {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (source, appendfsync) = match random.below(5) {
            0 => (Source::Snapshot, AppendFsync::No),
            1 | 2 => (Source::Log, AppendFsync::Always),
            3 => (Source::Log, AppendFsync::No),
            _ => (Source::Log, AppendFsync::EverySecond),
        };
        let saves = source == Source::Snapshot || random.below(4) == 0;
        let config = Config {
            appendfsync,
            busy_reply_threshold_ms: 1,
            save: saves.then_some(SavePoint { seconds: 1, changes: 1 }).into_iter().collect(),
            auto_aof_rewrite_min_size_bytes: 1000 + random.below(40_000),
            auto_aof_rewrite_percentage: 60,
            aof_use_rdb_preamble: random.below(3) > 0,
            aof_timestamp_enabled: random.below(3) == 0,
            rdbcompression: random.below(2) == 0,
            memory_prefixes: [PrefixRule::Off, PrefixRule::Learn][random.below(2) as usize].clone(),
            enable_debug_command: ProtectedAction::Yes,
            ..Config::default()
        };
        let mut episode = Episode {
            disk: Arc::new(Disk::new(random.next_u64())),
            random,
            config,
            source,
            switches: false,
            history: History::default(),
            executor: None,
            peers: Vec::new(),
            units: 0,
            in_flight: None,
            has_been_busy: false,
            monotonic_us: 0,
            unix_offset_us: 0,
            active_us: 0,
            acknowledged: VecDeque::new(),
            trouble_us: None,
            lacks_pages: false,
            mended_after_ticks: 0,
            forgotten_pages: false,
            lost_power: false,
            log_was_in_use: false,
            forked: 0,
            forks: 0,
            units_before: 0,
            saves: 0,
            asked: false,
            figures_before: slow_disk::FiguresBefore::default(),
            pending_fsync_since_us: None,
            idle_ticks: 0,
            idle_calls: 0,
            totals: Totals::default(),
        };
        episode.switches = episode.random.below(2) == 0;
        episode
    }

    fn executor(&mut self) -> &mut Executor {
        self.executor.as_mut().expect("a server runs")
    }

    fn run(&mut self) {
        for _ in 0..self.random.below(8) + 2 {
            self.totals.lives += 1;
            let lived = catch_unwind(AssertUnwindSafe(|| self.live()));
            let end = match lived {
                // What is found from here on would be another history.
                Ok(Ok(_)) if self.lost_power => return,
                Ok(Ok(end)) => end,
                Ok(Err(error)) => {
                    assert!(self.lost_power, "the start is refused: {error}\n{:?}", self.disk.listing());
                    self.totals.refused += 1;
                    return;
                }
                Err(panic) => match panic.downcast::<End>() {
                    Ok(end) => *end,
                    Err(panic) => resume_unwind(panic),
                },
            };
            log::info!("---- {end:?} after {} units, {} of them safe", self.history.len(), self.history.safe);
            self.after_end(end);
        }
    }

    fn after_end(&mut self, end: End) {
        self.executor = None;
        self.peers.clear();
        self.forgotten_pages |= self.disk.take_pages_lost() || self.lacks_pages;
        self.lacks_pages = false;
        self.disk.restart(end);
        if end == End::PowerCut {
            self.totals.power_cuts += 1;
            self.lost_power |= self.forgotten_pages;
            self.history.safe_from_kills = self.history.safe;
        }
        self.acknowledged.clear();
        (self.trouble_us, self.in_flight) = (None, None);
    }

    /// One process, from its start to its end.
    fn live(&mut self) -> Result<End, RestoreError> {
        self.plan_end();
        self.disk.set_weather(Weather { read: self.random.below(40) / 39 * 20, ..Weather::default() });
        let readable = self.start();
        if readable.is_err() {
            // Perhaps it was the disk.
            self.disk.set_weather(Weather::default());
            self.start()?;
        }
        self.disk.set_weather(Weather::default());
        self.verify();
        let ticks = self.random.below(500) + 50;
        for _ in 0..ticks {
            self.turn_clock();
            self.change_weather();
            self.tick();
        }
        if self.random.below(3) == 0 {
            self.recover();
        }
        self.let_script_end();
        self.compare(self.history.len());
        Ok(match self.random.below(4) {
            0 => End::PowerCut,
            1 => End::Killed,
            _ => self.stop(),
        })
    }

    fn plan_end(&mut self) {
        let calls = match self.random.below(4) {
            0 => return,
            1 => self.random.below(30),
            2 => self.random.below(300),
            _ => self.random.below(1500),
        };
        let end = if self.random.below(4) == 0 { End::Killed } else { End::PowerCut };
        self.disk.end_after(calls, end);
    }

    fn start(&mut self) -> Result<(), RestoreError> {
        self.config.appendonly = self.source == Source::Log;
        let mut executor = Box::new(server_of(self.config.clone(), 0));
        executor.move_to(World::of(self.disk.clone()));
        (self.monotonic_us, self.forks, self.saves) = (0, 0, 0);
        (self.forked, self.units_before) = (0, 0);
        self.disk.set_time(0);
        executor.clock.set_unix_us(START_UNIX_US + self.unix_offset_us);
        self.executor = Some(executor);
        self.executor().begin_loading()?;
        while self.executor().is_loading() {
            self.executor().begin_tick();
            self.executor().load_step()?;
            self.executor().end_tick();
        }
        self.log_was_in_use = self.log_is_in_use();
        Ok(())
    }

    /// Compares what is there with the history.
    fn verify(&mut self) {
        let executor = self.executor.as_mut().expect("it has just been started");
        executor.begin_tick();
        let client = connect(executor);
        let found = ask(executor, client, &[b"GET", b"unit"]);
        executor.disconnect(client);
        let number = number_in(&found);
        if self.lost_power {
            // Nothing is promised of what is there.
            return;
        }
        let position = self.history.position_of(number).expect("what is found has been done");
        let safe = self.history.safe.max(self.history.safe_from_kills);
        assert!(
            position >= safe,
            "{:?}, {:?}: {position} of {safe} are found",
            self.source,
            self.config.appendfsync
        );
        log::info!("{position} units are found, {safe} must be");
        self.compare(position);
        self.history.end_at(position);
    }

    /// The server's data must be that of the history up to here.
    fn compare(&mut self, position: usize) {
        if self.lost_power {
            return;
        }
        let expected = self.history.digest_at(&self.config, position);
        let executor = self.executor.as_mut().expect("a server runs");
        executor.db.check();
        executor.begin_tick();
        let client = connect(executor);
        let digest = ask(executor, client, &[b"DEBUG", b"DIGEST"]);
        executor.disconnect(client);
        if expected != digest {
            let differences = self.history.differences(executor);
            panic!("{:?}: {position} of {}: {differences}", self.source, self.history.len());
        }
    }

    fn turn_clock(&mut self) {
        let turn_us = match self.random.below(100) {
            0 => self.random.below(3_000_000),
            1..=9 => self.random.below(100_000),
            _ => self.random.below(5000),
        };
        self.turn_clock_by(turn_us);
    }

    fn turn_clock_by(&mut self, turn_us: u64) {
        self.monotonic_us = self.executor().clock.monotonic_us() + turn_us / 1000 * 1000;
        self.active_us += turn_us.min(TURN_US_MAX);
        if self.random.below(200) == 0 {
            self.unix_offset_us = self.random.below(2 * DAY_US as u64) as i64 - DAY_US;
        }
        let (monotonic_us, unix_offset_us) = (self.monotonic_us, self.unix_offset_us);
        let executor = self.executor();
        executor.clock.advance_ms(turn_us / 1000);
        executor.clock.set_unix_us(START_UNIX_US + unix_offset_us + monotonic_us as i64);
        self.disk.set_time(monotonic_us);
    }

    fn change_weather(&mut self) {
        if self.random.below(60) > 0 {
            return;
        }
        let random = &mut self.random;
        let often = [0, 0, 3, 30, 200];
        let mut chance = || often[random.below(often.len() as u64) as usize];
        let storm = Weather {
            write: chance(),
            sync: chance(),
            cut: chance(),
            entry: chance(),
            read: chance(),
            fork: chance() * 2,
            child: chance() * 2,
            room: None,
            slow: 0,
        };
        let weather = match self.random.below(6) {
            0 => storm,
            1 => Weather { room: Some(self.random.below(3000) as usize), ..Weather::default() },
            2 => Weather { room: Some(self.random.below(3000) as usize), cut: 300, ..Weather::default() },
            3 => Weather { slow: often[1 + self.random.below(4) as usize] * 5, ..Weather::default() },
            _ => Weather::default(),
        };
        self.disk.set_weather(weather);
    }

    fn tick(&mut self) {
        let calls = self.disk.figures().calls;
        let units = self.done();
        self.saves_begin(units);
        self.begin_waiting();
        self.executor().begin_tick();
        let commands = self.totals.commands;
        for index in 0..PEERS {
            self.act(index);
        }
        self.run_timers();
        while let Some(handle) = self.executor().server.resumed.pop_front() {
            let is_there = self.executor().server.clients.get(handle).is_some();
            assert!(!is_there || !self.executor().is_waiting(handle));
        }
        self.executor().end_tick();
        // From here on replies are on their way.
        if self.disk.take_pages_lost() {
            // The server looks at what other threads have met once a tick.
            (self.lacks_pages, self.mended_after_ticks) = (true, 3);
        }
        self.check_waits();
        self.note_acknowledged(units);
        self.take_outputs();
        let calls = self.disk.figures().calls - calls;
        if commands == self.totals.commands && !self.disk.has_child() {
            self.idle_ticks += 1;
            self.idle_calls += calls;
        }
        let files = self.disk.listing();
        assert!(files.len() <= FILES_MAX, "files pile up: {files:?}");
    }

    /// A script that has been put aside goes on.
    fn run_timers(&mut self) {
        let was_busy = self.executor().is_busy();
        self.has_been_busy |= was_busy;
        self.executor().clock.set_pace_us(if was_busy { PACE_US } else { 0 });
        self.executor().run_timers();
        self.executor().clock.set_pace_us(0);
        if was_busy && !self.executor().is_busy() {
            self.settle_script();
        }
    }

    /// The script put aside has come to its end: it has done all, or was refused or killed before it did anything.
    fn settle_script(&mut self) {
        let executor = self.executor.as_mut().expect("a server runs");
        let client = connect(executor);
        let found = ask(executor, client, &[b"GET", b"unit"]);
        executor.disconnect(client);
        if let Some(number) = self.in_flight.take()
            && number_in(&found) != number
        {
            self.history.take_back();
        }
    }

    fn let_script_end(&mut self) {
        for _ in 0..SLICES_MAX {
            if !self.executor().is_busy() {
                return;
            }
            self.turn_clock_by(1000);
            self.tick();
        }
        panic!("a script does not end");
    }

    /// A client does something, or nothing, or is gone.
    fn act(&mut self, index: usize) {
        if self.peers.len() <= index {
            let peer = Peer::new(self.executor(), index == 0);
            self.peers.push(peer);
        }
        match self.random.below(300) {
            0 => return self.reconnect(index),
            1 => self.peers[index].vanish(),
            2..=250 => return,
            _ => {}
        }
        if self.peers[index].is_idle() {
            self.write_request(index);
        }
        self.peers[index].send(&mut self.random);
        let is_open = self.peers[index].read();
        self.run_requests(index);
        if !is_open {
            self.reconnect(index);
        }
    }

    /// The connection is gone, and another client has come.
    fn reconnect(&mut self, index: usize) {
        let executor = self.executor.as_mut().expect("a server runs");
        executor.disconnect(self.peers[index].handle);
        self.peers[index] = Peer::new(executor, self.peers[index].is_administrator);
    }

    fn run_requests(&mut self, index: usize) {
        let handle = self.peers[index].handle;
        while let Some(executor) = self.executor.as_ref().filter(|executor| executor.accepts_requests(handle))
            && let Some(request) = self.peers[index].next_request(executor)
        {
            self.execute(handle, request);
        }
    }

    fn write_request(&mut self, index: usize) {
        let random = &mut self.random;
        let peer = &mut self.peers[index];
        if peer.is_administrator {
            let words = match random.below(if self.switches { 15 } else { 40 }) {
                0..4 => requests::administration(random, self.switches),
                _ => requests::words("PING"),
            };
            peer.write(Request { words, does: None });
            if random.below(20) == 0 {
                peer.write(Request { words: requests::words("RESET"), does: None });
            }
            return;
        }
        for _ in 0..random.below(3) + 1 {
            let shape = match random.below(6) {
                0 => Shape::Alone,
                1 => Shape::Script,
                _ => Shape::Transaction,
            };
            self.units += 1;
            let commands = requests::unit(random, self.units, shape);
            let requests = requests::requests_of(&commands, shape);
            let last = requests.len() - 1;
            for (at, words) in requests.into_iter().enumerate() {
                let does = (at == last).then(|| (commands.clone(), self.units));
                peer.write(Request { words, does });
            }
        }
    }

    fn execute(&mut self, handle: ClientHandle, request: Request) {
        self.totals.commands += 1;
        let executor = self.executor.as_mut().expect("a server runs");
        let number = request.does.as_ref().map(|(_, number)| *number);
        let does = number.is_some();
        if let Some((commands, number)) = request.does {
            self.totals.commands += commands.len() as u64;
            let unix_us = executor.server.now.unix_us;
            // The process may end while it is done.
            self.history.push(Unit { number, commands, unix_us });
        }
        let words: Vec<&[u8]> = request.words.iter().map(Vec::as_slice).collect();
        self.asked |= slow_disk::is_done_at_once(words[0]);
        let was_busy = executor.is_busy();
        let paced = words[0] == b"EVAL" && self.random.below(2) == 0;
        executor.clock.set_pace_us(if paced { PACE_US } else { 0 });
        let answer = ask(executor, handle, &words);
        executor.clock.set_pace_us(0);
        if executor.is_busy() && !was_busy {
            self.totals.put_aside += 1;
            (self.in_flight, self.has_been_busy) = (number, true);
            return;
        }
        if answer.starts_with(b"-") {
            let text = String::from_utf8_lossy(&answer).into_owned();
            let name = String::from_utf8_lossy(words[0]);
            assert!(self.is_reason(&text, does, &name), "{name}: {text}");
        }
        if does && (answer.is_empty() || answer.starts_with(b"-") || answer.starts_with(b"*-1")) {
            self.history.take_back();
        }
        if request.words == requests::words("SAVE") && answer == b"+OK\r\n" {
            self.saved(self.done());
        }
        if does && !answer.starts_with(b"-") && !answer.is_empty() && !answer.starts_with(b"*-1") {
            let units = self.done();
            let executor = self.executor.as_mut().expect("a server runs");
            executor.server.clients[handle].output.raw(&[RECEIPT]);
            let peer = self.peers.iter_mut().find(|peer| peer.handle == handle);
            peer.expect("a peer has sent it").unacknowledged.push_back(units);
        }
    }

    fn take_outputs(&mut self) {
        let executor = self.executor.as_mut().expect("a server runs");
        let with_output = std::mem::take(&mut executor.server.clients.with_output);
        let mut acknowledged = 0;
        for peer in &mut self.peers {
            acknowledged = acknowledged.max(peer.receive(executor).unwrap_or(0));
            executor.server.clients[peer.handle].output_pending = false;
            if executor.server.clients[peer.handle].is_closing() {
                executor.disconnect(peer.handle);
                *peer = Peer::new(executor, peer.is_administrator);
            }
        }
        for handle in with_output {
            if executor.server.clients.get(handle).is_some() {
                executor.server.clients[handle].output_pending = false;
            }
        }
        executor.server.clients_to_close.clear();
        if self.log_was_in_use && self.config.appendfsync == AppendFsync::Always {
            self.history.safe = self.history.safe.max(acknowledged);
        }
    }

    /// The disk is well again: so is the server, after a while.
    fn recover(&mut self) {
        self.disk.set_weather(Weather::default());
        for _ in 0..600 {
            self.turn_clock_by(TURN_US_MAX);
            self.tick();
        }
        self.let_script_end();
        let executor = self.executor.as_mut().expect("a server runs");
        executor.begin_tick();
        let client = connect(executor);
        let answer = ask(executor, client, &[b"PING"]);
        executor.disconnect(client);
        assert_eq!(answer, b"+PONG\r\n", "{}", String::from_utf8_lossy(&answer));
        let mean = self.idle_calls as f64 / self.idle_ticks.max(1) as f64;
        assert!(self.idle_ticks < 200 || mean < 3.0, "{mean} calls in a tick with nothing to do");
    }

    /// As the system's signal asks for.
    fn stop(&mut self) -> End {
        self.executor().begin_tick();
        let (in_use, saves) = (self.log_is_in_use(), !self.config.save.is_empty());
        if !self.executor().shut_down(Shutdown::default()) {
            return End::Killed;
        }
        assert_eq!(self.executor().server.process_requests, [ProcessRequest::Shutdown]);
        let units = self.history.len();
        for index in 0..PEERS {
            self.act(index);
        }
        assert_eq!(self.history.len(), units, "nothing is done behind the final save");
        self.executor().end_tick();
        if in_use {
            self.history.safe_from_kills = units;
        } else if saves {
            self.saved(units);
        }
        End::Exited(0)
    }
}

/// In the reply to GET; 0 if there is none.
fn number_in(reply: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(reply).into_owned();
    text.lines().nth(1).map_or(0, |number| number.parse().unwrap())
}

/// What servers log: it is printed when one episode is played again, and its warnings are kept for the test that runs in
/// this thread.
struct Listener;

static LISTENER: Listener = Listener;
static LISTENS: Once = Once::new();

thread_local! {
    /// `None`: warnings of this thread are not kept.
    static WARNINGS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

impl log::Log for Listener {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() == log::Level::Warn {
            WARNINGS.with_borrow_mut(|warnings| {
                warnings.iter_mut().for_each(|warnings| warnings.push(record.args().to_string()));
            });
        }
        if log::max_level() > log::LevelFilter::Warn {
            println!("{}", record.args());
        }
    }

    fn flush(&self) {}
}

/// Listens to what servers log. Beyond warnings it is printed.
pub fn listen(level: log::LevelFilter) {
    LISTENS.call_once(|| log::set_logger(&LISTENER).unwrap());
    log::set_max_level(level.max(log::max_level()));
    WARNINGS.set(Some(Vec::new()));
}

/// The warnings of this thread's servers since the last call.
pub fn take_warnings() -> Vec<String> {
    WARNINGS.replace(Some(Vec::new())).unwrap_or_default()
}

fn play(seed: u64) -> Totals {
    let mut episode = Episode::new(seed);
    let played = catch_unwind(AssertUnwindSafe(|| episode.run()));
    if let Err(panic) = played {
        println!("WARMLINE_TEST_SEED={seed} plays this again");
        resume_unwind(panic);
    }
    let figures = episode.disk.figures();
    Totals { faults: figures.faults, calls: figures.calls, ..episode.totals }
}

#[test]
fn what_was_acknowledged_survives_whatever_happens() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = variable("WARMLINE_TEST_SEED") {
        listen(log::LevelFilter::Info);
        println!("{:?}", play(seed));
        return;
    }
    let wanted = 500_000 * variable("WARMLINE_TEST_SCALE").unwrap_or(1);
    let mut totals = Totals::default();
    for seed in 1.. {
        let played = play(seed);
        totals.commands += played.commands;
        totals.put_aside += played.put_aside;
        totals.switched += played.switched;
        totals.lives += played.lives;
        totals.power_cuts += played.power_cuts;
        totals.refused += played.refused;
        totals.waits += played.waits;
        totals.faults += played.faults;
        totals.calls += played.calls;
        if totals.commands >= wanted {
            println!("{seed} episodes: {totals:?}");
            break;
        }
    }
}
