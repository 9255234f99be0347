//! All connected clients, in slots that are used again.

use super::client::Client;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// Where a client sits. Valid until the client is removed; every table that keeps slots is cleaned then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientSlot(pub u32);

#[derive(Default)]
pub struct Clients {
    slots: Vec<Option<Box<Client>>>,
    free: Vec<u32>,
    by_id: HashMap<u64, ClientSlot>,
    last_id: u64,
    /// Clients that have received output outside their own command since the last flush.
    pub with_output: Vec<ClientSlot>,
}

impl Clients {
    /// Makes room for a client and lets `make` fill it; ids start at 1 and are never used again.
    pub fn add(&mut self, make: impl FnOnce(u64, ClientSlot) -> Client) -> ClientSlot {
        self.last_id += 1;
        let slot = ClientSlot(self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        }));
        self.by_id.insert(self.last_id, slot);
        self.slots[slot.0 as usize] = Some(Box::new(make(self.last_id, slot)));
        slot
    }

    pub fn remove(&mut self, slot: ClientSlot) -> Box<Client> {
        let client = self.slots[slot.0 as usize].take().expect("a client is removed once");
        self.by_id.remove(&client.id);
        self.with_output.retain(|&s| s != slot);
        self.free.push(slot.0);
        client
    }

    pub fn get(&self, slot: ClientSlot) -> Option<&Client> {
        self.slots.get(slot.0 as usize)?.as_deref()
    }

    pub fn by_id(&self, id: u64) -> Option<ClientSlot> {
        self.by_id.get(&id).copied()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.slots.iter().filter_map(|slot| slot.as_deref())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.slots.iter_mut().filter_map(|slot| slot.as_deref_mut())
    }

    /// Appends to a client's output something that is not the reply to its own command: a message, an
    /// invalidation, a late reply. `write` gets the buffer in the client's protocol.
    pub fn push(&mut self, slot: ClientSlot, write: impl FnOnce(&mut wire::reply::ReplyBuffer)) {
        let Some(client) = self.slots[slot.0 as usize].as_deref_mut() else { return };
        if client.close_asap {
            return;
        }
        if client.output_borrowed {
            let mut buffer = wire::reply::ReplyBuffer::new(client.output.protocol);
            write(&mut buffer);
            client.deferred_output.extend_from_slice(&buffer);
            return;
        }
        write(&mut client.output);
        if !client.output_pending {
            client.output_pending = true;
            self.with_output.push(slot);
        }
    }
}

impl Index<ClientSlot> for Clients {
    type Output = Client;

    #[inline]
    fn index(&self, slot: ClientSlot) -> &Client {
        self.slots[slot.0 as usize].as_deref().expect("tables hold slots of connected clients only")
    }
}

impl IndexMut<ClientSlot> for Clients {
    #[inline]
    fn index_mut(&mut self, slot: ClientSlot) -> &mut Client {
        self.slots[slot.0 as usize].as_deref_mut().expect("tables hold slots of connected clients only")
    }
}
