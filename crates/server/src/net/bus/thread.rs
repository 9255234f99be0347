//! The bus thread: waits for its sockets and for orders, and passes frames between both.
//!
//! ```text
//!  wait -> orders (in their order) -> events of sockets -> links to be read -> links to be written -> file without sync
//! ```

use super::super::channel::{Receiver, Sender, Waker};
use super::super::listener::{Accepted, SocketOptions};
use super::super::outgoing::server_name;
use super::super::poller::{Poller, Readiness, Token};
use super::super::transport::{TlsPeer, Transport};
use super::link::{Link, Stage, Transfer};
use super::links::Links;
use super::resolver::{Found, Resolver};
use super::{
    BusEvent, BusFigures, BusParts, BusSettings, CloseReason, Content, Delivery, Flow, QUEUE_VALUES, Unsaved,
    message_bytes,
};
use cluster::LinkId;
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::cluster_bus::{Address, Encoded, Frame};

/// Bytes read from a link before others have their turn.
const READ_BYTES: usize = 64 * 1024;
/// Links accepted in one turn: a TLS handshake of each may take half a millisecond.
const ACCEPTS_PER_TURN: usize = 16;
/// Pause after the system had no file for a connection.
const ACCEPT_PAUSE_US: u64 = 100_000;
/// Least time between two reports of a link's backlog.
const BACKLOG_PERIOD_US: u64 = 50_000;
/// Retry delay while the executor takes no events, or a name is looked up.
const RETRY: Duration = Duration::from_millis(5);
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// What peers can make the thread hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Accepted links. A node has one of each other node.
    pub(super) accepted_links: usize,
    /// Time in which an accepted link has to send a frame: nodes send one at once.
    pub(super) silence_us: u64,
    /// Memory of partial frames of all links, besides one publication of the largest size.
    pub(super) partial_bytes: usize,
    /// Bytes that wait for one socket. `cluster-link-sendbuf-limit` is lower where it is set.
    pub(super) unread_bytes: usize,
    /// Bytes of frames on their way to the executor, beyond which no socket is read.
    pub(super) event_bytes: usize,
    /// How long the executor waits for the thread's end.
    pub(super) end_us: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            accepted_links: cluster::NODES_MAX + 256,
            silence_us: 15_000_000,
            partial_bytes: 64 << 20,
            unread_bytes: 256 << 20,
            event_bytes: 64 << 20,
            end_us: 10_000_000,
        }
    }
}

/// An order from the executor to the thread.
pub(super) enum Order {
    /// Open a link.
    Connect { link: LinkId, address: Address, port: u16 },
    /// Close a link.
    Close(LinkId),
    /// The link's other end is a known node.
    Bound(LinkId),
    /// Send a frame.
    Send(LinkId, Arc<Frame>),
    /// Save the newest content.
    Save { number: u64, sync: bool },
    /// Accept links, or none.
    Accept(bool),
    /// Change the settings.
    Configure(BusSettings),
    /// End.
    Stop,
}

/// The parts from which the thread is started.
pub(super) struct Parts {
    pub(super) bus: BusParts,
    pub(super) limits: Limits,
    /// The thread's epoll instance.
    pub(super) epoll: OwnedFd,
    pub(super) waker: Arc<Waker>,
    pub(super) orders: Receiver<Order>,
    pub(super) deliveries: Sender<Delivery>,
    pub(super) flow: Arc<Flow>,
    pub(super) figures: Arc<BusFigures>,
    pub(super) unsaved: Arc<Unsaved>,
}

struct BusThread {
    parts: BusParts,
    limits: Limits,
    poller: Poller,
    waker: Arc<Waker>,
    orders: Receiver<Order>,
    outlet: Outlet,
    figures: Arc<BusFigures>,
    links: Links,
    resolver: Resolver,
    ready: Vec<Readiness>,
    buffer: Vec<u8>,
    now_us: u64,
    /// Number of links accepted so far.
    accepted: u64,
    /// The executor wants links to be accepted.
    accepts: bool,
    watched: Watched,
    accept_again_us: u64,
    saving: Saving,
    /// The frame sent last: one frame is sent to many links.
    encoded: Option<(Arc<Frame>, Encoded)>,
}

/// The thread's end of the queue to the executor.
struct Outlet {
    deliveries: Sender<Delivery>,
    flow: Arc<Flow>,
    bytes_max: usize,
}

/// The state of the file.
struct Saving {
    unsaved: Arc<Unsaved>,
    /// What is to be saved at the end of the turn, without sync.
    due: Option<u64>,
    /// The latest content that was written, or could not be.
    done: u64,
    /// It could not be replaced, and the process is about to end: nothing may be sent any more.
    is_fatal: bool,
}

impl Parts {
    /// Runs the thread until it is stopped.
    pub(super) fn run(self) {
        let resolver = Resolver::new(Arc::clone(&self.waker));
        BusThread {
            parts: self.bus,
            limits: self.limits,
            poller: Poller::of(self.epoll),
            waker: self.waker,
            orders: self.orders,
            outlet: Outlet {
                deliveries: self.deliveries,
                flow: self.flow,
                bytes_max: self.limits.event_bytes,
            },
            figures: self.figures,
            links: Links::default(),
            resolver,
            ready: Vec::new(),
            buffer: Vec::with_capacity(READ_BYTES),
            now_us: 0,
            accepted: 0,
            accepts: false,
            watched: Watched::default(),
            accept_again_us: 0,
            saving: Saving { unsaved: self.unsaved, due: None, done: 0, is_fatal: false },
            encoded: None,
        }
        .run();
    }
}

impl Outlet {
    fn send(&mut self, event: BusEvent) {
        if let BusEvent::Frame { received, .. } = &event {
            self.flow.event_bytes.fetch_add(received.bytes as usize, Ordering::Relaxed);
        }
        self.deliveries.send(Delivery::Event(event));
    }

    /// The executor does not keep up: no socket is read.
    fn is_full(&self) -> bool {
        self.deliveries.is_backed_up() || self.flow.event_bytes.load(Ordering::Relaxed) > self.bytes_max
    }
}

impl BusThread {
    fn run(mut self) {
        for (index, listener) in (0_u32..).zip(&mut self.parts.listeners) {
            listener.id = index;
        }
        while self.turn() {
            self.report_figures();
            self.outlet.deliveries.announce();
        }
        self.outlet.deliveries.announce();
        while self.outlet.deliveries.is_backed_up() {
            std::thread::sleep(RETRY);
            self.outlet.deliveries.announce();
        }
    }

    /// One turn of the loop; `false` when the thread ends.
    fn turn(&mut self) -> bool {
        self.watch_listeners();
        self.wait();
        self.now_us = self.parts.clock.monotonic_us();
        let goes_on = self.follow_orders();
        self.follow_names();
        self.follow_events();
        self.read_listed();
        self.close_silent();
        self.write_dirty();
        self.save_due();
        // The next turn's frames are others.
        self.encoded = None;
        goes_on
    }

    fn wait(&mut self) {
        let timeout = self.timeout();
        let (orders, resolver) = (&self.orders, &self.resolver);
        let may_sleep = self.waker.may_sleep(|| orders.is_empty());
        let timeout = match may_sleep {
            true if resolver.is_idle() => timeout,
            true => timeout.min(RETRY),
            false => Duration::ZERO,
        };
        self.ready.clear();
        if self.poller.wait(timeout, &mut self.ready).is_err() {
            // A kernel short of memory may make the poller fail.
            std::thread::sleep(RETRY);
        }
        self.waker.woken();
    }

    fn timeout(&mut self) -> Duration {
        if self.outlet.is_full() {
            return RETRY;
        }
        if self.links.listed() > 0 {
            return Duration::ZERO;
        }
        let (now_us, silence_us) = (self.now_us, self.limits.silence_us);
        let pause = (self.accept_again_us > now_us && self.accepts).then_some(self.accept_again_us);
        let silence = self.links.oldest_silent().map(|(_, since_us)| since_us + silence_us);
        let backlog = self.links.has_dirty().then_some(now_us + BACKLOG_PERIOD_US);
        let next_us = [pause, silence, backlog].into_iter().flatten().min();
        next_us.map_or(FOR_EVER, |at_us| Duration::from_micros(at_us.saturating_sub(now_us)))
    }

    /// Watches the listeners while links may be accepted: they are reported as long as links wait.
    fn watch_listeners(&mut self) {
        let watches = self.accepts && self.now_us >= self.accept_again_us && !self.outlet.is_full();
        for listener in &self.parts.listeners {
            let (poller, id) = (&self.poller, listener.id);
            let is_done = self.watched.set(id, watches, || match watches {
                true => poller.add(listener.fd(), Token::Listener(id)),
                false => poller.remove(listener.fd()),
            });
            if !is_done {
                // Out of memory: it is tried again.
                self.accept_again_us = self.now_us + ACCEPT_PAUSE_US;
            }
        }
    }

    /// Carries out the orders in the queue; `false`: the thread ends.
    fn follow_orders(&mut self) -> bool {
        for _ in 0..QUEUE_VALUES {
            let Some(order) = self.orders.receive() else { break };
            match order {
                Order::Connect { link, address, port } => self.connect(link, &address, port),
                Order::Close(link) => self.end(link),
                Order::Bound(link) => self.links.bind(link.number()),
                Order::Send(link, frame) => self.send(link.number(), &frame),
                Order::Save { number, sync } => self.take_save(number, sync),
                Order::Accept(accepts) => self.accepts = accepts,
                Order::Configure(settings) => self.parts.settings = settings,
                Order::Stop => return false,
            }
        }
        true
    }

    /// Closes a link as the executor has asked for.
    fn end(&mut self, link: LinkId) {
        if self.links.get_mut(link.number()).is_some_and(|link| link.stage == Stage::Resolving) {
            self.resolver.cancel(link.number());
        }
        drop(self.links.remove(link.number(), &self.poller));
        self.outlet.deliveries.send(Delivery::Ended(link));
    }

    fn take_save(&mut self, number: u64, sync: bool) {
        if number <= self.saving.done {
            // A later content was written in its place.
            return;
        }
        if !sync {
            self.saving.due = Some(number);
            return;
        }
        // What stands before it does not wait for the disk.
        self.write_dirty();
        if let Some(content) = self.saving.unsaved.take(u64::MAX) {
            self.save(&content, true);
        }
    }

    fn connect(&mut self, id: LinkId, address: &Address, port: u16) {
        let (number, limit) = (id.number(), self.parts.settings.message_bytes_max);
        match address {
            Address::Ip(ip) => {
                self.links.add_opened(Link::opened(id, Stage::Connecting, limit));
                self.connect_to(number, SocketAddr::new(*ip, port), ip.to_string().as_bytes());
            }
            Address::Name(name) => {
                self.links.add_opened(Link::opened(id, Stage::Resolving, limit));
                if let Err(error) = self.resolver.begin(number, name.as_str().to_owned(), port) {
                    self.close(number, CloseReason::Failed(error));
                }
            }
        }
    }

    /// Takes addresses of names.
    fn follow_names(&mut self) {
        while let Some(Found { link, host, address }) = self.resolver.next() {
            match address {
                Ok(address) => self.connect_to(link, address, host.as_bytes()),
                Err(error) => self.close(link, CloseReason::Failed(error)),
            }
        }
    }

    /// Begins to connect a link, unless it has been closed.
    fn connect_to(&mut self, number: u64, address: SocketAddr, host: &[u8]) {
        let Some(link) = self.links.get_mut(number) else { return };
        (link.stage, link.peer) = (Stage::Connecting, Some(address));
        let source = self.parts.settings.source.filter(|source| source.is_ipv4() == address.is_ipv4());
        let source = source.map(|source| SocketAddr::new(source, 0));
        let configs = self.parts.tls.get();
        let peer =
            configs.map(|configs| TlsPeer { config: configs.client, name: server_name(host, address.ip()) });
        let begun = Transport::connect(address, source, peer).map_err(CloseReason::Failed);
        if let Err(reason) = begun.and_then(|transport| link.join(transport, &self.poller)) {
            self.close(number, reason);
        }
    }

    fn send(&mut self, number: u64, frame: &Arc<Frame>) {
        let bytes = message_bytes(frame);
        self.outlet.flow.order_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if self.saving.is_fatal || self.links.get_mut(number).is_none() {
            return;
        }
        let encoded = match &self.encoded {
            Some((last, encoded)) if Arc::ptr_eq(last, frame) => encoded.clone(),
            _ => frame.encode(),
        };
        self.encoded = Some((Arc::clone(frame), encoded.clone()));
        let queued = self.links.change(number, |link| {
            link.outgoing.push(encoded);
            link.outgoing.bytes()
        });
        if queued.is_some_and(|bytes| bytes > self.limits.unread_bytes) {
            return self.close(number, CloseReason::Unread);
        }
        self.links.touch(number);
    }

    /// Closes a link, and reports it.
    fn close(&mut self, number: u64, reason: CloseReason) {
        let Some(link) = self.links.remove(number, &self.poller) else { return };
        // A link whose handshake was not done has not been reported.
        if link.stage != Stage::Accepting {
            self.outlet.send(BusEvent::LinkClosed { link: link.id, peer: link.peer, reason });
        }
    }

    fn follow_events(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        for event in &ready {
            match event.token {
                Token::Listener(id) => self.accept(id),
                Token::BusLink(number) => self.follow_event(number, event),
                _ => {}
            }
        }
        self.ready = ready;
    }

    fn follow_event(&mut self, number: u64, event: &Readiness) {
        let Some(link) = self.links.get_mut(number) else { return };
        if event.hung_up {
            link.hung_up();
        }
        match link.stage {
            Stage::Resolving => {}
            Stage::Connecting | Stage::Accepting => self.go_on(number),
            Stage::Open => {
                if event.writable {
                    self.write(number, Link::use_room);
                }
                if event.readable {
                    self.links.list(number);
                }
            }
        }
    }

    /// Continues to connect or to shake hands.
    fn go_on(&mut self, number: u64) {
        let Some(link) = self.links.get_mut(number) else { return };
        let was_accepting = link.stage == Stage::Accepting;
        match link.go_on(&self.poller) {
            Ok(true) if was_accepting => self.report_accepted(number),
            Ok(true) => {
                self.outlet.send(BusEvent::LinkOpened(link.id));
                self.links.touch(number);
            }
            Ok(false) => return,
            Err(reason) => return self.close(number, reason),
        }
        // TLS may have decrypted what followed the handshake.
        self.links.list(number);
    }

    fn report_accepted(&mut self, number: u64) {
        let Some(link) = self.links.get_mut(number) else { return };
        let canonical = |address: Option<SocketAddr>| address.map(|address| address.ip().to_canonical());
        let (Some(peer), Some(local)) = (canonical(link.peer), canonical(link.local())) else {
            // The other end has gone already.
            drop(self.links.remove(number, &self.poller));
            return;
        };
        self.outlet.send(BusEvent::LinkAccepted { link: link.id, peer, local });
    }

    /// Accepts links that wait.
    fn accept(&mut self, id: u32) {
        let settings = &self.parts.settings;
        let options = SocketOptions { keepalive_s: settings.keepalive_s, nodelay: true };
        for _ in 0..ACCEPTS_PER_TURN {
            let listener = self.parts.listeners.iter().find(|listener| listener.id == id);
            match listener.map(|listener| listener.accept(options)) {
                Some(Ok(Some(accepted))) => self.add_accepted(accepted),
                Some(Ok(None)) | None => return,
                Some(Err(error)) => {
                    // Without a file or memory for it the link waits, and would be reported in each turn.
                    if error.kind() != io::ErrorKind::ConnectionAborted {
                        self.accept_again_us = self.now_us + ACCEPT_PAUSE_US;
                        return;
                    }
                }
            }
        }
    }

    fn add_accepted(&mut self, accepted: Accepted) {
        if self.links.accepted() >= self.limits.accepted_links {
            // A client that opens many links, and even sends frames, does not keep known nodes out.
            match self.links.oldest_unbound() {
                Some(oldest) => self.close(oldest, CloseReason::Unbound),
                None => return,
            }
        }
        let config = self.parts.tls.get().map(|configs| configs.server);
        let stage = if config.is_some() { Stage::Accepting } else { Stage::Open };
        let Ok(transport) = Transport::accepted(accepted.socket, config) else { return };
        let id = LinkId::accepted(self.accepted);
        let mut link = Link::accepted(id, stage, self.parts.settings.message_bytes_max);
        link.peer = accepted.address.parse().ok();
        if link.join(transport, &self.poller).is_err() {
            return;
        }
        self.accepted += 1;
        self.links.add_accepted(link, self.now_us);
        if stage == Stage::Open {
            self.report_accepted(id.number());
        }
    }

    /// Reads each listed link once, unless the executor does not keep up.
    fn read_listed(&mut self) {
        for _ in 0..self.links.listed() {
            if self.outlet.is_full() {
                return;
            }
            let Some(number) = self.links.next_listed() else { return };
            self.read(number);
        }
    }

    fn read(&mut self, number: u64) {
        self.buffer.clear();
        let (buffer, outlet, poller) = (&mut self.buffer, &mut self.outlet, &self.poller);
        let read = self.links.change(number, |link| {
            let transfer = link.read(buffer, poller)?;
            pass_on(link, buffer, outlet)?;
            Ok(transfer)
        });
        match read {
            None | Some(Ok(Transfer::Nothing)) => {}
            Some(Ok(Transfer::Bytes)) => self.links.list(number),
            Some(Err(reason)) => self.close(number, reason),
        }
        while self.links.held_bytes() > self.limits.partial_bytes + self.parts.settings.message_bytes_max {
            let Some(largest) = self.links.largest_held() else { return };
            self.close(largest, CloseReason::PartialFrames);
        }
    }

    /// Closes accepted links that have not sent a frame in time.
    fn close_silent(&mut self) {
        while let Some((number, since_us)) = self.links.oldest_silent() {
            if self.now_us < since_us + self.limits.silence_us {
                return;
            }
            self.close(number, CloseReason::Silent);
        }
    }

    /// Writes the links that have something new, and reports what they keep.
    fn write_dirty(&mut self) {
        for number in self.links.take_dirty() {
            self.write(number, Link::write);
        }
    }

    fn write(&mut self, number: u64, write: impl FnOnce(&mut Link, &Poller) -> Result<(), CloseReason>) {
        let poller = &self.poller;
        match self.links.change(number, |link| write(link, poller)) {
            None => {}
            Some(Ok(())) => self.report_backlog(number),
            Some(Err(reason)) => self.close(number, reason),
        }
    }

    /// Reports a link's backlog if it has changed: at once when it is gone, otherwise now and then.
    fn report_backlog(&mut self, number: u64) {
        let now_us = self.now_us;
        let Some(link) = self.links.get_mut(number) else { return };
        let bytes = link.outgoing.bytes();
        if bytes == link.reported_bytes {
            return;
        }
        if bytes > 0 && now_us < link.reported_us + BACKLOG_PERIOD_US && link.reported_bytes > 0 {
            return self.links.touch(number);
        }
        (link.reported_bytes, link.reported_us) = (bytes, now_us);
        self.outlet.send(BusEvent::LinkBacklog { link: link.id, bytes });
    }

    /// Saves what need not be on disk. A later content has an order of its own, which may ask for that.
    fn save_due(&mut self) {
        let due = self.saving.due.take();
        if let Some(content) = due.and_then(|number| self.saving.unsaved.take(number)) {
            self.save(&content, false);
        }
    }

    fn save(&mut self, content: &Content, sync: bool) {
        let number = content.number;
        self.saving.done = number;
        if self.saving.is_fatal {
            return;
        }
        match self.parts.file.save(&content.text, sync) {
            Ok(()) if sync => self.outlet.send(BusEvent::Saved(number)),
            Ok(()) => {}
            Err(error) => {
                let is_fatal = self.parts.settings.save_failure_is_fatal;
                self.saving.is_fatal = is_fatal;
                self.outlet.send(BusEvent::SaveFailed { number, error, is_fatal });
            }
        }
    }

    fn report_figures(&self) {
        self.figures.links.store(self.links.len(), Ordering::Relaxed);
        self.figures.input_bytes.store(self.links.held_bytes(), Ordering::Relaxed);
        self.figures.output_bytes.store(self.links.queued_bytes(), Ordering::Relaxed);
    }
}

/// The listeners that are watched, by their ids.
#[derive(Default)]
struct Watched(BTreeSet<u32>);

impl Watched {
    /// Has a listener watched or not, by `change` if that is not so yet. Returns `false` if it cannot be watched; the
    /// others do not depend on it.
    fn set(&mut self, id: u32, watches: bool, change: impl FnOnce() -> io::Result<()>) -> bool {
        if watches == self.0.contains(&id) {
            return true;
        }
        let changed = change();
        if watches && changed.is_ok() {
            self.0.insert(id);
        } else {
            // What is not watched cannot be removed.
            self.0.remove(&id);
        }
        !watches || changed.is_ok()
    }
}

/// Passes the frames among the bytes on to the executor.
fn pass_on(link: &mut Link, bytes: &[u8], outlet: &mut Outlet) -> Result<(), CloseReason> {
    let mut rest = bytes;
    while let Some(received) = link.incoming.next(&mut rest).map_err(CloseReason::Fault)? {
        link.has_spoken |= received.frame.is_ok();
        outlet.send(BusEvent::Frame { link: link.id, received: Box::new(received) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Watched;
    use std::cell::RefCell;
    use std::io;

    #[test]
    fn a_listener_that_cannot_be_watched_is_tried_again_and_others_are_released() {
        let (mut watched, calls) = (Watched::default(), RefCell::new(Vec::new()));
        let mut set = |id, watches, works: bool| {
            watched.set(id, watches, || {
                calls.borrow_mut().push(id);
                if works { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
            })
        };
        assert!(set(0, true, true) && !set(1, true, false));
        assert!(set(0, true, true) && !set(1, true, false) && set(1, true, true));
        assert!(set(0, false, true) && set(1, false, true));
        assert_eq!(calls.take(), [0, 1, 1, 1, 0, 1]);
    }
}
