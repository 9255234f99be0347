//! The events of the trace of reservations:
//!
//! ```text
//! at MILLISECONDS                         the time from now on
//! timeout SECONDS                         repl-timeout; 60 at first
//! free-delay SECONDS                      how long the stream is kept after the rdb channel has closed; 5 at first
//! limit HARD SOFT SECONDS                 how many bytes replicas may be behind; none at first
//! begun NUMBER OFFSET [no-backlog]        the snapshot of an rdb channel begins
//! take-up NUMBER                          a main channel names that rdb channel
//! closed NUMBER | failed NUMBER           what happens to an rdb channel
//! fed OFFSET                              the stream ends here now
//! tick | parted
//! ```

use super::{Machine, follow_trace};
use crate::config::OutputBufferLimit;
use crate::engine::replication::OutputLimit;
use crate::engine::replication::reservations::{Action, Event, Facts, RdbChannel, Reservations};
use crate::session::{ClientHandle, ClientId};

struct Player {
    reservations: Reservations,
    facts: Facts,
    limit: OutputBufferLimit,
}

fn shown(action: &Action) -> String {
    match action {
        Action::Log(level, text) => format!("log {}: {text}", level.as_str().to_lowercase()),
        Action::Close(handle) => format!("Close {}", handle.to_bits()),
        Action::NoteExceededLimit { client_id, address } => {
            format!("NoteExceededLimit {}, {address}", client_id.0)
        }
    }
}

fn number_of(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn channel_of(text: &str) -> RdbChannel {
    let words: Vec<&str> = text.split(' ').collect();
    RdbChannel {
        client_id: ClientId(number_of(words[0])),
        handle: ClientHandle::from_bits(number_of(words[0])),
        address: format!("10.0.0.{}:40000", words[0]),
        name: format!("10.0.0.{}:6379", words[0]),
        position: number_of(words[1]),
        holds_bytes: words.get(2) != Some(&"no-backlog"),
    }
}

impl Player {
    fn step(&mut self, event: Event<'_>) -> Vec<String> {
        let actions = self.reservations.step(event, self.facts);
        actions.iter().map(shown).chain([self.kept()]).collect()
    }

    /// What others read of the reservations after each event.
    fn kept(&self) -> String {
        let numbers: Vec<String> =
            self.reservations.client_ids().map(|client_id| client_id.0.to_string()).collect();
        match self.reservations.slowest() {
            Some(position) => format!("= kept from {position} on, for {}", numbers.join(" ")),
            None => "= nothing is kept".to_owned(),
        }
    }

    fn arrange(&mut self, word: &str, rest: &str) {
        match word {
            "at" => self.facts.now_us = number_of(rest) * 1000,
            "timeout" => self.facts.timeout_s = number_of(rest),
            "free-delay" => self.facts.free_delay_s = number_of(rest),
            "limit" => {
                let numbers: Vec<u64> = rest.split(' ').map(number_of).collect();
                let [hard_bytes, soft_bytes, soft_seconds] = numbers[..] else { panic!("{rest:?}") };
                self.limit = OutputBufferLimit { hard_bytes, soft_bytes, soft_seconds };
            }
            _ => panic!("{word:?} is no event"),
        }
    }
}

impl Machine for Player {
    fn new() -> Self {
        Player {
            reservations: Reservations::default(),
            facts: Facts { now_us: 0, timeout_s: 60, free_delay_s: 5 },
            limit: OutputBufferLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 },
        }
    }

    fn play(&mut self, word: &str, rest: &str) -> Vec<String> {
        let handle = || ClientHandle::from_bits(number_of(rest));
        match word {
            "begun" => self.step(Event::Begun(channel_of(rest))),
            "closed" => self.step(Event::Closed(handle())),
            "failed" => self.step(Event::Failed(handle())),
            "tick" => self.step(Event::Tick),
            "parted" => self.step(Event::Parted),
            "fed" => {
                let limit = OutputLimit::new(self.limit, 0, self.facts.now_us);
                self.step(Event::Fed { end: number_of(rest), limit: &limit })
            }
            "take-up" => {
                let taken = match self.reservations.take_up(ClientId(number_of(rest))) {
                    Some(channel) => format!("= handed over from {} on", channel.position),
                    None => "= unknown".to_owned(),
                };
                vec![taken, self.kept()]
            }
            _ => {
                self.arrange(word, rest);
                Vec::new()
            }
        }
    }
}

#[test]
fn reservations_do_what_their_traces_show() {
    follow_trace::<Player>("reservations");
}
