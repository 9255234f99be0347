//! Manual failover: an operator has a replica take its primary's place, without losing a write.
//!
//! ```text
//!  replica                                   primary
//!  FAILOVER: MFSTART  ------------------->   holds writes back; each frame states its offset, and that it waits
//!  waits for its own offset to be that one
//!  election, at once   --- PONG -------->    becomes a replica
//! ```
//!
//! FORCE leaves the primary out, TAKEOVER the election as well.

use wire::cluster_bus::{Body, Kind, NodeId};

use crate::action::{Effect, Level, LinkId, Now};
use crate::cluster::Cluster;
use crate::refusal::Refusal;

/// Writes are held back for this many timeouts, in case that no node ends the pause.
const PAUSE_TIMEOUTS: u64 = 2;

/// How a manual failover is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// Once the replica has all that the primary has.
    Agreed,
    /// Without the primary.
    Force,
    /// Without the primary and without votes.
    Takeover,
}

/// A manual failover, of this replica or of a replica of this primary.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManualFailover {
    /// When it is given up. None: there is none.
    end: Option<u64>,
    /// Of a primary: who takes its place.
    replica: Option<NodeId>,
    /// Of a replica: the offset at which the primary waits.
    primary_offset: Option<u64>,
    can_start: bool,
}

impl ManualFailover {
    pub(crate) fn is_active(&self) -> bool {
        self.end.is_some()
    }

    /// The election may begin.
    pub(crate) fn can_start(&self) -> bool {
        self.is_active() && self.can_start
    }

    pub(crate) fn replica(&self) -> Option<NodeId> {
        self.replica.filter(|_| self.is_active())
    }
}

impl Cluster {
    /// FAILOVER. It is answered at once and goes on by itself. `requested_by` names the client in the log; the primary
    /// may ask for a forced one through the replication stream.
    pub fn failover(
        &mut self,
        kind: Failover,
        requested_by: &str,
        from_primary: bool,
        now: Now,
    ) -> Result<(), Refusal> {
        self.now = now;
        if self.myself().is_primary() {
            return Err(Refusal::FailoverOnPrimary);
        }
        let primary = self.myself().primary.ok_or(Refusal::PrimaryUnknown)?;
        let is_up = self.nodes.get(primary).is_some_and(|node| !node.is_failed() && node.link.is_some());
        if kind == Failover::Agreed && !is_up {
            return Err(Refusal::PrimaryDown);
        }
        self.reset_manual_failover();
        self.manual.end = Some(self.now_ms() + self.settings.manual_failover_timeout_ms);
        match kind {
            Failover::Takeover => {
                self.log(
                    Level::Notice,
                    format!("Taking over the primary (user request from '{requested_by}')."),
                );
                self.bump_epoch();
                // The primary whose place it takes may have given the vote of this epoch.
                self.last_vote_epoch = self.current_epoch;
                self.replace_primary();
            }
            Failover::Force => {
                let who = if from_primary { "primary" } else { "user" };
                let text =
                    format!("Forced failover {who} request accepted ({who} request from '{requested_by}').");
                self.log(Level::Notice, text);
                self.allow_manual_failover();
                self.todo.manual_failover = true;
            }
            Failover::Agreed => {
                let text =
                    format!("Manual failover user request accepted (user request from '{requested_by}').");
                self.log(Level::Notice, text);
                self.send_to(primary, Body::ManualFailoverStart);
            }
        }
        Ok(())
    }

    /// Returns whether a manual failover is under way, of this replica or of this primary.
    pub fn is_in_manual_failover(&self) -> bool {
        self.manual.is_active()
    }

    /// Nothing has to be waited for any more.
    fn allow_manual_failover(&mut self) {
        if self.election.is_under_way() {
            // It could be one that has expired and is not repeated in time.
            let text = format!(
                "Failover election in progress for epoch {}, but received a new manual failover. Resetting the \
                 election.",
                self.election.epoch()
            );
            self.log(Level::Warning, text);
            self.election.cancel();
        }
        self.manual.can_start = true;
    }

    /// MFSTART: a replica wants to take this primary's place.
    pub(crate) fn start_pause_for(&mut self, replica: NodeId, link: LinkId) {
        let is_mine = self.nodes.get(replica).is_some_and(|node| node.primary == Some(self.my_id()));
        if !self.myself().is_primary() || !is_mine {
            return;
        }
        self.reset_manual_failover();
        let (now_ms, timeout_ms) = (self.now_ms(), self.settings.manual_failover_timeout_ms);
        self.manual.end = Some(now_ms + timeout_ms);
        self.manual.replica = Some(replica);
        self.effect(Effect::PauseWrites { until_ms: now_ms + timeout_ms.saturating_mul(PAUSE_TIMEOUTS) });
        let text = format!("Manual failover requested by replica {}.", self.called(replica));
        self.log(Level::Notice, text);
        // It contains the offset.
        self.send_ping(link, Kind::Ping);
    }

    /// The primary waits at an offset. It does not grow from there, so that the highest of all frames is the one.
    pub(crate) fn note_paused_offset(&mut self, sender: NodeId, offset: u64) {
        let is_awaited = self.manual.is_active() && !self.manual.can_start && self.myself().is_replica();
        if !is_awaited || self.myself().primary != Some(sender) || self.manual.primary_offset >= Some(offset)
        {
            return;
        }
        self.manual.primary_offset = Some(offset);
        self.todo.manual_failover = true;
        self.log(
            Level::Notice,
            format!("Received replication offset for paused primary manual failover: {offset}"),
        );
    }

    /// Starts the election once this replica has all that its primary had.
    pub(crate) fn continue_manual_failover(&mut self) {
        self.todo.manual_failover = false;
        if !self.manual.is_active() || self.manual.can_start {
            return;
        }
        let Some(offset) = self.manual.primary_offset else { return };
        if offset == self.facts.replication_offset {
            self.allow_manual_failover();
            let text = "All primary replication stream processed, manual failover can start.";
            self.log(Level::Notice, text.to_string());
            self.todo.failover = true;
        } else {
            self.todo.manual_failover = true;
        }
    }

    pub(crate) fn give_up_manual_failover_in_time(&mut self) {
        if self.manual.end.is_some_and(|end| end < self.now_ms()) {
            self.log(Level::Warning, "Manual failover timed out.".to_string());
            self.reset_manual_failover();
        }
    }

    /// Ends a manual failover, and a primary's pause with it.
    pub(crate) fn reset_manual_failover(&mut self) {
        if self.manual.replica.is_some() {
            self.effect(Effect::ResumeWrites);
        }
        self.manual = ManualFailover::default();
    }
}
