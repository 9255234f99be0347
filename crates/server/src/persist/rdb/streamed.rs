//! A snapshot loaded while it is received, into separate databases: clients see nothing of it until it is complete.
//!
//! ```text
//! push(bytes) -> pending, bounded -> Loader, on a stack of its own -> databases
//! ```
//!
//! There is one reader of snapshots, which requests bytes anywhere, also within a value. If they have not arrived, its
//! stack is suspended and resumed later ([`Fiber`]). Rejected: reading an element again from its start once more of it
//! has arrived, which reads a large one as often as it has pieces, and buffers all of it; a thread, since a single thread
//! owns all data.
//!
//! 1. `pending` holds at most [`PENDING_BYTES_MAX`].
//! 2. Once the loader has ended `pending` stays empty.
//! 3. The loader runs to its end before it is dropped: the end of input ends it early.

use super::load::{LoadError, LoadFigures, LoadOptions, Loader, Reason};
use crate::clock::Clock;
use crate::db::Db;
use crate::sys::fiber::{Fiber, Suspender};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;
use wire::nodes_conf::OpenSlot;
use wire::rdb::{ReadError, SlotImport};

/// Maximum number of bytes received and not read.
const PENDING_BYTES_MAX: usize = 512 * 1024;

/// Space is reserved for at most this number of keys: the sender's number is not trusted.
const KEYS_EXPECTED_MAX: usize = 1 << 20;

/// Result of a completely read snapshot.
pub struct Loaded {
    /// Counts of the data.
    pub figures: LoadFigures,
    /// Sources of function libraries.
    pub libraries: Vec<Vec<u8>>,
    /// Length of the snapshot.
    bytes: u64,
    /// Selected database of the change stream after the snapshot, if stated.
    pub stream_db: Option<usize>,
    /// Open slots of the node that wrote the snapshot, if stated.
    pub open_slots: Option<Vec<OpenSlot>>,
    /// Slots of the cluster that were being imported; they are hidden in the databases.
    pub slot_imports: Vec<SlotImport>,
}

/// Result of an ended load: the databases, complete or not.
pub struct Outcome {
    /// The databases.
    pub db: Box<Db>,
    /// The result.
    pub loaded: Result<Loaded, LoadError>,
}

/// Why a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The header is valid: a snapshot of a known version follows. Reported once.
    Begun,
    /// The loader waits for more bytes.
    WantsBytes,
    /// Its time is over.
    OutOfTime,
    /// The load has ended, with or without an error.
    Ended,
}

/// State shared by the loader and its driver.
struct Shared {
    pending: RefCell<VecDeque<u8>>,
    /// The input has ended.
    is_ended: Cell<bool>,
    waits_for_bytes: Cell<bool>,
    has_begun: Cell<bool>,
    read_bytes: Cell<u64>,
    /// On the monotonic clock.
    deadline_us: Cell<u64>,
    clock: Clock,
}

/// A load under way or ended.
pub struct StreamedLoad {
    /// `None` once it has ended.
    fiber: Option<Fiber<Outcome>>,
    shared: Rc<Shared>,
    told_begun: bool,
    outcome: Option<Outcome>,
}

impl StreamedLoad {
    /// Starts loading into `db`, which has no keys. Fails if there is no address space for the loader's stack.
    pub fn new(db: Box<Db>, mut options: LoadOptions, clock: Clock) -> io::Result<Self> {
        options.keys_expected_max = KEYS_EXPECTED_MAX;
        let shared = Rc::new(Shared {
            pending: RefCell::default(),
            is_ended: Cell::new(false),
            waits_for_bytes: Cell::new(true),
            has_begun: Cell::new(false),
            read_bytes: Cell::new(0),
            deadline_us: Cell::new(0),
            clock,
        });
        let inside = Rc::clone(&shared);
        let fiber = Fiber::new(move |suspender| load(&inside, &suspender, db, options))?;
        Ok(StreamedLoad { fiber: Some(fiber), shared, told_begun: false, outcome: None })
    }

    /// Number of bytes that [`StreamedLoad::push`] takes now.
    pub fn room(&self) -> usize {
        PENDING_BYTES_MAX - self.shared.pending.borrow().len()
    }

    /// Adds bytes, for which there must be room. Bytes after the snapshot's end are dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "the bytes exceed the room");
        if !self.has_ended() {
            self.shared.pending.borrow_mut().extend(bytes);
        }
    }

    /// Marks the end of the input.
    pub fn end_input(&mut self) {
        self.shared.is_ended.set(true);
    }

    /// Whether a step now would make progress.
    pub fn has_work(&self) -> bool {
        let waits = self.shared.waits_for_bytes.get()
            && !self.shared.is_ended.get()
            && self.shared.pending.borrow().is_empty();
        !self.has_ended() && !waits
    }

    /// Whether the load has ended, with or without an error.
    pub fn has_ended(&self) -> bool {
        self.fiber.is_none()
    }

    /// Length of a completely read snapshot; `None` after an error, or before the end.
    pub fn loaded_bytes(&self) -> Option<u64> {
        self.outcome.as_ref()?.loaded.as_ref().ok().map(|loaded| loaded.bytes)
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.shared.read_bytes.get()
    }

    /// Continues loading until the deadline on the monotonic clock.
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
        } else if self.shared.waits_for_bytes.get() {
            Step::WantsBytes
        } else {
            Step::OutOfTime
        }
    }

    /// Ends the load and returns its result: an error if it has not ended by itself.
    pub fn finish(mut self) -> Outcome {
        self.run_to_end();
        self.outcome.take().expect("the load has ended")
    }

    fn resume(&mut self) {
        self.outcome = self.fiber.as_mut().and_then(Fiber::resume);
        if self.outcome.is_some() {
            self.fiber = None;
            // Bytes after the snapshot's end are dropped, which leaves room for the end of input.
            self.shared.pending.take();
        }
    }

    /// Runs the loader to the end of its input.
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

/// Reads the pending bytes, and suspends the stack if there are none.
struct Source<'a> {
    shared: &'a Shared,
    suspender: &'a Suspender<'a>,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let shared = self.shared;
        while shared.pending.borrow().is_empty() && !shared.is_ended.get() {
            shared.waits_for_bytes.set(true);
            self.suspender.suspend();
        }
        shared.waits_for_bytes.set(false);
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
            // The result is not wanted: the rest of the reader's buffer is not worth the time.
            return Err(LoadError { at: loader.position(), reason: Reason::Read(ReadError::UnexpectedEnd) });
        }
        suspender.suspend();
    }
    let libraries = std::mem::take(&mut loader.libraries);
    Ok(Loaded {
        figures: loader.figures,
        libraries,
        bytes: loader.position(),
        stream_db: loader.stream_db,
        open_slots: loader.take_open_slots(),
        slot_imports: loader.take_slot_imports(),
    })
}
