//! What a server says when it starts, and the files that it makes: times of the machine's zone, warnings, permissions.

use crate::process::certificates::Certificates;
use crate::process::{self, Process, free_port, program};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A directory for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warmline-started-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn mode(&self, name: &str) -> u32 {
        mode(&self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A server under the usual umask, and with another zone than the machine's; it logs to `server.log` in the folder.
fn start(folder: &Folder, zone: &str, umask: &str, options: &[&str]) -> Process {
    start_at(folder, free_port(), zone, umask, options)
}

fn start_at(folder: &Folder, port: u16, zone: &str, umask: &str, options: &[&str]) -> Process {
    let child: Child = Command::new("sh")
        .args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", umask, &program()])
        .args(["--port", &port.to_string(), "--save", "", "--logfile", "server.log"])
        .args(options)
        .env("TZ", zone)
        .current_dir(&folder.0)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = Process::adopt(child, port);
    let started = Instant::now();
    // Without a pause: what listens later than the port must be found closed.
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(started.elapsed() < process::PATIENCE, "the server does not listen");
        std::thread::yield_now();
    }
    process
}

fn log_of(folder: &Folder) -> String {
    std::fs::read_to_string(folder.0.join("server.log")).unwrap()
}

/// Seconds of the day of the first line.
fn logged_second_of_day(log: &str) -> i64 {
    let time = log.lines().next().unwrap().split(' ').nth(4).unwrap();
    let mut parts = time.split([':', '.']).map(|part| part.parse::<i64>().unwrap());
    let mut next = || parts.next().unwrap();
    next() * 3600 + next() * 60 + next()
}

#[test]
fn times_of_the_log_are_the_machines() {
    let now_s = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    for (zone, offset_s, shown) in
        [("UTC0", 0, "+00:00"), ("IST-5:30", 19_800, "+05:30"), ("NST3:30", -12_600, "-03:30")]
    {
        let folder = Folder::new(zone);
        let process = start(&folder, zone, "022", &[]);
        let ahead_s = (logged_second_of_day(&log_of(&folder)) - now_s - offset_s).rem_euclid(86_400);
        assert!(ahead_s < 120, "{zone}: {ahead_s} s, {}", log_of(&folder));
        let mut client = process.connect();
        client.ask("CONFIG SET log-timestamp-format iso8601");
        // A child logs too.
        client.ask("BGSAVE");
        process::eventually("a line of the child", || log_of(&folder).contains(":C "));
        let log = log_of(&folder);
        let child = log.lines().find(|line| line.contains(":C ")).unwrap();
        assert!(child.split(' ').nth(1).unwrap().ends_with(shown), "{zone}: {child}");
    }
}

#[test]
fn a_file_of_its_own_is_said_to_be() {
    let folder = Folder::new("own");
    let mut process = start(&folder, "UTC0", "022", &[]);
    process.connect().ask("SET key value");
    process.connect().ask("SAVE");
    process.signal(rustix::process::Signal::TERM);
    assert!(process.wait().success());
    let _process = start(&folder, "UTC0", "022", &[]);
    let own = format!("Loading RDB produced by Warmline version {}\n", env!("CARGO_PKG_VERSION"));
    // The port listens before the data is loaded.
    process::eventually("the line", || log_of(&folder).contains(&own));
    assert!(!log_of(&folder).contains("produced by Valkey"), "{}", log_of(&folder));
}

#[test]
fn files_are_not_for_everybody_on_the_machine() {
    for (umask, data, directory, socket) in [("022", 0o640, 0o750, 0o750), ("000", 0o640, 0o750, 0o770)] {
        let folder = Folder::new(umask);
        let acl = folder.write("users.acl", "user default on nopass ~* &* +@all\n");
        let options = ["--appendonly", "yes", "--aclfile", &acl, "--unixsocket", "server.sock"];
        let process = start(&folder, "UTC0", umask, &options);
        let mut client = process.connect();
        client.ask("SET key value");
        assert_eq!(client.ask("SAVE"), "OK");
        for name in ["dump.rdb", "server.log"] {
            assert_eq!(folder.mode(name), data, "{umask} {name}");
        }
        assert_eq!(folder.mode("appendonlydir"), directory, "{umask}");
        let files: Vec<_> = std::fs::read_dir(folder.0.join("appendonlydir")).unwrap().collect();
        assert!(files.len() >= 3);
        for file in files {
            let path = file.unwrap().path();
            assert_eq!(mode(&path), data, "{umask} {}", path.display());
        }
        assert_eq!(folder.mode("server.sock"), socket, "{umask}");
        // Who may read a file that is there, its owner has decided; one that has gone is made for the owner alone.
        std::fs::set_permissions(&acl, PermissionsExt::from_mode(0o640)).unwrap();
        assert_eq!(client.ask("ACL SAVE"), "OK");
        assert_eq!(folder.mode("users.acl"), 0o640);
        std::fs::remove_file(&acl).unwrap();
        assert_eq!(client.ask("ACL SAVE"), "OK");
        assert_eq!(folder.mode("users.acl"), 0o600);
        // Another file of the log is as the first one.
        std::fs::remove_file(folder.0.join("server.log")).unwrap();
        client.ask("BGREWRITEAOF");
        process.eventually_shows("aof_rewrites", "1");
        assert_eq!(folder.mode("server.log"), data, "{umask}");
    }
    let folder = Folder::new("permissions");
    let _process = start(&folder, "UTC0", "022", &["--unixsocket", "server.sock", "--unixsocketperm", "777"]);
    assert_eq!(folder.mode("server.sock"), 0o777);
}

#[test]
fn a_password_that_does_not_apply_is_warned_of() {
    const WARNING: &str = "requirepass has no effect";
    for (users, is_warned) in [
        ("user app on >word ~* +@all\n", true),
        ("user default on nopass ~* &* +@all\n", true),
        ("user default on >word ~* &* +@all\n", false),
    ] {
        let folder = Folder::new("password");
        let acl = folder.write("users.acl", users);
        let process = start(&folder, "UTC0", "022", &["--requirepass", "secret", "--aclfile", &acl]);
        assert_eq!(log_of(&folder).contains(WARNING), is_warned, "{users}");
        assert_eq!(process.connect().ask("PING") == "PONG", is_warned, "{users}");
        let check = Command::new(program())
            .args(["--check-config", "--requirepass", "secret", "--aclfile", &acl])
            .output()
            .unwrap();
        let told = String::from_utf8(check.stderr).unwrap();
        assert_eq!((check.status.success(), told.contains(WARNING)), (true, is_warned), "{told}");
        if !is_warned {
            folder.write("users.acl", "user app on >word ~* +@all\n");
            let mut client = process.connect();
            assert_eq!(client.ask("AUTH word"), "OK");
            client.ask("ACL LOAD");
            assert!(log_of(&folder).contains(WARNING));
        }
    }
}

#[test]
fn memory_that_may_not_be_promised_is_warned_of() {
    let setting = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap();
    let folder = Folder::new("overcommit");
    let _process = start(&folder, "UTC0", "022", &[]);
    let log = log_of(&folder);
    assert_eq!(
        log.contains(" # Memory overcommit must be enabled!"),
        setting.trim() != "1",
        "{setting}{log}"
    );
}

#[test]
fn the_plain_port_listens_last() {
    let certificates = Certificates::new();
    for _ in 0..4 {
        let folder = Folder::new("last");
        let [tls, http] = [free_port(), free_port()];
        let mut options = certificates.options();
        let ports = [tls, http].map(|port| port.to_string());
        let listening = ["--tls-port", &ports[0], "--http-port", &ports[1], "--unixsocket", "server.sock"];
        options.extend(listening.map(str::to_owned));
        let _process = start(&folder, "UTC0", "022", &options.iter().map(String::as_str).collect::<Vec<_>>());
        for port in [tls, http] {
            assert!(TcpStream::connect(("127.0.0.1", port)).is_ok(), "{port}: {}", log_of(&folder));
        }
        assert!(UnixStream::connect(folder.0.join("server.sock")).is_ok(), "{}", log_of(&folder));
    }
}

#[test]
fn a_second_server_leaves_the_first_ones_socket_alone() {
    let folder = Folder::new("second");
    let options = ["--unixsocket", "server.sock"];
    let process = start(&folder, "UTC0", "022", &options);
    let second = Command::new(program())
        .args(["--port", &process.port.to_string(), "--unixsocket", "server.sock"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let error = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{error}");
    let refusal = format!("Could not listen on 0.0.0.0:{}: Address already in use", process.port);
    assert!(error.contains(&refusal), "{error}");
    assert!(UnixStream::connect(folder.0.join("server.sock")).is_ok());
}

/// Waits until the server is ready, and returns its log.
fn ready_log(folder: &Folder) -> String {
    process::eventually("it is ready", || log_of(folder).contains("Ready to accept connections"));
    log_of(folder)
}

#[test]
fn the_log_says_what_is_served() {
    let folder = Folder::new("summary");
    let mut process = start(&folder, "UTC0", "022", &[]);
    let log = ready_log(&folder);
    let (directory, port) = (folder.0.canonicalize().unwrap().display().to_string(), process.port);
    for line in [
        format!("* Warmline {}, with the commands of Valkey 9.1", env!("CARGO_PKG_VERSION")),
        format!("* Listening on 0.0.0.0:{port}"),
        format!("* Directory {directory}, snapshot dump.rdb, no data yet; no snapshots are saved"),
        "* Memory: no limit (maxmemory), ".to_owned(),
        "* I/O threads: 1\n".to_owned(),
        "* Users: no password\n".to_owned(),
    ] {
        assert!(log.contains(&line), "lacks {line:?}:\n{log}");
    }
    assert!(!log.contains("Console:"), "{log}");
    process.connect().ask("SET key value");
    process.connect().ask("SAVE");
    process.signal(rustix::process::Signal::TERM);
    assert!(process.wait().success());
    std::fs::remove_file(folder.0.join("server.log")).unwrap();
    let (http, acl) =
        (free_port(), folder.write("users.acl", "user default on >secret ~* &* +@all\nuser bob on\n"));
    let options = [
        ("--unixsocket", "server.sock"),
        ("--http-port", &http.to_string()),
        ("--maxmemory", "1gb"),
        ("--maxmemory-policy", "allkeys-lru"),
        ("--io-threads", "2"),
        ("--aclfile", &acl),
    ];
    let options: Vec<&str> = options.iter().flat_map(|&(name, value)| [name, value]).collect();
    let process = start(&folder, "UTC0", "022", &options);
    let log = ready_log(&folder);
    let port = process.port;
    for line in [
        format!("* Listening on 0.0.0.0:{port}"),
        format!("; socket server.sock; HTTP 127.0.0.1:{http}"),
        "snapshot dump.rdb, keys: 1, loaded in 0.".to_owned(),
        "* Memory: at most 1.00G (allkeys-lru), ".to_owned(),
        "* I/O threads: 2\n".to_owned(),
        format!("* Users: default has a password, 1 other, ACL file {acl}\n"),
        format!("* Console: http://127.0.0.1:{http}/\n"),
    ] {
        assert!(log.contains(&line), "lacks {line:?}:\n{log}");
    }
}

#[test]
fn access_without_a_password_is_warned_of() {
    const REFUSED: &str = " * Clients of other machines are refused as long as there is no password";
    const SERVED: &str = " # Clients that reach 0.0.0.0:";
    for (options, is_refused, is_served) in [
        (&[][..], true, false),
        (&["--protected-mode", "no"], false, true),
        (&["--protected-mode", "no", "--requirepass", "secret"], false, false),
        (&["--protected-mode", "no", "--bind", "127.0.0.1"], false, false),
    ] {
        let folder = Folder::new("access");
        let _process = start(&folder, "UTC0", "022", options);
        let log = ready_log(&folder);
        let found = (log.contains(REFUSED), log.contains(SERVED));
        assert_eq!(found, (is_refused, is_served), "{options:?}\n{log}");
    }
}

#[test]
fn root_is_warned_of() {
    let folder = Folder::new("root");
    let _process = start(&folder, "UTC0", "022", &[]);
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(log_of(&folder).contains(" # The server runs as root"), is_root);
}

#[test]
fn each_line_of_a_json_log_is_an_object() {
    let folder = Folder::new("json");
    let process =
        start(&folder, "UTC0", "022", &["--log-format", "json", "--log-timestamp-format", "iso8601"]);
    let log = ready_log(&folder);
    for line in log.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        let fields: Vec<&str> = entry.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields.len(), 5, "{line}");
        assert_eq!(entry["pid"], process.pid(), "{line}");
        assert_eq!(entry["role"], "primary", "{line}");
        assert!(entry["timestamp"].as_str().unwrap().ends_with("+00:00"), "{line}");
        assert!(["notice", "warning"].contains(&entry["level"].as_str().unwrap()), "{line}");
    }
    assert!(log.contains("\"message\":\"Ready to accept connections tcp\"}"), "{log}");
}

/// The output of a server that ends as soon as it has loaded its configuration and finds its port taken.
fn output_of_a_start(wrapper: &[&str], environment: (&str, &str)) -> String {
    let taken = process::probe(free_port()).unwrap();
    taken.listen(1).unwrap();
    let port = taken.local_addr().unwrap().as_socket().unwrap().port();
    let command = format!("{} --port {port} --log-format legacy", program());
    let mut words = wrapper.to_vec();
    words.push(&command);
    if wrapper[0] == "script" {
        words.push("/dev/null");
    }
    let output = Command::new(words[0])
        .args(&words[1..])
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .env(environment.0, environment.1)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn only_terminals_show_colors() {
    const TERMINAL: &[&str] = &["script", "-qfec"];
    for (wrapper, environment, has_colors) in [
        (TERMINAL, ("LANG", "C"), true),
        (TERMINAL, ("NO_COLOR", "1"), false),
        (TERMINAL, ("TERM", "dumb"), false),
        (&["sh", "-c"], ("LANG", "C"), false),
    ] {
        let output = output_of_a_start(wrapper, environment);
        assert!(output.contains("Warmline"), "{output}");
        assert_eq!(output.contains('\x1b'), has_colors, "{environment:?}\n{output}");
    }
}
