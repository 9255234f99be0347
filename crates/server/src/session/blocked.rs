//! Blocked clients: the keys, acknowledgements or deadlines that they wait for, in order of arrival.

use super::claimed::{ClaimTable, Claimed};
use super::clients::{ClientHandle, Clients};
use super::name_table::NameTable;
use crate::command::Args;
use crate::command::args::OwnedArgs;
use crate::command::registry::CommandId;
use crate::db::Kind;
use crate::db::stream::StreamId;
use crate::server::{Acknowledgements, TOO_FEW_REPLICAS};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Bound, Range};
use std::sync::Arc;
use structures::size_class::usable_size;
use structures::work;

/// The condition a blocked command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockedOn {
    /// A change to one of these keys that leaves a value of this type: the command then runs again.
    Keys {
        /// Database of the keys.
        db_index: usize,
        /// Positions of the keys among the command's arguments.
        keys: Range<usize>,
        /// Type of value that serves the command.
        kind: Kind,
    },
    /// Acknowledgements of the client's last change (WAIT, WAITAOF).
    Acknowledgement {
        /// Whether this server's append-only file must have it on disk.
        local: bool,
        /// Number of replicas that must acknowledge it.
        replicas: i64,
        /// Whether those replicas must have it on disk.
        on_disk: bool,
    },
    /// Acknowledgements of the client's last change by this many replicas, which know of a slot what the command says: it
    /// then runs (CLUSTER SETSLOT).
    SlotReplicas(usize),
    /// The end of CLIENT PAUSE: the command then runs.
    Pause,
    /// The save of nodes.conf with this number: the command has run, and what it has changed is on disk then.
    Save {
        /// Number of the save.
        number: u64,
        /// The reply.
        reply: SavedReply,
    },
    /// The end of DEBUG LOADAOF.
    Loading,
    /// The end of the process, or SHUTDOWN ABORT.
    Shutdown,
}

/// The reply to a command whose change had to be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedReply {
    /// OK, also if the file could not be written: the server goes on without it (`cluster-config-save-behavior`).
    Ok,
    /// As [`SavedReply::Ok`], with the new epoch of CLUSTER BUMPEPOCH.
    Bumped(u64),
    /// OK, or why the file could not be written: the reply to CLUSTER SAVECONFIG.
    Outcome,
}

impl SavedReply {
    /// Returns the line of the error if the file could not be written for this reason.
    pub fn error(self, failure: &str) -> Option<String> {
        match self {
            SavedReply::Outcome => Some(format!("ERR error saving the cluster node config: {failure}")),
            SavedReply::Ok | SavedReply::Bumped(_) => None,
        }
    }

    /// Writes the reply, unless it is an error.
    pub fn write(self, reply: &mut wire::reply::ReplyBuffer) {
        match self {
            SavedReply::Ok | SavedReply::Outcome => reply.ok(),
            SavedReply::Bumped(epoch) => reply.simple(&format!("BUMPED {epoch}")),
        }
    }
}

/// The reply at the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    /// A null.
    Null,
    /// A null array.
    NullArray,
    /// For WAIT: the number of replicas that acknowledged the client's last change.
    Replicas,
    /// The error for too few replicas.
    TooFewReplicas,
    /// For WAITAOF: whether this server's append-only file has the change on disk (0 or 1), and the number of replicas that do.
    OnDisk,
}

impl TimeoutReply {
    /// Writes the reply. `acknowledged`: the acknowledgements of the client's last change.
    pub fn write(self, acknowledged: Acknowledgements, reply: &mut wire::reply::ReplyBuffer) {
        match self {
            TimeoutReply::Null => reply.null(),
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Replicas => reply.count(acknowledged.replicas),
            TimeoutReply::TooFewReplicas => reply.error(TOO_FEW_REPLICAS),
            TimeoutReply::OnDisk => {
                reply.array(2);
                reply.integer(acknowledged.local.into());
                reply.count(acknowledged.replicas_on_disk);
            }
        }
    }
}

/// A handler's request to block its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Condition that unblocks the client.
    pub on: BlockedOn,
    /// Timeout; `None`: unlimited.
    pub timeout_us: Option<u64>,
    /// Reply at the timeout.
    pub timeout_reply: TimeoutReply,
    /// Claim of XREADGROUP, which also waits for entries pending with other consumers.
    pub claim: Option<Box<ClaimRequest>>,
}

/// A claim that can become due without a change to its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The claim.
    pub claimed: Claimed,
    /// Time until an entry may become claimable; `None`: nothing is pending.
    pub due_after_us: Option<u64>,
}

impl BlockRequest {
    /// Blocks without a timeout.
    pub const fn until(on: BlockedOn) -> Self {
        BlockRequest { on, timeout_us: None, timeout_reply: TimeoutReply::Null, claim: None }
    }
}

/// The blocked state of a client.
#[derive(Debug)]
pub struct Blocked {
    /// Condition that unblocks the client.
    pub on: BlockedOn,
    /// Reply at the timeout.
    pub timeout_reply: TimeoutReply,
    /// Monotonic time of the timeout; `None`: unlimited.
    pub deadline_us: Option<u64>,
    /// Claim of XREADGROUP: the command is retried when an entry may have become claimable.
    pub claimed: Option<Arc<Claimed>>,
    /// Monotonic time at which the client was blocked.
    pub since_us: u64,
    /// The blocked command.
    pub command: CommandId,
    /// Arguments of the command, without the keys that it waits for.
    pub args: OwnedArgs,
    /// The keys that it waits for; their text is shared with the table of queues.
    pub keys: Vec<Arc<[u8]>>,
    /// Memory of the keys and the claim, here and in the tables.
    pub keys_bytes: usize,
    /// Removal of a key also unblocks the client (a consumer of a removed stream).
    pub unblocks_on_removal: bool,
    /// Position in all queues; assigned by [`BlockedTable::block`].
    pub arrival: Arrival,
}

impl Blocked {
    /// Returns the command's arguments; the keys that it waits for are put back among them.
    pub fn all_args(&self) -> Cow<'_, OwnedArgs> {
        match &self.on {
            BlockedOn::Keys { keys, .. } => {
                let names = self.keys.iter().map(|key| &**key);
                Cow::Owned(self.args.with_inserted(keys.start, names))
            }
            BlockedOn::Acknowledgement { .. }
            | BlockedOn::SlotReplicas(_)
            | BlockedOn::Pause
            | BlockedOn::Save { .. }
            | BlockedOn::Loading
            | BlockedOn::Shutdown => Cow::Borrowed(&self.args),
        }
    }

    /// Returns the total length of all arguments in bytes.
    pub fn argument_bytes(&self) -> usize {
        self.args.view().bytes() + self.keys.iter().map(|key| key.len()).sum::<usize>()
    }

    /// Returns the memory of the blocked command, including its part of the tables.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.args.memory_bytes() + self.keys_bytes
    }
}

/// Memory of a reference to a key.
const REFERENCE_BYTES: usize = size_of::<Arc<[u8]>>();

/// Memory of a waited-for key besides its reference and its name: its entry in the table of queues, and a queue.
const QUEUE_BYTES: usize = 340;

/// Memory of a shared name.
fn name_bytes(key: &[u8]) -> usize {
    usable_size(2 * size_of::<usize>() + key.len())
}

/// Order of arrival, as a growing number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(u64);

/// The clients that wait for one key.
#[derive(Debug, Default)]
struct Queue {
    /// One for each kind of wait, none empty: a change does not scan clients that it cannot serve.
    lines: Vec<Line>,
    /// The key is in `BlockedTable::ready`.
    is_ready: bool,
}

/// Clients that wait for a key in the same way.
#[derive(Debug)]
struct Line {
    /// Type of value that serves the clients.
    kind: Kind,
    /// Removal of the key, or a value of another type, also unblocks the clients.
    unblocks_on_removal: bool,
    waiters: BTreeMap<Arrival, ClientHandle>,
    /// The last entry of the stream at which all clients were tried: only a later one serves them.
    tried_at: Option<StreamId>,
}

impl Line {
    /// Returns whether a stream that ends with this entry serves none of the clients. Consumers of a group are tried again,
    /// since their group may have changed.
    fn has_seen(&self, last: Option<StreamId>) -> bool {
        !self.unblocks_on_removal && self.tried_at.is_some() && self.tried_at == last
    }
}

impl Queue {
    fn unblocks_on_removal(&self) -> bool {
        self.lines.iter().any(|line| line.unblocks_on_removal)
    }
}

/// A changed key, and the position in its queue up to which clients have been served.
#[derive(Debug)]
pub struct ReadyKey {
    /// Database of the key.
    pub db_index: usize,
    /// The changed key.
    pub key: Arc<[u8]>,
    /// Last client that arrived before the change.
    until: Arrival,
    /// Last client that was served.
    served: Option<Arrival>,
}

/// Blocked clients by key, in order of arrival, and by deadline.
#[derive(Default)]
pub struct BlockedTable {
    databases: Vec<NameTable<Arc<[u8]>, Queue>>,
    keys: usize,
    deadlines: BTreeSet<(u64, ClientHandle)>,
    claims: ClaimTable,
    paused: BTreeMap<Arrival, ClientHandle>,
    for_acknowledgement: BTreeMap<Arrival, ClientHandle>,
    for_save: BTreeMap<(u64, Arrival), (ClientHandle, SavedReply)>,
    /// Number of clients that wait for this server's append-only file.
    for_own_file: usize,
    count: usize,
    last_arrival: Arrival,
    /// Changed keys with waiting clients, in order of change.
    ready: VecDeque<(usize, Arc<[u8]>)>,
    /// Unblocked clients are recorded for [`Self::take_ended`].
    pub notes_ended: bool,
    ended: Vec<ClientHandle>,
}

impl BlockedTable {
    /// Returns the number of blocked clients, including those that CLIENT PAUSE holds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the clients that wait for replicas or for the append-only file, in order of arrival.
    pub fn for_acknowledgement(&self) -> impl ExactSizeIterator<Item = ClientHandle> + '_ {
        self.for_acknowledgement.values().copied()
    }

    /// Returns a client that waits for this save of nodes.conf or an earlier one, and the reply that it gets.
    pub fn first_for_save(&self, number: u64) -> Option<(ClientHandle, SavedReply)> {
        let (&(awaited, _), &waiting) = self.for_save.first_key_value()?;
        (awaited <= number).then_some(waiting)
    }

    /// Returns whether a client waits for this server's append-only file.
    pub fn wait_for_own_file(&self) -> bool {
        self.for_own_file > 0
    }

    /// Returns the number of blocked clients with a deadline.
    pub fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// Returns the number of keys with waiting clients.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Returns the number of keys whose removal unblocks a client (`total_blocking_keys_on_nokey`).
    pub fn keys_unblocking_on_removal(&self) -> usize {
        let queues = self.databases.iter().flat_map(NameTable::iter);
        queues.filter(|(_, queue)| queue.unblocks_on_removal()).count()
    }

    /// Returns the number of clients with a deadline.
    pub fn with_deadline(&self) -> usize {
        self.deadlines.len()
    }

    /// Returns whether a change of a key could unblock a client.
    #[inline]
    pub fn waits_for_keys(&self) -> bool {
        self.keys > 0
    }

    /// Blocks a client. `args`: the command's arguments.
    pub fn block(
        &mut self,
        clients: &mut Clients,
        handle: ClientHandle,
        mut blocked: Blocked,
        args: Args<'_>,
        claim: Option<Box<ClaimRequest>>,
    ) {
        self.last_arrival.0 += 1;
        blocked.arrival = self.last_arrival;
        if let Some(deadline_us) = blocked.deadline_us {
            self.deadlines.insert((deadline_us, handle));
        }
        if let Some(claim) = claim {
            let claimed = self.claims.join(claim.claimed, blocked.arrival, handle);
            let due_us = claim.due_after_us.map(|us| blocked.since_us.saturating_add(us));
            self.claims.set_due(&claimed, due_us);
            blocked.keys_bytes += claimed.memory_bytes();
            blocked.claimed = Some(claimed);
        }
        match blocked.on.clone() {
            BlockedOn::Keys { db_index, keys, kind } => {
                blocked.args = args.to_owned_without(keys.clone());
                blocked.keys.reserve_exact(keys.len());
                for key in args.first(keys.end).from(keys.start).iter() {
                    self.join_queue(db_index, key, kind, handle, &mut blocked);
                }
            }
            BlockedOn::Loading | BlockedOn::Shutdown => blocked.args = args.to_owned(),
            BlockedOn::Acknowledgement { local, .. } => {
                blocked.args = args.to_owned();
                self.for_acknowledgement.insert(blocked.arrival, handle);
                self.for_own_file += usize::from(local);
            }
            BlockedOn::SlotReplicas(_) => {
                blocked.args = args.to_owned();
                self.for_acknowledgement.insert(blocked.arrival, handle);
            }
            BlockedOn::Save { number, reply } => {
                blocked.args = args.to_owned();
                self.for_save.insert((number, blocked.arrival), (handle, reply));
            }
            BlockedOn::Pause => {
                blocked.args = args.to_owned();
                self.paused.insert(blocked.arrival, handle);
            }
        }
        self.count += 1;
        let previous = clients[handle].blocked.replace(Box::new(blocked));
        assert!(previous.is_none(), "a client blocks once at a time");
    }

    fn join_queue(
        &mut self,
        db_index: usize,
        key: &[u8],
        kind: Kind,
        handle: ClientHandle,
        blocked: &mut Blocked,
    ) {
        if self.databases.len() <= db_index {
            self.databases.resize_with(db_index + 1, NameTable::default);
        }
        let database = &mut self.databases[db_index];
        let key = database.shared(key).map_or_else(|| Arc::from(key), Arc::clone);
        let queue = database.get_or_default(Arc::clone(&key));
        self.keys += usize::from(queue.lines.is_empty());
        let unblocks_on_removal = blocked.unblocks_on_removal;
        let is_same = |line: &Line| line.kind == kind && line.unblocks_on_removal == unblocks_on_removal;
        let at = queue.lines.iter().position(is_same).unwrap_or_else(|| {
            // A queue has nearly always one client.
            queue.lines.reserve_exact(1);
            queue.lines.push(Line { kind, unblocks_on_removal, waiters: BTreeMap::new(), tried_at: None });
            queue.lines.len() - 1
        });
        blocked.keys_bytes += REFERENCE_BYTES;
        if queue.lines[at].waiters.insert(blocked.arrival, handle).is_none() {
            // Each client is charged in full: each may be the last that holds the key.
            blocked.keys_bytes += QUEUE_BYTES + name_bytes(&key);
        }
        queue.lines[at].tried_at = None;
        blocked.keys.push(key);
    }

    /// Removes the client from every queue.
    pub fn unblock(&mut self, clients: &mut Clients, handle: ClientHandle) -> Option<Box<Blocked>> {
        let blocked = clients[handle].blocked.take()?;
        if let Some(deadline_us) = blocked.deadline_us {
            self.deadlines.remove(&(deadline_us, handle));
        }
        if let Some(claimed) = &blocked.claimed {
            self.claims.leave(claimed, blocked.arrival);
        }
        if self.notes_ended {
            self.ended.push(handle);
        }
        match &blocked.on {
            BlockedOn::Keys { db_index, .. } => {
                for key in &blocked.keys {
                    self.leave_queue(*db_index, key, blocked.arrival);
                }
            }
            BlockedOn::Loading | BlockedOn::Shutdown => {}
            BlockedOn::Acknowledgement { local, .. } => {
                self.for_acknowledgement.remove(&blocked.arrival);
                self.for_own_file -= usize::from(*local);
            }
            BlockedOn::SlotReplicas(_) => {
                self.for_acknowledgement.remove(&blocked.arrival);
            }
            BlockedOn::Save { number, .. } => {
                self.for_save.remove(&(*number, blocked.arrival));
            }
            BlockedOn::Pause => {
                self.paused.remove(&blocked.arrival);
            }
        }
        self.count -= 1;
        Some(blocked)
    }

    fn leave_queue(&mut self, db_index: usize, key: &[u8], arrival: Arrival) {
        // A command may name a key twice; the second removal finds nothing.
        let Some(queue) = self.databases[db_index].get_mut(key) else { return };
        if let Some(at) = queue.lines.iter_mut().position(|line| line.waiters.remove(&arrival).is_some())
            && queue.lines[at].waiters.is_empty()
        {
            queue.lines.swap_remove(at);
        }
        if queue.lines.is_empty() {
            self.databases[db_index].remove(key);
            self.keys -= 1;
        }
    }

    /// Records a changed key for [`Self::next_ready`] if a client waits for it.
    pub fn key_changed(&mut self, db_index: usize, key: &[u8]) {
        let Some(database) = self.databases.get_mut(db_index) else { return };
        let Some(queue) = database.get_mut(key) else { return };
        if !std::mem::replace(&mut queue.is_ready, true) {
            let key = database.shared(key).map_or_else(|| Arc::from(key), Arc::clone);
            self.ready.push_back((db_index, key));
        }
    }

    /// Handles a change of a whole database (SWAPDB).
    pub fn database_changed(&mut self, db_index: usize) {
        let Some(database) = self.databases.get_mut(db_index) else { return };
        for (key, queue) in database.iter_mut().filter(|(_, queue)| !queue.is_ready) {
            queue.is_ready = true;
            self.ready.push_back((db_index, key.clone()));
        }
    }

    /// Returns the next changed key; [`Self::next_waiter`] returns its waiting clients.
    pub fn next_ready(&mut self) -> Option<ReadyKey> {
        let (db_index, key) = self.ready.pop_front()?;
        if let Some(queue) = self.databases[db_index].get_mut(&key) {
            queue.is_ready = false;
        }
        Some(ReadyKey { db_index, key, until: self.last_arrival, served: None })
    }

    /// Returns the next client that waits for the key, in order of arrival, unless it arrived after the change. `kind`
    /// is the type that the key holds: it serves only clients that wait for it, or that a removal unblocks.
    /// `last` is the last entry of a stream: once all readers have been tried at it, only a later one serves them.
    pub fn next_waiter(
        &mut self,
        ready: &mut ReadyKey,
        kind: Option<Kind>,
        last: Option<StreamId>,
    ) -> Option<ClientHandle> {
        let queue = self.databases[ready.db_index].get_mut(&ready.key)?;
        let after = ready.served.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (after, Bound::Included(ready.until));
        let is_served =
            |line: &&Line| line.unblocks_on_removal || Some(line.kind) == kind && !line.has_seen(last);
        let first = queue.lines.iter().filter(is_served).filter_map(|line| line.waiters.range(range).next());
        let Some((&arrival, &handle)) = first.min_by_key(|&(&arrival, _)| arrival) else {
            for line in queue.lines.iter_mut() {
                let came_later =
                    line.waiters.last_key_value().is_some_and(|(&arrival, _)| arrival > ready.until);
                line.tried_at = last.filter(|_| !came_later);
            }
            return None;
        };
        work::visited(1);
        ready.served = Some(arrival);
        Some(handle)
    }

    /// Returns whether changed keys have waiting clients.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the clients whose commands a pause holds, in order of arrival.
    pub fn paused(&self) -> Vec<ClientHandle> {
        self.paused.values().copied().collect()
    }

    /// Returns the earliest deadline.
    pub fn next_deadline_us(&self) -> Option<u64> {
        self.deadlines.first().map(|&(deadline_us, _)| deadline_us)
    }

    /// Returns a client whose deadline has passed at `now_us`.
    pub fn expired(&self, now_us: u64) -> Option<ClientHandle> {
        self.deadlines.first().filter(|&&(deadline_us, _)| deadline_us <= now_us).map(|&(_, handle)| handle)
    }

    /// Returns the clients that wait to claim pending entries.
    pub fn claims(&mut self) -> &mut ClaimTable {
        &mut self.claims
    }

    /// Returns the monotonic time at which the first claim is retried without a change to its keys.
    pub fn next_retry_us(&self) -> Option<u64> {
        self.claims.next_due_us()
    }

    /// Returns the clients unblocked since the last call, if recorded.
    pub fn take_ended(&mut self) -> Vec<ClientHandle> {
        std::mem::take(&mut self.ended)
    }
}
