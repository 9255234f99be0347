//! A job of atomic slot migration, as one of its two nodes knows it.

use std::fmt::Write as _;

use wire::cluster_bus::{NodeId, SlotSet};

use crate::action::Now;

/// Identifies a job on this node, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(super) u64);

/// Which way the slots of a job go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To another node.
    Export,
    /// To this node.
    Import,
}

impl Operation {
    /// The word of CLUSTER GETSLOTMIGRATIONS.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Export => "EXPORT",
            Operation::Import => "IMPORT",
        }
    }
}

/// How far a job is; exports and imports end in the same three states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Export: the connection to the target is being opened.
    Connecting,
    /// Export: AUTH is to be sent.
    SendingAuth,
    /// Export: the reply to AUTH is awaited.
    ReadingAuth,
    /// Export: ESTABLISH is to be sent.
    SendingEstablish,
    /// Export: the reply to ESTABLISH is awaited.
    ReadingEstablish,
    /// Export: another child process writes.
    WaitingToSnapshot,
    /// Export: the keys are sent; changes are collected.
    Snapshotting,
    /// Export: changes are sent.
    Replicating,
    /// Export: the target has all keys, and too many changes are unsent for a pause.
    WaitingToPause,
    /// Export: writes to the slots wait.
    Paused,
    /// Export: the target may take the slots.
    Granted,
    /// Import: the source has not acknowledged the job.
    WaitingForAck,
    /// Import: keys are received.
    ReceivingSnapshot,
    /// Import: changes are received.
    WaitingForPaused,
    /// Import: all changes have been received.
    FailoverRequested,
    /// Import: this node takes the slots.
    FailoverGranted,
    /// Import: it has failed, and its keys are to be deleted.
    CleaningUp,
    /// Import of this node's primary, or of one that this node followed.
    OnPrimary,
    /// The slots are the target's.
    Success,
    /// The slots are the source's.
    Failed,
    /// As [`JobState::Failed`], on request.
    Cancelled,
}

impl JobState {
    /// The word of CLUSTER GETSLOTMIGRATIONS and of the log.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Connecting => "connecting",
            JobState::SendingAuth => "sending-auth-command",
            JobState::ReadingAuth => "reading-auth-response",
            JobState::SendingEstablish => "sending-establish-command",
            JobState::ReadingEstablish => "reading-establish-response",
            JobState::WaitingToSnapshot => "waiting-to-snapshot",
            JobState::Snapshotting => "snapshotting",
            JobState::Replicating => "replicating",
            JobState::WaitingToPause => "waiting-to-pause",
            JobState::Paused => "failover-paused",
            JobState::Granted | JobState::FailoverGranted => "failover-granted",
            JobState::WaitingForAck => "waiting-for-ack",
            JobState::ReceivingSnapshot => "receiving-snapshot",
            JobState::WaitingForPaused => "waiting-for-paused",
            JobState::FailoverRequested => "failover-requested",
            JobState::CleaningUp => "cleaning-up",
            JobState::OnPrimary => "occurring-on-primary",
            JobState::Success => "success",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Returns whether nothing remains to be done.
    pub fn is_finished(self) -> bool {
        matches!(self, JobState::Success | JobState::Failed | JobState::Cancelled)
    }

    /// Returns whether the job can still succeed.
    pub fn is_in_progress(self) -> bool {
        !self.is_finished() && self != JobState::CleaningUp
    }

    /// Returns whether an export's snapshot has begun: the target needs each change from then on.
    pub fn takes_changes(self) -> bool {
        matches!(
            self,
            JobState::Snapshotting
                | JobState::Replicating
                | JobState::WaitingToPause
                | JobState::Paused
                | JobState::Granted
        )
    }

    /// Returns whether ACKs are sent: not before the handshake has ended, nor between the keys.
    pub(super) fn acknowledges(self) -> bool {
        matches!(
            self,
            JobState::WaitingToSnapshot
                | JobState::Replicating
                | JobState::WaitingToPause
                | JobState::Paused
                | JobState::ReceivingSnapshot
                | JobState::WaitingForPaused
                | JobState::FailoverRequested
        )
    }
}

/// Ranges of slots, each with its first and its last.
pub type Ranges = Vec<(u16, u16)>;

/// A job; see [`JobState`] for its course.
#[derive(Clone, Debug)]
pub struct Job {
    pub(super) id: JobId,
    pub(super) name: NodeId,
    pub(super) operation: Operation,
    pub(super) ranges: Ranges,
    pub(super) slots: SlotSet,
    /// The target of an export, the source of an import; `None`: the job runs elsewhere.
    pub(super) other: Option<NodeId>,
    /// How the log names the job.
    pub(super) description: String,
    pub(super) state: JobState,
    /// State after [`JobState::CleaningUp`].
    pub(super) ends_as: JobState,
    pub(super) message: Option<String>,
    pub(super) created_s: u64,
    pub(super) updated_s: u64,
    pub(super) acknowledged_s: u64,
    /// On the monotonic clock, as the times below: when an ACK was last received, and last sent.
    pub(super) received_ms: u64,
    pub(super) sent_ms: u64,
    /// Since when the job waits for few unsent bytes.
    pub(super) waits_since_ms: Option<u64>,
    /// Until when writes to the slots wait.
    pub(super) paused_until_ms: Option<u64>,
    /// When an import asked its source for the slots.
    pub(super) asked_slots_ms: u64,
    /// The number of changes of owners when the owner of the slots was last looked at.
    pub(super) looked_at: Option<u64>,
    /// Memory that the snapshot's child had to copy.
    pub(super) copied_bytes: u64,
}

impl Job {
    /// A job that begins in `state`.
    pub(super) fn new(
        (id, name): (JobId, NodeId),
        operation: Operation,
        ranges: Ranges,
        state: JobState,
        now: Now,
    ) -> Job {
        let slots = ranges.iter().flat_map(|&(first, last)| first..=last).collect();
        let now_s = now.unix_ms / 1000;
        Job {
            id,
            name,
            operation,
            ranges,
            slots,
            other: None,
            description: String::new(),
            state,
            ends_as: JobState::Failed,
            message: None,
            created_s: now_s,
            updated_s: now_s,
            acknowledged_s: now_s,
            received_ms: now.monotonic_ms,
            sent_ms: now.monotonic_ms,
            waits_since_ms: None,
            paused_until_ms: None,
            asked_slots_ms: 0,
            looked_at: None,
            copied_bytes: 0,
        }
    }

    /// Returns the job's number on this node.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Returns the name that both nodes know the job by.
    pub fn name(&self) -> NodeId {
        self.name
    }

    /// Returns which way the slots go.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns the slots.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// Returns the ranges as requested, as the log and replies write them: `0-5 7-7`.
    pub fn ranges_text(&self) -> String {
        let mut text = String::new();
        for (first, last) in &self.ranges {
            let space = if text.is_empty() { "" } else { " " };
            // Writing to memory cannot fail.
            let _ = write!(text, "{space}{first}-{last}");
        }
        text
    }

    /// Returns the ranges as requested.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.ranges
    }

    /// Returns the other node: the target of an export, the source of an import; `None`: the job runs elsewhere.
    pub fn other(&self) -> Option<NodeId> {
        self.other
    }

    /// Returns how far it is.
    pub fn state(&self) -> JobState {
        self.state
    }

    /// Returns why it has ended, if there is more to say than its state does.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the times of its creation, last change of state and last ACK, in seconds since 1970.
    pub fn times_s(&self) -> [u64; 3] {
        [self.created_s, self.updated_s, self.acknowledged_s]
    }

    /// Returns the memory that the snapshot's child had to copy.
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    pub(super) fn is_export(&self) -> bool {
        self.operation == Operation::Export
    }
}
