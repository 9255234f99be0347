//! The table of connected clients, with reused slots.

use super::client::{Client, OUTPUT_CHUNK_BYTES};
use super::members::Members;
use super::name_table::NameTable;
use crate::acl::UserHandle;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Index, IndexMut};
use wire::convert::{low_u32, short_len};
use wire::reply::Output;

/// A client's number, as clients see it: counted from 1, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// The id of all clients without a connection.
const UNLISTED: ClientId = ClientId(0);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A client's slot in the table of clients. Slots are reused: the generation distinguishes their clients, so that a
/// stale handle resolves to none. Every table that keeps handles is cleaned when a client disconnects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientHandle {
    index: u32,
    /// Number of earlier clients in this slot, modulo [`GENERATIONS`].
    generation: u32,
}

/// One bit of a handle's 64 is left for a tag.
const GENERATIONS: u32 = 1 << 31;

impl ClientHandle {
    /// Returns the slot, for tables indexed by client.
    #[inline]
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// Returns the handle as a number below 2^63.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Restores a handle from [`Self::to_bits`].
    #[inline]
    pub fn from_bits(bits: u64) -> Self {
        ClientHandle { index: low_u32(bits), generation: (bits >> 32) as u32 % GENERATIONS }
    }

    /// Returns the handle of the slot's next client.
    fn successor(self) -> Self {
        ClientHandle { generation: (self.generation + 1) % GENERATIONS, ..self }
    }
}

/// Empty output buffers kept for reuse: few clients have output at any one time, so that these few stay in the cache,
/// and an idle client holds none.
const SPARE_OUTPUTS_MAX: usize = 64;
/// A larger buffer is freed.
const SPARE_OUTPUT_BYTES_MAX: usize = 2 * OUTPUT_CHUNK_BYTES;

const NOBODY: &str = "tables hold handles of connected clients only";

/// All connected clients, by slot and by id.
#[derive(Default)]
pub struct Clients {
    places: Vec<Option<Box<Client>>>,
    /// Handles for the free slots.
    free: Vec<ClientHandle>,
    by_id: BTreeMap<ClientId, ClientHandle>,
    /// Clients of each user that is [listed](is_listed).
    by_user: NameTable<UserHandle, Members<ClientHandle>>,
    last_id: u64,
    /// Memory of all clients, as last counted for each.
    memory_bytes: usize,
    /// Memory of the unauthenticated clients.
    unauthenticated_bytes: usize,
    histories_forgotten: u64,
    spare_outputs: Vec<Vec<u8>>,
    /// Clients with output from outside their own command since the last flush; some may have disconnected.
    pub with_output: Vec<ClientHandle>,
    /// Those of them whose output may exceed a limit.
    pub with_much_output: Vec<ClientHandle>,
    /// Output from other clients is counted with the next command, not only once a second.
    counts_receivers: bool,
    /// Clients with output from others since the last count; some may have disconnected.
    uncounted_receivers: Vec<ClientHandle>,
}

impl Clients {
    /// Reserves a slot and stores the client that `make` returns.
    pub fn add(&mut self, make: impl FnOnce(ClientId, ClientHandle) -> Client) -> ClientHandle {
        self.last_id += 1;
        let id = ClientId(self.last_id);
        let handle = self.free_handle();
        self.by_id.insert(id, handle);
        self.places[handle.index()] = Some(Box::new(make(id, handle)));
        handle
    }

    /// As [`Self::add`], for replayed commands: the client has no connection and appears in no list or selection of
    /// clients.
    pub fn add_unlisted(&mut self, make: impl FnOnce(ClientId, ClientHandle) -> Client) -> ClientHandle {
        let handle = self.free_handle();
        self.places[handle.index()] = Some(Box::new(make(UNLISTED, handle)));
        handle
    }

    fn free_handle(&mut self) -> ClientHandle {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            ClientHandle { index: short_len(self.places.len() - 1), generation: 0 }
        })
    }

    /// Removes a client, whose slot becomes free.
    pub fn remove(&mut self, handle: ClientHandle) -> Box<Client> {
        let place = &mut self.places[handle.index()];
        let client = place.take_if(|client| client.handle == handle).expect("a client is removed once");
        self.by_id.remove(&client.id);
        self.unlist(client.user, handle);
        self.memory_bytes -= client.counted_bytes;
        self.unauthenticated_bytes -= client.unauthenticated_bytes;
        self.free.push(handle.successor());
        client
    }

    /// Makes it a client of this user.
    pub fn set_user(&mut self, handle: ClientHandle, user: UserHandle) {
        let before = std::mem::replace(&mut self[handle].user, user);
        self.unlist(before, handle);
        if is_listed(user) {
            self.by_user.get_or_default(user).insert(handle, ());
        }
    }

    fn unlist(&mut self, user: UserHandle, handle: ClientHandle) {
        if let Some(clients) = self.by_user.get_mut(&user).filter(|_| is_listed(user)) {
            clients.remove(handle);
            if clients.is_empty() {
                self.by_user.remove(&user);
            }
        }
    }

    /// Returns the clients of this user.
    pub fn of_user(&self, user: UserHandle) -> Vec<ClientHandle> {
        if is_listed(user) {
            let listed = self.by_user.get(&user).into_iter().flat_map(|clients| clients.iter());
            return listed.map(|(handle, ())| handle).collect();
        }
        structures::work::visited(self.places.len());
        self.iter().filter(|client| client.user == user).map(|client| client.handle).collect()
    }

    /// Returns the memory of all clients, as last counted for each by [`Self::count_memory`].
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Updates the sum for one client.
    pub fn count_memory(&mut self, handle: ClientHandle) {
        self.count_memory_with(handle, 0);
    }

    /// As [`Self::count_memory`], including memory lent to the client for its current command.
    pub fn count_memory_with(&mut self, handle: ClientHandle, lent_bytes: usize) {
        let Some(client) = find(&mut self.places, handle) else { return };
        // Replicas' memory has separate limits.
        let counts = !client.close_asap && !client.is_replica;
        let bytes = if counts { client.memory_bytes() + lent_bytes } else { 0 };
        self.memory_bytes = self.memory_bytes - client.counted_bytes + bytes;
        client.counted_bytes = bytes;
    }

    /// Returns the memory of unauthenticated clients, as last counted for each by [`Self::count_unauthenticated`].
    pub fn unauthenticated_bytes(&self) -> usize {
        self.unauthenticated_bytes
    }

    /// Updates that sum for one client, which `counts` in it or not.
    pub fn count_unauthenticated(&mut self, handle: ClientHandle, counts: bool) {
        let Some(client) = find(&mut self.places, handle) else { return };
        let bytes = if counts && !client.close_asap { client.memory_bytes() } else { 0 };
        self.unauthenticated_bytes = self.unauthenticated_bytes - client.unauthenticated_bytes + bytes;
        client.unauthenticated_bytes = bytes;
    }

    /// As [`Self::count_memory`], for all clients.
    pub fn count_memory_of_all(&mut self) {
        for index in 0..self.places.len() {
            if let Some(handle) = self.handle_at(index) {
                self.count_memory(handle);
            }
        }
    }

    /// Sets whether [`Self::count_memory_of_receivers`] will be called regularly.
    pub fn count_receivers(&mut self, counts: bool) {
        self.counts_receivers = counts;
        if !counts {
            self.count_memory_of_receivers();
            self.uncounted_receivers = Vec::new();
        }
    }

    /// Updates the sum for clients with output from others since the last call.
    pub fn count_memory_of_receivers(&mut self) {
        let mut receivers = std::mem::take(&mut self.uncounted_receivers);
        structures::work::visited(receivers.len());
        for handle in receivers.drain(..) {
            if let Some(client) = find(&mut self.places, handle) {
                client.is_uncounted_receiver = false;
                self.count_memory(handle);
            }
        }
        self.uncounted_receivers = receivers;
    }

    /// Lends an output buffer to a client without one.
    #[inline]
    pub fn lend_output(&mut self, reply: &mut wire::reply::ReplyBuffer) {
        // A reply without a buffer may have pieces.
        if reply.capacity() == 0
            && reply.is_empty()
            && let Some(spare) = self.spare_outputs.pop()
        {
            *reply = wire::reply::ReplyBuffer::with_bytes(spare, reply.protocol);
        }
    }

    /// Reclaims the client's buffer after all its output was sent.
    pub fn output_written(&mut self, handle: ClientHandle) {
        let client = &mut self[handle];
        client.output_over_soft_limit_since_us = None;
        let output = client.output.take();
        self.keep_output(output);
    }

    /// Takes a client's unsent output, for sending in another thread.
    pub fn take_output(&mut self, handle: ClientHandle) -> Output {
        let client = &mut self[handle];
        client.output_pending = false;
        let mut output = client.output.take();
        // Until the I/O thread has sent it, its length is counted.
        output.shrink_if_sparse();
        client.connection.output_bytes_total += output.len() as u64;
        output
    }

    /// Keeps a buffer for reuse.
    pub fn keep_output(&mut self, output: Output) {
        if (1..=SPARE_OUTPUT_BYTES_MAX).contains(&output.capacity())
            && self.spare_outputs.len() < SPARE_OUTPUTS_MAX
        {
            self.spare_outputs.push(output.into_spare());
        }
    }

    /// Frees the buffers kept for reuse.
    pub fn free_spare_outputs(&mut self) {
        self.spare_outputs.clear();
    }

    /// Returns the client, unless it has disconnected.
    pub fn get(&self, handle: ClientHandle) -> Option<&Client> {
        self.places.get(handle.index())?.as_deref().filter(|client| client.handle == handle)
    }

    /// Returns the client in this slot, for iteration over all.
    pub fn handle_at(&self, index: usize) -> Option<ClientHandle> {
        self.places.get(index)?.as_deref().map(|client| client.handle)
    }

    /// Returns the handle of the client with this id.
    pub fn by_id(&self, id: ClientId) -> Option<ClientHandle> {
        self.by_id.get(&id).copied()
    }

    /// Returns the number of clients.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether there are no clients.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Iterates over the clients.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.places.iter().filter_map(|place| place.as_deref()).filter(|client| client.id != UNLISTED)
    }

    /// Iterates over clients by age, without those being closed.
    pub fn by_age(&self) -> impl Iterator<Item = &Client> {
        self.by_id.values().map(|&handle| &self[handle]).filter(|client| !client.close_asap)
    }

    /// As [`Self::iter`], mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.places.iter_mut().filter_map(|place| place.as_deref_mut())
    }

    /// Clears the clients' positions in the append-only file: a new file begins with all their changes.
    pub fn forget_log(&mut self) {
        self.histories_forgotten += 1;
        self.iter_mut().for_each(|client| client.log_end = 0);
    }

    /// Returns how often positions were cleared by [`Self::forget_log`] or [`Self::forget_stream`].
    pub fn histories_forgotten(&self) -> u64 {
        self.histories_forgotten
    }

    /// Clears the clients' stream positions: their changes are part of another history.
    pub fn forget_stream(&mut self) {
        self.histories_forgotten += 1;
        self.iter_mut().for_each(|client| client.stream_end = 0);
    }

    /// Appends output that is not a reply to the client's current command: a message, an invalidation, a late reply.
    /// `write` gets the buffer in the client's protocol. No output follows the last reply to a client that is about to be
    /// closed.
    pub fn push(&mut self, handle: ClientHandle, write: impl FnOnce(&mut wire::reply::ReplyBuffer)) {
        let Some(client) = find(&mut self.places, handle) else { return };
        if client.close_asap {
            return;
        }
        let is_done = client.close_after_reply;
        if client.output_borrowed {
            if is_done {
                return;
            }
            let mut buffer = wire::reply::ReplyBuffer::new(client.output.protocol);
            write(&mut buffer);
            client.deferred_output.extend_from_slice(buffer.read_back());
            if client.deferred_output.len() > OUTPUT_CHUNK_BYTES
                && self.with_much_output.last() != Some(&handle)
            {
                self.with_much_output.push(handle);
            }
            return;
        }
        let mut output = std::mem::take(&mut client.output);
        self.lend_output(&mut output);
        if !is_done {
            write(&mut output);
        }
        if output.len() > OUTPUT_CHUNK_BYTES {
            self.with_much_output.push(handle);
        }
        let client = &mut self[handle];
        client.output = output;
        let is_first = !std::mem::replace(&mut client.output_pending, true);
        let is_uncounted =
            self.counts_receivers && !std::mem::replace(&mut self[handle].is_uncounted_receiver, true);
        if is_first {
            self.with_output.push(handle);
        }
        if is_uncounted {
            self.uncounted_receivers.push(handle);
        }
    }
}

/// Whether there is a list of the user's clients. Most clients are those of `default`, which cannot be deleted: a list of
/// them would cost each connection, and save little.
fn is_listed(user: UserHandle) -> bool {
    !matches!(user, UserHandle::DEFAULT | UserHandle::SUPERUSER)
}

fn find(places: &mut [Option<Box<Client>>], handle: ClientHandle) -> Option<&mut Client> {
    places.get_mut(handle.index())?.as_deref_mut().filter(|client| client.handle == handle)
}

/// For handles of clients that exist: the generation is only checked in debug builds, since every command looks its client
/// up about twenty times.
impl Index<ClientHandle> for Clients {
    type Output = Client;

    #[inline]
    fn index(&self, handle: ClientHandle) -> &Client {
        let client = self.places[handle.index()].as_deref().expect(NOBODY);
        debug_assert_eq!(client.handle, handle, "{NOBODY}");
        client
    }
}

impl IndexMut<ClientHandle> for Clients {
    #[inline]
    fn index_mut(&mut self, handle: ClientHandle) -> &mut Client {
        let client = self.places[handle.index()].as_deref_mut().expect(NOBODY);
        debug_assert_eq!(client.handle, handle, "{NOBODY}");
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Reading;
    use crate::session::client::ConnectionFigures;
    use wire::reply::{Protocol, ReplyBuffer};

    fn connect(clients: &mut Clients) -> ClientHandle {
        let now = Reading::default();
        clients.add(|id, handle| Client::new(id, handle, ConnectionFigures::default(), now, true))
    }

    #[test]
    fn a_handle_that_has_outlived_its_client_finds_nobody() {
        let mut clients = Clients::default();
        let first = connect(&mut clients);
        clients.remove(first);
        let second = connect(&mut clients);
        assert_eq!(first.index(), second.index(), "the slot is reused");
        assert!(clients.get(first).is_none());
        assert_eq!(clients.get(second).map(|client| client.id), Some(ClientId(2)));
        clients.push(first, |reply| reply.ok());
        assert!(clients[second].output.is_empty(), "output for the first must not reach the second");
        assert_eq!(clients.handle_at(first.index()), Some(second));
    }

    #[test]
    fn pieces_without_a_buffer_are_not_replaced_by_a_spare_one() {
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        reply.take_references();
        reply.bulk(&[b'a'; 70_000]);
        let len = reply.len();
        reply.bulk(&[b'b'; 70_000]);
        reply.truncate(len);
        let mut output = Output::from(b"+OK\r\n".to_vec());
        output.append(reply.take());
        assert!(output.capacity() == 0 && output.len() == len + 5, "all of it is set aside");
        let mut reply = ReplyBuffer::with_output(output, Protocol::Resp2);
        let mut clients = Clients::default();
        clients.keep_output(Output::from(Vec::with_capacity(100)));
        clients.lend_output(&mut reply);
        assert_eq!(reply.len(), len + 5);
        clients.lend_output(&mut ReplyBuffer::new(Protocol::Resp2));
        assert!(clients.spare_outputs.is_empty(), "one without contents gets it");
    }

    #[test]
    fn generations_begin_again_before_they_fill_their_bits() {
        let last = ClientHandle { index: u32::MAX, generation: GENERATIONS - 1 };
        assert_eq!(ClientHandle::from_bits(last.to_bits()), last);
        assert!(last.to_bits() < 1 << 63);
        assert_eq!(last.successor(), ClientHandle { index: u32::MAX, generation: 0 });
    }
}
