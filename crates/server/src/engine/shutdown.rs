//! Shutdown by a command or a signal: its waits, the final save, and its refusals.
//!
//! The server waits for lagging replicas, up to `shutdown-timeout`. Meanwhile commands that may write are held, and so is
//! the primary's stream; they run if the shutdown is aborted or fails.

use super::aof::AppendOnlyFile;
use super::{Executor, aof, peers, saving};
use crate::clock::Clock;
use crate::command::Next;
use crate::error::{ClientError, on_the_wire};
use crate::observe::readiness::Unready;
use crate::observe::supervisor;
use crate::persist::child::Purpose;
use crate::script::Running;
use crate::server::Server;
use crate::server::pause::{Pause, PausePurpose};
use crate::server::{ProcessRequest, Shutdown};
use crate::session::{BlockRequest, BlockedOn, Client, ClientHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::reply::ReplyBuffer;

const FAILED: ClientError = ClientError::text("ERR Errors trying to SHUTDOWN. Check logs.");
const UNTIL_SHUTDOWN: BlockRequest = BlockRequest::until(BlockedOn::Shutdown);

/// A requested shutdown.
#[derive(Clone, Copy, Debug)]
enum Stopping {
    /// Requested by a signal, and not started.
    Requested(Shutdown),
    /// Waits for a suspended script or transaction, until a time on the monotonic clock.
    WaitsForUnit { how: Shutdown, deadline_us: u64 },
    /// Waits for replicas, until a time on the monotonic clock.
    Waits {
        how: Shutdown,
        deadline_us: u64,
        /// The deadline of a running script or transaction that had written has passed: it no longer delays the end.
        gives_up_unit: bool,
    },
}

/// The end of the process, from the request on.
#[derive(Default)]
pub(super) struct Ending {
    /// Set while a signal that requests a shutdown has arrived and is not handled yet.
    requests: [Arc<AtomicBool>; 2],
    /// A pending request.
    stage: Option<Stopping>,
    /// The final save is done: a write that ran now would be acknowledged and lost.
    is_over: bool,
    /// The configured final snapshot is skipped, because a script or transaction has not ended.
    loses_changes: bool,
}

impl Ending {
    /// Returns whether no further command may run.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns whether a shutdown is pending, or a signal that requests one.
    pub(super) fn is_requested(&self) -> bool {
        self.stage.is_some() || self.requests.iter().any(|request| request.load(Ordering::Relaxed))
    }
}

/// Returns what is set when a signal requests that the process end.
pub fn stop_requests(executor: &Executor) -> [Arc<AtomicBool>; 2] {
    executor.ending.requests.clone()
}

/// Result of starting a shutdown.
enum Begun {
    Ends,
    Waits,
    Failed,
}

impl Ending {
    /// Returns when waiting for replicas ends.
    pub(super) fn shutdown_deadline_us(&self) -> Option<u64> {
        match self.stage {
            Some(Stopping::Waits { deadline_us, .. }) => Some(deadline_us),
            Some(Stopping::Requested(_) | Stopping::WaitsForUnit { .. }) | None => None,
        }
    }

    /// Returns whether a shutdown waits for replicas; the stream does not grow until then.
    pub(super) fn waits_for_replicas_to_end(&self) -> bool {
        self.shutdown_deadline_us().is_some()
    }

    /// Returns whether the server stops although a unit that has written does not end. A final snapshot would contain a part
    /// of the unit and is not saved, so without an append-only file all changes since the last save are lost. Signals and
    /// FORCE stop the server nevertheless; other shutdowns fail.
    fn may_stop_without_unit(&mut self, aof: &AppendOnlyFile, server: &Server, how: Shutdown) -> bool {
        const WHAT: &str = "The running script or transaction has not ended in time. \
                            A final snapshot would contain part of its writes";
        let has_log = aof.is_on() && !aof.log_waits_for_rewrite();
        if has_log {
            log::warn!(
                "{WHAT} and is not saved; the append-only file has all changes before it and none of its own."
            );
            return true;
        }
        if !saves_at_end(server, how) {
            log::warn!(
                "{WHAT}; saving and the append-only file are disabled: the server ends without its data."
            );
            return true;
        }
        if !how.by_signal && !how.force {
            log::warn!(
                "{WHAT}, can't exit. SHUTDOWN FORCE, SHUTDOWN NOSAVE and signals end the server without all changes \
                 since the last save."
            );
            return false;
        }
        log::warn!("{WHAT} and is not saved: all changes since the last save are lost.");
        self.loses_changes = !how.force;
        true
    }

    /// Begins the wait for a suspended unit; returns its deadline, which is that of replicas.
    fn begin_waiting_for_unit(&mut self, server: &mut Server, clock: &Clock, how: Shutdown) -> u64 {
        let timeout_s = if how.now { 0 } else { server.config.shutdown_timeout_seconds };
        let deadline_us = clock.monotonic_us() + u64::from(timeout_s) * 1_000_000;
        log::info!("Waiting at most {timeout_s} seconds for the running script or transaction to end.");
        self.stage = Some(Stopping::WaitsForUnit { how, deadline_us });
        server.observed.shutdown_deadline_us = Some(deadline_us);
        deadline_us
    }
}

fn saves_at_end(server: &Server, how: Shutdown) -> bool {
    how.save.unwrap_or(!server.config.save.is_empty())
}

/// Ends a script that has not written: it leaves no partial changes and need not delay the shutdown. Returns whether
/// the running script is to end.
fn end_script_that_reads(server: &mut Server) -> bool {
    let Some(running) = &mut server.scripts.running else { return false };
    if running.killed {
        return true;
    }
    if must_run_whole(running) {
        return false;
    }
    running.killed = true;
    log::info!(
        "Ending the script {}, which has not written: the server is shutting down.",
        running.call.name
    );
    true
}

impl Executor {
    /// Returns whether a shutdown is pending.
    pub fn is_stopping(&self) -> bool {
        self.ending.stage.is_some()
    }

    /// Sets the flags of the signals that request a shutdown.
    pub fn watch_stop_requests(&mut self, requests: [Arc<AtomicBool>; 2]) {
        self.ending.requests = requests;
    }

    /// Returns whether the process ends without changes that it should have saved.
    pub fn loses_changes(&self) -> bool {
        self.ending.is_over && self.ending.loses_changes
    }

    /// Requests a shutdown by signal. A client's earlier request is then no longer cancelled because of a script that does
    /// not end.
    pub fn request_shutdown(&mut self, how: Shutdown) {
        match &mut self.ending.stage {
            Some(Stopping::Requested(first) | Stopping::WaitsForUnit { how: first, .. }) => {
                first.by_signal |= how.by_signal;
                first.restarts_after = None;
            }
            Some(Stopping::Waits { .. }) => {}
            None => self.ending.stage = Some(Stopping::Requested(how)),
        }
    }

    /// Returns whether a script or transaction is suspended, other than a replayed one: its partial changes must not be
    /// saved.
    pub(super) fn is_within_unit(&self) -> bool {
        self.is_busy() && !self.is_loading()
    }

    /// Starts a requested shutdown once the suspended unit has ended or its deadline has passed.
    pub fn start_requested_shutdown(&mut self) {
        let (how, deadline_us) = match self.ending.stage {
            Some(Stopping::Requested(how)) => (how, None),
            Some(Stopping::WaitsForUnit { how, deadline_us }) => (how, Some(deadline_us)),
            Some(Stopping::Waits { .. }) | None => return,
        };
        let gives_up_unit = self.is_within_unit();
        if gives_up_unit {
            if end_script_that_reads(&mut self.server) {
                // The script ends in its next slice; then no partial changes would be saved.
                return;
            }
            let deadline_us = deadline_us
                .unwrap_or_else(|| self.ending.begin_waiting_for_unit(&mut self.server, &self.clock, how));
            if self.clock.monotonic_us() < deadline_us {
                return;
            }
            if !self.ending.may_stop_without_unit(&self.aof, &self.server, how) {
                return self.cancel_shutdown();
            }
        }
        self.ending.stage = None;
        self.server.observed.shutdown_deadline_us = None;
        if matches!(self.begin_shutdown(how, None, gives_up_unit), Begun::Failed) {
            self.cancel_shutdown();
        }
    }

    /// Returns whether the running script has made changes that must not be saved before its end.
    fn has_script_written(&self) -> bool {
        self.server.scripts.running.as_ref().is_some_and(must_run_whole)
    }

    /// SHUTDOWN.
    pub(super) fn shut_down_on_request(
        &mut self,
        handle: ClientHandle,
        how: Shutdown,
    ) -> Result<Next, ClientError> {
        match self.begin_shutdown(how, Some(handle), false) {
            Begun::Ends => {
                // No later request of the client may run; the closed connection is the reply.
                self.server.close_asap(handle);
                Ok(Next::Reply)
            }
            Begun::Waits => Ok(Next::Block(Box::new(UNTIL_SHUTDOWN))),
            Begun::Failed => Err(FAILED),
        }
    }

    /// SHUTDOWN ABORT.
    pub(super) fn abort_shutdown(&mut self, reply: &mut ReplyBuffer) -> Result<Next, ClientError> {
        if self.ending.stage.is_none() {
            return Err(ClientError::text("ERR No shutdown in progress."));
        }
        self.cancel_shutdown();
        log::info!("Shutdown manually aborted.");
        reply.ok();
        Ok(Next::Reply)
    }

    fn begin_shutdown(&mut self, how: Shutdown, asker: Option<ClientHandle>, gives_up_unit: bool) -> Begun {
        if self.ending.shutdown_deadline_us().is_some() {
            return Begun::Waits;
        }
        if asker.is_some() && self.is_within_unit() && how.save != Some(false) {
            self.ending.stage.get_or_insert(Stopping::Requested(how));
            return Begun::Waits;
        }
        match asker.map(|handle| &self.server.clients[handle]) {
            Some(client) => log::info!(
                "User requested shutdown... (user request from 'id={} addr={}')",
                client.id,
                client.connection.address
            ),
            None => log::info!("User requested shutdown..."),
        }
        supervisor::notify("STOPPING=1\n");
        // Before saving; if that fails, the next turn publishes the actual state.
        self.server.observed.readiness.publish([Unready::Stopping]);
        let timeout_us = u64::from(self.server.config.shutdown_timeout_seconds) * 1_000_000;
        if how.now || timeout_us == 0 || self.replication.has_all_replicas_synced() {
            return if self.shut_down(how) { Begun::Ends } else { Begun::Failed };
        }
        let now_us = self.server.now.monotonic_us;
        self.replication.request_acknowledgements_now(&mut self.db, &mut self.server, &self.clock);
        self.server.pauses.begin(PausePurpose::Shutdown, Pause::OF_WRITES, now_us);
        let deadline_us = now_us + timeout_us;
        self.ending.stage = Some(Stopping::Waits { how, deadline_us, gives_up_unit });
        self.server.observed.shutdown_deadline_us = self.ending.shutdown_deadline_us();
        log::info!("Waiting for replicas before shutting down.");
        Begun::Waits
    }

    /// Continues a shutdown once all replicas have the whole stream, or the deadline has passed.
    pub(super) fn go_on_with_shutdown(&mut self) {
        let Some(Stopping::Waits { how, deadline_us, gives_up_unit }) = self.ending.stage else { return };
        if gives_up_unit && !self.is_within_unit() {
            log::info!(
                "The script or transaction has ended while the server waited for replicas: none of its writes are lost."
            );
            self.ending.loses_changes = false;
            self.ending.stage = Some(Stopping::Waits { how, deadline_us, gives_up_unit: false });
        }
        let is_over = deadline_us <= self.server.now.monotonic_us;
        // Without saving, SHUTDOWN is also the way to end an endless script.
        if self.is_within_unit() && how.save != Some(false) && !(gives_up_unit && self.has_script_written()) {
            if is_over && end_script_that_reads(&mut self.server) {
                // Its last slice runs here: in the next turn another script could have begun.
                self.go_on_with_script();
            }
            if self.is_within_unit() {
                return;
            }
        }
        let is_due = is_over || self.replication.has_all_replicas_synced();
        if is_due && !self.shut_down(how) {
            self.cancel_shutdown();
        }
    }

    /// Runs the held commands, and replies to the SHUTDOWN clients that it was aborted.
    fn cancel_shutdown(&mut self) {
        self.ending.stage = None;
        self.ending.loses_changes = false;
        self.server.observed.shutdown_deadline_us = None;
        self.server.pauses.end(PausePurpose::Shutdown);
        peers::resume(self);
        let waits = |client: &&Client| {
            client.blocked.as_ref().is_some_and(|blocked| blocked.on == BlockedOn::Shutdown)
        };
        let waiting: Vec<ClientHandle> =
            self.server.clients.by_age().filter(waits).map(|client| client.handle).collect();
        let line = FAILED.to_string();
        for handle in waiting {
            self.server.observed.statistics.count_error(&line);
            self.server.wake(handle, |reply| reply.error(on_the_wire(&line)));
        }
    }

    /// Prepares the end; returns whether the process may end. The log has the reason if not.
    pub fn shut_down(&mut self, how: Shutdown) -> bool {
        self.replication.log_lagging_replicas(&self.server);
        if how.safe && !may_stop_voting_primary(&self.server, how) {
            return failed_to_end();
        }
        if !self.aof.may_stop_first_rewrite(how) {
            return failed_to_end();
        }
        // Another snapshot would begin for waiting replicas when this one ends.
        while let Some(child) = self.disk.take_child() {
            match child.purpose {
                Purpose::Snapshot | Purpose::Sync => {
                    log::warn!("There is a child saving an .rdb. Killing it!");
                    self.snapshot_killed(child);
                }
                Purpose::SlotExport => {
                    log::warn!("There is a child exporting slots. Killing it!");
                    saving::end_exporter(self, child);
                }
                Purpose::LogBase => {
                    log::warn!("There is a child rewriting the AOF. Killing it!");
                    aof::end_rewriter(child, &mut self.server);
                }
            }
        }
        if !self.aof.close_log(&self.server, how.force || self.aof.log_waits_for_rewrite())
            && !how.force
            && !self.aof.log_waits_for_rewrite()
        {
            log::warn!("Error writing the append-only file, can't exit.");
            return failed_to_end();
        }
        // Beside a suspended unit a snapshot would hold a part of it.
        let has_part = self.has_load_under_way() || self.is_within_unit();
        if saves_at_end(&self.server, how) && !has_part {
            log::info!("Saving the final RDB snapshot before exiting.");
            supervisor::notify("STATUS=Saving the final RDB snapshot\n");
            if !self.save_now() {
                if !how.force {
                    log::warn!("Error trying to save the DB, can't exit.");
                    supervisor::notify("STATUS=Error trying to save the DB, can't exit.\n");
                    return failed_to_end();
                }
                log::warn!("Error trying to save the DB. Exit anyway.");
            }
        }
        if how.hands_over {
            self.replication.name_successor(&mut self.db, &mut self.server, &self.clock);
        }
        self.server.process_requests.push(ProcessRequest::Shutdown);
        self.server.restarts_after = how.restarts_after;
        self.ending.is_over = true;
        true
    }
}

/// Returns whether a script may not be ended: it has made changes, or its changes are those of the primary.
fn must_run_whole(running: &Running) -> bool {
    running.wrote || running.is_streamed
}

/// Returns whether a server that is to stop only if that is safe may stop; a node that has slots leaves them unserved.
fn may_stop_voting_primary(server: &Server, how: Shutdown) -> bool {
    if !server.cluster.as_ref().is_some_and(|node| node.view.myself().has_vote()) {
        return true;
    }
    let ending = if how.force { "Exit anyway." } else { "Can't exit." };
    log::warn!("This is a voting primary. Shutting down may cause the cluster to go down. {ending}");
    how.force
}

/// Logs that the process continues.
fn failed_to_end() -> bool {
    log::warn!("Errors trying to shut down the server. Check the logs for more information.");
    false
}
