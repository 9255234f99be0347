//! Where the time of requests goes (LATENCY TRACE): each stage is made long, and must be the one reported.

use crate::process::certificates::TlsProcess;
use crate::process::{self, Client, Process, eventually, shown};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::response::Value;

tests_with_io_threads!(
    every_request_is_told_in_order,
    what_waits_was_blocked_and_not_in_the_query_buffer,
    each_stage_that_takes_long_is_the_one_told,
    only_the_slow_are_kept,
    transactions_and_scripts_are_one_request,
    clients_that_leave_are_told_of,
    under_tls_too,
    beside_load_no_request_is_told_twice_or_without_end,
);

/// A trace, as it is answered.
#[derive(Debug)]
struct Trace {
    numbers: BTreeMap<String, i64>,
    texts: BTreeMap<String, String>,
    stages: BTreeMap<String, i64>,
}

impl Trace {
    fn of(value: &Value) -> Self {
        let mut trace = Trace { numbers: BTreeMap::new(), texts: BTreeMap::new(), stages: BTreeMap::new() };
        for (name, value) in value.entries() {
            match (shown(name), value) {
                (name, Value::Integer(number)) => drop(trace.numbers.insert(name, *number)),
                (name, value) if name == "stages" => trace.stages = stages(value),
                (name, value) => drop(trace.texts.insert(name, shown(value))),
            }
        }
        let stages_us: i64 = trace.stages.values().sum();
        let total_us = trace.numbers["total-us"];
        // Each is rounded down.
        assert!((total_us - 7..=total_us).contains(&stages_us), "{trace:?}");
        trace
    }

    fn command(&self) -> &str {
        &self.texts["command"]
    }
}

fn stages(value: &Value) -> BTreeMap<String, i64> {
    value
        .entries()
        .iter()
        .map(|(stage, us)| match us {
            Value::Integer(us) => (shown(stage), *us),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// All traces, the oldest first, without those of the requests that ask for them.
fn traces<S: Read + Write>(client: &mut Client<S>) -> Vec<Trace> {
    client.send(&[b"LATENCY", b"TRACE", b"GET", b"COUNT", b"-1"]);
    let answer = client.receive().unwrap();
    let mut traces: Vec<_> = answer.as_list().unwrap().iter().map(Trace::of).collect();
    traces.reverse();
    traces.retain(|trace| !trace.command().starts_with("[LATENCY"));
    traces
}

/// Waits until `count` of them are there: a thread may have written a reply before it says so.
fn traces_when<S: Read + Write>(client: &mut Client<S>, count: usize) -> Vec<Trace> {
    let mut found = Vec::new();
    eventually(&format!("{count} traces"), || {
        found = traces(client);
        found.len() >= count
    });
    assert_eq!(found.len(), count, "{found:?}");
    found
}

fn send_all<S: Read + Write>(client: &mut Client<S>, commands: &[&str]) {
    let words = |command: &&str| process::encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    let bytes: Vec<u8> = commands.iter().flat_map(words).collect();
    client.stream.write_all(&bytes).unwrap();
}

fn every_request_is_told_in_order() {
    let process = Process::start(&[]);
    let (mut client, mut observer) = (process.connect(), process.connect());
    assert_eq!(observer.ask("ACL SETUSER someone on nopass ~* +@all"), "OK");
    assert_eq!(client.ask("AUTH someone x"), "OK");
    client.ask("CLIENT SETNAME tester");
    client.ask("SELECT 3");
    client.ask("SET before 1");
    assert_eq!(observer.ask("LATENCY TRACE START EVERY 1"), "OK");
    let commands = [
        "SET key value",
        "GET key",
        "AUTH someone secret",
        "NOSUCH secret",
        "HSET h f v",
        "GET h",
        "ECHO \u{1}",
    ];
    send_all(&mut client, &commands);
    commands.iter().for_each(|_| drop(client.receive().unwrap()));
    let found = traces_when(&mut observer, commands.len());
    let told: Vec<_> = found.iter().map(Trace::command).collect();
    assert_eq!(
        told,
        [
            "[SET key value]",
            "[GET key]",
            "[AUTH (redacted) (redacted)]",
            "[NOSUCH]",
            "[HSET h f v]",
            "[GET h]",
            "[ECHO \u{1}]"
        ]
    );
    let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    for trace in &found {
        assert_eq!(
            (trace.numbers["db"], &*trace.texts["client-name"], &*trace.texts["user"]),
            (3, "tester", "someone")
        );
        assert_eq!(trace.numbers["client-id"].to_string(), client.ask("CLIENT ID"));
        assert_eq!(trace.texts["client-address"], client.stream.local_addr().unwrap().to_string());
        assert!((now_us - 60_000_000..=now_us).contains(&trace.numbers["time-us"]), "{trace:?} {now_us}");
        assert!(trace.numbers["total-us"] < 10_000_000, "{trace:?}");
        assert_eq!(trace.stages["blocked"], 0);
    }
    assert!(found.windows(2).all(|pair| pair[0].numbers["id"] < pair[1].numbers["id"]));
    let json = observer.ask("LATENCY TRACE JSON COUNT 1000");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let spans = json["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let names: Vec<_> =
        spans.iter().filter(|span| span["parentSpanId"].is_null()).map(|span| &span["name"]).collect();
    assert!(names.iter().any(|name| *name == "HSET"), "{names:?}");
    assert_eq!(observer.ask("LATENCY TRACE STOP"), "OK");
    client.ask("SET after 1");
    assert!(traces(&mut observer).iter().all(|trace| trace.command() != "[SET after 1]"));
    observer.ask("CONFIG SET latency-trace-max-len 2");
    assert_eq!(observer.ask("LATENCY TRACE STATUS").split(' ').collect::<Vec<_>>()[6..8], ["kept", "2"]);
    assert_eq!(observer.ask("LATENCY TRACE RESET"), "OK");
    assert_eq!(observer.ask("LATENCY TRACE GET"), "[]");
}

fn what_waits_was_blocked_and_not_in_the_query_buffer() {
    let process = Process::start(&[]);
    let (mut waiter, mut held, mut client) = (process.connect(), process.connect(), process.connect());
    client.ask("LATENCY TRACE START EVERY 1");
    send_all(&mut waiter, &["BLPOP list 60", "GET behind"]);
    waiter.stream.flush().unwrap();
    eventually("the client waits", || process.info("blocked_clients").as_deref() == Some("1"));
    sleep(Duration::from_millis(150));
    client.ask("RPUSH list a");
    waiter.receive().unwrap();
    waiter.receive().unwrap();
    waiter.ask("BLPOP list 0.15");
    client.ask("CLIENT PAUSE 150 ALL");
    held.ask("SET held 1");
    let mut found = Vec::new();
    eventually("all are told", || {
        found = traces(&mut client);
        found.iter().any(|trace| trace.command() == "[SET held 1]")
    });
    for command in ["[BLPOP list 60]", "[BLPOP list 0.15]", "[SET held 1]"] {
        let trace = found.iter().find(|trace| trace.command() == command).unwrap();
        assert!(trace.stages["blocked"] >= 100_000, "{trace:?}");
        assert!(trace.stages["query-buffer"] < 50_000, "{trace:?}");
        assert!(trace.stages["execution"] < 50_000, "{trace:?}");
    }
    let behind = found.iter().find(|trace| trace.command() == "[GET behind]").unwrap();
    assert!(behind.stages["query-buffer"] >= 100_000, "{behind:?}");
}

fn each_stage_that_takes_long_is_the_one_told() {
    let process =
        Process::start(&["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"]);
    let (mut client, mut reader) = (process.connect(), process.connect());
    client.ask("LATENCY TRACE START SLOWER 100000");
    client.ask("DEBUG SLEEP 0.12");
    client.ask("DEBUG AOF-FLUSH-SLEEP 120000");
    client.ask("SET key value");
    client.ask("DEBUG AOF-FLUSH-SLEEP 0");
    let large = vec![b'x'; 40 << 20];
    client.send(&[b"SET", b"large", &large]);
    client.receive().unwrap();
    reader.send(&[b"GET", b"large"]);
    sleep(Duration::from_millis(300));
    assert_eq!(reader.receive().unwrap().as_bytes().unwrap().len(), large.len());
    let mut found = Vec::new();
    eventually("all are told", || {
        found = traces(&mut client);
        found.iter().any(|trace| trace.command() == "[GET large]")
    });
    for (command, stage) in [
        ("[DEBUG SLEEP 0.12]", "execution"),
        ("[SET key value]", "append-only-file"),
        ("[GET large]", "output"),
    ] {
        let trace = found.iter().find(|trace| trace.command() == command).unwrap();
        assert!(trace.stages[stage] >= 100_000, "{command} {stage}: {trace:?}");
        assert!(trace.numbers["total-us"] - trace.stages[stage] < 100_000, "{trace:?}");
    }
}

fn only_the_slow_are_kept() {
    let process = Process::start(&["--enable-debug-command", "yes", "--slowlog-log-slower-than", "100000"]);
    let (mut client, mut observer) = (process.connect(), process.connect());
    client.ask("LATENCY TRACE START SLOWER 10000000");
    for i in 0..1000 {
        client.ask(&format!("SET key:{i} value"));
    }
    assert_eq!(traces(&mut observer).len(), 0);
    // What goes to the slow log is traced although it is neither chosen nor slow enough.
    client.ask("LATENCY TRACE START EVERY 1000000000");
    client.ask("DEBUG SLEEP 0.12");
    client.ask("PING");
    let found = traces_when(&mut observer, 1);
    assert_eq!(found[0].command(), "[DEBUG SLEEP 0.12]");
    observer.send(&[b"SLOWLOG", b"GET", b"1", b"STAGES"]);
    let answer = observer.receive().unwrap();
    let entry = answer.as_list().unwrap()[0].as_list().unwrap();
    assert_eq!(entry.len(), 7);
    assert_eq!(stages(&entry[6]), found[0].stages);
    observer.send(&[b"SLOWLOG", b"GET"]);
    assert_eq!(observer.receive().unwrap().as_list().unwrap()[0].as_list().unwrap().len(), 6);
}

fn transactions_and_scripts_are_one_request() {
    let process = Process::start(&["--enable-debug-command", "yes", "--busy-reply-threshold", "50"]);
    let (mut client, mut observer) = (process.connect(), process.connect());
    client.ask("LATENCY TRACE START EVERY 1");
    client.ask("MULTI");
    client.ask("SET a 1");
    client.ask("DEBUG SLEEP 0.12");
    client.ask("EXEC");
    let slow = "local i = 0 repeat redis.call('SET', 'b', i) i = i + 1 until redis.call('TIME')[1] + 0 < 0 or i > 600000";
    client.send(&[b"EVAL", slow.as_bytes(), b"0"]);
    client.receive().unwrap();
    let found = traces_when(&mut observer, 5);
    let told: Vec<_> = found.iter().map(|trace| trace.command().split(' ').next().unwrap()).collect();
    assert_eq!(told, ["[MULTI]", "[SET", "[DEBUG", "[EXEC]", "[EVAL"]);
    assert!(found[3].stages["execution"] >= 120_000, "{:?}", found[3]);
    assert!(found[2].stages["execution"] < 100_000, "{:?}", found[2]);
    // It was suspended in between, which is not a stage of its own.
    let script = &found[4];
    assert!(script.stages["execution"] >= 50_000 && script.stages["blocked"] == 0, "{script:?}");
}

fn clients_that_leave_are_told_of() {
    let process = Process::start(&[]);
    let mut observer = process.connect();
    observer.ask("LATENCY TRACE START EVERY 1");
    let mut waiter = process.connect();
    waiter.send(&[b"BLPOP", b"list", b"0"]);
    eventually("the client waits", || process.info("blocked_clients").as_deref() == Some("1"));
    sleep(Duration::from_millis(50));
    drop(waiter);
    let mut found = Vec::new();
    eventually("it is told", || {
        found = traces(&mut observer);
        found.retain(|trace| trace.command().starts_with("[BLPOP"));
        !found.is_empty()
    });
    assert_eq!(found.len(), 1);
    assert!(found[0].stages["blocked"] >= 40_000, "{found:?}");
}

fn under_tls_too() {
    let server = TlsProcess::start(&["--tls-auth-clients", "no"]);
    let (mut client, mut observer) = (server.connect(), server.process.connect());
    observer.ask("LATENCY TRACE START EVERY 1");
    client.ask("SET key value");
    client.ask("GET key");
    let found = traces_when(&mut observer, 2);
    assert_eq!(found[1].command(), "[GET key]");
    assert!(found[1].numbers["total-us"] < 10_000_000);
}

fn beside_load_no_request_is_told_twice_or_without_end() {
    const CLIENTS: usize = 20;
    const REQUESTS: usize = 300;
    let process = Process::start(&["--latency-trace-max-len", "100000"]);
    let mut observer = process.connect();
    observer.ask("LATENCY TRACE START EVERY 1");
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = process.connect();
            scope.spawn(move || {
                for request in 0..REQUESTS / 10 {
                    let commands: Vec<_> = (0..10).map(|i| format!("SET {number}:{request}:{i} v")).collect();
                    send_all(&mut client, &commands.iter().map(String::as_str).collect::<Vec<_>>());
                    commands.iter().for_each(|_| drop(client.receive().unwrap()));
                }
            });
        }
    });
    let found = traces_when(&mut observer, CLIENTS * REQUESTS);
    let told: std::collections::BTreeSet<_> = found.iter().map(Trace::command).collect();
    assert_eq!(told.len(), CLIENTS * REQUESTS);
    assert!(found.iter().all(|trace| trace.numbers["total-us"] < 60_000_000));
    assert!(observer.ask("LATENCY TRACE STATUS").contains("missed 0"));
}
