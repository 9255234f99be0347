//! Random commands of every kind that the registry knows, with what stands around them: transactions, scripts, time,
//! other settings, payloads that are nearly right.

use super::arguments::{KEY_TYPES, Source};
use super::random::Random;
use super::words::{self, chance, pick};
use super::world::{CLIENTS, START_UNIX_MS, Step};
use super::{Command, payload, settings};
use server::command::{self, Group};
use server::commands::GROUPS;
use std::collections::VecDeque;

/// Commands that a process full of tests cannot run, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("bgrewriteaof", "forks"),
    ("bgsave", "forks"),
    ("config|rewrite", "there is no file"),
    ("debug", "some of its words end the process; those that do not are listed below"),
    ("latency|doctor", "takes long to say little"),
    ("memory|malloc-stats", "as above"),
    ("migrate", "waits for the network"),
    ("pfselftest", "takes long"),
    ("psync", "forks"),
    ("save", "DEBUG RELOAD does so"),
    ("shutdown", "ends the process"),
    ("sync", "forks"),
];

/// How often commands come that need another than the common weight.
const WEIGHTS: &[(&str, u32)] = &[
    ("client|kill", 1),
    ("client|pause", 1),
    ("client|reply", 1),
    ("config|set", 0),
    ("del", 4),
    ("eval", 0),
    ("eval_ro", 0),
    ("flushall", 1),
    ("flushdb", 1),
    ("geoadd", 40),
    ("hset", 80),
    ("hsetex", 60),
    ("hexpire", 30),
    ("hpexpire", 30),
    ("linsert", 40),
    ("lmove", 20),
    ("lpush", 60),
    ("lset", 30),
    ("monitor", 1),
    ("pfadd", 40),
    ("quit", 1),
    ("restore", 0),
    ("rpush", 80),
    ("sadd", 80),
    ("set", 40),
    ("setrange", 30),
    ("spop", 20),
    ("swapdb", 1),
    ("unlink", 2),
    ("xadd", 100),
    ("xclaim", 30),
    ("xautoclaim", 30),
    ("xdel", 30),
    ("xtrim", 30),
    ("xgroup|create", 30),
    ("xreadgroup", 60),
    ("zadd", 100),
    ("zincrby", 40),
];
const COMMON_WEIGHT: u32 = 10;
/// What is about connections and the process comes less often.
const SELDOM_GROUPS: &[Group] =
    &[Group::PubSub, Group::Connection, Group::Cluster, Group::Server, Group::Scripting, Group::Transactions];

const DEBUG: &[&[&str]] = &[
    &["RELOAD"],
    &["RELOAD"],
    &["RELOAD", "NOFLUSH", "MERGE"],
    &["DIGEST"],
    &["DIGEST-VALUE", "KEY"],
    &["OBJECT", "KEY"],
    &["OBJECT", "KEY", "fast"],
    &["HTSTATS", "0", "full"],
    &["HTSTATS-KEY", "KEY", "full"],
    &["LISTPACK", "KEY"],
    &["SDSLEN", "KEY"],
    &["POPULATE", "300", "any", "70"],
    &["SET-ACTIVE-EXPIRE", "0"],
    &["SET-ACTIVE-EXPIRE", "1"],
    &["DICT-RESIZING", "0"],
    &["DICT-RESIZING", "1"],
    &["REPLYBUFFER", "RESIZING", "0"],
    &["CLIENT-ENFORCE-REPLY-LIST", "1"],
    &["CLIENT-EVICTION"],
    &["PROTOCOL", "attrib"],
];

const SCRIPTS: &[&str] = &[
    "return redis.call(unpack(ARGV))",
    "redis.pcall(unpack(ARGV)) redis.pcall(unpack(ARGV)) return redis.pcall(unpack(ARGV))",
    "redis.setresp(3) return redis.call(unpack(ARGV))",
    "for i = 1, 300 do redis.pcall('RPUSH', 'list:0', i .. ARGV[1]) redis.pcall('SADD', 'set:0', i * i) \
     redis.pcall('ZADD', 'zset:0', i % 7, i .. ARGV[1]) redis.pcall('HSET', 'hash:0', i, ARGV[1]) end",
    "local r = redis.pcall(unpack(ARGV)) return cjson.encode({r})",
    "return cmsgpack.unpack(cmsgpack.pack(redis.pcall(unpack(ARGV))))",
    "redis.call(unpack(ARGV)) error('after the fact')",
];

const LIBRARIES: &[&str] = &[
    "#!lua name=one\nredis.register_function('call', function(keys, args) return redis.call(unpack(args)) end)",
    "#!lua name=two\nredis.register_function{function_name='look', callback=function(keys, args) \
     return redis.pcall('TYPE', keys[1] or 'any:0') end, flags={'no-writes'}}",
    "#!lua name=bad\nerror('not loaded')",
];

/// Lengths at which something changes: one below, itself or one above, and seldom the largest.
const LENGTHS: &[u64] = &[6, 8, 12, 14, 16];
const LONG_BYTES: u64 = 1 << 20;

const TIMES_MS: &[u64] = &[0, 1, 2, 10, 100, 1_000, 10_000, 3_600_000, 100_000_000];

pub struct Generator {
    pub source: Source,
    rows: Vec<&'static command::Command>,
    /// Running sums of weights.
    weights: Vec<u32>,
    /// Serialised values with the type of keys that they came from.
    payloads: Vec<Vec<u8>>,
    /// Commands that are to follow one another.
    coming: VecDeque<Command>,
}

/// Every command that is run, subcommands instead of their containers.
fn rows() -> Vec<&'static command::Command> {
    let left_out = |name: &str| LEFT_OUT.iter().any(|(left_out, _)| *left_out == name);
    let rows = GROUPS.iter().flat_map(|group| group.iter()).filter(|row| !left_out(row.name));
    rows.flat_map(|row| if row.subcommands.is_empty() { std::slice::from_ref(row) } else { row.subcommands })
        .filter(|row| !left_out(row.name) && !row.name.ends_with("|help"))
        .collect()
}

/// Commands beside the first that a client sends at once.
const PIPELINE_MAX: u64 = 30;

impl Generator {
    pub fn new(mut random: Random) -> Self {
        let rows = rows();
        let theme = chance(&mut random, 60).then(|| rows[random.below(rows.len() as u64) as usize].group);
        let mut sum = 0;
        let weights = rows.iter().map(|row| {
            let own = WEIGHTS.iter().find(|(name, _)| *name == row.name).map(|(_, weight)| *weight);
            let common = if SELDOM_GROUPS.contains(&row.group) { 1 } else { COMMON_WEIGHT };
            let weight = own.unwrap_or(common);
            sum += if theme == Some(row.group) { weight * 15 } else { weight };
            sum
        });
        let weights = weights.collect();
        let mut source = Source::new(random, START_UNIX_MS);
        source.few_keys = theme.is_some();
        Generator { source, rows, weights, payloads: Vec::new(), coming: VecDeque::new() }
    }

    /// A value that DUMP has answered.
    pub fn keep_payload(&mut self, payload: &[u8]) {
        let place = self.source.random.below(30) as usize;
        match self.payloads.get_mut(place) {
            Some(old) => *old = payload.to_vec(),
            None => self.payloads.push(payload.to_vec()),
        }
    }

    pub fn step(&mut self) -> Step {
        let mut step = self.short_step();
        if let Step::Commands { commands, .. } = &mut step
            && chance(&mut self.source.random, 20)
        {
            for _ in 0..self.source.random.below(PIPELINE_MAX) {
                let Step::Commands { commands: more, .. } = self.short_step() else { break };
                commands.extend(more);
            }
        }
        step
    }

    fn short_step(&mut self) -> Step {
        if let Some(args) = self.coming.pop_front() {
            return Step::command(0, args);
        }
        let random = &mut self.source.random;
        let client = random.below(CLIENTS as u64) as usize;
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Command>();
        let args = match random.below(256) {
            0..4 => words(&["MULTI"]),
            4..14 => words(&["EXEC"]),
            14 => words(&["DISCARD"]),
            15 => vec![b"WATCH".to_vec(), self.source.key(Group::Generic)],
            16..24 => {
                let ms = TIMES_MS[random.below(TIMES_MS.len() as u64) as usize];
                return Step::Advance { ms };
            }
            24..28 => settings::change(random),
            28..33 => self.debug(),
            33..41 => vec![b"DUMP".to_vec(), self.any_key()],
            41..60 => self.restore(),
            60..75 => self.script(),
            75..77 => words(&["SELECT", if chance(random, 80) { "0" } else { "1" }]),
            77 => return Step::Leave { client },
            78..80 => self.many(),
            80..82 => self.brimful(),
            82..86 => vec![b"DEL".to_vec(), self.any_key()],
            86 => vec![b"HELLO".to_vec(), if chance(random, 50) { b"2".to_vec() } else { b"3".to_vec() }],
            87 => vec![
                b"FUNCTION".to_vec(),
                b"LOAD".to_vec(),
                b"REPLACE".to_vec(),
                pick(random, LIBRARIES).into(),
            ],
            88 => {
                let inner = self.command();
                [words(&["FCALL", "call", "0"]), inner].concat()
            }
            _ => self.command(),
        };
        Step::command(client, args)
    }

    fn any_key(&mut self) -> Vec<u8> {
        let key_type = pick(&mut self.source.random, KEY_TYPES);
        self.source.key_of(key_type)
    }

    /// A command with its arguments, now and then damaged ones or one at the edge of a size.
    fn command(&mut self) -> Command {
        let total = *self.weights.last().expect("there are commands");
        let at = self.source.random.below(u64::from(total)) as u32;
        let row = self.rows[self.weights.partition_point(|sum| *sum <= at)];
        let mut args = self.source.arguments(row);
        if chance(&mut self.source.random, 8) && row.name != "lcs" {
            let last = args.len() as u64 - 1;
            let at = last.saturating_sub(self.source.random.below(4)) as usize;
            if at > 1 {
                args[at] = self.sized();
            }
        }
        if chance(&mut self.source.random, 4) {
            self.damage(&mut args);
        }
        args
    }

    /// Text as long as a limit, or one byte more or less.
    fn sized(&mut self) -> Vec<u8> {
        let random = &mut self.source.random;
        let length = match random.below(40) {
            0 => LONG_BYTES,
            _ => (1 << LENGTHS[random.below(LENGTHS.len() as u64) as usize]) + random.below(3) - 1,
        };
        // What headers and ends take of a node: then the node is full to its last byte.
        let length = length.saturating_sub(if chance(random, 30) { random.below(24) } else { 0 });
        let mut text = vec![b'a' + random.below(3) as u8; length as usize];
        if chance(random, 30) {
            let mut number = length;
            text.iter_mut().for_each(|byte| {
                number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *byte = (number >> 56) as u8;
            });
        }
        text
    }

    fn damage(&mut self, args: &mut Command) {
        let random = &mut self.source.random;
        let at = random.below(args.len() as u64) as usize;
        let other = random.below(args.len() as u64) as usize;
        match random.below(6) {
            0 if args.len() > 1 => drop(args.remove(at)),
            1 => args.insert(at, args[other].clone()),
            2 => args.swap(at, other),
            3 if at > 0 => args[at] = words::word(random),
            4 if at > 0 => args[at] = words::integer(random),
            _ => args.push(words::word(random)),
        }
    }

    /// Many elements at once, of a length near a limit.
    fn many(&mut self) -> Command {
        let random = &mut self.source.random;
        let count = [10, 64, 128, 129, 512, 513, 2000][random.below(7) as usize];
        let length = [0, 1, 4, 10, 60, 63, 64, 65, 250][random.below(9) as usize];
        let first = random.below(1000);
        let (name, key_type, pairs) = [
            ("RPUSH", "list", false),
            ("LPUSH", "list", false),
            ("SADD", "set", false),
            ("SADD", "set", false),
            ("HSET", "hash", true),
            ("ZADD", "zset", true),
            ("PFADD", "hll", false),
        ][random.below(7) as usize];
        let spread = [1, 1, 7, 65_537, 1 << 33][random.below(5) as usize];
        let mut args = vec![name.as_bytes().to_vec(), self.source.key_of(key_type)];
        for n in first..first + count {
            if pairs {
                args.push((n % 10).to_string().into_bytes());
            }
            args.push(match length {
                0 => (n * spread).to_string().into_bytes(),
                _ => format!("{:x<length$}", n * spread).into_bytes(),
            });
            if name == "HSET" {
                let last = args.len() - 1;
                args.swap(last - 1, last);
            }
        }
        args
    }

    /// A new list with a node as full as it may be: an element that takes most of it, others that come, have it moved or
    /// packed and unpacked, and go again, and one that takes what is left.
    fn brimful(&mut self) -> Command {
        let key = self.source.key_of("list");
        let random = &mut self.source.random;
        let class = if chance(random, 70) { 5 } else { 1 + random.below(4) };
        let limit = 1 << (11 + class);
        let large = limit - limit / [2, 9, 9, 30][random.below(4) as usize];
        let left = limit - large + random.below(2) - random.below(8);
        let (large, left, beside) = (element_of(large), element_of(left), vec![b'z'; 70_000]);
        let on = |name: &str, elements: &[&[u8]]| {
            let words = [name.as_bytes(), &key].into_iter().chain(elements.iter().copied());
            words.map(<[u8]>::to_vec).collect::<Command>()
        };
        let set = |name: &str, value: &str| ["CONFIG", "SET", name, value].map(|word| word.into()).to_vec();
        let way = random.below(4);
        let fill = ["-1", "-2", "-3", "-4", "-5"][class as usize - 1];
        let depth = if way > 1 { "1" } else { "0" };
        self.coming.extend([set("list-max-listpack-size", fill), set("list-compress-depth", depth)]);
        self.coming.extend([on("DEL", &[]), on("RPUSH", &[&large])]);
        if way > 0 {
            // Its mark, which every 32nd element has, goes with what was before it.
            self.coming.extend([on("LPUSH", &[b"a", b"b"]), on("LTRIM", &[b"2", b"-1"])]);
        }
        if way > 1 {
            self.coming.extend([
                on("LPUSH", &[b"a", b"b"]),
                on("LPUSH", &[&beside]),
                on("RPUSH", &[&beside]),
            ]);
            self.coming.extend(["LPOP", "RPOP", "LPOP", "LPOP"].map(|name| on(name, &[])));
        }
        let end = pick(random, &["RPUSH", "LPUSH"]);
        self.coming.extend([on(end, &[&left]), on("RPUSH", &[b"a"])]);
        on("TYPE", &[])
    }

    fn script(&mut self) -> Command {
        let inner = self.command();
        let script = pick(&mut self.source.random, SCRIPTS);
        let start = [&b"EVAL"[..], script.as_bytes(), b"0"].map(<[u8]>::to_vec);
        [start.to_vec(), inner].concat()
    }

    fn debug(&mut self) -> Command {
        let words = DEBUG[self.source.random.below(DEBUG.len() as u64) as usize];
        let mut args = vec![b"DEBUG".to_vec()];
        for word in words {
            let key = *word == "KEY";
            args.push(if key { self.any_key() } else { word.as_bytes().to_vec() });
        }
        args
    }

    fn restore(&mut self) -> Command {
        let key = self.any_key();
        let random = &mut self.source.random;
        let payload = match self.payloads.len() as u64 {
            0 => words::word(random),
            n => self.payloads[random.below(n) as usize].clone(),
        };
        let payload = if chance(random, 80) { payload::changed(&payload, random) } else { payload };
        // What came from a type of keys goes back to it, for that type's commands to meet it.
        let key = match payload.first().and_then(|&kind| key_type_of(kind)) {
            Some(key_type) => self.source.key_of(key_type),
            None => key,
        };
        let ttl = pick(&mut self.source.random, &["0", "0", "0", "1", "100000"]).into();
        vec![b"RESTORE".to_vec(), key, ttl, payload, b"REPLACE".to_vec()]
    }
}

/// Text that takes this number of bytes in a list's node: its length in 6, 12 or 32 bits comes before it.
fn element_of(bytes: u64) -> Vec<u8> {
    let head = match bytes {
        0..65 => 1,
        65..4098 => 2,
        _ => 5,
    };
    vec![b'x'; bytes.saturating_sub(head) as usize]
}

fn key_type_of(kind: u8) -> Option<&'static str> {
    use wire::rdb::kind::*;
    Some(match kind {
        LIST | LIST_ZIPLIST | LIST_QUICKLIST | LIST_QUICKLIST_2 => "list",
        SET | SET_INTSET | SET_LISTPACK => "set",
        ZSET | ZSET_2 | ZSET_LISTPACK | ZSET_ZIPLIST => "zset",
        HASH | HASH_2 | HASH_LISTPACK | HASH_ZIPLIST | HASH_ZIPMAP => "hash",
        STREAM_LISTPACKS | STREAM_LISTPACKS_2 | STREAM_LISTPACKS_3 => "stream",
        _ => return None,
    })
}

/// The names in the tables above that no command has.
pub fn unknown_names() -> Vec<&'static str> {
    let rows = GROUPS.iter().flat_map(|group| group.iter());
    let known: Vec<&str> = rows
        .flat_map(|row| std::iter::once(row.name).chain(row.subcommands.iter().map(|sub| sub.name)))
        .collect();
    let listed = LEFT_OUT.iter().map(|(name, _)| *name).chain(WEIGHTS.iter().map(|(name, _)| *name));
    listed.filter(|name| !known.contains(name)).collect()
}
