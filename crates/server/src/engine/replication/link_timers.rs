//! Timers of the link to the primary: connections, acknowledgements, and the timeout of a silent primary. A state machine,
//! as the handshake: [`Timers::step`] takes an event and the time, and returns actions.
//!
//! ```text
//! phase         at each period within the timeout              beyond the timeout
//! ToConnect     connects, after the delay of a retry           the same
//! Connecting    -                                              reconnects
//! Receiving     -                                              reconnects
//! Loading       -                                              -
//! Applying      reports the offset                             reconnects
//! ```

/// Period of the timers.
const PERIOD_US: u64 = 1_000_000;
/// Period of the timers during a failover, when there is no primary yet.
const FAILOVER_PERIOD_US: u64 = 100_000;
/// Delay before the next connection, after a stream or snapshot that could not be applied.
const RETRY_DELAY_US: u64 = 5_000_000;

/// Phase of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    ToConnect,
    /// It connects, or the handshake is in progress.
    Connecting,
    /// A snapshot is received.
    Receiving,
    /// A snapshot is loaded, while the primary may be silent.
    Loading,
    /// The stream is applied.
    Applying,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Time has passed.
    Tick(Phase),
    /// The connection has ended.
    Lost,
    /// The primary's input cannot be applied: the next connection is delayed.
    Refused,
}

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Connect,
    /// Close the connection and connect again: the primary is silent for too long.
    Reconnect {
        why: &'static str,
    },
    Acknowledge,
    /// Publish the state of the link.
    Publish,
}

/// State on which the timers depend; times are on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Present time.
    pub now_us: u64,
    /// The option `repl-timeout`.
    pub timeout_us: u64,
    /// A failover transfers this server's role to the primary.
    pub is_failing_over: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    /// Time of the last input from the primary, or of the last change of phase.
    last_input_us: u64,
    /// Next run.
    next_us: u64,
    /// Earliest time of a connection.
    retry_us: u64,
}

impl Timers {
    /// Returns the time of the last input from the primary.
    pub fn last_input_us(&self) -> u64 {
        self.last_input_us
    }

    /// Records input from the primary, or a change of phase, which restarts the timeout.
    #[inline]
    pub fn note_input(&mut self, now_us: u64) {
        self.last_input_us = now_us;
    }

    /// Takes an event; returns the actions.
    pub fn step(&mut self, event: Event, facts: Facts) -> Vec<Action> {
        let period_us = if facts.is_failing_over { FAILOVER_PERIOD_US } else { PERIOD_US };
        match event {
            Event::Tick(_) if facts.now_us < self.next_us => return Vec::new(),
            Event::Tick(phase) => {
                self.next_us = facts.now_us + period_us;
                return self.due(phase, facts).into_iter().chain([Action::Publish]).collect();
            }
            Event::Lost => self.next_us = facts.now_us + period_us,
            Event::Refused => self.retry_us = facts.now_us + RETRY_DELAY_US,
        }
        Vec::new()
    }

    fn due(&self, phase: Phase, facts: Facts) -> Option<Action> {
        let is_silent = facts.now_us - self.last_input_us > facts.timeout_us;
        let why = match phase {
            Phase::ToConnect if facts.now_us >= self.retry_us => return Some(Action::Connect),
            Phase::Applying if !is_silent => return Some(Action::Acknowledge),
            Phase::ToConnect | Phase::Loading => return None,
            _ if !is_silent => return None,
            Phase::Connecting => "Timeout connecting to the PRIMARY...",
            Phase::Receiving => {
                "Timeout receiving bulk data from PRIMARY... If the problem persists try to set the 'repl-timeout' parameter in valkey.conf to a larger value."
            }
            Phase::Applying => "PRIMARY timeout: no data nor PING received...",
        };
        Some(Action::Reconnect { why })
    }
}
