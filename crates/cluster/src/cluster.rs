//! The state machine's state, and how a turn goes: inputs and commands change it and note what follows; the turn's end
//! does what follows, once.
//!
//! ```text
//!  step(input) ...   commands ...                     end_turn
//!     |                  |                               |
//!     v                  v                               v
//!  state changes, effects for the executor,       cluster state, elections, then in this order:
//!  frames kept back, `todo`                       nodes.conf, the frames, PONG to all
//! ```
//!
//! 1. Frames of a turn leave behind the `Save` of that turn: what they state is on disk if it has to be.
//! 2. Between `Input::Facts` and the execution of the effects of the same turn no command of a client runs, so that
//!    the offset that a paused primary announces is its last.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use structures::random::Random;
use wire::cluster_bus::{Frame, NodeFlags, NodeId};

use crate::action::{BusAction, Effect, Facts, Level, LinkId, Now};
use crate::election::Election;
use crate::links::Links;
use crate::manual_failover::ManualFailover;
use crate::node::Node;
use crate::nodes::{MYSELF, Nodes};
use crate::settings::{Faults, Settings};
use crate::slot_migration::Migrations;
use crate::slots::Slots;
use crate::state::State;
use crate::statistics::Statistics;

/// A node's view of its cluster, and all that it decides by it.
pub struct Cluster {
    pub(crate) now: Now,
    pub(crate) random: Random,
    pub(crate) settings: Settings,
    pub(crate) faults: Faults,
    pub(crate) facts: Facts,
    pub(crate) nodes: Nodes,
    pub(crate) slots: Slots,
    pub(crate) migrations: Migrations,
    pub(crate) current_epoch: u64,
    pub(crate) last_vote_epoch: u64,
    pub(crate) state: State,
    /// Nodes that gossip does not bring back, and until when.
    pub(crate) forgotten: BTreeMap<NodeId, u64>,
    pub(crate) links: Links,
    pub(crate) election: Election,
    pub(crate) manual: ManualFailover,
    /// The server knows where to replicate from.
    pub(crate) is_replicating: bool,
    pub(crate) ticks: u64,
    /// There may be nodes that this one does not reach: if not, frames need not look for them.
    pub(crate) has_unreachable: bool,
    pub(crate) statistics: Statistics,
    pub(crate) version: u64,
    pub(crate) todo: Todo,
    /// Something has changed since the latest save.
    is_unsaved: bool,
    /// Time has passed since the latest turn's end.
    pub(crate) has_ticked: bool,
    /// Number of the latest save.
    saves: u64,
    effects: Vec<Effect>,
    pub(crate) outbox: Vec<BusAction>,
}

/// What the end of the turn does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Todo {
    pub(crate) update_state: bool,
    pub(crate) save: bool,
    pub(crate) sync: bool,
    pub(crate) broadcast: bool,
    pub(crate) failover: bool,
    pub(crate) manual_failover: bool,
}

impl Cluster {
    /// Starts a cluster of one node, with an id and a shard of its own. The generator's seed must differ from that of
    /// any other node, since it makes ids.
    pub fn new(settings: Settings, random: Random, now: Now) -> Cluster {
        let mut random = random;
        let flags = NodeFlags::MYSELF | NodeFlags::PRIMARY;
        let node = Node::new(random_id(&mut random), random_id(&mut random), flags, now.monotonic_ms);
        let id = node.id;
        let mut cluster = Cluster::with(node, settings, random, now);
        cluster.log(Level::Notice, format!("No cluster configuration found, I'm {id}"));
        cluster.todo.sync = true;
        cluster
    }

    /// A cluster whose only node is given.
    pub(crate) fn with(myself: Node, settings: Settings, random: Random, now: Now) -> Cluster {
        let mut cluster = Cluster {
            now,
            random,
            settings: Settings::default(),
            faults: Faults::default(),
            facts: Facts::default(),
            nodes: Nodes::new(myself),
            slots: Slots::new(),
            migrations: Migrations::default(),
            current_epoch: 0,
            last_vote_epoch: 0,
            state: State::default(),
            forgotten: BTreeMap::new(),
            links: Links::default(),
            election: Election::default(),
            manual: ManualFailover::default(),
            is_replicating: false,
            ticks: 0,
            has_unreachable: true,
            statistics: Statistics::default(),
            version: 0,
            todo: Todo { save: true, update_state: true, ..Todo::default() },
            is_unsaved: false,
            has_ticked: false,
            saves: 0,
            effects: Vec::new(),
            outbox: Vec::new(),
        };
        cluster.reconfigure(settings);
        cluster
    }

    /// Takes changed options.
    pub fn reconfigure(&mut self, settings: Settings) {
        let address_changed = self.settings.announce_ip != settings.announce_ip;
        let myself = self.nodes.myself_mut();
        let before = (myself.flags, myself.endpoints.clone(), myself.address.clone());
        if address_changed {
            // Without an announced address it is found again by the next MEET or PING.
            myself.address.clone_from(&settings.announce_ip);
        }
        let can_read = NodeFlags::EXTENSIONS | NodeFlags::LIGHT_PUBLISH | NodeFlags::LIGHT_MODULE;
        myself.flags |= can_read;
        myself.flags.set(NodeFlags::NO_FAILOVER, settings.replica_no_failover);
        let endpoints = &mut myself.endpoints;
        endpoints.tcp_port = settings.tcp_port;
        endpoints.tls_port = settings.tls_port;
        endpoints.bus_port = settings.bus_port;
        endpoints.client_tcp_port = settings.client_tcp_port;
        endpoints.client_tls_port = settings.client_tls_port;
        endpoints.client_ipv4 = settings.announce_client_ipv4;
        endpoints.client_ipv6.clone_from(&settings.announce_client_ipv6);
        endpoints.hostname.clone_from(&settings.announce_hostname);
        endpoints.nodename.clone_from(&settings.announce_human_nodename);
        endpoints.availability_zone.clone_from(&settings.availability_zone);
        let after = (myself.flags, myself.endpoints.clone(), myself.address.clone());
        let state_depends = self.settings.require_full_coverage != settings.require_full_coverage;
        self.todo.save |= before != after;
        self.todo.update_state |= before.0 != after.0 || state_depends;
        self.settings = settings;
    }

    /// Switches faults on and off, for tests.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Returns the faults that are switched on.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Returns the options.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Ends a turn: does what its inputs and commands have made necessary. It is called after each turn's inputs.
    pub fn end_turn(&mut self, now: Now) -> Vec<BusAction> {
        self.now = now;
        let todo = std::mem::take(&mut self.todo);
        if todo.update_state {
            self.update_state();
        }
        if self.myself().is_replica() {
            if todo.manual_failover {
                self.continue_manual_failover();
            }
            if todo.manual_failover || todo.failover {
                self.continue_election();
            }
        }
        let save = todo.save || self.todo.save;
        let sync = todo.sync || self.todo.sync;
        (self.todo.save, self.todo.sync) = (false, false);
        if todo.broadcast || std::mem::take(&mut self.todo.broadcast) {
            self.broadcast_pong(|_, _| true);
        }
        self.version += u64::from(save);
        self.is_unsaved |= save;
        let frames = std::mem::take(&mut self.outbox);
        self.next_save(sync).into_iter().chain(frames).collect()
    }

    /// The save of this turn. What need not be on disk is saved with the next tick: the text has a line for each node.
    fn next_save(&mut self, sync: bool) -> Option<BusAction> {
        let has_ticked = std::mem::take(&mut self.has_ticked);
        if !sync && !(self.is_unsaved && has_ticked) {
            return None;
        }
        self.is_unsaved = false;
        self.saves += 1;
        Some(BusAction::Save { number: self.saves, text: self.file_text(), sync })
    }

    /// The process ends with this turn: what is not saved yet is saved without waiting for the next tick.
    pub fn hasten_save(&mut self) {
        self.has_ticked = true;
    }

    /// Returns the number of the save that has on disk what this turn has changed so far; `None`: nothing has to be on
    /// disk. A command that has changed something is answered when that save is done.
    pub fn awaited_save(&self) -> Option<u64> {
        self.todo.sync.then_some(self.saves + 1)
    }

    /// Takes the lines of the log, while other effects have to wait.
    pub fn take_log(&mut self) -> Vec<(Level, String)> {
        let mut lines = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Log(level, text) => lines.push((level, text)),
                other => self.effects.push(other),
            }
        }
        lines
    }

    /// Takes what the executor has to do, since this was last called.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        if !self.slots.left.is_empty() {
            self.effects.push(Effect::SlotsLeft(std::mem::take(&mut self.slots.left)));
        }
        std::mem::take(&mut self.effects)
    }

    /// Returns the id of this node.
    pub fn my_id(&self) -> NodeId {
        self.myself().id
    }

    /// Returns this node.
    pub fn myself(&self) -> &Node {
        self.nodes.myself()
    }

    /// Returns all nodes, by their ids.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.sorted().into_iter()
    }

    /// Returns how many nodes are known, those in handshake included.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns the node whose id has this text.
    pub fn lookup(&self, id: &[u8]) -> Option<&Node> {
        self.nodes.get(NodeId::parse(id)?)
    }

    /// Returns the node whose slots this one serves: itself, or its primary.
    pub fn my_primary(&self) -> &Node {
        let primary = self.myself().primary.and_then(|primary| self.nodes.get(primary));
        primary.unwrap_or(self.myself())
    }

    /// Returns the epoch of a node's slots: of a replica, that of its primary.
    pub fn epoch_of(&self, node: &Node) -> u64 {
        node.primary.and_then(|primary| self.nodes.get(primary)).unwrap_or(node).config_epoch
    }

    /// Returns the highest epoch that is known.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// Returns the epoch that this node last voted in.
    pub fn last_vote_epoch(&self) -> u64 {
        self.last_vote_epoch
    }

    /// Returns a number that grows when nodes or slots change, for caches of replies.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether a node is in this node's shard.
    pub fn is_in_my_shard(&self, node: &Node) -> bool {
        node.shard_id == self.myself().shard_id
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now.monotonic_ms
    }

    pub(crate) fn is_me(&self, id: NodeId) -> bool {
        self.nodes.place(id) == Some(MYSELF)
    }

    pub(crate) fn log(&mut self, level: Level, text: String) {
        if level >= self.settings.log_level {
            self.effects.push(Effect::Log(level, text));
        }
    }

    /// As [`Self::log`], for lines of which there are many.
    pub(crate) fn log_with(&mut self, level: Level, text: impl FnOnce(&Cluster) -> String) {
        if level >= self.settings.log_level {
            let text = text(self);
            self.effects.push(Effect::Log(level, text));
        }
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn act(&mut self, action: BusAction) {
        self.outbox.push(action);
    }

    pub(crate) fn send(&mut self, link: LinkId, frame: Arc<Frame>) {
        self.statistics.sent(frame.kind());
        self.outbox.push(BusAction::Send(link, frame));
    }

    /// The end of a turn saves nodes.conf, at the latest that of the next tick.
    pub(crate) fn save(&mut self) {
        self.todo.save = true;
    }

    /// The turn's end saves nodes.conf, and has it on disk before a frame or a reply states what has changed.
    pub(crate) fn save_synced(&mut self) {
        (self.todo.save, self.todo.sync) = (true, true);
    }

    pub(crate) fn save_and_update_state(&mut self) {
        (self.todo.save, self.todo.update_state) = (true, true);
    }

    /// A command has changed something.
    pub(crate) fn save_command(&mut self) {
        self.save_synced();
        self.todo.update_state = true;
    }

    /// A node as the log names it: `id (name)`.
    pub(crate) fn called(&self, id: NodeId) -> Called {
        let name = self.nodes.get(id).map(|node| node.name(self.settings.tls_cluster));
        Called { id, name: name.unwrap_or_default() }
    }

    /// As [`Self::called`], with the node's shard.
    pub(crate) fn called_in_shard(&self, id: NodeId) -> String {
        let shard = self.nodes.get(id).map(|node| node.shard_id.to_string()).unwrap_or_default();
        format!("{} in shard {shard}", self.called(id))
    }

    /// Text of the log for a slot whose keys are deleted because it has gone to another node.
    pub fn dirty_slot_text(&self, slot: u16) -> String {
        format!("Deleting keys in dirty slot {slot} on node {}", self.called_in_shard(self.my_id()))
    }

    pub(crate) fn new_id(&mut self) -> NodeId {
        random_id(&mut self.random)
    }

    /// Checks the invariants of all tables, for tests.
    ///
    /// # Panics
    ///
    /// If one does not hold.
    pub fn check(&self) {
        self.nodes.check();
        self.check_slots();
        self.check_links();
    }
}

/// A node as the log names it.
pub(crate) struct Called {
    id: NodeId,
    name: String,
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.name)
    }
}

/// A new id.
pub(crate) fn random_id(random: &mut Random) -> NodeId {
    let mut bytes = [0; NodeId::LEN / 2];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
    }
    NodeId::from_random(bytes)
}
