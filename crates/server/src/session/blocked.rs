//! Clients that wait: for keys, for acknowledgements, or for nothing but time.

use super::clients::{ClientHandle, Clients};
use crate::command::args::OwnedArgs;
use crate::command::registry::CommandId;
use crate::server::Acknowledgements;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// What a blocked command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockedOn {
    /// A change to any of these keys of the client's database: the command then runs again.
    Keys { db_index: usize, keys: Vec<Box<[u8]>> },
    /// That so many replicas have the client's last change (WAIT), or have it on disk (WAITAOF); and, if `local`, that the
    /// append-only file is on disk up to there.
    Acknowledgement { local: bool, replicas: i64, on_disk: bool },
    /// The end of a pause: the command then runs.
    Pause,
    /// The end of what DEBUG LOADAOF has begun.
    Loading,
    /// The process's end, or that there is none.
    Shutdown,
}

/// What the client is answered when the time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    Null,
    NullArray,
    /// WAIT's: how many replicas have the client's last change by then.
    Replicas,
    /// WAITAOF's: whether the append-only file is on disk by then, and how many replicas' files are.
    OnDisk,
}

impl TimeoutReply {
    /// `acknowledged`: who has the client's last change.
    pub fn write(self, acknowledged: Acknowledgements, reply: &mut wire::reply::ReplyBuffer) {
        match self {
            TimeoutReply::Null => reply.null(),
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Replicas => reply.integer(acknowledged.replicas as i64),
            TimeoutReply::OnDisk => {
                reply.array(2);
                reply.integer(acknowledged.local.into());
                reply.integer(acknowledged.replicas_on_disk as i64);
            }
        }
    }
}

/// A handler's wish that its client wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    pub on: BlockedOn,
    /// How long at most; `None` for ever.
    pub timeout_us: Option<u64>,
    pub timeout_reply: TimeoutReply,
    /// After so long the command runs again although nothing has changed.
    pub retry_us: Option<u64>,
}

impl BlockRequest {
    /// Waits for as long as it takes.
    pub const fn until(on: BlockedOn) -> Self {
        BlockRequest { on, timeout_us: None, timeout_reply: TimeoutReply::Null, retry_us: None }
    }
}

/// A client's waiting.
#[derive(Debug)]
pub struct Blocked {
    pub on: BlockedOn,
    pub timeout_reply: TimeoutReply,
    /// On the monotonic clock.
    pub deadline_us: Option<u64>,
    /// When the command runs again although nothing has changed.
    pub retry_us: Option<u64>,
    pub since_us: u64,
    pub command: CommandId,
    pub args: OwnedArgs,
    /// It has something to do also when a key it waits for is gone (a consumer of a removed stream).
    pub wants_absence: bool,
    /// Its place in all queues; given by [`BlockedTable::block`].
    pub arrival: Arrival,
}

impl Blocked {
    pub fn memory_bytes(&self) -> usize {
        let keys = match &self.on {
            BlockedOn::Keys { keys, .. } => keys.iter().map(|key| key.len() + WAITING_BYTES).sum(),
            BlockedOn::Acknowledgement { .. }
            | BlockedOn::Pause
            | BlockedOn::Loading
            | BlockedOn::Shutdown => 0,
        };
        size_of::<Self>() + self.args.memory_bytes() + keys
    }
}

/// What waiting for one key costs, in the queue and in the client.
const WAITING_BYTES: usize = 80;

/// Who came when, as a number that only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(u64);

/// Those who wait for one key.
#[derive(Debug, Default)]
struct Queue {
    waiters: BTreeMap<Arrival, Waiter>,
    /// How many of them want to run also when the key is gone.
    want_absence: usize,
    /// It is in `BlockedTable::ready`.
    is_ready: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    handle: ClientHandle,
    wants_absence: bool,
}

/// A key that has changed, and how far down its queue clients have been served.
#[derive(Debug)]
pub struct ReadyKey {
    pub db_index: usize,
    pub key: Box<[u8]>,
    /// The last who came before the key changed, and the last who was served.
    until: Arrival,
    served: Option<Arrival>,
}

/// Who waits for which key, in order of arrival, and who waits until when.
#[derive(Default)]
pub struct BlockedTable {
    databases: Vec<HashMap<Box<[u8]>, Queue>>,
    keys: usize,
    deadlines: BTreeSet<(u64, ClientHandle)>,
    /// Who has a time at which the command runs again.
    retries: BTreeSet<(u64, ClientHandle)>,
    paused: BTreeMap<Arrival, ClientHandle>,
    for_acknowledgement: BTreeMap<Arrival, ClientHandle>,
    /// How many of them wait for the append-only file here.
    for_own_file: usize,
    count: usize,
    last_arrival: Arrival,
    /// Keys that changed and have waiters, in order of change.
    ready: VecDeque<(usize, Box<[u8]>)>,
}

impl BlockedTable {
    /// How many clients wait, those that a pause holds back included.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those who wait for replicas or for the append-only file, in order of arrival.
    pub fn for_acknowledgement(&self) -> impl ExactSizeIterator<Item = ClientHandle> + '_ {
        self.for_acknowledgement.values().copied()
    }

    /// Whether anybody waits for the append-only file.
    pub fn wait_for_own_file(&self) -> bool {
        self.for_own_file > 0
    }

    /// How many clients wait until a set time.
    pub fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// How many keys are waited for.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// How many of the keys waited for have a client that wants to run also when the key is gone.
    pub fn keys_wanted_gone(&self) -> usize {
        self.databases.iter().flat_map(HashMap::values).filter(|queue| queue.want_absence > 0).count()
    }

    /// How many clients have a deadline.
    pub fn with_deadline(&self) -> usize {
        self.deadlines.len()
    }

    /// Whether a change of a key could wake anybody.
    #[inline]
    pub fn waits_for_keys(&self) -> bool {
        self.keys > 0
    }

    pub fn block(&mut self, clients: &mut Clients, handle: ClientHandle, mut blocked: Blocked) {
        self.last_arrival.0 += 1;
        blocked.arrival = self.last_arrival;
        if let Some(deadline_us) = blocked.deadline_us {
            self.deadlines.insert((deadline_us, handle));
        }
        self.retries.extend(blocked.retry_us.map(|retry_us| (retry_us, handle)));
        match &blocked.on {
            BlockedOn::Keys { db_index, keys } => {
                for key in keys {
                    self.join_queue(*db_index, key, handle, &blocked);
                }
            }
            BlockedOn::Loading | BlockedOn::Shutdown => {}
            BlockedOn::Acknowledgement { local, .. } => {
                self.for_acknowledgement.insert(blocked.arrival, handle);
                self.for_own_file += usize::from(*local);
            }
            BlockedOn::Pause => {
                self.paused.insert(blocked.arrival, handle);
            }
        }
        self.count += 1;
        let previous = clients[handle].blocked.replace(Box::new(blocked));
        assert!(previous.is_none(), "a client blocks once at a time");
    }

    fn join_queue(&mut self, db_index: usize, key: &[u8], handle: ClientHandle, blocked: &Blocked) {
        if self.databases.len() <= db_index {
            self.databases.resize_with(db_index + 1, HashMap::new);
        }
        let queue = self.databases[db_index].entry(key.into()).or_default();
        self.keys += usize::from(queue.waiters.is_empty());
        let waiter = Waiter { handle, wants_absence: blocked.wants_absence };
        if queue.waiters.insert(blocked.arrival, waiter).is_none() {
            queue.want_absence += usize::from(blocked.wants_absence);
        }
    }

    /// Takes the client out of every queue.
    pub fn unblock(&mut self, clients: &mut Clients, handle: ClientHandle) -> Option<Box<Blocked>> {
        let blocked = clients[handle].blocked.take()?;
        if let Some(deadline_us) = blocked.deadline_us {
            self.deadlines.remove(&(deadline_us, handle));
        }
        if let Some(retry_us) = blocked.retry_us {
            self.retries.remove(&(retry_us, handle));
        }
        match &blocked.on {
            BlockedOn::Keys { db_index, keys } => {
                for key in keys {
                    self.leave_queue(*db_index, key, blocked.arrival);
                }
            }
            BlockedOn::Loading | BlockedOn::Shutdown => {}
            BlockedOn::Acknowledgement { local, .. } => {
                self.for_acknowledgement.remove(&blocked.arrival);
                self.for_own_file -= usize::from(*local);
            }
            BlockedOn::Pause => {
                self.paused.remove(&blocked.arrival);
            }
        }
        self.count -= 1;
        Some(blocked)
    }

    fn leave_queue(&mut self, db_index: usize, key: &[u8], arrival: Arrival) {
        // A command may name a key twice, and is then gone from its queue when the second mention comes.
        let Some(queue) = self.databases[db_index].get_mut(key) else { return };
        if let Some(waiter) = queue.waiters.remove(&arrival) {
            queue.want_absence -= usize::from(waiter.wants_absence);
        }
        if queue.waiters.is_empty() {
            self.databases[db_index].remove(key);
            self.keys -= 1;
        }
    }

    /// A key changed: remembers it for [`Self::next_ready`] if anybody waits for it.
    pub fn key_changed(&mut self, db_index: usize, key: &[u8]) {
        let Some(queue) = self.databases.get_mut(db_index).and_then(|database| database.get_mut(key)) else {
            return;
        };
        if !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back((db_index, key.into()));
        }
    }

    /// Any key of the database may have changed (SWAPDB).
    pub fn database_changed(&mut self, db_index: usize) {
        let Some(database) = self.databases.get_mut(db_index) else { return };
        for (key, queue) in database.iter_mut().filter(|(_, queue)| !queue.is_ready) {
            queue.is_ready = true;
            self.ready.push_back((db_index, key.clone()));
        }
    }

    /// The next changed key; [`Self::next_waiter`] tells who waits for it.
    pub fn next_ready(&mut self) -> Option<ReadyKey> {
        let (db_index, key) = self.ready.pop_front()?;
        if let Some(queue) = self.databases[db_index].get_mut(&key) {
            queue.is_ready = false;
        }
        Some(ReadyKey { db_index, key, until: self.last_arrival, served: None })
    }

    /// First come, first served: whoever waits for the key and has not been returned yet, unless he came after the
    /// key had changed. With `absent`, only those who care for a key that is gone.
    pub fn next_waiter(&self, ready: &mut ReadyKey, absent: bool) -> Option<ClientHandle> {
        let queue = self.databases[ready.db_index].get(&ready.key)?;
        if absent && queue.want_absence == 0 {
            return None;
        }
        let after = ready.served.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut rest = queue.waiters.range((after, std::ops::Bound::Included(ready.until)));
        let (&arrival, waiter) = rest.find(|(_, waiter)| waiter.wants_absence || !absent)?;
        ready.served = Some(arrival);
        Some(waiter.handle)
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The clients whose commands a pause holds back, in order of arrival.
    pub fn paused(&self) -> Vec<ClientHandle> {
        self.paused.values().copied().collect()
    }

    pub fn next_deadline_us(&self) -> Option<u64> {
        self.deadlines.first().map(|&(deadline_us, _)| deadline_us)
    }

    /// Somebody whose time is up at `now_us`.
    pub fn expired(&self, now_us: u64) -> Option<ClientHandle> {
        self.deadlines.first().filter(|&&(deadline_us, _)| deadline_us <= now_us).map(|&(_, handle)| handle)
    }

    /// When the first command is to run again although nothing has changed.
    pub fn next_retry_us(&self) -> Option<u64> {
        self.retries.first().map(|&(retry_us, _)| retry_us)
    }

    /// Somebody whose command is to run again at `now_us`; not asked again before [`Self::put_retry_off`].
    pub fn take_retry(&mut self, now_us: u64) -> Option<ClientHandle> {
        let due = self.retries.pop_first();
        let (retry_us, handle) = due?;
        if retry_us > now_us {
            self.retries.insert((retry_us, handle));
            return None;
        }
        Some(handle)
    }

    /// The client's command is to run again at another time, or only when something changes.
    pub fn put_retry_off(&mut self, blocked: &mut Blocked, handle: ClientHandle, retry_us: Option<u64>) {
        if let Some(before_us) = std::mem::replace(&mut blocked.retry_us, retry_us) {
            self.retries.remove(&(before_us, handle));
        }
        self.retries.extend(retry_us.map(|retry_us| (retry_us, handle)));
    }
}
