//! Periodic work on every connection: closes idle ones, and frees their unused memory.

use super::event_loop::{EventLoop, local};
use crate::session::ClientHandle;

/// Minimum number of connections per round.
const CONNECTIONS_PER_CRON_MIN: usize = 5;
const CONNECTIONS_PER_CRON_MAX: usize = 1000;

/// Position of the round through all connections.
#[derive(Debug, Default)]
pub struct ClientsCron {
    /// Next round, on the monotonic clock.
    next_us: u64,
    /// The next connection.
    index: usize,
    /// New clients are not accepted until the next round.
    pub listeners_rest: bool,
}

impl EventLoop {
    /// Checks a part of the connections, `hz` times a second, so that each is checked about once a second.
    pub(super) fn clients_cron_if_due(&mut self) {
        let server = &self.executor.server;
        let now_us = server.now.monotonic_us;
        if now_us < self.clients_cron.next_us {
            return;
        }
        let hz = server.config.hz as usize;
        self.clients_cron.next_us = now_us + 1_000_000 / hz as u64;
        let share = server.clients.len().div_ceil(hz);
        let paused = !server.switches.cron;
        self.rest_listeners(false);
        self.reload_certificates_if_due();
        self.executor.publish_readiness();
        if paused {
            return;
        }
        let mut left = share.clamp(CONNECTIONS_PER_CRON_MIN, CONNECTIONS_PER_CRON_MAX);
        for _ in 0..self.connections.len() {
            if left == 0 {
                return;
            }
            self.clients_cron.index = (self.clients_cron.index + 1) % self.connections.len();
            let index = self.clients_cron.index;
            if self.connections[index].is_some()
                && let Some(handle) = self.executor.server.clients.handle_at(index)
            {
                self.inspect_connection(handle);
                left -= 1;
            }
        }
    }

    fn inspect_connection(&mut self, handle: ClientHandle) {
        let last_interaction = self.executor.server.clients[handle].last_interaction;
        let idle_us = self.executor.server.now.monotonic_us - last_interaction.monotonic_us;
        if self.close_late_handshake(handle, idle_us) {
            return;
        }
        if let Some(connection) = local(&mut self.connections, handle) {
            let shrunk = connection.query_buffer.as_mut().map(|query_buffer| query_buffer.shrink(idle_us));
            if shrunk == Some(true) {
                connection.query_buffer = None;
            }
        }
        self.note_input(handle);
        self.executor.inspect_client(handle);
    }
}
