//! The load generator's commands against real servers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../server/tests/process/mod.rs"]
mod process;

use process::{Process, free_port};
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn generator(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warmline-benchmark"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the generator against a server; what it said on standard output and standard error.
fn run(server: &Process, args: &[&str]) -> (bool, String, String) {
    let port = server.port.to_string();
    printed(generator(&["-p", &port]).args(args).output().unwrap())
}

fn printed(output: Output) -> (bool, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// Calls of a command, as INFO counts them.
fn calls(server: &Process, command: &str) -> u64 {
    let field = format!("cmdstat_{command}");
    let Some(line) = server.info(&field) else { return 0 };
    line.split(',').next().and_then(|part| part.strip_prefix("calls=")).unwrap().parse().unwrap()
}

#[test]
fn every_test_sends_as_many_requests_as_it_was_asked_for() {
    let server = Process::start(&[]);
    let (is_well, out, err) = run(&server, &["-n", "205", "-P", "10", "-c", "7", "--csv"]);
    assert!(is_well && err.is_empty(), "{err}");
    assert_eq!(out.lines().count(), 1 + 24);
    assert!(out.lines().all(|line| line.starts_with('"') && line.matches(',').count() == 7), "{out}");
    for (command, count) in [
        ("ping", 2 * 205),
        ("set", 205),
        ("incr", 205),
        ("lpush", 2 * 205),
        ("lrange", 4 * 205),
        ("mset", 205),
        ("xadd", 205),
        ("function|load", 205 + 1),
        ("fcall", 205),
    ] {
        assert_eq!(calls(&server, command), count, "{command}");
    }
    let (is_well, out, _) = run(&server, &["-n", "50", "-t", "SET,get", "-q", "-k", "0"]);
    assert!(
        is_well && out.lines().filter(|line| line.contains(" requests per second, p50=")).count() == 2,
        "{out}"
    );
}

#[test]
fn commands_of_ones_own() {
    let server = Process::start(&[]);
    let mut client = server.connect();
    let (is_well, out, err) = run(
        &server,
        &["-n", "12", "-d", "42", "--", "SET", "k", "v__data__v__data__", ";", "3", "INCR", "n"],
    );
    assert!(is_well, "{err}");
    assert!(out.contains("====== SET k v__data__v__data__ ; 3 INCR n ======"), "{out}");
    assert!(out.contains("  12 requests completed in"), "{out}");
    assert_eq!(client.ask("STRLEN k"), "86");
    assert_eq!(client.ask("GET n"), "9");
    let sequential = ["-r", "100", "-n", "60", "--sequential", "-P", "7", "--", "SADD", "s", "__rand_int__"];
    assert!(run(&server, &sequential).0);
    assert_eq!(client.ask("SCARD s"), "60");

    // An error ends it, and nothing is reported.
    let (is_well, out, err) = run(&server, &["-n", "1000", "-q", "--", "HGET", "k", "field"]);
    assert!(!is_well && out.is_empty() && err.contains("Error from server: WRONGTYPE"), "{out}{err}");
    let (is_well, _, err) = run(&server, &["-n", "5", "--duration", "1"]);
    assert!(!is_well && err.contains("Options -n and --duration are mutually exclusive."), "{err}");
}

#[test]
fn idle_connections_stay_until_the_server_ends_one() {
    let server = Process::start(&["--maxclients", "5"]);
    let (is_well, out, err) = run(&server, &["-c", "10", "-I"]);
    assert!(!is_well && out.contains("Creating 10 idle connections") && err.contains("Error"), "{err}");
}

#[test]
fn passwords_come_from_everywhere() {
    let server = Process::start(&[]);
    assert_eq!(server.connect().ask("CONFIG SET requirepass secret"), "OK");
    let (port, uri) = (server.port.to_string(), format!("valkey://:secret@127.0.0.1:{}", server.port));
    let with = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = generator(&["-p", &port, "-q", "-n", "10", "-t", "ping_mbulk"]);
        let (is_well, _, err) = printed(command.args(args).envs(variables.iter().copied()).output().unwrap());
        assert_eq!(is_well, err.is_empty(), "{err}");
        is_well
    };
    assert!(!with(&[], &[]) && with(&["-a", "secret"], &[]) && with(&["-u", &uri], &[]));
    for name in ["WARMLINECLI_AUTH", "VALKEYCLI_AUTH", "REDISCLI_AUTH"] {
        assert!(with(&[], &[(name, "secret")]) && with(&["-a", "secret"], &[(name, "other")]), "{name}");
    }
    assert!(!with(&["--user", "nobody"], &[("VALKEYCLI_AUTH", "secret")]));
}

#[test]
fn readers_may_leave_early() {
    let server = Process::start(&[]);
    let port = server.port.to_string();
    for args in [
        &["-t", "ping_mbulk", "-n", "100"][..],
        &["-t", "ping_mbulk", "-n", "100", "--csv"],
        &["-q", "-l", "-n", "10", "PING"],
        &["--help"],
        &["--generate", "man"],
        &["compare", "--list"],
        &["spec", "nothing.yml"],
    ] {
        // Without a peer.
        let (_, unread) = std::io::pipe().unwrap();
        let mut command = if args[0].starts_with('-') { generator(&["-p", &port]) } else { generator(&[]) };
        let (_, _, err) = printed(command.args(args).stdout(unread).output().unwrap());
        assert_eq!(err, "", "{args:?}");
    }
}

#[test]
fn the_manual_page_has_all_commands() {
    let (is_well, page, _) = printed(generator(&["--generate", "man"]).output().unwrap());
    assert!(is_well);
    for part in [
        ".SH SYNOPSIS\n\\fBwarmline\\-benchmark\\fR [\\fIoptions\\fR] [\\fIcommand\\fR]\n",
        ".SH COMPARE\n.SS SYNOPSIS\n\\fBwarmline\\-benchmark compare\\fR [\\fIoptions\\fR] [\\fIservers\\fR]\n",
        "\\fB\\-\\-preload\\-seconds\\fR",
        ".SH REPORT\n",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let (_, completions, _) = printed(generator(&["--generate", "bash"]).output().unwrap());
    assert!(completions.contains("compare spec report") && !completions.contains("compare spec report help"));
}

#[test]
fn a_warm_up_counts_for_nothing() {
    let server = Process::start(&[]);
    let (is_well, out, _) = run(&server, &["-t", "set", "-n", "100", "--warmup", "0.3"]);
    assert!(is_well && out.contains("  100 requests completed in 0."), "{out}");
    assert!(calls(&server, "set") > 100);
    let (is_well, out, _) = run(&server, &["-t", "set", "--warmup", "0.2", "--duration", "0.4"]);
    assert!(is_well && out.contains("completed in 0.40 seconds"), "{out}");
}

/// With one connection, a server that stalls for a third of the time delays one request, but all that were due
/// meanwhile would have waited.
#[test]
fn latencies_at_a_rate_count_from_when_requests_were_due() {
    let server = Process::start(&["--enable-debug-command", "yes"]);
    let port = server.port.to_string();
    let load =
        generator(&["-p", &port, "-c", "1", "-t", "ping_mbulk", "--rps", "500", "--duration", "3", "--csv"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    server.connect().ask("DEBUG SLEEP 1");
    let (is_well, out, err) = printed(load.wait_with_output().unwrap());
    assert!(is_well, "{err}");
    let line = out.lines().nth(1).unwrap();
    let figures: Vec<f64> =
        line.split(',').skip(1).map(|figure| figure.trim_matches('"').parse().unwrap()).collect();
    let [rate, mean, _, _, p95, _, max] = figures[..] else { panic!("{line}") };
    // Caught up with, in order: a third of the requests waited half a second on average.
    assert!(max > 900.0 && p95 > 500.0 && mean > 80.0, "{line}");
    assert!(rate > 400.0 && rate < 510.0, "{line}");
}

#[test]
fn servers_are_compared() {
    let server = format!("{} --port {{port}} --save ''", process::program());
    let port = free_port().to_string();
    let common = ["compare", "--port", &port, "--runs", "1", "--csv", &server, &server];
    let (is_well, out, err) =
        printed(generator(&common).args(["--cases", "ping-p1", "--scale", "0.01"]).output().unwrap());
    assert!(is_well, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[1].starts_with("\"ping-p1\",A,") && lines[2].starts_with("\"ping-p1\",B,"), "{out}");
    assert!(lines[1].ends_with(",1.000,1.000,1.000"), "{out}");

    let own = ["--command", "MGET key:__rand_int__ key:__rand_int__", "-r", "1000", "-n", "2000"];
    let (is_well, out, err) = printed(generator(&common).args(own).output().unwrap());
    assert!(is_well && out.lines().nth(2).is_some_and(|line| line.contains(",B,")), "{out}{err}");
    for odd in [["--scale", "nan"], ["--scale", "0"], ["--port", "65535"]] {
        let output = generator(&["compare", &server, &server]).args(odd).output().unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{odd:?}");
    }
    let (is_well, _, err) = printed(
        generator(&["compare", "nothing-of-this-name {port}", &server, "--port", &port]).output().unwrap(),
    );
    assert!(!is_well && err.contains("cannot start \"nothing-of-this-name {port}\""), "{err}");
}

const DEFINITION: &str = r#"
name: fields
dbconfig:
  configuration-parameters:
    save: '""'
    hash-max-listpack-entries: 8
  check:
    keyspacelen: 101
  preload_tool:
    tool: memtier_benchmark
    arguments: '--command "HSET __key__ field __data__" --command-key-pattern=P --key-minimum 1 --key-maximum 100
      --key-prefix "" -n allkeys -c 5 -t 2 --pipeline 3'
  init_commands:
  - '"SET" "a key" "of its own"'
clientconfig:
  tool: memtier_benchmark
  arguments: '--command "HGET __key__ field" --key-minimum 1 --key-maximum 100 --key-prefix "" -c 4 -t 2 --test-time 60'
"#;

#[test]
fn published_definitions_run_or_are_named() {
    let server = Process::start(&[]);
    let file = |name: &str, text: String| {
        let path = server.directory.join(name);
        fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let good = file("good.yml", DEFINITION.to_string());
    let unknown = file("unknown.yml", DEFINITION.replace("HGET __key__", "HFLY __key__"));
    let option = file("option.yml", DEFINITION.replace("hash-max", "hush-max"));
    let tool = file("tool.yml", DEFINITION.replace("tool: memtier_benchmark\n  arg", "tool: other\n  arg"));
    let port = server.port.to_string();
    let mut spec = generator(&["spec", "-p", &port, "--seconds", "0.3", &unknown, &option, &tool, &good]);
    let (is_well, out, err) = printed(spec.output().unwrap());
    assert!(is_well, "{err}");
    let line = |name: &str| out.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("good: ").contains(" requests per second, p50=") && !line("good: ").contains('('), "{out}");
    assert!(line("unknown: ").ends_with("NOT RUN: the server does not know its commands: HFLY"), "{out}");
    assert!(line("option: ").contains("NOT RUN: the server does not take its options: hush-max"), "{out}");
    assert!(line("tool: ").ends_with("NOT RUN: it needs other"), "{out}");
    assert!(out.contains("1 of 4 definitions ran"), "{out}");
    assert_eq!(server.connect().ask("DBSIZE"), "101");
    assert_eq!(server.connect().ask("HSTRLEN 100 field"), "32");
    assert!(calls(&server, "hget") > 100);
}

#[test]
fn a_page_of_results_is_made() {
    let server = Process::start(&[]);
    let out = server.directory.join("pages");
    let port = free_port().to_string();
    let (is_well, _, err) = printed(
        generator(&["report", "--sections", "e", "--scale", "0.01", "--runs", "1", "--port", &port])
            .args(["--warmline", &process::program(), "--out"])
            .arg(&out)
            .output()
            .unwrap(),
    );
    assert!(is_well && err.contains("all measured in"), "{err}");
    let page = fs::read_to_string(out.join("results.md")).unwrap();
    assert!(
        page.contains("| one listpack | listpack |") && page.contains("results/encodings-hash.svg"),
        "{page}"
    );
    assert!(fs::read_to_string(out.join("results.html")).unwrap().contains("<svg"));
    assert!(fs::read_to_string(out.join("results/encodings-list.svg")).unwrap().starts_with("<svg"));
}
