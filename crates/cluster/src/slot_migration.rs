//! Atomic slot migration: slots move from one primary to another with their keys, and for clients in one step.
//!
//! ```text
//!  source: an export                                  target: an import
//!  connecting
//!  reading-auth-response      -- AUTH -------------->
//!  reading-establish-response -- ESTABLISH --------->  waiting-for-ack
//!  waiting-to-snapshot        -- ACK -------------->   receiving-snapshot
//!  snapshotting               -- keys ------------->
//!  replicating                -- SNAPSHOT-EOF ----->   waiting-for-paused
//!  waiting-to-pause           <------ REQUEST-PAUSE --
//!  failover-paused            -- changes, PAUSED -->   failover-requested
//!  failover-granted           <--- REQUEST-FAILOVER --
//!                             -- FAILOVER-GRANTED ->   failover-granted, success
//!  success                    <== claim on the bus ===
//! ```
//!
//! The connection is an ordinary client's; after ESTABLISH neither side replies. [`Effect::Migration`] is carried out for the
//! job that it names. A replica tracks its primary's imports, to hide their keys.
//!
//! 1. A slot is in at most one unfinished export and one unfinished import.
//! 2. The keys of an import are hidden from its creation to its end.
//! 3. The slots of exports in failover-granted, and no others, go to their job's target when it claims them, whatever the epochs.
//! 4. Writes to slots wait exactly while an unfinished export of them has `paused_until_ms`.

use std::collections::VecDeque;

use wire::cluster_bus::{Address, NodeId, SlotSet};

use crate::action::{Effect, Level, Now};
use crate::cluster::Cluster;
use crate::refusal::Refusal;

mod export;
mod import;
mod job;
#[cfg(test)]
mod tests;

pub use export::MigrationRequest;
pub use job::{Job, JobId, JobState, Operation, Ranges};

/// Period of ACKs.
const ACK_PERIOD_MS: u64 = 1000;
/// Length of a node's message that is kept.
const MESSAGE_LEN_MAX: usize = 1 << 14;

/// All jobs, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Migrations {
    jobs: VecDeque<Job>,
    next: u64,
    /// Jobs that are not finished.
    unfinished: usize,
    /// The pause in force as the executor knows it.
    paused: Option<(SlotSet, u64)>,
}

/// What a node sends the other during a job, as `CLUSTER SYNCSLOTS` and this word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A sign of life.
    Ack,
    /// Source: all keys have been sent.
    SnapshotEof,
    /// Target: the source is to pause writes.
    RequestPause,
    /// Source: there will be no more changes.
    Paused,
    /// Target: it wants to take the slots.
    RequestFailover,
    /// Source: it may.
    FailoverGranted,
}

impl Word {
    const ALL: [Word; 6] = [
        Word::Ack,
        Word::SnapshotEof,
        Word::RequestPause,
        Word::Paused,
        Word::RequestFailover,
        Word::FailoverGranted,
    ];

    /// The word on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Word::Ack => "ACK",
            Word::SnapshotEof => "SNAPSHOT-EOF",
            Word::RequestPause => "REQUEST-PAUSE",
            Word::Paused => "PAUSED",
            Word::RequestFailover => "REQUEST-FAILOVER",
            Word::FailoverGranted => "FAILOVER-GRANTED",
        }
    }

    /// Returns the word with this name.
    pub fn parse(name: &[u8]) -> Option<Word> {
        Word::ALL.into_iter().find(|word| word.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// What the executor does for a job.
#[derive(Clone, Debug, PartialEq)]
pub enum MigrationAction {
    /// Connects to the target's port for clients.
    Connect {
        /// The target's address.
        address: Address,
        /// Its port, for TLS if `tls-replication` is set.
        port: u16,
    },
    /// Sends AUTH with `primaryuser` and `primaryauth`.
    Authenticate,
    /// Sends `CLUSTER SYNCSLOTS ESTABLISH` for the job.
    Establish,
    /// Sends a word, behind what is to be sent already.
    Send(Word),
    /// Starts a child that writes the keys of the slots.
    Snapshot,
    /// Closes the connection, and ends the job's child.
    Close,
    /// Hides the keys of slots from commands that list keys, from expiry and eviction.
    Hide(SlotSet),
    /// Shows them again.
    Show(SlotSet),
    /// Deletes the keys of these slots.
    DeleteKeys(SlotSet),
    /// Propagates the end of an import: `CLUSTER SYNCSLOTS FINISH`.
    Finish {
        /// The job's name.
        name: NodeId,
        /// The slots are this node's.
        succeeded: bool,
        /// Why it has ended, if there is more to say.
        message: Option<String>,
    },
}

/// What happens to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationEvent {
    /// The connection is established.
    Connected,
    /// It cannot be established; the reason.
    ConnectingFailed(String),
    /// A line has been received as a reply, without its end.
    Replied(Vec<u8>),
    /// What has been received is no reply.
    ReplyTooLong,
    /// The connection has ended.
    Disconnected,
    /// A word has been received; `None`: an unknown one.
    Received(Option<Word>),
    /// The child has ended.
    SnapshotEnded {
        /// All keys have been read from it.
        succeeded: bool,
        /// Memory that it had to copy.
        copied_bytes: u64,
    },
    /// The child could not be started.
    SnapshotNotStarted,
    /// A received command would exceed `maxmemory`.
    OutOfMemory,
    /// A received command has failed, or is none of a migration.
    CommandFailed,
}

/// What the jobs depend on beside events.
pub struct MigrationFacts<'a> {
    /// A child can be started.
    pub may_fork: bool,
    /// No changes are held back that are not yet known: writes can be paused.
    pub may_pause: bool,
    /// `primaryauth` is set.
    pub authenticates: bool,
    /// Bytes of a job that have not been written to its connection.
    pub unsent_bytes: &'a dyn Fn(JobId) -> u64,
}

impl Cluster {
    /// Returns all jobs, the newest first.
    pub fn migrations(&self) -> impl Iterator<Item = &Job> {
        self.migrations.jobs.iter()
    }

    /// Returns a job.
    pub fn migration(&self, id: JobId) -> Option<&Job> {
        self.migrations.jobs.iter().find(|job| job.id == id)
    }

    /// Returns whether a job is not finished.
    pub fn has_migrations(&self) -> bool {
        self.migrations.unfinished > 0
    }

    /// Returns whether an export is not finished.
    pub fn has_exports(&self) -> bool {
        self.unfinished(Operation::Export).next().is_some()
    }

    /// Returns whether an import is not finished.
    pub fn has_imports(&self) -> bool {
        self.unfinished(Operation::Import).next().is_some()
    }

    /// Returns the export that needs a change of this slot.
    pub fn export_of(&self, slot: u16) -> Option<JobId> {
        let mut jobs = self.unfinished(Operation::Export).filter(|job| job.state.takes_changes());
        jobs.find(|job| job.slots.contains(slot) && self.owns(slot)).map(|job| job.id)
    }

    /// Returns the slots of unfinished imports with their jobs' names.
    pub fn imports(&self) -> impl Iterator<Item = &Job> {
        self.unfinished(Operation::Import)
    }

    fn unfinished(&self, operation: Operation) -> impl Iterator<Item = &Job> {
        // The newest jobs come first: those that have ended are not all visited.
        let unfinished = self.migrations.jobs.iter().filter(|job| !job.state.is_finished());
        unfinished.take(self.migrations.unfinished).filter(move |job| job.operation == operation)
    }

    fn is_in(&self, operation: Operation, slot: u16) -> bool {
        self.unfinished(operation).any(|job| job.slots.contains(slot))
    }

    /// Returns whether a node may claim a slot whatever the epochs are.
    pub(crate) fn is_granted(&self, slot: u16, claimant: NodeId) -> bool {
        let is_it = |job: &Job| {
            job.state == JobState::Granted && job.other == Some(claimant) && job.slots.contains(slot)
        };
        self.unfinished(Operation::Export).any(is_it)
    }

    /// Refuses SETSLOT while there are jobs.
    pub(crate) fn check_no_migrations(&self) -> Result<(), Refusal> {
        if self.has_imports() {
            return Err(Refusal::ImportInProgress);
        }
        if self.has_exports() {
            return Err(Refusal::ExportInProgress);
        }
        Ok(())
    }

    /// Refuses a migration on a replica, and while SETSLOT has slots in migrating or importing state.
    pub fn check_may_migrate(&self) -> Result<(), Refusal> {
        if self.myself().is_replica() {
            return Err(Refusal::MigrationOnReplica);
        }
        if !self.slots.importing.is_empty() {
            return Err(Refusal::ManualImport);
        }
        if !self.slots.migrating.is_empty() {
            return Err(Refusal::ManualMigration);
        }
        Ok(())
    }

    /// Refuses a range of slots that has no owner, or another than `owner`, which is found by the first range.
    pub fn check_range(&self, (first, last): (u16, u16), owner: &mut Option<NodeId>) -> Result<(), Refusal> {
        if first > last {
            return Err(Refusal::MigrationReversed(first, last));
        }
        for slot in first..=last {
            let node = self.owner_id(slot).ok_or(Refusal::SlotNotServed(slot))?;
            if *owner.get_or_insert(node) != node {
                return Err(Refusal::SeveralShards);
            }
        }
        Ok(())
    }

    /// Takes an event of a job; one that has ended ignores it.
    pub fn migration_event(&mut self, id: JobId, event: MigrationEvent, now: Now) {
        self.now = now;
        let Some(job) = self.migration(id).filter(|job| job.state.is_in_progress()) else { return };
        match (job.operation, event) {
            (_, MigrationEvent::Received(Some(Word::Ack))) => self.take_ack(id),
            (_, MigrationEvent::Received(None)) => {
                let text = format!(
                    "Received unknown SYNCSLOTS subcommand from slot migration {}. Failing the migration.",
                    job.description
                );
                self.log(Level::Warning, text);
                self.fail_migration(id, "Unknown SYNCSLOTS subcommand used");
            }
            // What the target sends now changes nothing: its claim, or the end of the pause, decides.
            (Operation::Export, MigrationEvent::CommandFailed) if job.state == JobState::Granted => {}
            (_, MigrationEvent::CommandFailed) => self.fail_migration(
                id,
                "Failed to process command during slot migration. Check logs for more information",
            ),
            (_, MigrationEvent::Disconnected) => self.connection_lost(id),
            (Operation::Export, event) => self.export_event(id, event),
            (Operation::Import, event) => self.import_event(id, event),
        }
        // Without a job in progress there may be no turn that continues the jobs.
        self.publish_pause();
    }

    fn take_ack(&mut self, id: JobId) {
        let now = self.now;
        let Some(job) = self.job_mut(id) else { return };
        (job.acknowledged_s, job.received_ms) = (now.unix_ms / 1000, now.monotonic_ms);
        if job.state == JobState::WaitingForAck {
            self.set_migration_state(id, JobState::ReceivingSnapshot);
        }
    }

    fn connection_lost(&mut self, id: JobId) {
        // A job that runs elsewhere needs no connection.
        let Some(job) = self.migration(id).filter(|job| job.other.is_some()) else { return };
        let (state, is_export) = (job.state, job.is_export());
        let text = format!("Slot migration {} connection lost", job.description);
        self.log(Level::Notice, text);
        // The target may own the slots: its claim, or the end of the pause, decides.
        if state != JobState::Granted {
            let (other, end) = if is_export { ("target", "target") } else { ("source", "source") };
            let message = format!(
                "Connection lost to {other}. Check CLUSTER GETSLOTMIGRATIONS on the {end} node for more information."
            );
            self.fail_migration(id, &message);
        }
    }

    /// Continues all jobs; called at the end of each turn while there are any, but not while data is loaded.
    pub fn run_migrations(&mut self, facts: &MigrationFacts<'_>, now: Now) {
        self.now = now;
        let unfinished = self.migrations.jobs.iter().filter(|job| !job.state.is_finished());
        let unfinished: Vec<JobId> = unfinished.map(|job| job.id).collect();
        for id in unfinished {
            self.end_if_silent(id);
            match self.migration(id).map(Job::operation) {
                Some(Operation::Export) => self.continue_export(id, facts),
                Some(Operation::Import) => self.continue_import(id),
                None => {}
            }
            self.acknowledge(id);
        }
        self.publish_pause();
        self.trim_migration_log();
    }

    fn end_if_silent(&mut self, id: JobId) {
        let (now_ms, timeout_ms) = (self.now_ms(), self.settings.replication_timeout_s.saturating_mul(1000));
        let Some(job) = self.migration(id) else { return };
        let may_be_silent = matches!(job.state, JobState::Granted | JobState::OnPrimary);
        if !job.state.is_in_progress()
            || may_be_silent
            || now_ms.saturating_sub(job.received_ms) <= timeout_ms
        {
            return;
        }
        let text =
            format!("Timing out slot migration {} after not receiving ack for too long", job.description);
        self.log(Level::Warning, text);
        self.fail_migration(id, "Timed out after too long with no interaction");
    }

    fn acknowledge(&mut self, id: JobId) {
        let now_ms = self.now_ms();
        let Some(job) = self.job_mut(id) else { return };
        if job.state.acknowledges() && now_ms.saturating_sub(job.sent_ms) >= ACK_PERIOD_MS {
            self.send_word(id, Word::Ack);
        }
    }

    fn send_word(&mut self, id: JobId, word: Word) {
        let now_ms = self.now_ms();
        if let Some(job) = self.job_mut(id) {
            job.sent_ms = now_ms;
        }
        self.migration_effect(id, MigrationAction::Send(word));
    }

    /// Records a command of a job's connection, which is a sign of life.
    pub fn note_migration_input(&mut self, id: JobId, now: Now) {
        if let Some(job) = self.job_mut(id) {
            job.received_ms = now.monotonic_ms;
        }
    }

    /// Fails all jobs in progress, because data was removed that they depend on. An export whose target may have the slots
    /// already goes on: its writes wait.
    pub fn fail_migrations(&mut self, message: &str, now: Now) {
        self.fail_those(|_| true, message, now);
    }

    /// As [`Self::fail_migrations`], jobs of one slot.
    pub fn fail_migrations_of(&mut self, slot: u16, message: &str, now: Now) {
        self.fail_those(|job| job.slots.contains(slot), message, now);
    }

    /// Fails all exports: their targets would lack a change.
    pub fn fail_exports(&mut self, message: &str, now: Now) {
        self.fail_those(Job::is_export, message, now);
    }

    fn fail_those(&mut self, fails: impl Fn(&Job) -> bool, message: &str, now: Now) {
        self.now = now;
        let may_fail =
            |job: &&Job| job.state.is_in_progress() && job.state != JobState::Granted && fails(job);
        for id in self.migrations.jobs.iter().filter(may_fail).map(|job| job.id).collect::<Vec<_>>() {
            self.fail_migration(id, message);
        }
        self.publish_pause();
    }

    /// As [`Self::fail_migrations`], imports alone.
    pub fn fail_imports(&mut self, message: &str, now: Now) {
        self.now = now;
        let imports = self.unfinished(Operation::Import).filter(|job| job.state.is_in_progress());
        for id in imports.map(|job| job.id).collect::<Vec<_>>() {
            self.fail_migration(id, message);
        }
    }

    /// Ends all imports without a trace and forgets ended jobs, because data with imports of its own is loaded.
    pub fn drop_imports(&mut self, why: &str, now: Now) {
        self.now = now;
        let imports: Vec<JobId> = self.unfinished(Operation::Import).map(|job| job.id).collect();
        for id in imports {
            self.close_import(id, JobState::Failed, Some(why));
        }
        self.trim_migrations(0);
    }

    /// Forgets the oldest of the jobs that have ended, as the option wants it.
    pub(crate) fn trim_migration_log(&mut self) {
        self.trim_migrations(self.settings.slot_migration_log_len_max);
    }

    fn trim_migrations(&mut self, len_max: usize) {
        let mut surplus = self.migrations.jobs.len().saturating_sub(len_max);
        if surplus == 0 {
            return;
        }
        // The oldest are last.
        let mut kept = VecDeque::with_capacity(len_max);
        while let Some(job) = self.migrations.jobs.pop_back() {
            match surplus > 0 && job.state.is_finished() {
                true => surplus -= 1,
                false => kept.push_front(job),
            }
        }
        self.migrations.jobs = kept;
    }

    /// Returns the owner of all slots of a job, unless they have several; `None`: slots have not changed owners since the
    /// last call.
    fn look_at_owner(&mut self, id: JobId) -> Option<Option<NodeId>> {
        let changes = self.slots.changes;
        let job = self.job_mut(id)?;
        if job.looked_at == Some(changes) {
            return None;
        }
        job.looked_at = Some(changes);
        let job = self.migration(id)?;
        let mut owner = None;
        let has_one = job.ranges.iter().all(|range| self.check_range(*range, &mut owner).is_ok());
        Some(owner.filter(|_| has_one))
    }

    fn job_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.migrations.jobs.iter_mut().find(|job| job.id == id)
    }

    fn show(&mut self, id: JobId) {
        if let Some(slots) = self.migration(id).map(|job| job.slots.clone()) {
            self.migration_effect(id, MigrationAction::Show(slots));
        }
    }

    fn migration_effect(&mut self, id: JobId, action: MigrationAction) {
        self.effect(Effect::Migration(id, action));
    }

    fn next_job_id(&mut self) -> JobId {
        self.migrations.next += 1;
        JobId(self.migrations.next)
    }

    fn add_job(&mut self, mut job: Job) {
        job.description = self.describe(&job);
        self.migrations.unfinished += 1;
        self.migrations.jobs.push_front(job);
    }

    /// How the log names a job.
    fn describe(&self, job: &Job) -> String {
        let (operation, other) = match job.operation {
            Operation::Export => ("export", "target_node"),
            Operation::Import => ("import", "source_node"),
        };
        let node = job.other.and_then(|id| self.nodes.get(id));
        let id = node.map_or_else(|| "unknown".to_owned(), |node| node.id.to_string());
        let human = node.map(|node| node.endpoints.nodename.to_string()).filter(|name| !name.is_empty());
        let human = human.map_or_else(String::new, |name| format!(" {other}_human_name: {name},"));
        let (name, slots) = (job.name, job.ranges_text());
        format!("{{name: {name}, operation: {operation}, {other}_id: {id},{human} slots: {slots}}}")
    }

    fn set_migration_state(&mut self, id: JobId, state: JobState) {
        let now_s = self.now.unix_ms / 1000;
        let Some(job) = self.job_mut(id) else { return };
        let text = format!(
            "Slot migration {} state transition: {} -> {}",
            job.description,
            job.state.name(),
            state.name()
        );
        let ends = state.is_finished() && !job.state.is_finished();
        (job.state, job.updated_s) = (state, now_s);
        self.migrations.unfinished -= usize::from(ends);
        self.log(Level::Notice, text);
    }

    fn fail_migration(&mut self, id: JobId, message: &str) {
        self.end_migration(id, JobState::Failed, Some(message));
    }

    /// An event that does not fit the job's state.
    fn unexpected(&mut self, id: JobId, text: String) {
        self.log(Level::Warning, text);
        self.fail_migration(id, "Unexpected state machine transition");
    }

    /// Ends a job; an import whose keys are here is cleaned up first.
    fn end_migration(&mut self, id: JobId, state: JobState, message: Option<&str>) {
        let is_primary = self.myself().is_primary();
        let Some(job) = self.job_mut(id) else { return };
        job.paused_until_ms = None;
        let is_import = job.operation == Operation::Import;
        let needs_cleaning = is_import
            && is_primary
            && state != JobState::Success
            && job.state != JobState::CleaningUp
            && !job.state.is_finished();
        job.ends_as = state;
        let was_finished = job.state.is_finished();
        self.set_message(id, message);
        self.set_migration_state(id, if needs_cleaning { JobState::CleaningUp } else { state });
        self.migration_effect(id, MigrationAction::Close);
        if needs_cleaning {
            return;
        }
        self.log_end(id, state);
        if is_import && !was_finished {
            self.show(id);
            if is_primary {
                self.propagate_end(id);
            }
        }
    }

    /// Ends an import whose keys are as its source or this node's primary has left them.
    fn close_import(&mut self, id: JobId, state: JobState, message: Option<&str>) {
        self.set_migration_state(id, state);
        self.set_message(id, message);
        self.migration_effect(id, MigrationAction::Close);
        self.log_end(id, state);
        self.show(id);
    }

    fn propagate_end(&mut self, id: JobId) {
        let Some(job) = self.migration(id) else { return };
        let (name, message) = (job.name, job.message.clone());
        let succeeded = job.state == JobState::Success;
        self.migration_effect(id, MigrationAction::Finish { name, succeeded, message });
    }

    fn set_message(&mut self, id: JobId, message: Option<&str>) {
        if let Some(job) = self.job_mut(id) {
            job.message = message.map(|text| text.chars().take(MESSAGE_LEN_MAX).collect());
        }
    }

    fn log_end(&mut self, id: JobId, state: JobState) {
        let Some(job) = self.migration(id) else { return };
        let text = format!(
            "Slot migration {} finished. State: {}, Message: {}",
            job.description,
            state.name(),
            job.message().unwrap_or("none")
        );
        self.log(if state == JobState::Failed { Level::Warning } else { Level::Notice }, text);
    }
}
