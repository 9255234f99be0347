//! What stands in for an I/O thread and its clients where the executor is measured by itself (`benches/executor`). It has
//! the thread's end of the queues and no sockets: its clients send whatever the measurement puts into their query
//! buffers, and read all that they are answered.

use super::connection::Connection;
use super::event_loop::EventLoop;
use super::io_thread::{ANNOUNCED_DELIVERIES, Delivery, Order, Parts};
use super::query_buffer::QueryBuffer;
use super::transport::Transport;
use crate::session::client::ConnectionFigures;
use std::io;
use std::os::unix::net::UnixStream;
use wire::request::Limits;

pub struct StandIn {
    parts: Parts,
    /// The clients' connections, of which nothing is read or written.
    connections: Vec<Connection>,
}

impl StandIn {
    /// Takes the executor's orders as they come, and returns a query buffer that has been answered, or that of a new
    /// client, which has sent nothing.
    pub fn receive(&mut self) -> Option<Box<QueryBuffer>> {
        loop {
            match self.parts.orders.receive()? {
                Order::Serve(query_buffer) => return Some(query_buffer),
                Order::Adopt { connection, .. } => {
                    let query_buffer = Box::new(QueryBuffer::new(connection.handle));
                    self.connections.push(*connection);
                    return Some(query_buffer);
                }
                // No client is sent what it has not asked for, moves, or is closed.
                Order::Send { .. } | Order::Close(_) | Order::Release(_) | Order::Stop => {}
            }
        }
    }

    /// Cuts what a client sends into requests, looks their commands up and hashes their keys, all as an I/O thread does.
    pub fn parse(&self, query_buffer: &mut QueryBuffer) {
        let shared = &self.parts.shared;
        query_buffer.consume();
        query_buffer.parse_ahead(&Limits::default(), &shared.registry, shared.seed);
    }

    /// Hands parsed requests over.
    pub fn deliver(&mut self, query_buffer: Box<QueryBuffer>) {
        self.parts.deliveries.send(Delivery::Requests(query_buffer));
        if self.parts.deliveries.unannounced() >= ANNOUNCED_DELIVERIES {
            self.parts.deliveries.announce();
        }
    }

    /// The end of a turn: wakes the executor if it sleeps.
    pub fn announce(&mut self) {
        self.parts.deliveries.announce();
    }
}

impl EventLoop {
    /// Has `work` run in a thread that stands in for an I/O thread with so many clients. Nothing else may have started
    /// threads, or will.
    pub fn start_stand_in(
        &mut self,
        clients: usize,
        work: impl FnOnce(StandIn) + Send + 'static,
    ) -> io::Result<()> {
        let figures = &mut self.executor.server.observed.memory.io_threads;
        self.threads.start_with(figures, |parts| work(StandIn { parts, connections: Vec::new() }))?;
        let config = &mut self.executor.server.config;
        (config.io_threads, config.io_threads_always_active) = (self.threads.len() as u32 + 1, true);
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
