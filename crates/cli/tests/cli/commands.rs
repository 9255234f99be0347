//! One command from the command line: its output in each style, where its arguments come from, and how it ends.

use crate::process::{Server, client, finish};

pub fn replies_in_each_style() {
    let server = Server::start(&[]);
    assert_eq!(server.run(&["rpush", "list", "foo", "b a\tr"]).stdout, "2\n");
    let list = |options: &[&str]| server.run(&[options, &["lrange", "list", "0", "-1"]].concat()).stdout;
    assert_eq!(list(&[]), "foo\nb a\tr\n");
    assert_eq!(list(&["--no-raw"]), "1) \"foo\"\n2) \"b a\\tr\"\n");
    assert_eq!(list(&["-d", "|", "-D", "END"]), "foo|b a\trEND");
    assert_eq!(list(&["--csv"]), "\"foo\",\"b a\\tr\"\n");
    assert_eq!(list(&["--json"]), "[\"foo\",\"b a\\tr\"]\n");
    assert_eq!(list(&["--quoted-json"]), "[\"foo\",\"b a\\\\tr\"]\n");
    assert_eq!(server.ask(&["hset", "hash", "1", "One"]), "1");
    assert_eq!(server.ask(&["--json", "hgetall", "hash"]), "{\"1\":\"One\"}");
    assert_eq!(server.ask(&["--json", "-2", "hgetall", "hash"]), "[\"1\",\"One\"]");
    assert_eq!(server.ask(&["-3", "--no-raw", "hgetall", "hash"]), "1# \"1\" => \"One\"");
    assert_eq!(server.ask(&["--no-raw", "get", "nothing"]), "(nil)");
    assert!(server.ask(&["--no-raw", "info", "server"]).starts_with("# Server\r\n"));
}

pub fn arguments_from_everywhere() {
    let server = Server::start(&[]);
    assert_eq!(server.run_with_input(&["-x", "set", "a"], b"from\nstdin\n").stdout, "OK\n");
    assert_eq!(server.ask(&["--no-raw", "get", "a"]), "\"from\\nstdin\\n\"");
    assert_eq!(server.run_with_input(&["-X", "tag", "set", "b", "tag", "ex", "100"], b"x").stdout, "OK\n");
    assert_eq!(server.ask(&["get", "b"]), "x");
    let missing = server.run_with_input(&["-X", "tag", "set", "b", "other"], b"x");
    assert_eq!((missing.stderr.as_str(), missing.code), ("Using -X option but stdin tag not match.\n", 1));
    assert_eq!(server.ask(&["--quoted-input", "set", r#""A\x00B""#, "value"]), "OK");
    assert_eq!(server.ask(&["--no-raw", "keys", "A*"]), "1) \"A\\x00B\"");
    assert_eq!(server.run(&["--quoted-input", "get", "\"A"]).code, 1);
    assert_eq!(server.run(&["--quoted-input", "get", "\"A\" \"B\""]).code, 1);
    let script = server.path("script.lua");
    std::fs::write(&script, "return {KEYS[1], ARGV[1], #KEYS}").unwrap();
    assert_eq!(server.ask(&["--eval", &script, "k1", "k2", ",", "a1"]), "k1\na1\n2");
    let missing = server.run(&["--eval", "/nothing/script.lua"]);
    let expected = "Can't open file '/nothing/script.lua': No such file or directory\n";
    assert_eq!((missing.stderr.as_str(), missing.code), (expected, 1));
}

pub fn repetitions() {
    let server = Server::start(&[]);
    assert_eq!(server.run(&["-r", "3", "-i", "0.01", "incr", "n"]).stdout, "1\n2\n3\n");
    assert_eq!(server.run(&["-r", "0", "incr", "n"]).stdout, "");
}

pub fn exit_codes_and_errors() {
    let server = Server::start(&[]);
    let wrong = server.run(&["get"]);
    let text = "ERR wrong number of arguments for 'get' command\n";
    assert_eq!((wrong.stdout, wrong.stderr.as_str(), wrong.code), (format!("{text}\n"), "", 0));
    let wrong = server.run(&["-e", "get"]);
    assert_eq!((wrong.stdout.as_str(), wrong.stderr.as_str(), wrong.code), ("", text, 1));
    assert_eq!(server.run(&["-e", "get", "nothing"]).code, 0);
    let unreachable = finish(client().args(["-p", "1", "ping"]), b"");
    let expected = "Could not connect to Warmline at 127.0.0.1:1: Connection refused\n";
    assert_eq!((unreachable.stderr.as_str(), unreachable.code), (expected, 1));
    let unreachable = finish(client().args(["-s", "/nothing/socket", "ping"]), b"");
    let expected = "Could not connect to Warmline at /nothing/socket: No such file or directory\n";
    assert_eq!((unreachable.stderr.as_str(), unreachable.code), (expected, 1));
    let database = server.run(&["-n", "99", "ping"]);
    assert_eq!(database.stderr, "SELECT 99 failed: ERR DB index is out of range\n");
    assert_eq!((database.stdout.as_str(), database.code), ("PONG\n", 0));
    let shutdown = server.run(&["shutdown", "nosave"]);
    assert_eq!((shutdown.stdout.as_str(), shutdown.stderr.as_str(), shutdown.code), ("", "", 0));
}

pub fn names_of_the_program() {
    let server = Server::start(&[]);
    let link = server.path("valkey-cli");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_warmline-cli"), &link).unwrap();
    let version = finish(std::process::Command::new(&link).arg("--version"), b"");
    assert!(version.stdout.starts_with("valkey-cli "), "{version:?}");
    let unreachable = finish(std::process::Command::new(&link).args(["-p", "1", "ping"]), b"");
    assert!(
        unreachable.stderr.starts_with("Could not connect to Valkey at 127.0.0.1:1: "),
        "{unreachable:?}"
    );
    assert!(server.ask(&["help"]).starts_with("warmline-cli "));
    assert!(server.ask(&["help", "getex"]).contains("GETEX"));
}

pub fn ways_to_a_server() {
    let server = Server::start(&["--requirepass", "secret", "--unixsocket", "here.sock"]);
    let run = |arguments: &[&str]| finish(client().args(arguments), b"");
    let port = server.port.to_string();
    let uri = |scheme: &str| format!("{scheme}://default:secret@127.0.0.1:{port}/3");
    for scheme in ["redis", "valkey", "warmline"] {
        let info = run(&["-u", &uri(scheme), "client", "info"]);
        assert!(info.stdout.contains(" db=3 "), "{info:?}");
        assert!(info.stderr.starts_with("Warning: Using a password with '-a' or '-u'"), "{info:?}");
    }
    assert_eq!(run(&["-u", "http://127.0.0.1", "ping"]).stderr, "Invalid URI scheme\n");
    let socket = server.path("here.sock");
    let by_socket =
        run(&["-s", &socket, "--no-auth-warning", "--user", "default", "--pass", "secret", "ping"]);
    assert_eq!((by_socket.stdout.as_str(), by_socket.stderr.as_str()), ("PONG\n", ""));
    for variable in ["WARMLINECLI_AUTH", "VALKEYCLI_AUTH", "REDISCLI_AUTH"] {
        let from_environment = finish(server.client(&["ping"]).env(variable, "secret"), b"");
        assert_eq!((from_environment.stdout.as_str(), from_environment.stderr.as_str()), ("PONG\n", ""));
    }
    let wrong = server.run(&["--no-auth-warning", "-a", "wrong", "ping"]);
    assert!(wrong.stderr.starts_with("AUTH failed: WRONGPASS "), "{wrong:?}");
    assert_eq!(wrong.stdout, "NOAUTH Authentication required.\n\n");
    assert_eq!(server.run(&["-4", "-h", "localhost", "ping"]).stdout, "NOAUTH Authentication required.\n\n");
}

pub fn messages_and_pushes() {
    let server = Server::start(&[]);
    let mut listener = crate::process::Running::start(&mut server.client(&["subscribe", "a", "b"]));
    assert_eq!(listener.read_to("\nb\n2\n"), "subscribe\na\n1\nsubscribe\nb\n2\n");
    assert_eq!(server.ask(&["publish", "b", "hello"]), "1");
    assert_eq!(listener.read_to("hello\n"), "message\nb\nhello\n");
    let input = b"client tracking on\nget k\nset k 1\nget k\n";
    let shown = server.run_with_input(&["-3", "--show-pushes", "yes", "--no-raw"], input).stdout;
    assert_eq!(shown, "OK\n(nil)\nOK\n-> invalidate: 'k'\n\"1\"\n");
    let hidden = server.run_with_input(&["-3", "--no-raw"], input).stdout;
    assert_eq!(hidden, "OK\n\"1\"\nOK\n\"1\"\n");
}

pub fn replicas_and_monitors_show_commands() {
    let server = Server::start(&[]);
    let mut monitor = crate::process::Running::start(&mut server.client(&["monitor"]));
    monitor.read_to("OK\n");
    server.ask(&["set", "seen", "1"]);
    assert!(monitor.read_to("\"seen\" \"1\"\n").contains("\"set\""));
}
