//! Clients that wait: for keys, for acknowledgements, or for nothing but time.

use super::clients::{ClientSlot, Clients};
use crate::command::args::OwnedArgs;
use crate::command::registry::CommandId;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// What a blocked command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockedOn {
    /// A change to any of these keys of the client's database: the command then runs again.
    Keys { db_index: usize, keys: Vec<Box<[u8]>> },
    /// Acknowledgements that nobody may ever send (WAIT, WAITAOF): only the timeout ends it.
    Acknowledgement,
    /// The end of CLIENT PAUSE: the command then runs.
    Pause,
}

/// What the client is told when the time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    Null,
    NullArray,
    Integer(i64),
    /// WAITAOF: `[local, replicas]`.
    Integers(i64, i64),
}

/// A handler's wish that its client wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    pub on: BlockedOn,
    /// How long at most; `None` for ever.
    pub timeout_us: Option<u64>,
    pub timeout_reply: TimeoutReply,
}

/// A client's waiting.
#[derive(Debug)]
pub struct Blocked {
    pub on: BlockedOn,
    pub timeout_reply: TimeoutReply,
    /// On the monotonic clock.
    pub deadline_us: Option<u64>,
    pub since_us: u64,
    pub command: CommandId,
    pub args: OwnedArgs,
}

/// Who waits for which key, in order of arrival, and who waits until when.
#[derive(Default)]
pub struct BlockedTable {
    by_key: HashMap<(usize, Box<[u8]>), VecDeque<ClientSlot>>,
    deadlines: BTreeSet<(u64, ClientSlot)>,
    paused: VecDeque<ClientSlot>,
    count: usize,
    /// Keys that changed and have waiters, in order of change.
    ready: VecDeque<(usize, Box<[u8]>)>,
}

impl BlockedTable {
    /// How many clients wait (paused ones left out).
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many clients wait until a set time.
    pub fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// How many keys are waited for.
    pub fn keys(&self) -> usize {
        self.by_key.len()
    }

    /// Whether a change of a key could wake anybody.
    #[inline]
    pub fn waits_for_keys(&self) -> bool {
        !self.by_key.is_empty()
    }

    pub fn block(&mut self, clients: &mut Clients, slot: ClientSlot, blocked: Blocked) {
        if let Some(deadline_us) = blocked.deadline_us {
            self.deadlines.insert((deadline_us, slot));
        }
        match &blocked.on {
            BlockedOn::Keys { db_index, keys } => {
                for key in keys {
                    let queue = self.by_key.entry((*db_index, key.clone())).or_default();
                    if !queue.contains(&slot) {
                        queue.push_back(slot);
                    }
                }
                self.count += 1;
            }
            BlockedOn::Acknowledgement => self.count += 1,
            BlockedOn::Pause => self.paused.push_back(slot),
        }
        let previous = clients[slot].blocked.replace(Box::new(blocked));
        assert!(previous.is_none(), "a client blocks once at a time");
    }

    /// Takes the client out of every queue.
    pub fn unblock(&mut self, clients: &mut Clients, slot: ClientSlot) -> Option<Box<Blocked>> {
        let blocked = clients[slot].blocked.take()?;
        if let Some(deadline_us) = blocked.deadline_us {
            self.deadlines.remove(&(deadline_us, slot));
        }
        match &blocked.on {
            BlockedOn::Keys { db_index, keys } => {
                for key in keys {
                    self.leave_queue(&(*db_index, key.clone()), slot);
                }
                self.count -= 1;
            }
            BlockedOn::Acknowledgement => self.count -= 1,
            BlockedOn::Pause => self.paused.retain(|&other| other != slot),
        }
        Some(blocked)
    }

    fn leave_queue(&mut self, key: &(usize, Box<[u8]>), slot: ClientSlot) {
        if let Some(queue) = self.by_key.get_mut(key) {
            queue.retain(|&other| other != slot);
            if queue.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    /// A key changed: remembers it for [`Self::next_ready`] if anybody waits for it.
    pub fn key_changed(&mut self, db_index: usize, key: &[u8]) {
        let key = (db_index, Box::from(key));
        if self.by_key.contains_key(&key) && !self.ready.contains(&key) {
            self.ready.push_back(key);
        }
    }

    /// Any key of the database may have changed (SWAPDB).
    pub fn database_changed(&mut self, db_index: usize) {
        let keys: Vec<_> = self.by_key.keys().filter(|(index, _)| *index == db_index).cloned().collect();
        for key in keys {
            self.key_changed(key.0, &key.1);
        }
    }

    /// The next changed key and those who wait for it, first come first.
    pub fn next_ready(&mut self) -> Option<Vec<ClientSlot>> {
        let key = self.ready.pop_front()?;
        Some(self.by_key.get(&key).map(|queue| queue.iter().copied().collect()).unwrap_or_default())
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The clients whose commands a pause holds back, in order of arrival.
    pub fn paused(&self) -> Vec<ClientSlot> {
        self.paused.iter().copied().collect()
    }

    pub fn next_deadline_us(&self) -> Option<u64> {
        self.deadlines.first().map(|&(deadline_us, _)| deadline_us)
    }

    /// Somebody whose time is up at `now_us`.
    pub fn expired(&self, now_us: u64) -> Option<ClientSlot> {
        self.deadlines.first().filter(|&&(deadline_us, _)| deadline_us <= now_us).map(|&(_, slot)| slot)
    }
}
