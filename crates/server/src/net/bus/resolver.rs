//! Host names of nodes: looked up in a thread of its own, since a name may take minutes and no other link may wait for it.
//! Nodes nearly always have addresses, so the thread is started at the first name.

use super::super::channel::Waker;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

/// Names that wait. There is at most one of each link that is being opened.
const WAITING_MAX: usize = 10_000;

/// The bus thread's end.
pub(super) struct Resolver {
    waker: Arc<Waker>,
    thread: Option<Thread>,
    waiting: usize,
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
        Resolver { waker, thread: None, waiting: 0 }
    }

    /// Begins to look up a name.
    pub(super) fn begin(&mut self, link: u64, host: String, port: u16) -> io::Result<()> {
        if self.waiting == WAITING_MAX {
            return Err(io::Error::other("too many names are being looked up"));
        }
        if self.thread.is_none() {
            self.thread = Some(start(Arc::clone(&self.waker))?);
        }
        let Some(thread) = &self.thread else { return Ok(()) };
        let gone = |_| io::Error::other("the thread that looks up names has ended");
        thread.names.send(Name { link, host, port }).map_err(gone)?;
        self.waiting += 1;
        Ok(())
    }

    /// Returns the next name that was looked up.
    pub(super) fn next(&mut self) -> Option<Found> {
        let found = self.thread.as_ref()?.found.try_recv().ok()?;
        self.waiting -= 1;
        Some(found)
    }

    /// Returns whether no name is being looked up. Otherwise the bus looks for answers now and then: one that comes just
    /// before it sleeps does not wake it.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting == 0
    }
}

fn start(waker: Arc<Waker>) -> io::Result<Thread> {
    let (names, asked) = mpsc::channel::<Name>();
    let (answers, found) = mpsc::channel();
    let work = move || {
        for Name { link, host, port } in asked {
            let address = first_address(&host, port);
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
