//! Modes that move much at once: snapshots, what replicas are sent, and commands in the protocol's own form.

use crate::process::{Running, Server};

/// A library that a snapshot may hold.
const LIBRARY: &str = "#!lua name=lib\nserver.register_function('f', function() return 1 end)";

pub fn snapshots_are_written_whole() {
    for diskless in ["yes", "no"] {
        let server = Server::start(&["--repl-diskless-sync", diskless]);
        let commands: String =
            (0..1000).map(|number| format!("set key:{number} {}\n", "x".repeat(number + 1))).collect();
        server.run_with_input(&[], commands.as_bytes());
        // Snapshots for releases before 9.0 have no form for it.
        server.ask(&["hsetex", "expiring", "ex", "1000", "fields", "1", "field", "value"]);
        assert_eq!(server.ask(&["function", "load", LIBRARY]), "lib");
        for (option, keys) in [("--rdb", "1001"), ("--functions-rdb", "0")] {
            let path = server.path("copy.rdb");
            std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
            let output = server.run(&[option, &path]);
            assert_eq!(output.code, 0, "{output:?}");
            assert!(output.stderr.contains("sending REPLCONF capa eof\n"), "{output:?}");
            assert!(output.stderr.contains("Transfer finished with success"), "{output:?}");
            let copy =
                Server::start(&["--dbfilename", "copy.rdb", "--dir", server.directory.to_str().unwrap()]);
            assert_eq!(copy.ask(&["dbsize"]), keys);
            assert!(copy.ask(&["function", "list"]).contains("\nlib\n"));
            std::fs::create_dir_all(&copy.directory).unwrap();
        }
        let to_stdout = server.run(&["--functions-rdb", "-"]);
        assert!(
            to_stdout.stdout.starts_with("VALKEY") || to_stdout.stdout.starts_with("REDIS"),
            "{to_stdout:?}"
        );
        let unwritable = server.run(&["--rdb", "/nothing/copy.rdb"]);
        let expected = "Error opening '/nothing/copy.rdb': No such file or directory\n";
        assert!(unwritable.stderr.ends_with(expected), "{unwritable:?}");
        assert_eq!(unwritable.code, 1);
        let left: Vec<_> = std::fs::read_dir(&server.directory).unwrap().flatten().collect();
        assert!(left.iter().all(|file| !file.file_name().to_string_lossy().ends_with(".part")), "{left:?}");
    }
}

pub fn replicas_are_shown_what_comes() {
    for diskless in ["yes", "no"] {
        let server = Server::start(&["--repl-diskless-sync", diskless]);
        server.ask(&["set", "before", "1"]);
        server.ask(&["hsetex", "expiring", "ex", "1000", "fields", "1", "field", "value"]);
        let mut replica = Running::start(&mut server.client(&["--replica"]));
        replica.read_to("Logging commands from primary.\n");
        let begin = std::time::Instant::now();
        while !server.ask(&["info", "replication"]).contains("state=online") {
            assert!(begin.elapsed() < crate::process::PATIENCE);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        server.ask(&["set", "after", "two words"]);
        replica.read_to("\"set\",\"after\",\"two words\"\n");
        server.ask(&["client", "kill", "type", "replica"]);
        replica.read_to("Error: Server closed the connection\n");
        assert_eq!(replica.end(), 1);
    }
}

pub fn commands_in_the_protocol_are_piped() {
    let server = Server::start(&[]);
    let mut input = Vec::new();
    for _ in 0..1000 {
        input.extend_from_slice(b"*2\r\n$4\r\nincr\r\n$1\r\nn\r\n");
        input.extend_from_slice(b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$2000\r\n");
        input.extend([b'x'; 2000]);
        input.extend_from_slice(b"\r\n");
    }
    let output = server.run_with_input(&["--pipe"], &input);
    let expected = "All data transferred. Waiting for the last reply...\nLast reply received from server.\nerrors: 0, \
                    replies: 2000\n";
    assert_eq!((output.stdout.as_str(), output.code), (expected, 0));
    assert_eq!(server.ask(&["get", "n"]), "1000");
    let output = server.run_with_input(&["--pipe"], b"*1\r\n$3\r\nget\r\n*1\r\n$4\r\nping\r\n");
    assert!(output.stdout.ends_with("errors: 1, replies: 2\n"), "{output:?}");
    assert!(output.stderr.contains("ERR wrong number of arguments for 'get' command\n"), "{output:?}");
    assert_eq!(output.code, 1);
}
