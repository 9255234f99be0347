//! What a server does around its jobs of slot migration, as `engine/slot_migration` of the server does it: connections, the
//! snapshot by a child, the changes that follow it, and the commands that a target runs.

use std::collections::VecDeque;
use std::rc::Rc;

use cluster::{JobId, MigrationAction, MigrationEvent, MigrationFacts, Ranges, Refusal, Word};
use wire::cluster_bus::NodeId;

use crate::data::{Change, has_keys};
use crate::host::host_of;
use crate::link::{Message, SOURCE, TARGET};
use crate::network::Host;
use crate::world::World;

/// Keys of a child that are read ahead of what is sent.
const AHEAD_MAX: usize = 8;
/// What a message counts as in unsent bytes.
const MESSAGE_BYTES: u64 = 100;
/// Of a hundred thousand received changes, those that fail or exceed the memory.
const CHANGES_FAILING: u64 = 20;
/// Of a hundred snapshots, those that fail.
const SNAPSHOTS_FAILING: u64 = 2;

/// The source's side of a connection.
pub struct Export {
    pub job: JobId,
    pub link: u64,
    /// What is sent next.
    sending: VecDeque<Message>,
    /// Changes and words that follow the keys.
    waiting: Option<VecDeque<Message>>,
    child: Option<Child>,
}

/// A child that writes keys as they were at its start.
struct Child {
    keys: VecDeque<Message>,
    ends_ms: u64,
    fails: bool,
}

impl Export {
    fn append(&mut self, message: Message) {
        self.waiting.as_mut().unwrap_or(&mut self.sending).push_back(message);
    }

    pub fn unsent_bytes(&self) -> u64 {
        let waiting = self.waiting.as_ref().map_or(0, VecDeque::len);
        (self.sending.len() + waiting) as u64 * MESSAGE_BYTES
    }

    pub fn has_child(&self) -> bool {
        self.child.is_some()
    }
}

impl World {
    /// Continues a server's jobs after the events of its turn.
    pub fn run_migrations(&mut self, host: Host) {
        let now_ms = self.now_ms;
        let server = &mut self.servers[host];
        let now = server.now(now_ms);
        let Some(cluster) = server.cluster.as_mut().filter(|cluster| cluster.has_migrations()) else {
            return;
        };
        let exports = &server.exports;
        let may_fork = !exports.iter().any(Export::has_child) && self.random.below(8) != 0;
        let facts = MigrationFacts {
            may_fork,
            may_pause: self.random.below(50) != 0,
            authenticates: server.authenticates,
            unsent_bytes: &|id| {
                exports.iter().find(|export| export.job == id).map_or(0, Export::unsent_bytes)
            },
        };
        cluster.run_migrations(&facts, now);
        self.carry_out_effects(host);
    }

    /// What a server's connections of jobs do in a millisecond.
    pub fn serve_migrations(&mut self, host: Host) {
        let mut has_worked = false;
        for (id, end) in self.links.ends_at(host) {
            while let Some(message) = self.next_message(host, id, end) {
                has_worked = true;
                self.take_message(host, id, end, message);
                // A turn may read no more of a connection.
                if self.random.below(2) == 0 {
                    break;
                }
            }
        }
        let jobs: Vec<JobId> = self.servers[host].exports.iter().map(|export| export.job).collect();
        for job in jobs {
            has_worked |= self.send_some(host, job);
        }
        let has_jobs = self.servers[host].cluster.as_ref().is_some_and(|cluster| cluster.has_migrations());
        if has_worked || has_jobs && self.now_ms.is_multiple_of(10) {
            self.turn(host, Vec::new());
        }
    }

    fn next_message(&mut self, host: Host, id: u64, end: usize) -> Option<Message> {
        // Changes of an import would violate the pause of a failover.
        let is_held = end == TARGET && self.servers[host].paused_until_ms > Some(self.now_ms);
        if is_held {
            return None;
        }
        self.links.receive(id, end)
    }

    fn send(&mut self, id: u64, to: usize, message: Message) {
        self.links.send(id, to, message, self.now_ms, (&self.network, &mut self.random));
    }

    fn close(&mut self, id: u64, end: usize) {
        self.links.close(id, end, self.now_ms, (&self.network, &mut self.random));
    }

    fn event(&mut self, host: Host, job: JobId, event: MigrationEvent) {
        let now = self.servers[host].now(self.now_ms);
        if let Some(cluster) = &mut self.servers[host].cluster {
            cluster.migration_event(job, event, now);
        }
        self.carry_out_effects(host);
    }

    /// Carries out an action for a job.
    pub fn carry_out_migration(&mut self, host: Host, job: JobId, action: MigrationAction) {
        match action {
            MigrationAction::Connect { address, .. } => self.connect(host, job, &address.to_string()),
            MigrationAction::Authenticate => self.append(host, job, Message::Authenticate),
            MigrationAction::Establish => {
                let Some(cluster) = &self.servers[host].cluster else { return };
                let Some(job) = cluster.migration(job) else { return };
                let (source, name) = (cluster.my_id(), job.name());
                let (id, ranges) = (job.id(), job.ranges().to_vec());
                self.append(host, id, Message::Establish { source, name, ranges });
            }
            MigrationAction::Send(word) => self.send_word(host, job, word),
            MigrationAction::Snapshot => self.start_child(host, job),
            MigrationAction::Close => self.close_job(host, job),
            MigrationAction::Hide(slots) => self.servers[host].hidden.insert_all(&slots),
            MigrationAction::Show(slots) => self.servers[host].hidden.remove_all(&slots),
            MigrationAction::DeleteKeys(slots) => self.delete_keys(host, slots.iter()),
            MigrationAction::Finish { name, succeeded, .. } => {
                self.record(host, Change::Finish(name, succeeded));
                if succeeded {
                    self.note_claim(host, job);
                }
            }
        }
    }

    fn connect(&mut self, host: Host, job: JobId, address: &str) {
        let target = host_of(address);
        let link = self.links.open(host, target, job);
        let answer = if self.servers[target].runs() { Message::Connected } else { Message::Refused };
        self.send(link, SOURCE, answer);
        let export = Export { job, link, sending: VecDeque::new(), waiting: None, child: None };
        self.servers[host].exports.push(export);
    }

    fn export_mut(&mut self, host: Host, job: JobId) -> Option<&mut Export> {
        self.servers[host].exports.iter_mut().find(|export| export.job == job)
    }

    fn append(&mut self, host: Host, job: JobId, message: Message) {
        if let Some(export) = self.export_mut(host, job) {
            export.append(message);
        }
    }

    fn send_word(&mut self, host: Host, job: JobId, word: Word) {
        if matches!(word, Word::Paused | Word::RequestFailover | Word::FailoverGranted) {
            let link = self.links.links.values().find(|link| link.ends[SOURCE] == host && link.export == job);
            let import = self.link_of_import(host, job).and_then(|id| self.links.links.get(&id));
            self.handovers.extend(link.or(import).map(|link| link.ends));
        }
        if let Some(export) = self.export_mut(host, job) {
            match word {
                // In front of the changes.
                Word::SnapshotEof => export.sending.push_back(Message::Word(word)),
                _ => export.append(Message::Word(word)),
            }
        } else if let Some(id) = self.link_of_import(host, job) {
            self.send(id, SOURCE, Message::Word(word));
        }
    }

    fn link_of_import(&self, host: Host, job: JobId) -> Option<u64> {
        let mut links = self.links.links.iter();
        let is_its = |link: &crate::link::Link| {
            link.ends[TARGET] == host && link.is_open[TARGET] && link.import == Some(job)
        };
        links.find(|(_, link)| is_its(link)).map(|(id, _)| *id)
    }

    fn start_child(&mut self, host: Host, job: JobId) {
        if self.random.below(100) < SNAPSHOTS_FAILING {
            return self.event(host, job, MigrationEvent::SnapshotNotStarted);
        }
        let Some(cluster) = &self.servers[host].cluster else { return };
        let Some(slots) = cluster.migration(job).map(|job| job.slots().clone()) else { return };
        let keys = self.servers[host].data.store.iter().filter(|((slot, _), _)| slots.contains(*slot));
        let keys = keys.map(|(key, writes)| Message::Change(Rc::new(Change::Append(*key, writes.clone()))));
        let child = Child {
            keys: keys.collect(),
            ends_ms: self.now_ms + self.random.below(500),
            fails: self.random.below(100) < SNAPSHOTS_FAILING,
        };
        if let Some(export) = self.export_mut(host, job) {
            (export.child, export.waiting) = (Some(child), Some(VecDeque::new()));
        }
    }

    /// Closes this end of a job's connection; what is unsent is dropped.
    fn close_job(&mut self, host: Host, job: JobId) {
        let exports = &mut self.servers[host].exports;
        let place = exports.iter().position(|export| export.job == job);
        if let Some(export) = place.map(|place| exports.remove(place)) {
            self.close(export.link, SOURCE);
        } else if let Some(id) = self.link_of_import(host, job) {
            self.close(id, TARGET);
        }
    }

    /// Reads from the child and writes to the connection; returns whether that changed something.
    fn send_some(&mut self, host: Host, job: JobId) -> bool {
        let now_ms = self.now_ms;
        let Some(export) = self.export_mut(host, job) else { return false };
        let mut ended = None;
        if let Some(child) = &mut export.child {
            while export.sending.len() < AHEAD_MAX
                && let Some(key) = child.keys.pop_front()
            {
                export.sending.push_back(key);
            }
            if child.keys.is_empty() && child.ends_ms <= now_ms {
                ended = Some(!child.fails);
                export.child = None;
            }
        }
        if let Some(succeeded) = ended {
            self.event(host, job, MigrationEvent::SnapshotEnded { succeeded, copied_bytes: 0 });
        }
        let mut has_sent = ended.is_some();
        while let Some((link, message)) = self.next_to_send(host, job) {
            has_sent = true;
            self.send(link, TARGET, message);
        }
        has_sent
    }

    fn next_to_send(&mut self, host: Host, job: JobId) -> Option<(u64, Message)> {
        let link = self.export_mut(host, job)?.link;
        if !self.links.has_room(link) {
            return None;
        }
        let export = self.export_mut(host, job)?;
        let message = export.sending.pop_front();
        if export.sending.is_empty()
            && export.child.is_none()
            && let Some(waiting) = export.waiting.take()
        {
            export.sending = waiting;
        }
        message.map(|message| (link, message))
    }

    /// Gives a change of this server to the target of its slot.
    pub fn feed_exports(&mut self, host: Host, change: &Rc<Change>) {
        let cluster = self.servers[host].cluster.as_ref();
        let job = cluster.and_then(|cluster| cluster.export_of(change.slot()?));
        if let Some(job) = job {
            self.append(host, job, Message::Change(Rc::clone(change)));
        }
    }

    fn take_message(&mut self, host: Host, id: u64, end: usize, message: Message) {
        let Some(link) = self.links.links.get(&id) else { return };
        let job = if end == SOURCE { Some(link.export) } else { link.import };
        match (message, job) {
            (Message::Closed, _) => self.connection_lost(host, id, end, job),
            (Message::Connected, Some(job)) => self.event(host, job, MigrationEvent::Connected),
            (Message::Refused, Some(job)) => {
                self.event(host, job, MigrationEvent::ConnectingFailed("refused".to_string()));
            }
            (Message::Reply(line), Some(job)) => self.event(host, job, MigrationEvent::Replied(line)),
            (Message::Authenticate, _) => self.send(id, SOURCE, Message::Reply(b"+OK".to_vec())),
            (Message::Establish { source, name, ranges }, _) => {
                let line = match self.establish(host, id, source, name, ranges) {
                    Ok(()) => b"+OK".to_vec(),
                    Err(refusal) => format!("-ERR {refusal}").into_bytes(),
                };
                self.send(id, SOURCE, Message::Reply(line));
            }
            (Message::Word(word), Some(job)) => {
                self.note_input(host, end, job);
                self.event(host, job, MigrationEvent::Received(Some(word)));
            }
            (Message::Change(change), Some(job)) => {
                self.note_input(host, end, job);
                self.apply_change(host, job, &change);
            }
            (_, None) => {}
        }
    }

    fn note_input(&mut self, host: Host, end: usize, job: JobId) {
        let now = self.servers[host].now(self.now_ms);
        if let Some(cluster) = self.servers[host].cluster.as_mut().filter(|_| end == TARGET) {
            cluster.note_migration_input(job, now);
        }
    }

    fn connection_lost(&mut self, host: Host, id: u64, end: usize, job: Option<JobId>) {
        self.servers[host].exports.retain(|export| export.link != id);
        self.close(id, end);
        if let Some(job) = job {
            self.event(host, job, MigrationEvent::Disconnected);
        }
    }

    /// ESTABLISH on the target.
    fn establish(
        &mut self,
        host: Host,
        id: u64,
        source: NodeId,
        name: NodeId,
        ranges: Ranges,
    ) -> Result<(), Refusal> {
        let now = self.servers[host].now(self.now_ms);
        let Some(cluster) = &mut self.servers[host].cluster else { return Ok(()) };
        cluster.check_may_migrate()?;
        let source = cluster.find_source(source.as_bytes())?;
        let mut owner = None;
        ranges.iter().try_for_each(|range| cluster.check_range(*range, &mut owner))?;
        cluster.check_import(&ranges)?;
        if owner != Some(source) {
            return Err(Refusal::OtherOwner);
        }
        cluster.check_name(name)?;
        let job = cluster.establish_import(name, Some(source), ranges.clone(), now);
        if let Some(link) = self.links.links.get_mut(&id) {
            link.import = Some(job);
        }
        self.record(host, Change::Establish(name, ranges));
        self.carry_out_effects(host);
        Ok(())
    }

    /// Runs a change of the source.
    fn apply_change(&mut self, host: Host, job: JobId, change: &Rc<Change>) {
        let cluster = self.servers[host].cluster.as_ref();
        let slots = cluster.and_then(|cluster| cluster.migration(job)).map(|job| job.slots().clone());
        let is_of_job = change.slot().is_some_and(|slot| slots.is_some_and(|slots| slots.contains(slot)));
        let fate = self.random.below(100_000);
        if !is_of_job || fate < CHANGES_FAILING / 2 {
            return self.event(host, job, MigrationEvent::CommandFailed);
        }
        if fate < CHANGES_FAILING {
            return self.event(host, job, MigrationEvent::OutOfMemory);
        }
        self.record(host, (**change).clone());
    }

    /// Adds a change of this server to its data and to what replicas and targets are sent.
    pub fn record(&mut self, host: Host, change: Change) {
        self.changes += 1;
        let change = Rc::new(change);
        self.servers[host].data.apply(self.changes, Rc::clone(&change));
        self.feed_exports(host, &change);
    }

    /// Deletes the keys of slots, for copies of the data too.
    pub fn delete_keys(&mut self, host: Host, slots: impl Iterator<Item = u16>) {
        for slot in slots.filter(|slot| has_keys(*slot)).collect::<Vec<_>>() {
            if self.servers[host].data.writes_of(slot).next().is_some() {
                self.record(host, Change::DeleteSlot(slot));
            }
        }
    }

    /// Runs a change of the primary on a replica.
    pub fn repeat(&mut self, host: Host, number: u64, change: Rc<Change>) {
        let now = self.servers[host].now(self.now_ms);
        if let Some(cluster) = &mut self.servers[host].cluster {
            match &*change {
                Change::Establish(name, ranges) => track(cluster, *name, ranges, now),
                Change::Finish(name, succeeded) => {
                    cluster.finish_tracked_import(name.as_bytes(), *succeeded, None, now);
                }
                Change::Append(..) | Change::DeleteSlot(_) => {}
            }
        }
        self.servers[host].data.apply(number, change);
        self.carry_out_effects(host);
    }

    /// Takes up the imports of data that has been loaded or copied.
    pub fn take_up_imports(&mut self, host: Host, replaces: bool) {
        let server = &mut self.servers[host];
        let now = server.now(self.now_ms);
        let Some(cluster) = &mut server.cluster else { return };
        if replaces {
            cluster.drop_imports("Full resynchronization occurred", now);
        }
        self.carry_out_effects(host);
        let server = &mut self.servers[host];
        let Some(cluster) = &mut server.cluster else { return };
        for (name, ranges) in &server.data.imports {
            track(cluster, *name, ranges, now);
        }
        self.carry_out_effects(host);
    }

    /// Own data has been loaded.
    pub fn data_loaded(&mut self, host: Host) {
        self.take_up_imports(host, false);
        let now = self.servers[host].now(self.now_ms);
        if let Some(cluster) = &mut self.servers[host].cluster {
            cluster.migrations_loaded(now);
        }
        self.carry_out_effects(host);
        self.run_migrations(host);
        self.verify_data(host);
        self.carry_out_effects(host);
    }

    /// Has the cluster compare its slots with those that have keys which are not hidden.
    pub fn verify_data(&mut self, host: Host) {
        let server = &mut self.servers[host];
        let slots = server.data.slots().into_iter().filter(|slot| !server.hidden.contains(*slot)).collect();
        if let Some(cluster) = &mut server.cluster {
            cluster.verify_data(&slots);
        }
    }
}

fn track(cluster: &mut cluster::Cluster, name: NodeId, ranges: &Ranges, now: cluster::Now) {
    if cluster.check_import(ranges).is_ok() {
        cluster.establish_import(name, None, ranges.clone(), now);
    }
}
