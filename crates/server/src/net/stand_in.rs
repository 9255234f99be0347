//! A replacement of an I/O thread and its clients, for benchmarks of the executor alone (`benches/executor`). It has the
//! thread's end of the queues and no sockets: the benchmark fills the clients' query buffers, and all replies are read.

use super::by_handle::OfClient;
use super::connection::Connection;
use super::event_loop::EventLoop;
use super::io_thread::{ANNOUNCED_DELIVERIES, Delivery, Order, Parts};
use super::query_buffer::QueryBuffer;
use super::transport::Transport;
use crate::session::client::ConnectionFigures;
use std::io;
use std::os::unix::net::UnixStream;
use wire::convert::short_len;
use wire::request::Limits;

/// The thread's end of the queues.
pub struct StandIn {
    parts: Parts,
    /// The clients' connections, never read or written.
    connections: Vec<Connection>,
}

impl StandIn {
    /// Takes the executor's orders, and returns a processed query buffer, or the empty one of a new client.
    pub fn receive(&mut self) -> Option<Box<QueryBuffer>> {
        loop {
            match self.parts.orders.receive()? {
                Order::Serve(query_buffer) => return Some(query_buffer),
                Order::Adopt { connection, .. } => {
                    let query_buffer = Box::new(QueryBuffer::new(connection.handle()));
                    self.connections.push(*connection);
                    return Some(query_buffer);
                }
                // Clients of a benchmark get no other output, do not move, and are not closed.
                Order::Send { .. } | Order::Close(_) | Order::Release(_) | Order::Stop => {}
            }
        }
    }

    /// Parses requests, looks up their commands and hashes their keys, as an I/O thread does.
    pub fn parse(&self, query_buffer: &mut QueryBuffer) {
        let shared = &self.parts.shared;
        query_buffer.consume();
        query_buffer.parse_ahead(&Limits::default(), &shared.registry, shared.seed);
    }

    /// Delivers parsed requests to the executor.
    pub fn deliver(&mut self, query_buffer: Box<QueryBuffer>) {
        self.parts.deliveries.send(Delivery::Requests(query_buffer));
        if self.parts.deliveries.unannounced() >= ANNOUNCED_DELIVERIES {
            self.parts.deliveries.announce();
        }
    }

    /// Ends a turn: wakes the executor if it sleeps.
    pub fn announce(&mut self) {
        self.parts.deliveries.announce();
    }
}

impl EventLoop {
    /// Runs `work` in a thread that replaces an I/O thread with this number of clients. I/O threads must not be started
    /// otherwise.
    pub fn start_stand_in(
        &mut self,
        clients: usize,
        work: impl FnOnce(StandIn) + Send + 'static,
    ) -> io::Result<()> {
        let figures = &mut self.executor.server.observed.memory.io_threads;
        self.threads.start_with(figures, |parts| work(StandIn { parts, connections: Vec::new() }))?;
        let config = &mut self.executor.server.config;
        (config.io_threads, config.io_threads_always_active) = (short_len(self.threads.len() + 1), true);
        for _ in 0..clients {
            let (socket, _) = UnixStream::pair()?;
            let handle = self.executor.connect(ConnectionFigures::default());
            let connection = Connection::new(handle, Transport::Plain(socket.into()));
            self.place(Box::new(connection), None, self.threads.len());
        }
        self.threads.announce();
        Ok(())
    }
}
