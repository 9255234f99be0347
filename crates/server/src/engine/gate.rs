//! Whether a command may run now: a list of refusals, each with its error, in the order in which clients rely
//! on them.

use super::Executor;
use super::call::Call;
use super::memory::Room;
use crate::command::{Command, Control, flag};
use crate::error::{ClientError, PRIMARY_DOWN, READ_ONLY_REPLICA};
use crate::server::Server;
use crate::server::{Loading, TOO_FEW_REPLICAS};
use crate::session::ClientHandle;

/// Returns whether the client must authenticate. Clients connected before a password was set stay authenticated;
/// without a password none needs to authenticate.
#[inline]
pub fn needs_authentication(server: &Server, handle: ClientHandle) -> bool {
    !server.clients[handle].authenticated && !server.users.default_is_open()
}

/// Bounds the memory of client-side caching.
#[inline]
pub(super) fn limit_tracking(server: &mut Server) {
    if server.tracking.clients > 0 {
        server.tracking.limit(&mut server.clients, server.config.tracking_table_max_keys);
    }
}

/// What clients have read that track no more is forgotten by and by.
pub(super) fn forget_departed_trackers(server: &mut Server) {
    if server.tracking.remembers_departed() {
        server.tracking.forget_departed(&mut server.clients);
    }
}

impl Executor {
    /// Returns the error reply as `Err`; nothing has run yet.
    #[inline]
    pub(super) fn refusal(&mut self, call: &Call<'_>) -> Result<(), ClientError> {
        arity(call)?;
        self.protected(call)?;
        self.inside_transaction(call)?;
        self.permission(call)?;
        let is_replica = self.is_replica();
        if is_replica {
            self.redirected(call)?;
        }
        self.memory_shortage(call)?;
        self.disk_trouble(call)?;
        self.replica_shortage(call)?;
        if is_replica {
            self.read_only_replica(call)?;
        }
        limit_tracking(&mut self.server);
        self.subscribed_context(call)?;
        if is_replica {
            self.stale_data(call)?;
        }
        self.loading(call)?;
        self.beside_slow_script(call.row)?;
        self.as_replica(call)
    }

    /// Checks authentication before all else, even whether the command exists.
    pub(super) fn authentication(
        &self,
        handle: ClientHandle,
        row: Option<&Command>,
    ) -> Result<(), ClientError> {
        if !needs_authentication(&self.server, handle) || row.is_some_and(|row| row.is(flag::NO_AUTH)) {
            return Ok(());
        }
        Err(ClientError::NoAuth)
    }

    /// Commands that only a local administrator may use, unless configured otherwise.
    fn protected(&self, call: &Call<'_>) -> Result<(), ClientError> {
        let &Call { client, row, .. } = call;
        if !row.is(flag::PROTECTED) {
            return Ok(());
        }
        let config = &self.server.config;
        let (container, _) = row.name.split_once('|').unwrap_or((row.name, ""));
        let (permission, option) = match container {
            "debug" => (config.enable_debug_command, "enable-debug-command"),
            _ => (config.enable_module_command, "enable-module-command"),
        };
        if permission.allows(self.server.clients[client].connection.is_loopback) {
            return Ok(());
        }
        Err(ClientError::formatted(format!(
            "ERR {} command not allowed. If the {option} option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
            container.to_ascii_uppercase()
        )))
    }

    /// Returns the command's flags; EXEC has those of all its queued commands.
    pub(super) fn flags_with_queue(&self, call: &Call<'_>) -> flag::Flags {
        let transaction = self.server.clients[call.client]
            .transaction
            .as_ref()
            .filter(|_| call.row.control == Control::RunsTransaction);
        self.flags_of(call.row, call.args) | transaction.map_or(0, |transaction| transaction.flags)
    }

    fn memory_shortage(&mut self, call: &Call<'_>) -> Result<(), ClientError> {
        // The result from before the slow script began holds for its commands.
        if self.is_busy() {
            return Ok(());
        }
        let limited = self.server.config.maxmemory_bytes != 0 && !self.is_loading();
        self.server.short_of_memory = limited && self.make_room() == Room::None;
        if !self.server.short_of_memory {
            return Ok(());
        }
        if self.flags_with_queue(call) & flag::DENY_OOM == 0 {
            return Ok(());
        }
        Err(ClientError::OutOfMemory)
    }

    /// Refuses writes that could be lost.
    fn disk_trouble(&self, call: &Call<'_>) -> Result<(), ClientError> {
        let Some(error) = self.disk_error() else { return Ok(()) };
        let writes = self.flags_with_queue(call) & flag::WRITE != 0;
        if !writes && call.row.control != Control::Ping { Ok(()) } else { Err(error) }
    }

    /// Returns the error for writes while they could be lost.
    pub(super) fn disk_error(&self) -> Option<ClientError> {
        let config = &self.server.config;
        if self.saving.has_failed() && config.stop_writes_on_bgsave_error && !config.save.is_empty() {
            return Some(ClientError::saves_fail(self.server_name()));
        }
        let reason = self.aof.trouble()?;
        Some(ClientError::formatted(format!("MISCONF Errors writing to the AOF file: {reason}")))
    }

    fn replica_shortage(&self, call: &Call<'_>) -> Result<(), ClientError> {
        if !self.server.lacks_replicas() {
            return Ok(());
        }
        let writes = self.flags_with_queue(call) & flag::WRITE != 0;
        if writes { Err(ClientError::text(TOO_FEW_REPLICAS)) } else { Ok(()) }
    }

    /// Redirects a capable client to the primary for commands that a replica does not run or may be stale in.
    fn redirected(&self, call: &Call<'_>) -> Result<(), ClientError> {
        let Some(primary) = &self.server.config.replicaof else { return Ok(()) };
        let client = &self.server.clients[call.client];
        let flags = self.flags_with_queue(call);
        let reads = flags & flag::READONLY != 0 && !client.reads_replicas;
        if client.capabilities_redirect && (flags & flag::WRITE != 0 || reads) {
            return Err(ClientError::redirect(&primary.host, primary.port));
        }
        Ok(())
    }

    /// Refuses writes on a replica, except from its primary.
    fn read_only_replica(&self, call: &Call<'_>) -> Result<(), ClientError> {
        if !self.server.config.replica_read_only {
            return Ok(());
        }
        let writes = self.flags_with_queue(call) & flag::WRITE != 0;
        if writes { Err(READ_ONLY_REPLICA) } else { Ok(()) }
    }

    /// Returns whether this is a replica with possibly stale data that must refuse dependent commands.
    pub(super) fn has_stale_data(&self) -> bool {
        self.is_replica() && !self.server.config.replica_serve_stale_data && !self.is_linked()
    }

    /// Refuses commands on stale data without a primary, unless configured otherwise.
    fn stale_data(&self, call: &Call<'_>) -> Result<(), ClientError> {
        if !self.has_stale_data() {
            return Ok(());
        }
        let is_answered = self.flags_of(call.row, call.args) & flag::STALE != 0
            && !self.has_queued_without(call, flag::STALE);
        if is_answered { Ok(()) } else { Err(PRIMARY_DOWN) }
    }

    /// While data is loaded, only commands that need no data run; and none that conflicts with a load that is to
    /// replace the data.
    fn loading(&self, call: &Call<'_>) -> Result<(), ClientError> {
        let is_refused = match self.server.loading {
            Loading::Nothing => return Ok(()),
            Loading::InPlace => !call.row.is(flag::LOADING) || self.has_queued_without(call, flag::LOADING),
            Loading::Beside => self.flags_with_queue(call) & flag::NO_ASYNC_LOADING != 0,
        };
        if is_refused { Err(ClientError::loading(self.server_name())) } else { Ok(()) }
    }

    /// Returns whether EXEC would run a command that lacks this flag.
    fn has_queued_without(&self, call: &Call<'_>, flag: flag::Flags) -> bool {
        let transaction = self.server.clients[call.client]
            .transaction
            .as_ref()
            .filter(|_| call.row.control == Control::RunsTransaction);
        transaction.is_some_and(|transaction| transaction.missing_flags & flag != 0)
    }

    /// Returns the name under which clients know this server.
    pub(super) fn server_name(&self) -> &'static str {
        if self.server.config.extended_redis_compatibility { "Redis" } else { "Valkey" }
    }

    fn subscribed_context(&self, call: &Call<'_>) -> Result<(), ClientError> {
        let &Call { client, row, .. } = call;
        if row.is(flag::WHILE_SUBSCRIBED) || !self.server.clients[client].in_subscribed_context() {
            return Ok(());
        }
        Err(ClientError::SubscribedContext { command: row.name.to_owned() })
    }

    /// Refuses data commands from a replica's connection; MONITOR clients count as replicas.
    #[inline]
    fn as_replica(&self, call: &Call<'_>) -> Result<(), ClientError> {
        const DATA: flag::Flags = flag::WRITE | flag::READONLY | flag::MAY_REPLICATE;
        let client = &self.server.clients[call.client];
        if (client.is_monitor || client.is_replica) && self.flags_with_queue(call) & DATA != 0 {
            return Err(ClientError::text("ERR Replica can't interact with the keyspace"));
        }
        Ok(())
    }

    fn inside_transaction(&self, call: &Call<'_>) -> Result<(), ClientError> {
        let &Call { client, row, .. } = call;
        if self.server.clients[client].transaction.is_some() && row.is(flag::NO_MULTI) {
            return Err(ClientError::NotAllowedInTransaction { command: row.name });
        }
        Ok(())
    }
}

fn arity(call: &Call<'_>) -> Result<(), ClientError> {
    let &Call { row, args, .. } = call;
    if row.accepts(args.len()) {
        return Ok(());
    }
    Err(ClientError::WrongArity { command: row.name.to_owned() })
}
