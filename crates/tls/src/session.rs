//! One connection's TLS: what is read from its socket is decrypted, what is written is encrypted.
//!
//! ```text
//!   socket -> [partial] -> scratch -> rustls -> the caller's buffer, or [decrypted] what it has no room for
//!   the caller's bytes -> rustls -> [outgoing] -> socket
//! ```
//!
//! What stands in brackets belongs to the session, and is empty but for moments: an idle session has no buffers. Records are
//! decrypted and encrypted in buffers of the thread, lent for the time of a call.
//!
//! 1. All records that have come whole are decrypted at once: what no readiness event will announce is in `decrypted`, and
//!    [`Session::has_decrypted`] reports it. What is left in `partial` is a part of a record, or of a handshake's message.
//! 2. A call writes nothing new before `outgoing` is empty: records leave in their order, and at most
//!    [`PIECE_BYTES_MAX`] and what a handshake needs wait to be sent.
//! 3. After the first error nothing is read or written any more, but what had been decrypted before is handed out.
//!
//! Rejected: rustls's buffered interface. It keeps buffers of its own for each connection, and copies once more.

use crate::error_text;
use crate::suites::{TLS12_BLOCKS_MAX, has_limit};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, UnbufferedConnectionCommon, UnbufferedStatus, WriteTraffic,
};
use rustls::{ClientConfig, Error, InvalidMessage, ServerConfig};
use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

/// Bytes encrypted in one call; a socket's buffer takes about as much.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;
/// Ciphertext read in one call, and the most that one message of a handshake may need: larger ones are refused.
const SCRATCH_BYTES: usize = 80 * 1024;
/// The longest record, with its header.
const RECORD_BYTES_MAX: usize = 5 + 16 * 1024 + 2048;
/// What encryption adds to a record, at most: header, nonce, type, tag.
const RECORD_OVERHEAD_MAX: usize = 64;
/// Reads of a socket in one call that brings no data: alerts, tickets and the like.
const EMPTY_READS_MAX: usize = 4;
/// What rustls allocates for an idle session: keys of both directions, its state, places of a handshake's messages.
const INNER_BYTES: usize = 3 * 1024;
const BLOCK_BYTES: usize = 16;
/// The length and the tag of a record, which are blocks as well.
const BLOCKS_BESIDE_DATA: usize = 2;
/// Data in the longest record.
const RECORD_DATA_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    /// For ciphertext that comes; as long as it ever will be.
    static INCOMING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// For ciphertext that goes.
    static OUTGOING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// For runs of bytes that become one record.
    static GATHERED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Which end this is.
enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

pub struct Session {
    side: Side,
    /// The beginning of a record that has not come whole.
    partial: Vec<u8>,
    /// What was decrypted and has not been handed out, and how much of it has.
    decrypted: Vec<u8>,
    handed_out: usize,
    /// What was encrypted and has not been sent, and how much of it has.
    outgoing: Vec<u8>,
    sent: usize,
    /// The peer will send no more.
    is_at_end: bool,
    /// The socket may have more that has not been read.
    may_have_more: bool,
    is_established: bool,
    /// Somebody else writes on with a copy of the session.
    is_silent: bool,
    /// What rustls holds of what the peer has sent: messages of the handshake, and from then on its certificates.
    inner_bytes: usize,
    /// Encrypted so far, with one key of TLS 1.2.
    blocks: u64,
    failure: Option<Box<Error>>,
}

/// What a call wants of rustls beside decrypting.
enum Wish<'a> {
    Nothing,
    Encrypt(&'a [u8]),
    CloseNotify,
}

impl Session {
    pub fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::new(Side::Server(UnbufferedServerConnection::new(config)?)))
    }

    /// The first message is made at once, and sent by [`Self::handshake`].
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        Ok(Self::new(Side::Client(UnbufferedClientConnection::new(config, name)?)))
    }

    fn new(side: Side) -> Self {
        Session {
            side,
            partial: Vec::new(),
            decrypted: Vec::new(),
            handed_out: 0,
            outgoing: Vec::new(),
            sent: 0,
            is_at_end: false,
            may_have_more: false,
            is_established: false,
            is_silent: false,
            inner_bytes: 0,
            blocks: 0,
            failure: None,
        }
    }

    /// The handshake has been done: data can pass.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// There are decrypted bytes, or an end of stream, that the socket will not announce.
    #[inline]
    pub fn has_decrypted(&self) -> bool {
        self.handed_out < self.decrypted.len() || self.is_at_end || self.failure.is_some()
    }

    /// As [`Self::has_decrypted`], or the socket has not been read to where it would block.
    #[inline]
    pub fn has_unread(&self) -> bool {
        self.may_have_more || self.has_decrypted()
    }

    /// Something encrypted waits for room in the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Why the session has come to a bad end, if it has.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_deref()
    }

    /// The peer's own certificate, if it has shown one and it was good.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.peer_certificates().first().map(|certificate| certificate.as_ref())
    }

    fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        let certificates = match &self.side {
            Side::Server(connection) => connection.peer_certificates(),
            Side::Client(connection) => connection.peer_certificates(),
        };
        certificates.unwrap_or_default()
    }

    /// Counts what is about to be encrypted, unless it would be too much for one key: TLS 1.3 changes its key in time, and TLS
    /// 1.2 cannot.
    fn count_blocks(&mut self, bytes: usize) -> io::Result<()> {
        let records = bytes.div_ceil(RECORD_DATA_BYTES_MAX);
        self.blocks += (bytes.div_ceil(BLOCK_BYTES) + records * BLOCKS_BESIDE_DATA) as u64;
        if self.blocks <= TLS12_BLOCKS_MAX {
            return Ok(());
        }
        let suite = match &self.side {
            Side::Server(connection) => connection.negotiated_cipher_suite(),
            Side::Client(connection) => connection.negotiated_cipher_suite(),
        };
        if suite.is_some_and(has_limit) { self.fail(Error::EncryptError) } else { Ok(()) }
    }

    /// All that is held for the session; what rustls keeps inside is estimated.
    pub fn memory_bytes(&self) -> usize {
        let buffers = self.partial.capacity() + self.decrypted.capacity() + self.outgoing.capacity();
        size_of::<Self>() + INNER_BYTES + self.inner_bytes + buffers
    }

    /// Goes on with the handshake, as far as what has come allows; whether it has been done.
    pub fn handshake(&mut self, socket: &mut (impl Read + Write)) -> io::Result<bool> {
        if matches!(self.side, Side::Client(_)) && !self.is_established && self.partial.is_empty() {
            self.advance(&mut [], &mut Vec::new(), Wish::Nothing);
        }
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        match self.receive(socket, &mut Vec::new()) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ if self.is_at_end && !self.is_established => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(self.is_established),
        }
    }

    /// Appends what has come, at most as much as `bytes` has room for without growing, which must be some; how much. 0 is
    /// the peer's end.
    pub fn read(&mut self, socket: &mut (impl Read + Write), bytes: &mut Vec<u8>) -> io::Result<usize> {
        if self.handed_out < self.decrypted.len() {
            // The socket is not asked, and what was known of it may be over.
            self.may_have_more = true;
            return Ok(self.hand_out(bytes));
        }
        match self.receive(socket, bytes) {
            Ok(0) if self.handed_out < self.decrypted.len() => Ok(self.hand_out(bytes)),
            received => received,
        }
    }

    fn hand_out(&mut self, bytes: &mut Vec<u8>) -> usize {
        let rest = &self.decrypted[self.handed_out..];
        let count = rest.len().min(bytes.capacity() - bytes.len());
        bytes.extend_from_slice(&rest[..count]);
        self.handed_out += count;
        if self.handed_out == self.decrypted.len() {
            (self.decrypted, self.handed_out) = (Vec::new(), 0);
        }
        count
    }

    fn receive(&mut self, socket: &mut (impl Read + Write), bytes: &mut Vec<u8>) -> io::Result<usize> {
        let mut scratch = INCOMING.take();
        scratch.resize(SCRATCH_BYTES, 0);
        let before = bytes.len();
        let mut ended = self.ended();
        for _ in 0..EMPTY_READS_MAX {
            if ended.is_err() || self.is_at_end || bytes.len() > before || self.has_decrypted() {
                break;
            }
            ended = self.receive_once(socket, &mut scratch, bytes);
            if !self.may_have_more {
                break;
            }
        }
        INCOMING.set(scratch);
        if self.has_unsent() {
            // What cannot be sent now is sent by the next `flush`, or the next read returns the error.
            let _ = self.flush(socket);
        }
        match (bytes.len() - before, ended) {
            (0, Err(error)) => Err(error),
            (0, Ok(())) if self.is_at_end || self.has_decrypted() => Ok(0),
            (0, Ok(())) => Err(ErrorKind::WouldBlock.into()),
            (count, _) => Ok(count),
        }
    }

    /// Whether there was an error.
    fn ended(&self) -> io::Result<()> {
        match &self.failure {
            Some(error) => Err(io::Error::new(ErrorKind::InvalidData, error_text::of_connection(error))),
            None => Ok(()),
        }
    }

    fn receive_once(
        &mut self,
        socket: &mut impl Read,
        scratch: &mut [u8],
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        let kept = self.partial.len();
        scratch[..kept].copy_from_slice(&self.partial);
        let room = (bytes.capacity() - bytes.len()).saturating_add(RECORD_BYTES_MAX);
        let end = (kept + room).min(scratch.len());
        if kept == end {
            return self.fail(Error::General("a message of the handshake is too long".to_owned()));
        }
        let received = match socket.read(&mut scratch[kept..end]) {
            Ok(0) => {
                (self.is_at_end, self.may_have_more) = (true, false);
                return Ok(());
            }
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                self.may_have_more = true;
                return Ok(());
            }
            Err(error) => {
                self.may_have_more = false;
                return Err(error);
            }
        };
        self.may_have_more = kept + received == end;
        let was_established = self.is_established;
        let filled = &mut scratch[..kept + received];
        let consumed = self.advance(filled, bytes, Wish::Nothing);
        if !was_established {
            self.estimate_inner(received);
        }
        self.partial.clear();
        if consumed < filled.len() {
            self.partial.reserve_exact(filled.len() - consumed);
            self.partial.extend_from_slice(&filled[consumed..]);
        } else if self.partial.capacity() > 0 {
            self.partial = Vec::new();
        }
        if bytes.is_empty() { self.ended() } else { Ok(()) }
    }

    /// Follows what rustls holds of the peer's: during the handshake its messages may be kept, and once more in parts.
    fn estimate_inner(&mut self, received: usize) {
        self.inner_bytes = match self.is_established {
            true => self.peer_certificates().iter().map(|certificate| certificate.len()).sum(),
            false => self.inner_bytes + 2 * received,
        };
    }

    fn fail(&mut self, error: Error) -> io::Result<()> {
        self.failure = Some(Box::new(error));
        self.ended()
    }

    /// Nothing is written any more, not even a farewell.
    pub fn stop_writing(&mut self) {
        (self.is_silent, self.outgoing, self.sent) = (true, Vec::new(), 0);
    }

    /// Encrypts some of the bytes and sends what the socket takes of that; how many have been encrypted. Before the
    /// handshake is done, or while there is no room for what was encrypted before, that is none: `WouldBlock`.
    pub fn write(&mut self, socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        self.ended()?;
        if self.is_silent {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.flush(socket)?;
        if !self.is_established {
            return Err(ErrorKind::WouldBlock.into());
        }
        let piece = &bytes[..bytes.len().min(PIECE_BYTES_MAX)];
        self.count_blocks(piece.len())?;
        self.send(socket, Wish::Encrypt(piece))?;
        Ok(piece.len())
    }

    /// As [`Self::write`], of several runs of bytes one after the other.
    pub fn write_runs(&mut self, socket: &mut impl Write, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        match runs {
            [] => Ok(0),
            [first, ..] if runs.len() == 1 || first.len() >= PIECE_BYTES_MAX => self.write(socket, first),
            runs => {
                let mut gathered = GATHERED.take();
                gathered.clear();
                for run in runs {
                    let room = PIECE_BYTES_MAX - gathered.len();
                    gathered.extend_from_slice(&run[..run.len().min(room)]);
                }
                let written = self.write(socket, &gathered);
                GATHERED.set(gathered);
                written
            }
        }
    }

    /// Queues a close_notify alert, and sends as much of it as the socket accepts.
    pub fn close(&mut self, socket: &mut impl Write) -> io::Result<()> {
        self.flush(socket)?;
        if self.is_established && self.failure.is_none() && !self.is_silent {
            self.send(socket, Wish::CloseNotify)?;
        }
        Ok(())
    }

    fn send(&mut self, socket: &mut impl Write, wish: Wish<'_>) -> io::Result<()> {
        self.outgoing = OUTGOING.take();
        // Messages of a handshake that wait for more are where they were when they came.
        let mut partial = std::mem::take(&mut self.partial);
        let consumed = self.advance(&mut partial, &mut Vec::new(), wish);
        partial.drain(..consumed);
        self.partial = partial;
        let flushed = self.flush(socket);
        match flushed {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => self.ended(),
        }
    }

    /// Sends what is encrypted; `WouldBlock` if the socket does not take it all.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        if self.is_silent {
            // What reading has given a reason to say stays unsaid.
            self.outgoing.clear();
        }
        while self.sent < self.outgoing.len() {
            match socket.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        if self.outgoing.capacity() > 0 {
            self.outgoing.clear();
            OUTGOING.set(std::mem::take(&mut self.outgoing));
        }
        Ok(())
    }

    /// Has rustls do what can be done with what has come; how much of `incoming` is over with.
    fn advance(&mut self, incoming: &mut [u8], bytes: &mut Vec<u8>, wish: Wish<'_>) -> usize {
        let outcome = {
            let Session { side, decrypted, outgoing, is_at_end, .. } = self;
            let mut sink = Sink { bytes, decrypted, outgoing, is_at_end };
            match side {
                Side::Server(connection) => advance(
                    connection,
                    UnbufferedConnectionCommon::<ServerConnectionData>::process_tls_records,
                    incoming,
                    &mut sink,
                    wish,
                ),
                Side::Client(connection) => advance(
                    connection,
                    UnbufferedConnectionCommon::<ClientConnectionData>::process_tls_records,
                    incoming,
                    &mut sink,
                    wish,
                ),
            }
        };
        self.is_established |= outcome.is_established;
        if let Some(error) = outcome.failure {
            self.failure.get_or_insert_with(|| Box::new(error));
        }
        outcome.consumed
    }
}

/// Where what rustls gives goes.
struct Sink<'a> {
    bytes: &'a mut Vec<u8>,
    decrypted: &'a mut Vec<u8>,
    outgoing: &'a mut Vec<u8>,
    is_at_end: &'a mut bool,
}

impl Sink<'_> {
    fn take(&mut self, payload: &[u8]) {
        let room = match self.decrypted.is_empty() {
            true => self.bytes.capacity() - self.bytes.len(),
            false => 0,
        };
        let (fits, rest) = payload.split_at(payload.len().min(room));
        self.bytes.extend_from_slice(fits);
        self.decrypted.extend_from_slice(rest);
    }

    /// Appends what `encode` writes into the room that it is given, and asks for more of if it must.
    fn append(
        &mut self,
        room: usize,
        mut encode: impl FnMut(&mut [u8]) -> Result<usize, Refused>,
    ) -> Result<(), Error> {
        let start = self.outgoing.len();
        let mut room = room;
        // The second time there is as much as was asked for.
        for _ in 0..2 {
            self.outgoing.resize(start + room, 0);
            match encode(&mut self.outgoing[start..]) {
                Ok(count) => {
                    self.outgoing.truncate(start + count);
                    return Ok(());
                }
                Err(Refused::TooSmall(needed)) => room = needed,
                Err(Refused::Exhausted) => break,
            }
        }
        self.outgoing.truncate(start);
        Err(Error::EncryptError)
    }
}

/// Why nothing was encoded.
enum Refused {
    TooSmall(usize),
    Exhausted,
}

impl From<EncodeError> for Refused {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(size) => Refused::TooSmall(size.required_size),
            EncodeError::AlreadyEncoded => Refused::Exhausted,
        }
    }
}

impl From<EncryptError> for Refused {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(size) => Refused::TooSmall(size.required_size),
            EncryptError::EncryptExhausted => Refused::Exhausted,
        }
    }
}

/// How far [`advance`] has come.
#[derive(Default)]
struct Outcome {
    consumed: usize,
    is_established: bool,
    failure: Option<Error>,
}

fn advance<Data>(
    connection: &mut UnbufferedConnectionCommon<Data>,
    process: impl for<'c, 'i> Fn(
        &'c mut UnbufferedConnectionCommon<Data>,
        &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Data>,
    incoming: &mut [u8],
    sink: &mut Sink<'_>,
    wish: Wish<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut wish = Some(wish);
    loop {
        let UnbufferedStatus { discard, state } = process(connection, &mut incoming[outcome.consumed..]);
        outcome.consumed += discard;
        let step = match state {
            Ok(ConnectionState::ReadTraffic(mut records)) => loop {
                match records.next_record() {
                    Some(Ok(record)) => {
                        outcome.consumed += record.discard;
                        sink.take(record.payload);
                    }
                    Some(Err(error)) => break Err(error),
                    None => break Ok(true),
                }
            },
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                let goes_on = outcome.failure.is_none();
                sink.append(1024, |room| Ok(data.encode(room)?)).map(|()| goes_on)
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Ok(true)
            }
            Ok(ConnectionState::PeerClosed) => {
                *sink.is_at_end = true;
                Ok(true)
            }
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                outcome.is_established = true;
                fulfil(wish.take(), &mut traffic, sink)
            }
            // Early data is never accepted, so that there is none to read.
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        };
        match step {
            Ok(true) => {}
            Ok(false) => return outcome,
            // A peer that does not speak TLS could not read an alert.
            Err(error @ Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
                outcome.failure.get_or_insert(error);
                return outcome;
            }
            // Once more, to send the alert: the faulty bytes must not be processed again behind it.
            Err(error) if outcome.failure.is_none() => outcome.failure = Some(error),
            Err(_) => return outcome,
        }
    }
}

/// Nothing more is to be done behind it: `false`.
fn fulfil<Data>(
    wish: Option<Wish<'_>>,
    traffic: &mut WriteTraffic<'_, Data>,
    sink: &mut Sink<'_>,
) -> Result<bool, Error> {
    match wish {
        Some(Wish::Encrypt(bytes)) => {
            let records = bytes.len().div_ceil(RECORD_DATA_BYTES_MAX);
            let room = bytes.len() + records * RECORD_OVERHEAD_MAX;
            sink.append(room, |room| Ok(traffic.encrypt(bytes, room)?))?;
        }
        Some(Wish::CloseNotify) => {
            sink.append(RECORD_OVERHEAD_MAX, |room| Ok(traffic.queue_close_notify(room)?))?;
        }
        Some(Wish::Nothing) | None => {}
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
