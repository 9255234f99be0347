//! Clients that write: each remembers which host it was last sent to for a slot.

use crate::data::{Change, KEYS_PER_SLOT, Key, slots_with_keys};
use crate::network::Host;
use crate::world::World;

const CLIENTS: usize = 4;
/// Writes that wait at a host for the end of a pause.
const HELD_MAX: usize = 8;

/// What a host answers a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The write waits for the end of a pause.
    Held,
    Moved(Host),
    /// The host is down or hangs, or the cluster does not work.
    Refused,
}

/// Where clients send writes of a slot.
pub struct Clients {
    routes: Vec<Vec<Host>>,
    slots: Vec<u16>,
}

impl Clients {
    pub fn new() -> Clients {
        let slots: Vec<u16> = slots_with_keys().collect();
        Clients { routes: vec![vec![0; slots.len()]; CLIENTS], slots }
    }
}

impl World {
    /// Some clients write.
    pub fn write_some(&mut self) {
        for client in 0..CLIENTS {
            if self.random.below(3) == 0 {
                continue;
            }
            let at = self.random.index(self.clients.slots.len());
            let key = (self.clients.slots[at], self.random.below(KEYS_PER_SLOT) as u8);
            let host = self.clients.routes[client][at];
            match self.write(host, key) {
                Answer::Done | Answer::Held => {}
                Answer::Moved(to) => self.clients.routes[client][at] = to,
                Answer::Refused => {
                    self.clients.routes[client][at] = self.random.index(self.servers.len());
                }
            }
        }
    }

    fn write(&mut self, host: Host, key: Key) -> Answer {
        let (slot, now_ms) = (key.0, self.now_ms);
        let server = &self.servers[host];
        let Some(cluster) = server.cluster.as_ref().filter(|_| server.hangs_until_ms <= now_ms) else {
            return Answer::Refused;
        };
        if !cluster.is_ok() {
            return Answer::Refused;
        }
        if !cluster.owns(slot) {
            let owner = cluster.owner(slot).map(|node| node.id());
            return owner.and_then(|owner| self.host_with(owner)).map_or(Answer::Refused, Answer::Moved);
        }
        if server.paused_until_ms > Some(now_ms) {
            return Answer::Refused;
        }
        if server.paused_slots.contains_key(&slot) {
            if server.held.len() < HELD_MAX {
                self.servers[host].held.push(key);
            }
            return Answer::Held;
        }
        let write = self.note_write(host, slot);
        self.record(host, Change::Append(key, vec![write]));
        Answer::Done
    }

    /// Runs the writes again that a pause of slots has held.
    pub fn run_held(&mut self, host: Host) {
        for key in std::mem::take(&mut self.servers[host].held) {
            self.write(host, key);
        }
    }
}
