//! All servers and the network between them, driven by one generator.

use std::collections::BTreeMap;

use cluster::{BusAction, Cluster, Effect, Facts, Input, LinkId, Settings, TICK_MS};
use structures::random::Random;
use wire::cluster_bus::{Body, Frame, Incoming, NodeId, SLOTS};

use crate::clients::Clients;
use crate::data::{has_keys, slots_with_keys};
use crate::host::{Server, address, host_of};
use crate::ledger::Ledger;
use crate::link::Links;
use crate::network::{Arrival, Host, Network};

/// Node timeout of all servers.
pub const TIMEOUT_MS: u64 = 1_000;
/// What a pause of writes to a slot by a migration takes at most beyond that of its changes: two seconds for the claim, and
/// what the clock is wrong and a turn is late.
const CLAIM_MS_MAX: u64 = 2_000 + 300;
/// Lines of the log that are shown when a check fails.
const TRACE_LINES: usize = 2_000;

pub struct World {
    pub seed: u64,
    pub now_ms: u64,
    pub random: Random,
    pub network: Network,
    pub servers: Vec<Server>,
    /// Who won which epoch.
    winners: BTreeMap<u64, NodeId>,
    /// Who got whose vote in which epoch.
    votes: BTreeMap<(NodeId, u64), Host>,
    pub trace: Vec<String>,
    pub figures: Figures,
    pub clients: Clients,
    pub ledger: Ledger,
    /// Number of the latest change of data.
    pub changes: u64,
    /// Connections of slot migrations.
    pub links: Links,
    /// Source and target of migrations that have just come to the pause, or to the grant of the slots.
    pub handovers: Vec<[Host; 2]>,
    /// Servers crash and fail over, so that writes may be lost.
    pub has_failures: bool,
    /// Clients write.
    pub has_writers: bool,
    /// Slowest disk.
    pub disk_ms_max: u64,
}

/// What a run has seen, to know that it tests something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub turns: u64,
    pub frames: u64,
    pub elections_won: u64,
    pub votes: u64,
    pub manual_failovers: u64,
    pub slot_moves: u64,
    /// Slots that no node claimed in the end.
    pub slots_fixed: u64,
    pub crashes: u64,
    pub failures: u64,
    /// Manual failovers whose old primary no longer waited.
    pub unprotected: u64,
    /// Acknowledged writes; those that may be lost; of these, those after a warning of a migration's source.
    pub writes: u64,
    pub writes_excused: u64,
    pub writes_at_risk: u64,
    /// Jobs of slot migration that were started, whose target took the slots, and that ended otherwise.
    pub migrations: u64,
    pub slot_claims: u64,
    pub migrations_failed: u64,
    pub slots_paused: u64,
}

impl Figures {
    pub fn add(&mut self, other: Figures) {
        self.turns += other.turns;
        self.frames += other.frames;
        self.elections_won += other.elections_won;
        self.votes += other.votes;
        self.manual_failovers += other.manual_failovers;
        self.slot_moves += other.slot_moves;
        self.slots_fixed += other.slots_fixed;
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.unprotected += other.unprotected;
        self.writes += other.writes;
        self.writes_excused += other.writes_excused;
        self.writes_at_risk += other.writes_at_risk;
        self.migrations += other.migrations;
        self.slot_claims += other.slot_claims;
        self.migrations_failed += other.migrations_failed;
        self.slots_paused += other.slots_paused;
    }
}

impl World {
    pub fn new(seed: u64, hosts: usize, has_failures: bool) -> World {
        let mut random = Random::new(seed);
        let mut servers: Vec<Server> = (0..hosts).map(Server::new).collect();
        for server in &mut servers {
            server.clock_rate = random.below(20_001) as i64 - 10_000;
            server.date_offset_ms = random.below(10_000) as i64 - 5_000;
            server.next_tick_ms = random.below(TICK_MS);
            server.authenticates = random.below(4) == 0;
        }
        World {
            seed,
            now_ms: 0,
            random,
            network: Network::new(),
            servers,
            winners: BTreeMap::new(),
            votes: BTreeMap::new(),
            trace: Vec::new(),
            figures: Figures::default(),
            clients: Clients::new(),
            ledger: Ledger::default(),
            changes: 0,
            links: Links::default(),
            handovers: Vec::new(),
            has_failures,
            has_writers: true,
            disk_ms_max: 5,
        }
    }

    /// `cluster-manual-failover-timeout` of all servers. Two of them are the pause of a migration: shorter and longer than what
    /// a source waits for the claim.
    fn manual_failover_timeout_ms(&self) -> u64 {
        if self.seed % 4 < 2 { 600 } else { 2_000 }
    }

    /// How long writes wait for the last changes of a migration.
    fn migration_pause_ms(&self) -> u64 {
        2 * self.manual_failover_timeout_ms()
    }

    pub fn settings(&self, host: Host) -> Settings {
        Settings {
            node_timeout_ms: TIMEOUT_MS,
            manual_failover_timeout_ms: self.manual_failover_timeout_ms(),
            replication_timeout_s: 4,
            slot_migration_unsent_bytes_max: [None, Some(0), Some(500)][self.seed as usize % 3],
            slot_migration_log_len_max: 10,
            replica_no_failover: !self.has_failures,
            allow_replica_migration: !self.seed.is_multiple_of(5),
            tcp_port: 7_000,
            bus_port: 17_000 + host as u16,
            announce_human_nodename: wire::cluster_bus::Text::parse(&format!("R{host}")).expect("a name"),
            ..Settings::default()
        }
    }

    /// Starts a server, from its file if it has one.
    pub fn start(&mut self, host: Host) {
        let (settings, seed) = (self.settings(host), self.random.next_u64());
        let server = &mut self.servers[host];
        let now = server.now(self.now_ms);
        let random = Random::new(seed);
        let cluster = if server.written.is_empty() {
            Cluster::new(settings, random, now)
        } else {
            Cluster::load(server.written.as_bytes(), settings, random, now).expect("the file can be read")
        };
        server.id = Some(cluster.my_id());
        server.cluster = Some(cluster);
        server.data.heard_ms = self.now_ms;
        server.starts += 1;
        server.at_risk.clear();
        self.note_start(host);
        self.data_loaded(host);
        self.turn(host, Vec::new());
    }

    pub fn crash(&mut self, host: Host) {
        if !self.servers[host].runs() {
            return;
        }
        self.figures.crashes += 1;
        self.note(host, "crashes");
        for (id, end) in self.links.ends_at(host) {
            self.links.close(id, end, self.now_ms, (&self.network, &mut self.random));
        }
        let data = &mut self.servers[host].data;
        let unsynced = data.offset() - data.synced() as u64;
        let removed = data.truncate(data.synced() + self.random.below(unsynced + 1) as usize);
        self.note_crash(host, removed);
        self.servers[host].crash();
        let connections = self.network.connections.iter();
        let ids: Vec<u64> =
            connections.filter(|(_, c)| c.from == host || c.to == host).map(|(id, _)| *id).collect();
        for id in ids {
            self.network.close(id, host, self.now_ms, &mut self.random);
        }
    }

    pub fn cluster(&mut self, host: Host) -> Option<&mut Cluster> {
        self.servers[host].cluster.as_mut()
    }

    /// Runs a command on a server, and the end of its turn.
    pub fn command<T>(
        &mut self,
        host: Host,
        command: impl FnOnce(&mut Cluster, cluster::Now) -> T,
    ) -> Option<T> {
        let now = self.servers[host].now(self.now_ms);
        let server = &mut self.servers[host];
        let answer = command(server.cluster.as_mut()?, now);
        server.awaited = server.cluster.as_ref()?.awaited_save();
        self.turn(host, Vec::new());
        Some(answer)
    }

    /// A turn of a server: facts, inputs, jobs, end, and the effects of each.
    pub fn turn(&mut self, host: Host, inputs: Vec<Input>) {
        let server = &mut self.servers[host];
        let (now, now_ms) = (server.now(self.now_ms), self.now_ms);
        let facts = Facts {
            replication_offset: server.data.offset(),
            data_age_ms: server.data.source.map_or(0, |_| now_ms - server.data.heard_ms),
        };
        let Some(cluster) = &mut server.cluster else { return };
        self.figures.turns += 1;
        cluster.step(Input::Facts(facts), now);
        for input in inputs {
            cluster.step(input, now);
        }
        self.carry_out_effects(host);
        self.run_migrations(host);
        let server = &mut self.servers[host];
        let Some(cluster) = &mut server.cluster else { return };
        server.queue.extend(cluster.end_turn(now));
        if self.figures.turns.is_multiple_of(64) {
            cluster.check();
        }
        self.carry_out_effects(host);
        self.note_rights(host);
        if self.figures.turns.is_multiple_of(8) {
            self.check_keys(host);
        }
    }

    pub fn carry_out_effects(&mut self, host: Host) {
        loop {
            let effects = self.servers[host].cluster.as_mut().map(Cluster::take_effects).unwrap_or_default();
            if effects.is_empty() {
                return;
            }
            effects.into_iter().for_each(|effect| self.execute(host, effect));
        }
    }

    fn execute(&mut self, host: Host, effect: Effect) {
        let now_ms = self.now_ms;
        match effect {
            Effect::Log(_, text) => self.read_log(host, &text),
            Effect::ReplicateFrom { address, full_sync, .. } => {
                let source = host_of(&address.to_string());
                self.servers[host].data.source = Some((source, full_sync));
                self.servers[host].data.heard_ms = now_ms;
            }
            Effect::BecomePrimary => self.become_primary(host),
            Effect::Flush(_) => unreachable!("no server is reset or detached"),
            Effect::PauseWrites { .. } => {
                let until = now_ms + 2 * self.settings(host).manual_failover_timeout_ms;
                self.servers[host].paused_until_ms = Some(until);
            }
            Effect::ResumeWrites => self.servers[host].paused_until_ms = None,
            Effect::VerifyData => self.verify_data(host),
            Effect::DeleteKeysInSlots(slots) => self.delete_keys(host, slots.iter()),
            Effect::PauseSlots { slots, .. } => {
                self.figures.slots_paused += 1;
                let paused = &mut self.servers[host].paused_slots;
                paused.retain(|slot, _| slots.contains(*slot));
                for slot in slots.iter().filter(|slot| has_keys(*slot)) {
                    paused.entry(slot).or_insert(now_ms);
                }
                self.run_held(host);
            }
            Effect::ResumeSlots => {
                self.servers[host].paused_slots.clear();
                self.run_held(host);
            }
            Effect::Migration(job, action) => self.carry_out_migration(host, job, action),
            Effect::SlotsLeft(_) | Effect::Deliver { .. } => {}
        }
    }

    /// A manual failover whose primary waits has lost nothing.
    fn become_primary(&mut self, host: Host) {
        let server = &mut self.servers[host];
        server.paused_until_ms = None;
        let Some((old, _)) = server.data.source.take() else { return };
        if !std::mem::take(&mut server.failover_has_all) {
            return;
        }
        self.figures.manual_failovers += 1;
        let waits = self.servers[old].runs() && self.servers[old].paused_until_ms > Some(self.now_ms);
        if waits {
            // The old primary may have deleted the keys of slots that a migration has moved.
            let owned = slots_with_keys().filter(|slot| self.servers[host].owns(*slot));
            for slot in owned.collect::<Vec<_>>() {
                let writes = |host: Host| self.servers[host].data.writes_of(slot).collect::<Vec<_>>();
                let text = format!("a manual failover has lost writes to slot {slot}");
                assert_eq!(writes(old), writes(host), "{}", self.report(&text));
            }
        } else {
            self.figures.unprotected += 1;
        }
    }

    fn read_log(&mut self, host: Host, text: &str) {
        self.note(host, text);
        let server = &mut self.servers[host];
        if text.starts_with("All primary replication stream processed") {
            server.failover_has_all = true;
        } else if text.starts_with("Manual failover") || text.starts_with("Start of election delayed for 0") {
            // The latter: stays as it is.
            server.failover_has_all &= !text.starts_with("Manual failover");
        } else if text.starts_with("Marking node") {
            self.figures.failures += 1;
        } else if text.starts_with("Write loss risk!") {
            self.note_risk(host, text);
        } else if text.starts_with("Slot migration initiated") {
            self.figures.migrations += 1;
        } else if text.starts_with("Slot migration {") && text.contains("finished. State: failed") {
            self.figures.migrations_failed += 1;
        } else if text.starts_with("configEpoch set to") && text.ends_with("after successful failover") {
            let epoch = text.split(' ').nth(3).and_then(|epoch| epoch.parse().ok()).expect("an epoch");
            let id = self.servers[host].cluster.as_ref().expect("it runs").my_id();
            self.figures.elections_won += 1;
            let earlier = self.winners.insert(epoch, id);
            assert!(earlier.is_none(), "{}", self.report(&format!("epoch {epoch} was won twice")));
        }
    }

    pub fn note(&mut self, host: Host, text: &str) {
        if self.trace.len() > 2 * TRACE_LINES {
            self.trace.drain(..TRACE_LINES);
        }
        self.trace.push(format!("{:7} R{host} {text}", self.now_ms));
    }

    /// What is shown when a check fails.
    pub fn report(&self, what: &str) -> String {
        let from = self.trace.len().saturating_sub(TRACE_LINES);
        let trace = self.trace[from..].join("\n");
        let mut nodes = String::new();
        for server in &self.servers {
            nodes += &format!("\nR{}: {}", server.host, self.view(server.host));
        }
        format!("seed {}, {} ms: {what}\n{trace}\n{nodes}\n{:?}", self.seed, self.now_ms, self.figures)
    }

    /// A server's view in a line.
    pub fn view(&self, host: Host) -> String {
        let Some(cluster) = &self.servers[host].cluster else { return "down".to_string() };
        let mut text = format!("ok {} epoch {}", cluster.is_ok(), cluster.current_epoch());
        for node in cluster.nodes() {
            let ranges: Vec<_> = node.slots().ranges().collect();
            let ranges =
                if ranges.len() > 6 { format!("{} slots", node.slot_count()) } else { format!("{ranges:?}") };
            text += &format!(
                "\n    {} {} {:?} epoch {} primary {:?} offset {} {ranges}",
                node.endpoints().nodename,
                node.id(),
                node.flags(),
                cluster.epoch_of(node),
                node.primary().map(|id| cluster.node(id).map(|node| node.endpoints().nodename.clone())),
                node.replication_offset(),
            );
        }
        text
    }

    /// Lets time pass.
    pub fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            self.deliver();
            self.links.deliver(self.now_ms, &self.network);
            for host in 0..self.servers.len() {
                self.work(host);
            }
            if self.now_ms.is_multiple_of(5) {
                if self.has_writers {
                    self.write_some();
                }
                self.replicate();
            }
        }
    }

    /// Waits until the latest command of a server is answered: what it has changed is on disk then. Returns whether
    /// that happened.
    pub fn wait_for_answer(&mut self, host: Host) -> bool {
        while self.servers[host].runs() {
            let server = &self.servers[host];
            if server.awaited <= Some(server.saved) {
                return true;
            }
            self.run(1);
        }
        false
    }

    /// What a server does in a millisecond.
    fn work(&mut self, host: Host) {
        let server = &mut self.servers[host];
        if !server.runs() {
            return;
        }
        if server.hangs_until_ms > self.now_ms {
            return;
        }
        if !server.waiting.is_empty() {
            let inputs = std::mem::take(&mut server.waiting);
            self.turn(host, inputs);
        }
        if self.servers[host].next_tick_ms <= self.now_ms {
            self.servers[host].next_tick_ms = self.now_ms + TICK_MS;
            self.turn(host, vec![Input::Tick]);
            self.check_pauses(host);
            if self.random.below(4) == 0 {
                self.servers[host].data.sync();
            }
        }
        self.serve_migrations(host);
        self.bus_thread(host);
    }

    /// The bus thread goes on until it waits for the disk.
    fn bus_thread(&mut self, host: Host) {
        while self.servers[host].busy_until_ms <= self.now_ms {
            let server = &mut self.servers[host];
            if let Some((number, text)) = server.syncing.take() {
                (server.saved, server.on_disk) = (number, text);
            }
            let Some(action) = server.queue.pop_front() else { return };
            match action {
                BusAction::Bound(_) => {}
                // A later content was saved in its place.
                BusAction::Save { number, .. } if number <= server.saved => {}
                BusAction::Save { number, text, sync } => {
                    if sync {
                        let newest = server.newest_save().unwrap_or((number, text));
                        server.written.clone_from(&newest.1);
                        server.syncing = Some(newest);
                        server.busy_until_ms = self.now_ms + self.random.below(self.disk_ms_max + 1);
                        continue;
                    }
                    server.written.clone_from(&text);
                    if self.random.below(2) == 0 {
                        // The system writes it when it likes.
                        server.on_disk = text;
                    }
                }
                BusAction::Connect { link, port, .. } => {
                    let to = usize::from(port - 17_000);
                    let id = self.network.connect(host, to, link, self.now_ms, &mut self.random);
                    server.links.insert(link, id);
                }
                BusAction::Close(link) => {
                    if let Some(id) = server.links.remove(&link) {
                        self.network.close(id, host, self.now_ms, &mut self.random);
                    }
                }
                BusAction::Send(link, frame) => {
                    if let Some(id) = server.links.get(&link).copied() {
                        self.note_vote(host, id, &frame);
                        self.network.send(id, host, &frame, self.now_ms, &mut self.random);
                    }
                }
            }
        }
    }

    /// A vote leaves: it is the only one of this node in this epoch.
    fn note_vote(&mut self, host: Host, connection: u64, frame: &Frame) {
        let Frame::Full(header, Body::FailoverAuthAck) = frame else { return };
        let connection = &self.network.connections[&connection];
        let to = if connection.from == host { connection.to } else { connection.from };
        self.figures.votes += 1;
        let earlier = self.votes.insert((header.sender, header.current_epoch), to);
        let is_first = earlier.is_none_or(|earlier| earlier == to);
        assert!(
            is_first,
            "{}",
            self.report(&format!("R{host} votes twice in epoch {}", header.current_epoch))
        );
    }

    fn deliver(&mut self) {
        while let Some(arrival) = self.network.next(self.now_ms) {
            match arrival {
                Arrival::Open(id) => self.accept(id),
                Arrival::Opened(id) => {
                    let connection = self.network.connections[&id].clone();
                    if self.has_link(connection.from, connection.outbound, id) {
                        self.give(connection.from, Input::LinkOpened(connection.outbound));
                    }
                }
                Arrival::Frame(id, to_opener, frame) => {
                    if let Some((host, link)) = self.end_of(id, to_opener) {
                        self.figures.frames += 1;
                        let encoded = frame.encode();
                        let read = self.read(encoded.as_bytes());
                        self.give(host, Input::Frame(link, read));
                    }
                }
                Arrival::Closed(id, to_opener) => {
                    if let Some((host, link)) = self.end_of(id, to_opener) {
                        self.servers[host].links.remove(&link);
                        self.give(host, Input::LinkClosed(link));
                    }
                }
            }
        }
    }

    /// Reads a frame's bytes, as the bus thread does.
    fn read(&self, mut bytes: &[u8]) -> Frame {
        let mut incoming = Incoming::new(1 << 20);
        let received = incoming.next(&mut bytes).expect("our own frames can be read");
        received.expect("it is complete").frame.expect("it has no fault")
    }

    fn accept(&mut self, id: u64) {
        let connection = self.network.connections[&id].clone();
        let server = &mut self.servers[connection.to];
        if !server.runs() {
            let (to, now_ms) = (connection.to, self.now_ms);
            return self.network.close(id, to, now_ms, &mut self.random);
        }
        server.accepted += 1;
        let link = LinkId::accepted(server.accepted);
        server.links.insert(link, id);
        self.network.accepted(id, link, self.now_ms, &mut self.random);
        let (peer, local) = (address(connection.from), address(connection.to));
        self.give(connection.to, Input::LinkAccepted { link, peer, local });
    }

    fn has_link(&self, host: Host, link: LinkId, id: u64) -> bool {
        self.servers[host].links.get(&link) == Some(&id)
    }

    /// The end of a connection, unless it was closed there.
    fn end_of(&self, id: u64, of_opener: bool) -> Option<(Host, LinkId)> {
        let connection = &self.network.connections[&id];
        let (host, link) = if of_opener {
            (connection.from, connection.outbound)
        } else {
            (connection.to, connection.inbound?)
        };
        self.has_link(host, link, id).then_some((host, link))
    }

    fn give(&mut self, host: Host, input: Input) {
        self.servers[host].waiting.push(input);
    }

    /// No pause of slots lasts longer than it may.
    fn check_pauses(&self, host: Host) {
        let (server, pause_ms_max) = (&self.servers[host], self.migration_pause_ms() + CLAIM_MS_MAX);
        for (slot, since_ms) in &server.paused_slots {
            let is_bounded = self.now_ms - (*since_ms).max(server.hangs_until_ms) <= pause_ms_max;
            assert!(is_bounded, "{}", self.report(&format!("R{host} holds writes to slot {slot} too long")));
        }
    }

    /// Replicas get some of the changes that they lack.
    fn replicate(&mut self) {
        for host in 0..self.servers.len() {
            let server = &self.servers[host];
            let hangs = server.hangs_until_ms > self.now_ms;
            let is_replica = server.cluster.as_ref().is_some_and(|cluster| cluster.myself().is_replica());
            let Some((source, full)) = server.data.source.filter(|_| is_replica && !hangs) else { continue };
            let is_cut =
                self.network.cuts.contains(&(host, source)) || self.network.cuts.contains(&(source, host));
            let is_up = self.servers[source].runs() && self.servers[source].hangs_until_ms <= self.now_ms;
            if source != host && !is_cut && is_up {
                self.copy(source, host, full);
            }
        }
    }

    fn copy(&mut self, source: Host, host: Host, full: bool) {
        let steps = 1 + self.random.index(8);
        self.servers[host].data.heard_ms = self.now_ms;
        let missing = self.servers[source].data.changes_after(&self.servers[host].data);
        match missing.filter(|_| !full) {
            Some(missing) => {
                let missing = missing[..missing.len().min(steps)].to_vec();
                missing.into_iter().for_each(|(number, change)| self.repeat(host, number, change));
            }
            None => {
                let data = self.servers[source].data.clone();
                self.servers[host].data.copy_from(&data);
                self.take_up_imports(host, true);
            }
        }
        if let Some((at, full)) = &mut self.servers[host].data.source
            && *at == source
        {
            *full = false;
        }
    }

    /// The host of the node with this id.
    pub fn host_with(&self, id: NodeId) -> Option<Host> {
        self.servers.iter().position(|server| server.id == Some(id))
    }

    /// Returns what slot migrations have left, if they have left something.
    pub fn migration_left(&self) -> Option<String> {
        for server in &self.servers {
            let Some(cluster) = &server.cluster else { continue };
            if let Some(job) = cluster.migrations().find(|job| !job.state().is_finished()) {
                return Some(format!("R{} has an unfinished job: {job:?}", server.host));
            }
            if !server.hidden.is_empty() {
                return Some(format!("R{} hides slots without a job", server.host));
            }
        }
        None
    }

    /// Returns why the servers do not agree, if they do not.
    pub fn disagreement(&self) -> Option<String> {
        let clusters: Vec<&Cluster> =
            self.servers.iter().filter_map(|server| server.cluster.as_ref()).collect();
        let first = clusters.first()?;
        for cluster in &clusters {
            let name = &cluster.myself().endpoints().nodename;
            if !cluster.is_ok() {
                return Some(format!("{name} is not ok"));
            }
            for slot in 0..SLOTS {
                let owner = |cluster: &Cluster| cluster.owner(slot).map(|node| node.id());
                if owner(cluster).is_none() || owner(cluster) != owner(first) {
                    return Some(format!("{name} has another owner of slot {slot}"));
                }
            }
            let primaries: Vec<_> = cluster.nodes().filter(|node| node.is_primary()).collect();
            for (at, one) in primaries.iter().enumerate() {
                if primaries[..at].iter().any(|other| cluster.epoch_of(other) == cluster.epoch_of(one)) {
                    return Some(format!("{name} knows two primaries with epoch {}", cluster.epoch_of(one)));
                }
            }
            let unreached = cluster.nodes().find(|node| node.is_failed() || node.is_possibly_failed());
            if let Some(node) = unreached {
                return Some(format!("{name} does not reach {}", node.endpoints().nodename));
            }
            if cluster.node_count() != clusters.len() {
                return Some(format!("{name} knows {} nodes", cluster.node_count()));
            }
            let wrong_role = clusters.iter().find(|other| {
                let node = cluster.node(other.my_id());
                node.is_none_or(|node| {
                    node.is_primary() != other.myself().is_primary()
                        || node.primary() != other.myself().primary()
                })
            });
            if let Some(other) = wrong_role {
                return Some(format!("{name} has another role for {}", other.myself().endpoints().nodename));
            }
        }
        None
    }
}
