//! TLS connections in the executor's thread: finished and failed handshakes, and decrypted input without an event.

use super::connection::{HANDSHAKE_TOO_LATE, HANDSHAKE_US_MAX};
use super::event_loop::{EventLoop, local};
use super::poller::{Readiness, Token};
use super::query_buffer::Transfer;
use super::transport::Transport;
use crate::session::ClientHandle;

impl EventLoop {
    /// Reads connections with input that no event announces. None of them was read in this turn: reading the end closes
    /// a connection, and its pending output must be written first.
    #[cold]
    pub(super) fn serve_unread(&mut self, listed: Vec<ClientHandle>) {
        for handle in listed {
            if let Some(connection) = local(&mut self.connections, handle)
                && std::mem::replace(&mut connection.is_listed, false)
            {
                let token = Token::Connection(handle);
                self.serve(handle, &Readiness { token, readable: true, writable: false, hung_up: false });
            }
        }
    }

    /// Handles the TLS events of a read.
    pub(super) fn follow_tls(&mut self, handle: ClientHandle, transfer: Transfer) {
        let Some(connection) = local(&mut self.connections, handle) else { return };
        let Transport::Tls(tls) = &mut connection.transport else { return };
        if tls.is_newly_established() {
            let certificate = tls.peer_certificate().map(<[u8]>::to_vec);
            self.handshake_done(handle, certificate.as_deref());
        } else if transfer == Transfer::Closed
            && let Some(reason) = tls.handshake_failure()
        {
            self.note_failed_handshake(handle, &reason);
        }
    }

    /// Admits a client's requests, as the user that its certificate names.
    pub(super) fn handshake_done(&mut self, handle: ClientHandle, certificate: Option<&[u8]>) {
        let server = &mut self.executor.server;
        if server.clients.get(handle).is_none() {
            return;
        }
        server.clients[handle].connection.is_handshaking = false;
        if let Some(certificate) = certificate {
            server.log_in_by_certificate(handle, certificate);
        }
    }

    pub(super) fn note_failed_handshake(&mut self, handle: ClientHandle, reason: &str) {
        if let Some(client) = self.executor.server.clients.get(handle) {
            let (address, local_address) = (&client.connection.address, &client.connection.local_address);
            log::warn!(
                "Error accepting a client connection: {reason} (addr={address} laddr={local_address})"
            );
        }
    }

    /// Closes a connection whose handshake takes too long; returns whether it was one.
    pub(super) fn close_late_handshake(&mut self, handle: ClientHandle, idle_us: u64) -> bool {
        let handshaking = |connection: &mut super::connection::Connection| {
            connection.transport.is_handshaking() && !connection.is_connecting
        };
        let is_late =
            idle_us > HANDSHAKE_US_MAX && local(&mut self.connections, handle).is_some_and(handshaking);
        if is_late {
            self.note_failed_handshake(handle, HANDSHAKE_TOO_LATE);
            self.close(handle);
        }
        is_late
    }

    /// Reloads certificates that have changed.
    pub(super) fn reload_certificates_if_due(&mut self) {
        let interval_s = self.executor.server.config.tls_auto_reload_interval_seconds;
        let now_us = self.executor.server.now.monotonic_us;
        self.tls.borrow_mut().reload_if_due(interval_s, now_us);
    }
}
