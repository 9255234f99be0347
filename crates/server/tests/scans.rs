//! What scans promise: every element present from the first call to the last is returned, whatever grows, shrinks,
//! changes its form or is saved and loaded in between; cursors are numbers that clients can hold; a reply has about
//! as many elements as COUNT says. For keys, sets, hashes and sorted sets of either index, in this process, with
//! random changes between the calls; a failure tells its seed, and `WARMLINE_TEST_SCALE` multiplies the rounds.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::{Config, ProtectedAction, ZsetIndex};
use server::engine::{Executor, Flow, Seeds};
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use structures::hash::HashSeed;
use structures::random::Random;
use wire::response::{Reader, Value};

struct Server {
    executor: Box<Executor>,
    client: ClientHandle,
}

impl Server {
    fn new(seed: u64, index: ZsetIndex) -> Server {
        static SERVERS: AtomicU64 = AtomicU64::new(0);
        let number = SERVERS.fetch_add(1, Relaxed);
        // The test's working directory; this executor does not change it.
        let dbfilename = format!("scans-{}-{number}.rdb", std::process::id()).into_bytes();
        let config = Config {
            enable_debug_command: ProtectedAction::Yes,
            save: Vec::new(),
            dbfilename,
            zset_index: index,
            ..Config::default()
        };
        let identity = Identity {
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            process_id: 1,
            executable: "warmline-server".into(),
            config_file: String::new(),
            started: Default::default(),
        };
        let seeds = Seeds { hash: HashSeed::new(seed, !seed), random: seed, secret: [4; 32] };
        let mut executor =
            Box::new(Executor::new(config, Clock::standing_at(1_767_225_600_000), identity, seeds));
        executor.begin_tick();
        let client = executor.connect(ConnectionFigures {
            address: "127.0.0.1:1000".into(),
            local_address: "127.0.0.1:6379".into(),
            is_loopback: true,
            ..ConnectionFigures::default()
        });
        Server { executor, client }
    }

    fn ask(&mut self, words: &[&[u8]]) -> Value {
        let executor = &mut *self.executor;
        executor.begin_tick();
        let args = OwnedArgs::new(words.iter().copied());
        let mut reply = executor.borrow_output(self.client);
        reply.take_references();
        let request = executor.request(args.view());
        let _: Flow = executor.execute_into(self.client, request, &mut reply);
        executor.return_output(self.client, reply);
        executor.run_timers();
        executor.end_tick();
        let output = executor.server.clients[self.client].output.take();
        executor.server.clients[self.client].output_pending = false;
        executor.server.clients.with_output.clear();
        Reader::new().read(&output.copy_from(0), &mut 0).unwrap().expect("a whole reply")
    }

    fn say(&mut self, line: &str) -> Value {
        let reply = self.ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert!(!reply.is_error(), "{line}: {reply:?}");
        reply
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let file = String::from_utf8(self.executor.server.config.dbfilename.clone()).unwrap();
        let _ = std::fs::remove_file(file);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walked {
    Keys,
    Set,
    Hash,
    SortedSet,
}

/// What elements look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Integers near zero.
    Near,
    /// Integers far from zero, one beside the other.
    Far,
    /// All 64 bits.
    Sparse,
    Text,
    Mixed,
    /// Longer than a page keeps in itself.
    Long,
}

const LOOKS: [Look; 6] = [Look::Near, Look::Far, Look::Sparse, Look::Text, Look::Mixed, Look::Long];

impl Look {
    fn element(self, number: u64) -> Vec<u8> {
        match self {
            Look::Near => (number as i64 - 500).to_string().into_bytes(),
            Look::Far => ((1 << 62) + number as i64).to_string().into_bytes(),
            Look::Sparse => (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64).to_string().into_bytes(),
            Look::Text => format!("element:{number}").into_bytes(),
            Look::Mixed if number.is_multiple_of(3) => Look::Text.element(number),
            Look::Mixed => Look::Near.element(number),
            Look::Long => format!("{number:0300}").into_bytes(),
        }
    }

    /// Whether cursors at all places are below 2^53.
    fn has_small_cursors(self) -> bool {
        self != Look::Far
    }
}

/// One collection, or a database of keys, that is scanned.
struct Scanned {
    server: Server,
    walked: Walked,
    look: Look,
    /// Numbers of the elements that are there now.
    present: BTreeSet<u64>,
    /// Those that have been there since the scan began.
    stayed: BTreeSet<u64>,
}

impl Scanned {
    fn add(&mut self, numbers: impl Iterator<Item = u64>) {
        let numbers: Vec<u64> = numbers.collect();
        for some in numbers.chunks(500) {
            let elements: Vec<Vec<u8>> = some.iter().map(|&number| self.look.element(number)).collect();
            self.add_elements(&elements);
            self.present.extend(some);
        }
    }

    fn add_elements(&mut self, elements: &[Vec<u8>]) {
        let mut words: Vec<&[u8]> = match self.walked {
            Walked::Keys => vec![b"MSET"],
            Walked::Set => vec![b"SADD", b"c"],
            Walked::Hash => vec![b"HSET", b"c"],
            Walked::SortedSet => vec![b"ZADD", b"c"],
        };
        for (index, element) in elements.iter().enumerate() {
            match self.walked {
                Walked::Keys | Walked::Hash => words.extend([element, &b"v"[..]]),
                Walked::Set => words.push(element),
                Walked::SortedSet => words.extend([[&b"1"[..], b"2", b"-7.5"][index % 3], element]),
            }
        }
        assert!(!self.server.ask(&words).is_error());
    }

    fn remove(&mut self, numbers: Vec<u64>) {
        for some in numbers.chunks(500) {
            let elements: Vec<Vec<u8>> = some.iter().map(|&number| self.look.element(number)).collect();
            self.remove_elements(&elements);
            for number in some {
                self.present.remove(number);
                self.stayed.remove(number);
            }
        }
    }

    fn remove_elements(&mut self, elements: &[Vec<u8>]) {
        let mut words: Vec<&[u8]> = match self.walked {
            Walked::Keys => vec![b"DEL"],
            Walked::Set => vec![b"SREM", b"c"],
            Walked::Hash => vec![b"HDEL", b"c"],
            Walked::SortedSet => vec![b"ZREM", b"c"],
        };
        words.extend(elements.iter().map(Vec::as_slice));
        assert!(!self.server.ask(&words).is_error());
    }

    /// Something random happens between two calls.
    fn change(&mut self, random: &mut Random) {
        let size = [1, 10, 300, 2_000][random.below(4) as usize];
        let from = random.below(20_000);
        match random.below(12) {
            0..3 => self.add((from..from + size).step_by(1 + random.below(3) as usize)),
            3..6 => {
                let gone = self.present.range(from..).take(size as usize).copied();
                let gone: Vec<u64> = gone.filter(|number| !number.is_multiple_of(7)).collect();
                self.remove(gone);
            }
            6 | 7 => {
                // Others come, which may change the form.
                let others = (0..1 + random.below(200)).map(|i| format!("other:{i}").into_bytes());
                self.add_elements(&others.collect::<Vec<_>>());
            }
            8 => {
                let others = (0..200).map(|i| format!("other:{i}").into_bytes());
                self.remove_elements(&others.collect::<Vec<_>>());
            }
            9 => {
                let (name, limit) = (
                    ["set-max-intset-entries", "set-max-listpack-entries", "hash-max-listpack-entries"]
                        [random.below(3) as usize],
                    [0, 16, 128, 512, 700][random.below(5) as usize],
                );
                self.server.say(&format!("CONFIG SET {name} {limit}"));
            }
            10 if random.below(20) == 0 => {
                // Executors of one process write to the same temporary file.
                static RELOADING: Mutex<()> = Mutex::new(());
                let reloading = RELOADING.lock();
                self.server.say("DEBUG RELOAD");
                drop(reloading);
            }
            11 if random.below(60) == 0 => {
                // Everything goes; the same elements come back, but have not been there throughout.
                self.server.say("FLUSHALL");
                self.stayed.clear();
                let again = std::mem::take(&mut self.present);
                self.add(again.into_iter().take(700));
            }
            _ => {}
        }
    }

    /// The next cursor, and what was returned.
    fn step(&mut self, cursor: u64, count: usize) -> (u64, Vec<Vec<u8>>) {
        let (cursor, count) = (cursor.to_string(), count.to_string());
        let mut words: Vec<&[u8]> = match self.walked {
            Walked::Keys => vec![b"SCAN"],
            Walked::Set => vec![b"SSCAN", b"c"],
            Walked::Hash => vec![b"HSCAN", b"c"],
            Walked::SortedSet => vec![b"ZSCAN", b"c"],
        };
        words.extend([cursor.as_bytes(), b"COUNT", count.as_bytes()]);
        let reply = self.server.ask(&words);
        let [next, found] = reply.as_list().unwrap() else { panic!("{reply:?}") };
        let next = std::str::from_utf8(next.as_bytes().unwrap()).unwrap().parse().unwrap();
        let step = if matches!(self.walked, Walked::Hash | Walked::SortedSet) { 2 } else { 1 };
        let found = found.as_list().unwrap().iter().step_by(step);
        (next, found.map(|element| element.as_bytes().unwrap().to_vec()).collect())
    }

    /// Whether it is so small that a scan returns it whole, as a reference server does.
    fn is_compact(&mut self) -> bool {
        let encoding = self.server.ask(&[b"OBJECT", b"ENCODING", b"c"]);
        self.walked != Walked::Keys && !matches!(encoding.as_bytes(), Some(b"hashtable" | b"skiplist"))
    }
}

/// By how much a reply may exceed COUNT: by the rest of a bucket, or elements that a cursor cannot tell apart.
fn surplus_max(walked: Walked, index: ZsetIndex) -> usize {
    match (walked, index) {
        (Walked::Keys, _) | (Walked::SortedSet, ZsetIndex::Skiplist) => 20,
        _ => 5,
    }
}

/// Changes during one scan; after these it runs to its end.
const CHANGES_MAX: usize = 300;

fn scan_amid_changes(seed: u64, walked: Walked, index: ZsetIndex) {
    let mut random = Random::new(seed);
    let look = LOOKS[random.below(LOOKS.len() as u64) as usize];
    let server = Server::new(seed, index);
    let mut scanned = Scanned { server, walked, look, present: BTreeSet::new(), stayed: BTreeSet::new() };
    let elements = [3, 100, 520, 1_500, 5_000][random.below(5) as usize];
    scanned.add((0..elements).map(|i| i * 3));
    scanned.stayed = scanned.present.clone();
    let count = [1, 2, 10, 10, 10, 100, 1_000][random.below(7) as usize];
    // Rare changes let a scan get far into one form before it becomes another.
    let changes_every = [1, 2, 10, 40][random.below(4) as usize];
    let (mut cursor, mut seen, mut calls) = (0, HashSet::new(), 0);
    loop {
        let compact = scanned.is_compact();
        let (next, found) = scanned.step(cursor, count);
        assert!(next < 1 << 63, "cursor {next}");
        assert!(next < 1 << 53 || !look.has_small_cursors(), "cursor {next} of {look:?} in {walked:?}");
        let surplus = found.len().saturating_sub(count);
        assert!(compact || surplus <= surplus_max(walked, index), "{} for COUNT {count}", found.len());
        seen.extend(found);
        (cursor, calls) = (next, calls + 1);
        if cursor == 0 {
            break;
        }
        assert!(calls < 100_000, "the scan has no end");
        if calls % changes_every == 0 && calls / changes_every <= CHANGES_MAX {
            scanned.change(&mut random);
        }
    }
    let missed: Vec<u64> =
        scanned.stayed.iter().filter(|&&number| !seen.contains(&look.element(number))).copied().collect();
    assert!(
        missed.is_empty(),
        "{walked:?} of {elements} {look:?}, COUNT {count}: {} of {} missed in {calls} calls, {:?}...",
        missed.len(),
        scanned.stayed.len(),
        &missed[..missed.len().min(5)]
    );
}

fn rounds() -> u64 {
    let scale = std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse::<f64>().ok());
    (40.0 * scale.unwrap_or(1.0)) as u64
}

fn scan_with_seeds(walked: Walked, index: ZsetIndex) {
    struct SeedOnPanic(u64);
    impl Drop for SeedOnPanic {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed with seed {}", self.0);
            }
        }
    }
    let first = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    for seed in first.map_or(0..rounds(), |seed| seed..seed + 1) {
        let shown = SeedOnPanic(seed);
        scan_amid_changes(seed, walked, index);
        drop(shown);
    }
}

#[test]
fn scan_returns_every_key_that_stays() {
    scan_with_seeds(Walked::Keys, ZsetIndex::Fbtree);
}

#[test]
fn sscan_returns_every_member_that_stays() {
    scan_with_seeds(Walked::Set, ZsetIndex::Fbtree);
}

#[test]
fn hscan_returns_every_field_that_stays() {
    scan_with_seeds(Walked::Hash, ZsetIndex::Fbtree);
}

#[test]
fn zscan_returns_every_member_that_stays() {
    scan_with_seeds(Walked::SortedSet, ZsetIndex::Fbtree);
}

#[test]
fn zscan_of_skip_lists_returns_every_member_that_stays() {
    scan_with_seeds(Walked::SortedSet, ZsetIndex::Skiplist);
}

/// Any number is a valid cursor.
#[test]
fn invented_cursors_do_no_harm() {
    let mut random = Random::new(11);
    for (walked, index) in [
        (Walked::Keys, ZsetIndex::Fbtree),
        (Walked::Set, ZsetIndex::Fbtree),
        (Walked::Hash, ZsetIndex::Fbtree),
        (Walked::SortedSet, ZsetIndex::Fbtree),
        (Walked::SortedSet, ZsetIndex::Skiplist),
    ] {
        for look in LOOKS {
            let server = Server::new(random.next_u64(), index);
            let mut scanned =
                Scanned { server, walked, look, present: BTreeSet::new(), stayed: BTreeSet::new() };
            scanned.add(0..2_000);
            for _ in 0..200 {
                let mut cursor = random.next_u64() >> random.below(64);
                if random.below(3) == 0 {
                    cursor = (1u64 << random.below(64)).wrapping_add(random.below(5)).wrapping_sub(2);
                }
                for _ in 0..3 {
                    cursor = scanned.step(cursor, 10).0;
                }
            }
        }
    }
}
