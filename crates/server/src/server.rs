//! Everything of a running server that is not data: configuration, clients, and what is observed. The executor
//! owns one; handlers reach it through their context.

use crate::clock::Reading;
use crate::command::registry::Registry;
use crate::config::Config;
use crate::observe::Observations;
use crate::session::blocked::BlockedTable;
use crate::session::pubsub::PubSub;
use crate::session::tracking::TrackingTable;
use crate::session::watch::WatchTable;
use crate::session::{ClientSlot, Clients};

/// What a command asks of the process around the executor, which does it after the tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Options with effects outside the executor (ports, sockets, limits) have new values.
    Reconfigured(Vec<&'static str>),
    Shutdown,
}

/// CLIENT PAUSE: which commands wait, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// On the monotonic clock.
    pub until_us: u64,
    /// All commands, or only those that may write.
    pub all: bool,
}

/// Who this process is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Forty hexadecimal digits, new for each start.
    pub run_id: String,
    pub process_id: u32,
    pub executable: String,
    pub config_file: String,
    pub started: Reading,
}

pub struct Server {
    pub config: Config,
    /// The instant of the command at hand.
    pub now: Reading,
    pub registry: Registry,
    pub identity: Identity,
    pub clients: Clients,
    pub pubsub: PubSub,
    pub tracking: TrackingTable,
    pub watch: WatchTable,
    pub blocked: BlockedTable,
    pub pause: Option<Pause>,
    pub observed: Observations,
    pub host_requests: Vec<HostRequest>,
    /// Clients that a command or a limit has condemned; the host closes them after the tick.
    pub condemned: Vec<ClientSlot>,
    /// Clients whose waiting is over: what they have sent meanwhile may run.
    pub resumed: Vec<ClientSlot>,
}

impl Server {
    pub fn new(config: Config, registry: Registry, identity: Identity, now: Reading) -> Self {
        let commands = registry.len();
        Server {
            config,
            now,
            registry,
            identity,
            clients: Clients::default(),
            pubsub: PubSub::default(),
            tracking: TrackingTable::default(),
            watch: WatchTable::default(),
            blocked: BlockedTable::default(),
            pause: None,
            observed: Observations::new(commands),
            host_requests: Vec::new(),
            condemned: Vec::new(),
            resumed: Vec::new(),
        }
    }

    /// Marks a client to be closed without sending what it has not received yet.
    pub fn condemn(&mut self, slot: ClientSlot) {
        let client = &mut self.clients[slot];
        if !client.close_asap {
            client.close_asap = true;
            self.condemned.push(slot);
        }
    }

    /// Whether changes to keys interest anybody.
    #[inline]
    pub fn listens_to_changes(&self) -> bool {
        !self.watch.is_empty()
            || self.tracking.clients > 0
            || self.blocked.waits_for_keys()
            || !self.config.notify_keyspace_events.is_empty()
    }
}
