//! What a command has done, for those who keep a copy: most are propagated verbatim. A row says what stands for others;
//! handlers that know more note it themselves.

use super::Executor;
use crate::command::{Args, Command, Group, Origin, flag};
use crate::db::encoded_commands::Receivers;
use crate::session::ClientHandle;

impl Executor {
    /// Takes in what the command that has just run did.
    #[inline(always)]
    pub(super) fn propagate(&mut self, handle: ClientHandle, row: &Command, args: Args<'_>, origin: Origin) {
        match self.db.change_log.is_recording() {
            true => self.propagate_recorded(handle, row, args, origin),
            false => self.db.change_log.audit.forget_unpropagated(),
        }
    }

    fn propagate_recorded(&mut self, handle: ClientHandle, row: &Command, args: Args<'_>, origin: Origin) {
        let mut receivers = if origin.in_script { self.script_receivers() } else { Receivers::ALL };
        if receivers.is_empty() {
            return self.db.change_log.end_unpropagated();
        }
        let is_unit = !origin.in_transaction && !origin.in_script && self.suspended.is_none();
        if self.db.change_log.is_to_be_propagated() && is_propagated(row) {
            if let Some(propagate_as) = row.propagated_as {
                propagate_as(args, &mut self.db);
            }
            if self.db.change_log.is_to_be_propagated() {
                if is_unit
                    && row.is(flag::WRITE)
                    && self.db.change_log.unit().is_empty()
                    && let Some(command) = args.as_written()
                {
                    self.feed_lone_command(command);
                    self.note_fed(handle);
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
            // What it came upon and removed has nothing to do with one another.
            self.feed_removals();
            self.note_fed(handle);
        }
        self.db.change_log.end_command(receivers);
        if !origin.in_transaction && self.suspended.is_none() {
            self.end_unit(handle);
        }
    }

    /// Who gets what the script at hand changes: it may say otherwise.
    fn script_receivers(&self) -> Receivers {
        let running = self.server.scripts.running.as_ref();
        running.map_or(Receivers::ALL, |running| Receivers::of_script(running.settings.replication))
    }

    /// The unit of a client (a command, transaction or script) has ended: it is propagated as one.
    pub(super) fn end_unit(&mut self, handle: ClientHandle) {
        if self.feed_unit() {
            self.note_fed(handle);
        }
        self.save_if_flushed();
    }

    /// What the client has done goes up to there.
    #[inline]
    fn note_fed(&mut self, handle: ClientHandle) {
        let client = &mut self.server.clients[handle];
        client.stream_end = self.replication.history.offset();
        if let Some(log) = &self.disk.aof {
            client.log_end = log.appender.end();
        }
    }

    #[inline]
    fn save_if_flushed(&mut self) {
        if std::mem::take(&mut self.disk.saves_flushed) {
            self.all_flushed();
        }
    }
}

/// Whether a command that has changed something is propagated: scripts are not, but what they call.
fn is_propagated(row: &Command) -> bool {
    row.is(flag::WRITE | flag::LOCAL) || row.is(flag::MAY_REPLICATE) && row.group != Group::Scripting
}
