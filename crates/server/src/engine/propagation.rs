//! What is told to those who copy the data by its changes: each command by its effect. A row says how it is told;
//! handlers that know more note effects of their own.

use super::Executor;
use crate::command::propagation::Propagated;
use crate::command::{Args, Command, Group, Origin, flag};
use crate::db::Effect;
use crate::script::REPLICATE_TO_LOG;
use crate::session::ClientHandle;

impl Executor {
    /// Takes in what the command that has just run did. `changes` is how many it said.
    #[inline]
    pub(super) fn propagate(
        &mut self,
        handle: ClientHandle,
        row: &Command,
        args: Args<'_>,
        origin: Origin,
        changes: u64,
    ) {
        if !self.db.change_log.recording {
            return self.db.change_log.audit.forget_unpropagated();
        }
        let noted = self.db.change_log.take_effects();
        if origin.in_script && !self.script_is_propagated() {
            self.db.change_log.audit.forget_unpropagated();
            self.unit.extend(noted.effects.into_iter().filter(|effect| effect.of_its_own));
            return;
        }
        let before = self.unit.len();
        self.unit.extend(noted.effects);
        if changes > noted.dirty_of_its_own && !noted.replaced && is_propagated(row) {
            let db_index = self.db.selected();
            let own = match row
                .propagated_as
                .map_or(Propagated::Verbatim, |propagate_as| propagate_as(args, &mut self.db))
            {
                Propagated::Verbatim => Some(args.iter().map(<[u8]>::to_vec).collect()),
                Propagated::As(arguments) => Some(arguments),
                Propagated::Nothing => None,
            };
            self.unit.extend(own.map(|arguments| Effect { db_index, arguments, of_its_own: false }));
        }
        if row.name == "debug" {
            // It makes up keys, or brings the data from where it has been written already.
            self.db.change_log.audit.forget_unpropagated();
        }
        self.db.change_log.audit.check_propagated(&self.unit[before..]);
        if !origin.in_transaction && self.suspended.is_none() {
            self.end_unit(handle);
        }
    }

    /// Whether what the script at hand changes goes to the append-only file: it may say otherwise.
    fn script_is_propagated(&self) -> bool {
        let running = self.server.scripts.running.as_ref();
        running.is_none_or(|running| running.settings.replication & REPLICATE_TO_LOG != 0)
    }

    /// Expiry and eviction have removed keys on their own account: each is told by itself.
    pub(super) fn propagate_removals(&mut self) {
        if !self.db.change_log.recording {
            return self.db.change_log.audit.forget_unpropagated();
        }
        let effects = self.db.change_log.take_effects().effects;
        self.db.change_log.audit.check_propagated(&effects);
        effects.iter().for_each(|effect| self.append(effect));
    }

    /// All that was done as one, for the client, has been done: it is told as one.
    pub(super) fn end_unit(&mut self, handle: ClientHandle) {
        if std::mem::take(&mut self.disk.saves_flushed) {
            self.all_flushed();
        }
        let unit = std::mem::take(&mut self.unit);
        if unit.is_empty() {
            return;
        }
        self.append_unit(&unit);
        if let Some(log) = &self.disk.aof {
            self.server.clients[handle].log_end = log.appender.end();
        }
    }

    fn append_unit(&mut self, unit: &[Effect]) {
        let Some(first) = unit.first() else { return };
        if unit.len() == 1 {
            return self.append(first);
        }
        let db_index = first.db_index;
        let word = |word: &[u8]| Effect { db_index, arguments: vec![word.to_vec()], of_its_own: false };
        self.append(&word(b"MULTI"));
        unit.iter().for_each(|effect| self.append(effect));
        self.append(&word(b"EXEC"));
    }
}

/// Whether a command with changes to its name is told: scripts are not, but what they call.
fn is_propagated(row: &Command) -> bool {
    let writes = row.is(flag::WRITE) || matches!(row.name, "pfcount" | "debug");
    writes && (row.group != Group::Scripting || row.name.starts_with("function|"))
}
