//! The bus with real sockets: peers that behave, and peers that stall, send malformed frames or leave.

mod encrypted;
mod saving;

use super::*;
use crate::net::listener::SocketOptions;
use cluster::BusAction;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};
use wire::cluster_bus::{
    Address, Body, Gossip, Header, Incoming, Light, MessageFlags, NodeFlags, NodeId, Publication, SlotSet,
};

const PATIENCE: Duration = Duration::from_secs(60);
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A directory that is removed with this value.
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("warmline-bus-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub(super) fn conf(&self) -> PathBuf {
        self.0.join("nodes.conf")
    }

    pub(super) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A bus, and the executor's part of it.
struct Node {
    bus: Bus,
    port: u16,
    /// What has happened, apart from what a test has taken.
    events: Vec<BusEvent>,
    opened: u64,
    directory: Directory,
}

fn settings() -> BusSettings {
    BusSettings { save_failure_is_fatal: true, message_bytes_max: 1 << 20, source: None, keepalive_s: 300 }
}

impl Node {
    fn new() -> Node {
        Node::with(Limits::default(), Arc::default())
    }

    fn with(limits: Limits, tls: Arc<Published<BusConfigs>>) -> Node {
        let address = SocketAddr::new(LOCALHOST, 0);
        let mut listener = Listener::bind(address, Protocol::Plain).unwrap();
        listener.listen(128).unwrap();
        let port = listener.to_tcp_listener().unwrap().local_addr().unwrap().port();
        listener.address = Some(SocketAddr::new(LOCALHOST, port));
        let directory = Directory::new();
        let (file, _) = ConfFile::open(&directory.conf()).unwrap();
        let clock = Clock::machine();
        let parts = BusParts { listeners: vec![listener], tls, file, settings: settings(), clock };
        let mut bus = Bus::start_with(parts, limits, Arc::new(Waker::new().unwrap())).unwrap();
        bus.accept(true);
        bus.announce();
        Node { bus, port, events: Vec::new(), opened: 0, directory }
    }

    fn execute(&mut self, action: BusAction) {
        self.bus.execute(action);
        self.bus.announce();
    }

    /// Opens a link. The cluster would choose its number.
    fn connect(&mut self, address: &str, port: u16) -> LinkId {
        let link = LinkId::accepted(1 << 40 | self.opened);
        self.opened += 1;
        self.execute(BusAction::Connect { link, address: Address::parse(address).unwrap(), port });
        link
    }

    fn send(&mut self, link: LinkId, frame: &Frame) {
        self.execute(BusAction::Send(link, Arc::new(frame.clone())));
    }

    fn take_events(&mut self) {
        self.bus.announce();
        self.bus.drain(|event| self.events.push(event));
    }

    /// Waits for an event that this turns into something, and takes it.
    fn wait_for<T>(&mut self, what: &str, mut wanted: impl FnMut(&BusEvent) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            self.take_events();
            let found = self.events.iter().enumerate().find_map(|(at, event)| Some((at, wanted(event)?)));
            if let Some((at, found)) = found {
                self.events.remove(at);
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} does not come; there is {:?}", self.events);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until this is so, taking no events.
    fn until(&self, what: &str, mut is_so: impl FnMut(&BusFigures) -> bool) {
        let begun = Instant::now();
        while !is_so(self.bus.figures()) {
            assert!(begun.elapsed() < PATIENCE, "{what} does not happen: {:?}", self.bus.figures());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn accepted(&mut self) -> LinkId {
        self.wait_for("an accepted link", |event| match event {
            BusEvent::LinkAccepted { link, peer: LOCALHOST, local: LOCALHOST } => Some(*link),
            _ => None,
        })
    }

    fn opened(&mut self, opened: LinkId) {
        self.wait_for("an opened link", |event| {
            matches!(event, BusEvent::LinkOpened(link) if *link == opened).then_some(())
        });
    }

    fn frame(&mut self, from: LinkId) -> Frame {
        self.wait_for("a frame", |event| match event {
            BusEvent::Frame { link, received } if *link == from => Some(received.frame.clone().unwrap()),
            _ => None,
        })
    }

    /// The reason why a link was closed, as text.
    fn closed(&mut self, closed: LinkId) -> String {
        self.wait_for("the link's end", |event| match event {
            BusEvent::LinkClosed { link, reason, .. } if *link == closed => Some(format!("{reason:?}")),
            _ => None,
        })
    }

    /// A connection to this node that is no bus, and its link.
    fn peer(&mut self) -> (TcpStream, LinkId) {
        let stream = TcpStream::connect((LOCALHOST, self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        (stream, self.accepted())
    }
}

fn ping(number: u64) -> Frame {
    let header = Header {
        sender: NodeId::from_random([1; 20]),
        port: 7000,
        other_port: 0,
        bus_port: 17_000,
        current_epoch: number,
        config_epoch: 0,
        offset: 0,
        slots: SlotSet::new(),
        replica_of: None,
        address: None,
        flags: NodeFlags::PRIMARY,
        is_state_ok: true,
        mflags: MessageFlags::default(),
    };
    Frame::Full(Box::new(header), Body::Ping(Gossip::default()))
}

fn publication(len: usize) -> Frame {
    Frame::Light(Light::Publish(Publication { channel: b"channel".to_vec(), message: vec![b'm'; len] }))
}

/// Reads this many frames from a plain connection.
fn read_frames(stream: &mut TcpStream, count: usize) -> Vec<Frame> {
    let (mut incoming, mut frames, mut buffer) = (Incoming::new(1 << 30), Vec::new(), vec![0; 1 << 16]);
    while frames.len() < count {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the connection has ended after {} frames", frames.len());
        let mut rest = &buffer[..read];
        while let Some(received) = incoming.next(&mut rest).unwrap() {
            frames.push(received.frame.unwrap());
        }
    }
    frames
}

#[test]
fn frames_pass_both_ways_and_wait_until_the_link_is_open() {
    let (mut one, mut other) = (Node::new(), Node::new());
    let link = one.connect("127.0.0.1", other.port);
    one.send(link, &ping(1));
    one.opened(link);
    let accepted = other.accepted();
    assert_eq!(other.frame(accepted), ping(1));
    other.send(accepted, &ping(2));
    other.send(accepted, &publication(5000));
    assert_eq!((one.frame(link), one.frame(link)), (ping(2), publication(5000)));
    assert_eq!(one.bus.figures().links.load(Ordering::Relaxed), 1);
    one.execute(BusAction::Close(link));
    assert_eq!(other.closed(accepted), "Peer");
    one.until("the end of the link", |figures| figures.links.load(Ordering::Relaxed) == 0);
    one.take_events();
    // Nothing but what waited while the link was being opened.
    one.events.retain(|event| !matches!(event, BusEvent::LinkBacklog { .. }));
    assert!(one.events.is_empty(), "{:?}", one.events);
}

#[test]
fn names_are_looked_up_and_failures_are_reported() {
    let (mut one, mut other) = (Node::new(), Node::new());
    let link = one.connect("localhost", other.port);
    one.opened(link);
    other.accepted();
    let unknown = one.connect("name.invalid", other.port);
    assert!(one.closed(unknown).starts_with("Failed"));
    let refused = {
        let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
        one.connect("127.0.0.1", listener.local_addr().unwrap().port())
    };
    // Its listener may have been there long enough to take it.
    one.wait_for("the end of the link", |event| {
        matches!(event, BusEvent::LinkClosed { link, .. } if *link == refused).then_some(())
    });
}

#[test]
fn links_come_from_the_address_that_is_asked_for() {
    let (mut one, other) = (Node::new(), TcpListener::bind((LOCALHOST, 0)).unwrap());
    let source = "127.0.0.2".parse().ok();
    one.bus.configure(BusSettings { source, ..settings() });
    one.connect("127.0.0.1", other.local_addr().unwrap().port());
    assert_eq!(Some(other.accept().unwrap().1.ip()), source);
}

#[test]
fn nothing_is_accepted_while_the_executor_does_not_want_it() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    node.bus.accept(false);
    // What comes on this link shows that the order has arrived.
    node.send(link, &ping(1));
    assert_eq!(read_frames(&mut peer, 1), [ping(1)]);
    let mut waiting = TcpStream::connect((LOCALHOST, node.port)).unwrap();
    waiting.write_all(ping(2).encode().as_bytes()).unwrap();
    node.send(link, &ping(3));
    assert_eq!(read_frames(&mut peer, 1), [ping(3)]);
    node.take_events();
    assert!(node.events.is_empty(), "{:?}", node.events);
    node.bus.accept(true);
    let link = node.accepted();
    assert_eq!(node.frame(link), ping(2));
}

#[test]
fn a_peer_that_sends_a_byte_at_a_time_is_understood() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    for byte in ping(7).encode().as_bytes().iter().chain(publication(3).encode().as_bytes()) {
        peer.write_all(std::slice::from_ref(byte)).unwrap();
    }
    assert_eq!((node.frame(link), node.frame(link)), (ping(7), publication(3)));
    node.until("no partial frame", |figures| figures.input_bytes.load(Ordering::Relaxed) <= 4096);
}

#[test]
fn a_peer_that_announces_more_than_it_sends_takes_no_memory_and_may_leave() {
    let mut node = Node::new();
    node.bus.configure(BusSettings { message_bytes_max: 1 << 30, ..settings() });
    node.take_events();
    let (mut peer, link) = node.peer();
    let mut frame = publication(3000).encode().as_bytes().to_vec();
    frame[4..8].copy_from_slice(&(1_u32 << 30).to_be_bytes());
    peer.write_all(&frame).unwrap();
    node.until("a partial frame", |figures| figures.input_bytes.load(Ordering::Relaxed) >= 3000);
    assert!(node.bus.figures().input_bytes.load(Ordering::Relaxed) < 10_000);
    drop(peer);
    assert_eq!(node.closed(link), "Peer");
    assert_eq!(node.bus.figures().links.load(Ordering::Relaxed), 0);
    assert_eq!(node.bus.figures().input_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn the_link_of_a_peer_with_another_protocol_is_closed() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    peer.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    assert_eq!(node.closed(link), "Fault(Signature)");
    assert!(matches!(peer.read(&mut [0; 10]), Ok(0) | Err(_)));
}

#[test]
fn malformed_frames_are_dropped_and_the_next_one_is_read() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    let mut old = ping(1).encode().as_bytes().to_vec();
    old[9] = 7;
    let mut long = publication(2 << 20).encode().as_bytes().to_vec();
    long.extend_from_slice(ping(2).encode().as_bytes());
    peer.write_all(&[old, long].concat()).unwrap();
    let mut fault = || {
        node.wait_for("a fault", |event| match event {
            BusEvent::Frame { received, .. } => Some((received.kind, *received.frame.as_ref().unwrap_err())),
            _ => None,
        })
    };
    assert_eq!(fault(), (Some(Kind::Ping), Fault::Version(7)));
    assert_eq!(fault(), (Some(Kind::Publish), Fault::LengthBeyondLimit((2 << 20) + 31)));
    assert_eq!(node.frame(link), ping(2));
}

#[test]
fn two_hundred_links_are_served() {
    let mut node = Node::new();
    let peers: Vec<_> = (0..200).map(|_| node.peer()).collect();
    let answer = Arc::new(ping(1000));
    for ((peer, _), number) in peers.iter().zip(0..) {
        let mut peer: &TcpStream = peer;
        peer.write_all(ping(number).encode().as_bytes()).unwrap();
    }
    for ((_, link), number) in peers.iter().zip(0..) {
        assert_eq!(node.frame(*link), ping(number));
        node.bus.execute(BusAction::Send(*link, Arc::clone(&answer)));
    }
    node.bus.announce();
    for (mut peer, link) in peers {
        assert_eq!(read_frames(&mut peer, 1), [ping(1000)]);
        drop(peer);
        assert_eq!(node.closed(link), "Peer");
    }
    assert_eq!(node.bus.figures().links.load(Ordering::Relaxed), 0);
}

#[test]
fn a_peer_that_does_not_read_delays_no_other_and_its_backlog_is_reported() {
    let mut node = Node::new();
    let (mut stalled, link) = node.peer();
    let frames = 64;
    for _ in 0..frames {
        node.send(link, &publication(1 << 20));
    }
    let backlog = |event: &BusEvent| match event {
        BusEvent::LinkBacklog { link: about, bytes } if *about == link => Some(*bytes),
        _ => None,
    };
    node.wait_for("a backlog", |event| backlog(event).filter(|bytes| *bytes > 1 << 20));
    let (mut other, other_link) = node.peer();
    other.write_all(ping(5).encode().as_bytes()).unwrap();
    assert_eq!(node.frame(other_link), ping(5));
    node.send(other_link, &ping(6));
    assert_eq!(read_frames(&mut other, 1), [ping(6)]);
    assert_eq!(read_frames(&mut stalled, frames).len(), frames);
    node.wait_for("no backlog", |event| backlog(event).filter(|bytes| *bytes == 0));
    assert_eq!(node.bus.figures().output_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn the_link_of_a_peer_that_never_reads_is_closed() {
    let mut node = Node::with(Limits { unread_bytes: 32 << 20, ..Limits::default() }, Arc::default());
    let (_stalled, link) = node.peer();
    let frame = Arc::new(publication(1 << 20));
    for _ in 0..64 {
        node.bus.execute(BusAction::Send(link, Arc::clone(&frame)));
    }
    assert_eq!(node.closed(link), "Unread");
    node.until("no backlog", |figures| figures.output_bytes.load(Ordering::Relaxed) == 0);
}

#[test]
fn partial_frames_of_all_links_together_are_bounded() {
    let mut node = Node::with(Limits { partial_bytes: 1 << 20, ..Limits::default() }, Arc::default());
    let frame = publication(1 << 20).encode().as_bytes().to_vec();
    let mut peers: Vec<_> = (0..4).map(|_| node.peer()).collect();
    for (at, (peer, _)) in peers.iter_mut().enumerate() {
        // The last one holds most when the bound of two megabytes is broken.
        peer.write_all(&frame[..(550 + at * 10) << 10]).unwrap();
        if at < 3 {
            node.until("a partial frame", |figures| {
                figures.input_bytes.load(Ordering::Relaxed) >= (at + 1) * (550 << 10)
            });
        }
    }
    let ended = node.wait_for("an end", |event| match event {
        BusEvent::LinkClosed { link, reason: CloseReason::PartialFrames, .. } => Some(*link),
        _ => None,
    });
    assert!(peers.iter().any(|(_, link)| *link == ended));
    node.until("room", |figures| figures.input_bytes.load(Ordering::Relaxed) <= 2 << 20);
}

#[test]
fn links_that_send_no_frame_in_time_are_closed_and_others_stay() {
    let mut node = Node::with(Limits { silence_us: 200_000, ..Limits::default() }, Arc::default());
    let (mut speaks, link) = node.peer();
    speaks.write_all(ping(1).encode().as_bytes()).unwrap();
    assert_eq!(node.frame(link), ping(1));
    let (_silent, silent) = node.peer();
    assert_eq!(node.closed(silent), "Silent");
    node.send(link, &ping(2));
    assert_eq!(read_frames(&mut speaks, 1), [ping(2)]);
}

#[test]
fn links_of_unknown_nodes_make_room_for_new_ones() {
    let mut node = Node::with(Limits { accepted_links: 2, ..Limits::default() }, Arc::default());
    let (mut known, link) = node.peer();
    node.execute(BusAction::Bound(link));
    // That it sends frames does not keep the link of an unknown node.
    let (mut unknown, unknown_link) = node.peer();
    unknown.write_all(ping(1).encode().as_bytes()).unwrap();
    assert_eq!(node.frame(unknown_link), ping(1));
    let (mut second, second_link) = node.peer();
    assert_eq!(node.closed(unknown_link), "Unbound");
    second.write_all(ping(2).encode().as_bytes()).unwrap();
    assert_eq!(node.frame(second_link), ping(2));
    node.execute(BusAction::Bound(second_link));
    node.send(link, &ping(3));
    assert_eq!(read_frames(&mut known, 1), [ping(3)]);
    // All are bound: the next one is refused.
    let mut third = TcpStream::connect((LOCALHOST, node.port)).unwrap();
    third.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(third.read(&mut [0; 10]), Ok(0) | Err(_)));
    node.take_events();
    assert!(node.events.is_empty(), "{:?}", node.events);
}

#[test]
fn an_executor_that_takes_nothing_stops_the_reading_and_misses_nothing() {
    let mut node = Node::with(Limits { event_bytes: 1 << 20, ..Limits::default() }, Arc::default());
    let (mut peer, link) = node.peer();
    peer.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let frames: u64 = 100_000;
    let mut stream = Vec::new();
    let mut sent = 0;
    let is_stopped = (0..frames).any(|number| {
        stream.extend_from_slice(ping(number).encode().as_bytes());
        match peer.write(&stream) {
            Ok(count) => {
                sent += count;
                stream.drain(..count);
                false
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    });
    assert!(is_stopped, "{sent} bytes were read");
    let whole = (sent / ping(0).encode().as_bytes().len()) as u64;
    for number in 0..whole {
        assert_eq!(node.frame(link), ping(number));
    }
    peer.set_write_timeout(None).unwrap();
    peer.write_all(&stream).unwrap();
    assert_eq!(node.frame(link), ping(whole));
}

#[test]
fn no_event_is_about_a_link_that_the_executor_has_closed() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    let stream: Vec<u8> = (0..300).flat_map(|number| ping(number).encode().as_bytes().to_vec()).collect();
    peer.write_all(&stream).unwrap();
    assert_eq!(node.frame(link), ping(0));
    node.events.clear();
    node.execute(BusAction::Close(link));
    // What comes on another link comes behind all of it.
    let (mut other, other_link) = node.peer();
    other.write_all(ping(7).encode().as_bytes()).unwrap();
    assert_eq!(node.frame(other_link), ping(7));
    assert!(node.events.is_empty(), "{:?}", node.events);
    assert!(node.bus.ending.is_empty());
    assert_eq!(node.bus.flow.event_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn publications_beyond_what_the_thread_takes_are_dropped_and_other_frames_are_not() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    node.bus.flow.order_bytes.store(ORDER_BYTES_MAX + 1, Ordering::Relaxed);
    node.send(link, &publication(10));
    node.send(link, &ping(1));
    assert_eq!(read_frames(&mut peer, 1), [ping(1)]);
    assert_eq!(node.bus.dropped, 1);
    node.bus.flow.order_bytes.store(0, Ordering::Relaxed);
    node.send(link, &publication(10));
    assert_eq!(read_frames(&mut peer, 1), [publication(10)]);
    node.until("the account", |_| node.bus.flow.order_bytes.load(Ordering::Relaxed) == 0);
}

#[test]
fn listeners_are_opened_on_each_address_of_bind() {
    let port = TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let bind = ["127.0.0.1", "127.0.0.3", "-name.invalid"].map(str::to_owned).into();
    let config = Config { bind, ..Config::default() };
    let listeners = listen(&config, port).unwrap();
    assert_eq!(listeners.len(), 2);
    let _second = TcpStream::connect(("127.0.0.3", port)).unwrap();
    let accepted = listeners[1].accept(SocketOptions { keepalive_s: 0, nodelay: true }).unwrap();
    assert!(accepted.is_some());
    assert!(listen(&config, port).is_err(), "the port is taken");
}
