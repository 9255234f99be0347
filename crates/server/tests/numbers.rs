//! Every number that a command takes, at its ends: least, greatest, zero, powers of two and what is beside them. Which
//! arguments there are follows from the commands' own descriptions; words that are no number by their description are
//! tried as well, for many of them are read as one (ids, bounds, offsets). Whatever the number, the command has a bound
//! in time, its reply one in bytes, the process one in memory, and the server answers afterwards.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::command::repetition::ELEMENTS_MAX;
use server::command::syntax::{self, Argument, ArgumentKind};
use server::command::{Command, Group, flag};
use server::commands::GROUPS;
use server::config::Config;
use server::engine::{Executor, Flow, Seeds};
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use structures::hash::HashSeed;
use wire::response::{Reader, Value};

/// What one command may compute, at the best of some attempts.
const TIME_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 100 });
const ATTEMPTS: usize = 4;
/// A command that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Two of the longest strings, and what else there is.
const PROCESS_BYTES_MAX: u64 = 2 << 30;

/// Commands that are about more than this process, and why they are left out.
const LEFT_OUT: &[(&str, &str)] = &[
    ("acl|load", "there is no file of users"),
    ("acl|save", "there is no file of users"),
    ("bgrewriteaof", "a child writes files"),
    ("bgsave", "a child writes files"),
    ("client|pause", "holds up all clients because that is what is asked for"),
    ("config|rewrite", "there is no file of options"),
    ("debug", "holds up or ends the process because that is what is asked for"),
    ("failover", "wants a replica"),
    ("migrate", "connects to another server: tests/processes/migrate.rs"),
    ("psync", "is answered by the data itself"),
    ("replicaof", "connects to a primary"),
    ("save", "writes a file"),
    ("shutdown", "ends the process"),
    ("slaveof", "as REPLICAOF"),
    ("sync", "as PSYNC"),
];

/// A key of each type.
const FIXTURE: &[&[&str]] = &[
    &["SET", "string", "hello"],
    &["SET", "number", "10"],
    &["RPUSH", "list", "a", "b", "a", "c", "a"],
    &["SADD", "set", "a", "b", "1", "2"],
    &["HSET", "hash", "f", "1", "g", "text", "h", "2"],
    &["ZADD", "zset", "1", "a", "2", "b", "3", "c"],
    &["GEOADD", "geo", "13.36", "38.11", "a", "15.08", "37.5", "b"],
    &["XADD", "stream", "1-1", "f", "v"],
    &["XADD", "stream", "2-1", "f", "v"],
    &["XGROUP", "CREATE", "stream", "g", "0"],
    &["XREADGROUP", "GROUP", "g", "c", "STREAMS", "stream", ">"],
    &["PFADD", "hll", "a", "b"],
];

struct Server {
    executor: Box<Executor>,
}

impl Server {
    fn new() -> Server {
        let config = Config { save: Vec::new(), ..Config::default() };
        let identity = Identity {
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            process_id: 1,
            executable: "warmline-server".into(),
            config_file: String::new(),
            started: Default::default(),
        };
        let seeds = Seeds { hash: HashSeed::new(1, 2), random: 3, secret: [4; 32] };
        let clock = Clock::standing_at(1_767_225_600_000);
        let mut server = Server { executor: Box::new(Executor::new(config, clock, identity, seeds)) };
        server.executor.begin_tick();
        server.fill();
        server
    }

    fn fill(&mut self) {
        let client = self.connect();
        self.ask(client, &["FLUSHALL".into(), "SYNC".into()]);
        for words in FIXTURE {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert_ne!(self.ask(client, &words).first(), Some(&b'-'), "{}", shown(&words));
        }
        self.executor.disconnect(client);
    }

    fn connect(&mut self) -> ClientHandle {
        self.executor.connect(ConnectionFigures {
            address: "127.0.0.1:1000".into(),
            local_address: "127.0.0.1:6379".into(),
            is_loopback: true,
            ..ConnectionFigures::default()
        })
    }

    /// What the client is answered; nothing if it waits, or is closed.
    fn ask(&mut self, client: ClientHandle, words: &[Vec<u8>]) -> Vec<u8> {
        let executor = &mut *self.executor;
        executor.begin_tick();
        let args = OwnedArgs::new(words.iter().map(Vec::as_slice));
        let mut reply = executor.borrow_output(client);
        reply.take_references();
        let request = executor.request(args.view());
        let _: Flow = executor.execute_into(client, request, &mut reply);
        executor.return_output(client, reply);
        executor.run_timers();
        executor.end_tick();
        executor.server.resumed.clear();
        executor.server.process_requests.clear();
        let output = executor.server.clients[client].output.take();
        executor.server.clients[client].output_pending = false;
        executor.server.clients.with_output.clear();
        executor.server.clients_to_close.clear();
        output.copy_from(0)
    }

    fn say(&mut self, client: ClientHandle, line: &str) -> Vec<u8> {
        self.ask(client, &line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    fn serves(&mut self) -> bool {
        let client = self.connect();
        let answers =
            self.say(client, "GET string") == b"$5\r\nhello\r\n" && self.say(client, "PING") == b"+PONG\r\n";
        self.executor.disconnect(client);
        answers
    }
}

fn shown(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

/// Numbers as a request may have them.
fn numbers() -> Vec<String> {
    let mut numbers = vec!["0".to_owned(), "-1".to_owned(), "1".to_owned(), "-0".to_owned()];
    let around = |power: u32| [(1i128 << power) - 1, 1 << power, (1 << power) + 1];
    for power in [7, 8, 15, 16, 20, 24, 29, 31, 32, 53, 63, 64] {
        numbers
            .extend(around(power).into_iter().flat_map(|number| [number.to_string(), (-number).to_string()]));
    }
    let fractions = ["0.1", "-0.5", "1e15", "1e308", "-1e308", "1e-320", "inf", "-inf", "nan"];
    numbers.extend(fractions.map(str::to_owned));
    numbers
}

/// Of these, what is tried where a word is no number by its description.
fn is_at_an_end(number: &str) -> bool {
    number.len() < 3 || number.len() > 18 || number.parse::<i64>().is_err()
}

/// What this thread has computed so far: the machine is others' as well.
fn computed() -> Duration {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(figures.split(' ').next().unwrap().parse().unwrap())
}

/// A node of the tree of a command's arguments; the values in it have numbers.
struct Node<'a> {
    argument: &'a Argument,
    values: std::ops::Range<usize>,
    parts: Vec<Node<'a>>,
}

fn number_values<'a>(arguments: &'a [Argument], next: &mut usize) -> Vec<Node<'a>> {
    let number = |argument: &'a Argument| {
        let start = *next;
        let parts = match argument.kind {
            ArgumentKind::OneOf | ArgumentKind::Block => number_values(&argument.parts, next),
            _ => Vec::new(),
        };
        if parts.is_empty() && argument.kind != ArgumentKind::PureToken {
            *next += 1;
        }
        Node { argument, values: start..*next, parts }
    };
    arguments.iter().map(number).collect()
}

/// Whether the value `at` is a number by its description.
fn is_number(nodes: &[Node<'_>], at: usize) -> bool {
    nodes.iter().filter(|node| node.values.contains(&at)).any(|node| match node.parts.as_slice() {
        [] => matches!(
            node.argument.kind,
            ArgumentKind::Integer | ArgumentKind::Double | ArgumentKind::UnixTime
        ),
        parts => is_number(parts, at),
    })
}

/// How a command is called.
struct Call<'a> {
    row: &'a Command,
    key: &'a str,
    /// What may be left out is there.
    is_full: bool,
}

impl Call<'_> {
    /// The words, with `number` in place of the value `at`.
    fn words(&self, nodes: &[Node<'_>], at: usize, number: &str) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = self.row.name.split('|').map(|word| word.as_bytes().to_vec()).collect();
        nodes.iter().for_each(|node| self.write(node, at, number, &mut words));
        words
    }

    fn write(&self, node: &Node<'_>, at: usize, number: &str, words: &mut Vec<Vec<u8>>) {
        let Node { argument, values, parts } = node;
        if argument.optional && !self.is_full && !values.contains(&at) {
            return;
        }
        words.extend(argument.token.iter().map(|token| token.as_bytes().to_vec()));
        match argument.kind {
            ArgumentKind::PureToken => {}
            ArgumentKind::OneOf => {
                let chosen = parts.iter().find(|part| part.values.contains(&at)).or(parts.first());
                chosen.into_iter().for_each(|part| self.write(part, at, number, words));
            }
            ArgumentKind::Block => parts.iter().for_each(|part| self.write(part, at, number, words)),
            _ if values.start == at => words.push(number.as_bytes().to_vec()),
            _ => words.push(self.usual(argument).as_bytes().to_vec()),
        }
    }

    /// A value that makes sense where the argument stands.
    fn usual(&self, argument: &Argument) -> &str {
        let is_stream = self.row.group == Group::Stream;
        match (argument.kind, argument.name.as_str()) {
            (ArgumentKind::Key, "destination" | "newkey") => "destination",
            (ArgumentKind::Key, _) => self.key,
            (ArgumentKind::Integer, "cursor" | "offset" | "start" | "db" | "index") => "0",
            (ArgumentKind::Integer | ArgumentKind::Double, _) => "1",
            (ArgumentKind::UnixTime, name) if name.contains("milli") => "4000000000000",
            (ArgumentKind::UnixTime, _) => "4000000000",
            (ArgumentKind::Pattern, _) => "*",
            (_, "field") => "f",
            (_, "start") if is_stream => "-",
            (_, "end") if is_stream => "+",
            (_, "id" | "last-id" | "lastid" | "min-idle-time" | "start") => "0",
            (_, "group") => "g",
            (_, "consumer") => "c",
            (_, "min") => "-inf",
            (_, "max") => "+inf",
            (_, "stop" | "end" | "threshold" | "increment") => "1",
            (_, "script") => "return 1",
            (_, "encoding") => "u8",
            _ => "a",
        }
    }
}

/// Keys that the command may have something to do with.
fn keys_of(group: Group) -> &'static [&'static str] {
    match group {
        Group::String => &["string", "number", "missing"],
        Group::Bitmap => &["string", "missing"],
        Group::List => &["list", "missing"],
        Group::Set => &["set", "missing"],
        Group::Hash => &["hash", "missing"],
        Group::SortedSet => &["zset", "missing"],
        Group::Geo => &["geo", "missing"],
        Group::Stream => &["stream", "missing"],
        Group::HyperLogLog => &["hll", "missing"],
        Group::Generic => &["string", "list", "set", "hash", "zset", "stream", "missing"],
        _ => &["string"],
    }
}

/// What is being run, for when it does not end.
static RUNNING: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// Ends the process, with the command that is to blame, when one takes for ever.
fn watch_over() {
    loop {
        std::thread::sleep(Duration::from_millis(100));
        if let Some((started, command)) = &*RUNNING.lock().unwrap()
            && started.elapsed() > PATIENCE
        {
            eprintln!("{command} has no end");
            std::process::abort();
        }
    }
}

fn process_bytes_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// What the trials of all commands have come to.
#[derive(Default)]
struct Findings {
    failures: Vec<String>,
    commands: usize,
    /// Arguments, and those of them that a command took some number for.
    arguments: usize,
    taken: usize,
    slowest: (Duration, String),
}

impl Findings {
    /// Whether the command took it.
    fn try_words(&mut self, server: &mut Server, words: &[Vec<u8>], changes: bool) -> bool {
        let (mut best, mut reply) = (Duration::MAX, Vec::new());
        for _ in 0..ATTEMPTS {
            let client = server.connect();
            *RUNNING.lock().unwrap() = Some((Instant::now(), shown(words)));
            let before = computed();
            reply = server.ask(client, words);
            best = best.min(computed() - before);
            *RUNNING.lock().unwrap() = None;
            server.executor.disconnect(client);
            if changes {
                server.fill();
            }
            if best < TIME_MAX {
                break;
            }
        }
        if best > self.slowest.0 {
            self.slowest = (best, shown(words));
        }
        let mut fails = |what: String| self.failures.push(format!("{}: {what}", shown(words)));
        if best >= TIME_MAX {
            fails(format!("takes {best:?}"));
        }
        if reply.len() > REPLY_BYTES_MAX {
            fails(format!("is answered {} bytes", reply.len()));
        }
        if reply.len() < 1 << 16 {
            let mut position = 0;
            while position < reply.len() {
                match Reader::new().read(&reply, &mut position) {
                    Ok(Some(_)) => {}
                    other => {
                        fails(format!("is answered {:?}: {other:?}", reply.escape_ascii().to_string()));
                        break;
                    }
                }
            }
        }
        if !server.serves() {
            fails("the server does not answer afterwards".to_owned());
        }
        !reply.is_empty() && reply[0] != b'-'
    }

    fn try_command(&mut self, row: &Command, numbers: &[String]) {
        let arguments = syntax::parse(row.syntax);
        let mut count = 0;
        let nodes = number_values(&arguments, &mut count);
        let changes = !row.is(flag::READONLY);
        let mut server = Server::new();
        self.commands += 1;
        for at in 0..count {
            let mut is_taken = false;
            for &key in keys_of(row.group) {
                let [short, full] = [false, true].map(|is_full| Call { row, key, is_full });
                let differ = short.words(&nodes, at, "1") != full.words(&nodes, at, "1");
                for call in [Some(short), differ.then_some(full)].into_iter().flatten() {
                    let is_number = is_number(&nodes, at);
                    for number in numbers.iter().filter(|number| is_number || is_at_an_end(number)) {
                        let words = call.words(&nodes, at, number);
                        is_taken |= self.try_words(&mut server, &words, changes);
                    }
                }
            }
            self.arguments += 1;
            self.taken += usize::from(is_taken);
        }
        let bytes = process_bytes_max();
        if bytes > PROCESS_BYTES_MAX {
            self.failures.push(format!("{}: the process has held {bytes} bytes", row.name));
        }
    }
}

#[test]
fn every_number_of_every_command_has_an_end() {
    std::thread::spawn(watch_over);
    let wanted = std::env::var("COMMAND").unwrap_or_default();
    let numbers = numbers();
    let mut findings = Findings::default();
    let rows = GROUPS.iter().flat_map(|group| group.iter());
    let rows = rows.flat_map(|row| std::iter::once(row).chain(row.subcommands));
    for row in rows.filter(|row| row.name.contains(&wanted) && !is_left_out(row.name)) {
        findings.try_command(row, &numbers);
    }
    let Findings { failures, commands, arguments, taken, slowest } = findings;
    println!("{commands} commands, {arguments} arguments, {taken} taken; slowest {slowest:?}");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    if wanted.is_empty() {
        assert!(
            taken * 10 > arguments * 6,
            "of {arguments} arguments, only {taken} were taken for any number"
        );
    }
    for (name, why) in LEFT_OUT {
        let mut names = GROUPS.iter().flat_map(|group| group.iter());
        let is_row = |row: &Command| row.name == *name || row.subcommands.iter().any(|row| row.name == *name);
        assert!(names.any(is_row), "{name} is no command (any more): {why}");
    }
}

fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|(left_out, _)| name == *left_out || name.split('|').next() == Some(left_out))
}

fn values(bytes: &[u8]) -> Vec<Value> {
    let (mut reader, mut position, mut values) = (Reader::new(), 0, Vec::new());
    while position < bytes.len() {
        values.push(reader.read(bytes, &mut position).unwrap().unwrap());
    }
    values
}

/// The most that a count may have repeated, and one more; by a command, in a transaction and in a script.
#[test]
fn repetitions_have_a_limit() {
    let mut server = Server::new();
    let client = server.connect();
    for (command, options) in
        [("SRANDMEMBER set", ""), ("HRANDFIELD hash", " WITHVALUES"), ("ZRANDMEMBER zset", " WITHSCORES")]
    {
        let most = server.say(client, &format!("{command} -{ELEMENTS_MAX}"));
        assert!(most.starts_with(format!("*{ELEMENTS_MAX}\r\n").as_bytes()));
        for count in [ELEMENTS_MAX + 1, i64::MAX] {
            let refused = server.say(client, &format!("{command} -{count}{options}"));
            // With values, counts beyond half of the range have an error of their own, as in the reference.
            let range = match count == i64::MAX && !options.is_empty() {
                true => "-ERR value is out of range\r\n",
                false => {
                    "-ERR value is out of range, value must between -1048576 and 9223372036854775807\r\n"
                }
            };
            assert_eq!(refused.escape_ascii().to_string(), range.as_bytes().escape_ascii().to_string());
        }
        // All commands of a transaction share the limit.
        let half = format!("{command} -{}", ELEMENTS_MAX / 2);
        server.say(client, "MULTI");
        let missing = format!("{} missing -{ELEMENTS_MAX}", command.split(' ').next().unwrap());
        for line in [half.as_str(), &half, &format!("{command} -1"), "PING", "EVAL return(1) 0"] {
            assert_eq!(server.say(client, line), b"+QUEUED\r\n");
        }
        let Value::Array(replies) = &values(&server.say(client, "EXEC"))[0] else { panic!("no array") };
        let shown: Vec<String> =
            replies.iter().map(|reply| format!("{reply:?}").chars().take(80).collect()).collect();
        let is_half =
            |reply: &Value| matches!(reply, Value::Array(drawn) if drawn.len() as i64 == ELEMENTS_MAX / 2);
        assert!(is_half(&replies[0]) && is_half(&replies[1]) && replies[2].is_error(), "{shown:?}");
        assert!(!replies[3].is_error() && !replies[4].is_error(), "{shown:?}");
        // The next has all of it again; a key that does not exist uses none.
        server.say(client, "MULTI");
        server.say(client, &missing);
        server.say(client, &half);
        let Value::Array(replies) = &values(&server.say(client, "EXEC"))[0] else { panic!("no array") };
        assert!(!replies[0].is_error() && is_half(&replies[1]));
        // A script may be ended between its commands.
        let words = |script: String| [b"EVAL".to_vec(), script.into_bytes(), b"0".to_vec()];
        let (name, key) = command.split_once(' ').unwrap();
        let draws =
            format!("for i = 1, 3 do redis.call('{name}', '{key}', -{}) end return 1", ELEMENTS_MAX / 2);
        assert_eq!(server.ask(client, &words(draws)), b":1\r\n");
        let draws = format!("return redis.call('{name}', '{key}', '-{}')", i64::MAX);
        assert!(server.ask(client, &words(draws)).starts_with(b"-ERR value is out of range, "));
    }
}

/// Those of collections that are lists, too, which are walked to find one of them.
#[test]
fn repetitions_of_long_lists_end_soon() {
    let mut server = Server::new();
    let client = server.connect();
    for number in 0..500 {
        let text = format!("{number:064}");
        server.say(client, &format!("HSET long:hash {text} {text}"));
        server.say(client, &format!("ZADD long:zset {number} {text}"));
        if number < 128 {
            server.say(client, &format!("SADD long:set {text}"));
        }
    }
    for (command, type_name) in [("SRANDMEMBER", "set"), ("HRANDFIELD", "hash"), ("ZRANDMEMBER", "zset")] {
        let encoding = server.say(client, &format!("OBJECT ENCODING long:{type_name}"));
        assert!(encoding.starts_with(b"$8\r\nlistpack") || type_name == "zset", "{encoding:?}");
        let before = computed();
        let reply = server.say(client, &format!("{command} long:{type_name} -{}", ELEMENTS_MAX / 8));
        let took = computed() - before;
        assert!(reply.len() > 64 << 17 && took < TIME_MAX, "{command} takes {took:?}");
    }
}

/// Few elements may be many bytes: such a reply is taken back, and what was answered before it stays.
#[test]
fn repeated_bytes_have_a_limit() {
    let mut server = Server::new();
    let client = server.connect();
    let long = vec![b'x'; 1 << 20];
    for (fill, command) in [
        (&[b"SADD".as_slice(), b"long"][..], "SRANDMEMBER long"),
        (&[b"HSET", b"long", b"f"], "HRANDFIELD long"),
        (&[b"ZADD", b"long", b"1"], "ZRANDMEMBER long"),
    ] {
        server.say(client, "DEL long");
        let words: Vec<Vec<u8>> = fill.iter().map(|word| word.to_vec()).chain([long.clone()]).collect();
        assert_eq!(server.ask(client, &words), b":1\r\n");
        let option = if command.starts_with('H') { " WITHVALUES" } else { "" };
        assert!(server.say(client, &format!("{command} -400{option}")).len() > 400 << 20);
        let refused = server.say(client, &format!("{command} -{ELEMENTS_MAX}{option}"));
        assert!(refused.starts_with(b"-ERR the reply is too large"), "{}", refused.len());
        server.say(client, "MULTI");
        server.say(client, "PING");
        server.say(client, &format!("{command} -300{option}"));
        server.say(client, &format!("{command} -300{option}"));
        server.say(client, "PING");
        let replies = server.say(client, "EXEC");
        assert!(replies.starts_with(b"*4\r\n+PONG\r\n*") && replies.len() < 500 << 20);
        assert!(
            replies.ends_with(b"\r\n+PONG\r\n"),
            "{:?}",
            replies[replies.len() - 100..].escape_ascii().to_string()
        );
    }
}

/// A client's limit of output holds for what its scripts are answered and for what they send to it.
#[test]
fn scripts_are_within_their_clients_limit() {
    let mut server = Server::new();
    let client = server.connect();
    let set = |limits: &str| {
        ["CONFIG", "SET", "client-output-buffer-limit", limits].map(|word| word.as_bytes().to_vec())
    };
    assert_eq!(server.ask(client, &set("normal 8mb 8mb 0 pubsub 8mb 8mb 0")), b"+OK\r\n");
    let eval = |script: &str| [b"EVAL".to_vec(), script.as_bytes().to_vec(), b"0".to_vec()];
    // The limit is about what the client is sent, not about what the script reads or moves.
    let other = server.connect();
    let long = "redis.call('RPUSH', 'long', string.rep('x', 2^24))";
    let moves = format!("{long} redis.call('RPUSH', 'moved', redis.call('LPOP', 'long'))");
    let moved = server.ask(other, &eval(&format!("{moves} return #redis.call('LINDEX', 'moved', 0)")));
    assert_eq!(moved, b":16777216\r\n");

    // Messages to itself: once the limit is passed, it is no subscriber any more.
    for (name, before) in [("plain", &[][..]), ("queued", &["MULTI"])] {
        let client = server.connect();
        server.say(client, "HELLO 3");
        server.say(client, "SUBSCRIBE channel");
        before.iter().for_each(|line| drop(server.say(client, line)));
        let sends = format!(
            "local n = 0 for i = 1, 300 do n = n + redis.call('PUBLISH', 'channel', string.rep('x', 2^20)) end \
             redis.call('SET', '{name}', n)"
        );
        server.ask(client, &eval(&sends));
        if !before.is_empty() {
            server.say(client, "EXEC");
        }
        assert!(server.executor.server.clients[client].close_asap, "{name}");
        assert_eq!(server.executor.server.clients[client].deferred_output.capacity(), 0);
        let heard = server.say(other, &format!("GET {name}"));
        assert_eq!(heard.escape_ascii().to_string(), r"$1\r\n8\r\n", "{name}");
        server.executor.disconnect(client);
    }
}
