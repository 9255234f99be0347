//! A connection over a pair of sockets, with an exchange that stands in for the executor.

use super::*;
use crate::net::poller::Poller;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Takes all input as one request, and has one output.
#[derive(Default)]
struct Fake {
    handed_over: VecDeque<Box<QueryBuffer>>,
    output: Output,
    received_bytes: usize,
    hang_ups: usize,
    watched: Vec<bool>,
    accepts: bool,
    pauses: bool,
    finishes: bool,
}

impl Exchange for Fake {
    fn accept_input(&mut self, _: &mut Connection, _: &mut QueryBuffer, bytes: usize, _: bool) -> bool {
        self.received_bytes += bytes;
        self.accepts
    }

    fn hand_over(&mut self, query_buffer: Box<QueryBuffer>) {
        self.handed_over.push_back(query_buffer);
    }

    fn enforce_input_limits(&mut self, _: &Connection, _: usize) -> bool {
        self.pauses
    }

    fn stays_after_input(&mut self, _: &Connection) -> bool {
        self.finishes
    }

    fn report_hang_up(&mut self, _: ClientHandle) {
        self.hang_ups += 1;
    }

    fn report_handshake(&mut self, _: ClientHandle, _: Option<Vec<u8>>) {}

    fn report_failed_handshake(&mut self, _: ClientHandle, _: String) {}

    fn use_room(&mut self, connection: &mut Connection, sockets: &Sockets) -> Stay {
        connection.write_on(sockets, self)
    }

    fn write_output(&mut self, connection: &mut Connection) -> Sent {
        connection.write(&mut self.output).sent
    }

    fn write_stream(&mut self, _: &mut Connection) -> Sent {
        Sent::All
    }

    fn end_write(&mut self, _: ClientHandle, is_sent: bool) -> bool {
        self.finishes && is_sent
    }

    fn discard_output(&mut self) {
        self.output.clear();
    }

    fn store_watched(&mut self, _: ClientHandle, writable: bool) {
        self.watched.push(writable);
    }

    fn log_watch_error(&self, error: &io::Error) {
        panic!("the poller failed: {error}");
    }
}

/// A thread with one connection.
struct Thread {
    sockets: Sockets,
    connection: Connection,
    fake: Fake,
}

impl Thread {
    fn new() -> (Self, UnixStream) {
        let (here, peer) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let mut sockets = Sockets::new(Poller::new().unwrap());
        let mut connection = Connection::new(ClientHandle::from_bits(0), Transport::Plain(here.into()));
        connection.join(&mut sockets, false).unwrap();
        (Thread { sockets, connection, fake: Fake { accepts: true, ..Fake::default() } }, peer)
    }

    fn turn(&mut self) -> Stay {
        let Thread { sockets, connection, fake } = self;
        sockets.wait(Duration::ZERO).unwrap();
        sockets.begin_turn(0, 1);
        let ready = sockets.take_ready();
        let mut stay = Stay::Stays;
        for event in &ready {
            if connection.follow_event(event, sockets, fake) == Stay::Leaves {
                stay = Stay::Leaves;
            }
        }
        sockets.keep_ready(ready);
        while sockets.next_listed().is_some() {
            if connection.read_listed(sockets, fake) == Stay::Leaves {
                stay = Stay::Leaves;
            }
        }
        stay
    }

    /// The requests have run, and the query buffer comes back empty.
    fn return_query_buffer(&mut self) {
        let mut query_buffer = self.fake.handed_over.pop_back().unwrap();
        query_buffer.discard();
        if self.connection.keep(query_buffer, &mut self.sockets, &mut self.fake) {
            self.connection.list(&mut self.sockets);
        }
    }
}

#[test]
fn nothing_is_read_while_the_query_buffer_is_away_and_all_that_came_afterwards() {
    let (mut thread, mut peer) = Thread::new();
    peer.write_all(b"first").unwrap();
    assert_eq!(thread.turn(), Stay::Stays);
    peer.write_all(b"second").unwrap();
    assert_eq!(thread.turn(), Stay::Stays);
    assert_eq!((thread.fake.received_bytes, thread.fake.handed_over.len()), (5, 1));
    // The event of the second has been, and none comes again.
    thread.return_query_buffer();
    assert_eq!(thread.turn(), Stay::Stays);
    assert_eq!((thread.fake.received_bytes, thread.fake.handed_over.len()), (11, 1));
}

#[test]
fn input_that_one_read_does_not_hold_is_read_in_later_turns() {
    let (mut thread, mut peer) = Thread::new();
    thread.fake.accepts = false;
    let bytes = READ_BYTES * 3 / 2;
    peer.write_all(&vec![b'x'; bytes]).unwrap();
    assert_eq!(thread.turn(), Stay::Stays);
    assert!(thread.fake.received_bytes < bytes, "one read a turn");
    assert_eq!(thread.turn(), Stay::Stays);
    assert_eq!(thread.fake.received_bytes, bytes);
}

#[test]
fn a_hang_up_is_reported_while_the_executor_has_the_query_buffer_and_found_when_it_is_back() {
    let (mut thread, mut peer) = Thread::new();
    peer.write_all(b"last").unwrap();
    assert_eq!(thread.turn(), Stay::Stays);
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(thread.turn(), Stay::Stays);
    assert_eq!(thread.fake.hang_ups, 1);
    thread.return_query_buffer();
    assert_eq!(thread.turn(), Stay::Leaves);
}

#[test]
fn a_paused_connection_is_not_read_and_leaves_when_the_peer_hangs_up() {
    for hangs_up_first in [false, true] {
        let (mut thread, mut peer) = Thread::new();
        (thread.fake.accepts, thread.fake.pauses) = (false, true);
        peer.write_all(b"one").unwrap();
        if hangs_up_first {
            drop(peer);
            // What came before the end is read first.
            assert_eq!(thread.turn(), Stay::Stays);
            assert_eq!(thread.fake.received_bytes, 3);
            assert_eq!(thread.turn(), Stay::Leaves);
            continue;
        }
        assert_eq!(thread.turn(), Stay::Stays);
        peer.write_all(b"two").unwrap();
        assert_eq!(thread.turn(), Stay::Stays);
        assert_eq!(thread.fake.received_bytes, 3, "it is paused");
        drop(peer);
        assert_eq!(thread.turn(), Stay::Leaves);
    }
}

#[test]
fn output_waits_for_room_and_the_last_of_it_ends_a_connection_that_finishes() {
    let (mut thread, mut peer) = Thread::new();
    let bytes = WRITE_BYTES_MAX * 2;
    thread.fake.output = vec![b'x'; bytes].into();
    thread.fake.finishes = true;
    let Thread { sockets, connection, fake } = &mut thread;
    assert_eq!(connection.write_on(sockets, fake), Stay::Stays);
    assert_eq!(fake.watched, [true], "the socket holds less than that");
    let mut received = 0;
    let mut stay = Stay::Stays;
    let mut part = vec![0; 1 << 20];
    for _ in 0..bytes {
        received += peer.read(&mut part).unwrap();
        stay = thread.turn();
        if stay == Stay::Leaves {
            break;
        }
    }
    assert_eq!(stay, Stay::Leaves);
    drop(thread);
    loop {
        match peer.read(&mut part).unwrap() {
            0 => break,
            count => received += count,
        }
    }
    assert_eq!(received, bytes);
}

#[test]
fn handshake_steps_beyond_those_of_a_turn_are_taken_later() {
    let mut sockets = Sockets::new(Poller::new().unwrap());
    let [first, second] = [0, 1].map(ClientHandle::from_bits);
    sockets.begin_turn(0, 1);
    assert!(sockets.take_handshake_step());
    assert!(!sockets.take_handshake_step());
    sockets.postpone(first);
    sockets.postpone(second);
    assert_eq!(sockets.next_postponed(), None, "the turn has no step left");
    sockets.begin_turn(0, 1);
    assert_eq!(sockets.next_postponed(), Some(first));
    assert!(sockets.take_handshake_step());
    assert_eq!(sockets.next_postponed(), None);
    sockets.begin_turn(0, 1);
    assert_eq!(sockets.next_postponed(), Some(second));
}

/// A turn whose share is used up goes on in the next, although the socket had room all the time.
#[test]
fn room_that_a_turn_has_left_is_reported_again() {
    let (mut thread, _peer) = Thread::new();
    let Thread { sockets, connection, fake } = &mut thread;
    for _ in 0..2 {
        assert_eq!(connection.watch_for_room(Sent::Share, sockets, fake), Stay::Stays);
        sockets.wait(Duration::ZERO).unwrap();
        let ready = sockets.take_ready();
        assert!(ready.iter().any(|event| event.writable));
        sockets.keep_ready(ready);
    }
}
