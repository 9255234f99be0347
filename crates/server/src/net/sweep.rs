//! What is done for every connection now and then: idle ones are closed, and give back memory that they do not use.

use super::host::{Host, here};
use crate::session::ClientSlot;

/// Connections looked at in one sweep, if there are as many.
const CONNECTIONS_PER_SWEEP_MIN: usize = 5;
const CONNECTIONS_PER_SWEEP_MAX: usize = 1000;

/// Where the round through all connections stands.
#[derive(Debug, Default)]
pub struct Sweep {
    /// On the monotonic clock.
    next_us: u64,
    /// The connection to be looked at next.
    index: usize,
    /// New clients are not accepted until the next sweep.
    pub listeners_rest: bool,
}

impl Host {
    /// Looks at so many connections, `hz` times a second, that each has its turn about once a second.
    pub(super) fn sweep_if_due(&mut self) {
        let server = &self.executor.server;
        let now_us = server.now.monotonic_us;
        if now_us < self.sweep.next_us {
            return;
        }
        let hz = server.config.hz as usize;
        self.sweep.next_us = now_us + 1_000_000 / hz as u64;
        let share = server.clients.len().div_ceil(hz);
        let paused = !server.switches.cron;
        self.rest_listeners(false);
        if paused {
            return;
        }
        let mut left = share.clamp(CONNECTIONS_PER_SWEEP_MIN, CONNECTIONS_PER_SWEEP_MAX);
        for _ in 0..self.seats.len() {
            if left == 0 {
                return;
            }
            self.sweep.index = (self.sweep.index + 1) % self.seats.len();
            if self.seats[self.sweep.index].is_some() {
                self.sweep_connection(ClientSlot(self.sweep.index as u32));
                left -= 1;
            }
        }
    }

    fn sweep_connection(&mut self, slot: ClientSlot) {
        let last_interaction = self.executor.server.clients[slot].last_interaction;
        let idle_us = self.executor.server.now.monotonic_us - last_interaction.monotonic_us;
        if let Some(connection) = here(&mut self.seats, slot) {
            let shrunk = connection.intake.as_mut().map(|intake| intake.shrink(idle_us));
            if shrunk == Some(true) {
                connection.intake = None;
            }
        }
        self.note_input(slot);
        self.executor.sweep_client(slot);
    }
}
