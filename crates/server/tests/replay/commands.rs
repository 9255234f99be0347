//! Which command comes next, from whom, and how time passes.

use super::Command;
use super::generate::Generator;
use super::life::{CLIENTS, Life};
use super::limits::rules;
use super::random::Random;
use super::words::{self, chance, pick};
use server::command::Group;
use server::persist::rdb::save::dump_payload;
use wire::rdb::PayloadWriter;

/// Serialised values kept for RESTORE.
const PAYLOADS_MAX: u64 = 40;
const DATABASES: &[&str] = &["0", "0", "1", "2"];
const FIELDS: &[&str] = &["f0", "f1", "f2", "f3", "f4", "f5"];
const LIBRARIES: &[&str] = &["one", "two", "three"];
const CONDITIONS: &[&str] = &["", "", "", "NX", "XX", "GT", "LT"];
const POLICIES: &[&str] = &[
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "volatile-lrm",
    "allkeys-lrm",
    "volatile-s3fifo",
    "allkeys-s3fifo",
];
/// Calls the commands that stand in its arguments, each behind the number of its words.
const CALL_ALL: &str = "local at = 1 while at <= #ARGV do local count = tonumber(ARGV[at]) \
    redis.pcall(unpack(ARGV, at + 1, at + count)) at = at + count + 1 end return at";

pub struct Commands {
    generator: Generator,
    /// What FUNCTION DUMP last answered.
    libraries: Option<Vec<u8>>,
}

/// A command from its words, in order; empty ones are left out.
macro_rules! command {
    ($($word:expr),* $(,)?) => {{
        let words: Vec<Vec<u8>> = vec![$(AsRef::<[u8]>::as_ref(&$word).to_vec()),*];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Command>()
    }};
}

impl Commands {
    pub fn new(seed: u64, now_ms: i64) -> Commands {
        Commands { generator: Generator::new(seed, now_ms), libraries: None }
    }

    fn random(&mut self) -> &mut Random {
        &mut self.generator.source.random
    }

    fn pick(&mut self, words: &'static [&'static str]) -> &'static str {
        pick(self.random(), words)
    }

    fn chance(&mut self, percent: u64) -> bool {
        chance(self.random(), percent)
    }

    fn key(&mut self, group: Group) -> Vec<u8> {
        self.generator.source.key(group)
    }

    fn word(&mut self) -> Vec<u8> {
        words::word(self.random())
    }

    /// Who sends it, and the command.
    pub fn next(&mut self, life: &mut Life) -> (usize, Command) {
        if self.chance(2) {
            self.take_payload(life);
        }
        if self.chance(1) {
            let dump = life.send(CLIENTS - 1, &command!["FUNCTION", "DUMP"]);
            self.libraries = payload_of(&dump);
        }
        let mut client = if self.chance(70) { 0 } else { self.random().below(CLIENTS as u64) as usize };
        if life.waits(client) {
            if client == 0 || self.chance(10) {
                life.reconnect(client);
            } else {
                client = 0;
                if life.waits(client) {
                    life.reconnect(client);
                }
            }
        }
        if life.in_transaction(client) && self.chance(12) {
            return (client, command!["EXEC"]);
        }
        if life.shortage_bytes.is_some() && self.chance(8) {
            life.shortage_bytes = None;
            return (client, command!["CONFIG", "SET", "maxmemory", "0"]);
        }
        if self.chance(3) {
            return (client, self.of_the_server(life, client));
        }
        (client, self.one_of_all())
    }

    /// Time passes between commands, and what is expired is looked for, or not.
    pub fn turn_the_clock(&mut self, life: &mut Life) {
        match self.random().below(100) {
            0..60 => {}
            60..97 => {
                let ms = self.random().below(12);
                life.turn(ms);
            }
            97..99 => {
                let ms = self.random().below(300);
                life.turn(ms);
            }
            _ => life.turn(5_000),
        }
    }

    /// Some key's value, as DUMP would answer it.
    fn take_payload(&mut self, life: &Life) {
        let db = life.executor.db.database(0);
        let mut random = structures::random::Random::new(self.random().next_u64());
        let Some(entry) = db.random(&mut random) else { return };
        let mut writer = PayloadWriter::default();
        let payload = dump_payload(&life.executor.db.value_of(entry), true, &mut writer, std::mem::take);
        let place = self.random().below(PAYLOADS_MAX) as usize;
        match self.generator.payloads.get_mut(place) {
            Some(old) => *old = payload,
            None => self.generator.payloads.push(payload),
        }
    }

    fn one_of_all(&mut self) -> Command {
        match self.random().below(100) {
            0..53 => self.generator.command(),
            53..55 => self.of_pending_entries(),
            55..67 => self.key_that_expires(),
            67..85 => self.field_that_expires(),
            85..89 => self.of_databases(),
            89..93 => self.of_streams(),
            93..95 => self.that_waits(),
            95 => self.of_functions(),
            96 => self.script(),
            97 => self.stored_by_weight(),
            98 => command![self.pick(&["MULTI", "MULTI", "EXEC", "DISCARD"])],
            _ => self.setting(),
        }
    }

    /// An option and its time: soon, at once, or long ago.
    fn time(&mut self) -> (&'static str, Vec<u8>) {
        let now_ms = self.generator.source.now_ms;
        let random = self.random();
        let soon = 1 + random.below(120) as i64;
        let ago = now_ms - 5_000 + random.below(4_000) as i64;
        match random.below(8) {
            0..4 => ("PX", soon.to_string().into_bytes()),
            4 => ("EX", (1 + soon / 60).to_string().into_bytes()),
            5 => ("PXAT", ago.to_string().into_bytes()),
            6 => ("EXAT", (ago / 1000).to_string().into_bytes()),
            _ => ("PXAT", b"1".to_vec()),
        }
    }

    /// A span that is short, none, or negative.
    fn span(&mut self) -> Vec<u8> {
        match self.random().below(8) {
            0 => b"0".to_vec(),
            1 => b"-1".to_vec(),
            _ => (1 + self.random().below(120)).to_string().into_bytes(),
        }
    }

    fn key_that_expires(&mut self) -> Command {
        let (key, other, word) = (self.key(Group::Generic), self.key(Group::Generic), self.word());
        let (option, time) = self.time();
        let span = self.span();
        match self.random().below(12) {
            0 => {
                let condition = self.pick(&["", "", "NX", "XX", "GET"]);
                command!["SET", key, word, option, time, condition]
            }
            1 => command!["SET", key, word, "KEEPTTL"],
            2 => command!["GETEX", key, option, time],
            3..6 => command!["PEXPIRE", key, span, self.pick(CONDITIONS)],
            6 => command!["PEXPIREAT", key, time, self.pick(CONDITIONS)],
            7 => {
                let condition = self.pick(&["", "NX", "XX"]);
                command!["MSETEX", "2", key, word, other, word, condition, option, time]
            }
            8 => command!["PSETEX", key, span, word],
            9 => match self.generator.payloads.first().cloned() {
                Some(payload) if self.chance(50) => command!["RESTORE", key, span, payload, "REPLACE"],
                Some(payload) => command!["RESTORE", key, time, payload, "REPLACE", "ABSTTL"],
                None => command!["PERSIST", key],
            },
            10 => command!["SETNX", key, word],
            _ => command![self.pick(&["RENAME", "RENAMENX", "COPY"]), key, other],
        }
    }

    /// Of few hashes, whose fields meet one another again and again.
    fn field_that_expires(&mut self) -> Command {
        let (mut key, mut a, mut b) = (self.key(Group::Hash), self.pick(FIELDS), self.pick(FIELDS));
        if self.chance(40) {
            // A hash that often has no other fields than those that are named.
            (key, a, b) = (b"hash:small".to_vec(), self.pick(&FIELDS[..2]), self.pick(&FIELDS[..2]));
        }
        let (option, time) = self.time();
        let (span, word) = (self.span(), self.word());
        let condition = self.pick(CONDITIONS);
        match self.random().below(16) {
            0..2 => command!["HPEXPIRE", key, span, condition, "FIELDS", "2", a, b],
            2 => command!["HPEXPIREAT", key, time, condition, "FIELDS", "1", a],
            3 => command!["HEXPIREAT", key, "1", condition, "FIELDS", "2", a, b],
            4 => command!["HGETEX", key, option, time, "FIELDS", "2", a, b],
            5 => command!["HGETEX", key, "PERSIST", "FIELDS", "2", a, b],
            6..9 => {
                let of_key = self.pick(&["", "", "NX", "XX"]);
                let of_fields = self.pick(&["", "", "FNX", "FXX"]);
                if self.chance(25) {
                    let keep = self.pick(&["KEEPTTL", ""]);
                    return command!["HSETEX", key, of_key, of_fields, keep, "FIELDS", "2", a, "1", b, "2"];
                }
                command!["HSETEX", key, of_key, of_fields, option, time, "FIELDS", "2", a, "3", b, "4"]
            }
            9 => command!["HINCRBY", key, a, "5"],
            10 => command!["HINCRBYFLOAT", key, a, "1.25"],
            11 => command!["HSETNX", key, a, "7"],
            12 => command!["HDEL", key, a, b],
            13 => command!["HGETDEL", key, "FIELDS", "2", a, b],
            14 => command!["HPERSIST", key, "FIELDS", "2", a, b],
            _ => [command!["HSET", key, a], vec![word], command![b, "1"]].concat(),
        }
    }

    fn of_databases(&mut self) -> Command {
        let (a, b) = (self.pick(DATABASES), self.pick(DATABASES));
        let (key, other) = (self.key(Group::Generic), self.key(Group::Generic));
        match self.random().below(20) {
            0..7 => command!["SELECT", a],
            7..11 => command!["SWAPDB", a, b],
            11..14 => command!["MOVE", key, a],
            14..18 => command!["COPY", key, other, "DB", a, self.pick(&["", "REPLACE"])],
            18 => command!["FLUSHDB", self.pick(&["", "ASYNC", "SYNC"])],
            _ => match self.chance(20) {
                true => command!["FLUSHALL", self.pick(&["", "ASYNC"])],
                false => command!["RANDOMKEY"],
            },
        }
    }

    fn of_streams(&mut self) -> Command {
        let key = self.key(Group::Stream);
        let (id, other) = (self.generator.source.stream_id(), self.generator.source.stream_id());
        let consumer = self.pick(&["alice", "bob", "carol"]);
        let group = self.pick(&["g1", "g2"]);
        let start = self.pick(&["0", "0", ">", ">", "5"]);
        match self.random().below(12) {
            0..3 => command!["XDEL", key, id, other],
            3..5 => {
                let no = self.pick(&["", "", "NOACK"]);
                command!["XREADGROUP", "GROUP", group, consumer, "COUNT", "20", no, "STREAMS", key, start]
            }
            5 => {
                let (count, idle_ms) = (self.pick(&["1", "3", "20"]), self.pick(&["0", "10", "1000"]));
                command![
                    "XREADGROUP",
                    "GROUP",
                    group,
                    consumer,
                    "COUNT",
                    count,
                    "CLAIM",
                    idle_ms,
                    "STREAMS",
                    key,
                    start
                ]
            }
            6 => command!["XADD", key, "MAXLEN", "~", "4", "*", "field", "value"],
            7 => command!["XADD", key, "*", "field", "value"],
            8 => command!["XGROUP", "SETID", key, group, id],
            9 => command!["XAUTOCLAIM", key, group, consumer, "0", "0", "COUNT", "5"],
            10 => {
                command!["XCLAIM", key, group, consumer, "0", id, other, "FORCE", self.pick(&["", "JUSTID"])]
            }
            _ => command!["XTRIM", key, self.pick(&["MAXLEN", "MINID"]), self.pick(&["~", "="]), "3"],
        }
    }

    /// Of one stream, whose entries are read, removed and read again.
    fn of_pending_entries(&mut self) -> Command {
        let key = "stream:small";
        let consumer = self.pick(&["alice", "bob"]);
        match self.random().below(12) {
            0 => command!["XGROUP", "CREATE", key, "g1", "0", "MKSTREAM"],
            1..4 => command!["XADD", key, "*", "field", "value"],
            4..6 => command!["XREADGROUP", "GROUP", "g1", consumer, "STREAMS", key, ">"],
            6..8 => command!["XTRIM", key, "MAXLEN", self.pick(&["0", "1"])],
            8..11 => command!["XREADGROUP", "GROUP", "g1", consumer, "STREAMS", key, "0"],
            _ => command!["XAUTOCLAIM", key, "g1", consumer, "0", "0", "COUNT", "1"],
        }
    }

    /// Waits for ever, or until somebody gives it something.
    fn that_waits(&mut self) -> Command {
        let (list, other, set) = (self.key(Group::List), self.key(Group::List), self.key(Group::SortedSet));
        let stream = self.key(Group::Stream);
        let timeout = self.pick(&["0", "0.05", "0.5"]);
        match self.random().below(8) {
            0 => command!["BLPOP", list, other, timeout],
            1 => command!["BRPOP", list, timeout],
            2 => command!["BLMOVE", list, other, "LEFT", "RIGHT", timeout],
            3 => command!["BRPOPLPUSH", list, other, timeout],
            4 => command!["BLMPOP", timeout, "2", list, other, "LEFT", "COUNT", "3"],
            5 => command!["BZPOPMIN", set, timeout],
            6 => command!["BZMPOP", timeout, "1", set, "MAX", "COUNT", "2"],
            _ => {
                let (who, idle_ms) = (self.pick(&["alice", "bob"]), self.pick(&["5", "500"]));
                match self.random().below(2) {
                    0 => command!["XREADGROUP", "GROUP", "g1", who, "BLOCK", "0", "STREAMS", stream, ">"],
                    _ => command![
                        "XREADGROUP",
                        "GROUP",
                        "g1",
                        who,
                        "BLOCK",
                        "0",
                        "CLAIM",
                        idle_ms,
                        "STREAMS",
                        stream,
                        ">"
                    ],
                }
            }
        }
    }

    fn of_functions(&mut self) -> Command {
        let name = self.pick(LIBRARIES);
        let number = self.random().below(3);
        let code = format!(
            "#!lua name={name}\nlocal function run(keys, args) redis.call('APPEND', keys[1], '{number}') \
             return redis.call('HSETEX', keys[2], 'PX', 20, 'FIELDS', 1, 'f1', 'v') end\n\
             redis.register_function('run_{name}', run)"
        );
        match self.random().below(8) {
            0..2 => command!["FUNCTION", "LOAD", code],
            2 => command!["FUNCTION", "LOAD", "REPLACE", code],
            3 => command!["FUNCTION", "DELETE", name],
            4 => match self.libraries.clone() {
                Some(payload) => {
                    command!["FUNCTION", "RESTORE", payload, self.pick(&["APPEND", "REPLACE", "FLUSH"])]
                }
                None => command!["FUNCTION", "FLUSH"],
            },
            5 if self.chance(30) => command!["FUNCTION", "FLUSH"],
            _ => {
                let (string, hash) = (self.key(Group::String), self.key(Group::Hash));
                command!["FCALL", format!("run_{name}"), "2", string, hash]
            }
        }
    }

    /// Several commands as one.
    fn script(&mut self) -> Command {
        let mut words = command!["EVAL", CALL_ALL, "0"];
        for _ in 0..1 + self.random().below(5) {
            let inner = match self.random().below(4) {
                0 => self.generator.command(),
                1 => self.key_that_expires(),
                2 => self.field_that_expires(),
                _ => self.of_databases(),
            };
            words.push(inner.len().to_string().into_bytes());
            words.extend(inner);
        }
        words
    }

    /// Elements that weigh the same, and patterns that lead to fields that expire.
    fn stored_by_weight(&mut self) -> Command {
        let (key, hash, target) = (self.key(Group::Set), self.key(Group::Hash), self.key(Group::List));
        let by: &[u8] = if self.chance(50) { b"none:*->x" } else { b"none" };
        let get = [&hash[..], b"->f1"].concat();
        let pattern = if self.chance(30) { b"*".to_vec() } else { get };
        command!["SORT", key, "ALPHA", "BY", by, "GET", "#", "GET", pattern, "STORE", target]
    }

    /// Memory runs short, files are written and read anew, data is brought in.
    fn of_the_server(&mut self, life: &mut Life, client: usize) -> Command {
        match self.random().below(20) {
            0..5 => self.shortage(life),
            5..7 => command!["CONFIG", "SET", "maxmemory-policy", self.pick(POLICIES)],
            7 => command!["CONFIG", "SET", "lazyfree-lazy-eviction", self.pick(&["yes", "no"])],
            8..10 => command!["DEBUG", "RELOAD"],
            // What it loads is not what the append-only file tells; where a transaction is open, it would be later.
            10 if !life.in_transaction(client) => {
                let (a, b) = (self.pick(&["NOSAVE", "MERGE"]), self.pick(&["", "NOFLUSH"]));
                command!["DEBUG", "RELOAD", a, b]
            }
            10..12 => command!["DEBUG", "LOADAOF"],
            12..15 => command!["BGREWRITEAOF"],
            15 => command![self.pick(&["SAVE", "BGSAVE"])],
            16..18 => {
                let wanted = if life.is_logged() && self.chance(50) { "no" } else { "yes" };
                command!["CONFIG", "SET", "appendonly", wanted]
            }
            18 => command!["CONFIG", "SET", "import-mode", self.pick(&["yes", "no"])],
            _ => command!["CLIENT", "IMPORT-SOURCE", self.pick(&["ON", "ON", "OFF"])],
        }
    }

    /// From now on each command exceeds the memory limit by this number of bytes.
    fn shortage(&mut self, life: &mut Life) -> Command {
        let most_bytes = if self.chance(20) { 20_000 } else { 400 };
        let shortage_bytes = self.random().below(most_bytes) as i64;
        life.shortage_bytes = Some(shortage_bytes);
        let used_bytes = life.executor.server.observed.memory.used_bytes() as i64;
        command!["CONFIG", "SET", "maxmemory", (used_bytes - shortage_bytes).to_string()]
    }

    fn setting(&mut self) -> Command {
        match self.random().below(6) {
            0..2 => command!["DEBUG", "SET-ACTIVE-EXPIRE", self.pick(&["0", "1"])],
            3..5 => command!["CONFIG", "SET", "key-policy", rules(self.random())],
            2 => command!["CONFIG", "SET", "lazyfree-lazy-expire", self.pick(&["yes", "no"])],
            _ => {
                let limit = self.pick(&["0", "3", "100"]);
                command!["CONFIG", "SET", "hash-max-listpack-entries", limit]
            }
        }
    }
}

/// What is in an answer that is one bulk string.
fn payload_of(answer: &[u8]) -> Option<Vec<u8>> {
    let end = answer.windows(2).position(|pair| pair == b"\r\n")?;
    let len: usize = std::str::from_utf8(answer.get(1..end)?).ok()?.parse().ok()?;
    answer.get(end + 2..end + 2 + len).map(<[u8]>::to_vec)
}
