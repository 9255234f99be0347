//! Whether this node of a cluster serves the keys of a command, and where it redirects the client otherwise.
//!
//! The order of the decisions is that of the reference: clients depend on which of two errors they get.

use super::Executor;
use super::call::Call;
use super::gate::{flags_with_queue, run_by};
use crate::command::{Args, Command, Control, access, flag};
use crate::db::Db;
use crate::error::{ClientError, on_the_wire};
use crate::server::Server;
use crate::server::cluster_node::Endpoint;
use crate::session::client::Transaction;
use crate::session::{BlockedOn, Client, ClientHandle};
use cluster::Node;
use structures::key_slot::{key_slot, slot_of_hash};
use wire::convert::signed_len;

/// What the keys of a command, or of all commands of a transaction, have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slots {
    /// There are no keys.
    None,
    One(u16),
    Several,
}

/// What decides about redirections.
pub(super) struct Redirections<'a> {
    server: &'a Server,
    db: &'a Db,
}

impl Slots {
    fn with(self, slot: u16) -> Slots {
        match self {
            Slots::None => Slots::One(slot),
            Slots::One(one) if one == slot => self,
            _ => Slots::Several,
        }
    }
}

/// Keys of a slot that is being moved.
#[derive(Default)]
struct Presence<'a> {
    present: usize,
    missing: usize,
    first: Option<&'a [u8]>,
    are_several: bool,
}

impl<'a> Presence<'a> {
    fn note(&mut self, key: &'a [u8], is_present: bool) {
        if is_present {
            self.present += 1
        } else {
            self.missing += 1
        }
        self.are_several |= *self.first.get_or_insert(key) != key;
    }
}

/// Where a command is not served, and why.
#[derive(Clone, Copy, Debug)]
pub(super) enum Redirection<'a> {
    /// Keys of several slots.
    CrossSlot,
    /// No node owns the slot.
    Unserved,
    /// The cluster does not work.
    Down,
    /// The cluster does not work, and serves reads.
    DownForWrites,
    /// The slot is being moved, and its keys are on both nodes.
    TryAgain,
    /// The slot is being moved, and its target, this node of the cluster, may have the keys.
    Ask(u16, &'a Node),
    /// The slot is owned by another server, this node of the cluster.
    Moved(u16, &'a Node),
}

/// Calls `visit` with each position of a key or of a channel that has a slot; `false`: the arguments are invalid.
fn visit_slotted(row: &Command, args: Args<'_>, visit: &mut dyn FnMut(usize)) -> bool {
    let is_no_key = |spec: &&crate::command::KeySpec| spec.access & access::NOT_KEY != 0;
    row.keys.iter().filter(is_no_key).all(|spec| spec.positions(args, &mut |at| visit(at)))
        && row.visit_keys(args, &mut |at, _| visit(at))
}

fn slot_at(args: Args<'_>, at: usize) -> u16 {
    args.known_hash(at).map_or_else(|| key_slot(args.at(at)), slot_of_hash)
}

fn slots_of(row: &Command, args: Args<'_>) -> Slots {
    if row.one_key {
        return if row.first_key < args.len() {
            Slots::One(slot_at(args, row.first_key))
        } else {
            Slots::None
        };
    }
    let mut slots = Slots::None;
    let valid = visit_slotted(row, args, &mut |at| slots = slots.with(slot_at(args, at)));
    if valid { slots } else { Slots::None }
}

/// Returns the slot of the keys of a command, if they have one in common.
pub(super) fn slot_named(row: &Command, args: Args<'_>) -> Option<u16> {
    match slots_of(row, args) {
        Slots::One(slot) => Some(slot),
        Slots::None | Slots::Several => None,
    }
}

/// Returns the slot of a command's keys, if they have one in common.
pub(super) fn slot_of_keys(call: &Call<'_>) -> Option<u16> {
    slot_named(call.row, call.args)
}

/// Returns whether the command names a database other than this one.
fn leaves_database(row: &Command, args: Args<'_>, db_index: usize) -> bool {
    let is_other = |at: usize| args.get(at + 1).is_some() && args.integer(at + 1) != Ok(signed_len(db_index));
    row.is(flag::LEAVES_DATABASE)
        && (row.one_key || (3..args.len()).any(|at| args.is(at, "DB") && is_other(at)))
}

impl<'a> Redirections<'a> {
    /// As this executor is now.
    pub(super) fn of(executor: &'a Executor) -> Self {
        Redirections { server: &executor.server, db: &executor.db }
    }

    /// Returns why a client's command is not served here; always `None` without a cluster.
    pub(super) fn find(&self, call: &Call<'_>) -> Option<Redirection<'a>> {
        let node = self.server.cluster.as_deref()?;
        let slot = match self.slots_of_call(call) {
            Slots::None => return None,
            Slots::Several => return Some(Redirection::CrossSlot),
            Slots::One(slot) => slot,
        };
        let cluster = &node.view;
        let Some(owner) = cluster.owner(slot) else { return Some(Redirection::Unserved) };
        let owns = cluster.owns(slot);
        if owns && cluster.is_ok() && !node.has_open_slots() {
            return None;
        }
        let client = &self.server.clients[call.client];
        let may_hold = cluster.myself().is_primary() || client.routing.reads_replicas;
        let is_ours = owner.id() == cluster.my_primary().id();
        let migrating = cluster.migrating_to(slot).filter(|_| may_hold && is_ours);
        let importing = cluster.importing_from(slot).filter(|_| may_hold && migrating.is_none());
        let is_open = migrating.is_some() || importing.is_some();
        let mut keys = Presence::default();
        if is_open {
            if self.any_leaves_database(call) {
                return Some(Redirection::TryAgain);
            }
            self.look_for_keys(call, &mut keys);
        }
        if !cluster.is_ok()
            && let Some(down) = self.down(call)
        {
            return Some(down);
        }
        if is_open && call.row.is(flag::MOVES_KEYS) && cluster.myself().is_primary() {
            return None;
        }
        if let Some(target) = migrating
            && keys.missing > 0
        {
            return Some(if keys.present > 0 {
                Redirection::TryAgain
            } else {
                Redirection::Ask(slot, target)
            });
        }
        if importing.is_some() && (client.routing.asking > 0 || call.row.is(flag::ASKING)) {
            let is_split = keys.are_several && keys.missing > 0;
            return is_split.then_some(Redirection::TryAgain);
        }
        let flags = flags_with_queue(self.server, call);
        let (reads, is_channel) = (flags & flag::WRITE == 0, flags & flag::PUBSUB != 0);
        if (client.routing.reads_replicas && reads || is_channel) && is_ours && !owns {
            return None;
        }
        (!owns).then_some(Redirection::Moved(slot, owner))
    }

    /// As [`Self::find`], as the client's error.
    pub(super) fn error(&self, call: &Call<'_>) -> Option<ClientError> {
        Some(match self.find(call)? {
            Redirection::CrossSlot => ClientError::CrossSlot,
            Redirection::Unserved => ClientError::SlotUnserved,
            Redirection::Down => ClientError::ClusterDown,
            Redirection::DownForWrites => ClientError::ClusterDownForWrites,
            Redirection::TryAgain => ClientError::TryAgain,
            Redirection::Ask(slot, to) => ClientError::Ask { slot, to: self.target(to, call) },
            Redirection::Moved(slot, to) => ClientError::Moved { slot, to: self.target(to, call) },
        })
    }

    fn target(&self, to: &Node, call: &Call<'_>) -> String {
        let kind = self.server.config.cluster_preferred_endpoint_type;
        let seen_by = &self.server.clients[call.client].connection;
        Endpoint::of(to, kind, seen_by).redirection()
    }

    fn of_blocked(&self, handle: ClientHandle) -> Option<ClientError> {
        let view = &self.server.cluster.as_deref()?.view;
        let client = &self.server.clients[handle];
        let blocked = client.blocked.as_ref()?;
        // Even if reads are served now: a write would have to serve the client.
        if !view.is_ok() {
            return Some(ClientError::ClusterDown);
        }
        let args = blocked.all_args();
        let row = self.server.registry.row(blocked.command);
        let call = Call::new(&self.server.registry, handle, blocked.command, args.view());
        let slot = slot_of_keys(&call)?;
        let Some(owner) = view.owner(slot) else { return Some(ClientError::SlotUnserved) };
        let is_ours = owner.id() == view.my_primary().id();
        let is_served = view.owns(slot) || client.routing.reads_replicas && row.is(flag::READONLY) && is_ours;
        if is_served || view.importing_from(slot).is_some() {
            return None;
        }
        Some(ClientError::Moved { slot, to: self.target(owner, &call) })
    }

    /// Returns the slot of the keys of a command or of a transaction, if they have one in common.
    pub(super) fn slot_of_call(&self, call: &Call<'_>) -> Option<u16> {
        match self.slots_of_call(call) {
            Slots::One(slot) => Some(slot),
            Slots::None | Slots::Several => None,
        }
    }

    fn slots_of_call(&self, call: &Call<'_>) -> Slots {
        match run_by(self.server, call) {
            Some(transaction) => self.slots_of_transaction(transaction),
            None => slots_of(call.row, call.args),
        }
    }

    /// Returns the slot of the keys of all queued commands, if they have one in common.
    pub(super) fn slot_of_queue(&self, transaction: &Transaction) -> Option<u16> {
        match self.slots_of_transaction(transaction) {
            Slots::One(slot) => Some(slot),
            Slots::None | Slots::Several => None,
        }
    }

    fn slots_of_transaction(&self, transaction: &Transaction) -> Slots {
        let rows = transaction.queued.iter().map(|(id, args)| (self.server.registry.row(*id), args.view()));
        rows.map(|(row, args)| slots_of(row, args)).fold(Slots::None, |all, slots| match slots {
            Slots::None => all,
            Slots::One(slot) => all.with(slot),
            Slots::Several => Slots::Several,
        })
    }

    fn any_leaves_database(&self, call: &Call<'_>) -> bool {
        let db_index = self.server.clients[call.client].db_index;
        match run_by(self.server, call) {
            None => leaves_database(call.row, call.args, db_index),
            Some(transaction) => {
                let mut queued = transaction.queued.iter();
                queued.any(|(id, args)| leaves_database(self.server.registry.row(*id), args.view(), db_index))
            }
        }
    }

    /// Looks up the keys of a slot that is being moved, without an effect on them. What is queued is looked up by EXEC.
    fn look_for_keys<'k>(&'k self, call: &Call<'k>, keys: &mut Presence<'k>) {
        let client = &self.server.clients[call.client];
        let mut db_index = client.db_index;
        let mut look = |row: &Command, args: Args<'k>, db_index| {
            row.visit_keys(args, &mut |at, _| {
                let is_present = self.db.live_kind(db_index, self.db.key(args.at(at))).is_some();
                keys.note(args.at(at), is_present);
            });
        };
        match run_by(self.server, call) {
            Some(transaction) => {
                for (id, args) in &transaction.queued {
                    let (row, args) = (self.server.registry.row(*id), args.view());
                    if row.control == Control::SelectsDatabase {
                        let selected = args.integer(1).ok().and_then(|index| usize::try_from(index).ok());
                        let is_there = |index: &usize| *index < self.db.database_count();
                        db_index = selected.filter(is_there).unwrap_or(db_index);
                    }
                    look(row, args, db_index);
                }
            }
            None if client.transaction.is_some() => {}
            None => look(call.row, call.args, db_index),
        }
    }

    /// Why a command is refused while the cluster does not work, if it is.
    fn down(&self, call: &Call<'_>) -> Option<Redirection<'static>> {
        let config = &self.server.config;
        let flags = flags_with_queue(self.server, call);
        if flags & flag::PUBSUB != 0 {
            return (!config.cluster_allow_pubsubshard_when_down).then_some(Redirection::Down);
        }
        if !config.cluster_allow_reads_when_down {
            return Some(Redirection::Down);
        }
        (flags & flag::WRITE != 0).then_some(Redirection::DownForWrites)
    }
}

/// Replies with an error to clients that wait for keys of slots which this node no longer serves.
pub(super) fn redirect_blocked(executor: &mut Executor) {
    let waits_for_keys = |client: &&Client| {
        let on = client.blocked.as_ref().map(|blocked| &blocked.on);
        matches!(on, Some(BlockedOn::Keys { .. }))
    };
    let waiting: Vec<ClientHandle> =
        executor.server.clients.iter().filter(waits_for_keys).map(|client| client.handle).collect();
    for handle in waiting {
        let Some(error) = Redirections::of(executor).of_blocked(handle) else { continue };
        let line = error.to_string();
        executor.server.observed.statistics.count_error(&line);
        executor.server.note_given_up(handle, true);
        executor.server.wake(handle, |reply| reply.error(on_the_wire(&line)));
    }
}
