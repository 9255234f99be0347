//! The plan of snapshots for replicas: when one begins, which replicas share it, and when a replica without progress is
//! closed. A state machine, as the handshake: [`SyncPlan::step`] takes an event and returns actions.
//!
//! ```text
//! Waiting --(a child begins to write a file)----------> Snapshot --(the child ends)--> File -----> Online
//!    |   \-(a child begins to write into a pipe)------> Piped -----------------------------------> Online
//!    \-----(a child begins to write to the socket)----> RdbChannel, closed when the child ends
//!                                                       MainChannel, beside it ------------------> Online
//! ```
//!
//! 1. One child writes at a time: a replica joins its snapshot if the format fits, or waits for the next one.
//! 2. Replicas with equal formats share a snapshot. With `repl-diskless-sync`, it begins `repl-diskless-sync-delay`
//!    after the first replica attached, or once `repl-diskless-sync-max-replicas` wait.

use super::super::saving::Target;
use crate::config::Config;
use crate::persist::child::{Outcome, Purpose};
use crate::persist::rdb::save::VERSION_OF_7_2;
use crate::session::ClientHandle;
use crate::session::client::ReplicaProfile;
use crate::sys::child::Ended;
use log::Level;
use wire::rdb::VERSION;

const SECOND_US: u64 = 1_000_000;
/// Time without snapshots of the old format, after a value could not be represented in it.
const OLD_FORM_REFUSED_US: u64 = 60 * SECOND_US;
/// Replicas of older releases read only the formats written since 7.2.
const VERSION_80_SINCE: u32 = 0x09_00_00;

const NOT_BEGUN: &str = "ERR BGSAVE failed, replication can't continue";
const CHILD_FAILED: &str = "SYNC failed. BGSAVE child returned an error";

/// The snapshot format that a replica needs. Replicas with equal formats share a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// RDB version.
    pub version: u16,
    /// Without keys.
    pub without_data: bool,
    /// Without functions.
    pub without_functions: bool,
    /// A child writes it to the socket, after the line with its offset.
    pub goes_by_rdb_channel: bool,
}

impl Format {
    /// Returns the format for a replica with this profile.
    pub fn of(profile: &ReplicaProfile) -> Self {
        // A file may serve other replicas, so it has the newest version.
        let is_new = !profile.finds_end_mark || profile.version >= VERSION_80_SINCE;
        Format {
            version: if is_new { VERSION } else { VERSION_OF_7_2 },
            without_data: profile.without_data,
            without_functions: profile.without_functions,
            goes_by_rdb_channel: profile.is_rdb_channel
                && profile.finds_end_mark
                && profile.snapshot_only
                && profile.attached_with_sync,
        }
    }

    /// Returns whether a file of this format can serve as the RDB file.
    fn fits_file(self) -> bool {
        self.version == VERSION && !self.without_data && !self.without_functions
    }

    /// Returns the target for a snapshot of this format, given whether all replicas find its end; `None`: no target
    /// fits.
    fn target(self, all_find_end: bool, is_diskless: bool) -> Option<Target> {
        match (self.fits_file(), all_find_end) {
            (true, true) if is_diskless => Some(Target::Pipe),
            (true, _) => Some(Target::File),
            (false, true) => Some(Target::Pipe),
            (false, false) => None,
        }
    }
}

/// Progress of a replica. Times are on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting { since_us: u64 },
    Snapshot,
    File,
    Piped { position: u64, progress_us: u64 },
    RdbChannel,
    MainChannel { last_ack_us: u64 },
    Online { last_ack_us: u64 },
}

/// The state of a replica on which the plan depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syncing<'a> {
    /// The replica's client.
    pub handle: ClientHandle,
    /// Its progress.
    pub phase: Phase,
    /// Its description by REPLCONF.
    pub profile: &'a ReplicaProfile,
    /// Its connection is about to be closed.
    pub is_closing: bool,
    /// Replies to it are not yet sent.
    pub has_output: bool,
}

impl Syncing<'_> {
    fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. })
    }

    fn format(&self) -> Format {
        Format::of(self.profile)
    }
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    /// This replica needs a snapshot and waits.
    Attached(ClientHandle),
    /// A reason for which a snapshot has waited may have ended.
    Tick,
    /// A second has passed.
    Second,
    /// The sockets of these rdb channels can be written to by a child.
    ChannelsReady(&'a [ClientHandle]),
    /// No child could be started for the snapshot that was to begin.
    NotBegun,
    /// The child that wrote the RDB file has ended, by itself or otherwise.
    FileEnded { succeeded: bool },
    /// The child that wrote for replicas only has ended.
    SyncEnded(Ended),
    /// This server has killed that child.
    SyncKilled,
    /// A replica in this phase has detached. For an rdb channel, an earlier end of the child has been handled.
    Left(Phase),
}

/// An action; actions are carried out in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Log(Level, String),
    /// Attach the first replica to the snapshot of the second.
    Join(ClientHandle, ClientHandle),
    /// Begin a snapshot for these replicas.
    Begin {
        format: Format,
        target: Target,
        group: Vec<ClientHandle>,
    },
    /// Begin a snapshot that a child writes to the sockets of these replicas.
    BeginChannels {
        format: Format,
        group: Vec<ClientHandle>,
    },
    /// Detach these replicas with an error.
    Refuse {
        group: Vec<ClientHandle>,
        text: String,
    },
    Close(ClientHandle),
    /// Send the written file.
    SendFile(ClientHandle),
    /// Mark the child's output as a complete snapshot.
    CompleteTransfer,
    DropTransfer,
    /// Close an rdb channel once its output has been sent.
    CloseAfterOutput(ClientHandle),
    /// Release the reservation of this rdb channel.
    ForgetReservation(ClientHandle),
    /// Send an empty line as a keep-alive.
    KeepAlive(ClientHandle),
    KillChild(Purpose),
}

/// State on which the plan depends.
pub(super) struct Facts<'a> {
    /// On the monotonic clock.
    pub now_us: u64,
    /// Options of this server.
    pub config: &'a Config,
    /// Purpose of the running child.
    pub child: Option<Purpose>,
    /// Number of bytes of a child's snapshot that can be sent, during a transfer; the child may have ended.
    pub transfer_end: Option<u64>,
    /// The data is incomplete: a script is suspended, or data is loaded.
    pub is_busy: bool,
    /// In the order of attachment.
    pub replicas: &'a [Syncing<'a>],
}

impl Facts<'_> {
    fn is_transferring(&self) -> bool {
        self.transfer_end.is_some()
    }

    fn find(&self, handle: ClientHandle) -> Option<&Syncing<'_>> {
        self.replicas.iter().find(|replica| replica.handle == handle)
    }

    fn those(&self, is_meant: impl Fn(&Syncing<'_>) -> bool) -> Vec<ClientHandle> {
        self.replicas.iter().filter(|replica| is_meant(replica)).map(|replica| replica.handle).collect()
    }

    /// Returns the replicas that wait for this format, in the order of arrival.
    fn waiting_for(&self, format: Format) -> Vec<ClientHandle> {
        self.those(|replica| replica.is_waiting() && replica.format() == format)
    }

    /// Returns the format of the snapshot to begin now, if any.
    fn due(&self) -> Option<Format> {
        if self.child.is_some() || self.is_transferring() || self.is_busy {
            return None;
        }
        let first = self.replicas.iter().find(|replica| replica.is_waiting())?.format();
        let since_us = |replica: &Syncing<'_>| match replica.phase {
            Phase::Waiting { since_us } if replica.format() == first => Some(since_us),
            _ => None,
        };
        let waiting: Vec<u64> = self.replicas.iter().filter_map(since_us).collect();
        let waited_us = self.now_us.saturating_sub(waiting.iter().copied().min()?);
        let enough = self.config.repl_diskless_sync_max_replicas as usize;
        let is_due = !self.config.repl_diskless_sync
            || enough > 0 && waiting.len() >= enough
            || waited_us >= u64::from(self.config.repl_diskless_sync_delay_seconds) * SECOND_US;
        is_due.then_some(first)
    }

    /// Returns the rdb channels whose snapshot is due; it begins once all of their sockets are ready.
    pub fn channels_due(&self) -> Vec<ClientHandle> {
        let format = self.due().filter(|format| format.goes_by_rdb_channel);
        format.map_or_else(Vec::new, |format| self.waiting_for(format))
    }

    /// Returns the phase that timed out, if the replica has made no progress for `repl-timeout`.
    fn lateness(&self, replica: &Syncing<'_>) -> Option<&'static str> {
        let timeout_s = u64::from(self.config.repl_timeout_seconds);
        let is_late = |since_us: u64| self.now_us.saturating_sub(since_us) / SECOND_US > timeout_s;
        let is_held_up = || replica.format().goes_by_rdb_channel && replica.has_output;
        match replica.phase {
            Phase::Online { last_ack_us } if !replica.profile.attached_with_sync && is_late(last_ack_us) => {
                Some("streaming sync")
            }
            Phase::MainChannel { last_ack_us } if is_late(last_ack_us) => Some("streaming sync"),
            Phase::Piped { position, progress_us }
                if Some(position) < self.transfer_end && is_late(progress_us) =>
            {
                Some("full sync")
            }
            Phase::Waiting { since_us } if is_late(since_us) && is_held_up() => Some("full sync"),
            _ => None,
        }
    }
}

fn info(text: &str) -> Action {
    Action::Log(Level::Info, text.to_owned())
}

fn warn(text: &str) -> Action {
    Action::Log(Level::Warn, text.to_owned())
}

/// State of the plan.
#[derive(Debug, Default)]
pub(super) struct SyncPlan {
    /// Time until which no snapshot in the format for releases before 9.0 begins, since a value had no representation in it.
    old_form_refused_until_us: u64,
}

impl SyncPlan {
    /// Takes an event; returns the actions. `name_of` names a replica in the log.
    pub fn step(
        &mut self,
        event: Event<'_>,
        facts: &Facts<'_>,
        name_of: &dyn Fn(ClientHandle) -> String,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Attached(handle) => self.attach(handle, facts, &mut actions),
            Event::Tick => {
                if let Some(format) = facts.due().filter(|format| !format.goes_by_rdb_channel) {
                    self.begin(format, facts, &mut actions);
                }
            }
            Event::Second => pass_second(facts, name_of, &mut actions),
            Event::ChannelsReady(group) => self.begin_channels(group, facts, &mut actions),
            Event::NotBegun => refuse_waiting(facts, &mut actions),
            Event::FileEnded { succeeded } => {
                for handle in facts.those(|replica| replica.phase == Phase::Snapshot) {
                    match succeeded {
                        true => actions.push(Action::SendFile(handle)),
                        false => actions.extend([warn(CHILD_FAILED), Action::Close(handle)]),
                    }
                }
            }
            Event::SyncEnded(ended) => self.sync_ended(ended, facts, name_of, &mut actions),
            Event::SyncKilled => fail_transfer(facts, &mut actions),
            Event::Left(phase) => left(phase, facts, &mut actions),
        }
        actions
    }

    fn attach(&mut self, handle: ClientHandle, facts: &Facts<'_>, actions: &mut Vec<Action>) {
        let Some(own) = facts.find(handle) else { return };
        let config = facts.config;
        let is_delayed = config.repl_diskless_sync
            && config.repl_diskless_sync_delay_seconds > 0
            && own.profile.finds_end_mark;
        match facts.child {
            Some(Purpose::Snapshot) => join(own, facts, actions),
            Some(Purpose::Sync) => {
                actions.push(info("Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC"));
            }
            Some(Purpose::LogBase | Purpose::SlotExport) | None if is_delayed => {
                actions.push(info("Delay next BGSAVE for diskless SYNC"));
            }
            // The snapshot begins when its socket is available.
            None if own.format().goes_by_rdb_channel => {}
            None if !facts.is_transferring() => self.begin(own.format(), facts, actions),
            Some(Purpose::LogBase | Purpose::SlotExport) | None => actions.push(info(
                "No BGSAVE in progress, but another BG operation is active. BGSAVE for replication delayed",
            )),
        }
    }

    /// Returns whether a value recently had no representation in these replicas' format: then they get an error and no
    /// snapshot begins.
    fn refuses_form(&self, format: Format, facts: &Facts<'_>, actions: &mut Vec<Action>) -> bool {
        let is_refused = format.version == VERSION_OF_7_2 && facts.now_us < self.old_form_refused_until_us;
        if is_refused {
            let text = format!(
                "ERR a key has no form in RDB version {VERSION_OF_7_2}, which replicas of releases before 9.0 read"
            );
            actions.push(Action::Refuse { group: facts.waiting_for(format), text });
        }
        is_refused
    }

    fn begin(&mut self, format: Format, facts: &Facts<'_>, actions: &mut Vec<Action>) {
        if self.refuses_form(format, facts, actions) {
            return;
        }
        let group = facts.waiting_for(format);
        let is_of_group = |replica: &&Syncing<'_>| replica.is_waiting() && replica.format() == format;
        let all_find_end =
            facts.replicas.iter().filter(is_of_group).all(|replica| replica.profile.finds_end_mark);
        let Some(target) = format.target(all_find_end, facts.config.repl_diskless_sync) else {
            return refuse_waiting(facts, actions);
        };
        let shown = if target == Target::Pipe { "replicas sockets" } else { "disk" };
        actions.push(info(&format!("Starting BGSAVE for SYNC with target: {shown} using: normal sync")));
        actions.push(Action::Begin { format, target, group });
    }

    fn begin_channels(&mut self, group: &[ClientHandle], facts: &Facts<'_>, actions: &mut Vec<Action>) {
        let Some(format) = group.first().and_then(|&first| facts.find(first)).map(Syncing::format) else {
            return;
        };
        if !self.refuses_form(format, facts, actions) {
            actions.push(info("Starting BGSAVE for SYNC with target: replicas sockets using: dual-channel"));
            actions.push(Action::BeginChannels { format, group: group.to_vec() });
        }
    }

    fn sync_ended(
        &mut self,
        ended: Ended,
        facts: &Facts<'_>,
        name_of: &dyn Fn(ClientHandle) -> String,
        actions: &mut Vec<Action>,
    ) {
        match ended {
            Ended::Exited(0) => {
                actions.extend([
                    info("Background RDB transfer terminated with success"),
                    Action::CompleteTransfer,
                ]);
                for handle in facts.those(|replica| replica.phase == Phase::RdbChannel) {
                    actions.push(info(&format!(
                        "RDB transfer completed, rdb only replica ({}) should be disconnected asap",
                        name_of(handle)
                    )));
                    actions.push(Action::CloseAfterOutput(handle));
                }
                return;
            }
            Ended::Exited(code) => {
                actions.push(warn("Background RDB transfer error"));
                if code == Outcome::Unrepresentable.exit_code() {
                    self.old_form_refused_until_us = facts.now_us + OLD_FORM_REFUSED_US;
                    actions.push(warn(&format!(
                        "Replicas of releases before 9.0 are refused for {} s: the data was not written in RDB version {VERSION_OF_7_2}",
                        OLD_FORM_REFUSED_US / SECOND_US
                    )));
                }
            }
            Ended::Killed { signal } => {
                actions.push(warn(&format!("Background RDB transfer terminated by signal {signal}")));
            }
        }
        fail_transfer(facts, actions);
    }
}

/// Attaches the replica to the file being written, if the stream has been kept since its start.
fn join(own: &Syncing<'_>, facts: &Facts<'_>, actions: &mut Vec<Action>) {
    let first = facts.replicas.iter().find(|other| {
        other.phase == Phase::Snapshot
            && !other.is_closing
            && (!other.profile.snapshot_only || own.profile.snapshot_only)
    });
    let fitting = first.filter(|other| {
        other.format() == own.format()
            && (own.profile.finds_end_mark || !other.profile.finds_end_mark)
            && (own.profile.takes_new_ids || !other.profile.takes_new_ids)
    });
    actions.extend(match fitting {
        Some(first) => {
            vec![Action::Join(own.handle, first.handle), info("Waiting for end of BGSAVE for SYNC")]
        }
        None => {
            vec![info("Can't attach the replica to the current BGSAVE. Waiting for next BGSAVE for SYNC")]
        }
    });
}

/// Sends an error to the waiting replicas, which may retry.
fn refuse_waiting(facts: &Facts<'_>, actions: &mut Vec<Action>) {
    let group = facts.those(|replica| replica.is_waiting());
    actions.extend([
        warn("BGSAVE for replication failed"),
        Action::Refuse { group, text: NOT_BEGUN.to_owned() },
    ]);
}

fn fail_transfer(facts: &Facts<'_>, actions: &mut Vec<Action>) {
    actions.push(Action::DropTransfer);
    for handle in facts.those(|replica| matches!(replica.phase, Phase::Piped { .. })) {
        actions.extend([warn(CHILD_FAILED), Action::Close(handle)]);
    }
    for handle in facts.those(|replica| replica.phase == Phase::RdbChannel) {
        actions.extend([warn(CHILD_FAILED), Action::ForgetReservation(handle), Action::Close(handle)]);
    }
}

fn pass_second(facts: &Facts<'_>, name_of: &dyn Fn(ClientHandle) -> String, actions: &mut Vec<Action>) {
    for replica in facts.replicas {
        if let Some(what) = facts.lateness(replica) {
            let name = name_of(replica.handle);
            actions.push(warn(&format!("Disconnecting timedout replica ({what}): {name}")));
            actions.push(Action::Close(replica.handle));
        }
    }
    let is_kept = |replica: &Syncing<'_>| replica.is_waiting() || replica.phase == Phase::Snapshot;
    actions.extend(facts.those(is_kept).into_iter().map(Action::KeepAlive));
}

/// Ends a snapshot that no other replica needs.
fn left(phase: Phase, facts: &Facts<'_>, actions: &mut Vec<Action>) {
    let is_any = |is_meant: fn(&Phase) -> bool| facts.replicas.iter().any(|replica| is_meant(&replica.phase));
    match phase {
        Phase::Snapshot => {
            let is_last = !is_any(|phase| *phase == Phase::Snapshot);
            if is_last && facts.config.save.is_empty() && facts.child == Some(Purpose::Snapshot) {
                actions.extend([
                    info(
                        "Background saving, persistence disabled, last replica dropped, killing fork child.",
                    ),
                    Action::KillChild(Purpose::Snapshot),
                ]);
            }
        }
        Phase::Piped { .. } => {
            if !is_any(|phase| matches!(phase, Phase::Piped { .. })) {
                actions.push(Action::DropTransfer);
                if facts.child == Some(Purpose::Sync) {
                    actions.extend([
                        info("Diskless rdb transfer, last replica dropped, killing fork child."),
                        Action::KillChild(Purpose::Sync),
                    ]);
                }
            }
        }
        Phase::RdbChannel => {
            let is_last = !is_any(|phase| *phase == Phase::RdbChannel) && !facts.is_transferring();
            if is_last && facts.child == Some(Purpose::Sync) {
                actions.extend([
                    warn("Background RDB transfer error: last replica dropped, killing fork child."),
                    Action::KillChild(Purpose::Sync),
                ]);
            }
        }
        Phase::Waiting { .. } | Phase::File | Phase::MainChannel { .. } | Phase::Online { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_say_a_version_gets_what_all_can_read() {
        let profile =
            |finds_end_mark, version| ReplicaProfile { finds_end_mark, version, ..Default::default() };
        let version_for = |finds, version| Format::of(&profile(finds, version)).version;
        assert_eq!(version_for(true, 0), 11);
        assert_eq!(version_for(true, 0x08_ff_ff), 11);
        assert_eq!(version_for(true, 0x09_00_00), VERSION);
        assert_eq!(version_for(false, 0), VERSION, "a file serves others too");
        assert!(Format::of(&profile(false, 0)).fits_file());
        assert!(!Format::of(&profile(true, 0)).fits_file());
    }

    #[test]
    fn what_may_not_stand_in_a_file_goes_only_to_those_who_find_its_end() {
        let whole = Format {
            version: VERSION,
            without_data: false,
            without_functions: false,
            goes_by_rdb_channel: false,
        };
        let partial = Format { without_data: true, ..whole };
        for is_diskless in [false, true] {
            assert_eq!(whole.target(false, is_diskless), Some(Target::File));
            assert_eq!(partial.target(true, is_diskless), Some(Target::Pipe));
            assert_eq!(partial.target(false, is_diskless), None);
        }
        assert_eq!(whole.target(true, true), Some(Target::Pipe));
        assert_eq!(whole.target(true, false), Some(Target::File));
    }
}
