//! TLS of one connection: decrypts bytes read from its socket, and encrypts bytes to be written.
//!
//! ```text
//!   socket -> [partial] -> scratch -> rustls -> the caller's buffer, or [decrypted] if it is full
//!   the caller's bytes -> rustls -> [outgoing] -> socket
//! ```
//!
//! Buffers in brackets belong to the session, and are usually empty: an idle session has no buffers. Records are
//! decrypted and encrypted in buffers of the thread, borrowed for the duration of a call.
//!
//! 1. All complete records are decrypted at once: bytes that no readiness event will announce are in `decrypted`, and
//!    [`Session::has_decrypted`] reports them. `partial` has only part of a record, or of a handshake message.
//! 2. A call encrypts nothing until `outgoing` is empty: records are sent in order, and at most [`PIECE_BYTES_MAX`]
//!    and the messages of a handshake wait to be sent.
//! 3. After the first error nothing is read or written, but bytes decrypted before are still returned.
//!
//! Rejected: rustls's buffered interface. It has its own buffers for each connection, and copies once more.

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

/// Maximum number of bytes encrypted per call, about the size of a socket's buffer.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;
/// Ciphertext read per call, and the maximum size of a handshake message: larger ones are refused.
const SCRATCH_BYTES: usize = 80 * 1024;
/// Length of the longest record, with its header.
const RECORD_BYTES_MAX: usize = 5 + 16 * 1024 + 2048;
/// Maximum overhead of encryption: header, nonce, type, tag.
const RECORD_OVERHEAD_MAX: usize = 64;
/// Maximum number of reads per call that yield no data: alerts, tickets and so on.
const EMPTY_READS_MAX: usize = 4;
/// Estimated memory of an idle session in rustls: keys of both directions, state, handshake transcript.
const INNER_BYTES: usize = 3 * 1024;
const BLOCK_BYTES: usize = 16;
/// Length and tag of a record, which count as blocks.
const BLOCKS_BESIDE_DATA: usize = 2;
/// Data in the longest record.
const RECORD_DATA_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    /// Buffer for received ciphertext, at its maximum length.
    static INCOMING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// Buffer for ciphertext to be sent.
    static OUTGOING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// Buffer to gather slices into one record.
    static GATHERED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The role of this end.
enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// TLS of one connection.
pub struct Session {
    side: Side,
    /// The beginning of an incomplete record.
    partial: Vec<u8>,
    /// Decrypted bytes, of which `handed_out` have been returned.
    decrypted: Vec<u8>,
    handed_out: usize,
    /// Encrypted bytes, of which `sent` have been sent.
    outgoing: Vec<u8>,
    sent: usize,
    /// Whether the peer has closed its sending side.
    is_at_end: bool,
    /// Whether the socket may have unread bytes.
    may_have_more: bool,
    is_established: bool,
    /// Whether a copy of the session continues in another process, so that this one writes nothing more.
    is_silent: bool,
    /// Bytes of the peer that rustls stores: handshake messages, afterwards its certificates.
    inner_bytes: usize,
    /// Blocks encrypted with a key of TLS 1.2.
    blocks: u64,
    failure: Option<Box<Error>>,
}

/// A request to rustls in addition to decryption.
enum Wish<'a> {
    Nothing,
    Encrypt(&'a [u8]),
    CloseNotify,
}

impl Session {
    /// Creates the server's end.
    pub fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::new(Side::Server(UnbufferedServerConnection::new(config)?)))
    }

    /// Creates the client's end. The first message is encoded at once, and sent by [`Self::handshake`].
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

    /// Returns whether the handshake is complete.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns whether there are decrypted bytes, or an end of stream, that no readiness event will announce.
    #[inline]
    pub fn has_decrypted(&self) -> bool {
        self.handed_out < self.decrypted.len() || self.is_at_end || self.failure.is_some()
    }

    /// Returns [`Self::has_decrypted`], or whether the socket may have unread bytes.
    #[inline]
    pub fn has_unread(&self) -> bool {
        self.may_have_more || self.has_decrypted()
    }

    /// Returns whether encrypted bytes wait to be sent.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns the error that ended the session.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_deref()
    }

    /// Returns the peer's verified certificate, if it has presented one.
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

    /// Counts blocks to be encrypted, and fails above the limit of a key: TLS 1.3 can update its key, TLS 1.2 cannot.
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

    /// Returns the memory of the session; that of rustls is estimated.
    pub fn memory_bytes(&self) -> usize {
        let buffers = self.partial.capacity() + self.decrypted.capacity() + self.outgoing.capacity();
        size_of::<Self>() + INNER_BYTES + self.inner_bytes + buffers
    }

    /// Continues the handshake with the received bytes. Returns whether it is complete.
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

    /// Appends decrypted bytes to the spare capacity of `bytes`, which must not be zero, and returns their number; 0
    /// is the end of the stream.
    pub fn read(&mut self, socket: &mut (impl Read + Write), bytes: &mut Vec<u8>) -> io::Result<usize> {
        if self.handed_out < self.decrypted.len() {
            // The socket is not read here, so its readiness is unknown.
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
            // Bytes that cannot be sent now are sent by the next `flush`, or the next read returns the error.
            let _ = self.flush(socket);
        }
        match (bytes.len() - before, ended) {
            (0, Err(error)) => Err(error),
            (0, Ok(())) if self.is_at_end || self.has_decrypted() => Ok(0),
            (0, Ok(())) => Err(ErrorKind::WouldBlock.into()),
            (count, _) => Ok(count),
        }
    }

    /// Returns whether there was an error.
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

    /// Updates `inner_bytes`: during the handshake messages may be stored twice, whole and in parts.
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

    /// Disables writing, including the close_notify alert.
    pub fn stop_writing(&mut self) {
        (self.is_silent, self.outgoing, self.sent) = (true, Vec::new(), 0);
    }

    /// Encrypts a part of `bytes`, sends as much as the socket accepts, and returns the number of bytes encrypted.
    /// Returns `WouldBlock` before the handshake is complete, and while earlier bytes are unsent.
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

    /// Like [`Self::write`], for several slices.
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
        // Incomplete handshake messages stay in place.
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

    /// Sends encrypted bytes; returns `WouldBlock` if some are left.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        if self.is_silent {
            // Alerts caused by reading are not sent.
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

    /// Lets rustls process `incoming`, and returns the number of bytes processed.
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

/// Destinations of rustls's output.
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

    /// Appends the output of `encode`, which is called again with more room if it asks for it.
    fn append(
        &mut self,
        room: usize,
        mut encode: impl FnMut(&mut [u8]) -> Result<usize, Refused>,
    ) -> Result<(), Error> {
        let start = self.outgoing.len();
        let mut room = room;
        // The second call has as much room as the first asked for.
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

/// Result of [`advance`].
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
            // Early data is never accepted, so there is none to read.
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
            // Continue once to send the alert; the invalid bytes must not be processed again after it.
            Err(error) if outcome.failure.is_none() => outcome.failure = Some(error),
            Err(_) => return outcome,
        }
    }
}

/// Fulfils the request and returns `false`: nothing else is to be done.
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
