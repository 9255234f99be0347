//! The executor's part of connections in I/O threads: their requests, replies, placement and moves.

use super::by_handle::OfClient;
use super::connection::{Connection, Stay};
use super::event_loop::EventLoop;
use super::handshakes::{finish_handshake, log_failed_handshake};
use super::inline::count_memory_if_limited;
use super::io_thread::{Delivery, Order};
use super::query_buffer::{Follow, QueryBuffer};
use super::threads::{Destination, RemoteConnection};
use crate::engine::client_limits::{check_input_limit, check_output_limit, count_unauthenticated};
use crate::engine::confirmation;
use crate::engine::gate::needs_authentication;
use crate::observe::process::{Whose, cpu_times};
use crate::session::ClientHandle;
use crate::session::client::Meter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::convert::{short_len, usize_of, whole_u64, whole_us};
use wire::reply::{Output, ReplyBuffer};

/// Maximum number of query buffers taken from threads in one tick, so that the first replies leave before the last
/// requests have run.
const QUERY_BUFFERS_PER_TICK_MAX: usize = 256;
/// Period of comparing the threads' load.
const BALANCE_US: u64 = 100_000;
/// Minimum load of a thread from which connections are moved.
const BUSY_SHARE_MIN: f64 = 0.5;
/// Minimum difference in load between the busiest and the idlest thread.
const BUSY_DIFFERENCE_MIN: f64 = 0.25;
/// Age of the last input beyond which a connection is not moved.
const ACTIVE_US: u64 = 1_000_000;
/// Total load of all threads, as a share of one thread, from which they share the connections: the executor alone would
/// soon be too slow.
const SHARED_SHARE_MIN: f64 = 0.8;
/// Total load below which the executor takes all connections back. The gap covers the cost of the queues, which adds to
/// the load of shared connections.
const ALONE_SHARE_MAX: f64 = 0.5;
/// Maximum connections returned to the executor in one comparison: moving one takes some microseconds.
const TAKEN_BACK_MAX: usize = 256;

/// Load figures of the threads.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// Next comparison, on the monotonic clock.
    next_us: u64,
    /// Processor time of each thread at the last comparison, the executor's first.
    busy_us: Vec<u64>,
    /// Where the search for connections to move continues.
    cursor: usize,
    /// The load exceeds the executor's capacity, so all threads serve connections.
    is_shared: bool,
}

impl EventLoop {
    /// Takes the threads' deliveries.
    pub(super) fn receive(&mut self) {
        let mut query_buffers = 0;
        while query_buffers < QUERY_BUFFERS_PER_TICK_MAX
            && let Some((thread, delivery)) = self.threads.receive()
        {
            match delivery {
                Delivery::Requests(query_buffer) => {
                    query_buffers += 1;
                    self.take_in(query_buffer);
                }
                Delivery::Unread { handle, bytes } => {
                    self.store_interaction(handle);
                    check_input_limit(&mut self.executor.server, handle, bytes);
                    count_memory_if_limited(&mut self.executor, handle);
                    count_unauthenticated(&mut self.executor.server, handle);
                }
                Delivery::HungUp(handle) => self.store_hang_up(handle),
                Delivery::HandshakeDone { handle, certificate } => {
                    if let Some(remote) = self.remotes.get_mut(handle) {
                        remote.is_handshaking = false;
                    }
                    finish_handshake(&mut self.executor, handle, certificate.as_deref());
                }
                Delivery::HandshakeFailed { handle, reason } => {
                    log_failed_handshake(&self.executor, handle, &reason);
                }
                Delivery::Closed(handle) => self.forget_closed(handle),
                Delivery::Returned { connection, unsent } => {
                    // The query buffer may be in the batch and must return to the connection before it moves.
                    self.run_batch();
                    self.take_over(connection, unsent);
                }
                Delivery::Ended => self.threads.join_ended(thread),
            }
        }
    }

    /// Records the arrival of a part of a request, outside a handshake.
    fn store_interaction(&mut self, handle: ClientHandle) {
        let now = self.executor.server.now;
        if self.remotes.get(handle).is_some_and(|remote| !remote.is_handshaking && !remote.is_closing) {
            self.executor.server.clients[handle].last_interaction = now;
        }
    }

    fn take_in(&mut self, mut query_buffer: Box<QueryBuffer>) {
        let handle = query_buffer.handle;
        if self.remotes.get(handle).is_none_or(|remote| remote.is_closing) {
            return;
        }
        let received_bytes = std::mem::take(&mut query_buffer.handover.received_bytes);
        self.executor.server.observed.statistics.input_bytes += received_bytes;
        let client = &mut self.executor.server.clients[handle];
        client.connection.input_bytes_total += received_bytes;
        client.last_interaction = self.executor.server.now;
        self.collect(query_buffer);
    }

    /// Handles a query buffer whose requests have run, or were stopped by a block.
    pub(super) fn settle(&mut self, mut query_buffer: Box<QueryBuffer>) {
        let handle = query_buffer.handle;
        check_input_limit(&mut self.executor.server, handle, query_buffer.unread_bytes());
        count_memory_if_limited(&mut self.executor, handle);
        count_unauthenticated(&mut self.executor.server, handle);
        let waits = self.executor.is_waiting(handle);
        if self.executor.server.clients[handle].close_asap {
            return;
        }
        let Some(remote) = self.remotes.get_mut(handle) else { return };
        if !waits && remote.moves_to.is_none() {
            return self.finished.push(query_buffer);
        }
        query_buffer.keep();
        let figures = query_buffer.input_figures();
        let memory_bytes = query_buffer.memory_bytes();
        remote.held = Some(query_buffer);
        let is_lost = waits && remote.has_hung_up;
        self.touched.push(handle);
        if let Some(meter) = &self.executor.server.clients[handle].connection.meter {
            meter.report(figures, memory_bytes);
        }
        count_unauthenticated(&mut self.executor.server, handle);
        if is_lost {
            self.executor.server.close_asap(handle);
        }
    }

    fn store_hang_up(&mut self, handle: ClientHandle) {
        let waits = self.executor.is_waiting(handle);
        let Some(remote) = self.remotes.get_mut(handle) else { return };
        remote.has_hung_up = true;
        if waits && remote.held.is_some() {
            self.executor.server.close_asap(handle);
        }
    }

    fn forget_closed(&mut self, handle: ClientHandle) {
        if let Some(remote) = self.remotes.remove(handle) {
            self.threads.discount_connection(remote.thread);
            self.executor.disconnect(handle);
        }
    }

    /// Sends a processed query buffer back to its thread, with the replies.
    pub(super) fn send_back(&mut self, mut query_buffer: Box<QueryBuffer>) {
        let handle = query_buffer.handle;
        if self.executor.server.clients[handle].close_asap {
            return;
        }
        let spare = std::mem::take(&mut query_buffer.handover.output);
        self.executor.server.clients.keep_output(spare);
        query_buffer.handover.output = self.take_output(handle);
        let follows = self.follows(handle);
        query_buffer.handover.follows = follows;
        query_buffer.handover.is_unauthenticated = needs_authentication(&self.executor.server, handle);
        let Some(remote) = self.remotes.get_mut(handle) else { return };
        remote.awaits_output = follows == Follow::HeldOutput;
        let thread = remote.thread;
        self.threads.send(thread, Order::Serve(query_buffer));
    }

    /// Sends a client's output through its thread.
    pub(super) fn send_output(&mut self, handle: ClientHandle) {
        confirmation::release(&mut self.executor, handle);
        let follows = self.follows(handle);
        let client = &mut self.executor.server.clients[handle];
        client.output_pending = false;
        let is_empty = client.output.is_empty();
        let Some(remote) = self.remotes.get_mut(handle).filter(|_| !client.close_asap) else { return };
        // A thread that awaits more output is to know that there is none.
        let is_news = follows == Follow::Close || remote.awaits_output && follows == Follow::Unknown;
        if is_empty && !is_news {
            return;
        }
        if remote.moves_to.is_some() {
            return confirmation::keep_order(&mut self.executor, handle);
        }
        remote.awaits_output = follows == Follow::HeldOutput;
        let thread = remote.thread;
        let output = self.take_released(handle);
        self.threads.send(thread, Order::Send { handle, output, follows });
    }

    /// Returns what follows the output that is sent now.
    fn follows(&self, handle: ClientHandle) -> Follow {
        let client = &self.executor.server.clients[handle];
        match client.holds_output() {
            true => Follow::HeldOutput,
            false if client.close_after_reply => Follow::Close,
            false => Follow::Unknown,
        }
    }

    fn take_output(&mut self, handle: ClientHandle) -> Output {
        confirmation::release(&mut self.executor, handle);
        self.take_released(handle)
    }

    /// As [`Self::take_output`], of a client whose output was released.
    fn take_released(&mut self, handle: ClientHandle) -> Output {
        let now = self.executor.server.now;
        let client = &mut self.executor.server.clients[handle];
        let buffered_bytes = client.unsent().buffered_bytes;
        client.reply_buffer.note_unsent(buffered_bytes);
        client.last_interaction = now;
        if client.connection.output_under_way() == 0 {
            client.output_over_soft_limit_since_us = None;
        } else {
            check_output_limit(&mut self.executor.server, &self.executor.clock, handle);
        }
        let output = self.executor.server.clients.take_output(handle);
        let uncounted = self.executor.server.clients[handle].connection.take_uncounted(output.len() as u64);
        self.executor.server.observed.statistics.output_bytes += uncounted;
        output
    }

    /// Assigns a connection to a thread. `held`: its query buffer, if the executor has it.
    pub(super) fn place(
        &mut self,
        mut connection: Box<Connection>,
        held: Option<Box<QueryBuffer>>,
        thread: usize,
    ) {
        let handle = connection.handle();
        self.touched.push(handle);
        let query_buffer = held.or_else(|| connection.take_query_buffer());
        if thread == 0 {
            connection.set_query_buffer(query_buffer);
            return self.place_here(connection);
        }
        let is_resuming = self.executor.server.resumed.contains(&handle);
        let waits = self.executor.is_waiting(handle) || is_resuming;
        let held = if waits {
            // The client's pending requests run when it is unblocked; the thread does not read until then.
            Some(query_buffer.unwrap_or_else(|| self.sockets.spare_query_buffers.lend(handle)))
        } else {
            connection.set_query_buffer(query_buffer);
            None
        };
        let is_unauthenticated = needs_authentication(&self.executor.server, handle);
        let figures = &mut self.executor.server.clients[handle].connection;
        let meter = Arc::new(Meter {
            output_bytes_total: AtomicU64::new(figures.output_bytes_total),
            ..Meter::default()
        });
        (figures.io_thread, figures.meter) = (thread, Some(Arc::clone(&meter)));
        (figures.watches_readable, figures.watches_writable) = (true, false);
        let mut remote = Box::new(RemoteConnection::new(handle, thread, held));
        remote.is_handshaking = connection.transport.is_handshaking();
        self.remotes.insert(remote);
        self.threads.count_connection(thread);
        confirmation::release(&mut self.executor, handle);
        let output = match self.executor.server.clients[handle].output.is_empty() {
            true => Output::default(),
            false => self.take_released(handle),
        };
        let follows = self.follows(handle);
        if let Some(remote) = self.remotes.get_mut(handle) {
            remote.awaits_output = follows == Follow::HeldOutput;
        }
        let order = Order::Adopt { connection, meter, output, is_unauthenticated, follows, is_away: waits };
        self.threads.send(thread, order);
    }

    /// Serves a connection in this thread.
    fn place_here(&mut self, mut connection: Box<Connection>) {
        let handle = connection.handle();
        if let Err(error) = connection.join(&mut self.sockets, false) {
            log::warn!("Cannot watch a client's socket: {error}");
            return self.executor.disconnect(handle);
        }
        self.connections.insert(connection);
        self.serve(handle, |connection, _, inline| {
            inline.store_input_figures(connection);
            Stay::Stays
        });
    }

    /// Takes a connection that a thread has returned, with its unsent output, to be assigned to another thread.
    fn take_over(&mut self, connection: Box<Connection>, mut unsent: Output) {
        let handle = connection.handle();
        let Some(remote) = self.remotes.remove(handle) else { return };
        self.threads.discount_connection(remote.thread);
        let client = &mut self.executor.server.clients[handle];
        (client.connection.io_thread, client.connection.meter) = (0, None);
        client.connection.output_bytes_total -= unsent.len() as u64;
        client.connection.output_bytes_counted += unsent.len() as u64;
        if let Some(held) = client.held.as_mut().filter(|_| !unsent.is_empty()) {
            held.push_back_unsent(unsent);
        } else if !unsent.is_empty() {
            unsent.append(client.output.take());
            client.output = ReplyBuffer::with_output(unsent, client.output.protocol);
        }
        if client.close_asap {
            return self.executor.disconnect(handle);
        }
        let is_replica = client.is_replica;
        let thread = match remote.moves_to {
            _ if is_replica => 0,
            Some(Destination::Thread(thread)) if self.threads.is_open(thread) => thread,
            _ => self.emptiest_thread(true),
        };
        self.place(connection, remote.held, thread);
    }

    /// Returns whether threads other than the executor serve connections.
    fn shares_connections(&self) -> bool {
        self.balance.is_shared || self.executor.server.config.io_threads_always_active
    }

    /// Returns the thread for a connection: the executor while it serves all connections and `may_be_executor`, otherwise the
    /// thread with the fewest connections; at equal numbers not the executor, which is chosen only if `may_be_executor` or
    /// there is no other thread. The connection being placed still counts as the executor's.
    pub(super) fn emptiest_thread(&self, may_be_executor: bool) -> usize {
        if self.threads.is_empty() || may_be_executor && !self.shares_connections() {
            return 0;
        }
        let open = (1..=self.threads.len()).filter(|&thread| self.threads.is_open(thread));
        let own = may_be_executor.then(|| (self.connections_here().saturating_sub(1), 0));
        open.map(|thread| (self.threads.connections(thread), thread))
            .chain(own)
            .min_by_key(|&(connections, _)| connections)
            .map_or(0, |(_, thread)| thread)
    }

    fn connections_here(&self) -> usize {
        let elsewhere: usize = (1..=self.threads.len()).map(|thread| self.threads.connections(thread)).sum();
        self.executor.server.clients.len().saturating_sub(elsewhere)
    }

    /// Moves a connection to another thread.
    fn move_to(&mut self, handle: ClientHandle, thread: usize) {
        if let Some(connection) = self.connections.remove(handle) {
            self.sockets.remove(&connection);
            self.place(connection, None, thread);
        } else if let Some(remote) = self.remotes.get_mut(handle)
            && !remote.is_closing
            && remote.moves_to.is_none()
        {
            remote.moves_to = Some(Destination::Thread(thread));
            self.threads.send(remote.thread, Order::Release(handle));
        }
    }

    /// Moves a new replica's connection to the executor's thread, which has the stream.
    pub(super) fn bring_here(&mut self, handle: ClientHandle) {
        self.move_to(handle, 0);
    }

    /// Publishes the options that threads use.
    pub(super) fn inform_threads(&mut self) {
        if !self.threads.is_empty() {
            let bulk_len_max = self.executor.server.config.proto_max_bulk_len_bytes;
            self.threads.shared.bulk_len_max.store(bulk_len_max, Ordering::Relaxed);
        }
    }

    /// Starts and ends threads according to `io-threads`.
    pub(super) fn adapt_threads(&mut self) {
        let wanted = self.executor.server.config.io_threads as usize - 1;
        if self.threads.len() == wanted || self.threads.any_is_ending() {
            return;
        }
        if self.threads.len() > wanted {
            return self.stop_threads_beyond(wanted);
        }
        while self.threads.len() < wanted {
            if let Err(error) = self.threads.start(&mut self.executor.server.observed.memory.io_threads) {
                log::warn!("Cannot start an I/O thread: {error}; continuing with {}", self.threads.len());
                self.executor.server.config.io_threads = short_len(self.threads.len() + 1);
                break;
            }
        }
    }

    /// Stops all threads beyond the first `kept`, and sends no more to their connections.
    fn stop_threads_beyond(&mut self, kept: usize) {
        self.threads.stop_beyond(kept);
        for remote in self.remotes.iter_mut().filter(|remote| remote.thread > kept) {
            remote.moves_to = Some(Destination::Anywhere);
        }
    }

    /// Moves connections from the busiest thread to the idlest, if their loads differ much; or to the executor, if it can
    /// serve all of them: then no thread is woken between a request and its reply.
    pub(super) fn balance_if_due(&mut self) {
        let now_us = self.executor.server.now.monotonic_us;
        if self.threads.is_empty() || now_us < self.balance.next_us {
            return;
        }
        let elapsed_us = now_us - (self.balance.next_us - BALANCE_US.min(self.balance.next_us));
        self.balance.next_us = now_us + BALANCE_US;
        let own = cpu_times(Whose::ThisThread);
        let mut busy_us = vec![whole_us(own.user + own.system)];
        busy_us.extend(self.threads.busy_us());
        let before = std::mem::replace(&mut self.balance.busy_us, busy_us);
        if before.len() != self.balance.busy_us.len() || self.threads.any_is_ending() {
            return;
        }
        let share = |(now, before): (&u64, &u64)| now.saturating_sub(*before) as f64 / elapsed_us as f64;
        let shares: Vec<f64> = self.balance.busy_us.iter().zip(&before).map(share).collect();
        self.balance.is_shared = is_shared(self.balance.is_shared, &shares);
        let active = self.active_connections();
        if !self.shares_connections() {
            let elsewhere = (1..active.len()).filter(|&thread| active[thread] > 0);
            for from in elsewhere {
                let connections = active[from].min(TAKEN_BACK_MAX);
                self.shift(Shift { from, to: 0, connections });
            }
        } else if let Some(shift) = shift_between(&shares, &active) {
            self.shift(shift);
        }
    }

    /// Returns the client and the thread of the connection at this index, if it was recently active and may move.
    fn active_at(&self, index: usize) -> Option<(ClientHandle, usize)> {
        let clients = &self.executor.server.clients;
        let handle = clients.handle_at(index)?;
        let client = &clients[handle];
        let idle_us = self.executor.server.now.monotonic_us - client.last_interaction.monotonic_us;
        let is_idle = idle_us > ACTIVE_US || client.is_closing();
        // Replicas and the primary stay with the thread that has the stream.
        if is_idle || client.is_replica || client.is_peer() {
            return None;
        }
        if self.connections.get(handle).is_some() {
            return Some((handle, 0));
        }
        let remote = self.remotes.get(handle)?;
        (remote.moves_to.is_none() && !remote.is_handshaking).then_some((handle, remote.thread))
    }

    /// Returns the number of recently active connections of each thread.
    fn active_connections(&self) -> Vec<usize> {
        let mut active = vec![0; self.threads.len() + 1];
        for index in 0..self.connection_indexes() {
            if let Some((_, thread)) = self.active_at(index) {
                active[thread] += 1;
            }
        }
        active
    }

    fn shift(&mut self, shift: Shift) {
        let mut left = shift.connections;
        for _ in 0..self.connection_indexes() {
            if left == 0 {
                return;
            }
            self.balance.cursor = (self.balance.cursor + 1) % self.connection_indexes();
            if let Some((handle, thread)) = self.active_at(self.balance.cursor)
                && thread == shift.from
            {
                self.move_to(handle, shift.to);
                left -= 1;
            }
        }
    }
}

/// Connections to move from one thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shift {
    from: usize,
    to: usize,
    connections: usize,
}

/// Returns whether connections are to be shared.
fn is_shared(was_shared: bool, shares: &[f64]) -> bool {
    let all: f64 = shares.iter().sum();
    all >= SHARED_SHARE_MIN || was_shared && all >= ALONE_SHARE_MAX
}

/// Returns the move that balances the load. `shares`: the busy share of each thread's time, the executor first. Half of
/// the difference is moved at once, so that the next comparison need not move it back. A thread's only connection stays,
/// since it would cause the same load in another thread; the executor's only connection may move.
fn shift_between(shares: &[f64], active: &[usize]) -> Option<Shift> {
    let movable = |thread: usize| active[thread].saturating_sub((thread != 0) as usize);
    let threads = 0..shares.len();
    let from =
        threads.clone().filter(|&t| movable(t) > 0).max_by(|&a, &b| shares[a].total_cmp(&shares[b]))?;
    let to = threads.min_by(|&a, &b| shares[a].total_cmp(&shares[b]))?;
    let difference = shares[from] - shares[to];
    if shares[from] < BUSY_SHARE_MIN || difference < BUSY_DIFFERENCE_MIN {
        return None;
    }
    let wanted = active[from] as f64 * difference / shares[from] / 4.0;
    Some(Shift { from, to, connections: usize_of(whole_u64(wanted)).clamp(1, movable(from)) })
}

#[cfg(test)]
mod tests {
    use super::{Shift, is_shared, shift_between};

    #[test]
    fn connections_are_shared_while_there_is_more_to_do_than_one_thread_can() {
        assert!(!is_shared(false, &[0.7, 0.0]));
        assert!(is_shared(false, &[0.85, 0.0]));
        assert!(
            is_shared(false, &[0.5, 0.2, 0.2]),
            "handshakes load I/O threads before connections are shared"
        );
        // Once shared, sharing ends only at a much lower load.
        assert!(is_shared(true, &[0.3, 0.3]));
        assert!(!is_shared(true, &[0.2, 0.2]));
    }

    #[test]
    fn load_moves_from_the_busiest_thread_that_has_something_to_give() {
        let shift = |from, to, connections| Some(Shift { from, to, connections });
        assert_eq!(shift_between(&[1.0, 0.2], &[25, 25]), shift(0, 1, 5));
        assert_eq!(shift_between(&[0.2, 1.0], &[25, 25]), shift(1, 0, 5));
        // The executor is busy with commands alone: the others are even.
        assert_eq!(shift_between(&[1.0, 0.4, 0.5], &[0, 9, 9]), None);
        // The only connection of a thread stays, but not that of the executor.
        assert_eq!(shift_between(&[0.1, 1.0], &[3, 1]), None);
        assert_eq!(shift_between(&[1.0, 0.1], &[1, 1]), shift(0, 1, 1));
        // Small differences, or differences between idle threads.
        assert_eq!(shift_between(&[0.9, 0.7], &[9, 9]), None);
        assert_eq!(shift_between(&[0.4, 0.0], &[9, 9]), None);
    }
}
