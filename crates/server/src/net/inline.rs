//! The exchange of the executor's own connections: requests are collected into the batch, outputs are written without a
//! copy, and limits are enforced at once.

use super::by_handle::OfClient;
use super::connection::{Connection, Exchange, Sent, Stay};
use super::handshakes::{finish_handshake, log_failed_handshake};
use super::outgoing::receive_bytes;
use super::query_buffer::{QueryBuffer, QueryBuffers};
use super::replicas::write_to_replica;
use super::sockets::Sockets;
use crate::engine::client_limits::{
    check_input_limit, check_output_limit, count_unauthenticated, limits_client_memory,
};
use crate::engine::gate::needs_authentication;
use crate::engine::{Executor, peers};
use crate::session::ClientHandle;
use std::io;
use wire::request::{Limits, REQUEST_LEN_MAX};

/// Limit of unread input from a blocked client; beyond it the socket is not read until the client is unblocked.
const WAITING_INPUT_BYTES_MAX: usize = 1 << 20;

/// The query buffers of one batch.
#[derive(Default)]
pub(super) struct Batch {
    /// Query buffers with parsed requests.
    pub query_buffers: QueryBuffers,
    /// Number of requests.
    pub requests: usize,
}

impl Batch {
    /// Adds the requests of a query buffer.
    #[inline]
    pub fn push(&mut self, query_buffer: Box<QueryBuffer>) {
        self.requests += query_buffer.request_count().max(1);
        self.query_buffers.push(query_buffer);
    }
}

/// The executor, as its own connections see it.
pub(super) struct Inline<'a> {
    /// The executor.
    pub executor: &'a mut Executor,
    /// The batch of this tick.
    pub batch: &'a mut Batch,
    /// Connections that may have output to write at the end of the tick.
    pub touched: &'a mut Vec<ClientHandle>,
}

impl Exchange for Inline<'_> {
    #[inline]
    fn accept_input(
        &mut self,
        connection: &mut Connection,
        query_buffer: &mut QueryBuffer,
        bytes: usize,
        _was_handshaking: bool,
    ) -> bool {
        if bytes == 0 {
            return false;
        }
        let handle = connection.handle();
        self.executor.count_input(handle, bytes);
        if self.executor.server.clients[handle].is_closing() {
            query_buffer.discard();
        }
        if peers::takes_bytes(self.executor, handle)
            && !receive_bytes(self.executor, connection, query_buffer)
        {
            return false;
        }
        if self.executor.accepts_requests(handle) && !query_buffer.has_requests() {
            query_buffer.consume();
            parse(self.executor, query_buffer);
        }
        true
    }

    #[inline]
    fn hand_over(&mut self, query_buffer: Box<QueryBuffer>) {
        self.batch.push(query_buffer);
    }

    #[inline]
    fn enforce_input_limits(&mut self, connection: &Connection, unread_bytes: usize) -> bool {
        let handle = connection.handle();
        self.touched.push(handle);
        let pauses = self.executor.is_waiting(handle) && unread_bytes > WAITING_INPUT_BYTES_MAX
            || self.executor.replication.upstream().leaves_unread(&self.executor.server, handle);
        self.store_input_figures(connection);
        self.executor.server.clients[handle].connection.watches_readable = !pauses;
        check_input_limit(&mut self.executor.server, handle, unread_bytes);
        count_memory_if_limited(self.executor, handle);
        count_unauthenticated(&mut self.executor.server, handle);
        pauses
    }

    fn stays_after_input(&mut self, connection: &Connection) -> bool {
        let client = &self.executor.server.clients[connection.handle()];
        if client.holds_output() {
            // The last replies wait for the disk: the peer may have closed its sending side only.
            self.executor.server.clients[connection.handle()].close_after_reply = true;
            return true;
        }
        client.close_after_reply && (!client.output.is_empty() || connection.transport.has_unsent())
    }

    fn report_hang_up(&mut self, _handle: ClientHandle) {
        // The end is read after the requests before it have run.
    }

    fn report_handshake(&mut self, handle: ClientHandle, certificate: Option<Vec<u8>>) {
        finish_handshake(self.executor, handle, certificate.as_deref());
    }

    fn report_failed_handshake(&mut self, handle: ClientHandle, reason: String) {
        log_failed_handshake(self.executor, handle, &reason);
    }

    fn use_room(&mut self, connection: &mut Connection, _sockets: &Sockets) -> Stay {
        self.touched.push(connection.handle());
        Stay::Stays
    }

    #[inline]
    fn write_output(&mut self, connection: &mut Connection) -> Sent {
        let handle = connection.handle();
        let client = &mut self.executor.server.clients[handle];
        if client.output.is_empty() {
            return Sent::All;
        }
        let buffered_bytes = client.unsent().buffered_bytes;
        client.reply_buffer.note_unsent(buffered_bytes);
        let written = connection.write(client.output.output());
        client.last_interaction = self.executor.server.now;
        client.connection.output_bytes_total += written.bytes as u64;
        let statistics = &mut self.executor.server.observed.statistics;
        statistics.total_writes += 1;
        statistics.output_bytes += client.connection.take_uncounted(written.bytes as u64);
        if self.executor.has_traces_under_way() {
            self.executor.note_written(handle);
        }
        written.sent
    }

    #[inline]
    fn write_stream(&mut self, connection: &mut Connection) -> Sent {
        let client = &self.executor.server.clients[connection.handle()];
        match client.is_replica || client.is_slot_target() {
            true => write_to_replica(self.executor, connection),
            false => Sent::All,
        }
    }

    #[inline]
    fn end_write(&mut self, handle: ClientHandle, is_sent: bool) -> bool {
        let client = &self.executor.server.clients[handle];
        let closes = client.close_after_reply && is_sent && !client.holds_output();
        match client.output.is_empty() {
            true => self.executor.server.clients.output_written(handle),
            false => check_output_limit(&mut self.executor.server, &self.executor.clock, handle),
        }
        count_memory_if_limited(self.executor, handle);
        closes
    }

    fn discard_output(&mut self) {
        // The output is dropped with its client.
    }

    fn store_watched(&mut self, handle: ClientHandle, writable: bool) {
        self.executor.server.clients[handle].connection.watches_writable = writable;
    }

    fn log_watch_error(&self, error: &io::Error) {
        log::warn!("Cannot watch a client's socket: {error}");
    }
}

impl Inline<'_> {
    /// Stores the connection's memory figures for the executor.
    #[inline]
    pub fn store_input_figures(&mut self, connection: &Connection) {
        let figures = &mut self.executor.server.clients[connection.handle()].connection;
        (figures.input_bytes, figures.input_free_bytes) = connection.input_figures();
        figures.memory_bytes = connection.memory_bytes();
    }
}

/// Updates the client's part of the memory of all clients, if that is limited.
#[inline]
pub(super) fn count_memory_if_limited(executor: &mut Executor, handle: ClientHandle) {
    if limits_client_memory(&executor.server) {
        executor.server.clients.count_memory(handle);
    }
}

/// Parses a client's requests.
#[inline]
pub(super) fn parse(executor: &Executor, query_buffer: &mut QueryBuffer) {
    let limits = limits_of(executor, query_buffer.handle);
    let (registry, seed) = (&executor.server.registry, executor.db.key_seed());
    match executor.server.clients[query_buffer.handle].is_primary {
        true => query_buffer.parse_stream(&limits, registry, seed),
        false => query_buffer.parse(&limits, registry, seed),
    }
}

fn limits_of(executor: &Executor, handle: ClientHandle) -> Limits {
    // A replica accepts all requests that its primary has accepted.
    let is_primary = executor.server.clients[handle].is_primary;
    let bulk_len_max = executor.server.config.proto_max_bulk_len_bytes;
    Limits {
        bulk_len_max: if is_primary { REQUEST_LEN_MAX } else { bulk_len_max },
        authenticated: !needs_authentication(&executor.server, handle),
        ..Limits::default()
    }
}
