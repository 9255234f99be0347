//! Periodic work on every connection: closes idle ones, and frees their unused memory.

use super::connection::Stay;
use super::event_loop::EventLoop;
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
        let indexes = self.connection_indexes();
        for _ in 0..indexes {
            if left == 0 {
                return;
            }
            self.clients_cron.index = (self.clients_cron.index + 1) % indexes;
            if let Some(handle) = self.executor.server.clients.handle_at(self.clients_cron.index)
                && self.has_connection(handle)
            {
                self.inspect_connection(handle);
                left -= 1;
            }
        }
    }

    fn inspect_connection(&mut self, handle: ClientHandle) {
        let last_interaction = self.executor.server.clients[handle].last_interaction;
        let idle_us = self.executor.server.now.monotonic_us - last_interaction.monotonic_us;
        self.serve(handle, |connection, _, inline| {
            let stay = connection.inspect(idle_us, inline);
            if stay == Stay::Stays {
                inline.store_input_figures(connection);
            }
            stay
        });
        if self.has_connection(handle) {
            self.executor.inspect_client(handle);
        }
    }
}
