//! A dialogue at a pseudo-terminal, which `script` makes.

use std::process::Command;

use crate::process::{Running, Server, client};

/// A terminal of ten rows.
fn at_terminal(server: &Server, program: &str) -> Running {
    let mut command = Command::new("script");
    command.args(["-qfec", &format!("stty rows 10 cols 100; exec {program}"), "/dev/null"]);
    // What the client would have in its environment, and nothing else of its own.
    command.envs(client().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("HOME", &server.directory).env("TERM", "xterm").env_remove("NO_COLOR");
    command.env("WARMLINECLI_PAGER", "sed 's/^/paged: /'");
    Running::start(&mut command)
}

pub fn typing_is_helped() {
    let server = Server::start(&[]);
    let program = format!("{} -p {}", env!("CARGO_BIN_EXE_warmline-cli"), server.port);
    std::fs::write(server.path(".warmlineclirc"), ":set nothing\n").unwrap();
    let mut user = at_terminal(&server, &program);
    user.read_to(".warmlineclirc: unknown warmline-cli preference 'nothing'\r\n");
    user.read_to(&format!("127.0.0.1:{}> ", server.port));
    user.press("getex greeting ");
    user.read_to("[EX seconds|PX milliseconds|");
    user.press("ex 100\r");
    user.read_to("(nil)");
    user.press("zran\t\t");
    user.read_to("zrangebylex");
    // Clears the line.
    user.press("\x15");
    user.press("set greeting\r");
    user.read_to("\x1b[31m(error) ERR wrong number of arguments for 'set' command\x1b[0m");
    user.press("auth secret\r");
    user.read_to("(error)");
    // Several lines at once, as a terminal pastes them.
    user.press("\x1b[200~set a 1\rincr a\x1b[201~\r");
    user.read_to("\x1b[36m2\x1b[0m");
    user.press("multi\r");
    user.read_to("(TX)> ");
    user.press("discard\r");
    user.read_to("OK");
    user.press("quit\r");
    assert_eq!(user.end(), 0);
    let history = std::fs::read_to_string(server.path(".warmlinecli_history")).unwrap();
    assert_eq!(history, "getex greeting ex 100\nset greeting\nset a 1\nincr a\nmulti\ndiscard\nquit\n");
}

pub fn long_replies_are_paged() {
    let server = Server::start(&[]);
    server.ask(&["rpush", "list", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]);
    let program = format!("{} -p {}", env!("CARGO_BIN_EXE_warmline-cli"), server.port);
    let mut user = at_terminal(&server, &program);
    user.press(":set nocolor\r");
    user.press("lrange list 0 2\r");
    user.read_to("\n3) \"c\"");
    user.press("lrange list 0 -1\r");
    user.read_to("paged: 11) \"k\"");
    user.press(":set nopager\r");
    user.press("lrange list 0 -1\r");
    assert!(!user.read_to("\n11) \"k\"").contains("paged: "));
}

pub fn keys_interrupt_the_wait_for_messages() {
    let server = Server::start(&[]);
    let program = format!("{} -p {}", env!("CARGO_BIN_EXE_warmline-cli"), server.port);
    let mut user = at_terminal(&server, &program);
    user.press("subscribe news\r");
    user.read_to("any key to type command)\r");
    server.ask(&["publish", "news", "first"]);
    user.read_to("first");
    user.read_to("any key to type command)\r");
    user.press("p");
    user.read_to("(subscribed mode)> ");
    user.press("ing\r");
    user.read_to("pong");
    user.read_to("any key to type command)\r");
    // Ctrl-C
    user.press("\x03");
    user.read_to("Ready to reconnect to Warmline server...");
    user.press("ping\r");
    user.read_to("PONG");
    // Ctrl-D
    user.press("\x04");
    assert_eq!(user.end(), 0);
}

pub fn long_work_shows_how_far_it_is() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    server.run_with_input(&[], "debug populate 20000\n".as_bytes());
    let program = format!("{} -p {} --memkeys -i 0.02", env!("CARGO_BIN_EXE_warmline-cli"), server.port);
    let mut user = at_terminal(&server, &program);
    user.read_to(" of 20,000 keys, ");
    user.read_to("Sampled 20000 keys in the keyspace!");
}
