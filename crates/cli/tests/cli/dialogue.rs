//! Commands line by line, from a program that takes the place of a user.

use crate::process::{Running, Server};

fn dialogue(server: &Server) -> Running {
    Running::start(server.client(&[]).env("FAKETTY", "1"))
}

pub fn lines_and_their_replies() {
    let server = Server::start(&[]);
    let output = server.run_with_input(
        &["--no-raw"],
        b"set key \"a\\nb\"\n\n2 append key x\nget key\nset 'unbalanced\n0 ping\n:set nothing\n:go\nquit\nping\n",
    );
    let expected = "OK\n(integer) 4\n(integer) 5\n\"a\\nbxx\"\nInvalid argument(s)\n\
                    Invalid warmline-cli repeat command option value.\nunknown warmline-cli preference 'nothing'\n\
                    unknown warmline-cli internal command ':go'\n";
    assert_eq!((output.stdout.as_str(), output.code), (expected, 0));
    let help = server.run_with_input(&[], b"help\nhelp @geo\nhelp object freq\n").stdout;
    assert!(
        help.contains("help @<group>") && help.contains("GEOADD") && help.contains("OBJECT FREQ"),
        "{help}"
    );
}

pub fn subscriptions_and_commands_between_them() {
    let server = Server::start(&[]);
    let mut user = dialogue(&server);
    let notice = "Reading messages... (press Ctrl-C to quit or any key to type command)\r";
    user.type_line("subscribe ch1 ch2");
    let confirmed =
        "1) \"subscribe\"\n2) \"ch1\"\n3) (integer) 1\n1) \"subscribe\"\n2) \"ch2\"\n3) (integer) 2\n";
    assert_eq!(user.read_to("command)\r"), format!("{confirmed}{notice}"));
    server.ask(&["publish", "ch2", "hello"]);
    let message = "\x1b[K1) \"message\"\n2) \"ch2\"\n3) \"hello\"\n";
    assert_eq!(user.read_to("command)\r"), format!("{message}{notice}"));
    user.type_line("get k");
    assert!(user.read_to("command)\r").starts_with("\x1b[K(error) ERR Can't execute 'get'"));
    user.type_line(":get pubsub");
    assert_eq!(user.read_to("command)\r"), format!("\x1b[K1\n{notice}"));
    user.type_line("unsubscribe ch1 ch2");
    user.read_to("(integer) 0\n");
    user.type_line("ping");
    user.read_to("PONG\n");
    // Ctrl-C ends the subscriptions, not the dialogue.
    user.type_line("subscribe ch3");
    user.read_to("command)\r");
    user.interrupt();
    user.read_to("Closing current connection. Ready to reconnect to Warmline server... \n");
    user.type_line("ping");
    user.read_to("PONG\n");
    assert_eq!(user.end(), 0);
}

pub fn what_monitor_shows_ends_with_an_interrupt() {
    let server = Server::start(&[]);
    let mut user = dialogue(&server);
    user.type_line("monitor");
    user.read_to("OK\n");
    server.ask(&["echo", "seen"]);
    user.read_to("\"seen\"\n");
    user.interrupt();
    user.type_line("ping");
    user.read_to("PONG\n");
}

pub fn lost_connections_are_made_anew_with_their_database() {
    let server = Server::start(&[]);
    let mut user = dialogue(&server);
    user.type_line("select 9");
    user.read_to("OK\n");
    server.ask(&["client", "kill", "type", "normal"]);
    user.type_line("set x 1");
    user.read_to("Error: Server closed the connection\n");
    user.type_line("set x 2");
    user.read_to("OK\n");
    assert_eq!(server.ask(&["-n", "9", "get", "x"]), "2");
    user.type_line("shutdown nosave");
    user.type_line("ping");
    user.read_to("Could not connect to Warmline at 127.0.0.1:");
    assert_eq!(user.end(), 0);
}

pub fn interrupts_end_what_is_not_watched() {
    let server = Server::start(&[]);
    let mut user = dialogue(&server);
    user.type_line("ping");
    user.read_to("PONG\n");
    user.type_line("blpop nothing 0");
    std::thread::sleep(std::time::Duration::from_millis(300));
    user.interrupt();
    assert_eq!(user.end(), 1);
}
