//! The console's page and its API: what it answers, to whom, what it refuses, and its limits.

use crate::process::{PATIENCE, Process, eventually, free_port};
use std::io::{Read, Write};
use std::net::TcpStream;

tests_with_io_threads!(
    commands_are_answered_in_order,
    what_changes_something_is_refused,
    users_may_what_they_may
);

/// A server that answers HTTP, and at which port.
fn start(options: &[&str]) -> (Process, u16) {
    let port = free_port();
    let text = port.to_string();
    let options: Vec<&str> = ["--http-port", &text].iter().chain(options).copied().collect();
    (Process::start(&options), port)
}

/// The number of the status, the headers in lower case, and the body.
fn exchange(port: u16, request: &[u8]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A server that refuses a request need not read it to its end.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn get(port: u16, path: &str, headers: &str) -> (u16, String, String) {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{headers}\r\n");
    exchange(port, request.as_bytes())
}

const JSON: &str = "Content-Type: application/json\r\n";

fn post(port: u16, headers: &str, body: &str) -> (u16, String, String) {
    let head = "POST /api/commands HTTP/1.1\r\nConnection: close\r\n";
    let request =
        format!("{head}Host: localhost:{port}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len());
    exchange(port, request.as_bytes())
}

/// What commands are answered with.
fn run(port: u16, commands: &str) -> String {
    let (status, head, body) = post(port, JSON, commands);
    assert_eq!(status, 200, "{commands}: {head} {body}");
    body
}

fn commands_are_answered_in_order() {
    let (process, port) = start(&[]);
    let mut client = process.connect();
    client.ask("HSET hash <script>alert(1)</script> \"quoted\"");
    client.send(&[b"SET", b"\xff\0", b"\xfe"]);
    client.receive().unwrap();
    client.ask("ZADD scores 1.5 a");
    client.ask("SADD members a");
    assert_eq!(
        run(
            port,
            r#"[["PING"], ["GET", {"base64": "/wA="}], ["GET", "none"], ["HGETALL", "hash"], ["SMEMBERS", "members"],
            ["ZSCORE", "scores", "a"], ["SELECT", "1"], ["DBSIZE"], ["GET"], ["NOSUCH"], ["CLIENT", "GETNAME"]]"#
        ),
        concat!(
            r#"{"replies":[{"simple":"PONG"},{"base64":"/g=="},null,"#,
            r#"{"map":[["<script>alert(1)</script>","\"quoted\""]]},{"set":["a"]},{"double":"1.5"},{"simple":"OK"},0,"#,
            r#"{"error":"ERR wrong number of arguments for 'get' command"},"#,
            r#"{"error":"ERR unknown command 'NOSUCH', with args beginning with: "},null]}"#
        )
    );
    // Each request has a connection of its own.
    assert_eq!(run(port, r#"[["DBSIZE"]]"#), r#"{"replies":[4]}"#);
    assert_eq!(run(port, "[]"), r#"{"replies":[]}"#);
    let (_, head, _) = post(port, JSON, "[]");
    assert!(head.contains("content-type: application/json"), "{head}");
    eventually("no connection is left", || client.ask("CLIENT LIST").lines().count() == 1);
}

fn what_changes_something_is_refused() {
    let (process, port) = start(&[]);
    let mut client = process.connect();
    client.ask("SET key value");
    for command in [
        r#"["SET","key","x"]"#,
        r#"["set","key","x"]"#,
        r#"["DEL","key"]"#,
        r#"["FLUSHALL"]"#,
        r#"["CONFIG","SET","maxmemory","1"]"#,
        r#"["EVAL","redis.call('del','key')","0"]"#,
        r#"["SHUTDOWN","NOSAVE"]"#,
        r#"["CLIENT","KILL","TYPE","normal"]"#,
        r#"["SUBSCRIBE","a"]"#,
        r#"["MONITOR"]"#,
        r#"["BLPOP","a","0"]"#,
        r#"["AUTH","x"]"#,
        r#"["HELLO","2"]"#,
        r#"["RESET"]"#,
        r#"["CLIENT","REPLY","OFF"]"#,
        r#"["SYNC"]"#,
        r#"["QUIT"]"#,
        r#"["DEBUG","SEGFAULT"]"#,
        r#"["GETDEL","key"]"#,
    ] {
        let body = run(port, &format!("[{command}, [\"GET\", \"key\"]]"));
        assert!(
            body.starts_with(r#"{"replies":[{"error":""#) && body.ends_with(r#","value"]}"#),
            "{command}: {body}"
        );
    }
    let body = run(port, r#"[["MULTI"],["SET","key","x"],["EXEC"]]"#);
    assert_eq!((body.matches("NOPERM").count(), client.ask("GET key")), (3, "value".to_owned()), "{body}");
    for view in [
        r#"["INFO"]"#,
        r#"["CONFIG","GET","*"]"#,
        r#"["CLIENT","LIST"]"#,
        r#"["SLOWLOG","GET","10"]"#,
        r#"["MEMORY","STATS"]"#,
        r#"["MEMORY","USAGE","key"]"#,
        r#"["OBJECT","LAYOUT","key"]"#,
        r#"["OBJECT","ENCODING","key"]"#,
        r#"["SCAN","0"]"#,
        r#"["COMMAND","DOCS","get"]"#,
        r#"["ACL","WHOAMI"]"#,
        r#"["LATENCY","HISTOGRAM"]"#,
        r#"["ROLE"]"#,
        r#"["TTL","key"]"#,
        r#"["CLIENT","NO-TOUCH","ON"]"#,
        r#"["GETRANGE","key","0","9"]"#,
        r#"["COMMAND"]"#,
        r#"["LATENCY","LATEST"]"#,
    ] {
        let body = run(port, &format!("[{view}]"));
        assert!(!body.contains(r#"{"error":""#), "{view}: {body}");
    }
}

#[test]
fn with_http_commands_what_the_user_may_runs() {
    let (process, port) = start(&["--http-commands", "yes", "--enable-debug-command", "yes"]);
    let mut client = process.connect();
    // What the server sends of its own accord is no command's reply.
    let pushed = run(port, r#"[["DEBUG","PROTOCOL","PUSH"],["ECHO","next"]]"#);
    assert_eq!(pushed, r#"{"replies":["Some real reply following the push reply","next"]}"#);
    let transaction = r#"[["MULTI"],["SET","a","1"],["INCR","a"],["EXEC"]]"#;
    assert_eq!(
        run(port, transaction),
        r#"{"replies":[{"simple":"OK"},{"simple":"QUEUED"},{"simple":"QUEUED"},[{"simple":"OK"},2]]}"#
    );
    // Nothing of a transaction runs that lacks a part.
    let body = run(port, r#"[["MULTI"],["SET","a","9"],["BLPOP","b","0"],["EXEC"]]"#);
    assert_eq!(body.matches("EXECABORT").count(), 3, "{body}");
    assert_eq!(client.ask("GET a"), "2");
    assert!(run(port, r#"[["MONITOR"]]"#).contains("does not run over HTTP"));
    // A reply that has too many levels is an error in its place.
    let nested = |levels: usize| {
        format!("[\"EVAL\",\"local t = {{}} for _ = 2, {levels} do t = {{t}} end return t\",\"0\"]")
    };
    let body = run(port, &format!("[{},{},[\"PING\"]]", nested(64), nested(66)));
    let deepest = "[".repeat(64) + &"]".repeat(64);
    let error = r#"{"error":"ERR more than 64 levels in a response"}"#;
    assert_eq!(body, format!("{{\"replies\":[{deepest},{error},{{\"simple\":\"PONG\"}}]}}"));
    // The thread that would answer ends.
    _ = post(port, JSON, r#"[["CONFIG","SET","http-commands","no"]]"#);
    eventually("nothing can be changed", || {
        client.ask("CONFIG GET http-commands") == "[http-commands no]"
            && run(port, r#"[["SET","a","9"]]"#).contains("NOPERM")
    });
}

/// By whatever name a transaction is opened, one that lacks a part does not run.
#[test]
fn renamed_transactions_are_whole_too() {
    let (process, port) = start(&["--http-commands", "yes", "--rename-command", "MULTI", "begin"]);
    let mut client = process.connect();
    let body = run(port, r#"[["begin"],["SET","a","9"],["MULTI"],["EXEC"]]"#);
    assert_eq!(
        (body.matches("EXECABORT").count(), body.matches("unknown command 'MULTI'").count()),
        (3, 1),
        "{body}"
    );
    assert!(run(port, r#"[["Begin"],["SET","a","1"],["EXEC"]]"#).ends_with(r#"[{"simple":"OK"}]]}"#));
    assert_eq!(client.ask("GET a"), "1");
}

fn users_may_what_they_may() {
    let (process, port) = start(&["--requirepass", "secret"]);
    let mut client = process.connect();
    client.ask("AUTH secret");
    client.ask("SET a 1");
    client.ask("SET b 2");
    client.ask("ACL SETUSER reader on >wörd ~a +get +info");
    let asked = |headers: &str, body: &str| post(port, &format!("{JSON}{headers}"), body);
    for headers in [
        "",
        "Authorization: Bearer wrong\r\n",
        "Authorization: Digest x\r\n",
        "Authorization: Bearer reader:x\r\n",
    ] {
        let (status, head, body) = asked(headers, r#"[["GET","a"]]"#);
        assert_eq!((status, body.contains("\"1\"")), (401, false), "{headers}: {head} {body}");
        // A browser asks for a password by itself where it is basic.
        assert!(head.contains("www-authenticate: bearer") && !head.contains("basic"), "{head}");
        assert_eq!(get(port, "/api/history", headers).0, 401);
    }
    // reader:wörd
    let reader = "Authorization: Basic cmVhZGVyOnfDtnJk\r\n";
    let (status, _, body) = asked(reader, r#"[["GET","a"],["GET","b"],["DBSIZE"]]"#);
    assert_eq!(status, 200);
    assert!(
        body.starts_with(r#"{"replies":["1",{"error":"NOPERM"#) && body.matches("NOPERM").count() == 2,
        "{body}"
    );
    assert_eq!(get(port, "/api/history", reader).0, 200);
    client.ask("ACL SETUSER reader -info");
    assert_eq!(get(port, "/api/history", reader).0, 403);
    assert_eq!(asked("Authorization: Bearer secret\r\n", "[[\"PING\"]]").0, 200);
    // The page itself holds nothing that is secret.
    assert_eq!(get(port, "/", "").0, 200);
    // Nor do the options: their texts and defaults are the manual's, and say nothing of this machine.
    let (status, _, options) = get(port, "/api/options", "");
    let directory = process.directory.canonicalize().unwrap().display().to_string();
    assert!(client.ask("CONFIG GET dir").contains(&directory), "{directory}");
    assert!(
        status == 200 && options.contains("\"name\":\"dir\"") && !options.contains(&directory),
        "{options}"
    );
}

/// Who asks over HTTP logs in with each request, and no log or trace of that has a password, be it right or wrong.
#[test]
fn passwords_are_told_to_nobody() {
    let (process, port) = start(&["--requirepass", "s3cret-own", "--slowlog-log-slower-than", "0"]);
    let mut client = process.connect();
    client.ask("AUTH s3cret-own");
    client.ask("ACL SETUSER eve on >s3cret-eve +@all ~*");
    client.ask("LATENCY TRACE START EVERY 1");
    let mut watcher = process.connect();
    watcher.ask("AUTH s3cret-own");
    watcher.ask("MONITOR");
    for (user, status) in
        [("s3cret-own", 200), ("eve:s3cret-eve", 200), ("eve:s3cret-wrong", 401), ("s3cret:x", 401)]
    {
        let login = format!("Authorization: Bearer {user}\r\n");
        assert_eq!(post(port, &format!("{JSON}{login}"), "[[\"PING\"]]").0, status, "{user}");
        assert_eq!(get(port, "/api/history", &login).0, status, "{user}");
        assert_eq!(get(port, "/metrics", &login).0, status, "{user}");
    }
    for command in ["SLOWLOG GET -1", "COMMANDLOG GET -1 slow", "LATENCY TRACE GET COUNT -1", "CLIENT LIST"] {
        let told = client.ask(command).to_lowercase();
        assert!(
            !told.contains("s3cret-") && (told.contains("hello") || command == "CLIENT LIST"),
            "{command}: {told}"
        );
    }
    client.ask("ECHO end");
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.contains("\"end\"")) {
        let line = watcher.receive().unwrap();
        lines.push(String::from_utf8_lossy(line.as_bytes().unwrap()).into_owned());
    }
    assert!(lines.iter().all(|line| !line.contains("s3cret-")), "{lines:?}");
}

#[test]
fn pages_of_other_sites_cannot_ask() {
    let (_process, port) = start(&[]);
    let ping = "[[\"PING\"]]";
    assert_eq!(post(port, &format!("{JSON}Origin: http://evil.example\r\n"), ping).0, 403);
    assert_eq!(post(port, &format!("{JSON}Origin: null\r\n"), ping).0, 403);
    assert_eq!(post(port, &format!("{JSON}Origin: http://localhost:{port}\r\n"), ping).0, 200);
    // What a form or a script can send to another site without asking it first.
    for content_type in
        ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
    {
        assert_eq!(post(port, &format!("Content-Type: {content_type}\r\n"), ping).0, 415, "{content_type}");
    }
    assert_eq!(post(port, "", ping).0, 415);
    assert_eq!(post(port, "Content-Type: Application/JSON; charset=utf-8\r\n", ping).0, 200);
    let (status, head, _) = get(port, "/api/commands", "");
    assert_eq!((status, head.contains("allow: post")), (405, true), "{head}");
    let options =
        format!("OPTIONS /api/commands HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    let (status, head, _) = exchange(port, options.as_bytes());
    assert_eq!((status, head.contains("access-control")), (405, false), "{head}");
    let foreign = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(port, foreign.as_bytes()).0, 421);
}

#[test]
fn requests_and_replies_have_limits() {
    let (process, port) = start(&[]);
    let mut client = process.connect();
    for bad in ["", "x", "{}", "[", "[[]]", "[1]", "[[\"GET\", 1]]", "[[\"GET\", {\"base64\": \"!\"}]]"] {
        assert_eq!(post(port, JSON, bad).0, 400, "{bad}");
    }
    assert_eq!(post(port, JSON, &"[".repeat(100_000)).0, 400);
    let many = format!("[{}]", vec!["[\"PING\"]"; 257].join(","));
    assert_eq!(post(port, JSON, &many).0, 400);
    let word = |bytes: usize| format!("[[\"ECHO\", \"{}\"]]", "x".repeat(bytes));
    assert_eq!(post(port, JSON, &word((1 << 20) - 14)).0, 200);
    assert_eq!(post(port, JSON, &word((1 << 20) - 13)).0, 413);
    // A chunked body has no length that could be refused.
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    let head = format!(
        "POST /api/commands HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"
    );
    assert!(matches!(exchange(port, (head + &chunk.repeat(40)).as_bytes()).0, 0 | 413));
    client.ask(&format!("SET long {}", "v".repeat(4 << 20)));
    let (status, _, body) = post(port, JSON, r#"[["GET","long"]]"#);
    assert_eq!((status, body.len()), (200, (4 << 20) + r#"{"replies":[""]}"#.len()));
    assert_eq!(post(port, JSON, r#"[["GET","long"],["GET","long"]]"#).0, 413);
    assert_eq!(client.ask("PING"), "PONG");
}

/// Clients that send requests and read nothing hold little memory, and do not delay small replies to others.
#[test]
fn answers_that_nobody_reads_have_a_limit() {
    let (process, port) = start(&[]);
    let mut client = process.connect();
    // Each byte is six in JSON.
    client.send(&[b"SET", b"control", &vec![1; 4 << 20]]);
    client.receive().unwrap();
    assert_eq!(post(port, JSON, r#"[["GET","control"]]"#).0, 413);
    client.ask(&format!("SET long {}", "v".repeat(7 << 20)));
    let body = r#"[["GET","long"]]"#;
    let request = format!(
        "POST /api/commands HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let readers: Vec<TcpStream> = (0..14)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    eventually("there is no room", || post(port, JSON, body).0 == 503);
    assert_eq!(run(port, "[[\"PING\"]]"), r#"{"replies":[{"simple":"PONG"}]}"#);
    drop(readers);
    eventually("there is room again", || post(port, JSON, body).0 == 200);
}

/// What somebody sends who may not log in is not read.
#[test]
fn bodies_of_strangers_are_not_read() {
    let (_process, port) = start(&["--requirepass", "secret"]);
    let request =
        format!("POST /api/commands HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: 1000\r\n\r\n");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(8))).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(status, *b"HTTP/1.1 401");
}

#[test]
fn the_page_may_run_no_script_but_its_own() {
    let (_process, port) = start(&[]);
    let (status, head, page) = get(port, "/", "");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/html; charset=utf-8"), "{head}");
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "x-frame-options: deny",
        "cache-control: no-store",
    ] {
        assert!(head.contains(rule), "{rule}: {head}");
    }
    assert!(!head.contains("unsafe-inline") && !head.contains("unsafe-eval"), "{head}");
    for path in page.split('"').filter_map(|text| text.strip_prefix("./")) {
        let (status, head, text) = get(port, &format!("/{path}"), "");
        assert_eq!(status, 200, "{path}");
        assert!(head.contains("nosniff") && !text.is_empty(), "{path}");
    }
    // What is no page may do nothing at all.
    let (_, head, _) = get(port, "/api/options", "");
    assert!(head.contains("content-security-policy: default-src 'none'; frame-ancestors 'none'"), "{head}");
}

#[test]
fn history_tells_what_was_done() {
    let (process, port) = start(&[]);
    let mut client = process.connect();
    let total = |text: &str| -> u64 {
        let (_, samples) = text.split_once("\"samples\":[").unwrap();
        // [number,end,span,[commands,...
        samples
            .split("]],")
            .chain([samples])
            .filter_map(|sample| sample.split(",[").nth(1)?.split(',').next()?.parse::<u64>().ok())
            .sum()
    };
    eventually("there is a sample", || get(port, "/api/history", "").2.contains("\"samples\":[["));
    for _ in 0..1000 {
        client.ask("GET nothing");
    }
    eventually("the commands are counted", || total(&get(port, "/api/history?since=0", "").2) >= 1000);
    let (_, _, text) = get(port, "/api/history", "");
    for name in ["\"commands\"", "\"misses\"", "\"used_bytes\"", "\"clients\""] {
        assert!(text.contains(name), "{text}");
    }
    let (_, _, text) = get(port, "/api/history?since=18446744073709551615", "");
    assert!(text.ends_with("\"samples\":[]}"), "{text}");
    for query in ["since=", "since=-1", "since=x", "x", "since=99999999999999999999"] {
        assert_eq!(get(port, &format!("/api/history?{query}"), "").0, 400, "{query}");
    }
    assert!(get(port, "/api/options", "").2.contains("{\"name\":\"maxmemory\",\"default\":\"0\""));
}

/// A script keeps the server from answering; nothing waits forever, and the history has a gap.
#[test]
fn a_server_that_does_not_answer_is_told() {
    let (process, port) = start(&["--busy-reply-threshold", "50"]);
    let mut client = process.connect();
    client.send(&[b"EVAL", b"while true do end", b"0"]);
    eventually("it is busy", || run(port, r#"[["GET","a"]]"#).contains("BUSY"));
    assert_eq!(process.connect().ask("SCRIPT KILL"), "OK");
    eventually("it answers", || run(port, r#"[["GET","a"]]"#).contains("null"));
}
