//! The target's side of a slot migration, an import, and the imports of a primary as its replicas track them.

use wire::cluster_bus::{NodeId, SlotSet};

use super::export::CLAIM_TIME_MS;
use super::{Job, JobId, JobState, MigrationAction, MigrationEvent, Operation, Ranges, Word};
use crate::action::{Level, Now};
use crate::cluster::Cluster;
use crate::refusal::Refusal;

/// Time for a claim to be saved and to reach the source.
const CLAIM_MARGIN_MS: u64 = 500;

impl Cluster {
    /// Returns the source of an import with this name.
    pub fn find_source(&self, name: &[u8]) -> Result<NodeId, Refusal> {
        let node = self.lookup(name).ok_or(Refusal::SourceUnknown)?;
        if node.is_myself() {
            return Err(Refusal::SourceIsMyself);
        }
        Ok(node.id)
    }

    /// Refuses a name of an unfinished import.
    pub fn check_name(&self, name: NodeId) -> Result<(), Refusal> {
        match self.imports().any(|job| job.name == name) {
            true => Err(Refusal::AlreadyImporting),
            false => Ok(()),
        }
    }

    /// Refuses slots of unfinished imports.
    pub fn check_import(&self, ranges: &[(u16, u16)]) -> Result<(), Refusal> {
        let mut slots = ranges.iter().flat_map(|&(first, last)| first..=last);
        match slots.any(|slot| self.is_in(Operation::Import, slot)) {
            true => Err(Refusal::AlreadyImporting),
            false => Ok(()),
        }
    }

    /// ESTABLISH: starts an import, of which slots and source have been checked. `source`: `None` if the import is that of
    /// this node's primary, or comes from a file. Returns the job.
    pub fn establish_import(
        &mut self,
        name: NodeId,
        source: Option<NodeId>,
        ranges: Ranges,
        now: Now,
    ) -> JobId {
        self.now = now;
        let id = self.next_job_id();
        let state = if source.is_some() { JobState::WaitingForAck } else { JobState::OnPrimary };
        let mut job = Job::new((id, name), Operation::Import, ranges, state, now);
        job.other = source;
        let slots = job.slots.clone();
        self.add_job(job);
        let description = self.migration(id).map(|job| job.description.clone()).unwrap_or_default();
        self.log(Level::Notice, format!("New slot import job created: {description}."));
        self.migration_effect(id, MigrationAction::Hide(slots));
        id
    }

    /// FINISH from this node's primary or from a file: the end of an import. Returns whether there was such a job.
    pub fn finish_tracked_import(
        &mut self,
        name: &[u8],
        succeeded: bool,
        message: Option<&str>,
        now: Now,
    ) -> bool {
        self.now = now;
        let Some(id) = self.imports().find(|job| job.name.as_bytes() == name).map(|job| job.id) else {
            return false;
        };
        // Its keys have been deleted by the commands before.
        self.close_import(id, if succeeded { JobState::Success } else { JobState::Failed }, message);
        true
    }

    /// Own data has been loaded: its imports have no source any more.
    pub fn migrations_loaded(&mut self, now: Now) {
        if self.myself().is_primary() {
            self.fail_imports("Process restarted", now);
        }
    }

    pub(super) fn import_event(&mut self, id: JobId, event: MigrationEvent) {
        let Some(job) = self.migration(id) else { return };
        let (state, description) = (job.state, job.description.clone());
        match (event, state) {
            (MigrationEvent::Received(Some(Word::SnapshotEof)), JobState::ReceivingSnapshot) => {
                let text = format!(
                    "Slot migration {description} successfully received slot snapshot. Beginning incremental stream..."
                );
                self.log(Level::Notice, text);
                self.send_word(id, Word::RequestPause);
                self.set_migration_state(id, JobState::WaitingForPaused);
            }
            (MigrationEvent::Received(Some(Word::Paused)), JobState::WaitingForPaused) => {
                let now_ms = self.now_ms();
                if let Some(job) = self.job_mut(id) {
                    job.asked_slots_ms = now_ms;
                }
                self.send_word(id, Word::RequestFailover);
                self.set_migration_state(id, JobState::FailoverRequested);
            }
            (MigrationEvent::Received(Some(Word::FailoverGranted)), JobState::FailoverRequested) => {
                self.set_migration_state(id, JobState::FailoverGranted);
            }
            (MigrationEvent::Received(Some(word)), _) => {
                let text = format!(
                    "Received unexpected CLUSTER SYNCSLOTS {} from slot migration {description} in state {}. Failing migration.",
                    word.name(),
                    state.name()
                );
                self.unexpected(id, text);
            }
            (MigrationEvent::OutOfMemory, _) => {
                self.log(Level::Warning, format!("Slot migration {description} failed due to OOM"));
                self.fail_migration(id, "Ran out of memory (OOM) during slot import");
            }
            _ => {}
        }
    }

    /// Continues an import as far as it can go without an event.
    pub(super) fn continue_import(&mut self, id: JobId) {
        let is_replica = self.myself().is_replica();
        let Some(job) = self.migration(id) else { return };
        match (job.state, is_replica) {
            (JobState::CleaningUp, false) => self.clean_up(id),
            // Its keys are the new primary's to delete.
            (JobState::CleaningUp, true) => {
                let (state, message) = (job.ends_as, job.message.clone());
                self.end_migration(id, state, message.as_deref());
            }
            (JobState::OnPrimary, false) => {
                self.fail_migration(id, "A failover occurred during slot import");
            }
            (JobState::OnPrimary, true) => {}
            (state, true) if state.is_in_progress() => self.track_from_now(id),
            (state, false) if state.is_in_progress() => self.take_slots_if_granted(id),
            _ => {}
        }
    }

    fn take_slots_if_granted(&mut self, id: JobId) {
        if !self.has_source(id) || self.faults.no_migration_failover {
            return;
        }
        let Some(job) = self.migration(id).filter(|job| job.state == JobState::FailoverGranted) else {
            return;
        };
        let Some(source) = job.other else { return };
        let (slots, description) = (job.slots.clone(), job.description.clone());
        if self.is_too_late_for_claim(job) {
            let text = format!("Slot migration {description}: the source may serve the slots again");
            self.log(Level::Warning, text);
            return self.fail_migration(id, "The pause of the source ended before this node took the slots");
        }
        self.claim_slots(&slots, source);
        let text = format!(
            "Slot migration {description} completed successfully. This node is now the owner of the slots"
        );
        self.log(Level::Notice, text);
        self.end_migration(id, JobState::Success, None);
    }

    /// From this node's request for the slots on, the source holds writes for [`CLAIM_TIME_MS`] at least; how much longer depends
    /// on its options. After that its clients may write: a claim would lose these writes.
    fn is_too_late_for_claim(&self, job: &Job) -> bool {
        self.now_ms() + CLAIM_MARGIN_MS >= job.asked_slots_ms + CLAIM_TIME_MS
    }

    /// Deletes the keys of a failed import, and ends it.
    fn clean_up(&mut self, id: JobId) {
        let Some(job) = self.migration(id) else { return };
        let (state, message) = (job.ends_as, job.message.clone());
        let foreign: SlotSet = job.slots.iter().filter(|slot| !self.owns(*slot)).collect();
        let text = format!("Cleaning up slot migration {} after {}", job.description, state.name());
        self.log(Level::Notice, text);
        self.migration_effect(id, MigrationAction::DeleteKeys(foreign));
        self.end_migration(id, state, message.as_deref());
    }

    /// This node has become a replica: its primary continues the import, or deletes its keys.
    fn track_from_now(&mut self, id: JobId) {
        if let Some(job) = self.job_mut(id) {
            job.other = None;
        }
        self.set_migration_state(id, JobState::OnPrimary);
        self.migration_effect(id, MigrationAction::Close);
    }

    /// Fails an import whose slots are no longer its source's. Returns whether it goes on.
    fn has_source(&mut self, id: JobId) -> bool {
        let source = self.migration(id).and_then(|job| job.other);
        let owner = match self.look_at_owner(id) {
            None => return source.is_some(),
            Some(owner) if owner.is_some() && owner == source => return true,
            Some(owner) => owner,
        };
        let message = match owner == Some(self.my_id()) {
            true => "Slots were unexpectedly assigned to myself during import",
            false => "Slots are no longer owned by source node",
        };
        self.fail_migration(id, message);
        false
    }
}
