//! A client's end of a connection: what it has sent arrives in pieces, and goes through the query buffer.

use crate::connect;
use crate::history::Words;
use server::engine::{Executor, confirmation};
use server::net::query_buffer::{QueryBuffer, Transfer};
use server::net::transport::Transport;
use server::session::ClientHandle;
use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use structures::random::Random;
use wire::request::Limits;

/// A request on its way; the unit that it does, if it does one.
pub struct Request {
    pub words: Words,
    pub does: Option<(Vec<Words>, u64)>,
}

pub struct Peer {
    pub handle: ClientHandle,
    pub is_administrator: bool,
    /// None when it has closed its end.
    stream: Option<UnixStream>,
    transport: Transport,
    query_buffer: QueryBuffer,
    unsent: Vec<u8>,
    /// Requests written by the client and not run by the server.
    on_the_way: VecDeque<Request>,
    /// For each unit whose reply it has not received: how many units there were with it. The reply is one [`RECEIPT`].
    pub unacknowledged: VecDeque<usize>,
}

/// What the server's replies to units are replaced by.
pub const RECEIPT: u8 = 1;

/// Appends a request.
pub fn encode(words: &Words, bytes: &mut Vec<u8>) {
    bytes.extend(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
}

impl Peer {
    pub fn new(executor: &mut Executor, is_administrator: bool) -> Self {
        let (stream, socket) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let handle = connect(executor);
        Peer {
            handle,
            is_administrator,
            stream: Some(stream),
            transport: Transport::Plain(socket.into()),
            query_buffer: QueryBuffer::new(handle),
            unsent: Vec::new(),
            on_the_way: VecDeque::new(),
            unacknowledged: VecDeque::new(),
        }
    }

    /// Whether it is at leisure to think of something new.
    pub fn is_idle(&self) -> bool {
        self.on_the_way.is_empty() && self.stream.is_some()
    }

    pub fn write(&mut self, request: Request) {
        encode(&request.words, &mut self.unsent);
        self.on_the_way.push_back(request);
    }

    /// Closes its end. What it has sent before may still be read.
    pub fn vanish(&mut self) {
        (self.stream, self.unsent) = (None, Vec::new());
    }

    /// Sends some of what it has to send, often less than a request.
    pub fn send(&mut self, random: &mut Random) {
        let Some(stream) = &mut self.stream else { return };
        let len = match random.below(3) {
            0 => random.below(40) as usize,
            1 => random.below(4000) as usize,
            _ => self.unsent.len(),
        };
        let sent = stream.write(&self.unsent[..len.min(self.unsent.len())]).unwrap_or(0);
        self.unsent.drain(..sent);
    }

    /// Reads once; `false`: the connection is closed, and all that came has been read.
    pub fn read(&mut self) -> bool {
        self.query_buffer.read(&mut self.transport) != Transfer::Closed
    }

    /// Receives what the server sends now; returns how many units are acknowledged with it.
    pub fn receive(&mut self, executor: &mut Executor) -> Option<usize> {
        confirmation::release(executor, self.handle);
        let sent = executor.server.clients[self.handle].output.take().copy_from(0);
        let receipts = sent.iter().filter(|&&byte| byte == RECEIPT).count();
        self.unacknowledged.drain(..receipts).next_back()
    }

    /// The next request that has arrived whole.
    pub fn next_request(&mut self, executor: &Executor) -> Option<Request> {
        if !self.query_buffer.has_requests() {
            self.query_buffer.consume();
            self.query_buffer.parse(&Limits::default(), &executor.server.registry, executor.db.key_seed());
            assert_eq!(
                self.query_buffer.broken(),
                None,
                "{:?}",
                self.query_buffer.unparsed().escape_ascii().to_string()
            );
        }
        let args = self.query_buffer.next_request()?.args;
        let request = self.on_the_way.pop_front().expect("what arrives has been sent");
        assert!(args.iter().eq(request.words.iter().map(Vec::as_slice)), "requests arrive as they were sent");
        Some(request)
    }
}
