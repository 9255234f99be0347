//! The executor's part of TLS handshakes: admission after their end, and the reload of certificates.

use super::event_loop::EventLoop;
use crate::engine::Executor;
use crate::session::ClientHandle;

/// Admits a client's requests, with the user that its certificate names.
pub(super) fn finish_handshake(executor: &mut Executor, handle: ClientHandle, certificate: Option<&[u8]>) {
    let server = &mut executor.server;
    if server.clients.get(handle).is_none() {
        return;
    }
    server.clients[handle].connection.is_handshaking = false;
    if let Some(certificate) = certificate {
        server.log_in_by_certificate(handle, certificate);
    }
}

/// Logs the error of a failed handshake.
pub(super) fn log_failed_handshake(executor: &Executor, handle: ClientHandle, reason: &str) {
    if let Some(client) = executor.server.clients.get(handle) {
        let (address, local_address) = (&client.connection.address, &client.connection.local_address);
        log::warn!("Error accepting a client connection: {reason} (addr={address} laddr={local_address})");
    }
}

impl EventLoop {
    /// Reloads certificates that have changed.
    pub(super) fn reload_certificates_if_due(&mut self) {
        let interval_s = self.executor.server.config.tls_auto_reload_interval_seconds;
        let now_us = self.executor.server.now.monotonic_us;
        self.tls.borrow_mut().reload_if_due(interval_s, now_us);
    }
}
