//! `--cluster` where there is none.

use crate::process::Server;

pub fn a_server_of_its_own_is_no_cluster() {
    let server = Server::start(&[]);
    let address = format!("127.0.0.1:{}", server.port);
    for command in [["check", &address].as_slice(), &["info", &address], &["call", &address, "ping"]] {
        let output = server.run(&[&["--cluster"], command].concat());
        let expected = format!("[ERR] Node {address} is not configured as a cluster node.\n");
        assert_eq!((output.stdout, output.code), (expected, 1), "{command:?}");
    }
    let help = server.run(&["--cluster", "help"]);
    assert!(help.stdout.starts_with("Cluster Manager Commands:\n  check ") && help.code == 0, "{help:?}");
    for (words, complaint) in [
        (["nothing", ""], "Unknown --cluster subcommand\n"),
        (
            ["create", &address],
            "[ERR] warmline-cli does not support --cluster create: it changes no cluster\n",
        ),
        (["call", &address], "[ERR] Wrong number of arguments for specified --cluster sub command\n"),
        (["info", "here"], "[ERR] Invalid arguments: you need to pass either a valid address"),
        (["set-timeout", "x"], "[ERR] Wrong number of arguments"),
    ] {
        let output = server.run(&["--cluster", words[0], words[1]]);
        assert!(output.stderr.starts_with(complaint) && output.code == 1, "{output:?}");
    }
}
