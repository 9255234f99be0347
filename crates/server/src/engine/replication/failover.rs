//! FAILOVER: this server transfers its role to one of its replicas, and becomes a replica of it. A state machine, as the
//! handshake: [`Failover::step`] takes an event and returns actions.
//!
//! ```text
//! WaitsForSync --(the target has acknowledged all)--> HandsOver --(+CONTINUE)--> end: this server is a replica
//!      |                                                 |
//!      +--(timeout)--> aborted                           +--(the target refuses)--> aborted: a primary again
//! ```
//!
//! 1. The data does not change during a failover: the target has acknowledged all of it. Commands that may write wait; in
//!    HandsOver they are refused, as on every replica.
//! 2. In HandsOver this server is already a replica of the target: there are never two primaries, if the target takes
//!    over only on request.
//! 3. Without a timeout, the wait for a disconnected target lasts until FAILOVER ABORT: no replica may sync during a
//!    failover.

use super::super::Executor;
use super::Replication;
use super::handshake::Handover;
use super::link::end_waiting_of_all;
use super::replicas::{Replica, replica_address};
use crate::command::Next;
use crate::config::ReplicaOf;
use crate::error::ClientError;
use crate::observe::replication::FailoverState;
use crate::server::pause::{Pause, PausePurpose};
use crate::server::{FailoverRequest, Server};
use crate::session::ClientHandle;
use wire::reply::ReplyBuffer;

/// The reply of a target that is a primary already.
const IS_PRIMARY: &[u8] = b"-ERR PSYNC FAILOVER can't be sent to a master.";

#[derive(Debug)]
enum Stage {
    WaitsForSync,
    HandsOver {
        /// Number of takeover requests sent; the connection may end before the reply.
        requests: u32,
        /// The target is a primary already: the next request is for the stream alone. If the target took over, it has the whole
        /// stream.
        is_primary: bool,
    },
}

#[derive(Debug)]
struct Running {
    stage: Stage,
    /// `None`: the first replica with the whole stream.
    target: Option<ReplicaOf>,
    /// On the monotonic clock.
    deadline_us: Option<u64>,
    force: bool,
}

/// The failover, if one is running.
#[derive(Debug, Default)]
pub(super) struct Failover {
    running: Option<Running>,
}

/// An event.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// FAILOVER.
    Requested(FailoverRequest),
    /// FAILOVER ABORT.
    AbortRequested,
    /// Time has passed, or a replica has acknowledged a later offset.
    Tick,
    /// A takeover request was sent to the target.
    RequestSent,
    /// The target continues the stream, or begins another one that replaces the data of this server.
    TakenOver,
    /// Any other reply of the target.
    Refused(&'a [u8]),
}

/// An action; actions are carried out in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Log(String),
    /// Reply to the command with this error.
    Refuse(&'static str),
    /// Hold commands that may write.
    PauseWrites,
    EndPause,
    Follow(ReplicaOf),
    Promote,
    /// Close the connection to the target and reconnect.
    Leave,
    /// Unblock clients whose commands only a primary serves.
    EndWaiting,
}

/// A replica as a possible target.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Its announced address, or the connection's.
    pub address: String,
    /// The port it listens on; 0: not sent.
    pub port: i64,
    /// Whether it receives the stream.
    pub is_online: bool,
    /// The offset that it has acknowledged; `None`: none yet.
    pub acknowledged: Option<u64>,
}

/// State on which the failover depends.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// On the monotonic clock.
    pub now_us: u64,
    /// Offset of the stream's end.
    pub offset: u64,
    /// Whether this server is a replica.
    pub is_replica: bool,
    /// All replicas, in the order of attachment.
    pub replicas: &'a [Candidate],
}

impl Facts<'_> {
    fn replica_at(&self, target: &ReplicaOf) -> Option<&Candidate> {
        self.replicas.iter().find(|replica| {
            replica.address.as_bytes().eq_ignore_ascii_case(&target.host)
                && replica.port == i64::from(target.port)
        })
    }

    fn has_all(&self, replica: &Candidate) -> bool {
        replica.is_online && replica.acknowledged == Some(self.offset)
    }
}

impl Running {
    fn target_name(&self) -> String {
        match &self.target {
            Some(target) => name_of(target),
            None => "any replica".to_owned(),
        }
    }

    /// Returns the target, if it has the whole stream; without a fixed target, any reachable replica that has it.
    fn synced_target(&self, facts: &Facts<'_>) -> Option<ReplicaOf> {
        if let Some(target) = &self.target {
            return facts.replica_at(target).filter(|replica| facts.has_all(replica)).map(|_| target.clone());
        }
        let mut reachable =
            facts.replicas.iter().filter(|replica| facts.has_all(replica)).filter_map(|replica| {
                let port = u16::try_from(replica.port).ok().filter(|&port| port > 0)?;
                Some(ReplicaOf { host: replica.address.clone().into_bytes(), port })
            });
        reachable.next()
    }

    fn hand_over_to(&mut self, target: ReplicaOf, actions: &mut Vec<Action>) {
        self.stage = Stage::HandsOver { requests: 0, is_primary: false };
        self.target = Some(target.clone());
        actions.push(Action::Follow(target));
    }
}

fn name_of(target: &ReplicaOf) -> String {
    format!("{}:{}", String::from_utf8_lossy(&target.host), target.port)
}

/// Returns the replica at this address, which must be attached and online.
fn target_of(facts: &Facts<'_>, (host, port): (Vec<u8>, i64)) -> Result<ReplicaOf, &'static str> {
    const UNKNOWN: &str = "ERR FAILOVER target HOST and PORT is not a replica.";
    let port = u16::try_from(port).map_err(|_| UNKNOWN)?;
    let target = ReplicaOf { host, port };
    match facts.replica_at(&target).ok_or(UNKNOWN)?.is_online {
        true => Ok(target),
        false => Err("ERR FAILOVER target replica is not online."),
    }
}

impl Failover {
    /// Takes an event; returns the actions.
    pub fn step(&mut self, event: Event<'_>, facts: &Facts<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Requested(request) => match self.begin(request, facts) {
                Ok(text) => actions.extend([Action::Log(text), Action::PauseWrites]),
                Err(text) => actions.push(Action::Refuse(text)),
            },
            Event::AbortRequested if self.running.is_none() => {
                actions.push(Action::Refuse("ERR No failover in progress."));
            }
            Event::AbortRequested => self.abort("Failover manually aborted", &mut actions),
            Event::Tick => self.go_on(facts, &mut actions),
            Event::RequestSent => {
                if let Some(Running { stage: Stage::HandsOver { requests, .. }, .. }) = &mut self.running {
                    *requests += 1;
                }
            }
            Event::TakenOver => {
                self.running = None;
                actions.extend([Action::EndWaiting, Action::EndPause]);
            }
            Event::Refused(line) => self.handle_refusal(line, &mut actions),
        }
        actions
    }

    /// Begins a failover, unless it is refused; returns the line for the log.
    fn begin(&mut self, request: FailoverRequest, facts: &Facts<'_>) -> Result<String, &'static str> {
        if self.running.is_some() {
            return Err("ERR FAILOVER already in progress.");
        }
        if facts.is_replica {
            return Err("ERR FAILOVER is not valid when server is a replica.");
        }
        if facts.replicas.is_empty() {
            return Err("ERR FAILOVER requires connected replicas.");
        }
        if request.force && (request.timeout_ms.is_none() || request.target.is_none()) {
            return Err("ERR FAILOVER with force option requires both a timeout and target HOST and IP.");
        }
        let target = request.target.map(|target| target_of(facts, target)).transpose()?;
        let deadline_us = request.timeout_ms.map(|ms| facts.now_us.saturating_add(ms.saturating_mul(1000)));
        let running = Running { stage: Stage::WaitsForSync, target, deadline_us, force: request.force };
        let text = format!("FAILOVER requested to {}.", running.target_name());
        self.running = Some(running);
        Ok(text)
    }

    /// Hands over once the target has the whole stream, or aborts after the deadline.
    fn go_on(&mut self, facts: &Facts<'_>, actions: &mut Vec<Action>) {
        let Some(running) = self.running.as_mut().filter(|running| running.is_waiting()) else { return };
        if running.deadline_us.is_some_and(|deadline_us| deadline_us <= facts.now_us) {
            match running.target.clone().filter(|_| running.force) {
                Some(target) => {
                    let name = name_of(&target);
                    actions.push(Action::Log(format!("FAILOVER to {name} time out exceeded, failing over.")));
                    running.hand_over_to(target, actions);
                }
                None => self.abort("Replica never caught up before timeout", actions),
            }
        } else if let Some(target) = running.synced_target(facts) {
            let name = name_of(&target);
            actions.push(Action::Log(format!("Failover target {name} is synced, failing over.")));
            running.hand_over_to(target, actions);
        }
    }

    fn handle_refusal(&mut self, line: &[u8], actions: &mut Vec<Action>) {
        let stage = self.running.as_mut().map(|running| &mut running.stage);
        if let Some(Stage::HandsOver { requests: 2.., is_primary: is_primary @ false }) = stage
            && line.starts_with(IS_PRIMARY)
        {
            // The target may have taken over before, and its reply may have been lost.
            *is_primary = true;
            return actions.push(Action::Leave);
        }
        self.abort("Failover target rejected psync request", actions);
    }

    fn abort(&mut self, why: &str, actions: &mut Vec<Action>) {
        let Some(running) = self.running.take() else { return };
        actions.push(Action::Log(format!("FAILOVER to {} aborted: {why}", running.target_name())));
        if !running.is_waiting() {
            actions.push(Action::Promote);
        }
        actions.push(Action::EndPause);
    }

    /// Returns whether a failover is in progress.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns whether it waits for replicas, so that time and acknowledgements matter.
    fn is_waiting(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_waiting)
    }

    /// Returns whether it has a deadline: the stream must not grow.
    pub fn has_deadline(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.deadline_us.is_some())
    }

    /// Returns when waiting for the target ends.
    pub fn deadline_us(&self) -> Option<u64> {
        self.running.as_ref().filter(|running| running.is_waiting())?.deadline_us
    }

    /// Returns the handover, once the link to the target is in use. A target that was found to be a primary may have restarted
    /// without the acknowledged data; its data does not replace the data of this server.
    pub fn handover(&self) -> Option<Handover> {
        let running = self.running.as_ref()?;
        let Stage::HandsOver { is_primary, .. } = running.stage else { return None };
        Some(Handover { is_primary, gives_way: running.force || !is_primary })
    }

    /// Returns the state that INFO shows.
    pub fn state(&self) -> FailoverState {
        match self.running.as_ref().map(|running| &running.stage) {
            None => FailoverState::None,
            Some(Stage::WaitsForSync) => FailoverState::WaitsForSync,
            Some(Stage::HandsOver { .. }) => FailoverState::HandsOver,
        }
    }
}

impl Running {
    fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::WaitsForSync)
    }
}

impl Replication {
    /// Passes an event to the failover, and publishes its state.
    fn step_failover(&mut self, server: &mut Server, event: Event<'_>) -> Vec<Action> {
        let candidates: Vec<Candidate> = self
            .replicas
            .iter()
            .map(|(handle, replica)| {
                let (address, port) = replica_address(server, handle);
                let acknowledged = replica.acknowledged.stream;
                Candidate { address, port, is_online: replica.is_online(), acknowledged }
            })
            .collect();
        let facts = Facts {
            now_us: server.now.monotonic_us,
            offset: self.outgoing.offset(),
            is_replica: server.config.replicaof.is_some(),
            replicas: &candidates,
        };
        let actions = self.failover.step(event, &facts);
        server.observed.replication.failover = self.failover.state();
        actions
    }

    /// Returns when waiting for the target of a failover ends.
    pub(in crate::engine) fn failover_deadline_us(&self) -> Option<u64> {
        self.failover.deadline_us()
    }
}

impl Executor {
    /// Returns whether a takeover request has been sent to a replica, or is about to be sent.
    pub(in crate::engine) fn is_handing_over(&self) -> bool {
        self.replication.failover.handover().is_some()
    }

    /// Carries out FAILOVER and FAILOVER ABORT.
    pub(super) fn fail_over_on_request(
        &mut self,
        event: Event<'_>,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        let actions = self.replication.step_failover(&mut self.server, event);
        if let [Action::Refuse(text)] = actions[..] {
            return Err(ClientError::text(text));
        }
        self.perform_failover(None, actions);
        reply.ok();
        Ok(Next::Reply)
    }

    /// Continues a failover that waits for replicas.
    pub(in crate::engine) fn go_on_with_failover(&mut self) {
        let Replication { failover, replicas, outgoing, .. } = &self.replication;
        if !failover.is_waiting() {
            return;
        }
        // Called in each tick: the replicas' addresses are copied only if one may take over.
        let (now_us, offset) = (self.server.now.monotonic_us, outgoing.offset());
        let is_over = failover.deadline_us().is_some_and(|deadline_us| deadline_us <= now_us);
        let has_all = |replica: &Replica| replica.is_online() && replica.acknowledged.stream == Some(offset);
        if is_over || replicas.any(has_all) {
            self.fail_over(None, Event::Tick);
        }
    }

    /// Passes an event to the failover; `handle` is the connection to the target.
    pub(super) fn fail_over(&mut self, handle: Option<ClientHandle>, event: Event<'_>) {
        let actions = self.replication.step_failover(&mut self.server, event);
        self.perform_failover(handle, actions);
    }

    fn perform_failover(&mut self, handle: Option<ClientHandle>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Log(text) => log::info!("{text}"),
                Action::Refuse(_) => unreachable!("only a command is refused"),
                Action::PauseWrites => {
                    let now_us = self.server.now.monotonic_us;
                    self.server.pauses.begin(PausePurpose::Failover, Pause::OF_WRITES, now_us);
                }
                Action::EndPause => {
                    self.server.pauses.end(PausePurpose::Failover);
                    // Held reads, meant for redirection to the target, are checked again.
                    self.server.pauses.recheck_held();
                }
                Action::Follow(target) => self.follow(target),
                Action::Promote => self.promote(),
                Action::Leave => handle.into_iter().for_each(|handle| self.leave(handle)),
                Action::EndWaiting => end_waiting_of_all(&mut self.server),
            }
        }
    }
}
