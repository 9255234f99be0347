//! The executor's side of the I/O threads: their start and end, and the queues to and from each.
//!
//! The executor is thread 0 and serves sockets itself; thread `n` is `peers[n - 1]`.

use super::by_handle::OfClient;
use super::channel::{self, Receiver, Sender, Waker};
use super::io_thread::{Delivery, Order, Parts, Shared};
use super::poller::{Poller, Token};
use super::query_buffer::QueryBuffer;
use crate::observe::IoThreadFigures;
use crate::session::ClientHandle;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Number of orders after which a thread is woken before the end of the tick.
const ANNOUNCED_ORDERS: usize = 16;

/// All I/O threads.
pub struct Threads {
    /// Wakes the executor at deliveries.
    pub waker: Arc<Waker>,
    /// Data shared by all threads.
    pub shared: Arc<Shared>,
    peers: Vec<Peer>,
    /// The thread whose delivery is taken next, in turn.
    next: usize,
}

struct Peer {
    orders: Sender<Order>,
    deliveries: Receiver<Delivery>,
    figures: Arc<IoThreadFigures>,
    thread: JoinHandle<()>,
    /// It has been ordered to stop, and returns its connections.
    is_ending: bool,
    has_ended: bool,
}

/// The executor's part of a connection served by an I/O thread.
pub struct RemoteConnection {
    handle: ClientHandle,
    /// Number of the thread.
    pub thread: usize,
    /// A query buffer kept by the executor: its client is blocked, or the connection is being moved.
    pub held: Option<Box<QueryBuffer>>,
    /// The peer has hung up while the query buffer was here.
    pub has_hung_up: bool,
    /// The thread has been ordered to close the connection.
    pub is_closing: bool,
    /// The thread works on its handshake.
    pub is_handshaking: bool,
    /// The thread expects more output, which the executor holds.
    pub awaits_output: bool,
    /// Destination of a connection that the thread has been ordered to return; no more output is sent to it.
    pub moves_to: Option<Destination>,
}

/// Destination of a moving connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The I/O thread of this number.
    Thread(usize),
    /// Any thread with room.
    Anywhere,
}

impl OfClient for RemoteConnection {
    #[inline]
    fn handle(&self) -> ClientHandle {
        self.handle
    }
}

impl RemoteConnection {
    /// Creates the record of a connection that an I/O thread adopts.
    pub fn new(handle: ClientHandle, thread: usize, held: Option<Box<QueryBuffer>>) -> Self {
        RemoteConnection {
            handle,
            thread,
            held,
            has_hung_up: false,
            is_closing: false,
            is_handshaking: false,
            awaits_output: false,
            moves_to: None,
        }
    }
}

impl Threads {
    /// Creates an empty set of threads.
    pub fn new(shared: Shared) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        Ok(Threads { waker, shared: Arc::new(shared), peers: Vec::new(), next: 0 })
    }

    /// Returns the number of threads beside the executor, ending ones included.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Returns whether there are no I/O threads.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns whether a thread is ending.
    pub fn any_is_ending(&self) -> bool {
        self.peers.iter().any(|peer| peer.is_ending)
    }

    /// Returns whether connections may be sent there.
    pub fn is_open(&self, thread: usize) -> bool {
        thread == 0 || self.peers.get(thread - 1).is_some_and(|peer| !peer.is_ending)
    }

    /// Returns the number of connections of an I/O thread.
    pub fn connections(&self, thread: usize) -> usize {
        self.peers[thread - 1].figures.clients.load(Ordering::Relaxed)
    }

    /// Counts a connection of an I/O thread.
    pub fn count_connection(&self, thread: usize) {
        self.peers[thread - 1].figures.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops counting a connection of an I/O thread.
    pub fn discount_connection(&self, thread: usize) {
        self.peers[thread - 1].figures.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// Starts one more thread; `figures` are those of all numbers ever used.
    pub fn start(&mut self, figures: &mut Vec<Arc<IoThreadFigures>>) -> io::Result<()> {
        self.start_with(figures, Parts::run)
    }

    /// As [`Self::start`], for a thread with another function.
    pub fn start_with(
        &mut self,
        figures: &mut Vec<Arc<IoThreadFigures>>,
        work: impl FnOnce(Parts) + Send + 'static,
    ) -> io::Result<()> {
        let index = self.peers.len();
        if figures.len() == index {
            figures.push(Arc::default());
        }
        let own_figures = Arc::clone(&figures[index]);
        let waker = Arc::new(Waker::new()?);
        let (orders, orders_taken) = channel::queue(Arc::clone(&waker));
        let (deliveries_made, deliveries) = channel::queue(Arc::clone(&self.waker));
        let shared = Arc::clone(&self.shared);
        let poller = Poller::new()?;
        poller.add_edges(waker.fd(), Token::Waker)?;
        let parts = Parts {
            epoll: poller.into_file(),
            waker,
            orders: orders_taken,
            deliveries: deliveries_made,
            shared,
            figures: Arc::clone(&own_figures),
        };
        let name = format!("io_thread_{}", index + 1);
        let thread = std::thread::Builder::new().name(name).spawn(move || work(parts))?;
        self.peers.push(Peer {
            orders,
            deliveries,
            figures: own_figures,
            thread,
            is_ending: false,
            has_ended: false,
        });
        Ok(())
    }

    /// Stops all threads beyond the first `kept`; they return their connections first.
    pub fn stop_beyond(&mut self, kept: usize) {
        for peer in self.peers.iter_mut().skip(kept).filter(|peer| !peer.is_ending) {
            peer.is_ending = true;
            peer.orders.send(Order::Stop);
            peer.orders.announce();
        }
    }

    /// Joins a thread that has ended, and others that have waited for it: threads are removed in the reverse order of their
    /// numbers.
    pub fn join_ended(&mut self, thread: usize) {
        self.peers[thread - 1].has_ended = true;
        while let Some(peer) = self.peers.pop_if(|peer| peer.has_ended) {
            join(peer.thread);
        }
    }

    /// Queues an order to a thread.
    #[inline]
    pub fn send(&mut self, thread: usize, order: Order) {
        let orders = &mut self.peers[thread - 1].orders;
        orders.send(order);
        if orders.unannounced() >= ANNOUNCED_ORDERS {
            orders.announce();
        }
    }

    /// Wakes the threads that have orders.
    pub fn announce(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.orders.announce());
    }

    /// Returns whether orders wait for room in a queue.
    pub fn is_backed_up(&self) -> bool {
        self.peers.iter().any(|peer| peer.orders.is_backed_up())
    }

    /// Returns whether a delivery of any thread waits.
    pub fn have_delivered(&self) -> bool {
        self.peers.iter().any(|peer| !peer.deliveries.is_empty())
    }

    /// Returns the next delivery and its thread; one of each thread in turn.
    pub fn receive(&mut self) -> Option<(usize, Delivery)> {
        for _ in 0..self.peers.len() {
            self.next = (self.next + 1) % self.peers.len();
            if let Some(delivery) = self.peers[self.next].deliveries.receive() {
                return Some((self.next + 1, delivery));
            }
        }
        None
    }

    /// Returns the processor time used so far by each thread except the executor.
    pub fn busy_us(&self) -> impl Iterator<Item = u64> {
        self.peers.iter().map(|peer| peer.figures.busy_us.load(Ordering::Relaxed))
    }
}

fn join(thread: JoinHandle<()>) {
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Threads send their pending output before they end.
impl Drop for Threads {
    fn drop(&mut self) {
        self.stop_beyond(0);
        for mut peer in self.peers.drain(..) {
            while !peer.thread.is_finished() {
                // Makes room for the thread's deliveries, and for waiting orders.
                while peer.deliveries.receive().is_some() {}
                peer.orders.announce();
                std::thread::yield_now();
            }
            if peer.thread.join().is_err() {
                log::warn!("An I/O thread has ended by a panic");
            }
        }
    }
}
