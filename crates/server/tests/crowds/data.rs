//! Crowds within the data: databases, keys beside others that expire, groups, consumers and producers of a stream, and
//! sources of commands that combine collections.

use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::{Config, MaxmemoryPolicy};
use server::db::evict::EvictionPool;
use server::engine::{Executor, Flow, Seeds};
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use structures::hash::HashSeed;
use structures::work;
use wire::response::{Reader, Value};

/// How many times more there are of a crowd.
const TIMES: u64 = 16;
/// What is done once whatever the number, and what one measurement differs by from the next.
const NOISE: u64 = 100;

struct Server {
    executor: Box<Executor>,
    client: ClientHandle,
}

impl Server {
    fn new(databases: u64) -> Server {
        let config = Config {
            databases: u32::try_from(databases).unwrap(),
            save: Vec::new(),
            // Collections that are not small, with few elements.
            set_max_listpack_entries: 1,
            zset_max_listpack_entries: 1,
            ..Config::default()
        };
        let identity = Identity {
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            process_id: 1,
            executable: "warmline-server".into(),
            config_file: String::new(),
            started: Default::default(),
        };
        let seeds = Seeds { hash: HashSeed::new(1, 2), random: 3, secret: [4; 32] };
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

    fn number(&mut self, line: &str) -> i64 {
        match self.say(line) {
            Value::Integer(number) => number,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// What the command costs.
    fn cost(&mut self, line: &str) -> u64 {
        cost_of(|| self.say(line))
    }

    /// What commands cost on average, one for each number.
    fn average_cost(&mut self, numbers: std::ops::Range<u64>, line: impl Fn(u64) -> String) -> u64 {
        let count = numbers.end - numbers.start;
        numbers.map(|number| self.cost(&line(number))).sum::<u64>() / count
    }

    /// A turn of the timers a tenth of a second later, and what it costs.
    fn turn(&mut self) -> u64 {
        self.executor.clock.advance_ms(101);
        self.executor.begin_tick();
        let cost = cost_of(|| self.executor.run_timers());
        self.executor.end_tick();
        cost
    }
}

/// Lines of the cache that are looked at, moved or hashed.
fn cost_of<R>(run: impl FnOnce() -> R) -> u64 {
    work::take();
    run();
    let work::Work { hashed, moved, visited } = work::take();
    visited + hashed / 64 + moved / 64
}

/// What something costs.
type Cost = (String, u64);
type Costs = Vec<Cost>;

#[track_caller]
fn assert_same(few: &[Cost], many: &[Cost]) {
    assert_in_proportion(few, many, 1);
}

/// With `times` as much of what it is about, a command costs at most twice as many times as much.
#[track_caller]
fn assert_in_proportion(few: &[Cost], many: &[Cost], times: u64) {
    assert_eq!(few.len(), many.len());
    assert_within(few, many, |few| few * times * 2 + NOISE);
}

#[track_caller]
fn assert_within(few: &[Cost], many: &[Cost], cost_max: impl Fn(u64) -> u64) {
    let worse: Vec<_> = few.iter().zip(many).filter(|((_, few), (_, many))| *many > cost_max(*few)).collect();
    assert!(worse.is_empty(), "costs more than it should: {worse:?}");
}

// ---- databases ----

/// What commands and timers cost that look for something in all databases.
fn costs_across_databases(server: &mut Server) -> Costs {
    let mut costs = Costs::new();
    server.say("SELECT 0");
    (0..500).for_each(|number| _ = server.say(&format!("SET k{number} v")));
    (0..500).for_each(|number| _ = server.say(&format!("SET due{number} v EX 100")));
    for policy in [MaxmemoryPolicy::AllkeysLru, MaxmemoryPolicy::VolatileTtl, MaxmemoryPolicy::AllkeysRandom]
    {
        let mut pool = EvictionPool::default();
        let cost = cost_of(|| {
            (0..20).for_each(|_| assert!(server.executor.db.evict_one(policy, 5, &mut pool).is_some()));
        });
        costs.push((format!("eviction by {policy:?}"), cost));
    }
    for line in ["INFO keyspace", "INFO memory", "MEMORY STATS", "DBSIZE", "SWAPDB 0 1", "SWAPDB 0 1"] {
        costs.push((line.into(), server.cost(line)));
    }
    let turns = (0..3).map(|_| server.turn()).sum();
    costs.push(("timers".into(), turns));
    costs.push(("FLUSHALL".into(), server.cost("FLUSHALL")));
    costs
}

const DATABASES: u64 = 32;

#[test]
fn databases_without_keys_cost_nothing() {
    let few = costs_across_databases(&mut Server::new(DATABASES));
    let mut server = Server::new(DATABASES * TIMES);
    let many = costs_across_databases(&mut server);
    assert_same(&few, &many);

    // All of them are used, and emptied.
    for how in ["FLUSHALL", "DEL k"] {
        for database in 0..DATABASES * TIMES {
            server.say(&format!("SELECT {database}"));
            server.say("SET k v");
            if how == "DEL k" {
                server.say(how);
            }
        }
        if how == "FLUSHALL" {
            server.say(how);
        }
        (0..3).for_each(|_| _ = server.turn());
        assert_same(&few, &costs_across_databases(&mut server));
    }
}

#[test]
fn databases_with_keys_cost_in_proportion() {
    let costs = |databases: u64| {
        let mut server = Server::new(databases);
        for database in 0..databases {
            server.say(&format!("SELECT {database}"));
            server.say("MSET a 1 b 2");
        }
        costs_across_databases(&mut server)
    };
    let (few, many) = (costs(DATABASES), costs(DATABASES * TIMES));
    assert_in_proportion(&few, &many, TIMES);
    // Keys to evict are looked for in some of them.
    let of_evictions =
        |costs: &[Cost]| -> Costs { costs.iter().filter(|(of, _)| of.contains("Lru")).cloned().collect() };
    assert_same(&of_evictions(&few), &of_evictions(&many));
}

// ---- keys that expire, beside others ----

const PLAIN_KEYS: u64 = 10_000;
const DUE_KEYS: u64 = 50;

/// Turns of the timers until all keys that are due have gone, and what these cost.
fn expire_all(server: &mut Server) -> (u64, u64) {
    for number in 0..DUE_KEYS {
        server.say(&format!("SET due{number} v PX 5"));
    }
    let (mut turns, mut cost) = (0, 0);
    while !(server.number("DBSIZE") as u64).is_multiple_of(PLAIN_KEYS) {
        (turns, cost) = (turns + 1, cost + server.turn());
        assert!(turns < 1_000, "they stay");
    }
    (turns, cost)
}

#[test]
fn keys_that_do_not_expire_keep_no_others_from_expiring() {
    let measured = |keys: u64| {
        let mut server = Server::new(1);
        for number in 0..keys {
            server.say(&format!("SET plain{number} v"));
        }
        let fresh = expire_all(&mut server);
        // As many have had a time to live, and have none any more.
        for number in 0..keys {
            server.say(&format!("EXPIRE plain{number} 1000"));
        }
        for number in 0..keys {
            server.say(&format!("PERSIST plain{number}"));
        }
        server.say("SET stays v EX 1000");
        (0..50).for_each(|_| _ = server.turn());
        server.say("DEL stays");
        (fresh, expire_all(&mut server))
    };
    let (few, many) = (measured(PLAIN_KEYS), measured(PLAIN_KEYS * TIMES));
    for ((turns, cost), (many_turns, many_cost)) in [(few.0, many.0), (few.1, many.1)] {
        assert!(turns <= 2 && many_turns <= 2, "{turns} and {many_turns} turns");
        assert_same(&[("expiry".into(), cost)], &[("expiry".into(), many_cost)]);
    }
}

// ---- streams ----

const GROUPS: u64 = 500;
/// Of each command whose average is taken.
const CALLS: u64 = 200;

#[test]
fn groups_cost_others_nothing_and_give_their_memory_back() {
    let measured = |groups: u64| {
        let mut server = Server::new(1);
        (0..groups).for_each(|number| _ = server.say(&format!("XGROUP CREATE s g{number} 0 MKSTREAM")));
        let costs: Costs = vec![
            ("create".into(), server.average_cost(0..CALLS, |call| format!("XGROUP CREATE s a{call} 0"))),
            ("destroy".into(), server.average_cost(0..CALLS, |call| format!("XGROUP DESTROY s a{call}"))),
            (
                "read".into(),
                server
                    .average_cost(0..CALLS, |call| format!("XREADGROUP GROUP g{call} c COUNT 1 STREAMS s >")),
            ),
            ("add".into(), server.average_cost(0..CALLS, |call| format!("XADD s * f {call}"))),
            ("acknowledge".into(), server.average_cost(0..CALLS, |call| format!("XACK s g{call} 1-1"))),
            ("describe".into(), server.cost("XINFO STREAM s")),
            ("memory".into(), server.cost("MEMORY USAGE s")),
        ];
        // Every other one first: what is left is spread over all that there were.
        for first in [0, 1] {
            let numbers = (first..groups).step_by(2);
            numbers.for_each(|number| assert_eq!(server.number(&format!("XGROUP DESTROY s g{number}")), 1));
        }
        // One that has had none.
        (0..CALLS).for_each(|call| _ = server.say(&format!("XADD t * f {call}")));
        let [left_bytes, bytes] = ["MEMORY USAGE s", "MEMORY USAGE t"].map(|line| server.number(line));
        assert!(left_bytes <= bytes + 64, "{left_bytes} bytes where {bytes} are enough");
        costs
    };
    assert_same(&measured(GROUPS), &measured(GROUPS * TIMES));
}

#[test]
fn consumers_cost_others_nothing_and_give_their_memory_back() {
    let measured = |consumers: u64| {
        let mut server = Server::new(1);
        (0..CALLS).for_each(|number| _ = server.say(&format!("XADD s * f {number}")));
        server.say("XGROUP CREATE s g 0");
        let empty_bytes = server.number("MEMORY USAGE s");
        (0..consumers).for_each(|number| _ = server.say(&format!("XGROUP CREATECONSUMER s g c{number}")));
        let mut costs: Costs = vec![
            (
                "create".into(),
                server.average_cost(0..CALLS, |call| format!("XGROUP CREATECONSUMER s g a{call}")),
            ),
            (
                "delete".into(),
                server.average_cost(0..CALLS, |call| format!("XGROUP DELCONSUMER s g a{call}")),
            ),
        ];
        // Places in the middle become free, and are taken again.
        for number in (0..CALLS).map(|call| call * consumers / CALLS) {
            server.say(&format!("XGROUP DELCONSUMER s g c{number}"));
        }
        costs.extend([
            (
                "again".into(),
                server.average_cost(0..CALLS, |call| format!("XGROUP CREATECONSUMER s g b{call}")),
            ),
            (
                "read as a new one".into(),
                server
                    .average_cost(0..CALLS, |call| format!("XREADGROUP GROUP g d{call} COUNT 1 STREAMS s >")),
            ),
            ("describe".into(), server.cost("XINFO STREAM s")),
        ]);
        for name in (0..CALLS).flat_map(|call| [format!("b{call}"), format!("d{call}")]) {
            server.say(&format!("XGROUP DELCONSUMER s g {name}"));
        }
        (0..consumers).for_each(|number| _ = server.say(&format!("XGROUP DELCONSUMER s g c{number}")));
        let left_bytes = server.number("MEMORY USAGE s");
        assert!(left_bytes <= empty_bytes + 64, "{left_bytes} bytes where {empty_bytes} were enough");
        costs
    };
    assert_same(&measured(GROUPS), &measured(GROUPS * TIMES));
}

#[test]
fn producers_cost_others_nothing() {
    let measured = |producers: u64| {
        let mut server = Server::new(1);
        (0..producers).for_each(|number| _ = server.say(&format!("XADD s IDMP p{number} m * f v")));
        let costs: Costs = vec![
            ("add".into(), server.average_cost(0..CALLS, |call| format!("XADD s IDMP a{call} m * f v"))),
            ("describe".into(), server.cost("XINFO STREAM s")),
            ("memory".into(), server.cost("MEMORY USAGE s")),
        ];
        // They are forgotten in time.
        (0..20).for_each(|_| {
            server.executor.clock.advance_ms(10_000);
            _ = server.turn();
        });
        let Value::Array(fields) = server.say("XINFO STREAM s") else { panic!("an array") };
        let at =
            fields.iter().position(|field| field.as_bytes() == Some(b"pids-tracked".as_slice())).unwrap() + 1;
        assert_eq!(fields[at], Value::Integer(0));
        assert!(server.cost("XINFO STREAM s") < NOISE);
        costs
    };
    assert_same(&measured(100), &measured(100 * TIMES));
}

// ---- sources ----

/// What is combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sources {
    /// A large one first, small ones behind it.
    LargeAndSmall,
    /// Each of the same size, with members of its own.
    Different,
    /// Each with the same members, but for one.
    Alike,
    /// A large one first, and another named again and again.
    Again,
}

const LARGE: u64 = 2_000;
const SMALL: u64 = 3;
const MIDDLE: u64 = 20;

/// The member of this number in the source of this one.
type Members = Box<dyn Fn(u64) -> String>;

impl Sources {
    /// The key, and how many members it has, of each source but the first.
    fn other(self, number: u64) -> (String, u64, Members) {
        match self {
            Sources::LargeAndSmall => {
                (format!("s{number}"), SMALL, Box::new(move |m| format!("m{number}:{m}")))
            }
            Sources::Different => (format!("d{number}"), MIDDLE, Box::new(move |m| format!("m{number}:{m}"))),
            Sources::Alike => {
                let member = move |m: u64| if m == 0 { format!("own{number}") } else { format!("m0:{m}") };
                (format!("a{number}"), MIDDLE, Box::new(member))
            }
            Sources::Again => ("again".into(), MIDDLE, Box::new(|m| format!("m1:{m}"))),
        }
    }

    fn first(self) -> (String, u64, Members) {
        let len = if matches!(self, Sources::LargeAndSmall | Sources::Again) { LARGE } else { MIDDLE };
        (format!("first{len}"), len, Box::new(|m| format!("m0:{m}")))
    }

    /// Makes this number of sources; returns their keys and the sum of their members, counting repeated keys again.
    fn make(self, server: &mut Server, count: u64, add: &str) -> (String, u64) {
        let mut keys = Vec::new();
        let mut members = 0;
        for (key, len, member) in std::iter::once(self.first()).chain((1..count).map(|n| self.other(n))) {
            for number in 0..len {
                server.say(&format!(
                    "{add} {key} {}{}",
                    if add == "ZADD" { "1 " } else { "" },
                    member(number)
                ));
            }
            members += len;
            keys.push(key);
        }
        (keys.join(" "), members)
    }
}

const SOURCES: u64 = 20;
/// What it costs to find a source by its key, whatever becomes of it.
const FOUND_COST_MAX: u64 = 20;

fn costs_of_sources(commands: &[&str], add: &str) {
    for sources in [Sources::LargeAndSmall, Sources::Different, Sources::Alike, Sources::Again] {
        let measured = |count: u64| {
            let mut server = Server::new(1);
            let (keys, members) = sources.make(&mut server, count, add);
            let cost = |command: &&str| {
                let line = command.replace("COUNT", &count.to_string()).replace("KEYS", &keys);
                (format!("{command} {sources:?}"), server.cost(&line))
            };
            (commands.iter().map(cost).collect::<Costs>(), members)
        };
        let ((few, few_members), (many, many_members)) = (measured(SOURCES), measured(SOURCES * TIMES));
        let finding = FOUND_COST_MAX * SOURCES * TIMES;
        assert_within(&few, &many, |few| 2 * few * many_members / few_members + finding);
    }
}

#[test]
fn sources_of_sets_cost_in_proportion() {
    let commands = [
        "SUNION KEYS",
        "SINTER KEYS",
        "SDIFF KEYS",
        "SUNIONSTORE t KEYS",
        "SINTERSTORE t KEYS",
        "SDIFFSTORE t KEYS",
        "SINTERCARD COUNT KEYS",
        "SINTERCARD COUNT KEYS LIMIT 1",
    ];
    costs_of_sources(&commands, "SADD");
}

#[test]
fn sources_of_sorted_sets_cost_in_proportion() {
    let commands = [
        "ZUNION COUNT KEYS",
        "ZINTER COUNT KEYS",
        "ZDIFF COUNT KEYS",
        "ZUNIONSTORE t COUNT KEYS",
        "ZINTERSTORE t COUNT KEYS",
        "ZDIFFSTORE t COUNT KEYS",
        "ZINTERCARD COUNT KEYS",
        "ZINTERCARD COUNT KEYS LIMIT 1",
    ];
    costs_of_sources(&commands, "ZADD");
    costs_of_sources(&commands, "SADD");
}

#[test]
fn sketches_cost_in_proportion() {
    costs_of_sources(&["pfcount KEYS", "PFMERGE t KEYS", "PFMERGE first2000 KEYS"], "PFADD");
}

/// Bytes of the first string and of each other one, and whether the others are the same key.
const STRINGS: &[(usize, usize, bool)] = &[(64 << 10, 3, false), (1000, 1000, false), (64 << 10, 1000, true)];

#[test]
fn strings_of_bitop_cost_in_proportion() {
    for &(first_len, other_len, is_again) in STRINGS {
        let measured = |count: u64| {
            let mut server = Server::new(1);
            let key = |number: u64| format!("s{}", if is_again { number.min(1) } else { number });
            for number in 0..count {
                let len = if number == 0 { first_len } else { other_len };
                server.ask(&[b"SET", key(number).as_bytes(), &vec![b'x'; len]]);
            }
            let keys = (0..count).map(key).collect::<Vec<_>>().join(" ");
            let cost = |operation: &&str| {
                let line = format!("BITOP {operation} t {keys}");
                ((*operation).to_owned(), server.cost(&line))
            };
            let costs: Costs = ["AND", "OR", "XOR", "DIFF", "ONE"].iter().map(cost).collect();
            (costs, first_len as u64 + other_len as u64 * (count - 1))
        };
        let ((few, few_bytes), (many, many_bytes)) = (measured(SOURCES), measured(SOURCES * TIMES));
        // What the counters count is what is read of all strings.
        assert!(few.iter().all(|(_, cost)| *cost >= few_bytes / 64), "{few:?}");
        let finding = FOUND_COST_MAX * SOURCES * TIMES;
        assert_within(&few, &many, |few| 2 * few * many_bytes / few_bytes + finding);
    }
}
