//! Limits per client: unsent output, unread input, idle time, and the memory of all clients together.

use super::Executor;
use crate::clock::Clock;
use crate::config::OutputBufferLimit;
use crate::engine::gate::needs_authentication;
use crate::server::Server;
use crate::session::ClientHandle;
use crate::session::client::{Client, OUTPUT_CHUNK_BYTES, OutputClass, REPLY_BUFFER_BYTES_MIN};
use crate::sys::socket::undelivered_bytes;
use std::num::NonZeroUsize;
use wire::convert::usize_of;
use wire::reply::ReplyBuffer;

/// Limit of unsent output for a client that has not authenticated.
const UNAUTHENTICATED_OUTPUT_BYTES_MAX: usize = 1024;
/// Limit of unread input for a client that has not authenticated.
const UNAUTHENTICATED_INPUT_BYTES_MAX: usize = 1 << 20;
/// Memory limit of all unauthenticated clients together, per client that `maxclients` allows: more than the memory of a
/// client that authenticates at once.
const UNAUTHENTICATED_BYTES_PER_CLIENT: usize = 16 * 1024;
/// Minimum of `maxmemory-clients`, so that a client can still connect and correct it.
const CLIENTS_MEMORY_BYTES_MIN: u64 = 128 * 1024;

fn output_limit(server: &Server, client: &Client) -> OutputBufferLimit {
    let limits = &server.config.client_output_buffer_limit;
    match client.output_class() {
        OutputClass::Normal => limits.normal,
        OutputClass::Replica => limits.replica,
        OutputClass::PubSub => limits.pubsub,
    }
}

/// Returns the output length beyond which a limit is certainly exceeded; it stops a reply that would exhaust
/// memory. Without a configured limit, half of the machine's memory is used.
#[inline]
pub(super) fn output_len_max(server: &Server, handle: ClientHandle) -> Option<NonZeroUsize> {
    let client = &server.clients[handle];
    let hard_bytes = match output_limit(server, client).hard_bytes {
        0 => server.observed.memory.system_bytes / 2,
        limit => limit,
    };
    if hard_bytes == 0 {
        return None;
    }
    let counted_twice = client.reply_buffer.bytes + OUTPUT_CHUNK_BYTES;
    NonZeroUsize::new(usize_of(hard_bytes).saturating_add(counted_twice))
}

/// Checks the length of the reply at the end of a command.
#[cold]
pub(super) fn check_reply(server: &mut Server, clock: &Clock, handle: ClientHandle, reply: &ReplyBuffer) {
    if reply.is_overflowed() {
        condemn_for_output(server, handle);
    } else {
        check_output_len(server, clock, handle, reply.len());
    }
}

/// Marks a client for closing if its unsent output exceeds its class's limit. While its command runs, only output
/// from other clients and from nested commands counts.
pub fn check_output_limit(server: &mut Server, clock: &Clock, handle: ClientHandle) {
    let client = &server.clients[handle];
    let deferred_len = client.deferred_output.len();
    let is_over =
        deferred_len > 0 && output_len_max(server, handle).is_some_and(|max| deferred_len > max.get());
    match is_over && !client.close_asap {
        true => condemn_for_output(server, handle),
        false => check_output_len(server, clock, handle, client.output.len() + deferred_len),
    }
}

fn check_output_len(server: &mut Server, clock: &Clock, handle: ClientHandle, output_len: usize) {
    let client = &server.clients[handle];
    let backlog_bytes = match server.switches.enforce_reply_list {
        true => output_len.next_multiple_of(OUTPUT_CHUNK_BYTES),
        false => client.unsent_of(output_len).chunk_bytes,
    };
    if backlog_bytes == 0 && client.output_over_soft_limit_since_us.is_none() || client.close_asap {
        return;
    }
    let limit = output_limit(server, client);
    // A script's frozen time may be earlier than the time at which the limit was exceeded.
    let now_us = clock.monotonic_us();
    let unauthenticated = needs_authentication(server, handle) && !client.ever_authenticated;
    let hard = limit.hard_bytes > 0 && backlog_bytes as u64 >= limit.hard_bytes
        || unauthenticated && backlog_bytes > UNAUTHENTICATED_OUTPUT_BYTES_MAX;
    let over_soft = limit.soft_bytes > 0 && backlog_bytes as u64 >= limit.soft_bytes;
    let since_us = client.output_over_soft_limit_since_us;
    let soft = over_soft
        && since_us.is_some_and(|since| now_us.saturating_sub(since) > limit.soft_seconds * 1_000_000);
    server.clients[handle].output_over_soft_limit_since_us =
        if over_soft { since_us.or(Some(now_us)) } else { None };
    if hard || soft {
        condemn_for_output(server, handle);
    }
}

fn condemn_for_output(server: &mut Server, handle: ClientHandle) {
    let client = &server.clients[handle];
    log::warn!(
        "Client id={} addr={} closed: its output buffer exceeds its limit",
        client.id,
        client.connection.address
    );
    server.observed.statistics.output_buffer_limit_disconnections += 1;
    server.close_asap(handle);
    // The command may continue and would hold the output until it ends.
    server.clients[handle].deferred_output = Vec::new();
}

/// Checks clients that received much output from other clients' commands.
#[cold]
pub(super) fn check_much_output(server: &mut Server, clock: &Clock) {
    for handle in std::mem::take(&mut server.clients.with_much_output) {
        if server.clients.get(handle).is_some() {
            check_output_limit(server, clock, handle);
        }
    }
}

/// Marks a client for closing if its unread input or open transaction exceeds the limit. `unread_bytes` is the
/// length of its query buffer.
pub fn check_input_limit(server: &mut Server, handle: ClientHandle, unread_bytes: usize) {
    let client = &server.clients[handle];
    let queued_bytes = client.transaction.as_ref().map_or(0, |transaction| transaction.argument_bytes);
    let bytes = unread_bytes + queued_bytes;
    let over = bytes as u64 > server.config.client_query_buffer_limit_bytes
        || bytes > UNAUTHENTICATED_INPUT_BYTES_MAX && needs_authentication(server, handle);
    if over && !client.close_asap && !client.is_peer() {
        log::warn!(
            "Client id={} addr={} closed: its query buffer exceeds its limit",
            client.id,
            client.connection.address
        );
        server.observed.statistics.query_buffer_limit_disconnections += 1;
        server.close_asap(handle);
    }
}

/// Updates the memory figure of a client before authentication or handshake.
#[inline]
pub fn count_unauthenticated(server: &mut Server, handle: ClientHandle) {
    let client = &server.clients[handle];
    if client.authenticated && !client.connection.is_handshaking && client.unauthenticated_bytes == 0 {
        return;
    }
    let counts = client.connection.is_handshaking || needs_authentication(server, handle);
    server.clients.count_unauthenticated(handle, counts);
}

/// Returns whether an idle client's socket still transfers a request or a reply: progress of the socket counts as
/// activity of the client.
fn note_progress(server: &mut Server, handle: ClientHandle) -> bool {
    let now = server.now;
    let client = &mut server.clients[handle];
    let since_us = client.last_interaction.monotonic_us;
    let progress = client.connection.progress(since_us, undelivered_bytes(client.connection.fd));
    let before = client.connection.last_progress.replace(progress);
    let Some(before) = before.filter(|before| before.since_us == since_us) else {
        // The first check: a transfer in progress has until the next one.
        return progress.undelivered_bytes > 0
            || progress.input_bytes > 0
            || !client.output.is_empty()
            || client.holds_output();
    };
    let has_moved = progress != before;
    if has_moved {
        client.last_interaction = now;
    }
    has_moved
}

/// Adapts the reply buffer's size to the client's recent replies.
fn resize_reply_buffer(server: &mut Server, handle: ClientHandle) {
    let switches = server.switches;
    let now_us = server.now.monotonic_us;
    let client = &mut server.clients[handle];
    let unsent_bytes = client.unsent().buffered_bytes;
    let buffer = &mut client.reply_buffer;
    let (half, twice) = (buffer.bytes / 2, buffer.bytes * 2);
    let bytes_min = REPLY_BUFFER_BYTES_MIN;
    if switches.reply_resizing && half >= bytes_min && buffer.peak_bytes < half {
        buffer.bytes = (buffer.peak_bytes + 1).max(bytes_min);
    } else if switches.reply_resizing && twice < 2 * OUTPUT_CHUNK_BYTES && buffer.peak_bytes >= buffer.bytes {
        buffer.bytes = twice.min(OUTPUT_CHUNK_BYTES);
    }
    if switches.reply_peak_reset_ms.is_some_and(|ms| now_us - buffer.peak_reset_us >= ms * 1000) {
        buffer.peak_bytes = unsent_bytes;
        buffer.peak_reset_us = now_us;
    }
}

/// Recounts the memory of all clients, when `maxmemory-clients` is set at run time.
pub(super) fn count_all_memory(server: &mut Server) {
    server.clients.count_memory_of_all();
}

/// Returns whether client memory is limited and must be counted after each command.
#[inline]
pub fn limits_client_memory(server: &Server) -> bool {
    server.config.maxmemory_clients != crate::config::MemoryLimit::Bytes(0)
}

/// Evicts clients before keys; returns whether this client, whose command and output take this much, was evicted.
pub(super) fn is_evicted(server: &mut Server, handle: ClientHandle, command_bytes: usize) -> bool {
    // A running command uses a little memory, which CLIENT LIST does not show.
    let lent_bytes = if command_bytes > OUTPUT_CHUNK_BYTES { command_bytes } else { 0 };
    server.clients.count_memory_with(handle, lent_bytes);
    evict_clients(server);
    server.clients[handle].close_asap
}

/// Closes the largest unauthenticated clients while they exceed their limit together: a client that only authenticates
/// uses little memory, and stays.
pub fn evict_unauthenticated(server: &mut Server) {
    let limit_bytes = server.config.maxclients as usize * UNAUTHENTICATED_BYTES_PER_CLIENT;
    if server.clients.unauthenticated_bytes() <= limit_bytes {
        return;
    }
    // Frees some more, so that not every received byte scans all clients.
    let left_bytes = limit_bytes / 8 * 7;
    let counted = server.clients.by_age().filter(|client| client.unauthenticated_bytes > 0);
    let mut largest: Vec<_> = counted.map(|client| (client.unauthenticated_bytes, client.handle)).collect();
    largest.sort_unstable_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
    for (bytes, handle) in largest {
        if server.clients.unauthenticated_bytes() <= left_bytes {
            return;
        }
        let client = &server.clients[handle];
        log::info!(
            "Closing client id={} addr={}, which has not authenticated: it holds {bytes} bytes, and all such clients exceed their limit",
            client.id,
            client.connection.address
        );
        server.observed.statistics.evicted_clients += 1;
        server.close_asap(handle);
        server.clients.count_unauthenticated(handle, false);
    }
}

/// Closes the largest clients while all together exceed `maxmemory-clients`.
pub fn evict_clients(server: &mut Server) {
    if !limits_client_memory(server) {
        return;
    }
    server.clients.count_memory_of_receivers();
    let config = &server.config;
    let limit_bytes = config.maxmemory_clients.bytes_of(config.maxmemory_bytes);
    if limit_bytes == 0 || server.clients.memory_bytes() as u64 <= limit_bytes {
        return;
    }
    let limit_bytes = limit_bytes.max(CLIENTS_MEMORY_BYTES_MIN);
    let mut held_bytes = server.clients.memory_bytes() as u64;
    let is_evictable =
        |client: &&Client| !(client.close_asap || client.no_evict || client.is_replica || client.is_peer());
    let candidates = server.clients.by_age().filter(is_evictable);
    let mut largest: Vec<_> = candidates.map(|client| (client.counted_bytes, client.handle)).collect();
    largest.sort_unstable_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
    for (bytes, handle) in largest {
        if held_bytes <= limit_bytes {
            return;
        }
        held_bytes -= bytes as u64;
        let client = &server.clients[handle];
        log::info!(
            "Evicting client id={} addr={}: it holds {bytes} bytes",
            client.id,
            client.connection.address
        );
        server.observed.statistics.evicted_clients += 1;
        server.close_asap(handle);
        // Frees the output at once rather than at the end of the tick, or keys would be evicted instead.
        let client = &mut server.clients[handle];
        drop((client.output.take(), client.held.take(), std::mem::take(&mut client.deferred_output)));
    }
}

impl Executor {
    /// Periodic checks of each client, about once a second.
    pub fn inspect_client(&mut self, handle: ClientHandle) {
        self.time_out_idle(handle);
        check_output_limit(&mut self.server, &self.clock, handle);
        resize_reply_buffer(&mut self.server, handle);
        self.server.clients.count_memory(handle);
        count_unauthenticated(&mut self.server, handle);
    }

    fn time_out_idle(&mut self, handle: ClientHandle) {
        let timeout_us = self.server.config.timeout_seconds as u64 * 1_000_000;
        let client = &self.server.clients[handle];
        let exempt = self.is_waiting(handle)
            || client.is_monitor
            || client.is_replica
            || client.is_peer()
            || !client.subscriptions.is_empty();
        let idle_us = self.server.now.monotonic_us - client.last_interaction.monotonic_us;
        if timeout_us > 0
            && !exempt
            && idle_us > timeout_us / 2
            && !note_progress(&mut self.server, handle)
            && idle_us > timeout_us
        {
            log::debug!("Closing a client that was idle");
            self.server.close_asap(handle);
        }
    }
}
