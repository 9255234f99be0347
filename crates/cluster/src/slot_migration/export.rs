//! The source's side of a slot migration: an export.

use wire::cluster_bus::{NodeId, SlotSet};

use super::{Job, JobId, JobState, MigrationAction, MigrationEvent, MigrationFacts, Operation, Ranges, Word};
use crate::action::{Effect, Level, Now};
use crate::cluster::Cluster;
use crate::refusal::Refusal;

/// A pause lasts this multiple of `cluster-manual-failover-timeout`.
const PAUSE_FACTOR: u64 = 2;
/// A granted target has at least this time to claim the slots before writes go on.
pub(super) const CLAIM_TIME_MS: u64 = 2000;
/// A target that has all keys is not kept waiting for few unsent bytes for longer: under a steady load there may never be few.
const WAIT_TO_PAUSE_MS: u64 = 2000;
/// With more than this unsent there is no pause: it could end before the bytes have been sent.
const PAUSE_BYTES_MAX: u64 = 16 << 20;

/// What CLUSTER MIGRATESLOTS asks for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationRequest {
    /// The slots, which this node owns.
    pub ranges: Ranges,
    /// The target.
    pub target: NodeId,
}

impl Cluster {
    /// Refuses slots that this node does not serve, or that are exported already. `owner` serves the slots of `ranges`.
    pub fn check_export(&self, ranges: &[(u16, u16)], owner: Option<NodeId>) -> Result<(), Refusal> {
        if owner != Some(self.my_id()) {
            return Err(Refusal::SlotsNotServedHere);
        }
        let mut slots = ranges.iter().flat_map(|&(first, last)| first..=last);
        match slots.find(|slot| self.is_in(Operation::Export, *slot)) {
            Some(slot) => Err(Refusal::AlreadyMigrating(slot)),
            None => Ok(()),
        }
    }

    /// Returns the target with this name.
    pub fn find_target(&self, name: &[u8]) -> Result<NodeId, Refusal> {
        let shown = || String::from_utf8_lossy(name).into_owned();
        if name.len() != NodeId::LEN {
            return Err(Refusal::BadNodeName(shown()));
        }
        let node = self.lookup(name).ok_or_else(|| Refusal::UnknownNodeName(shown()))?;
        if node.is_myself() {
            return Err(Refusal::MigrationToMyself);
        }
        Ok(node.id)
    }

    /// MIGRATESLOTS: starts jobs. The requests have been checked. `requested_by` names the client in the log.
    pub fn migrate_slots(&mut self, requests: Vec<MigrationRequest>, requested_by: &str, now: Now) {
        self.now = now;
        for MigrationRequest { ranges, target } in requests {
            let id = self.next_job_id();
            let names = (id, self.new_id());
            let mut job = Job::new(names, Operation::Export, ranges, JobState::Connecting, now);
            job.other = Some(target);
            self.add_job(job);
            let Some(job) = self.migration(id) else { continue };
            let text = format!(
                "Slot migration initiated through CLUSTER MIGRATESLOTS command: {} (user request from '{requested_by}')",
                job.description
            );
            self.log(Level::Notice, text);
            self.connect_export(id, target);
        }
    }

    /// CANCELSLOTMIGRATIONS: ends all exports in progress.
    pub fn cancel_migrations(&mut self, requested_by: &str, now: Now) -> Result<(), Refusal> {
        self.now = now;
        let exports: Vec<JobId> = self.unfinished(Operation::Export).map(|job| job.id).collect();
        if exports.is_empty() {
            return Err(Refusal::NoMigrations);
        }
        for id in exports {
            if let Some(job) = self.migration(id).filter(|job| job.state == JobState::Granted) {
                let text = format!(
                    "Write loss risk! Slot migration {} is canceled while its target may take the slots.",
                    job.description
                );
                self.log(Level::Warning, text);
            }
            self.end_migration(id, JobState::Cancelled, None);
        }
        self.publish_pause();
        let text = format!("Canceled all in progress slot migrations (user request from '{requested_by}')");
        self.log(Level::Notice, text);
        Ok(())
    }

    fn connect_export(&mut self, id: JobId, target: NodeId) {
        let tls = self.settings.tls_replication;
        let place = self.nodes.get(target).and_then(|node| {
            let port = if tls { node.endpoints.tls_port } else { node.endpoints.tcp_port };
            Some((node.address.clone()?, port))
        });
        let Some((address, port)) = place else {
            return self.fail_migration(id, "Unable to connect to target node: target node not found");
        };
        let Some(job) = self.migration(id) else { return };
        let text = format!("Connecting slot migration {} (ip: {address}, port {port})", job.description);
        self.log(Level::Notice, text);
        self.migration_effect(id, MigrationAction::Connect { address, port });
    }

    pub(super) fn export_event(&mut self, id: JobId, event: MigrationEvent) {
        let Some(job) = self.migration(id) else { return };
        let (state, description) = (job.state, job.description.clone());
        match (event, state) {
            (MigrationEvent::Connected, JobState::Connecting) => {
                self.log(Level::Notice, format!("Slot migration {description} connection established."));
                self.set_migration_state(id, JobState::SendingAuth);
            }
            (MigrationEvent::ConnectingFailed(reason), _) => {
                self.fail_migration(id, &format!("Unable to connect to target node: {reason}"));
            }
            (MigrationEvent::Replied(line), JobState::ReadingAuth) => self.take_auth_reply(id, &line),
            (MigrationEvent::Replied(line), JobState::ReadingEstablish) => {
                self.take_establish_reply(id, &line);
            }
            (MigrationEvent::ReplyTooLong, _) => {
                self.fail_migration(id, "Response to establish job is larger than buffer limit");
            }
            (MigrationEvent::SnapshotNotStarted, _) => {
                let text = format!("Slot migration {description} failed to start slot snapshot");
                self.log(Level::Warning, text);
                self.fail_migration(id, "Failed to start snapshot");
            }
            (MigrationEvent::SnapshotEnded { succeeded, copied_bytes }, JobState::Snapshotting) => {
                self.snapshot_ended(id, succeeded, copied_bytes);
            }
            (MigrationEvent::Received(Some(Word::RequestPause)), JobState::Replicating) => {
                self.set_migration_state(id, JobState::WaitingToPause);
            }
            (MigrationEvent::Received(Some(Word::RequestFailover)), JobState::Paused) => {
                self.grant(id);
            }
            (MigrationEvent::Received(Some(word)), _) => {
                let text = format!(
                    "Received CLUSTER SYNCSLOTS {} for slot migration {description} in state {}. Failing migration.",
                    word.name(),
                    state.name()
                );
                self.unexpected(id, text);
            }
            _ => {}
        }
    }

    fn take_auth_reply(&mut self, id: JobId, line: &[u8]) {
        if line.starts_with(b"-") {
            let reason = String::from_utf8_lossy(line);
            return self.fail_migration(id, &format!("Failed to AUTH to target node: {reason}"));
        }
        let Some(job) = self.migration(id) else { return };
        let text = format!("Successfully authenticated slot migration {}", job.description);
        self.log(Level::Notice, text);
        self.set_migration_state(id, JobState::SendingEstablish);
    }

    fn take_establish_reply(&mut self, id: JobId, line: &[u8]) {
        if line.starts_with(b"-") {
            let reason = String::from_utf8_lossy(line);
            let message = format!("Received error during handshake to target: {reason}");
            return self.fail_migration(id, &message);
        }
        self.set_migration_state(id, JobState::WaitingToSnapshot);
        // Takes the import out of waiting-for-ack.
        self.send_word(id, Word::Ack);
    }

    fn snapshot_ended(&mut self, id: JobId, succeeded: bool, copied_bytes: u64) {
        let now_ms = self.now_ms();
        let Some(job) = self.job_mut(id) else { return };
        job.copied_bytes = copied_bytes;
        // While keys were sent no ACK was expected.
        job.received_ms = now_ms;
        let description = job.description.clone();
        if !succeeded {
            let text = format!("Child process failed to snapshot slot migration {description}");
            self.log(Level::Warning, text);
            return self.fail_migration(id, "Failed to perform snapshot");
        }
        self.send_word(id, Word::SnapshotEof);
        self.set_migration_state(id, JobState::Replicating);
        let text = format!("Slot migration {description} snapshot finished, starting streaming.");
        self.log(Level::Notice, text);
    }

    /// The target has all changes.
    fn grant(&mut self, id: JobId) {
        let now_ms = self.now_ms();
        let Some(job) = self.job_mut(id) else { return };
        let Some(until_ms) = job.paused_until_ms.filter(|until_ms| *until_ms > now_ms) else {
            let text = format!(
                "Received CLUSTER SYNCSLOTS REQUEST-FAILOVER on slot migration {}, but we are not paused. Denying failover.",
                job.description
            );
            self.log(Level::Warning, text);
            return self.fail_migration(id, "Unpaused before failover completed");
        };
        job.paused_until_ms = Some(until_ms.max(now_ms + CLAIM_TIME_MS));
        self.publish_pause();
        self.send_word(id, Word::FailoverGranted);
        self.set_migration_state(id, JobState::Granted);
    }

    /// Continues an export as far as it can go without an event.
    pub(super) fn continue_export(&mut self, id: JobId, facts: &MigrationFacts<'_>) {
        if !self.still_owns_exported(id) {
            return;
        }
        let Some(job) = self.migration(id) else { return };
        match job.state {
            JobState::SendingAuth if facts.authenticates => {
                self.migration_effect(id, MigrationAction::Authenticate);
                self.set_migration_state(id, JobState::ReadingAuth);
            }
            JobState::SendingAuth | JobState::SendingEstablish => {
                if job.state == JobState::SendingAuth {
                    self.set_migration_state(id, JobState::SendingEstablish);
                }
                self.migration_effect(id, MigrationAction::Establish);
                self.set_migration_state(id, JobState::ReadingEstablish);
            }
            JobState::WaitingToSnapshot if facts.may_fork && !self.is_snapshotting() => {
                let text = format!("Beginning snapshot of slot migration {}.", job.description);
                self.log(Level::Notice, text);
                self.set_migration_state(id, JobState::Snapshotting);
                self.migration_effect(id, MigrationAction::Snapshot);
            }
            JobState::WaitingToPause if facts.may_pause => {
                self.pause_if_few_unsent(id, (facts.unsent_bytes)(id))
            }
            JobState::Paused | JobState::Granted => self.end_if_pause_is_over(id),
            _ => {}
        }
    }

    fn is_snapshotting(&self) -> bool {
        self.unfinished(Operation::Export).any(|job| job.state == JobState::Snapshotting)
    }

    /// Ends an export whose slots have gone: to its target, or elsewhere. Returns whether it goes on.
    fn still_owns_exported(&mut self, id: JobId) -> bool {
        let owner = match self.look_at_owner(id) {
            None => return self.migration(id).is_some(),
            Some(owner) if owner == Some(self.my_id()) => return true,
            Some(owner) => owner,
        };
        let Some(job) = self.migration(id) else { return false };
        let (description, target) = (job.description.clone(), job.other);
        let is_granted = job.state == JobState::Granted;
        // The target may have given some of the slots to others since: writes to the rest wait for its claim.
        if is_granted && job.slots.iter().any(|slot| self.owns(slot)) {
            return true;
        }
        let took_slots = is_granted && job.slots.iter().any(|slot| self.owner_id(slot) == target);
        if took_slots || owner.is_some() && owner == target {
            let text = format!("Slot migration {description} slots are now owned by target node.");
            self.log(Level::Notice, text);
            self.end_migration(id, JobState::Success, None);
        } else {
            let text =
                format!("Slot migration {description} contains slots that are no longer all owned by myself");
            self.log(Level::Warning, text);
            self.fail_migration(id, "Slots are no longer owned by myself");
        }
        false
    }

    /// How long writes wait at most, before a grant makes them wait for [`CLAIM_TIME_MS`] at least.
    pub(crate) fn pause_of_migrations_ms(&self) -> u64 {
        self.settings.manual_failover_timeout_ms.saturating_mul(PAUSE_FACTOR)
    }

    fn pause_if_few_unsent(&mut self, id: JobId, unsent_bytes: u64) {
        if self.faults.no_migration_pause {
            return;
        }
        let (now_ms, pause_ms) = (self.now_ms(), self.pause_of_migrations_ms());
        let unsent_bytes_max = self.settings.slot_migration_unsent_bytes_max.unwrap_or(u64::MAX);
        let Some(job) = self.job_mut(id) else { return };
        let since_ms = *job.waits_since_ms.get_or_insert(now_ms);
        let has_waited =
            now_ms.saturating_sub(since_ms) >= WAIT_TO_PAUSE_MS && unsent_bytes <= PAUSE_BYTES_MAX;
        if unsent_bytes > unsent_bytes_max && !has_waited {
            return;
        }
        job.paused_until_ms = Some(now_ms + pause_ms);
        let text = format!(
            "Pausing writes (remaining_repl_size is {unsent_bytes}) to allow slot migration {} to finalize failover.",
            job.description
        );
        self.log(Level::Notice, text);
        self.publish_pause();
        self.send_word(id, Word::Paused);
        self.set_migration_state(id, JobState::Paused);
    }

    fn end_if_pause_is_over(&mut self, id: JobId) {
        let now_ms = self.now_ms();
        let Some(job) = self.migration(id) else { return };
        if job.paused_until_ms.is_some_and(|until_ms| until_ms > now_ms) {
            return;
        }
        let description = job.description.clone();
        if job.state == JobState::Paused {
            self.log(Level::Warning, format!("Slot migration {description} timed out during slot failover."));
            return self.fail_migration(id, "Timed out before streaming completed");
        }
        let text = format!(
            "Write loss risk! During slot migration {description}, new owner did not broadcast ownership before we \
             unpaused ourselves. Any writes we have recorded since unpausing may be lost!"
        );
        self.log(Level::Warning, text);
        self.fail_migration(
            id,
            "Unpaused before migration completed (migration may have succeeded with lost writes)",
        );
    }

    /// Invariant 4: has the executor hold writes to the slots of paused exports, and to no others.
    pub(super) fn publish_pause(&mut self) {
        let mut paused: Option<(SlotSet, u64)> = None;
        for job in self.unfinished(Operation::Export) {
            let Some(until_ms) = job.paused_until_ms else { continue };
            let (slots, end_ms) = paused.get_or_insert_with(|| (SlotSet::new(), 0));
            slots.extend(job.slots.iter());
            *end_ms = until_ms.max(*end_ms);
        }
        if paused == self.migrations.paused {
            return;
        }
        self.effect(match &paused {
            Some((slots, until_ms)) => Effect::PauseSlots { slots: slots.clone(), until_ms: *until_ms },
            None => Effect::ResumeSlots,
        });
        self.migrations.paused = paused;
    }
}
