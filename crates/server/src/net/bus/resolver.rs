//! Host names of nodes: looked up in a thread of its own, since a name may take minutes and no other link may wait for it.
//! Nodes nearly always have addresses, so the thread is started at the first name.

use super::super::channel::Waker;
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names that wait. There is at most one of each link that is being opened.
const WAITING_MAX: usize = 10_000;

/// The bus thread's end.
pub(super) struct Resolver {
    waker: Arc<Waker>,
    thread: Option<Thread>,
    waiting: usize,
    cancelled: Arc<Cancelled>,
}

/// Links that were closed while their names waited: those are not looked up.
#[derive(Default)]
struct Cancelled(Mutex<BTreeSet<u64>>);

impl Cancelled {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Thread {
    names: Sender<Name>,
    found: Receiver<Found>,
}

struct Name {
    link: u64,
    host: String,
    port: u16,
}

/// The address of a link's name.
pub(super) struct Found {
    pub(super) link: u64,
    pub(super) host: String,
    pub(super) address: io::Result<SocketAddr>,
}

impl Resolver {
    pub(super) fn new(waker: Arc<Waker>) -> Self {
        Resolver { waker, thread: None, waiting: 0, cancelled: Arc::default() }
    }

    /// Begins to look up a name.
    pub(super) fn begin(&mut self, link: u64, host: String, port: u16) -> io::Result<()> {
        if self.waiting == WAITING_MAX {
            return Err(io::Error::other("too many names are being looked up"));
        }
        if self.thread.is_none() {
            self.thread = Some(start(Arc::clone(&self.waker), Arc::clone(&self.cancelled), first_address)?);
        }
        let Some(thread) = &self.thread else { return Ok(()) };
        let gone = |_| io::Error::other("the thread that looks up names has ended");
        thread.names.send(Name { link, host, port }).map_err(gone)?;
        self.waiting += 1;
        Ok(())
    }

    /// The link of a name was closed.
    pub(super) fn cancel(&mut self, link: u64) {
        self.cancelled.lock().insert(link);
    }

    /// Returns the next name that was looked up, or was cancelled.
    pub(super) fn next(&mut self) -> Option<Found> {
        let found = self.thread.as_ref()?.found.try_recv().ok()?;
        self.waiting -= 1;
        // It may have been cancelled while it was looked up.
        self.cancelled.lock().remove(&found.link);
        Some(found)
    }

    /// Returns whether no name is being looked up. Otherwise the bus looks for answers now and then: one that comes just
    /// before it sleeps does not wake it.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting == 0
    }
}

fn start(
    waker: Arc<Waker>,
    cancelled: Arc<Cancelled>,
    look_up: impl Fn(&str, u16) -> io::Result<SocketAddr> + Send + 'static,
) -> io::Result<Thread> {
    let (names, asked) = mpsc::channel::<Name>();
    let (answers, found) = mpsc::channel();
    let work = move || {
        for Name { link, host, port } in asked {
            let is_cancelled = cancelled.lock().contains(&link);
            let address = match is_cancelled {
                true => Err(io::Error::other("the link was closed")),
                false => look_up(&host, port),
            };
            if answers.send(Found { link, host, address }).is_err() {
                return;
            }
            waker.wake();
        }
    };
    // It ends with the bus, or after the name that it is looking up then.
    std::thread::Builder::new().name("bus_names".to_owned()).spawn(work)?;
    Ok(Thread { names, found })
}

fn first_address(host: &str, port: u16) -> io::Result<SocketAddr> {
    let mut addresses = (host, port).to_socket_addrs()?;
    addresses.next().ok_or_else(|| io::Error::other(format!("{host} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn names_of_closed_links_are_not_looked_up() {
        let mut resolver = Resolver::new(Arc::new(Waker::new().unwrap()));
        let looked_up = Arc::new(AtomicUsize::new(0));
        let (go, gate) = mpsc::channel::<()>();
        let count = Arc::clone(&looked_up);
        let look_up = move |_: &str, port: u16| {
            count.fetch_add(1, Ordering::Relaxed);
            gate.recv().map_err(io::Error::other)?;
            Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        };
        let thread = start(Arc::clone(&resolver.waker), Arc::clone(&resolver.cancelled), look_up).unwrap();
        resolver.thread = Some(thread);
        // The first is being looked up while the second waits.
        for link in [0, 2, 4] {
            resolver.begin(link, "name".to_owned(), 1).unwrap();
        }
        while looked_up.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        resolver.cancel(0);
        resolver.cancel(2);
        let mut found = Vec::new();
        for _ in 0..2 {
            go.send(()).unwrap();
        }
        while !resolver.is_idle() {
            match resolver.next() {
                Some(next) => found.push((next.link, next.address.is_ok())),
                None => std::thread::yield_now(),
            }
        }
        assert_eq!(found, [(0, true), (2, false), (4, true)]);
        assert_eq!(looked_up.load(Ordering::Relaxed), 2);
        assert!(resolver.cancelled.lock().is_empty());
    }
}
