//! A snapshot that is loaded while it comes, into databases of its own: those who use the data see nothing of it until it
//! is whole.
//!
//! ```text
//! push(bytes) -> pending, bounded -> Loader, on a stack of its own -> databases
//! ```
//!
//! There is one reader of snapshots, and it asks for bytes wherever it is, in the middle of a value too. Where they have
//! not come, its stack is left and gone on with later ([`Fiber`]). Rejected: beginning an element anew once more of it has
//! come, which reads a large one as often as it has pieces, and holds all of it; a thread, since one alone owns all data.
//!
//! 1. `pending` holds at most [`PENDING_BYTES_MAX`].
//! 2. Once the loader has ended `pending` is empty, and stays so.
//! 3. The loader runs to its end before it is dropped: an end of the bytes is what ends it early.

use super::load::{LoadError, LoadFigures, LoadOptions, Loader, Reason};
use crate::clock::Clock;
use crate::db::Db;
use crate::sys::fiber::{Fiber, Suspender};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;
use wire::rdb::ReadError;

/// Bytes that have come and are not read.
const PENDING_BYTES_MAX: usize = 512 * 1024;

/// Room is made in advance for no more keys than this: whoever sends the snapshot may say anything.
const KEYS_EXPECTED_MAX: usize = 1 << 20;

/// What a snapshot that was read to its end has brought.
pub struct Loaded {
    pub figures: LoadFigures,
    /// Sources of function libraries.
    pub libraries: Vec<Vec<u8>>,
    /// Of the snapshot, to its end.
    bytes: u64,
    /// The database that the stream of changes behind the snapshot is about, if it tells.
    pub stream_db: Option<usize>,
}

/// What is left of a load that has ended: the databases, whole or not.
pub struct Outcome {
    pub db: Box<Db>,
    pub loaded: Result<Loaded, LoadError>,
}

/// Why a step came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The beginning makes sense: what follows is a snapshot of a version that is known. Once.
    Begun,
    /// It goes on when more has come.
    WantsBytes,
    OutOfTime,
    /// It has come to its end, well or not.
    Ended,
}

/// What the loader and whoever drives it both see.
struct Shared {
    pending: RefCell<VecDeque<u8>>,
    /// Nothing more will come.
    is_ended: Cell<bool>,
    wants_bytes: Cell<bool>,
    has_begun: Cell<bool>,
    read_bytes: Cell<u64>,
    /// On the monotonic clock.
    deadline_us: Cell<u64>,
    clock: Clock,
}

pub struct StreamedLoad {
    /// Until it has ended.
    fiber: Option<Fiber<Outcome>>,
    shared: Rc<Shared>,
    told_begun: bool,
    outcome: Option<Outcome>,
}

impl StreamedLoad {
    /// `db` has no keys. Fails if there is no address space for the loader's stack.
    pub fn new(db: Box<Db>, mut options: LoadOptions, clock: Clock) -> io::Result<Self> {
        options.keys_expected_max = KEYS_EXPECTED_MAX;
        let shared = Rc::new(Shared {
            pending: RefCell::default(),
            is_ended: Cell::new(false),
            wants_bytes: Cell::new(true),
            has_begun: Cell::new(false),
            read_bytes: Cell::new(0),
            deadline_us: Cell::new(0),
            clock,
        });
        let inside = Rc::clone(&shared);
        let fiber = Fiber::new(move |suspender| load(&inside, &suspender, db, options))?;
        Ok(StreamedLoad { fiber: Some(fiber), shared, told_begun: false, outcome: None })
    }

    /// How many bytes [`StreamedLoad::push`] takes now.
    pub fn room(&self) -> usize {
        PENDING_BYTES_MAX - self.shared.pending.borrow().len()
    }

    /// Takes bytes in, for which there is room. What comes behind the snapshot's end is dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "whoever pushes asks for room first");
        if !self.has_ended() {
            self.shared.pending.borrow_mut().extend(bytes);
        }
    }

    /// No more bytes will come.
    pub fn end_input(&mut self) {
        self.shared.is_ended.set(true);
    }

    /// Whether a step now would come further than the last one.
    pub fn has_work(&self) -> bool {
        let waits = self.shared.wants_bytes.get()
            && !self.shared.is_ended.get()
            && self.shared.pending.borrow().is_empty();
        !self.has_ended() && !waits
    }

    /// Read to its end, well or not.
    pub fn has_ended(&self) -> bool {
        self.fiber.is_none()
    }

    /// Of a snapshot that was read to its end, all its bytes; `None` if that did not go well, or has not come about yet.
    pub fn loaded_bytes(&self) -> Option<u64> {
        self.outcome.as_ref()?.loaded.as_ref().ok().map(|loaded| loaded.bytes)
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.shared.read_bytes.get()
    }

    /// Loads on, until the deadline on the monotonic clock at most.
    pub fn step(&mut self, deadline_us: u64) -> Step {
        if self.has_ended() {
            return Step::Ended;
        }
        if !self.has_work() {
            return Step::WantsBytes;
        }
        self.shared.deadline_us.set(deadline_us);
        self.resume();
        if self.has_ended() {
            Step::Ended
        } else if self.shared.has_begun.get() && !std::mem::replace(&mut self.told_begun, true) {
            Step::Begun
        } else if self.shared.wants_bytes.get() {
            Step::WantsBytes
        } else {
            Step::OutOfTime
        }
    }

    /// What has come of it; of a load that has not ended, an error.
    pub fn finish(mut self) -> Outcome {
        self.run_to_end();
        self.outcome.take().expect("it has run to its end")
    }

    fn resume(&mut self) {
        self.outcome = self.fiber.as_mut().and_then(Fiber::resume);
        if self.outcome.is_some() {
            self.fiber = None;
            // What comes behind the snapshot's end is nobody's, and has to make room for its own end to come.
            self.shared.pending.take();
        }
    }

    /// Lets the loader find the end of its bytes.
    fn run_to_end(&mut self) {
        self.shared.pending.borrow_mut().clear();
        self.shared.is_ended.set(true);
        self.shared.deadline_us.set(0);
        while !self.has_ended() {
            self.resume();
        }
    }
}

impl Drop for StreamedLoad {
    fn drop(&mut self) {
        self.run_to_end();
    }
}

/// Reads what is pending, and leaves the stack where there is nothing.
struct Source<'a> {
    shared: &'a Shared,
    suspender: &'a Suspender<'a>,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let shared = self.shared;
        while shared.pending.borrow().is_empty() && !shared.is_ended.get() {
            shared.wants_bytes.set(true);
            self.suspender.suspend();
        }
        shared.wants_bytes.set(false);
        let count = shared.pending.borrow_mut().read(buffer)?;
        shared.read_bytes.set(shared.read_bytes.get() + count as u64);
        Ok(count)
    }
}

fn load(shared: &Shared, suspender: &Suspender<'_>, mut db: Box<Db>, options: LoadOptions) -> Outcome {
    let loaded = load_into(shared, suspender, &mut db, options);
    Outcome { db, loaded }
}

fn load_into(
    shared: &Shared,
    suspender: &Suspender<'_>,
    db: &mut Db,
    options: LoadOptions,
) -> Result<Loaded, LoadError> {
    let mut loader = Loader::open(Source { shared, suspender }, options)?;
    shared.has_begun.set(true);
    suspender.suspend();
    let mut out_of_time = || shared.clock.monotonic_us() >= shared.deadline_us.get();
    while !loader.step(db, &mut out_of_time)? {
        if shared.is_ended.get() && shared.deadline_us.get() == 0 {
            // Nobody is going to have it: the rest of the reader's buffer is not worth the time.
            return Err(LoadError { at: loader.position(), reason: Reason::Read(ReadError::UnexpectedEnd) });
        }
        suspender.suspend();
    }
    let libraries = std::mem::take(&mut loader.libraries);
    let bytes = loader.position();
    Ok(Loaded { figures: loader.figures, libraries, bytes, stream_db: loader.stream_db })
}
