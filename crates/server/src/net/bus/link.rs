//! A link of the bus: a socket, the frame that is coming, and the frames that wait for room in the socket.
//!
//! ```text
//!  opened     Resolving -> Connecting -> Open      frames wait until it is open
//!  accepted          Accepting (TLS)  -> Open
//! ```
//!
//! 1. Of a partial frame only what has come is held; frames to be sent are shared with the other links that send them.
//! 2. The poller reports each change once (edges): a link that may have unread input is on its thread's list.

use super::super::poller::{Poller, Token};
use super::super::transport::{Stopped, Transport};
use super::CloseReason;
use cluster::LinkId;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use wire::cluster_bus::{Encoded, Incoming};

/// Bytes written to a socket before other links have their turn.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Frames written by one system call.
const WRITE_RUNS_MAX: usize = 64;

/// How far a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The address of its name is being looked up.
    Resolving,
    /// The connection, with its TLS handshake, is being made.
    Connecting,
    /// The other node's TLS handshake is in progress.
    Accepting,
    /// Frames pass.
    Open,
}

/// What came of reading once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// Bytes are in the buffer, and more may be in the socket.
    Bytes,
    /// The socket has no more.
    Nothing,
}

pub(super) struct Link {
    pub(super) id: LinkId,
    /// Another node has opened it.
    pub(super) is_accepted: bool,
    pub(super) stage: Stage,
    pub(super) peer: Option<SocketAddr>,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// It is on the list of links to be read.
    pub(super) is_listed: bool,
    /// It is on the list of links to be written.
    pub(super) is_dirty: bool,
    /// A well-formed frame has come.
    pub(super) has_spoken: bool,
    /// The other end is a known node, as the executor has found.
    pub(super) is_bound: bool,
    /// Bytes to be sent, as last reported to the executor, and when.
    pub(super) reported_bytes: usize,
    pub(super) reported_us: u64,
    /// `None` while its name is looked up.
    transport: Option<Transport>,
    watches_writable: bool,
    has_hung_up: bool,
}

impl Link {
    /// A link that this node opens.
    pub(super) fn opened(id: LinkId, stage: Stage, message_bytes_max: usize) -> Self {
        Link {
            id,
            is_accepted: false,
            stage,
            peer: None,
            incoming: Incoming::new(message_bytes_max),
            outgoing: Outgoing::default(),
            is_listed: false,
            is_dirty: false,
            has_spoken: false,
            is_bound: false,
            reported_bytes: 0,
            reported_us: 0,
            transport: None,
            watches_writable: false,
            has_hung_up: false,
        }
    }

    /// A link that another node has opened.
    pub(super) fn accepted(id: LinkId, stage: Stage, message_bytes_max: usize) -> Self {
        Link { is_accepted: true, ..Link::opened(id, stage, message_bytes_max) }
    }

    /// Its number, by which the poller knows it.
    pub(super) fn number(&self) -> u64 {
        self.id.number()
    }

    /// Gives it its socket, which is watched from now on. What is ready already is reported.
    pub(super) fn join(&mut self, transport: Transport, poller: &Poller) -> Result<(), CloseReason> {
        let token = Token::BusLink(self.number());
        poller.add_edges(transport.fd(), token).map_err(CloseReason::Failed)?;
        if self.stage == Stage::Connecting {
            poller.watch_edges(transport.fd(), token, true).map_err(CloseReason::Failed)?;
            self.watches_writable = true;
        }
        self.transport = Some(transport);
        Ok(())
    }

    /// Leaves the poller: a child may have a duplicate of the socket, which would keep it there.
    pub(super) fn leave(&self, poller: &Poller) {
        if let Some(transport) = &self.transport {
            let _ = poller.remove(transport.fd());
        }
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.transport.as_ref()?.local_address()
    }

    /// Continues to connect or to shake hands; returns whether it is open now.
    pub(super) fn go_on(&mut self, poller: &Poller) -> Result<bool, CloseReason> {
        let token = Token::BusLink(self.number());
        let Some(transport) = &mut self.transport else { return Ok(false) };
        let is_open = transport.connected().map_err(CloseReason::Failed)?;
        if is_open {
            self.stage = Stage::Open;
        }
        // A handshake, or its end, may wait for room. Present readiness is reported again.
        self.watches_writable = transport.has_unsent();
        poller.watch_edges(transport.fd(), token, self.watches_writable).map_err(CloseReason::Failed)?;
        Ok(is_open)
    }

    /// The other end has closed its direction: the end is found by reading, even if no event reports it again.
    pub(super) fn hung_up(&mut self) {
        self.has_hung_up = true;
    }

    /// Reads once into the buffer's spare capacity.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, poller: &Poller) -> Result<Transfer, CloseReason> {
        let Some(transport) = &mut self.transport else { return Ok(Transfer::Nothing) };
        let transfer = match transport.read(buffer) {
            Ok(_) => Transfer::Bytes,
            // Under TLS a read may return no bytes but leave the end, which no event reports again.
            Err(Stopped::WouldBlock) => match transport {
                Transport::Tls(tls) if tls.has_unread() || self.has_hung_up => Transfer::Bytes,
                _ => Transfer::Nothing,
            },
            Err(Stopped::Closed) => return Err(CloseReason::Peer),
        };
        // TLS may have to answer.
        if transport.has_unsent() && !self.watches_writable {
            self.watch(true, poller)?;
        }
        Ok(transfer)
    }

    /// Sends what the socket takes, unless an event will report room in it.
    pub(super) fn write(&mut self, poller: &Poller) -> Result<(), CloseReason> {
        if self.watches_writable { Ok(()) } else { self.use_room(poller) }
    }

    /// Sends what the socket takes, and watches for room if something is left.
    pub(super) fn use_room(&mut self, poller: &Poller) -> Result<(), CloseReason> {
        if self.stage != Stage::Open {
            return Ok(());
        }
        let (mut written_bytes, mut has_more) = (0, true);
        while has_more && written_bytes < WRITE_BYTES_MAX {
            match self.write_once() {
                Ok(0) => has_more = false,
                Ok(count) => written_bytes += count,
                Err(Stopped::WouldBlock) => break,
                Err(Stopped::Closed) => return Err(CloseReason::Peer),
            }
        }
        // After a turn's share the socket may still have room, which is reported only to a new watch.
        if has_more || self.watches_writable {
            self.watch(has_more, poller)?;
        }
        Ok(())
    }

    /// Writes some frames; returns the number of bytes, which is 0 if everything is sent.
    fn write_once(&mut self) -> Result<usize, Stopped> {
        let Some(transport) = &mut self.transport else { return Ok(0) };
        let mut runs = [IoSlice::new(&[]); WRITE_RUNS_MAX];
        let count = self.outgoing.runs(&mut runs);
        if count == 0 {
            if transport.has_unsent() {
                transport.flush()?;
            }
            return Ok(0);
        }
        let sent = transport.write_runs(&runs[..count])?;
        self.outgoing.sent(sent);
        Ok(sent)
    }

    fn watch(&mut self, writable: bool, poller: &Poller) -> Result<(), CloseReason> {
        let Some(transport) = &self.transport else { return Ok(()) };
        self.watches_writable = writable;
        let token = Token::BusLink(self.number());
        poller.watch_edges(transport.fd(), token, writable).map_err(CloseReason::Failed)
    }
}

/// Frames that the socket has not taken.
#[derive(Default)]
pub(super) struct Outgoing {
    frames: VecDeque<Encoded>,
    /// Bytes of the first frame that are sent.
    sent_of_first: usize,
    bytes: usize,
}

impl Outgoing {
    pub(super) fn push(&mut self, frame: Encoded) {
        self.bytes += frame.as_bytes().len();
        self.frames.push_back(frame);
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn runs<'a>(&'a self, runs: &mut [IoSlice<'a>]) -> usize {
        let mut skipped = self.sent_of_first;
        let mut count = 0;
        for (run, frame) in runs.iter_mut().zip(&self.frames) {
            *run = IoSlice::new(&frame.as_bytes()[std::mem::take(&mut skipped)..]);
            count += 1;
        }
        count
    }

    fn sent(&mut self, mut count: usize) {
        self.bytes -= count;
        while let Some(first) = self.frames.front() {
            let rest = first.as_bytes().len() - self.sent_of_first;
            if count < rest {
                self.sent_of_first += count;
                return;
            }
            count -= rest;
            self.sent_of_first = 0;
            self.frames.pop_front();
        }
    }
}
