//! A server of the simulation: its cluster, its disk, its clock and its data.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use cluster::{BusAction, Cluster, Input, LinkId, Now};
use wire::cluster_bus::{NodeId, SlotSet};

use crate::data::{Data, Key};
use crate::ledger::Rights;
use crate::migration::Export;
use crate::network::Host;

pub struct Server {
    pub host: Host,
    /// The id of its node.
    pub id: Option<NodeId>,
    /// None: it has crashed.
    pub cluster: Option<Cluster>,
    /// Runs behind or ahead, in millionths.
    pub clock_rate: i64,
    /// How wrong the date is.
    pub date_offset_ms: i64,
    /// nodes.conf as a crash leaves it, and as it is otherwise.
    pub on_disk: String,
    pub written: String,
    /// What the bus thread has still to do, and when it can go on.
    pub queue: VecDeque<BusAction>,
    pub busy_until_ms: u64,
    /// What will be on disk then, and its number.
    pub syncing: Option<(u64, String)>,
    /// The latest save that is done, and the one that the latest command waits for.
    pub saved: u64,
    pub awaited: Option<u64>,
    /// What has arrived, and was not looked at.
    pub waiting: Vec<Input>,
    /// Connections by the ids that the cluster knows.
    pub links: BTreeMap<LinkId, u64>,
    pub accepted: u64,
    pub data: Data,
    /// Writes are held back until then.
    pub paused_until_ms: Option<u64>,
    /// The next tick by the time of the simulation.
    pub next_tick_ms: u64,
    /// The latest manual failover was one that must lose nothing, and its replica had everything.
    pub failover_has_all: bool,
    /// Hangs until then: runs nothing.
    pub hangs_until_ms: u64,
    /// How often it was started.
    pub starts: u64,
    /// Connections of its exports.
    pub exports: Vec<Export>,
    /// `primaryauth` is set.
    pub authenticates: bool,
    /// Slots whose keys are hidden.
    pub hidden: SlotSet,
    /// Slots with keys to which writes wait, since when, and the writes.
    pub paused_slots: BTreeMap<u16, u64>,
    pub held: Vec<Key>,
    /// What the server claimed at the end of its latest turn, or when it crashed.
    pub rights: Rights,
    /// Slots that it has taken by migrations in this turn.
    pub claimed: BTreeSet<u16>,
    /// Slots of exports that no longer wait for the claim, and whether an operator has cancelled them.
    pub at_risk: BTreeMap<u16, bool>,
}

impl Server {
    pub fn new(host: Host) -> Server {
        Server {
            host,
            id: None,
            cluster: None,
            clock_rate: 0,
            date_offset_ms: 0,
            on_disk: String::new(),
            written: String::new(),
            queue: VecDeque::new(),
            busy_until_ms: 0,
            syncing: None,
            saved: 0,
            awaited: None,
            waiting: Vec::new(),
            links: BTreeMap::new(),
            accepted: 0,
            data: Data::default(),
            paused_until_ms: None,
            next_tick_ms: 0,
            failover_has_all: false,
            hangs_until_ms: 0,
            starts: 0,
            exports: Vec::new(),
            authenticates: false,
            hidden: SlotSet::new(),
            paused_slots: BTreeMap::new(),
            held: Vec::new(),
            rights: Rights::default(),
            claimed: BTreeSet::new(),
            at_risk: BTreeMap::new(),
        }
    }

    /// The server's clocks at a time of the simulation.
    pub fn now(&self, now_ms: u64) -> Now {
        let now = now_ms as i64;
        let drift = now * self.clock_rate / 1_000_000;
        Now {
            monotonic_ms: (now + drift) as u64 + 1_000_000,
            unix_ms: (1_700_000_000_000 + now + drift + self.date_offset_ms) as u64,
        }
    }

    pub fn owns(&self, slot: u16) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.owns(slot))
    }

    pub fn runs(&self) -> bool {
        self.cluster.is_some()
    }

    /// The last content that waits for the bus thread.
    pub fn newest_save(&self) -> Option<(u64, String)> {
        self.queue.iter().rev().find_map(|action| match action {
            BusAction::Save { number, text, .. } => Some((*number, text.clone())),
            _ => None,
        })
    }

    /// Loses what is not on disk, apart from the data.
    pub fn crash(&mut self) {
        self.cluster = None;
        self.queue.clear();
        self.waiting.clear();
        self.syncing = None;
        (self.saved, self.awaited) = (0, None);
        self.busy_until_ms = 0;
        self.links.clear();
        self.paused_until_ms = None;
        self.exports.clear();
        self.hidden = SlotSet::new();
        self.paused_slots.clear();
        self.held.clear();
        self.written.clone_from(&self.on_disk);
    }
}

/// A host's address.
pub fn address(host: Host) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host as u8 + 1))
}

/// The host of an address.
pub fn host_of(address: &str) -> Host {
    let ip: Ipv4Addr = address.parse().expect("hosts have addresses of version 4");
    usize::from(ip.octets()[3]) - 1
}
