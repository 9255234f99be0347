//! What the server answers over HTTP: metrics, health and readiness, to those who may know and to those who mean no good.

use crate::process::{self, PATIENCE, Process, eventually, free_port, info};
use std::io::{Read, Write};
use std::net::TcpStream;

tests_with_io_threads!(
    each_number_of_info_is_a_metric,
    who_may_not_ask_is_told_so,
    many_connections_keep_nobody_from_the_data,
);

/// A server that answers HTTP, and at which port.
fn start(options: &[&str]) -> (Process, u16) {
    let port = free_port();
    let text = port.to_string();
    let options: Vec<&str> = ["--http-port", &text].iter().chain(options).copied().collect();
    (Process::start(&options), port)
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All that comes back until the connection ends: the number of the status, the headers in lower case, and the body.
fn exchange(port: u16, request: &str) -> (u16, String, String) {
    let mut stream = connect(port);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A server that has not read everything may end a connection with an error.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn get(port: u16, path: &str, headers: &str) -> (u16, String, String) {
    exchange(
        port,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{headers}\r\n"),
    )
}

fn each_number_of_info_is_a_metric() {
    let (process, port) = start(&["--appendonly", "yes"]);
    let mut client = process.connect();
    client.ask("SET key value EX 1000");
    client.ask("GET nothing");
    client.ask("INCR key");
    let info = client.ask("INFO everything");
    let (status, head, text) = get(port, "/metrics", "");
    assert_eq!(status, 200, "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let names: std::collections::BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split([' ', '{']).next().unwrap())
        .collect();
    let mut measures = 0;
    for (field, value) in info.lines().filter_map(|line| line.trim().split_once(':')) {
        if !web::is_measure(field, value) {
            // Whatever else looks like a number only names something.
            let naming = [
                "redis_git_",
                "redis_build_id",
                "arch_bits",
                "tcp_port",
                "uptime_in_days",
                "lru_clock",
                "run_id",
                "master_replid",
            ];
            let is_name = naming.iter().any(|name| field.starts_with(name));
            assert!(is_name || value.parse::<f64>().is_err(), "{field}:{value}");
            continue;
        }
        measures += 1;
        // There is no certificate, no snapshot, no second history.
        if value == "-1" || field.ends_with("_cert_expires_in_seconds") {
            let name = web::metric_of(field);
            assert!(!names.contains(name.as_str()), "{field}: {name}");
            continue;
        }
        let name = web::metric_of(field);
        assert!(
            names.contains(name.as_str()) || names.contains(format!("{name}_total").as_str()),
            "{field}: {name}"
        );
    }
    assert!(measures > 180, "{measures}");
    for line in [
        "redis_up 1.0\n",
        "redis_db_keys{db=\"db0\"} 1.0\n",
        "redis_commands_total{cmd=\"set\"} 1.0\n",
        "warmline_command_failed_calls_total{cmd=\"incr\"} 1.0\n",
        "warmline_errors_total{err=\"ERR\"} 1.0\n",
        "warmline_command_duration_seconds_count{cmd=\"get\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let openmetrics = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let (status, head, text) = get(port, "/metrics", openmetrics);
    assert_eq!((status, text.ends_with("# EOF\n")), (200, true));
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
}

fn who_may_not_ask_is_told_so() {
    let (process, port) = start(&["--requirepass", "secret"]);
    let mut client = process.connect();
    client.ask("AUTH secret");
    client.ask("ACL SETUSER scraper on >word +info");
    client.ask("ACL SETUSER blind on >word -@all +ping");
    let status = |headers: &str| get(port, "/metrics", headers).0;
    assert_eq!(status(""), 401);
    assert_eq!(status("Authorization: Bearer wrong\r\n"), 401);
    assert_eq!(status("Authorization: Digest x\r\n"), 401);
    assert_eq!(status("Authorization: Bearer secret\r\n"), 200);
    // :secret
    assert_eq!(status("Authorization: Basic OnNlY3JldA==\r\n"), 200);
    let (status, _, text) = get(port, "/metrics", "Authorization: Bearer scraper:word\r\n");
    assert_eq!(status, 200);
    assert!(text.contains("redis_commands_total{cmd=\"info\"}"), "{text}");
    assert!(
        !text.contains("warmline_command_duration_seconds") && !text.contains("redis_slowlog_length"),
        "{text}"
    );
    let (status, _, text) = get(port, "/metrics", "Authorization: Bearer blind:word\r\n");
    assert_eq!((status, text.starts_with("NOPERM")), (403, true), "{text}");
    let (_, head, _) = get(port, "/metrics", "");
    assert!(head.contains("www-authenticate: basic realm="), "{head}");
    // These say nothing that is secret.
    assert_eq!(get(port, "/health", "").0, 200);
    eventually("the server is ready", || get(port, "/ready", "").0 == 200);
    assert!(client.ask("ACL LOG").contains("AUTH"), "a wrong password over HTTP is logged as any other");
}

#[test]
fn other_hosts_sites_methods_and_paths_are_refused() {
    let (_process, port) = start(&["--http-hosts", "metrics.example", "--requirepass", "x"]);
    let asked = |host: &str| {
        exchange(port, &format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).0
    };
    for host in ["localhost", "127.0.0.1:1", "[::1]", "metrics.example", "METRICS.example:9121"] {
        assert_eq!(asked(host), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "", "metrics.example.", "localhost:x"] {
        assert_eq!(asked(host), 421, "{host}");
    }
    assert_eq!(exchange(port, "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n").0, 421);
    assert_eq!(get(port, "/health", "Origin: http://evil.example\r\n").0, 403);
    assert_eq!(get(port, "/health", &format!("Origin: http://localhost:{port}\r\n")).0, 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let request = format!(
            "{method} /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        let (status, head, _) = exchange(port, &request);
        assert_eq!((status, head.contains("allow: get, head")), (405, true), "{head}");
    }
    let (status, head, body) =
        exchange(port, "HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!((status, body.as_str()), (200, ""), "{head}");
    for path in [
        "/console/",
        "/console/../main.js",
        "/api",
        "/api/",
        "/metrics/",
        "//metrics",
        "/../etc/passwd",
        "/%6detrics",
    ] {
        let (status, head, _) = get(port, path, "");
        assert_eq!(status, 404, "{path}");
        for header in
            ["cache-control: no-store", "x-content-type-options: nosniff", "content-security-policy:"]
        {
            assert!(head.contains(header), "{head}");
        }
        assert!(!head.contains("access-control"), "{head}");
    }
}

#[test]
fn bytes_that_are_no_request_end_their_connection() {
    let (process, port) = start(&[]);
    for bytes in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\r\n\r\n\r\n\r\nx\r\n\r\n",
    ] {
        let (status, _, _) = exchange(port, bytes);
        assert!(matches!(status, 0 | 400), "{bytes:?}: {status}");
    }
    let headers = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(matches!(exchange(port, &headers).0, 0 | 431));
    let many = "A: b\r\n".repeat(1000);
    assert!(matches!(
        exchange(port, &format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")).0,
        0 | 431
    ));
    // A body is not waited for.
    let long = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\nxx";
    assert_eq!(exchange(port, long).0, 405);
    assert_eq!(process.connect().ask("PING"), "PONG");
    assert_eq!(get(port, "/health", "").0, 200);
}

fn many_connections_keep_nobody_from_the_data() {
    let (process, port) = start(&["--maxclients", "2"]);
    // The one who found out that the server listens may be there still.
    let admitted = || {
        let mut client = process.connect();
        let is_admitted = matches!(client.try_ask(&[b"PING"]), Some(wire::response::Value::Simple(_)));
        is_admitted.then_some(client)
    };
    let mut clients = Vec::new();
    eventually("two clients are there", || {
        clients.extend(admitted());
        clients.len() == 2
    });
    // Clients have used up what they may; who asks how that is gets an answer.
    let client = &mut clients[0];
    assert!(admitted().is_none());
    assert_eq!(get(port, "/metrics", "").0, 200);
    let idle: Vec<TcpStream> = (0..300).map(|_| connect(port)).collect();
    let mut half = connect(port);
    let _ = half.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc");
    for _ in 0..100 {
        assert_eq!(client.ask("PING"), "PONG");
    }
    // At most this number stays open; more are closed at once.
    let closed = idle.iter().filter(|stream| {
        stream.set_read_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
        matches!((&**stream).read(&mut [0]), Ok(0))
    });
    assert!(closed.count() >= 300 - 64);
    drop((idle, half));
    eventually("there is room again", || get(port, "/health", "").0 == 200);
    eventually("nobody of them is left", || client.ask("CLIENT LIST").lines().count() == 2);
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let (_process, port) = start(&[]);
    let mut stream = connect(port);
    for _ in 0..3 {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"ok\n") {
            let mut piece = [0; 1000];
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0);
            answer.extend_from_slice(&piece[..count]);
        }
    }
}

#[test]
fn a_replica_without_its_primary_is_not_ready() {
    let dead = free_port().to_string();
    let (process, port) = start(&["--replicaof", "127.0.0.1", &dead]);
    eventually("the link is down", || get(port, "/ready", "").2.contains("the link to the primary is down"));
    assert_eq!(get(port, "/ready", "").0, 503);
    assert_eq!(get(port, "/health", "").0, 200);
    let (_, _, text) = get(port, "/metrics", "");
    assert!(
        text.contains(&format!(
            "redis_master_link_up{{master_host=\"127.0.0.1\",master_port=\"{dead}\"}} 0.0\n"
        )),
        "{text}"
    );
    assert_eq!(process.connect().ask("REPLICAOF NO ONE"), "OK");
    eventually("it is ready", || get(port, "/ready", "").0 == 200);
}

#[test]
fn a_server_that_refuses_writes_is_not_ready() {
    let (process, port) = start(&["--save", "3600 1"]);
    eventually("it is ready", || get(port, "/ready", "").0 == 200);
    let mut client = process.connect();
    // Its directory goes: nothing can be saved there.
    std::fs::remove_dir_all(&process.directory).unwrap();
    client.ask("SET key value");
    client.ask("BGSAVE");
    eventually("saving has failed", || get(port, "/ready", "").2.contains("writes are refused"));
    std::fs::create_dir_all(&process.directory).unwrap();
}

#[test]
fn a_server_that_saves_before_it_ends_is_not_ready() {
    let (process, port) = start(&["--save", "3600 1000000", "--rdb-key-save-delay", "1000"]);
    eventually("it is ready", || get(port, "/ready", "").0 == 200);
    let mut client = process.connect();
    client.send(&[b"EVAL", b"for i = 1, 3000 do redis.call('SET', i, i) end", b"0"]);
    client.receive().unwrap();
    client.send(&[b"SHUTDOWN", b"SAVE"]);
    eventually("it says so while it saves", || get(port, "/ready", "").2.contains("stopping"));
    assert!(client.is_closed_by_server());
}

#[test]
fn a_script_that_does_not_end_is_told() {
    let (process, port) = start(&["--busy-reply-threshold", "50"]);
    let mut client = process.connect();
    client.send(&[b"EVAL", b"while true do end", b"0"]);
    eventually("it is busy", || get(port, "/ready", "").2.contains("busy with a script"));
    assert_eq!(get(port, "/health", "").0, 200);
    let (status, _, text) = get(port, "/metrics", "");
    assert_eq!((status, text.starts_with("BUSY")), (503, true), "{text}");
    assert_eq!(process.connect().ask("SCRIPT KILL"), "OK");
    eventually("it is ready", || get(port, "/ready", "").0 == 200);
    assert_eq!(get(port, "/metrics", "").0, 200);
}

/// What was handed to a thread and came back unsent is counted once, whatever is reset meanwhile.
#[test]
fn counted_output_never_falls() {
    let (process, port) = start(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    let mut client = process.connect();
    client.ask(&format!("SET key {}", "v".repeat(1_000_000)));
    client.ask("SETRANGE key 20000000 x");
    let mut readers: Vec<_> = (0..4).map(|_| process.connect()).collect();
    for reader in &mut readers {
        reader.send(&[b"GET", b"key"]);
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    client.ask("CONFIG RESETSTAT");
    client.ask("CONFIG SET io-threads 1");
    let mut before = 0.0;
    for reader in &mut readers {
        let (_, _, text) = get(port, "/metrics", "");
        let line =
            text.lines().find(|line| line.starts_with("warmline_network_output_bytes_total ")).unwrap();
        let now: f64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!((before..1e9).contains(&now), "{now} after {before}");
        before = now;
        assert_eq!(process::shown(&reader.receive().unwrap()).len(), 20_000_001);
    }
}

/// Clients, peers and options name things; no name makes a line of its own where each line is a statement of the server.
#[test]
fn names_make_no_lines_of_their_own() {
    let (process, port) = start(&["--logfile", "log", "--latency-tracking", "yes"]);
    let mut client = process.connect();
    let mut ask = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        client.send(&words);
        process::shown(&client.receive().unwrap())
    };
    let lines = ["a\r\nused_memory:1", "a\nconnected_clients:7", "a\rconnected_clients:7", "a\u{1b}[2Jb"];
    let script = "redis.log(redis.LOG_WARNING, ARGV[1]) return redis.error_reply(ARGV[1] .. ' x')";
    for host in ["a b", "a,state=online,offset=1"].into_iter().chain(lines) {
        for words in [
            &["REPLCONF", "ip-address", host][..],
            &["REPLICAOF", host, "1"],
            &["SLAVEOF", host, "1"],
            &["CONFIG", "SET", "replica-announce-ip", host],
        ] {
            let refusal = ask(words);
            assert!(refusal.starts_with("ERR "), "{words:?}: {refusal}");
        }
    }
    for line in lines {
        for words in [
            &["CONFIG", "SET", "availability-zone", line][..],
            &["CLIENT", "SETNAME", line],
            &["CLIENT", "SETINFO", "LIB-NAME", line],
            &["CLIENT", "SETINFO", "LIB-VER", line],
            &["HELLO", "2", "SETNAME", line],
            &["FUNCTION", "LOAD", &format!("#!lua name={line}\nreturn 1")],
            &["FUNCTION", "DELETE", line],
            &["MEMORY", line],
            &[line, "x"],
            &["AUTH", line, line],
            &["EVAL", script, "0", line],
        ] {
            let refusal = ask(words);
            assert!(!refusal.contains(['\r', '\n']), "{words:?}: {refusal}");
            assert!(!matches!(refusal.as_str(), "OK" | "1"), "{words:?}");
        }
        // Users may be called many things, but what they are called is one word of one line.
        ask(&["ACL", "SETUSER", line, "on", "nopass", "+@all", "~*"]);
        ask(&["CONFIG", "SET", "memory-prefixes", line]);
        ask(&["LATENCY", "HISTOGRAM", line]);
    }
    let listed = ask(&["CLIENT", "LIST"]);
    assert!(listed.lines().all(|line| line.starts_with("id=")), "{listed}");
    let users = ask(&["ACL", "LIST"]);
    assert!(users.trim_matches(['[', ']']).lines().count() == 1, "{users}");
    let info = ask(&["INFO", "everything"]);
    let mut fields = std::collections::BTreeSet::new();
    for line in info.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        let field = line.split_once(':').unwrap_or_else(|| panic!("{line}")).0;
        assert!(fields.insert(field) && !line.contains(|c: char| c.is_control()), "{line}");
    }
    let (_, _, text) = get(port, "/metrics", "");
    let mut samples = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, number) = line.rsplit_once(' ').unwrap();
        assert!(samples.insert(sample) && number.parse::<f64>().is_ok(), "{line}");
    }
    let log = std::fs::read_to_string(process.directory.join("log")).unwrap();
    assert!(log.contains("used_memory:1") && !log.contains(['\r', '\u{1b}']), "{log}");
    assert!(log.lines().all(|line| line.starts_with("  ") || line.contains(":M ")), "{log}");
}

#[test]
fn files_for_connections_over_http_are_counted() {
    let (process, port) = start(&["--maxclients", "100"]);
    let mut client = process.connect();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(soft >= 100 + 32 + 3 * 64, "{soft}");
    let _idle: Vec<TcpStream> = (0..64).map(|_| connect(port)).collect();
    assert_eq!(client.ask("SAVE"), "OK");
}

#[test]
fn the_process_ends_with_connections_open() {
    let (mut process, port) = start(&[]);
    let _idle = connect(port);
    let mut half = connect(port);
    half.write_all(b"GET /metrics HT").unwrap();
    let mut client = process.connect();
    client.send(&[b"SHUTDOWN", b"NOSAVE"]);
    assert!(client.is_closed_by_server());
    assert!(process.wait().success());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn options_change_at_any_time() {
    let process = Process::start(&["--http-port", "0"]);
    let mut client = process.connect();
    let (first, second) = (free_port(), free_port());
    assert_eq!(client.ask(&format!("CONFIG SET http-port {first}")), "OK");
    assert_eq!(get(first, "/health", "").0, 200);
    let mut idle = connect(first);
    // Somebody else has the port: all stays as it was.
    let taken = std::net::TcpListener::bind(("127.0.0.1", second)).unwrap();
    let refusal = client.ask(&format!("CONFIG SET http-hosts other http-port {second}"));
    assert!(refusal.ends_with("Unable to listen on this port. Check server logs."), "{refusal}");
    assert_eq!(get(first, "/health", "").0, 200);
    assert_eq!(
        client.ask("CONFIG GET http-*"),
        format!("[http-bind 127.0.0.1 -::1 http-commands no http-hosts  http-port {first} http-tls no]")
    );
    // There are no certificates.
    let refusal = client.ask("CONFIG SET http-tls yes");
    assert!(refusal.ends_with("Unable to update TLS configuration. Check server logs."), "{refusal}");
    assert_eq!(get(first, "/health", "").0, 200);
    drop(taken);
    let moved = format!("CONFIG SET http-port {second} http-hosts other http-bind 127.0.0.1");
    assert_eq!(client.ask(&moved), "OK");
    assert!(TcpStream::connect(("127.0.0.1", first)).is_err());
    assert_eq!(idle.read(&mut [0; 9]).unwrap_or(0), 0, "connections end with their thread");
    let named = "GET /health HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(second, named).0, 200);
    assert_eq!(client.ask("CONFIG SET http-hosts another"), "OK");
    assert_eq!(exchange(second, named).0, 421);
    for _ in 0..50 {
        assert_eq!(client.ask("CONFIG SET http-commands yes"), "OK");
        assert_eq!(client.ask("CONFIG SET http-commands no"), "OK");
        assert_eq!(get(second, "/ready", "").0, 200);
    }
    assert_eq!(client.ask("CONFIG SET http-port 0"), "OK");
    assert!(TcpStream::connect(("127.0.0.1", second)).is_err());
    eventually("nobody is left", || info(&mut client, "connected_clients") == "1");
}

#[test]
fn without_the_option_nobody_answers() {
    let port = free_port();
    let process = Process::start(&["--http-port", "0"]);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(
        process.connect().ask("CONFIG GET http-*"),
        "[http-bind 127.0.0.1 -::1 http-commands no http-hosts  http-port 0 http-tls no]"
    );
    let nowhere = std::process::Command::new(process::program())
        .args(["--port", &free_port().to_string(), "--http-port", &port.to_string(), "--http-bind", ""])
        .output()
        .unwrap();
    assert!(!nowhere.status.success());
    // Somebody else has the port: the server says so and does not start.
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let output = std::process::Command::new(process::program())
        .args(["--port", &free_port().to_string(), "--http-port", &port.to_string()])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("Could not listen on 127.0.0.1:{port}")), "{text}");
    drop(taken);
}
