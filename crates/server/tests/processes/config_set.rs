//! CONFIG SET is all or nothing: whatever of a list of options cannot be had, and wherever in the list it stands, everything
//! is as it was, down to the open sockets. And what can be had works at once.

use crate::process::certificates::{Certificates, TlsProcess, connect};
use crate::process::{self, Client, PATIENCE, encode, eventually, free_port, info};
use server::clock::Clock;
use server::command::args::OwnedArgs;
use server::config::{Change, Config, Flags, OptionId, ProtectedAction, ROWS, Row, SetError, SetOrigin};
use server::engine::{Executor, Seeds};
use server::server::{Identity, NoProcessSettings, PreparedSettings, ProcessSettings};
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use structures::hash::HashSeed;

type Pair = (&'static str, String);

/// A server that listens on 127.0.0.1 for plain connections, TLS and HTTP, and what a client sees of it.
struct Listening {
    server: TlsProcess,
    client: Client<TcpStream>,
    http_port: u16,
}

impl Listening {
    fn start() -> Self {
        let http_port = free_port();
        let certificates = Certificates::new();
        certificates.issue("server2", &[]);
        let port = http_port.to_string();
        let options = ["--bind", "127.0.0.1", "--http-port", &port, "--enable-protected-configs", "yes"];
        let server = TlsProcess::start_with(certificates, &options);
        let client = server.process.connect();
        Listening { server, client, http_port }
    }

    fn set(&mut self, options: &[Pair]) -> String {
        set(&mut self.client, options)
    }

    fn proc(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.server.process.pid()))
    }

    /// Addresses of sockets that listen, and by which each is known to the kernel.
    fn sockets(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.proc("fd")).unwrap().flatten();
        let open: Vec<String> = files
            .filter_map(|file| Some(std::fs::read_link(file.path()).ok()?.display().to_string()))
            .collect();
        let table = std::fs::read_to_string(self.proc("net/tcp")).unwrap();
        let mut sockets: Vec<String> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words[3] == "0A" && open.contains(&format!("socket:[{}]", words[9])))
            .map(|words| format!("{} {}", words[1], words[9]))
            .collect();
        sockets.sort();
        sockets
    }

    /// All that CONFIG SET may change.
    fn state(&mut self) -> Vec<String> {
        assert_eq!(self.server.process.connect().ask("PING"), "PONG");
        assert_eq!(self.server.connect().ask("PING"), "PONG");
        assert!(answers_http(self.http_port));
        let mut state = self.sockets();
        state.push(self.client.ask("CONFIG GET *"));
        state.push(self.client.ask("ACL LIST"));
        state.extend(["tls_server_cert_serial", "aof_enabled"].map(|field| info(&mut self.client, field)));
        state.push(std::fs::read_link(self.proc("cwd")).unwrap().display().to_string());
        state.push(std::fs::read_to_string(self.proc("cmdline")).unwrap());
        state
    }

    fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).unwrap().count()
    }

    /// Whether it has nothing to do.
    fn is_idle(&self) -> bool {
        let ticks = || {
            let line = std::fs::read_to_string(self.proc("stat")).unwrap();
            let fields: Vec<&str> = line.rsplit(") ").next().unwrap().split(' ').collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        let before = ticks();
        std::thread::sleep(Duration::from_millis(500));
        // A hundred a second: a loop that spins takes fifty of them.
        ticks() - before < 20
    }

    fn path(&self, name: &str) -> String {
        self.server.certificates.path(name)
    }
}

fn set(client: &mut Client<TcpStream>, options: &[Pair]) -> String {
    let mut words: Vec<&[u8]> = vec![b"CONFIG", b"SET"];
    words.extend(options.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
    client.send(&words);
    process::shown(&client.receive().unwrap())
}

fn pair(name: &'static str, value: &str) -> Pair {
    (name, value.to_owned())
}

fn answers_http(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut answer = Vec::new();
    let _ = stream.write_all(request).and_then(|()| stream.read_to_end(&mut answer));
    answer.starts_with(b"HTTP/1.1 ")
}

/// Options that the process follows, all of which can be had.
fn possible(listening: &Listening, directory: &str) -> Vec<Pair> {
    let port = || free_port().to_string();
    vec![
        ("port", port()),
        pair("loglevel", "warning"),
        ("tls-port", port()),
        pair("bind", "*"),
        ("http-port", port()),
        pair("requirepass", "secret"),
        pair("dir", directory),
        ("tls-cert-file", listening.path("server2.crt")),
        ("tls-key-file", listening.path("server2.key")),
        pair("proc-title-template", "{title} renamed"),
        pair("log-format", "json"),
        pair("maxmemory-policy", "allkeys-lfu"),
        pair("key-policy", ""),
        pair("appendonly", "yes"),
    ]
}

#[test]
fn what_cannot_be_had_leaves_everything_as_it_was() {
    let mut listening = Listening::start();
    let other = listening.server.certificates.directory.join("other");
    std::fs::create_dir_all(&other).unwrap();
    // In the way of the append-only file.
    let blocks = [other.join("appendonlydir"), listening.server.process.directory.join("appendonlydir")];
    blocks.iter().for_each(|path| std::fs::write(path, "").unwrap());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    let tls_blocker = TcpListener::bind(("127.0.0.2", listening.server.tls_port)).unwrap();
    let plain_blocker = TcpListener::bind(("127.0.0.3", listening.server.process.port)).unwrap();
    let nowhere = listening.path("nowhere");
    let impossible: Vec<Pair> = vec![
        pair("port", &taken),
        pair("tls-port", &taken),
        ("tls-port", listening.server.process.port.to_string()),
        pair("http-port", &taken),
        pair("bind", "203.0.113.1"),
        pair("bind", "127.0.0.1 127.0.0.1"),
        // One of the two ports can be had there.
        pair("bind", "127.0.0.1 127.0.0.2"),
        pair("bind", "127.0.0.1 127.0.0.3"),
        pair("http-bind", "203.0.113.1"),
        pair("http-bind", ""),
        pair("dir", &nowhere),
        pair("maxclients", "2000000000"),
        pair("activedefrag", "yes"),
        pair("rdma-bind", "127.0.0.1"),
        pair("locale-collate", "nosuch"),
        pair("tls-cert-file", &nowhere),
        pair("tls-key-file", &nowhere),
        pair("tls-ca-cert-file", &nowhere),
        pair("tls-protocols", "SSLv3"),
        pair("appendonly", "yes"),
    ];
    let before = listening.state();
    let files = listening.open_files();
    for failing in &impossible {
        let mut others = possible(&listening, other.to_str().unwrap());
        // These make possible what is to fail.
        let frees: &[&str] = match failing.0 {
            "bind" => &["port", "tls-port"],
            "tls-port" => &["port"],
            _ => &[],
        };
        others.retain(|(name, _)| *name != failing.0 && *name != "appendonly" && !frees.contains(name));
        let alone = listening.set(std::slice::from_ref(failing));
        let refusal = format!("ERR CONFIG SET failed (possibly related to argument '{}')", failing.0);
        assert!(alone.starts_with(&refusal), "{failing:?}: {alone}");
        assert_eq!(listening.state(), before, "{failing:?}");
        for place in 0..=others.len() {
            let mut list = others.clone();
            list.insert(place, failing.clone());
            let answer = listening.set(&list);
            assert!(answer.starts_with("ERR CONFIG SET failed"), "{list:?}: {answer}");
            assert_eq!(listening.state(), before, "{list:?}");
        }
    }
    eventually("no file is left open", || listening.open_files() <= files);
    assert!(listening.is_idle());
    drop((tls_blocker, plain_blocker));
    blocks.iter().for_each(|path| std::fs::remove_file(path).unwrap());

    // Without what fails, all of them are put in force.
    let list = possible(&listening, other.to_str().unwrap());
    assert_eq!(listening.set(&list), "OK");
    for (name, value) in &list {
        let shown = listening.client.ask(&format!("CONFIG GET {name}"));
        assert_eq!(shown, format!("[{name} {value}]"));
    }
    let port = |name: &str| list.iter().find(|(other, _)| *other == name).unwrap().1.parse().unwrap();
    let mut plain = Client::new(TcpStream::connect(("127.0.0.1", port("port"))).unwrap());
    assert!(plain.ask("PING").starts_with("NOAUTH"));
    let known = listening.server.certificates.client_config(Some("client"));
    assert!(connect(port("tls-port"), &known).unwrap().ask("PING").starts_with("NOAUTH"));
    assert!(answers_http(port("http-port")) && !answers_http(listening.http_port));
    assert!(TcpStream::connect(("127.0.0.1", listening.server.process.port)).is_err());
    assert_eq!(std::fs::read_link(listening.proc("cwd")).unwrap(), other.canonicalize().unwrap());
    assert!(other.join("appendonlydir").is_dir());
    assert!(listening.is_idle());
}

/// Each change of addresses leaves every socket answered, and the loop with nothing to do.
#[test]
fn sockets_come_and_go_beside_others() {
    let mut listening = Listening::start();
    let (port, tls_port) = (listening.server.process.port, listening.server.tls_port);
    let [port_text, tls_port_text] = [port, tls_port].map(|port| port.to_string());
    let known = listening.server.certificates.client_config(Some("client"));
    let pings = |plain: u16, tls: u16| {
        for _ in 0..3 {
            if plain != 0 {
                let stream = TcpStream::connect(("127.0.0.1", plain)).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                assert_eq!(Client::new(stream).ask("PING"), "PONG");
            }
            if tls != 0 {
                assert_eq!(connect(tls, &known).unwrap().ask("PING"), "PONG");
            }
        }
    };
    let steps: &[(&[(&'static str, &str)], u16, u16)] = &[
        (&[("port", "0")], 0, tls_port),
        (&[("port", &port_text)], port, tls_port),
        (&[("tls-port", "0")], port, 0),
        (&[("tls-port", &tls_port_text)], port, tls_port),
        (&[("bind", "127.0.0.1 127.0.0.2")], port, tls_port),
        (&[("bind", "*")], port, tls_port),
        (&[("port", "0"), ("bind", "127.0.0.1")], 0, tls_port),
        (&[("port", &port_text), ("bind", "* -::*")], port, tls_port),
        (&[("bind", "127.0.0.2 127.0.0.1")], port, tls_port),
        (&[("port", &tls_port_text), ("tls-port", &port_text)], tls_port, port),
        (&[("bind", "*"), ("tls-port", "0")], tls_port, 0),
        (&[("port", &port_text), ("tls-port", &tls_port_text)], port, tls_port),
    ];
    for (options, plain, tls) in steps {
        let options: Vec<Pair> = options.iter().map(|(name, value)| pair(name, value)).collect();
        assert_eq!(listening.set(&options), "OK", "{options:?}");
        pings(*plain, *tls);
        assert!(listening.is_idle(), "{options:?}");
    }
}

/// Clients that wait at an address which is wanted before and after are not lost.
#[test]
fn an_address_that_stays_keeps_its_socket() {
    let mut listening = Listening::start();
    let before = listening.sockets();
    assert_eq!(listening.set(&[pair("bind", "127.0.0.2 127.0.0.1")]), "OK");
    let after = listening.sockets();
    assert!(before.iter().all(|socket| after.contains(socket)), "{before:?} {after:?}");
    assert_eq!(listening.set(&[pair("http-commands", "yes")]), "OK");
    assert_eq!(listening.sockets(), after);
    assert!(answers_http(listening.http_port));
    assert_eq!(listening.set(&[pair("bind", "127.0.0.1")]), "OK");
    assert_eq!(listening.sockets(), before);
}

/// A process that cannot have one of the options.
struct Refusing(Rc<Cell<Option<OptionId>>>);

impl ProcessSettings for Refusing {
    fn prepare(
        &mut self,
        _current: &Config,
        _next: &Config,
        changes: &[Change],
    ) -> Result<Box<dyn PreparedSettings>, SetError> {
        match changes.iter().find(|change| Some(change.option) == self.0.get()) {
            Some(change) => Err(SetError::not_applied(change, "it cannot be had")),
            None => Ok(Box::new(NoProcessSettings)),
        }
    }
}

struct InProcess {
    executor: Executor,
    client: ClientHandle,
    refused: Rc<Cell<Option<OptionId>>>,
}

impl InProcess {
    fn new() -> Self {
        let config = Config { enable_protected_configs: ProtectedAction::Yes, ..Config::default() };
        let identity = Identity {
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            process_id: 1,
            executable: "warmline-server".into(),
            config_file: String::new(),
            started: Default::default(),
        };
        let seeds = Seeds { hash: HashSeed::new(1, 2), random: 3, secret: [4; 32] };
        let mut executor = Executor::new(config, Clock::standing_at(1_767_225_600_000), identity, seeds);
        let refused = Rc::new(Cell::new(None));
        executor.server.process_settings = Box::new(Refusing(Rc::clone(&refused)));
        let client =
            executor.connect(ConnectionFigures { is_loopback: true, ..ConnectionFigures::default() });
        InProcess { executor, client, refused }
    }

    fn ask(&mut self, words: &[&str]) -> String {
        self.executor.begin_tick();
        let mut reply = self.executor.borrow_output(self.client);
        let args = OwnedArgs::new(words.iter().map(|word| word.as_bytes()));
        let request = self.executor.request(args.view());
        self.executor.execute_into(self.client, request, &mut reply);
        self.executor.return_output(self.client, reply);
        self.executor.end_tick();
        let output = self.executor.server.clients[self.client].output.take();
        self.executor.server.clients.with_output.clear();
        self.executor.server.clients[self.client].output_pending = false;
        String::from_utf8_lossy(&output.copy_from(0)).into_owned()
    }

    fn state(&mut self) -> [String; 3] {
        [&["CONFIG", "GET", "*"][..], &["ACL", "LIST"], &["POLICY", "LIST"]].map(|words| self.ask(words))
    }
}

/// Another value than the default for each option that CONFIG SET takes, where one of the usual words is one.
fn changed_options() -> Vec<(OptionId, &'static str, &'static str)> {
    const WORDS: &[&str] = &[
        "yes",
        "no",
        "1",
        "2",
        "0",
        "3",
        "1000",
        "1mb",
        "100000000",
        "word",
        "127.0.0.1",
        "1 2 3",
        "KEA",
        "/tmp",
        "900 1",
        "allkeys-lru",
        "debug",
        "json",
        "iso8601",
        "always",
        "optional",
        "nosave",
        "normal 1 2 3",
        "upstart",
        "k*",
        "local",
        "{title}",
        "disabled",
        "50",
        "CN",
        "",
        "allchannels",
        "::1",
        "best-effort",
        "hostname",
        "panic",
        "relaxed",
        "swapdb",
        "skiplist",
        "cold:* compress-values yes",
        "C",
    ];
    let default = Config { enable_protected_configs: ProtectedAction::Yes, ..Config::default() };
    let origin = SetOrigin { local: true, loading: false };
    let settable = ROWS.iter().filter(|row| !row.flags.has(Flags::IMMUTABLE));
    settable
        .filter_map(|row| {
            let is_change = |word: &&&str| {
                let prepared = default.prepare(&[(row.name.as_bytes(), word.as_bytes())], origin);
                prepared.is_ok_and(|(_, changes)| !changes.is_empty())
            };
            Some((row.id, row.name, *WORDS.iter().find(is_change)?))
        })
        .collect()
}

#[test]
fn every_option_can_fail_at_every_place() {
    let mut world = InProcess::new();
    let options = changed_options();
    let is_missed =
        |row: &&Row| !row.flags.has(Flags::IMMUTABLE) && options.iter().all(|(option, ..)| *option != row.id);
    let missed: Vec<&str> = ROWS.iter().filter(is_missed).map(|row| row.name).collect();
    // No other value of it is accepted.
    assert_eq!(missed, ["rdma-port"], "another value is to be given for these");
    let others =
        [("requirepass", "secret"), ("maxmemory-policy", "allkeys-lfu"), ("save", "60 1"), ("hz", "77")];
    let before = world.state();
    for (option, name, value) in options {
        world.refused.set(Some(option));
        let others: Vec<_> = others.iter().copied().filter(|(other, _)| *other != name).collect();
        for place in 0..=others.len() + 1 {
            // The last round has it alone.
            let mut list = if place > others.len() { Vec::new() } else { others.clone() };
            list.insert(place.min(list.len()), (name, value));
            let mut words = vec!["CONFIG", "SET"];
            words.extend(list.iter().flat_map(|(name, value)| [*name, *value]));
            let answer = world.ask(&words);
            let refusal = format!("-ERR CONFIG SET failed (possibly related to argument '{name}')");
            assert!(answer.starts_with(&refusal), "{words:?}: {answer}");
            assert_eq!(world.state(), before, "{words:?}");
        }
    }
}

/// What is refused is not seen by others in the same pipeline either.
#[test]
fn a_command_behind_a_refused_change_finds_the_old_options() {
    let mut listening = Listening::start();
    let taken = listening.server.tls_port.to_string();
    let requests = [
        encode(&[b"CONFIG", b"SET", b"maxmemory", b"1mb", b"port", taken.as_bytes()]),
        encode(&[b"CONFIG", b"GET", b"maxmemory"]),
    ];
    listening.client.stream.write_all(&requests.concat()).unwrap();
    assert!(process::shown(&listening.client.receive().unwrap()).starts_with("ERR CONFIG SET failed"));
    assert_eq!(process::shown(&listening.client.receive().unwrap()), "[maxmemory 0]");
}
