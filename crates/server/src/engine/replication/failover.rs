//! FAILOVER: this server hands its role over to one of its replicas, and becomes a replica of it.
//!
//! ```text
//! WaitsForSync --(the target has acknowledged all)--> HandsOver --(+CONTINUE)--> over: this is a replica
//!      |                                                 |
//!      +--(the time is over)--> aborted                  +--(the target refuses)--> aborted: a primary again
//! ```
//!
//! 1. The data does not change from beginning to end: the target has acknowledged all of it. Commands that may write
//!    wait; in HandsOver they are refused, as on every replica.
//! 2. In HandsOver this server is already a replica of the target: there are never two primaries, if the target takes
//!    over only on request.

use super::super::Executor;
use super::Replication;
use super::handshake::Handover;
use super::link::end_waiting_of_all;
use super::replicas::{Replica, replica_address};
use crate::command::Next;
use crate::config::ReplicaOf;
use crate::error::ClientError;
use crate::observe::replication::FailoverState;
use crate::server::FailoverWish;
use crate::server::pause::{Pause, PausePurpose};
use crate::session::ClientHandle;
use wire::reply::ReplyBuffer;

/// The reply of a target that is a primary already.
const IS_PRIMARY: &[u8] = b"-ERR PSYNC FAILOVER can't be sent to a master.";

#[derive(Debug)]
enum Stage {
    WaitsForSync,
    HandsOver {
        /// Number of takeover requests sent. The connection may end before the reply.
        requests: u32,
        /// The target is a primary already: it is asked only for the stream, of which it has all if it did take over.
        is_primary: bool,
    },
}

/// A running failover.
#[derive(Debug)]
pub(super) struct Failover {
    stage: Stage,
    /// `None`: the first replica that has all of the stream.
    target: Option<ReplicaOf>,
    /// On the monotonic clock.
    deadline_us: Option<u64>,
    force: bool,
}

impl Failover {
    fn target_name(&self) -> String {
        match &self.target {
            Some(target) => name_of(target),
            None => "any replica".to_owned(),
        }
    }
}

fn name_of(target: &ReplicaOf) -> String {
    format!("{}:{}", String::from_utf8_lossy(&target.host), target.port)
}

impl Replication {
    /// Returns the failover, if it has come to the link to the target. A target found to be a primary may have restarted
    /// without the data it acknowledged: that does not replace the data here.
    pub(super) fn handover(&self) -> Option<Handover> {
        let failover = self.failover.as_ref()?;
        let Stage::HandsOver { is_primary, .. } = failover.stage else { return None };
        Some(Handover { is_primary, gives_way: failover.force || !is_primary })
    }

    /// Counts a PSYNC sent to the target.
    pub(super) fn count_takeover_request(&mut self) {
        if let Some(Failover { stage: Stage::HandsOver { requests, .. }, .. }) = &mut self.failover {
            *requests += 1;
        }
    }

    /// Returns whether a failover with a deadline waits for replicas: the stream must not grow.
    pub(super) fn has_failover_deadline(&self) -> bool {
        self.failover.as_ref().is_some_and(|failover| failover.deadline_us.is_some())
    }

    /// Returns when waiting for the target ends.
    pub(in crate::engine) fn failover_deadline_us(&self) -> Option<u64> {
        let failover = self.failover.as_ref()?;
        failover.deadline_us.filter(|_| matches!(failover.stage, Stage::WaitsForSync))
    }
}

impl Executor {
    /// Returns whether a replica has been asked to take over, or is about to be.
    pub(in crate::engine) fn is_handing_over(&self) -> bool {
        let stage = self.replication.failover.as_ref().map(|failover| &failover.stage);
        matches!(stage, Some(Stage::HandsOver { .. }))
    }

    /// FAILOVER.
    pub(super) fn begin_failover(
        &mut self,
        wish: FailoverWish,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        if self.replication.failover.is_some() {
            return Err(ClientError::text("ERR FAILOVER already in progress."));
        }
        if self.is_replica() {
            return Err(ClientError::text("ERR FAILOVER is not valid when server is a replica."));
        }
        if self.replication.replicas.is_empty() {
            return Err(ClientError::text("ERR FAILOVER requires connected replicas."));
        }
        if wish.force && (wish.timeout_ms.is_none() || wish.target.is_none()) {
            return Err(ClientError::text(
                "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
            ));
        }
        let target = wish.target.map(|(host, port)| self.failover_target(host, port)).transpose()?;
        let now_us = self.server.now.monotonic_us;
        let deadline_us = wish.timeout_ms.map(|ms| now_us.saturating_add(ms.saturating_mul(1000)));
        let failover = Failover { stage: Stage::WaitsForSync, target, deadline_us, force: wish.force };
        log::info!("FAILOVER requested to {}.", failover.target_name());
        self.replication.failover = Some(failover);
        self.server.pauses.begin(PausePurpose::Failover, Pause::OF_WRITES, now_us);
        self.note_failover();
        reply.ok();
        Ok(Next::Reply)
    }

    /// Returns the replica at this address, which must be attached and online.
    fn failover_target(&self, host: Vec<u8>, port: i64) -> Result<ReplicaOf, ClientError> {
        let unknown = || ClientError::text("ERR FAILOVER target HOST and PORT is not a replica.");
        let port = u16::try_from(port).map_err(|_| unknown())?;
        let target = ReplicaOf { host, port };
        let replica = self.replica_at(&target).ok_or_else(unknown)?;
        if !replica.is_online() {
            return Err(ClientError::text("ERR FAILOVER target replica is not online."));
        }
        Ok(target)
    }

    fn replica_at(&self, target: &ReplicaOf) -> Option<&Replica> {
        let is_there = |handle: ClientHandle| {
            let (address, port) = replica_address(&self.server, handle);
            address.as_bytes().eq_ignore_ascii_case(&target.host) && port == i64::from(target.port)
        };
        self.replication.replicas.iter().find(|&(handle, _)| is_there(handle)).map(|(_, replica)| replica)
    }

    fn has_all(&self, replica: &Replica) -> bool {
        replica.is_online() && replica.acknowledged.stream == Some(self.replication.outgoing.offset())
    }

    /// Returns the target, if it has all of the stream; without a fixed target, any reachable replica that has.
    fn synced_target(&self, failover: &Failover) -> Option<ReplicaOf> {
        if let Some(target) = &failover.target {
            return self.replica_at(target).filter(|replica| self.has_all(replica)).map(|_| target.clone());
        }
        let synced = self.replication.replicas.iter().filter(|(_, replica)| self.has_all(replica));
        let mut reachable = synced.filter_map(|(handle, _)| {
            let (address, port) = replica_address(&self.server, handle);
            let port = u16::try_from(port).ok().filter(|&port| port > 0)?;
            Some(ReplicaOf { host: address.into_bytes(), port })
        });
        reachable.next()
    }

    /// Hands over once the target has all of the stream, or aborts after the deadline.
    pub(in crate::engine) fn go_on_with_failover(&mut self) {
        let Some(failover) = &self.replication.failover else { return };
        if !matches!(failover.stage, Stage::WaitsForSync) {
            return;
        }
        let now_us = self.server.now.monotonic_us;
        if failover.deadline_us.is_some_and(|deadline_us| deadline_us <= now_us) {
            match failover.target.clone().filter(|_| failover.force) {
                Some(target) => {
                    log::info!("FAILOVER to {} time out exceeded, failing over.", name_of(&target));
                    self.hand_over_to(target);
                }
                None => self.abort_failover("Replica never caught up before timeout"),
            }
        } else if let Some(target) = self.synced_target(failover) {
            log::info!("Failover target {} is synced, failing over.", name_of(&target));
            self.hand_over_to(target);
        }
    }

    fn hand_over_to(&mut self, target: ReplicaOf) {
        let Some(failover) = &mut self.replication.failover else { return };
        failover.stage = Stage::HandsOver { requests: 0, is_primary: false };
        failover.target = Some(target.clone());
        self.note_failover();
        self.follow(target);
    }

    /// Ends the failover after the target has taken over: clients waiting for a primary are unblocked.
    pub(super) fn complete_failover(&mut self) {
        end_waiting_of_all(&mut self.server);
        self.end_failover();
    }

    /// Handles any other reply of the target.
    pub(super) fn hear_failover_refused(&mut self, handle: ClientHandle, line: &[u8]) {
        let stage = self.replication.failover.as_mut().map(|failover| &mut failover.stage);
        if let Some(Stage::HandsOver { requests: 2.., is_primary: is_primary @ false }) = stage
            && line.starts_with(IS_PRIMARY)
        {
            // It may have taken over before, and its reply may have been lost.
            *is_primary = true;
            return self.leave(handle);
        }
        self.abort_failover("Failover target rejected psync request");
    }

    /// FAILOVER ABORT.
    pub(super) fn abort_failover_on_request(&mut self, reply: &mut ReplyBuffer) -> Result<Next, ClientError> {
        if self.replication.failover.is_none() {
            return Err(ClientError::text("ERR No failover in progress."));
        }
        self.abort_failover("Failover manually aborted");
        reply.ok();
        Ok(Next::Reply)
    }

    fn abort_failover(&mut self, why: &str) {
        let Some(failover) = &self.replication.failover else { return };
        log::info!("FAILOVER to {} aborted: {why}", failover.target_name());
        if self.is_handing_over() {
            self.follow_nobody();
        }
        self.end_failover();
    }

    fn end_failover(&mut self) {
        self.replication.failover = None;
        self.server.pauses.end(PausePurpose::Failover);
        // Held reads, meant for redirection to the target, are checked again.
        self.server.pauses.look_at_who_waits();
        self.note_failover();
    }

    fn note_failover(&mut self) {
        let stage = self.replication.failover.as_ref().map(|failover| &failover.stage);
        self.server.observed.replication.failover = match stage {
            None => FailoverState::None,
            Some(Stage::WaitsForSync) => FailoverState::WaitsForSync,
            Some(Stage::HandsOver { .. }) => FailoverState::HandsOver,
        };
    }
}
