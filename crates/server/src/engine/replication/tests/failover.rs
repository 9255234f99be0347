//! The events of the trace of failovers:
//!
//! ```text
//! at MILLISECONDS                                     the time from now on
//! offset NUMBER                                       the end of the stream
//! replica HOST PORT online | syncing ACKNOWLEDGED     a replica attaches, or its state changes; -: nothing acknowledged
//! gone HOST PORT                                      a replica disconnects
//! role primary | replica                              this server's role
//! request [to HOST PORT] [force] [timeout MILLISECONDS]
//! abort                                               FAILOVER ABORT
//! tick | request-sent | taken-over | refused LINE     the next event
//! ```

use super::{Machine, follow_trace};
use crate::engine::replication::failover::{Action, Candidate, Event, Facts, Failover};
use crate::server::FailoverRequest;

struct Player {
    failover: Failover,
    now_us: u64,
    offset: u64,
    is_replica: bool,
    replicas: Vec<Candidate>,
}

fn shown(action: &Action) -> String {
    match action {
        Action::Log(text) => format!("log info: {text}"),
        Action::Follow(target) => format!("Follow {}:{}", target.host.escape_ascii(), target.port),
        other => format!("{other:?}"),
    }
}

fn request_of(text: &str) -> FailoverRequest {
    let mut request = FailoverRequest { target: None, force: false, timeout_ms: None };
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let mut next = || words.next().expect("another word follows");
        match word {
            "to" => request.target = Some((next().as_bytes().to_vec(), next().parse().expect("a port"))),
            "force" => request.force = true,
            "timeout" => request.timeout_ms = Some(next().parse().expect("milliseconds")),
            _ => panic!("{word:?} is nothing that FAILOVER takes"),
        }
    }
    request
}

impl Player {
    fn change(&mut self, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        let [host, port, state, acknowledged] = words[..] else { panic!("{text:?} is no replica") };
        let candidate = Candidate {
            address: host.to_owned(),
            port: port.parse().expect("a port"),
            is_online: state == "online",
            acknowledged: acknowledged.parse().ok(),
        };
        let known =
            |other: &&mut Candidate| other.address == candidate.address && other.port == candidate.port;
        match self.replicas.iter_mut().find(known) {
            Some(known) => *known = candidate,
            None => self.replicas.push(candidate),
        }
    }
}

impl Machine for Player {
    fn new() -> Self {
        let failover = Failover::default();
        Player { failover, now_us: 0, offset: 1000, is_replica: false, replicas: Vec::new() }
    }

    fn play(&mut self, word: &str, rest: &str) -> Vec<String> {
        let number = || rest.parse::<u64>().expect("a number follows");
        let event = match word {
            "request" => Event::Requested(request_of(rest)),
            "abort" => Event::AbortRequested,
            "tick" => Event::Tick,
            "request-sent" => Event::RequestSent,
            "taken-over" => Event::TakenOver,
            "refused" => Event::Refused(rest.as_bytes()),
            _ => {
                match word {
                    "at" => self.now_us = number() * 1000,
                    "offset" => self.offset = number(),
                    "replica" => self.change(rest),
                    "gone" => {
                        self.replicas
                            .retain(|replica| format!("{} {}", replica.address, replica.port) != rest);
                    }
                    "role" => self.is_replica = rest == "replica",
                    _ => panic!("{word:?} is no event"),
                }
                return Vec::new();
            }
        };
        let (now_us, offset, is_replica) = (self.now_us, self.offset, self.is_replica);
        let actions =
            self.failover.step(event, &Facts { now_us, offset, is_replica, replicas: &self.replicas });
        actions.iter().map(shown).chain(self.promise()).collect()
    }
}

impl Player {
    /// What others read of the failover after each step.
    fn promise(&self) -> Option<String> {
        let state = self.failover.state().name();
        let until = self.failover.deadline_us().map_or(String::new(), |us| format!(", until {}", us / 1000));
        let asks = self.failover.handover().map_or("", |handover| match handover {
            handover if handover.is_primary && handover.gives_way => ", asks a primary, takes its data",
            handover if handover.is_primary => ", asks a primary",
            _ => ", asks to take over",
        });
        Some(format!("= {state}{until}{asks}"))
    }
}

#[test]
fn a_failover_does_what_its_traces_show() {
    follow_trace::<Player>("failover");
}
