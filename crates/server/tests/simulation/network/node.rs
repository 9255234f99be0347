//! A server of the network: its executor, its disk, and the turn of its loop. What `net` does with sockets is done here
//! with simulated connections.

use super::CLIENTS;
use super::wires::{Arrived, End, Wires};
use crate::history::ask;
use crate::world::{Disk, End as ProcessEnd};
use server::config::{Config, ReplicaOf};
use server::engine::{Executor, Flow, ReplicaSockets};
use server::net::query_buffer::QueryBuffer;
use server::observe::replication::LinkState;
use server::server::{ProcessRequest, Shutdown, Target};
use server::session::ClientHandle;
use server::session::client::ConnectionFigures;
use server::sys::world::World;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use structures::random::Random;
use wire::request::Limits;

pub const PORT: u16 = 6379;
/// Bytes read from a connection in one turn.
const READ_BYTES: usize = 16 << 10;
/// Unread input of a blocked client.
const WAITING_INPUT_BYTES_MAX: usize = 1 << 20;

pub fn address_of(node: usize) -> ReplicaOf {
    ReplicaOf { host: format!("10.0.0.{node}").into_bytes(), port: PORT }
}

pub fn node_of(host: &[u8]) -> Option<usize> {
    std::str::from_utf8(host).ok()?.strip_prefix("10.0.0.")?.parse().ok()
}

/// Where a client's bytes come from and go to.
pub enum Line {
    /// Another server.
    Wire(End),
    /// A client beside the server: what it has sent and what it has been sent; it takes all at once.
    Local { sent: Vec<u8>, received: Vec<u8> },
    /// Not established yet.
    Connecting,
}

pub struct Connection {
    pub handle: ClientHandle,
    pub line: Line,
    query_buffer: Option<Box<QueryBuffer>>,
}

/// A connection attempt that this server has begun.
pub struct Attempt {
    pub handle: ClientHandle,
    pub life: u64,
    pub target: Target,
}

pub struct Node {
    pub index: usize,
    pub disk: Arc<Disk>,
    pub config: Config,
    pub executor: Option<Box<Executor>>,
    /// By the handle's index.
    connections: BTreeMap<usize, Connection>,
    /// When it was started, on the network's clock.
    started_us: u64,
    pub lives: u64,
    /// When it last lost data, or what it had: it was stopped, or loaded a snapshot.
    pub disturbed_us: u64,
    /// The number of each client that it has said it has, since then.
    pub safe: [u64; CLIENTS],
    /// The id of its history.
    history: String,
    pub turns: u64,
    pub attempts: Vec<Attempt>,
    /// Attempts that have ended: the connection, or none.
    pub established: Vec<(ClientHandle, Option<End>)>,
    skew_us: i64,
}

/// What is on the network's side of a turn.
pub struct Context<'a> {
    pub wires: &'a mut Wires,
    pub random: &'a mut Random,
    pub now_us: u64,
}

impl Node {
    pub fn new(index: usize, config: Config, random: &mut Random) -> Self {
        Node {
            index,
            disk: Arc::new(Disk::new(random.next_u64())),
            config,
            executor: None,
            connections: BTreeMap::new(),
            started_us: 0,
            lives: 0,
            disturbed_us: 0,
            safe: [0; CLIENTS],
            history: String::new(),
            turns: 0,
            attempts: Vec::new(),
            established: Vec::new(),
            skew_us: random.below(2_000_000) as i64 - 1_000_000,
        }
    }

    pub fn is_up(&self) -> bool {
        self.executor.is_some()
    }

    pub fn executor(&mut self) -> &mut Executor {
        self.executor.as_mut().expect("the server runs")
    }

    pub fn start(&mut self, now_us: u64, seed: u64) {
        let now_us = now_us / 1000 * 1000;
        self.lives += 1;
        self.started_us = now_us;
        self.disturb(now_us);
        let mut executor = Box::new(crate::server_with(self.config.clone(), 0, seed));
        executor.move_to(World::of(self.disk.clone()));
        self.disk.set_time(now_us);
        executor.clock.set_unix_us(crate::START_UNIX_US + self.skew_us + now_us as i64);
        executor.begin_loading().expect("what a server has written it can read");
        while executor.is_loading() {
            executor.begin_tick();
            executor.load_step().expect("what a server has written it can read");
            executor.end_tick();
        }
        self.executor = Some(executor);
    }

    /// What it has said that it has is lost.
    fn disturb(&mut self, now_us: u64) {
        (self.disturbed_us, self.safe) = (now_us, [0; CLIENTS]);
    }

    /// The process ends. Its connections are closed by the system, unless the machine goes with it.
    pub fn stop(&mut self, end: ProcessEnd, world: &mut Context<'_>) {
        if let Some(executor) = &mut self.executor
            && let ProcessEnd::Exited(_) = end
        {
            executor.begin_tick();
            executor.shut_down(Shutdown { now: true, force: true, ..Shutdown::default() });
        }
        if let Some(executor) = self.executor.take() {
            // As if it had been rewritten.
            self.config.replicaof = executor.server.config.replicaof.clone();
        }
        for (_, connection) in std::mem::take(&mut self.connections) {
            match connection.line {
                Line::Wire(wire) if end == ProcessEnd::PowerCut => world.wires.lose(wire),
                Line::Wire(wire) => world.wires.close(wire, true, world.now_us),
                Line::Local { .. } | Line::Connecting => {}
            }
        }
        self.attempts.clear();
        self.established.clear();
        self.disturb(world.now_us);
        self.disk.restart(end);
    }

    /// A client beside the server connects, and selects a database.
    pub fn connect(&mut self, database: usize) -> ClientHandle {
        let handle = crate::connect(self.executor());
        let database = database.to_string();
        let answer = ask(self.executor(), handle, &[b"SELECT", database.as_bytes()]);
        assert_eq!(answer, b"+OK\r\n", "any server has this database");
        let line = Line::Local { sent: Vec::new(), received: Vec::new() };
        self.connections.insert(handle.index(), Connection { handle, line, query_buffer: None });
        handle
    }

    /// Another server's connection arrives.
    pub fn accept(&mut self, end: End, from: usize) {
        let address = format!("10.0.0.{from}:{}", 40_000 + end.wire % 20_000);
        let figures = ConnectionFigures { address, is_loopback: true, ..ConnectionFigures::default() };
        let handle = self.executor().connect(figures);
        let line = Line::Wire(end);
        self.connections.insert(handle.index(), Connection { handle, line, query_buffer: None });
    }

    /// A client beside the server is gone.
    pub fn hang_up(&mut self, handle: ClientHandle) {
        if self.connection(handle).is_some() {
            self.connections.remove(&handle.index());
            self.executor().disconnect(handle);
        }
    }

    fn connection(&mut self, handle: ClientHandle) -> Option<&mut Connection> {
        self.connections.get_mut(&handle.index()).filter(|connection| connection.handle == handle)
    }

    /// The connection of a client beside the server; `None`: it is closed.
    pub fn line(&mut self, handle: ClientHandle) -> Option<(&mut Vec<u8>, &mut Vec<u8>)> {
        match &mut self.connection(handle)?.line {
            Line::Local { sent, received } => Some((sent, received)),
            Line::Wire(_) | Line::Connecting => None,
        }
    }

    pub fn ask(&mut self, words: &[&str]) -> Vec<u8> {
        self.ask_in(0, words)
    }

    pub fn ask_in(&mut self, database: usize, words: &[&str]) -> Vec<u8> {
        let executor = self.executor();
        executor.begin_tick();
        let client = crate::connect(executor);
        executor.server.clients[client].db_index = database;
        // What a server has counts, even where it shows clients none of it while it has no link.
        let serves = std::mem::replace(&mut executor.server.config.replica_serve_stale_data, true);
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let answer = ask(executor, client, &words);
        executor.server.config.replica_serve_stale_data = serves;
        executor.disconnect(client);
        answer
    }

    pub fn is_linked(&self) -> bool {
        let link =
            self.executor.as_ref().and_then(|executor| executor.server.observed.replication.link.as_ref());
        link.is_some_and(|link| link.state == LinkState::Connected)
    }

    pub fn primary(&self) -> Option<usize> {
        let config = self.executor.as_ref().map_or(&self.config, |executor| &executor.server.config);
        config.replicaof.as_ref().and_then(|primary| node_of(&primary.host))
    }

    /// When it has something to do, on the network's clock.
    pub fn next_us(&self, wires: &Wires) -> u64 {
        let Some(executor) = &self.executor else { return u64::MAX };
        let timer_us = self.started_us.saturating_add(executor.next_timer_us());
        let read = self.connections.values().filter(|connection| is_read(executor, connection));
        let arrivals = read.filter_map(|connection| match &connection.line {
            Line::Wire(end) => wires.next_arrival_us(*end),
            Line::Local { sent, .. } => (!sent.is_empty()).then_some(0),
            Line::Connecting => None,
        });
        arrivals.chain([timer_us]).chain(self.established.iter().map(|_| 0)).min().unwrap_or(u64::MAX)
    }

    /// One turn of the loop; returns whether anything passed on a connection.
    pub fn tick(&mut self, world: &mut Context<'_>) -> bool {
        self.turn_clock(world.now_us);
        self.executor().begin_tick();
        let mut has_passed = self.finish_connecting(world);
        let handles: Vec<ClientHandle> =
            self.connections.values().map(|connection| connection.handle).collect();
        for handle in handles {
            has_passed |= self.serve(handle, world);
        }
        if self.executor().replication.sync_pipe().is_some() && world.random.below(3) > 0 {
            self.executor().read_sync_pipe();
        }
        self.executor().start_requested_shutdown();
        self.executor().run_timers();
        self.resume(world);
        self.executor().end_tick();
        self.take_process_requests();
        has_passed |= self.flush(world);
        self.begin_rdb_channels(world);
        self.close_clients_asap(world);
        self.executor().note_replicas();
        let has_other_data = self.takes_other_history();
        if self.executor().is_loading() || has_other_data {
            self.disturb(world.now_us);
        }
        has_passed
    }

    /// Whether its history does not continue the one that it has had: a snapshot may be loaded within one turn.
    fn takes_other_history(&mut self) -> bool {
        let figures = &self.executor.as_ref().expect("the server runs").server.observed.replication;
        let (id, second) = (&figures.id, figures.second_id.as_ref().map(|(id, _)| id));
        if *id == self.history {
            return false;
        }
        let continues = second == Some(&self.history);
        self.history = id.clone();
        !continues
    }

    fn takes_bytes(&mut self, handle: ClientHandle) -> bool {
        let executor = self.executor();
        executor.replication.upstream().takes_bytes(&executor.server, handle)
    }

    fn turn_clock(&mut self, now_us: u64) {
        let due_ms = (now_us - self.started_us) / 1000;
        let unix_us = crate::START_UNIX_US + self.skew_us + now_us as i64;
        let executor = self.executor();
        executor.clock.advance_ms(due_ms - executor.clock.monotonic_us() / 1000);
        executor.clock.set_unix_us(unix_us);
        self.disk.set_time(now_us);
    }

    fn finish_connecting(&mut self, world: &mut Context<'_>) -> bool {
        let established = std::mem::take(&mut self.established);
        let has_any = !established.is_empty();
        for (handle, end) in established {
            match (end, self.connection(handle)) {
                (Some(end), Some(connection)) => {
                    connection.line = Line::Wire(end);
                    self.executor().connected(handle);
                }
                (Some(end), None) => world.wires.close(end, false, world.now_us),
                (None, Some(_)) => {
                    let error = io::Error::from(ErrorKind::ConnectionRefused);
                    self.executor().replication.upstream().connecting_failed(handle, &error);
                    self.close(handle, world);
                }
                (None, None) => {}
            }
        }
        has_any
    }

    /// Reads once, and runs what has come.
    fn serve(&mut self, handle: ClientHandle, world: &mut Context<'_>) -> bool {
        let is_up = self.executor().server.clients.get(handle).is_some();
        let Some(connection) = self.connections.get_mut(&handle.index()).filter(|_| is_up) else {
            return false;
        };
        let executor = self.executor.as_mut().expect("the server runs");
        let mut query_buffer =
            connection.query_buffer.take().unwrap_or_else(|| Box::new(QueryBuffer::new(handle)));
        let unread_bytes = query_buffer.unread_bytes();
        let arrived = match &mut connection.line {
            line if reads(executor, handle, unread_bytes) => read(line, world),
            _ => Arrived::Nothing,
        };
        let has_come = arrived != Arrived::Nothing;
        match arrived {
            Arrived::Nothing => {}
            Arrived::Closed => {
                self.close(handle, world);
                return true;
            }
            Arrived::Bytes(bytes) => {
                query_buffer.input_mut().extend_from_slice(&bytes);
                query_buffer.store_read_time(executor.server.now.monotonic_us);
                executor.count_input(handle, bytes.len());
                if executor.server.clients[handle].is_closing() {
                    query_buffer.discard();
                }
            }
        }
        if !has_come {
            connection.query_buffer = Some(query_buffer);
            return false;
        }
        self.go_on(handle, query_buffer, world);
        true
    }

    fn go_on(&mut self, handle: ClientHandle, mut query_buffer: Box<QueryBuffer>, world: &mut Context<'_>) {
        if self.takes_bytes(handle) && !self.hand_over_bytes(handle, &mut query_buffer, world) {
            return self.keep(handle, query_buffer);
        }
        self.run_requests(handle, query_buffer);
        if self.executor().replication.is_waiting_replica(handle) {
            self.begin_rdb_channels(world);
        }
    }

    fn keep(&mut self, handle: ClientHandle, query_buffer: Box<QueryBuffer>) {
        if let Some(connection) = self.connection(handle) {
            connection.query_buffer = Some(query_buffer);
        }
    }

    fn hand_over_bytes(
        &mut self,
        handle: ClientHandle,
        query_buffer: &mut QueryBuffer,
        world: &mut Context<'_>,
    ) -> bool {
        loop {
            let taken = self.executor().received(handle, query_buffer.unparsed());
            query_buffer.skip(taken);
            if !self.takes_bytes(handle) {
                return true;
            }
            if !self.executor().has_room_for_bytes(handle) {
                return false;
            }
            let Some(connection) = self.connection(handle) else { return false };
            let Line::Wire(end) = connection.line else { return false };
            // An end is found again.
            if world.wires.next_arrival_us(end).is_none() {
                return false;
            }
            let Arrived::Bytes(bytes) = world.wires.receive(end, READ_BYTES, world.now_us) else {
                return false;
            };
            query_buffer.input_mut().extend_from_slice(&bytes);
            self.executor().count_input(handle, bytes.len());
        }
    }

    fn parse(&mut self, query_buffer: &mut QueryBuffer) {
        let executor = self.executor();
        let (registry, seed, limits) = (&executor.server.registry, executor.db.key_seed(), Limits::default());
        match executor.server.clients[query_buffer.handle].is_primary {
            true => query_buffer.parse_stream(&limits, registry, seed),
            false => query_buffer.parse(&limits, registry, seed),
        }
    }

    fn run_requests(&mut self, handle: ClientHandle, mut query_buffer: Box<QueryBuffer>) {
        let mut reply = self.executor().borrow_output(handle);
        while self.executor().accepts_requests(handle) {
            if !query_buffer.has_requests() {
                query_buffer.consume_some();
                self.parse(&mut query_buffer);
            }
            if query_buffer.has_requests() {
                run_parsed(&mut query_buffer, self.executor(), &mut reply);
            } else if let Some(error) = query_buffer.broken() {
                self.executor().protocol_error(handle, error, query_buffer.unparsed(), &mut reply);
            } else {
                break;
            }
        }
        self.executor().return_output(handle, reply);
        query_buffer.consume();
        self.keep(handle, query_buffer);
    }

    fn resume(&mut self, world: &mut Context<'_>) {
        while let Some(handle) = self.executor().server.resumed.pop_front() {
            let Some(connection) = self.connection(handle) else { continue };
            let mut query_buffer =
                connection.query_buffer.take().unwrap_or_else(|| Box::new(QueryBuffer::new(handle)));
            if self.takes_bytes(handle) && !self.hand_over_bytes(handle, &mut query_buffer, world) {
                self.keep(handle, query_buffer);
            } else {
                if self.executor().has_kept_stream_for(handle) {
                    let executor = self.executor();
                    executor
                        .replication
                        .upstream_mut()
                        .pass_kept_stream(&mut executor.server, query_buffer.input_mut());
                }
                self.run_requests(handle, query_buffer);
            }
        }
    }

    fn take_process_requests(&mut self) {
        for request in std::mem::take(&mut self.executor().server.process_requests) {
            let ProcessRequest::Connect { client: handle, target } = request else { continue };
            if self.executor().server.clients.get(handle).is_some() {
                let line = Line::Connecting;
                self.connections.insert(handle.index(), Connection { handle, line, query_buffer: None });
                self.attempts.push(Attempt { handle, life: self.lives, target });
            }
        }
    }

    /// Writes what there is, as far as there is room.
    fn flush(&mut self, world: &mut Context<'_>) -> bool {
        self.executor().server.clients.with_output.clear();
        let handles: Vec<ClientHandle> =
            self.connections.values().map(|connection| connection.handle).collect();
        let mut has_passed = false;
        for handle in handles {
            has_passed |= self.write(handle, world);
        }
        has_passed
    }

    fn write(&mut self, handle: ClientHandle, world: &mut Context<'_>) -> bool {
        let Some(connection) = self.connections.get_mut(&handle.index()) else { return false };
        let executor = self.executor.as_mut().expect("the server runs");
        if executor.server.clients.get(handle).is_none() {
            return false;
        }
        let client = &mut executor.server.clients[handle];
        client.output_pending = false;
        if client.close_asap {
            return false;
        }
        let mut has_passed = false;
        let output = client.output.output();
        while !output.is_empty() {
            let run = output.runs().find(|run| !run.is_empty()).unwrap_or_default();
            let sent = send(&mut connection.line, run, world);
            output.advance(sent);
            has_passed |= sent > 0;
            if sent == 0 {
                break;
            }
        }
        if client.output.is_empty() {
            let closes = client.close_after_reply;
            executor.server.clients.output_written(handle);
            if closes {
                self.close(handle, world);
                return true;
            }
            if executor.server.clients[handle].is_replica {
                has_passed |= write_to_replica(executor, handle, &mut connection.line, world);
            }
        }
        has_passed
    }

    fn begin_rdb_channels(&mut self, world: &mut Context<'_>) {
        let due = self.executor().rdb_channels_due();
        let is_ready = |handle: &ClientHandle| {
            self.executor.as_ref().is_some_and(|executor| executor.server.clients[*handle].output.is_empty())
        };
        if due.is_empty() || !due.iter().all(is_ready) {
            return;
        }
        let mut ends = Vec::new();
        for handle in &due {
            match self.connection(*handle).map(|connection| &connection.line) {
                Some(Line::Wire(end)) => ends.push(*end),
                Some(Line::Local { .. } | Line::Connecting) | None => return,
            }
        }
        let (random, now_us) = (&mut *world.random, world.now_us);
        let mut sockets = Sockets { ends, wires: world.wires, random, now_us };
        self.executor.as_mut().expect("the server runs").begin_rdb_channels(&due, &mut sockets);
    }

    fn close_clients_asap(&mut self, world: &mut Context<'_>) {
        while let Some(handle) = self.executor().server.clients_to_close.pop() {
            self.close(handle, world);
        }
    }

    /// Closes a connection, from this side or because the other one is gone.
    pub fn close(&mut self, handle: ClientHandle, world: &mut Context<'_>) {
        let index = handle.index();
        if self.connections.get(&index).is_none_or(|connection| connection.handle != handle) {
            return;
        }
        if let Some(Line::Wire(end)) = self.connections.remove(&index).map(|connection| connection.line) {
            world.wires.close(end, world.random.below(2) == 0, world.now_us);
        }
        self.attempts.retain(|attempt| attempt.handle != handle);
        self.executor().disconnect(handle);
    }
}

/// Whether what comes is read for now.
fn reads(executor: &Executor, handle: ClientHandle, unread_bytes: usize) -> bool {
    let is_full = executor.is_waiting(handle) && unread_bytes > WAITING_INPUT_BYTES_MAX;
    !is_full && !executor.replication.upstream().leaves_unread(&executor.server, handle)
}

fn is_read(executor: &Executor, connection: &Connection) -> bool {
    let unread_bytes = connection.query_buffer.as_ref().map_or(0, |query_buffer| query_buffer.unread_bytes());
    executor.server.clients.get(connection.handle).is_some()
        && reads(executor, connection.handle, unread_bytes)
}

fn read(line: &mut Line, world: &mut Context<'_>) -> Arrived {
    match line {
        Line::Wire(end) => world.wires.receive(*end, READ_BYTES, world.now_us),
        Line::Local { sent, .. } if !sent.is_empty() => Arrived::Bytes(std::mem::take(sent)),
        Line::Local { .. } | Line::Connecting => Arrived::Nothing,
    }
}

/// Returns how many bytes are on their way.
fn send(line: &mut Line, bytes: &[u8], world: &mut Context<'_>) -> usize {
    match line {
        Line::Wire(end) => {
            let count = bytes.len().min(world.wires.room(*end));
            world.wires.send(*end, &bytes[..count], world.now_us, world.random);
            count
        }
        Line::Local { received, .. } => {
            received.extend_from_slice(bytes);
            bytes.len()
        }
        Line::Connecting => 0,
    }
}

fn write_to_replica(
    executor: &mut Executor,
    handle: ClientHandle,
    line: &mut Line,
    world: &mut Context<'_>,
) -> bool {
    let mut has_passed = false;
    for _ in 0..64 {
        let mut runs = [IoSlice::new(&[]); 8];
        let count = executor.replication.output_for(&mut executor.server, handle, &mut runs);
        if count == 0 {
            break;
        }
        let mut bytes: Vec<u8> = runs[..count].iter().flat_map(|run| run.iter().copied()).collect();
        if world.random.below(4) == 0 {
            bytes.truncate(world.random.below(bytes.len() as u64) as usize + 1);
        }
        let sent = send(line, &bytes, world);
        executor.replica_output_sent(handle, sent);
        has_passed |= sent > 0;
        if sent < bytes.len() || sent == 0 {
            break;
        }
    }
    has_passed
}

fn run_parsed(query_buffer: &mut QueryBuffer, executor: &mut Executor, reply: &mut wire::reply::ReplyBuffer) {
    let handle = query_buffer.handle;
    if executor.server.clients[handle].is_primary {
        while let Some((request, bytes)) = query_buffer.next_request_and_bytes() {
            executor.apply_streamed(handle, request, bytes, reply);
            if !executor.accepts_requests(handle) {
                return;
            }
        }
        return;
    }
    while let Some(request) = query_buffer.next_request() {
        if executor.execute_into(handle, request, reply) == Flow::Stop {
            return;
        }
    }
}

/// The sockets of replicas as a child writes to them.
struct Sockets<'a> {
    ends: Vec<End>,
    wires: &'a mut Wires,
    random: &'a mut Random,
    now_us: u64,
}

impl ReplicaSockets for Sockets<'_> {
    fn files(&self) -> Vec<i32> {
        Vec::new()
    }

    fn write_to(&mut self, place: usize, bytes: &[u8]) {
        self.wires.send(self.ends[place], bytes, self.now_us, self.random);
    }

    fn write_to_all(&mut self, bytes: &[u8]) -> io::Result<u64> {
        for place in 0..self.ends.len() {
            self.write_to(place, bytes);
        }
        Ok((self.ends.len() * bytes.len()) as u64)
    }
}
