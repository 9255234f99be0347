//! Reading and playing golden scripts; see `golden.rs` for the format.

// Each file of tests uses its part of this.
#![allow(dead_code)]

use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::{Config, PrefixRule};
use server::engine::{Executor, Flow, Seeds};
use server::server::Identity;
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use structures::hash::HashSeed;

/// One command or directive, as written and as understood.
enum Action {
    Command { client: String, args: Vec<Vec<u8>>, shown: bool },
    Advance { ms: u64 },
}

struct Step {
    line_number: usize,
    /// The lines before the separator, as written.
    source: Vec<String>,
    actions: Vec<Action>,
    like: bool,
    expected: Vec<String>,
}

/// Which server proves a script right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    Valkey,
    /// Of what Valkey does not have.
    Redis,
    Nobody,
}

impl Reference {
    fn of(text: &str) -> Self {
        match text.lines().next() {
            Some(line) if line.starts_with("# not for the reference") => Reference::Nobody,
            Some(line) if line.starts_with("# of Redis") => Reference::Redis,
            _ => Reference::Valkey,
        }
    }

    /// Where the server is, by the environment; `None`: scripts are played in process.
    pub fn address() -> Option<(Self, String)> {
        let of = |kind, variable| std::env::var(variable).ok().map(|address| (kind, address));
        of(Reference::Valkey, "REFERENCE").or_else(|| of(Reference::Redis, "REDIS_REFERENCE"))
    }
}

pub struct Script {
    pub reference: Reference,
    steps: Vec<Step>,
}

impl Script {
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut steps = Vec::new();
        let mut lines = text.lines().enumerate().peekable();
        while lines.peek().is_some() {
            let mut step = Step {
                line_number: 0,
                source: Vec::new(),
                actions: Vec::new(),
                like: false,
                expected: Vec::new(),
            };
            let mut separated = false;
            for (index, line) in lines.by_ref() {
                if !separated && line.starts_with("---") {
                    separated = true;
                    step.like = line == "--- like";
                } else if separated && line.is_empty() {
                    break;
                } else if separated {
                    step.expected.push(line.to_owned());
                } else {
                    step.line_number = index + 1;
                    step.source.push(line.to_owned());
                    if let Some(action) = parse_action(line).map_err(|e| format!("{}: {e}", index + 1))? {
                        step.actions.push(action);
                    }
                }
            }
            if separated || !step.source.iter().all(String::is_empty) {
                steps.push(step);
            }
        }
        Ok(Script { reference: Reference::of(text), steps })
    }

    /// Plays it in both places and returns how what was seen differs, whatever is written; steps whose replies are
    /// patterns are left out.
    pub fn compare(&self, one: &mut Player, other: &mut Player) -> Vec<String> {
        let mut differences = Vec::new();
        for step in self.steps.iter().filter(|step| !step.actions.is_empty()) {
            let (seen, also_seen) = (one.run(&step.actions), other.run(&step.actions));
            if seen != also_seen && !step.like {
                differences.push(format!(
                    "{}: {}\n  here:\n    {}\n  there:\n    {}",
                    step.line_number,
                    step.source.join(" | "),
                    seen.join("\n    "),
                    also_seen.join("\n    ")
                ));
            }
        }
        differences
    }

    /// Runs all steps; the script with the replies that were seen, and how they differ from those written.
    pub fn play(&self, player: &mut Player) -> (String, Vec<String>) {
        let (mut seen_script, mut differences) = (String::new(), Vec::new());
        for step in &self.steps {
            for line in &step.source {
                writeln!(seen_script, "{line}").unwrap();
            }
            if step.actions.is_empty() {
                continue;
            }
            let seen = player.run(&step.actions);
            let separator = if step.like { "--- like" } else { "---" };
            let kept = if step.like { &step.expected } else { &seen };
            writeln!(seen_script, "{separator}\n{}\n", kept.join("\n")).unwrap();
            if !agrees(&seen, step) {
                differences.push(format!(
                    "{}: {}\n  expected:\n    {}\n  seen:\n    {}",
                    step.line_number,
                    step.source.join(" | "),
                    step.expected.join("\n    "),
                    seen.join("\n    ")
                ));
            }
        }
        (seen_script.trim_end().to_owned() + "\n", differences)
    }
}

fn agrees(seen: &[String], step: &Step) -> bool {
    if !step.like {
        return seen == step.expected;
    }
    seen.len() == step.expected.len()
        && seen.iter().zip(&step.expected).all(|(s, e)| wire::glob::matches(e.as_bytes(), s.as_bytes()))
}

fn parse_action(line: &str) -> Result<Option<Action>, String> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if let Some(ms) = line.strip_prefix("advance ") {
        return ms.parse().map(|ms| Some(Action::Advance { ms })).map_err(|e| e.to_string());
    }
    let (line, shown) = line.strip_prefix('~').map_or((line, true), |rest| (rest, false));
    let (client, command) = match line.strip_prefix('@') {
        Some(rest) => rest.split_once(' ').ok_or("a client's name and no command")?,
        None => ("", line),
    };
    let args = wire::request::split_args(command.as_bytes()).map_err(|_| "unbalanced quotes")?;
    Ok(Some(Action::Command { client: client.to_owned(), args, shown }))
}

/// Where a script's commands go.
pub struct Player {
    place: Place,
    /// What each client says first, unrecorded.
    greeting: Vec<Vec<u8>>,
    /// The commands in this process that were answered, and with no error, where the script shows it; and the kinds of
    /// their answers.
    pub answered: BTreeMap<&'static str, BTreeSet<&'static str>>,
}

enum Place {
    InProcess { executor: Box<Executor>, clients: HashMap<String, ClientHandle> },
    Server { address: String, clients: HashMap<String, TcpStream> },
}

/// The instant at which every script starts: 2026-01-01, midnight.
const START_UNIX_MS: i64 = 1_767_225_600_000;

impl Player {
    pub fn in_process(config: Config) -> Self {
        let identity = Identity {
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            process_id: 1,
            executable: "warmline-server".into(),
            config_file: String::new(),
            started: Default::default(),
        };
        // Scripts save and load files of their own.
        let dir = std::env::temp_dir().join(format!("warmline-golden-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let config = Config {
            enable_debug_command: server::config::ProtectedAction::Yes,
            save: Vec::new(),
            dir,
            ..config
        };
        let seeds = Seeds { hash: HashSeed::new(1, 2), random: 3, secret: [4; 32] };
        let executor = Executor::new(config, Clock::standing_at(START_UNIX_MS), identity, seeds);
        let place = Place::InProcess { executor: Box::new(executor), clients: HashMap::new() };
        Player { place, greeting: Vec::new(), answered: BTreeMap::new() }
    }

    /// All clients speak the third version of the protocol from the start.
    pub fn in_resp3(mut self) -> Self {
        self.greeting = vec![b"HELLO".to_vec(), b"3".to_vec()];
        if let Place::Server { clients, .. } = &mut self.place {
            clients.clear();
        }
        self
    }

    pub fn against_server(address: &str) -> Self {
        let place = Place::Server { address: address.to_owned(), clients: HashMap::new() };
        let mut player = Player { place, greeting: Vec::new(), answered: BTreeMap::new() };
        for words in
            [&["FLUSHALL"][..], &["FUNCTION", "FLUSH"], &["SCRIPT", "FLUSH"], &["CONFIG", "RESETSTAT"]]
        {
            let args = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            player.run(&[Action::Command { client: String::new(), args, shown: true }]);
        }
        player
    }

    /// Runs one step; the lines that the clients received, first client first.
    fn run(&mut self, actions: &[Action]) -> Vec<String> {
        let mut received: Vec<(String, Vec<u8>)> = Vec::new();
        for action in actions {
            let before = received.clone();
            match (&mut self.place, action) {
                (Place::InProcess { executor, .. }, Action::Advance { ms }) => advance(executor, *ms),
                (Place::Server { .. }, Action::Advance { ms }) => {
                    std::thread::sleep(Duration::from_millis(*ms))
                }
                (Place::InProcess { executor, clients }, Action::Command { client, args, .. }) => {
                    let handle = *clients.entry(client.clone()).or_insert_with(|| {
                        let handle = connect(executor);
                        if !self.greeting.is_empty() {
                            send_in_process(executor, handle, &self.greeting);
                            executor.server.clients[handle].output.take();
                        }
                        handle
                    });
                    send_in_process(executor, handle, args);
                }
                (Place::Server { address, clients }, Action::Command { client, args, .. }) => {
                    let stream = clients.entry(client.clone()).or_insert_with(|| {
                        let mut stream = TcpStream::connect(address.as_str()).expect("the reference answers");
                        if !self.greeting.is_empty() {
                            stream.write_all(&encode(&self.greeting)).unwrap();
                            read_until_silent(&mut stream);
                        }
                        stream
                    });
                    stream.write_all(&encode(args)).unwrap();
                    collect_from_server(clients, &mut received);
                }
            }
            if let Place::InProcess { executor, clients } = &mut self.place {
                collect_in_process(executor, clients, &mut received);
                if executor.server.config.memory_prefixes != PrefixRule::Off {
                    executor.db.check();
                }
            }
            match action {
                Action::Command { shown: false, .. } => received = before,
                Action::Command { client, args, .. } => self.note_answer(client, args, &before, &received),
                Action::Advance { .. } => {}
            }
        }
        if let Place::Server { clients, .. } = &mut self.place {
            collect_from_server(clients, &mut received);
        }
        render(received)
    }

    fn note_answer(
        &mut self,
        client: &str,
        args: &[Vec<u8>],
        before: &[(String, Vec<u8>)],
        after: &[(String, Vec<u8>)],
    ) {
        let Place::InProcess { executor, .. } = &self.place else { return };
        let answer = &of_client(after, client)[of_client(before, client).len()..];
        let args = OwnedArgs::new(args.iter().map(Vec::as_slice));
        let registry = &executor.server.registry;
        if let Ok(id) = registry.find(args.view())
            && !answer.is_empty()
            && !answer.starts_with(b"-")
            && !answer.starts_with(b"+QUEUED")
        {
            self.answered.entry(registry.row(id).name).or_default().insert(kind(answer));
        }
    }
}

/// What kind of value a reply is, in the words of the protocol's specification.
fn kind(reply: &[u8]) -> &'static str {
    match reply {
        [b'+', b'O', b'K', b'\r', ..] => "OK",
        [b'+', ..] => "simple string",
        [b':', ..] => "integer",
        [b'$' | b'*', b'-', ..] | [b'_', ..] => "null",
        [b'$', ..] => "bulk string",
        [b'*', ..] => "array",
        [b'%', ..] => "map",
        [b'~', ..] => "set",
        [b',', ..] => "double",
        [b'#', ..] => "boolean",
        [b'=', ..] => "verbatim string",
        [b'>', ..] => "push",
        _ => "other",
    }
}

/// What a client received, of what all clients did.
fn of_client<'a>(received: &'a [(String, Vec<u8>)], client: &str) -> &'a [u8] {
    received.iter().find(|(name, _)| name == client).map_or(&[], |(_, bytes)| bytes)
}

fn connect(executor: &mut Executor) -> ClientHandle {
    executor.begin_tick();
    executor.connect(ConnectionFigures {
        address: "127.0.0.1:1000".into(),
        local_address: "127.0.0.1:6379".into(),
        is_loopback: true,
        ..ConnectionFigures::default()
    })
}

fn send_in_process(executor: &mut Executor, handle: ClientHandle, args: &[Vec<u8>]) {
    executor.begin_tick();
    let args = OwnedArgs::new(args.iter().map(Vec::as_slice));
    let mut reply = executor.borrow_output(handle);
    reply.take_references();
    let request = executor.request(args.view());
    let _: Flow = executor.execute_into(handle, request, &mut reply);
    executor.return_output(handle, reply);
    executor.run_timers();
    executor.end_tick();
}

/// Turns the clock in steps, running what is due at each, so that timers fire in order.
fn advance(executor: &mut Executor, ms: u64) {
    for _ in 0..ms.div_ceil(10) {
        executor.clock.advance_ms(ms.min(10));
        executor.begin_tick();
        executor.run_timers();
        executor.end_tick();
    }
}

fn collect_in_process(
    executor: &mut Executor,
    clients: &HashMap<String, ClientHandle>,
    received: &mut Vec<(String, Vec<u8>)>,
) {
    let mut names: Vec<_> = clients.iter().collect();
    names.sort();
    for (name, &handle) in names {
        let output = executor.server.clients[handle].output.take();
        executor.server.clients[handle].output_pending = false;
        append(received, name, output.copy_from(0));
    }
    executor.server.clients.with_output.clear();
}

/// Reads until every socket has been silent for a while.
fn collect_from_server(clients: &mut HashMap<String, TcpStream>, received: &mut Vec<(String, Vec<u8>)>) {
    let mut names: Vec<_> = clients.iter_mut().collect();
    names.sort_by(|a, b| a.0.cmp(b.0));
    for (name, stream) in names {
        append(received, name, read_until_silent(stream));
    }
}

fn read_until_silent(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_millis(15))).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..n]);
    }
    bytes
}

fn append(received: &mut Vec<(String, Vec<u8>)>, name: &str, bytes: Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match received.iter_mut().find(|(other, _)| other == name) {
        Some((_, all)) => all.extend(bytes),
        None => received.push((name.to_owned(), bytes)),
    }
}

fn encode(args: &[Vec<u8>]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        request.extend(format!("${}\r\n", arg.len()).as_bytes());
        request.extend(arg);
        request.extend(b"\r\n");
    }
    request
}

/// Bytes as lines: CRLF ends one, everything unprintable is escaped.
fn render(mut received: Vec<(String, Vec<u8>)>) -> Vec<String> {
    received.sort_by(|a, b| a.0.cmp(&b.0));
    let mut lines = Vec::new();
    for (name, bytes) in received {
        if !name.is_empty() {
            lines.push(format!("@{name}"));
        }
        let text: String = bytes
            .iter()
            .map(|&byte| match byte {
                b'\r' | b'\n' | b' '..=b'~' => (byte as char).to_string(),
                _ => format!("\\x{byte:02x}"),
            })
            .collect();
        let text = text.strip_suffix("\r\n").unwrap_or(&text);
        lines.extend(text.split("\r\n").map(|line| match line {
            "" => "\\empty".to_owned(),
            line => line.replace('\r', "\\r").replace('\n', "\\n"),
        }));
    }
    lines
}
