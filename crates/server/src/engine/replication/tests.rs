//! Traces of the state machines: events, and below each event, indented, the actions. `UPDATE=1` writes the traces. An
//! event is a line of words, which the file of each machine lists; a blank line starts a new machine.

mod failover;
mod handshake;
mod link_timers;
mod reservations;
mod sync_plan;

use std::path::Path;

/// A state machine, with the state on which it depends.
trait Machine {
    fn new() -> Self;
    /// Takes an event; returns the actions as the trace shows them.
    fn play(&mut self, word: &str, rest: &str) -> Vec<String>;
}

/// Compares the machine's actions with its trace.
fn follow_trace<M: Machine>(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/traces/{name}.trace"));
    let text = std::fs::read_to_string(&path).expect("the trace is part of the source");
    let (mut machine, mut seen) = (M::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        seen += &format!("{line}\n");
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" => machine = M::new(),
            "#" => {}
            _ => machine.play(word, rest).iter().for_each(|action| seen += &format!("    {action}\n")),
        }
    }
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, &seen).expect("the folder of traces can be written");
    }
    assert_eq!(seen, std::fs::read_to_string(&path).expect("it has been read before"));
}
