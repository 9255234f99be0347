//! The events of the trace of the link's timers:
//!
//! ```text
//! at MILLISECONDS                 the time from now on
//! timeout SECONDS                 repl-timeout; 60 at first
//! failing-over | failed-over      a failover begins and ends
//! tick PHASE                      time has passed
//! input | lost | refused          what happens to the connection
//! ```

use super::{Machine, follow_trace};
use crate::engine::replication::link_timers::{Event, Facts, Phase, Timers};

struct Player {
    timers: Timers,
    facts: Facts,
}

impl Machine for Player {
    fn new() -> Self {
        let facts = Facts { now_us: 0, timeout_us: 60_000_000, is_failing_over: false };
        Player { timers: Timers::default(), facts }
    }

    fn play(&mut self, word: &str, rest: &str) -> Vec<String> {
        let number = || rest.parse::<u64>().expect("a number follows");
        let event = match word {
            "at" => {
                self.facts.now_us = number() * 1000;
                return Vec::new();
            }
            "timeout" => {
                self.facts.timeout_us = number() * 1_000_000;
                return Vec::new();
            }
            "failing-over" | "failed-over" => {
                self.facts.is_failing_over = word == "failing-over";
                return Vec::new();
            }
            "input" => {
                self.timers.note_input(self.facts.now_us);
                return Vec::new();
            }
            "lost" => Event::Lost,
            "refused" => Event::Refused,
            "tick" => Event::Tick(match rest {
                "to-connect" => Phase::ToConnect,
                "connecting" => Phase::Connecting,
                "receiving" => Phase::Receiving,
                "loading" => Phase::Loading,
                "applying" => Phase::Applying,
                _ => panic!("{rest:?} is no phase"),
            }),
            _ => panic!("{word:?} is no event"),
        };
        let actions = self.timers.step(event, self.facts);
        actions.iter().map(|action| format!("{action:?}")).collect()
    }
}

#[test]
fn the_timers_of_the_link_do_what_their_traces_show() {
    follow_trace::<Player>("link_timers");
}
