//! One client's connection: its socket from reading to closing, the same in the executor's thread and in I/O threads.
//!
//! ```text
//!   event, list -> read_on -> Exchange::accept_input --- complete requests --> hand_over ..> executor
//!                                     \--- the rest ------> keep <.......................... ran
//!   end of tick, order, event -> write_on -> output, TLS, stream -> watch for room, stay, or leave
//! ```
//!
//! 1. Threads differ in their [`Exchange`] only: how requests and outputs pass between a connection and the executor.
//! 2. A connection has at most one query buffer. While the executor has it (`is_away`), nothing is read.
//! 3. The poller reports edges: `is_readable` holds until a read has found the socket empty. Where reading stops before
//!    that, the connection is listed, or read again when the query buffer is back.
//! 4. A hang-up is reported once: the end is then read, even after a short read. A connection that is not read
//!    (`is_paused`) closes on it.

use super::by_handle::OfClient;
use super::poller::{Readiness, Token};
use super::query_buffer::{QueryBuffer, READ_BYTES, Transfer};
use super::sockets::Sockets;
use super::transport::{Stopped, Transport};
use crate::session::ClientHandle;
use rustix::fd::BorrowedFd;
use std::io::{self, IoSlice};
use wire::reply::Output;

/// Bytes written to one connection in one turn.
pub(super) const WRITE_BYTES_MAX: usize = 1 << 20;
/// Slices in one vectored write: headers and contents of half as many large values.
pub(super) const WRITE_RUNS_MAX: usize = 64;
/// Maximum number of unread bytes discarded before closing; with unread bytes the kernel would discard the last reply.
const DISCARDED_BYTES_MAX: usize = 256 * 1024;

/// Handshake timeout.
const HANDSHAKE_US_MAX: u64 = 10_000_000;
const HANDSHAKE_TOO_LATE: &str = "the handshake timed out";

/// How a connection exchanges requests and outputs with the executor: by calls in the executor's thread (`net/inline.rs`),
/// by queues in an I/O thread (`net/io_thread.rs`).
pub trait Exchange {
    /// Counts bytes that were read, and parses them; returns whether the query buffer is handed over. `was_handshaking`:
    /// state before the read.
    fn accept_input(
        &mut self,
        connection: &mut Connection,
        query_buffer: &mut QueryBuffer,
        bytes: usize,
        was_handshaking: bool,
    ) -> bool;
    /// Passes a query buffer to the executor, which returns it to [`Connection::keep`].
    fn hand_over(&mut self, query_buffer: Box<QueryBuffer>);
    /// Stores the figures of the connection and its query buffer of this number of bytes, and enforces limits. Returns
    /// whether reading pauses.
    fn enforce_input_limits(&mut self, connection: &Connection, unread_bytes: usize) -> bool;
    /// Handles the end of the input. Returns whether the connection stays for its output.
    fn stays_after_input(&mut self, connection: &Connection) -> bool;
    /// Reports that the peer has hung up while the executor has the query buffer.
    fn report_hang_up(&mut self, handle: ClientHandle);
    /// Reports the end of a handshake, with the client's certificate, if any.
    fn report_handshake(&mut self, handle: ClientHandle, certificate: Option<Vec<u8>>);
    /// Reports a failed handshake; the connection closes.
    fn report_failed_handshake(&mut self, handle: ClientHandle, reason: String);
    /// Handles room in the socket: writes output, or schedules the write for the end of the turn.
    fn use_room(&mut self, connection: &mut Connection, sockets: &Sockets) -> Stay;
    /// Writes the client's output, and counts it.
    fn write_output(&mut self, connection: &mut Connection) -> Sent;
    /// Writes the snapshot or the stream, which follow the output of a replica.
    fn write_stream(&mut self, connection: &mut Connection) -> Sent;
    /// Handles the end of a write: frees the output if all of it `is_sent`, otherwise enforces limits. Returns whether the
    /// connection closes.
    fn end_write(&mut self, handle: ClientHandle, is_sent: bool) -> bool;
    /// Discards the output of a failed socket.
    fn discard_output(&mut self);
    /// Stores whether the connection waits for room in the socket.
    fn store_watched(&mut self, handle: ClientHandle, writable: bool);
    /// Logs a failure of the poller; the connection closes.
    fn log_watch_error(&self, error: &io::Error);
}

/// Whether a connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stay {
    /// The connection stays open.
    Stays,
    /// The thread closes it.
    Leaves,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All bytes were sent.
    All,
    /// The socket takes no more for now.
    Full,
    /// The turn's share is used up.
    Share,
    /// The peer has closed the connection.
    Closed,
}

/// Result of a write, and the bytes sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of bytes sent.
    pub bytes: usize,
    /// How far the output was sent.
    pub sent: Sent,
}

/// A connection and its buffers.
pub struct Connection {
    handle: ClientHandle,
    pub(super) transport: Transport,
    /// Input not yet executed, if any.
    query_buffer: Option<Box<QueryBuffer>>,
    /// The poller reports room in the socket.
    watches_writable: bool,
    /// An outgoing connection that is not established yet.
    is_connecting: bool,
    /// The socket may have unread input.
    is_readable: bool,
    has_hung_up: bool,
    /// The peer has sent urgent data: a short read may leave input behind it, which no event reports.
    has_sent_urgent_data: bool,
    /// The executor has the query buffer.
    is_away: bool,
    /// Reading pauses until its client is unblocked.
    is_paused: bool,
    /// It is on its thread's list of connections to read without an event.
    is_listed: bool,
    /// It waits for a handshake step.
    is_postponed: bool,
}

impl OfClient for Connection {
    #[inline]
    fn handle(&self) -> ClientHandle {
        self.handle
    }
}

impl Connection {
    /// Creates an established connection.
    pub fn new(handle: ClientHandle, transport: Transport) -> Self {
        Connection {
            handle,
            transport,
            query_buffer: None,
            watches_writable: false,
            is_connecting: false,
            is_readable: false,
            has_hung_up: false,
            has_sent_urgent_data: false,
            is_away: false,
            is_paused: false,
            is_listed: false,
            is_postponed: false,
        }
    }

    /// Creates an outgoing connection, and watches it for its completion.
    pub fn connecting(handle: ClientHandle, transport: Transport, sockets: &Sockets) -> io::Result<Self> {
        let mut connection = Connection::new(handle, transport);
        connection.is_connecting = true;
        connection.watches_writable = true;
        let token = Token::Connection(handle);
        sockets.poller.add_edges(connection.fd(), token)?;
        sockets.poller.watch_edges(connection.fd(), token, true)?;
        Ok(connection)
    }

    /// Returns whether it is an outgoing connection that is not established yet.
    #[inline]
    pub fn is_connecting(&self) -> bool {
        self.is_connecting
    }

    /// Continues an attempt to connect, after an event; returns whether the connection is established. An error is final.
    pub fn go_on_connecting(&mut self, sockets: &mut Sockets) -> io::Result<bool> {
        let is_established = self.transport.connected()?;
        if is_established {
            self.is_connecting = false;
            self.is_readable = self.transport.has_unread();
            self.list_if_readable(sockets);
        }
        // A handshake, or its end, may wait for room. Present readiness is reported again.
        self.watches_writable = self.transport.has_unsent();
        sockets.poller.watch_edges(self.fd(), Token::Connection(self.handle), self.watches_writable)?;
        Ok(is_established)
    }

    /// Joins a thread's sockets; the poller reports present readiness. The executor has the query buffer if `is_away`.
    pub fn join(&mut self, sockets: &mut Sockets, is_away: bool) -> io::Result<()> {
        (self.is_away, self.is_paused, self.has_hung_up) = (is_away, false, false);
        (self.is_listed, self.is_postponed, self.watches_writable) = (false, false, false);
        // The poller reports all other input.
        self.is_readable = self.transport.has_unread();
        sockets.poller.add_edges(self.fd(), Token::Connection(self.handle))?;
        self.list_if_readable(sockets);
        Ok(())
    }

    /// Returns the socket's file, for watching.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.transport.fd()
    }

    /// Returns whether the poller reports room in the socket.
    pub fn watches_writable(&self) -> bool {
        self.watches_writable
    }

    /// Takes the query buffer, if the connection has one.
    pub fn take_query_buffer(&mut self) -> Option<Box<QueryBuffer>> {
        self.query_buffer.take()
    }

    /// Sets the query buffer of a connection that moves between threads.
    pub fn set_query_buffer(&mut self, query_buffer: Option<Box<QueryBuffer>>) {
        self.query_buffer = query_buffer;
    }

    /// Returns whether it has a query buffer.
    pub fn has_query_buffer(&self) -> bool {
        self.query_buffer.is_some()
    }

    /// Returns the query buffer's used bytes and free capacity.
    pub fn input_figures(&self) -> (usize, usize) {
        self.query_buffer.as_ref().map_or((0, 0), |query_buffer| query_buffer.input_figures())
    }

    /// Returns the memory held for this connection.
    pub fn memory_bytes(&self) -> usize {
        let buffered_bytes = self.query_buffer.as_ref().map_or(0, |query_buffer| query_buffer.memory_bytes());
        size_of::<Self>() + self.transport.memory_bytes() + buffered_bytes
    }

    /// Closes a connection whose handshake takes too long, and frees memory that the client has not used recently.
    /// `idle_us`: time since its last input.
    pub fn inspect(&mut self, idle_us: u64, exchange: &mut impl Exchange) -> Stay {
        if idle_us > HANDSHAKE_US_MAX && self.transport.is_handshaking() && !self.is_connecting {
            exchange.report_failed_handshake(self.handle, HANDSHAKE_TOO_LATE.to_owned());
            return Stay::Leaves;
        }
        self.query_buffer.take_if(|query_buffer| query_buffer.shrink(idle_us));
        Stay::Stays
    }

    /// Handles an event of the poller.
    #[inline]
    pub fn follow_event(
        &mut self,
        event: &Readiness,
        sockets: &mut Sockets,
        exchange: &mut impl Exchange,
    ) -> Stay {
        self.is_readable |= event.readable;
        self.has_sent_urgent_data |= event.urgent;
        if event.hung_up && !self.has_hung_up {
            self.has_hung_up = true;
            if self.is_away {
                exchange.report_hang_up(self.handle);
            }
        }
        if event.writable && exchange.use_room(self, sockets) == Stay::Leaves {
            return Stay::Leaves;
        }
        // Once per turn: a listed connection is read from the list.
        if event.readable && !self.is_listed { self.read_on(sockets, exchange) } else { Stay::Stays }
    }

    /// Reads a connection from the list.
    pub fn read_listed(&mut self, sockets: &mut Sockets, exchange: &mut impl Exchange) -> Stay {
        match std::mem::replace(&mut self.is_listed, false) {
            true => self.read_on(sockets, exchange),
            false => Stay::Stays,
        }
    }

    /// Continues a postponed handshake.
    pub fn read_postponed(&mut self, sockets: &mut Sockets, exchange: &mut impl Exchange) -> Stay {
        self.is_postponed = false;
        self.read_on(sockets, exchange)
    }

    /// Reads once, and hands the query buffer over or keeps it.
    #[inline]
    pub fn read_on(&mut self, sockets: &mut Sockets, exchange: &mut impl Exchange) -> Stay {
        if self.is_away || !self.is_readable || self.is_paused {
            // Pending requests of a paused connection are dropped, since their replies cannot be sent.
            return if self.is_paused && self.has_hung_up { Stay::Leaves } else { Stay::Stays };
        }
        let was_handshaking = self.transport.is_handshaking();
        if was_handshaking && !self.takes_handshake_step(sockets) {
            return Stay::Stays;
        }
        let kept = self.query_buffer.take();
        let mut query_buffer = kept.unwrap_or_else(|| sockets.spare_query_buffers.lend(self.handle));
        let transfer = self.read(&mut query_buffer);
        if let Transport::Tls(_) = &self.transport
            && self.follow_tls(transfer, sockets, exchange) == Stay::Leaves
        {
            return Stay::Leaves;
        }
        let bytes = match transfer {
            Transfer::Closed if exchange.stays_after_input(self) => {
                self.is_readable = false;
                return Stay::Stays;
            }
            Transfer::Closed => return Stay::Leaves,
            Transfer::WouldBlock => 0,
            Transfer::Bytes { count, .. } => {
                query_buffer.store_read_time(sockets.now_us());
                count
            }
        };
        if exchange.accept_input(self, &mut query_buffer, bytes, was_handshaking) {
            self.hand_over(query_buffer, exchange);
        } else if self.keep(query_buffer, sockets, exchange) {
            self.list(sockets);
        }
        Stay::Stays
    }

    /// Reads into a query buffer, and stores whether unread input may remain.
    #[inline]
    pub fn read(&mut self, query_buffer: &mut QueryBuffer) -> Transfer {
        let transfer = query_buffer.read(&mut self.transport);
        self.is_readable = match transfer {
            Transfer::Bytes { is_all, .. } => !is_all || self.has_hung_up || self.has_sent_urgent_data,
            // Under TLS a read may return no bytes but leave the end, which no event reports again.
            Transfer::WouldBlock => match &self.transport {
                Transport::Plain(_) => false,
                Transport::Tls(tls) => tls.has_unread() || self.has_hung_up,
            },
            // The next read finds the end again.
            Transfer::Closed => true,
        };
        transfer
    }

    /// Hands a query buffer to the executor.
    #[inline]
    pub fn hand_over(&mut self, query_buffer: Box<QueryBuffer>, exchange: &mut impl Exchange) {
        self.is_away = true;
        exchange.hand_over(query_buffer);
        // The hang-up was reported before the hand-over, and is reported only once; a blocking command would wait for
        // a closed client.
        if self.has_hung_up {
            exchange.report_hang_up(self.handle);
        }
    }

    /// Keeps a query buffer without requests that can run, or returns it to the spare ones if it is empty. Returns whether
    /// unread input may remain.
    #[inline]
    pub fn keep(
        &mut self,
        mut query_buffer: Box<QueryBuffer>,
        sockets: &mut Sockets,
        exchange: &mut impl Exchange,
    ) -> bool {
        self.is_away = false;
        let unread_bytes = query_buffer.unread_bytes();
        match query_buffer.is_free() {
            true => sockets.spare_query_buffers.take_back(query_buffer),
            false => self.query_buffer = Some(query_buffer),
        }
        self.is_paused = exchange.enforce_input_limits(self, unread_bytes);
        if self.is_paused { self.has_hung_up } else { self.is_readable }
    }

    /// Ends the hand-over: the executor has returned the query buffer.
    pub fn end_hand_over(&mut self) {
        self.is_away = false;
    }

    /// Lists the connection to be read in the next turn, unless it is listed.
    pub fn list(&mut self, sockets: &mut Sockets) {
        if !std::mem::replace(&mut self.is_listed, true) {
            sockets.list(self.handle);
        }
    }

    fn list_if_readable(&mut self, sockets: &mut Sockets) {
        if self.is_readable {
            self.list(sockets);
        }
    }

    /// Returns whether the handshake may continue in this turn; otherwise postpones it.
    fn takes_handshake_step(&mut self, sockets: &mut Sockets) -> bool {
        let takes = sockets.take_handshake_step();
        if !takes && !std::mem::replace(&mut self.is_postponed, true) {
            sockets.postpone(self.handle);
        }
        takes
    }

    /// Reports the end of a handshake, and watches for room where TLS has to write.
    fn follow_tls(&mut self, transfer: Transfer, sockets: &Sockets, exchange: &mut impl Exchange) -> Stay {
        let Transport::Tls(tls) = &mut self.transport else { return Stay::Stays };
        if tls.is_newly_established() {
            exchange.report_handshake(self.handle, tls.peer_certificate().map(<[u8]>::to_vec));
        }
        if transfer == Transfer::Closed
            && let Some(reason) = tls.handshake_failure()
        {
            exchange.report_failed_handshake(self.handle, reason);
        }
        match tls.has_unsent() {
            true => self.watch_for_room(Sent::Full, sockets, exchange),
            false => Stay::Stays,
        }
    }

    /// Writes output, as much as the socket takes and the turn allows.
    #[inline]
    pub fn write_on(&mut self, sockets: &Sockets, exchange: &mut impl Exchange) -> Stay {
        let mut sent = exchange.write_output(self);
        if sent == Sent::All && self.transport.has_unsent() {
            sent = self.flush();
        }
        let is_sent = sent == Sent::All;
        if is_sent {
            sent = exchange.write_stream(self);
        }
        if sent == Sent::Closed {
            return self.lose(exchange);
        }
        if exchange.end_write(self.handle, is_sent) {
            self.finish();
            return Stay::Leaves;
        }
        self.watch_for_room(sent, sockets, exchange)
    }

    #[cold]
    fn flush(&mut self) -> Sent {
        match self.transport.flush() {
            Ok(()) => Sent::All,
            Err(Stopped::WouldBlock) => Sent::Full,
            Err(Stopped::Closed) => Sent::Closed,
        }
    }

    /// Waits for room in the socket while output remains.
    #[inline]
    fn watch_for_room(&mut self, sent: Sent, sockets: &Sockets, exchange: &mut impl Exchange) -> Stay {
        let writable = sent != Sent::All;
        // After a turn's share the socket may still have room, which is reported only to a new watch.
        if self.watches_writable == writable && sent != Sent::Share {
            return Stay::Stays;
        }
        self.watches_writable = writable;
        exchange.store_watched(self.handle, writable);
        let (token, writable) = (Token::Connection(self.handle), self.transport.needs_room(writable));
        match sockets.poller.watch_edges(self.fd(), token, writable) {
            Ok(()) => Stay::Stays,
            Err(error) => {
                exchange.log_watch_error(&error);
                self.lose(exchange)
            }
        }
    }

    /// Handles a failed socket: the connection closes, or is reported as hung up while the executor has its query buffer.
    fn lose(&mut self, exchange: &mut impl Exchange) -> Stay {
        if !self.is_away {
            return Stay::Leaves;
        }
        exchange.discard_output();
        if !std::mem::replace(&mut self.has_hung_up, true) {
            exchange.report_hang_up(self.handle);
        }
        Stay::Stays
    }

    /// Writes as much of `output` as the socket takes, up to a turn's share.
    #[inline]
    pub fn write(&mut self, output: &mut Output) -> Written {
        let mut written = Written { bytes: 0, sent: Sent::Share };
        while !output.is_empty() && written.bytes < WRITE_BYTES_MAX && written.sent == Sent::Share {
            let sent = match output.as_slice() {
                Some(bytes) => self.transport.write(bytes),
                None => self.write_runs(output),
            };
            match sent {
                Ok(n) => {
                    written.bytes += n;
                    output.advance(n);
                }
                Err(Stopped::WouldBlock) => written.sent = Sent::Full,
                Err(Stopped::Closed) => written.sent = Sent::Closed,
            }
        }
        if output.is_empty() {
            written.sent = Sent::All;
        }
        written
    }

    #[cold]
    fn write_runs(&mut self, output: &Output) -> Result<usize, Stopped> {
        let mut runs = [IoSlice::new(&[]); WRITE_RUNS_MAX];
        let count = output.gather(&mut runs);
        self.transport.write_runs(&runs[..count])
    }

    /// Discards unread input before the connection closes after its last reply: otherwise the kernel would reset the
    /// connection, and the peer lose that reply.
    fn finish(&mut self) {
        if self.transport.shutdown_write().is_err() {
            return;
        }
        let (mut discarded, mut bytes) = (0, Vec::with_capacity(READ_BYTES));
        while discarded < DISCARDED_BYTES_MAX {
            bytes.clear();
            match self.transport.read(&mut bytes) {
                Ok(count) => discarded += count,
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
