//! Values kept compressed, from outside: a server whose rule says so answers as one does that keeps all values plain,
//! whatever is done with them, and through files, replicas, eviction and changes of its rules.

use crate::process::{Client, PATIENCE, Process, eventually, info, scale, shown};
use std::net::TcpStream;
use std::time::Instant;
use structures::random::Random;
use wire::response::Value;

const RULE: &str = "CONFIG SET key-policy v:*\u{a0}compress-values\u{a0}yes";
const COMMANDS: usize = 20_000;
/// What makes a family get its dictionary.
const RECORDS: usize = 1500;

struct Pair {
    compressing: Client<TcpStream>,
    plain: Client<TcpStream>,
}

fn record(i: u64) -> Vec<u8> {
    let city = ["Berlin", "Paris", "Oslo", "Rome"][(i % 4) as usize];
    let note = "seen and sent ".repeat((i % 40) as usize);
    let tail = i * 7919 % 100_003;
    let head = format!("{{\"id\":{i},\"city\":\"{city}\",\"tags\":[\"blue\",\"green\"]");
    format!("{head},\"score\":{tail},\"note\":\"{note}\"}}").into_bytes()
}

fn ask(client: &mut Client<TcpStream>, words: &[&[u8]]) -> Value {
    client.send(words);
    client.receive().expect("the server answers")
}

impl Pair {
    /// Both answer the same, which is this.
    #[track_caller]
    fn ask(&mut self, words: &[&[u8]]) -> Value {
        let (one, other) = (ask(&mut self.compressing, words), ask(&mut self.plain, words));
        let shown_words = || words.join(&b' ').escape_ascii().to_string();
        assert_eq!(one, other, "{}", shown_words());
        one
    }
}

fn start(options: &[&str]) -> Process {
    Process::start(&[options, &["--enable-debug-command", "yes"]].concat())
}

fn set_rule(client: &mut Client<TcpStream>) {
    let words: Vec<Vec<u8>> = RULE.split(' ').map(|word| word.replace('\u{a0}', " ").into_bytes()).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    assert_eq!(shown(&ask(client, &words)), "OK");
}

fn fill(client: &mut Client<TcpStream>) {
    for i in 0..RECORDS as u64 {
        assert_eq!(shown(&ask(client, &[b"SET", format!("v:{i}").as_bytes(), &record(i)])), "OK");
    }
}

fn is_compressed(client: &mut Client<TcpStream>, key: &str) -> bool {
    client.ask(&format!("OBJECT LAYOUT {key}")).contains("compressed")
}

fn all_compressed(client: &mut Client<TcpStream>) -> bool {
    (0..RECORDS).step_by(7).all(|i| is_compressed(client, &format!("v:{i}")))
}

/// Two servers with the same values, which the first keeps compressed.
fn filled_pair() -> (Process, Process, Pair) {
    let (one, other) = (start(&[]), start(&[]));
    let mut pair = Pair { compressing: one.connect(), plain: other.connect() };
    set_rule(&mut pair.compressing);
    fill(&mut pair.compressing);
    fill(&mut pair.plain);
    eventually("all values compressed", || all_compressed(&mut pair.compressing));
    (one, other, pair)
}

fn word(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => (0..random.below(400)).map(|_| random.next_u64() as u8).collect(),
        1 => random.below(1000).to_string().into_bytes(),
        2 => b"<td class=\"n\">1</td>".repeat(1 + random.below(1000) as usize),
        _ => record(random.below(5000)),
    }
}

/// One of the commands that read or change strings; what its key is called, `names` says.
fn command(random: &mut Random, names: &[String; 2]) -> Vec<Vec<u8>> {
    let (key, other) = (names[0].clone(), names[1].clone());
    let (small, large) = (random.below(300).to_string(), random.below(3000).to_string());
    let text = word(random);
    let words = |text: String| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let with = |head: String, text: Vec<u8>| [words(head), vec![text]].concat();
    match random.below(48) {
        0..10 => with(format!("SET {key}"), text),
        10 => [with(format!("SET {key}"), text), words("KEEPTTL GET".into())].concat(),
        11 => with(format!("SETEX {key} 1000"), text),
        12 => with(format!("APPEND {key}"), text),
        13 => with(format!("SETRANGE {key} {small}"), text),
        14 => words(format!("GETRANGE {key} -{large} -{small}")),
        15 => words(format!("GETRANGE {key} {small} {large}")),
        16 => words(format!("STRLEN {key}")),
        17 => words(format!("BITCOUNT {key} {small} {large}")),
        18 => words(format!("BITPOS {key} 1 {small}")),
        19 => words(format!("BITOP XOR {other} {key} {other}")),
        20 => words(format!("SETBIT {key} {large} 1")),
        21 => words(format!("BITFIELD {key} GET u8 {small} INCRBY u5 {large} 3")),
        22 => words(format!("LCS {key} {other} LEN")),
        23 => words(format!("DUMP {key}")),
        24 => words(format!("COPY {key} {other} REPLACE")),
        25 => words(format!("RENAME {key} {other}")),
        26 => words(format!("GETDEL {key}")),
        27 => words(format!("GETEX {key} EX 5000")),
        28 => words(format!("PERSIST {key}")),
        29 => words(format!("INCR {key}")),
        30 => words(format!("PFCOUNT {key} {other}")),
        31 => with(format!("GETSET {key}"), text),
        32 => words(format!("DEBUG DIGEST-VALUE {key} {other}")),
        33 => words(format!("MGET {key} {other} {key}")),
        34 => words(format!(
            "EVAL return{{redis.call('get',KEYS[1]),redis.call('strlen',KEYS[2])}} 2 {key} {other}"
        )),
        35 => words(format!("SORT list BY {}:* ALPHA GET {}:* GET #", &key[..1], &key[..1])),
        36 => words(format!("OBJECT REFCOUNT {key}")),
        37 => words(format!("DIGEST {key}")),
        38 => with(format!("SETNX {key}"), text),
        39 => [with(format!("MSET {key}"), text), vec![other.into_bytes(), word(random)]].concat(),
        40 => words(format!("INCRBYFLOAT {key} 1.5")),
        41 => words(format!("MOVE {key} 1")),
        42 => words(format!("DEL {key}")),
        43 => words(format!("TTL {key}")),
        _ => words(format!("GET {key}")),
    }
}

#[test]
fn a_server_that_compresses_answers_as_one_that_does_not() {
    let (_one, _other, mut pair) = filled_pair();
    for seed in 0..scale() as u64 {
        let mut random = Random::new(seed);
        pair.ask(&[b"RPUSH", b"list", b"1", b"2", b"3", b"4"]);
        for step in 0..COMMANDS {
            let mut name = || format!("{}:{}", if random.below(4) > 0 { 'v' } else { 'w' }, random.below(80));
            let names = [name(), name()];
            let words = command(&mut random, &names);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            pair.ask(&words);
            if step % 2000 == 0 {
                pair.ask(&[b"DEBUG", b"DIGEST"]);
            }
        }
        assert_eq!(shown(&pair.ask(&[b"DEBUG", b"RELOAD"])), "OK");
        pair.ask(&[b"DEBUG", b"DIGEST"]);
        eventually("what was loaded is compressed", || is_compressed(&mut pair.compressing, "v:1400"));
        pair.ask(&[b"DEBUG", b"DIGEST"]);
    }
    for i in 0..RECORDS {
        pair.ask(&[b"GET", format!("v:{i}").as_bytes()]);
    }
}

#[test]
fn files_and_replicas_get_plain_values() {
    let one = start(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = one.connect();
    set_rule(&mut client);
    fill(&mut client);
    eventually("all values compressed", || all_compressed(&mut client));
    let digest = client.ask("DEBUG DIGEST");
    client.ask("BGREWRITEAOF");
    eventually("the file is rewritten", || info(&mut client, "aof_rewrite_in_progress") == "0");
    let replica = start(&["--replicaof", &format!("127.0.0.1 {}", one.port)]);
    let mut replicas = replica.connect();
    eventually("the replica has it all", || replicas.ask("DEBUG DIGEST") == digest);
    assert!(!is_compressed(&mut replicas, "v:5"), "the replica has a rule of its own, or none");
    set_rule(&mut replicas);
    eventually("the replica's values are compressed", || all_compressed(&mut replicas));
    assert_eq!(replicas.ask("DEBUG DIGEST"), digest);
    assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
    assert_eq!(shown(&ask(&mut client, &[b"CONFIG", b"SET", b"key-policy", b""])), "OK");
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
}

#[test]
fn memory_is_won_and_dictionaries_are_part_of_it() {
    // What is kept of hot keys comes with them.
    let server = start(&["--hot-keys", "no"]);
    let mut client = server.connect();
    let used = |client: &mut Client<TcpStream>| info(client, "used_memory").parse::<i64>().unwrap();
    // What the server keeps of each command's times comes with its first call.
    for command in ["SET a 1", "OBJECT LAYOUT a", "CONFIG SET maxmemory 0", "POLICY STATS", "FLUSHALL"] {
        client.ask(command);
    }
    let before = used(&mut client);
    fill(&mut client);
    let plain = used(&mut client) - before;
    set_rule(&mut client);
    eventually("all values compressed", || all_compressed(&mut client));
    let dictionaries = info(&mut client, "used_memory_dictionaries").parse::<i64>().unwrap();
    let compressed = used(&mut client) - before;
    assert!(dictionaries > 100_000 && compressed > dictionaries, "{compressed} with {dictionaries}");
    assert!(compressed - dictionaries < plain / 2, "{compressed} after {plain}");
    let stats = client.ask("POLICY STATS");
    assert!(stats.contains(&format!("compressed-values {RECORDS} ")), "{stats}");
    client.ask("FLUSHALL");
    eventually("the dictionary is given up", || info(&mut client, "used_memory_dictionaries") == "0");
    // What was in the database may be freed by another thread.
    eventually("memory is given back", || used(&mut client) - before < plain / 4);
}

#[test]
fn the_executor_does_not_wait_for_training_and_eviction_takes_compressed_values() {
    let server = start(&["--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.connect();
    set_rule(&mut client);
    let used: u64 = info(&mut client, "used_memory").parse().unwrap();
    client.ask(&format!("CONFIG SET maxmemory {}", used + 2_000_000));
    let (started, mut slowest_us) = (Instant::now(), 0);
    for i in 0..40_000 {
        let key = format!("v:{i}");
        let asked = Instant::now();
        assert_eq!(shown(&ask(&mut client, &[b"SET", key.as_bytes(), &record(i)])), "OK");
        slowest_us = slowest_us.max(asked.elapsed().as_micros());
        if i % 50 == 0 {
            assert_eq!(ask(&mut client, &[b"GET", key.as_bytes()]), Value::Bulk(record(i)));
        }
    }
    assert!(info(&mut client, "evicted_keys").parse::<u64>().unwrap() > 0);
    assert!(info(&mut client, "used_memory_dictionaries") != "0" && started.elapsed() < PATIENCE);
    let used_after: u64 = info(&mut client, "used_memory").parse().unwrap();
    assert!(used_after < used + 2_500_000, "{used_after} of {used}, slowest {slowest_us}");
}
