//! Propagation of commands to replicas and the append-only file: most are propagated verbatim. A command's table row
//! names exceptions; handlers that rewrite commands record them themselves.

use super::Executor;
use super::call::Call;
use crate::command::{Command, Group, flag};
use crate::db::encoded_commands::Receivers;
use crate::server::Server;
use crate::session::ClientHandle;

/// Returns the receivers of the current script's changes, which the script may choose.
fn script_receivers(server: &Server) -> Receivers {
    let running = server.scripts.running.as_ref();
    running.map_or(Receivers::ALL, |running| Receivers::of_script(running.settings.replication))
}

impl Executor {
    /// Records the effect of the command that has just run.
    #[inline(always)]
    pub(super) fn propagate(&mut self, call: &Call<'_>) {
        match self.db.change_log.is_recording() {
            true => self.propagate_recorded(call),
            false => self.db.change_log.audit.forget_unpropagated(),
        }
    }

    fn propagate_recorded(&mut self, call: &Call<'_>) {
        let &Call { client, row, args, origin, .. } = call;
        let mut receivers = if origin.in_script { script_receivers(&self.server) } else { Receivers::ALL };
        if receivers.is_empty() {
            return self.db.change_log.end_unpropagated();
        }
        let is_unit = !origin.in_transaction && !origin.in_script && !self.is_busy();
        if self.db.change_log.is_to_be_propagated() && is_propagated(row) {
            if let Some(propagate_as) = row.propagated_as {
                let seed = self.db.key_seed();
                propagate_as(args.with_seed(&seed), &mut self.db);
            }
            if self.db.change_log.is_to_be_propagated() {
                if is_unit
                    && row.is(flag::WRITE)
                    && self.db.change_log.unit().is_empty()
                    && let Some(command) = args.as_written()
                {
                    self.feed_lone_command(command);
                    self.note_fed(client);
                    return self.save_if_flushed();
                }
                self.db.change_log.propagate_verbatim(self.db.selected(), args.iter());
            }
        }
        if row.is(flag::LOCAL) {
            self.db.change_log.audit.forget_unpropagated();
            receivers = Receivers::FILE;
        }
        if is_unit && row.is(flag::TOUCHES_ARBITRARY_KEYS) {
            // The keys that it found expired are removed as independent units.
            self.feed_removals();
            self.note_fed(client);
        }
        self.db.change_log.end_command(receivers);
        if !origin.in_transaction && !self.is_busy() {
            self.end_unit(client);
        }
    }

    /// Ends the unit of a client (a command, transaction or script) and propagates it as one.
    pub(super) fn end_unit(&mut self, handle: ClientHandle) {
        if self.feed_unit() {
            self.note_fed(handle);
        }
        self.save_if_flushed();
    }

    /// Records the offset at which the client's changes end.
    #[inline]
    fn note_fed(&mut self, handle: ClientHandle) {
        let client = &mut self.server.clients[handle];
        client.stream_end = self.replication.offset();
        if let Some(end) = self.aof.end() {
            client.log_end = end;
        }
    }

    #[inline]
    fn save_if_flushed(&mut self) {
        if self.saving.take_flushed() {
            self.all_flushed();
        }
    }
}

/// Returns whether a command that changed data is propagated: not scripts, but the commands they call.
fn is_propagated(row: &Command) -> bool {
    row.is(flag::WRITE | flag::LOCAL) || row.is(flag::MAY_REPLICATE) && row.group != Group::Scripting
}
