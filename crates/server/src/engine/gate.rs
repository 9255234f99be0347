//! Whether a command may run now: a list of refusals, each with its error, in the order in which clients rely
//! on them.

use super::Executor;
use crate::command::{Args, Command, flag};
use crate::error::ClientError;
use crate::session::ClientSlot;

impl Executor {
    /// `Err` is the reply; nothing has happened yet.
    #[inline]
    pub(super) fn refusal(
        &mut self,
        slot: ClientSlot,
        row: &Command,
        args: Args<'_>,
    ) -> Result<(), ClientError> {
        arity(row, args)?;
        self.authentication(slot, row)?;
        self.protected(slot, row)?;
        self.memory_shortage(slot, row)?;
        self.subscribed_context(slot, row)?;
        self.inside_transaction(slot, row)
    }

    fn authentication(&self, slot: ClientSlot, row: &Command) -> Result<(), ClientError> {
        if self.server.clients[slot].authenticated || row.is(flag::NO_AUTH) {
            return Ok(());
        }
        Err(ClientError::NoAuth)
    }

    /// Commands that only a local administrator may use, unless configured otherwise.
    fn protected(&self, slot: ClientSlot, row: &Command) -> Result<(), ClientError> {
        if !row.is(flag::PROTECTED) {
            return Ok(());
        }
        let config = &self.server.config;
        let (container, _) = row.name.split_once('|').unwrap_or((row.name, ""));
        let (permission, option) = match container {
            "debug" => (config.enable_debug_command, "enable-debug-command"),
            _ => (config.enable_module_command, "enable-module-command"),
        };
        if permission.allows(self.server.clients[slot].connection.is_loopback) {
            return Ok(());
        }
        Err(ClientError::formatted(format!(
            "ERR {} command not allowed. If the {option} option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
            container.to_ascii_uppercase()
        )))
    }

    fn memory_shortage(&mut self, slot: ClientSlot, row: &Command) -> Result<(), ClientError> {
        if self.server.config.maxmemory_bytes == 0 {
            return Ok(());
        }
        let enough = self.make_room();
        let client = &self.server.clients[slot];
        let queued_writes_matter =
            client.transaction.is_some() && !row.name.eq("exec") && !row.name.eq("discard");
        if enough || !row.is(flag::DENY_OOM) && !(queued_writes_matter && row.is(flag::DENY_OOM)) {
            return Ok(());
        }
        Err(ClientError::OutOfMemory)
    }

    fn subscribed_context(&self, slot: ClientSlot, row: &Command) -> Result<(), ClientError> {
        const ALLOWED: [&str; 9] = [
            "ping",
            "subscribe",
            "ssubscribe",
            "psubscribe",
            "unsubscribe",
            "sunsubscribe",
            "punsubscribe",
            "quit",
            "reset",
        ];
        if !self.server.clients[slot].in_subscribed_context() || ALLOWED.contains(&row.name) {
            return Ok(());
        }
        Err(ClientError::SubscribedContext { command: row.name.to_owned() })
    }

    fn inside_transaction(&self, slot: ClientSlot, row: &Command) -> Result<(), ClientError> {
        if self.server.clients[slot].transaction.is_some() && row.is(flag::NO_MULTI) {
            return Err(ClientError::NotAllowedInTransaction);
        }
        Ok(())
    }
}

fn arity(row: &Command, args: Args<'_>) -> Result<(), ClientError> {
    if row.accepts(args.len()) {
        return Ok(());
    }
    Err(ClientError::WrongArity { command: row.name.to_owned() })
}
