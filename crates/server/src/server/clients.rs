//! Operations of a command on other clients, and on its own client's connections with keys, channels and other clients.
//! Handlers reach no other client but through these.

use super::Server;
use crate::acl::file::NamedUsers;
use crate::acl::{Changed, Replaced, UserHandle, permits_channel};
use crate::error::ClientError;
use crate::session::pubsub::Kind;
use crate::session::tracking::Tracking;
use crate::session::{BlockedOn, Client, ClientHandle, ClientId};
use structures::key_slot::key_slot;

impl Server {
    /// Returns whether the client exists and `own` may redirect invalidations to it: to another user's only with all
    /// permissions.
    pub fn may_redirect_to(&self, own: ClientHandle, id: ClientId) -> bool {
        let user = self.clients[own].user();
        let target = self.clients.by_id(id).map(|handle| self.clients[handle].user());
        target.is_some_and(|target| target == user || self.users.permits_all(user))
    }

    /// Returns the user that the redirection's client must keep; `None`: `own` may redirect to any.
    pub fn redirect_user(&self, own: ClientHandle) -> Option<UserHandle> {
        Some(self.clients[own].user()).filter(|&user| !self.users.permits_all(user))
    }

    /// Closes clients; `own` gets the reply to its command first.
    pub fn kill(&mut self, ids: &[ClientId], own: ClientHandle) {
        for handle in ids.iter().filter_map(|&id| self.clients.by_id(id)).collect::<Vec<_>>() {
            self.close(handle, Some(own));
        }
    }

    /// Closes the clients of a deleted user; `own` gets the reply to its command first.
    pub fn close_clients_of(&mut self, user: UserHandle, own: Option<ClientHandle>) {
        for handle in self.clients.of_user(user) {
            // It keeps the deleted user: the rest of its transaction or script is refused.
            self.clients[handle].authenticated = false;
            self.close(handle, own);
        }
    }

    /// Replaces all users, and closes clients of deleted users or with forbidden subscriptions.
    pub fn replace_users(&mut self, users: NamedUsers, own: Option<ClientHandle>) {
        let Replaced { removed, changed } = self.users.replace(users);
        removed.into_iter().for_each(|user| self.close_clients_of(user, own));
        changed.iter().for_each(|changed| self.close_listeners(changed, own));
    }

    /// Closes clients subscribed to channels that their user may no longer access.
    pub fn close_listeners(&mut self, changed: &Changed, own: Option<ClientHandle>) {
        let Some(left) = &changed.channels_left else { return };
        let may_stay = |client: &Client| {
            let listens = &client.subscriptions;
            let mut channels = listens.channels.iter().chain(&listens.shard_channels);
            channels.all(|channel| permits_channel(left, channel, false))
                && listens.patterns.iter().all(|pattern| permits_channel(left, pattern, true))
        };
        for handle in self.clients.of_user(changed.user) {
            if !may_stay(&self.clients[handle]) {
                self.close(handle, own);
            }
        }
    }

    fn close(&mut self, handle: ClientHandle, own: Option<ClientHandle>) {
        match Some(handle) == own {
            true => self.clients[handle].close_after_reply = true,
            false => self.close_asap(handle),
        }
    }

    /// Unblocks a client, as at its timeout or with an error; returns whether it was blocked in a way that can time
    /// out.
    pub fn unblock(&mut self, id: ClientId, with_error: bool) -> bool {
        let Some(handle) = self.clients.by_id(id) else { return false };
        let client = &self.clients[handle];
        let Some(blocked) = &client.blocked else { return false };
        // Waits for a pause, a load, the disk or the process's end have no timeout.
        match blocked.on {
            BlockedOn::Keys { .. } | BlockedOn::Acknowledgement { .. } | BlockedOn::SlotReplicas(_) => {}
            BlockedOn::Pause | BlockedOn::Save { .. } | BlockedOn::Loading | BlockedOn::Shutdown => {
                return false;
            }
        }
        let (timeout_reply, acknowledged) = (blocked.timeout_reply, self.acknowledged_by(handle));
        self.note_given_up(handle, with_error);
        if with_error {
            let line = ClientError::UnblockedByClient.to_string();
            self.observed.statistics.count_error(&line);
            self.wake(handle, |reply| reply.error(&line));
        } else {
            self.wake(handle, |reply| timeout_reply.write(acknowledged, reply));
        }
        true
    }

    /// Publishes a message to the channel; returns the number of receivers.
    pub fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        self.pubsub.publish(&mut self.clients, channel, message)
    }

    /// As [`Server::publish`], for a shard channel.
    pub fn publish_to_shard(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let delivered = self.pubsub.publish_to_shard(&mut self.clients, channel, message);
        if self.counts_slots
            && let Some(node) = &mut self.cluster
        {
            node.figures_mut(key_slot(channel)).bytes_out += delivered.bytes as u64;
        }
        delivered.listeners
    }

    /// See [`PubSub::leave_shard_channels`](crate::session::pubsub::PubSub::leave_shard_channels).
    pub fn leave_shard_channels(&mut self, leaves: impl Fn(&[u8]) -> bool) {
        self.pubsub.leave_shard_channels(&mut self.clients, leaves);
    }

    /// Subscribes `own` to a name.
    pub fn subscribe(&mut self, own: ClientHandle, kind: Kind, name: &[u8]) {
        self.pubsub.subscribe(&mut self.clients, own, kind, name);
    }

    /// Unsubscribes `own` from a name.
    pub fn unsubscribe(&mut self, own: ClientHandle, kind: Kind, name: &[u8]) {
        self.pubsub.unsubscribe(&mut self.clients, own, kind, name);
    }

    /// Removes all subscriptions of `own`.
    pub fn unsubscribe_all(&mut self, own: ClientHandle) {
        self.pubsub.unsubscribe_all(&mut self.clients, own);
    }

    /// Watches a key. `is_stale`: it is stored but expired.
    pub fn watch_key(&mut self, own: ClientHandle, db_index: usize, key: &[u8], is_stale: bool) {
        self.watch.watch(&mut self.clients, own, db_index, key, is_stale);
    }

    /// Removes all watches of `own`.
    pub fn unwatch_all(&mut self, own: ClientHandle) {
        self.watch.unwatch_all(&mut self.clients, own);
    }

    /// Starts or changes tracking for `own`.
    pub fn enable_tracking(&mut self, own: ClientHandle, tracking: Tracking) {
        self.tracking.enable(&mut self.clients, own, tracking);
    }

    /// Ends tracking for `own`.
    pub fn disable_tracking(&mut self, own: ClientHandle) {
        self.tracking.disable(&mut self.clients, own);
    }
}
