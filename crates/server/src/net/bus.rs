//! The cluster bus: a thread that owns the sockets between nodes and the file nodes.conf. This is the executor's end of it.
//!
//! ```text
//!              BusAction: Connect, Close, Send, Bound, Save
//!   executor  --------------------------------------------->  thread: epoll, TLS, frames, nodes.conf
//!             <---------------------------------------------
//!        LinkAccepted, LinkOpened, Frame, LinkBacklog, LinkClosed, Saved, SaveFailed
//! ```
//!
//! 1. Actions are carried out in their order. What stands behind a `Save` with `sync` is done when the file is on disk:
//!    no vote is known to others that a crash could undo. Of several saves that wait, the newest is written, in the
//!    place of the first: a slow disk delays frames by one save, and one text is held.
//! 2. An executor that takes no events stops the thread from reading: its queue and the bytes in it are bounded, the rest
//!    waits in the sockets.
//! 3. What a peer makes the thread hold is bounded: accepted links, partial frames of all links together, frames that one
//!    link does not take. Room is made by closing a link: the oldest that is no known node's, that with most of partial
//!    frames, or that which does not read.
//! 4. The thread writes no log line: a process forked for a snapshot must not find the log locked.
//! 5. A link ends with one `LinkClosed`, or by the executor's `Close`, from which on no event is about it: what was under
//!    way is dropped here, until the thread has confirmed the end.

mod conf_file;
mod link;
mod links;
mod resolver;
mod thread;

pub use conf_file::{ConfFile, OpenError, SaveError};

use super::channel::{self, Receiver, Sender, Waker};
use super::listener::{ListenError, Listener};
use super::listeners::{self, Protocol};
use super::poller::{Poller, Token};
use super::tls_context::{BusConfigs, Published};
use crate::clock::Clock;
use crate::config::Config;
use cluster::{BusAction, LinkId};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use thread::{Limits, Order, Parts};
use wire::cluster_bus::{Fault, Frame, Kind, Received};

/// Events and orders that a queue takes before it is full.
const QUEUE_VALUES: usize = 1024;
/// Bytes of publications and modules' messages on their way to the thread. They are delivered at most once, so that more of
/// them are dropped.
const ORDER_BYTES_MAX: usize = 256 << 20;
/// Least time between two warnings about dropped messages.
const DROP_WARNING_PERIOD_US: u64 = 30_000_000;
/// Events that the executor takes in one turn.
const DRAINED_MAX: usize = 1024;
/// Actions after which the thread is woken before the end of the tick.
const ANNOUNCED_ACTIONS: usize = 64;

/// What happened on the bus.
#[derive(Debug)]
pub enum BusEvent {
    /// Another node has opened a link.
    LinkAccepted {
        /// The link.
        link: LinkId,
        /// The other end's address.
        peer: IpAddr,
        /// This end's address.
        local: IpAddr,
    },
    /// A link that was asked for is open.
    LinkOpened(LinkId),
    /// A link was not opened, or has ended.
    LinkClosed {
        /// The link.
        link: LinkId,
        /// Address of the other end, if there was one.
        peer: Option<SocketAddr>,
        /// Why.
        reason: CloseReason,
    },
    /// A frame has come, or was dropped.
    Frame {
        /// The link.
        link: LinkId,
        /// The frame.
        received: Box<Received>,
    },
    /// How much a link has to send has changed.
    LinkBacklog {
        /// The link.
        link: LinkId,
        /// Bytes that wait.
        bytes: usize,
    },
    /// The save with this number, and with it all before it, is on disk. Reported of those with `sync`.
    Saved(u64),
    /// The file could not be replaced.
    SaveFailed {
        /// Number of the save.
        number: u64,
        /// Why.
        error: SaveError,
        /// Nothing more is sent: the process has to end.
        is_fatal: bool,
    },
}

/// Why a link has ended.
#[derive(Debug)]
pub enum CloseReason {
    /// The other end has closed it, or the connection has failed.
    Peer,
    /// It could not be connected, or its handshake has failed.
    Failed(io::Error),
    /// What came is no frame.
    Fault(Fault),
    /// It did not take what was sent.
    Unread,
    /// All links together held too much of partial frames, and this one most.
    PartialFrames,
    /// It was accepted and did not send a frame in time.
    Silent,
    /// It was accepted, is not a known node's, and its place was needed.
    Unbound,
}

impl BusEvent {
    /// The link that the event is about.
    fn link(&self) -> Option<LinkId> {
        match self {
            BusEvent::LinkAccepted { link, .. }
            | BusEvent::LinkOpened(link)
            | BusEvent::LinkClosed { link, .. }
            | BusEvent::Frame { link, .. }
            | BusEvent::LinkBacklog { link, .. } => Some(*link),
            BusEvent::Saved(_) | BusEvent::SaveFailed { .. } => None,
        }
    }
}

/// What the thread sends to the executor's end.
enum Delivery {
    /// Something has happened.
    Event(BusEvent),
    /// The executor's `Close` was carried out: no event of the link follows.
    Ended(LinkId),
}

/// What can be changed while the bus runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusSettings {
    /// Whether the process has to end when the file cannot be replaced (`cluster-config-save-behavior`).
    pub save_failure_is_fatal: bool,
    /// Limit of publications (`proto-max-bulk-len`).
    pub message_bytes_max: usize,
    /// Address that links are opened from (`bind-source-addr`).
    pub source: Option<IpAddr>,
    /// Idle time before keepalive probes on accepted links; 0 sends none.
    pub keepalive_s: u64,
}

/// What the thread has, for INFO.
#[derive(Debug, Default)]
pub struct BusFigures {
    /// Links, opened and accepted.
    pub links: AtomicUsize,
    /// Memory of partial frames.
    pub input_bytes: AtomicUsize,
    /// Bytes that sockets have not taken. Links share the memory of a frame that many of them send.
    pub output_bytes: AtomicUsize,
}

/// A content of nodes.conf.
struct Content {
    number: u64,
    text: String,
}

/// The newest content that waits for the thread.
#[derive(Default)]
struct Unsaved(Mutex<Option<Content>>);

impl Unsaved {
    fn put(&self, content: Content) {
        *self.lock() = Some(content);
    }

    /// Takes the content, unless it is a later one than this.
    fn take(&self, number_max: u64) -> Option<Content> {
        self.lock().take_if(|content| content.number <= number_max)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Content>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes in the two queues.
#[derive(Debug, Default)]
struct Flow {
    order_bytes: AtomicUsize,
    event_bytes: AtomicUsize,
}

/// What the bus is started with.
pub struct BusParts {
    /// Sockets that listen already; see [`listen`].
    pub listeners: Vec<Listener>,
    /// TLS, if the bus uses it.
    pub tls: Arc<Published<BusConfigs>>,
    /// The file.
    pub file: ConfFile,
    /// Settings at the start.
    pub settings: BusSettings,
    /// The clock.
    pub clock: Clock,
}

/// The executor's end of the bus.
pub struct Bus {
    orders: Sender<Order>,
    deliveries: Receiver<Delivery>,
    /// Links that the executor has closed, until the thread has confirmed it.
    ending: BTreeSet<LinkId>,
    flow: Arc<Flow>,
    figures: Arc<BusFigures>,
    unsaved: Arc<Unsaved>,
    thread: Option<JoinHandle<()>>,
    clock: Clock,
    /// How long the end waits for the thread.
    end_us_max: u64,
    /// Messages that were dropped because the thread did not keep up.
    dropped: u64,
    /// When that may be logged again.
    warn_again_us: u64,
}

/// Opens the bus's sockets on the addresses of `bind`. Nothing is accepted before [`Bus::accept`].
pub fn listen(config: &Config, port: u16) -> Result<Vec<Listener>, ListenError> {
    // The thread applies TLS.
    let addresses = listeners::resolve(&config.bind, port, Protocol::Plain)?;
    listeners::open_beside(&[], &addresses, config.tcp_backlog)
}

impl Bus {
    /// Starts the thread, which wakes the executor by its waker.
    pub fn start(parts: BusParts, executor: Arc<Waker>) -> io::Result<Bus> {
        Bus::start_with(parts, Limits::default(), executor)
    }

    fn start_with(parts: BusParts, limits: Limits, executor: Arc<Waker>) -> io::Result<Bus> {
        let waker = Arc::new(Waker::new()?);
        let (orders, orders_taken) = channel::with_room(QUEUE_VALUES, Arc::clone(&waker));
        let (deliveries_made, deliveries) = channel::with_room(QUEUE_VALUES, executor);
        let poller = Poller::new()?;
        poller.add_edges(waker.fd(), Token::Waker)?;
        let (flow, figures) = (Arc::<Flow>::default(), Arc::<BusFigures>::default());
        let (unsaved, clock) = (Arc::<Unsaved>::default(), parts.clock.clone());
        let parts = Parts {
            bus: parts,
            limits,
            epoll: poller.into_file(),
            waker,
            orders: orders_taken,
            deliveries: deliveries_made,
            flow: Arc::clone(&flow),
            figures: Arc::clone(&figures),
            unsaved: Arc::clone(&unsaved),
        };
        let run = move || parts.run();
        let thread = Some(std::thread::Builder::new().name("cluster_bus".to_owned()).spawn(run)?);
        Ok(Bus {
            orders,
            deliveries,
            ending: BTreeSet::new(),
            flow,
            figures,
            unsaved,
            thread,
            clock,
            end_us_max: limits.end_us,
            dropped: 0,
            warn_again_us: 0,
        })
    }

    /// Queues an action. The thread is woken at the latest by [`Bus::announce`].
    pub fn execute(&mut self, action: BusAction) {
        let order = match action {
            BusAction::Save { number, text, sync } => {
                self.unsaved.put(Content { number, text });
                Order::Save { number, sync }
            }
            BusAction::Connect { link, address, port } => Order::Connect { link, address, port },
            BusAction::Close(link) => {
                self.ending.insert(link);
                Order::Close(link)
            }
            BusAction::Bound(link) => Order::Bound(link),
            BusAction::Send(_, frame) if !self.takes(&frame) => return self.note_dropped(),
            BusAction::Send(link, frame) => Order::Send(link, frame),
        };
        self.send(order);
    }

    fn note_dropped(&mut self) {
        self.dropped += 1;
        let now_us = self.clock.monotonic_us();
        if now_us >= self.warn_again_us {
            self.warn_again_us = now_us + DROP_WARNING_PERIOD_US;
            log::warn!("The cluster bus does not keep up: {} messages were dropped so far", self.dropped);
        }
    }

    /// Returns whether there is room for the frame, and counts it. Only what is delivered at most once is ever refused.
    fn takes(&self, frame: &Frame) -> bool {
        let bytes = message_bytes(frame);
        bytes == 0 || {
            let before = self.flow.order_bytes.fetch_add(bytes, Ordering::Relaxed);
            let takes = before <= ORDER_BYTES_MAX;
            if !takes {
                self.flow.order_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            takes
        }
    }

    /// Accepts links from now on, or none.
    pub fn accept(&mut self, accepts: bool) {
        self.send(Order::Accept(accepts));
    }

    /// Changes the settings. What has begun to come is read by the limits of before.
    pub fn configure(&mut self, settings: BusSettings) {
        self.send(Order::Configure(settings));
    }

    fn send(&mut self, order: Order) {
        self.orders.send(order);
        if self.orders.unannounced() >= ANNOUNCED_ACTIONS {
            self.orders.announce();
        }
    }

    /// Wakes the thread if there are actions for it.
    pub fn announce(&mut self) {
        self.orders.announce();
    }

    /// Returns whether actions wait for room in the queue: [`Bus::announce`] has to be called again soon.
    pub fn is_backed_up(&self) -> bool {
        self.orders.is_backed_up()
    }

    /// Returns whether there are events.
    pub fn has_events(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Passes the events on, up to a turn's number.
    pub fn drain(&mut self, mut visit: impl FnMut(BusEvent)) {
        for _ in 0..DRAINED_MAX {
            let event = match self.deliveries.receive() {
                Some(Delivery::Event(event)) => event,
                Some(Delivery::Ended(link)) => {
                    self.ending.remove(&link);
                    continue;
                }
                None => return,
            };
            if let BusEvent::Frame { received, .. } = &event {
                self.flow.event_bytes.fetch_sub(received.bytes as usize, Ordering::Relaxed);
            }
            if !event.link().is_some_and(|link| self.ending.contains(&link)) {
                visit(event);
            }
        }
    }

    /// Returns the thread's figures.
    pub fn figures(&self) -> &BusFigures {
        &self.figures
    }

    /// Ends the thread, which first does what it was ordered. A thread that waits for the disk too long is not waited for.
    pub fn stop(mut self, visit: impl FnMut(BusEvent)) {
        self.end(visit);
    }

    fn end(&mut self, mut visit: impl FnMut(BusEvent)) {
        let Some(thread) = self.thread.take() else { return };
        self.orders.send(Order::Stop);
        let deadline_us = self.clock.monotonic_us() + self.end_us_max;
        while !thread.is_finished() {
            if self.clock.monotonic_us() >= deadline_us {
                log::warn!(
                    "The thread of the cluster bus did not end in time: nodes.conf may lack the last changes"
                );
                return;
            }
            // Makes room for the thread's events, and for waiting orders.
            self.drain(&mut visit);
            self.orders.announce();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.drain(&mut visit);
        if thread.join().is_err() {
            log::warn!("The thread of the cluster bus has ended by a panic");
        }
    }
}

/// As [`Bus::stop`]; of the last events only a failed save is of interest.
impl Drop for Bus {
    fn drop(&mut self) {
        self.end(|event| {
            if let BusEvent::SaveFailed { .. } = event {
                log::warn!("The last changes of the cluster's configuration are not saved");
            }
        });
    }
}

/// The length of a frame that is delivered at most once; 0 of others.
fn message_bytes(frame: &Frame) -> usize {
    match frame.kind() {
        Kind::Publish | Kind::PublishShard | Kind::Module => frame.expected_len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
