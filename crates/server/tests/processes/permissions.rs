//! Users against a real server: whose connections end when, what is never shown of their passwords, and what those who
//! have not logged in may cost. What users may do is in `golden/permissions.golden`.

use crate::process::{self, Client, Process, encode, eventually, shown};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

tests_with_io_threads!(
    clients_of_a_removed_user_are_closed_whatever_they_are_in_the_midst_of,
    who_removes_themselves_is_answered_and_nothing_more,
    listeners_who_lose_their_channels_are_closed,
    guessing_passwords_ends_a_connection,
    who_has_not_logged_in_is_sent_little,
);

const USER: &str = "ACL SETUSER bob on >secret +@all ~* &*";

fn log_in(server: &Process, name: &str, password: &str) -> Client<TcpStream> {
    let mut client = server.connect();
    assert_eq!(client.ask(&format!("AUTH {name} {password}")), "OK");
    client
}

fn clients_of_a_removed_user_are_closed_whatever_they_are_in_the_midst_of() {
    let server = Process::start(&[]);
    let mut admin = server.connect();
    assert_eq!(admin.ask(USER), "OK");
    let stories: [&[&str]; 7] = [
        &[],
        &["MULTI", "SET queued 1"],
        &["WATCH k"],
        &["SUBSCRIBE news", "PSUBSCRIBE n*", "SSUBSCRIBE shard"],
        &["MONITOR"],
        &["HELLO 3", "CLIENT TRACKING ON BCAST"],
        &["CLIENT REPLY SKIP"],
    ];
    let mut clients: Vec<_> = stories
        .iter()
        .map(|story| {
            let mut client = log_in(&server, "bob", "secret");
            for command in *story {
                client.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
                if !command.starts_with("CLIENT REPLY") {
                    client.receive().unwrap();
                }
            }
            client
        })
        .collect();
    for blocking in [&[&b"BLPOP"[..], b"list", b"0"][..], &[b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"]]
    {
        let mut client = log_in(&server, "bob", "secret");
        client.send(blocking);
        clients.push(client);
    }
    eventually("two wait", || admin.ask("INFO clients").contains("blocked_clients:2"));
    assert_eq!(admin.ask("ACL DELUSER bob"), "1");
    assert_eq!(admin.ask("RPUSH list a"), "1", "nobody waits for it any more");
    assert_eq!(admin.ask("LLEN list"), "1");
    for client in &mut clients {
        assert!(client.is_closed_by_server());
    }
    assert!(!admin.ask("CLIENT LIST").contains("user=bob"));
    assert_eq!(admin.ask("EXISTS queued"), "0");
    // One of the same name is another user.
    assert_eq!(admin.ask("ACL SETUSER bob on >other +ping"), "OK");
    assert_eq!(
        log_in(&server, "bob", "other").ask("GET k"),
        "NOPERM User bob has no permissions to run the 'get' command"
    );
}

fn who_removes_themselves_is_answered_and_nothing_more() {
    let server = Process::start(&[]);
    let mut admin = server.connect();
    for pipeline in [
        &["ACL DELUSER bob", "SET after 1"][..],
        &["MULTI", "SET before 1", "ACL DELUSER bob", "SET after 1", "EXEC", "SET after 1"],
    ] {
        assert_eq!(admin.ask(USER), "OK");
        let mut bob = log_in(&server, "bob", "secret");
        let requests: Vec<u8> = pipeline
            .iter()
            .flat_map(|command| encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
            .collect();
        bob.stream.write_all(&requests).unwrap();
        let mut replies = Vec::new();
        while let Some(reply) = bob.receive() {
            replies.push(shown(&reply));
        }
        let last = replies.last().unwrap();
        assert!(
            last == "1" || last.starts_with("[OK 1 NOPERM ACLs rules changed between"),
            "{pipeline:?} is answered {replies:?}"
        );
        assert_eq!(admin.ask("EXISTS after"), "0");
    }
    // Channels of one's own, in the midst of listening.
    assert_eq!(admin.ask(USER), "OK");
    let mut bob = log_in(&server, "bob", "secret");
    bob.ask("HELLO 3");
    bob.ask("SUBSCRIBE news");
    assert_eq!(bob.ask("ACL SETUSER bob resetchannels"), "OK");
    assert!(bob.is_closed_by_server());
}

fn listeners_who_lose_their_channels_are_closed() {
    let server = Process::start(&[]);
    let mut admin = server.connect();
    assert_eq!(admin.ask("ACL SETUSER bob on nopass +@all ~* resetchannels &a &b* &c"), "OK");
    let listen = |command: &str| {
        let mut client = log_in(&server, "bob", "x");
        client.ask(command);
        client
    };
    let mut kept = [listen("SUBSCRIBE a"), listen("PSUBSCRIBE b*"), listen("PING")];
    let mut lost = [listen("SUBSCRIBE a c"), listen("SSUBSCRIBE c"), listen("PSUBSCRIBE b* a")];
    assert_eq!(admin.ask("ACL SETUSER bob resetchannels &a* &b* &a"), "OK");
    assert_eq!(admin.ask("ACL SETUSER bob resetchannels &a &b*"), "OK");
    // `a` is listened to as a pattern by the last of them, and that is still one of the user's own.
    assert!(lost[0].is_closed_by_server() && lost[1].is_closed_by_server());
    assert_eq!(admin.ask("PUBLISH a 1"), "2");
    assert_eq!(admin.ask("PUBLISH c 1"), "0");
    assert_eq!(admin.ask("PUBLISH bx 1"), "2");
    assert!(shown(&kept[0].receive().unwrap()).contains("message a 1"));
    assert!(shown(&lost[2].receive().unwrap()).contains("psubscribe a"));
    assert_eq!(kept[2].ask("PUBLISH a 2"), "2");
}

fn guessing_passwords_ends_a_connection() {
    let server = Process::start(&["--requirepass", "secret"]);
    let mut guesser = server.connect();
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    for _ in 0..19 {
        assert_eq!(guesser.ask("AUTH guess"), wrong);
    }
    assert_eq!(guesser.ask("AUTH secret"), "OK", "who knows it begins to count anew");
    for _ in 0..19 {
        assert_eq!(guesser.ask("HELLO 2 AUTH nobody guess"), wrong);
    }
    assert_eq!(guesser.ask("HELLO 2 AUTH default guess"), wrong);
    assert!(guesser.is_closed_by_server());
    let mut admin = log_in(&server, "default", "secret");
    assert!(admin.ask("INFO stats").contains("acl_access_denied_auth:39\r\n"));
    let log = admin.ask("ACL LOG");
    assert!(log.contains("reason auth context toplevel object HELLO username nobody"), "{log}");
}

/// Unread replies to an unauthenticated client.
fn who_has_not_logged_in_is_sent_little() {
    let server = Process::start(&["--requirepass", "secret"]);
    let mut silent = server.connect();
    silent.stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let requests = encode(&[b"ECHO", b"x"]).repeat(4096);
    let closed = (0..20_000).any(|_| match silent.stream.write_all(&requests) {
        Ok(()) => false,
        Err(error) => {
            assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
            true
        }
    });
    assert!(closed, "whoever does not read its answers is closed");
    let mut admin = log_in(&server, "default", "secret");
    let used: u64 = process::info(&mut admin, "used_memory_peak").parse().unwrap();
    assert!(used < 64 << 20, "answers filled {used} bytes");
    // Nor may it announce much.
    for announced in [&b"*11\r\n"[..], b"*1\r\n$16385\r\n", b"*-1\r\n*1000\r\n"] {
        let mut client = server.connect();
        client.stream.write_all(announced).unwrap();
        assert!(shown(&client.receive().unwrap()).starts_with("ERR Protocol error: unauthenticated"));
        assert!(client.is_closed_by_server());
    }
}

/// No password is ever shown to anybody: not by MONITOR, SLOWLOG, ACL LOG or CLIENT LIST, and in no log.
#[test]
fn passwords_are_shown_nowhere() {
    const LOG: &str = "server.log";
    let server =
        Process::start(&["--commandlog-execution-slower-than", "0", "--loglevel", "debug", "--logfile", LOG]);
    let mut watcher = server.connect();
    assert_eq!(watcher.ask("MONITOR"), "OK");
    let mut admin = server.connect();
    let secret_commands = [
        "ACL SETUSER bob on >topsecret1 +@all ~* &*",
        "ACL SETUSER bob >topsecret2 <topsecret2 nosuchrule",
        "ACL DELUSER topsecret3",
        "ACL GETUSER topsecret4",
        "AUTH topsecret5",
        "AUTH bob topsecret1",
        "AUTH bob topsecret6",
        "AUTH a b topsecret7",
        "HELLO 3 AUTH bob topsecret8",
        "HELLO 2 AUTH bob topsecret9 AUTH bob topsecret1 SETNAME x",
        "HELLO 2 SETNAME AUTH AUTH bob topsecret10",
        "CONFIG SET masterauth topsecret11 hz 10",
        "CONFIG SET requirepass topsecret12",
        "CONFIG SET requirepass ",
        "MIGRATE 127.0.0.1 1 nokey 0 10 AUTH topsecret13",
        "MIGRATE 127.0.0.1 1  0 10 AUTH2 bob topsecret14 KEYS nokey",
    ];
    for command in secret_commands {
        admin.ask(command);
    }
    for command in ["MULTI", "AUTH bob topsecret1", "ACL SETUSER carol >topsecret15", "EXEC"] {
        admin.ask(command);
    }
    assert_eq!(admin.ask("SET last 1"), "OK");
    let mut seen = String::new();
    while !seen.contains("\"last\"") {
        seen += &shown(&watcher.receive().unwrap());
    }
    for command in ["SLOWLOG GET 100", "ACL LOG", "CLIENT LIST", "ACL LIST", "INFO everything"] {
        seen += &admin.ask(command);
    }
    seen += &std::fs::read_to_string(server.directory.join(LOG)).unwrap();
    assert!(seen.contains("(redacted)"));
    let shown_secret =
        seen.find("topsecret").map(|at| &seen[at.saturating_sub(200)..(at + 40).min(seen.len())]);
    assert_eq!(shown_secret, None);
}

/// What a replica is sent, and what is in the append-only file, was permitted where it ran first.
#[test]
fn streams_and_files_are_nobody_s_to_refuse() {
    let primary = Process::start(&[]);
    let mut source = primary.connect();
    assert_eq!(source.ask("ACL SETUSER copier on >pass +psync +replconf +ping"), "OK");
    let port = primary.port.to_string();
    let of = format!("127.0.0.1 {port}");
    let replica = Process::start(&[
        "--enable-debug-command",
        "yes",
        "--masteruser",
        "copier",
        "--masterauth",
        "pass",
        "--replicaof",
        &of,
        "--appendonly",
        "yes",
    ]);
    let mut admin = replica.connect();
    assert_eq!(admin.ask("ACL SETUSER admin on >pass +@all ~* &*"), "OK");
    assert_eq!(admin.ask("AUTH admin pass"), "OK");
    assert_eq!(admin.ask("ACL SETUSER default off resetkeys -@all"), "OK");
    eventually("the link is up", || admin.ask("INFO replication").contains("master_link_status:up"));
    assert_eq!(source.ask("SET streamed 1"), "OK");
    source.send(&[b"EVAL", b"redis.call('SET', 'scripted', 1) redis.call('SET', 'both', 1)", b"0"]);
    source.receive().unwrap();
    eventually("the replica has it", || admin.ask("MGET streamed scripted both") == "[1 1 1]");
    assert_eq!(admin.ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(admin.ask("DEBUG LOADAOF"), "OK");
    assert_eq!(admin.ask("MGET streamed scripted both"), "[1 1 1]");
    assert_eq!(admin.ask("ACL LOG"), "[]");
    // Without the right to ask for the stream there is none.
    assert_eq!(source.ask("ACL SETUSER copier -psync"), "OK");
    assert_eq!(admin.ask(&format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    eventually("it is refused", || source.ask("ACL LOG").contains("object psync username copier"));
}

/// A tracking client gets no invalidation of keys that it may not read, and cannot redirect to connections of other users.
#[test]
fn tracking_tells_only_of_keys_that_may_be_read() {
    let server = Process::start(&[]);
    let mut admin = server.connect();
    assert_eq!(admin.ask("ACL SETUSER bob on nopass +@all ~app:* %W~out:*"), "OK");
    let mut bob = log_in(&server, "bob", "x");
    bob.ask("HELLO 3");
    assert_eq!(bob.ask("CLIENT TRACKING ON BCAST"), "OK");
    assert_eq!(admin.ask("MSET other 1 out:1 1 app:1 1 apple 1"), "OK");
    assert_eq!(shown(&bob.receive().unwrap()), "[invalidate [app:1]]");
    assert_eq!(admin.ask("SET other 2"), "OK");
    assert_eq!(bob.ask("PING"), "PONG", "and of nothing else");
    assert_eq!(bob.ask("CLIENT TRACKING OFF"), "OK");
    let refused = "ERR The client ID you want redirect to does not exist";
    let (admins, others) = (admin.ask("CLIENT ID"), log_in(&server, "bob", "x").ask("CLIENT ID"));
    assert_eq!(bob.ask(&format!("CLIENT TRACKING ON REDIRECT {admins}")), refused);
    let mut second = log_in(&server, "bob", "x");
    let own = second.ask("CLIENT ID");
    assert_eq!(bob.ask(&format!("CLIENT TRACKING ON REDIRECT {own}")), "OK");
    assert_ne!(own, others);
    assert_eq!(admin.ask(&format!("CLIENT TRACKING ON REDIRECT {own}")), "OK", "who may do everything may");
    let mut rest = Vec::new();
    second.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(second.stream.read_to_end(&mut rest).is_err() && rest.is_empty());
}

const GUIDE: &str = include_str!("../../../../docs/security.md");

/// The block of the guide that is marked so.
fn block(mark: &str) -> &'static str {
    let (_, behind) = GUIDE.split_once(&format!("```{mark}\n")).unwrap();
    behind.split_once("```").unwrap().0
}

fn digest_of(password: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The configuration that the guide recommends is taken as it stands, and does what the guide says of it.
#[test]
fn the_guide_s_configuration_is_as_hard_as_it_says() {
    let folder = std::env::temp_dir().join(format!("warmline-hardened-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut users = block("acl").to_owned();
    for name in ["admin", "app", "reports", "copier", "watcher"] {
        users = users.replace(&format!("#{}", name.to_uppercase()), &format!("#{}", digest_of(name)));
    }
    std::fs::write(folder.join("users.acl"), users).unwrap();
    std::fs::write(folder.join("hardened.conf"), block("conf")).unwrap();
    let (config, directory) = (folder.join("hardened.conf"), folder.display().to_string());
    // The file comes first of all arguments.
    let server = Process::start_with_file(config.to_str().unwrap(), &["--dir", &directory]);
    let as_user = |name: &str| log_in(&server, name, name);
    let mut nobody = server.connect();
    assert_eq!(nobody.ask("PING"), "NOAUTH Authentication required.");
    assert_eq!(nobody.ask("AUTH default x").split(' ').next(), Some("WRONGPASS"));
    let mut admin = as_user("admin");
    assert_eq!(admin.ask("SET other 1"), "OK");
    for (refused, word) in [
        ("CONFIG SET dir /tmp", "can't set protected config"),
        ("DEBUG JMAP", "DEBUG command not allowed"),
        ("CONFIG SET maxmemory-clients 20%", "OK"),
        ("CONFIG GET timeout", "[timeout 300]"),
        ("ACL SAVE", "OK"),
        ("ACL LOAD", "OK"),
    ] {
        let answer = admin.ask(refused);
        assert!(answer.contains(word), "{refused} is answered {answer}");
    }
    let permitted = [
        ("app", "SET app:1 x", "OK"),
        ("app", "PUBLISH app:1 x", "0"),
        ("app", "MULTI", "OK"),
        ("reports", "GET app:1", "x"),
        ("reports", "SELECT 0", "OK"),
        ("copier", "REPLCONF listening-port 1", "OK"),
        ("watcher", "ACL LOG RESET", "OK"),
        ("watcher", "PING", "PONG"),
    ];
    for (user, command, answer) in permitted {
        assert_eq!(as_user(user).ask(command), answer, "{user}: {command}");
    }
    let refused = [
        ("app", "GET other"),
        ("app", "PUBLISH other x"),
        ("app", "EVAL return 0"),
        ("app", "KEYS *"),
        ("app", "FLUSHALL"),
        ("app", "CONFIG GET *"),
        ("app", "ACL LIST"),
        ("app", "CLIENT LIST"),
        ("app", "SORT app:1 GET other"),
        ("reports", "SET app:1 y"),
        ("reports", "GET other"),
        ("reports", "SELECT 1"),
        ("reports", "KEYS *"),
        ("copier", "GET app:1"),
        ("copier", "CONFIG GET *"),
        ("watcher", "GET app:1"),
        ("watcher", "MONITOR"),
        ("watcher", "ACL SETUSER watcher +@all"),
    ];
    for (user, command) in refused {
        let answer = as_user(user).ask(command);
        assert!(answer.starts_with("NOPERM"), "{user}: {command} is answered {answer}");
    }
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Every test that the guide names is there.
#[test]
fn the_guide_names_tests_that_there_are() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders =
        ["crates/server/tests", "crates/server/tests/processes", "crates/server/src", "crates", "."];
    let find = |file: &str| {
        folders.iter().find_map(|folder| std::fs::read_to_string(root.join(folder).join(file)).ok())
    };
    let (_, table) = GUIDE.split_once("## Classes of fault").unwrap();
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let words: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        let mut texts = Vec::new();
        for word in words {
            match word.contains('.') && !word.ends_with("...") || word.contains('/') {
                true => texts.push(find(word).unwrap_or_else(|| panic!("there is no {word}"))),
                false if word.contains('_') => {
                    let begins = format!("fn {}", word.trim_end_matches("..."));
                    let is_there = texts.is_empty() || texts.iter().any(|text| text.contains(&begins));
                    assert!(is_there, "there is no test {word}");
                    named += 1;
                }
                false => {}
            }
        }
    }
    assert!(named > 15, "{named}");
}
