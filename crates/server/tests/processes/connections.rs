//! Sockets, signals and limits of a real server process.

use crate::process::{self, Client, Process, copy_program, eventually, free_port};
use rustix::process::Signal;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

tests_with_io_threads!(
    sigterm_and_sigint_stop_cleanly,
    shutdown_answers_nothing_and_ends_the_process,
    unix_sockets_are_local_and_have_the_permissions_asked_for,
    several_addresses_are_listened_on,
    one_client_too_many_is_told_so,
    replies_beyond_the_limit_close_the_connection_and_are_not_sent,
    unread_input_has_a_limit,
    idle_clients_are_closed_and_waiting_ones_stay,
    the_largest_clients_go_when_all_together_are_too_large,
    the_last_reply_arrives_although_more_was_sent,
    the_last_reply_arrives_although_no_more_can_be_sent,
    memory_of_idle_connections_is_given_back,
    waiting_clients_that_vanish_cost_nothing,
    a_closing_client_fills_no_memory,
    input_after_urgent_data_is_read,
);

#[test]
fn what_ps_shows_of_the_process_is_what_the_option_says() {
    let server = Process::start(&["--bind", "127.0.0.1"]);
    let shown = || {
        let bytes = std::fs::read(format!("/proc/{}/cmdline", server.pid())).unwrap();
        String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_owned()
    };
    let mut client = server.connect();
    let address = format!("127.0.0.1:{}", server.port);
    assert!(shown().ends_with(&format!(" {address}")), "{}", shown());
    let long = "x".repeat(300);
    for title in [format!("{long} {{port}}"), "{listen-addr}".to_owned()] {
        client.send(&[b"CONFIG", b"SET", b"proc-title-template", title.as_bytes()]);
        assert!(client.receive().is_some());
        let expanded = title.replace("{port}", &server.port.to_string()).replace("{listen-addr}", &address);
        assert_eq!(shown(), expanded);
    }
    // What the title has been written over was moved.
    assert_eq!(client.ask("PING"), "PONG");
}

/// Otherwise a test would take for its server what is left of another test's search for a port.
#[test]
fn nobody_answers_at_a_port_that_is_only_tried() {
    let port = process::free_port();
    let tried = process::probe(port).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    let server = TcpListener::bind(("0.0.0.0", port)).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert!(process::probe(port).is_err(), "somebody listens there");
    drop((tried, server));
}

fn sigterm_and_sigint_stop_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let path = std::env::temp_dir().join(format!("warmline-signal-{}.sock", std::process::id()));
        let mut process = Process::start(&["--unixsocket", path.to_str().unwrap()]);
        let mut client = process.connect();
        assert_eq!(client.ask("SET a 1"), "OK");
        assert!(path.exists());
        process.signal(signal);
        assert!(process.wait().success());
        assert!(client.is_closed_by_server());
        assert!(!path.exists(), "the socket's file is removed");
        assert!(TcpStream::connect(("127.0.0.1", process.port)).is_err());
    }
}

fn shutdown_answers_nothing_and_ends_the_process() {
    let mut process = Process::start(&[]);
    let mut client = process.connect();
    client.send(&[b"SHUTDOWN", b"NOSAVE"]);
    assert!(client.receive().is_none());
    assert!(process.wait().success());
}

fn unix_sockets_are_local_and_have_the_permissions_asked_for() {
    let path = std::env::temp_dir().join(format!("warmline-unix-{}.sock", std::process::id()));
    let name = path.to_str().unwrap();
    let process = Process::start(&["--unixsocket", name, "--unixsocketperm", "700"]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let mut client = Client::new(UnixStream::connect(&path).unwrap());
    let info = client.ask("CLIENT INFO");
    assert!(info.contains(&format!("addr={name}:0 laddr={name}:0")), "{info}");
    assert!(info.contains(" flags=U "), "{info}");
    // A change of the port leaves the path alone.
    let port = process::free_port();
    assert_eq!(client.ask(&format!("CONFIG SET port {port}")), "OK");
    assert!(UnixStream::connect(&path).is_ok());
    assert_eq!(Client::new(TcpStream::connect(("127.0.0.1", port)).unwrap()).ask("PING"), "PONG");
    assert!(TcpStream::connect(("127.0.0.1", process.port)).is_err());
}

fn several_addresses_are_listened_on() {
    let process = Process::start(&["--bind", "127.0.0.1 -::1 127.0.0.2"]);
    for host in ["127.0.0.1", "127.0.0.2"] {
        let mut client = Client::new(TcpStream::connect((host, process.port)).unwrap());
        assert!(client.ask("CLIENT INFO").contains(&format!("laddr={host}:{}", process.port)));
    }
    if let Ok(stream) = TcpStream::connect(("::1", process.port)) {
        let info = Client::new(stream).ask("CLIENT INFO");
        assert!(info.contains(&format!("laddr=[::1]:{}", process.port)), "{info}");
    }
    let mut client = process.connect();
    assert_eq!(
        client.ask("CONFIG SET bind 999.999.999.999"),
        "ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses."
    );
    assert_eq!(process.connect().ask("PING"), "PONG");
}

fn one_client_too_many_is_told_so() {
    let process = Process::start(&["--maxclients", "3"]);
    let mut clients: Vec<_> = (0..3).map(|_| process.connect()).collect();
    // The connection that waited for the server to start may still be closing.
    eventually("three clients are in", || {
        clients.retain_mut(|client| {
            client.stream.write_all(b"PING\r\n").is_ok() && client.receive().is_some_and(|r| !r.is_error())
        });
        while clients.len() < 3 {
            clients.push(process.connect());
        }
        clients.iter_mut().all(|client| client.ask("PING") == "PONG")
    });
    let mut fourth = process.connect();
    assert_eq!(process::shown(&fourth.receive().unwrap()), "ERR max number of clients reached");
    assert!(fourth.is_closed_by_server());
    assert_eq!(clients[0].ask("CONFIG SET maxclients 4"), "OK");
    assert_eq!(process.connect().ask("PING"), "PONG");
}

/// A directory that all may write to, with a copy of the server that all may run; it goes with this.
struct Open(PathBuf);

impl Open {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warmline-connections-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        copy_program(&path.join("server"));
        Open(path)
    }

    /// A server's command line, of a user who cannot have more files than these.
    fn command(&self, files: u32, options: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files} && exec ./server \"$@\""), "server"]);
        command.args(options).current_dir(&self.0).stdout(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        command
    }

    fn start(&self, files: u32, options: &[&str]) -> Process {
        let port = free_port();
        let text = port.to_string();
        let options: Vec<&str> = ["--port", &text].iter().chain(options).copied().collect();
        let process = Process::adopt(self.command(files, &options).spawn().unwrap(), port);
        eventually("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        process
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Clients take no file that the server needs for itself.
#[test]
fn few_files_mean_fewer_clients() {
    let open = Open::new("files");
    for (threads, clients_max) in [("1", 168), ("3", 164)] {
        let options = ["--io-threads", threads, "--io-threads-always-active", "yes", "--save", "1000000 1"];
        let process = open.start(200, &options);
        let mut clients = vec![process.connect()];
        let possible = clients_max.to_string();
        assert_eq!(clients[0].ask("CONFIG GET maxclients"), format!("[maxclients {possible}]"));
        let refusal = clients[0].ask(&format!("CONFIG SET maxclients {}", clients_max + 1));
        assert!(refusal.ends_with(&format!("try with {possible}")), "{refusal}");
        assert_eq!(clients[0].ask(&format!("CONFIG SET maxclients {possible}")), "OK");
        eventually("all clients are in", || {
            let mut client = process.connect();
            match client.ask("PING").as_str() {
                "PONG" => clients.push(client),
                refusal => assert_eq!(refusal, "ERR max number of clients reached"),
            }
            clients.len() == clients_max
        });
        let mut beyond = process.connect();
        assert_eq!(process::shown(&beyond.receive().unwrap()), "ERR max number of clients reached");
        assert_eq!(clients[0].ask("SET key value"), "OK");
        assert_eq!(clients[0].ask("CONFIG SET appendonly yes"), "OK");
        for (command, under_way, outcome) in [
            ("BGSAVE", "rdb_bgsave_in_progress", "rdb_last_bgsave_status"),
            ("BGREWRITEAOF", "aof_rewrite_in_progress", "aof_last_bgrewrite_status"),
        ] {
            let settled = |client: &mut Client<TcpStream>| {
                ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"]
                    .iter()
                    .all(|field| process::info(client, field) == "0")
            };
            eventually("no child is there", || settled(&mut clients[0]));
            let started = clients[0].ask(command);
            assert!(started.contains("started"), "{command}: {started}");
            eventually(command, || process::info(&mut clients[0], under_way) == "0");
            assert_eq!(process::info(&mut clients[0], outcome), "ok", "{command}");
        }
        assert_eq!(clients[clients_max - 1].ask("GET key"), "value");
        drop(process);
        remove_data(&open.0);
    }
    let output = open.command(32, &["--port", &free_port().to_string()]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && told.contains("Your current 'ulimit -n' of 32 is not enough"),
        "{told}"
    );
}

/// What takes the files is named, and what can be done about it.
#[test]
fn files_that_http_takes_are_named() {
    let open = Open::new("http");
    let http_port = free_port().to_string();
    let options = ["--port", &free_port().to_string(), "--http-port", &http_port, "--save", ""];
    let output = open.command(200, &options).output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (
            Some(1),
            "Your current 'ulimit -n' of 200 is not enough for the server to start: it needs 256 open files itself (32 in any case, 224 for http-port) and one for each client. Please increase your open file limit to more than 256, or to 10256 for all clients of maxclients, or turn http-port off. Exiting.\n"
        )
    );
    for (files, needed, advice) in [(200, 424, ""), (300, 524, ", or set maxclients to 44 or less")] {
        let process = open.start(files, &["--save", ""]);
        let mut client = process.connect();
        assert_eq!(
            client.ask(&format!("CONFIG SET http-port {http_port}")),
            format!(
                "ERR CONFIG SET failed (possibly related to argument 'http-port') - http-port needs more open files than the operating system permits: {needed} (32 in any case, 224 for http-port, and one for each client of maxclients), not {files}. Increase the open file limit ('ulimit -n'){advice}"
            )
        );
        if files == 300 {
            assert_eq!(client.ask(&format!("CONFIG SET maxclients 44 http-port {http_port}")), "OK");
        }
    }
}

fn remove_data(directory: &Path) {
    let _ = std::fs::remove_file(directory.join("dump.rdb"));
    let _ = std::fs::remove_dir_all(directory.join("appendonlydir"));
}

fn replies_beyond_the_limit_close_the_connection_and_are_not_sent() {
    let process = Process::start(&["--client-output-buffer-limit", "normal 1mb 0 0"]);
    let mut control = process.connect();
    let value = "v".repeat(100_000);
    assert_eq!(control.ask(&format!("SET k {value}")), "OK");
    // One pipeline whose replies are more than the limit, before any is written.
    let mut client = process.connect();
    let pipeline = "GET k\r\n".repeat(50);
    client.stream.write_all(pipeline.as_bytes()).unwrap();
    assert!(client.receive().is_none());
    // Replies that a number in the request makes as long as one likes.
    let member = "m".repeat(50_000);
    control.ask(&format!("HSET hash {member} value"));
    control.ask(&format!("SADD set {member}"));
    control.ask(&format!("ZADD zset 1 {member}"));
    for command in ["HRANDFIELD hash", "SRANDMEMBER set", "ZRANDMEMBER zset"] {
        let mut client = process.connect();
        client.stream.write_all(format!("{command} -1000000\r\n").as_bytes()).unwrap();
        assert!(client.receive().is_none(), "{command}");
    }
    // A client that does not read while others publish to it.
    assert_eq!(
        control.ask("CONFIG SET client-output-buffer-limit pubsub 1mb 0 0").split(' ').next(),
        Some("ERR")
    );
    control.send(&[b"CONFIG", b"SET", b"client-output-buffer-limit", b"pubsub 1mb 0 0"]);
    assert_eq!(process::shown(&control.receive().unwrap()), "OK");
    let mut subscriber = process.connect();
    assert_eq!(subscriber.ask("SUBSCRIBE c"), "[subscribe c 1]");
    eventually("the subscriber is closed", || control.ask(&format!("PUBLISH c {value}")) == "0");
    assert!(subscriber.is_closed_by_server());
    let info = control.ask("INFO stats");
    assert!(info.contains("client_output_buffer_limit_disconnections:5"), "{info}");
}

fn unread_input_has_a_limit() {
    let process = Process::start(&["--client-query-buffer-limit", "1mb"]);
    let mut client = process.connect();
    // More than the limit, and the command is not whole: the server closes before it has read all.
    let _ = client
        .stream
        .write_all(format!("*2\r\n$4\r\nECHO\r\n$3000000\r\n{}", "x".repeat(2_900_000)).as_bytes());
    assert!(client.is_closed_by_server());
    // What MULTI has queued counts as well.
    let mut client = process.connect();
    assert_eq!(client.ask("MULTI"), "OK");
    let value = "v".repeat(400_000);
    client.stream.write_all(format!("SET a {value}\r\n").repeat(4).as_bytes()).ok();
    assert!(client.is_closed_by_server());
    assert_eq!(process.connect().ask("PING"), "PONG");
}

fn idle_clients_are_closed_and_waiting_ones_stay() {
    let process = Process::start(&["--timeout", "1"]);
    let mut idle = process.connect();
    assert_eq!(idle.ask("PING"), "PONG");
    let mut subscriber = process.connect();
    assert_eq!(subscriber.ask("SUBSCRIBE c"), "[subscribe c 1]");
    assert!(idle.is_closed_by_server());
    assert_eq!(subscriber.ask("PING"), "[pong ]");
}

fn the_largest_clients_go_when_all_together_are_too_large() {
    let process = Process::start(&["--maxmemory-clients", "4mb"]);
    let mut control = process.connect();
    assert_eq!(control.ask("CLIENT NO-EVICT ON"), "OK");
    let mut small = process.connect();
    small.stream.write_all(format!("*1\r\n$900000\r\n{}", "x".repeat(800_000)).as_bytes()).unwrap();
    let mut large = process.connect();
    let _ = large.stream.write_all(format!("*1\r\n$6000000\r\n{}", "x".repeat(5_000_000)).as_bytes());
    assert!(large.is_closed_by_server());
    assert_eq!(control.ask("CLIENT LIST").lines().count(), 2);
    assert!(control.ask("INFO stats").contains("evicted_clients:1"));
    // An exempt client holds more than the limit: each new client is evicted, and counted once.
    let mut exempt = process.connect();
    exempt.send(&[b"CLIENT", b"NO-EVICT", b"ON"]);
    exempt.receive();
    let _ = exempt.stream.write_all(format!("*1\r\n$6000000\r\n{}", "x".repeat(5_000_000)).as_bytes());
    assert!(small.is_closed_by_server());
    // The small one may go while the server has yet to read all that makes the exempt one too large by itself.
    eventually("nobody else may come", || process.connect().try_ask(&[b"PING"]).is_none());
    let before: u64 = process::info(&mut control, "evicted_clients").parse().unwrap();
    for evicted in before + 1..before + 48 {
        let mut late = process.connect();
        assert_eq!(late.try_ask(&[b"PING"]), None);
        assert!(control.ask("INFO stats").contains(&format!("evicted_clients:{evicted}\r\n")));
    }
}

fn the_last_reply_arrives_although_more_was_sent() {
    let process = Process::start(&[]);
    let mut client = process.connect();
    client.stream.write_all(b"QUIT\r\n").unwrap();
    let _ = client.stream.write_all(&[b'x'; 100_000]);
    assert_eq!(process::shown(&client.receive().unwrap()), "OK");
    assert!(client.is_closed_by_server());
}

/// A client that sends QUIT and then shuts its direction down still gets all replies.
fn the_last_reply_arrives_although_no_more_can_be_sent() {
    let process = Process::start(&[]);
    let mut control = process.connect();
    control.ask(&format!("SET k {}", "v".repeat(1_000_000)));
    let mut client = process.connect();
    client.stream.write_all("GET k\r\n".repeat(50).as_bytes()).unwrap();
    client.stream.write_all(b"QUIT\r\n").unwrap();
    eventually("the last request has run", || control.ask("CLIENT LIST").contains("cmd=quit"));
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    // The server has read the end before its peer takes the replies.
    std::thread::sleep(Duration::from_millis(100));
    assert!(control.ask("CLIENT LIST").contains("cmd=quit"));
    for _ in 0..50 {
        assert_eq!(process::shown(&client.receive().unwrap()).len(), 1_000_000);
    }
    assert_eq!(process::shown(&client.receive().unwrap()), "OK");
    assert!(client.is_closed_by_server());
}

/// A read stops at TCP urgent data, and no event reports the input behind it.
fn input_after_urgent_data_is_read() {
    let process = Process::start(&["--enable-debug-command", "local"]);
    let mut client = process.connect();
    assert_eq!(client.ask("PING"), "PONG");
    let mut other = process.connect();
    other.send(&[b"DEBUG", b"SLEEP", b"0.2"]);
    std::thread::sleep(Duration::from_millis(50));
    // All of it has arrived when the server reads.
    client.stream.write_all(b"PING first\r\n").unwrap();
    rustix::net::send(&client.stream, b"!", rustix::net::SendFlags::OOB).unwrap();
    client.stream.write_all(b"PING second\r\n").unwrap();
    for reply in ["first", "second"] {
        assert_eq!(process::shown(&client.receive().unwrap()), reply);
    }
}

fn memory_of_idle_connections_is_given_back() {
    let process = Process::start(&[]);
    let mut clients: Vec<_> = (0..50).map(|_| process.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("ECHO hello"), "hello");
    }
    let list = clients[0].ask("CLIENT LIST");
    let memory: Vec<u64> = list
        .lines()
        .filter_map(|line| line.split(" tot-mem=").nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(memory.len(), 50);
    assert!(memory.iter().all(|&bytes| bytes < 4096), "{memory:?}");
}

/// Processor time of the process so far, in hundredths of a second.
fn busy_ticks(process: &Process) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Closes a connection as a peer does that has died: with a reset.
fn reset(client: Client<TcpStream>) {
    rustix::net::sockopt::set_socket_linger(&client.stream, Some(std::time::Duration::ZERO)).unwrap();
}

fn waiting_clients_that_vanish_cost_nothing() {
    let process = Process::start(&["--busy-reply-threshold", "20"]);
    let mut control = process.connect();
    // More than is read of a client that waits.
    let behind = "PING\r\n".repeat(400_000);
    let waits: [(&[&str], &str); 5] = [
        (&[], "BLPOP k 0"),
        (&["MULTI", "PING", "EXEC"], "BLPOP k 0"),
        (&["CLIENT REPLY OFF"], "XREAD BLOCK 0 STREAMS s $"),
        (&["CLIENT TRACKING ON", "HELLO 3"], "WAIT 1 0"),
        (&[], "SET k v"),
    ];
    for half_closed in [false, true] {
        for (before, waiting) in waits {
            if waiting.starts_with("SET") {
                assert_eq!(control.ask("CLIENT PAUSE 60000 WRITE"), "OK");
            }
            let mut client = process.connect();
            before
                .iter()
                .for_each(|line| client.send(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
            client.stream.write_all(format!("{waiting}\r\n").as_bytes()).unwrap();
            eventually("a client that waits", || {
                let clients = control.ask("INFO clients");
                clients.contains("blocked_clients:1\r\n")
            });
            client.stream.set_nonblocking(true).unwrap();
            // An end is seen behind what is sent before it, and a reset at once.
            let sent = if half_closed { 10_000 } else { behind.len() };
            let _ = client.stream.write_all(&behind.as_bytes()[..sent]);
            std::thread::sleep(std::time::Duration::from_millis(50));
            match half_closed {
                true => client.stream.shutdown(std::net::Shutdown::Write).unwrap(),
                false => reset(client),
            }
            eventually("the client is gone", || control.ask("CLIENT LIST").lines().count() == 1);
            assert_eq!(control.ask("CLIENT UNPAUSE"), "OK");
        }
    }
    let before = busy_ticks(&process);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(busy_ticks(&process) - before < 25, "nobody is there, and the process is busy");
}

fn a_closing_client_fills_no_memory() {
    let process = Process::start(&[]);
    let mut control = process.connect();
    control.ask(&format!("SET k {}", "v".repeat(1_000_000)));
    let mut client = process.connect();
    // It does not read, so that the last reply waits; what it sends is of no interest to anybody.
    client.stream.write_all("GET k\r\n".repeat(50).as_bytes()).unwrap();
    client.stream.write_all(b"QUIT\r\n").unwrap();
    eventually("the last request has run", || control.ask("CLIENT LIST").contains("cmd=quit"));
    client.stream.set_nonblocking(true).unwrap();
    let garbage = vec![b'x'; 1 << 20];
    let started = std::time::Instant::now();
    while started.elapsed() < std::time::Duration::from_millis(300) {
        let _ = client.stream.write(&garbage);
    }
    let list = control.ask("CLIENT LIST");
    let line = list.lines().find(|line| line.contains("cmd=quit"));
    let line = line.unwrap_or_else(|| panic!("it has gone: {list}"));
    let held: u64 = line.split(" qbuf=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(held < 1 << 20, "{line}");
    client.stream.set_nonblocking(false).unwrap();
    for _ in 0..50 {
        assert_eq!(process::shown(&client.receive().unwrap()).len(), 1_000_000);
    }
    assert_eq!(process::shown(&client.receive().unwrap()), "OK");
    assert!(client.is_closed_by_server());
}

#[test]
fn commands_of_a_file_run_for_nobody_that_others_could_close() {
    for threads in ["1", "2"] {
        let process = Process::start(&[
            "--appendonly",
            "yes",
            "--enable-debug-command",
            "yes",
            "--io-threads",
            threads,
        ]);
        let mut control = process.connect();
        let mut sender = process.connect();
        let requests: String = (0..300_000).map(|i| format!("SET key:{i} value\r\n")).collect();
        sender.stream.write_all(requests.as_bytes()).unwrap();
        (0..300_000).for_each(|_| assert!(!sender.receive().unwrap().is_error()));
        control.send(&[b"CONFIG", b"SET", b"appendfsync", b"no"]);
        control.receive().unwrap();
        let mut loader = process.connect();
        loader.send(&[b"DEBUG", b"LOADAOF"]);
        eventually("the data is being loaded", || control.ask("GET key:0").starts_with("LOADING"));
        assert_eq!(control.ask("CLIENT LIST").lines().count(), 3);
        assert!(control.ask("INFO clients").contains("connected_clients:3\r\n"));
        assert_eq!(control.ask("CLIENT KILL TYPE normal"), "2");
        assert!(loader.is_closed_by_server());
        eventually("all is loaded", || control.ask("DBSIZE") == "300000");
        assert_eq!(control.ask("CLIENT LIST").lines().count(), 1);
    }
}

#[test]
fn a_client_that_closes_behind_its_blocking_command_does_not_wait() {
    for threads in ["1", "2"] {
        let server = Process::start(&["--io-threads", threads]);
        let mut other = server.connect();
        for _ in 0..50 {
            server.connect().send(&[b"BLPOP", b"k", b"0"]);
        }
        eventually("nobody waits", || {
            let clients = other.ask("INFO clients");
            clients.contains("connected_clients:1\r\n") && clients.contains("blocked_clients:0\r\n")
        });
    }
}
