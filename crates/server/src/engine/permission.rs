//! Whether a client's user may do what the client requests. Every source of commands checks here: requests on arrival,
//! transactions at queueing and again at EXEC, scripts at each call, and blocked commands before each retry. Commands
//! from the append-only file or the primary were checked where they ran first, and run as a user with all permissions.

use super::Executor;
use crate::acl::{Call, DenialContext, Denied, Reason};
use crate::command::Args;
use crate::command::registry::CommandId;
use crate::error::{ClientError, quoted};
use crate::server::denials::Denial;
use crate::session::ClientHandle;

const DENIED_IN_SCRIPT: &str = "ERR ACL failure in script: ";

/// Returns the error class of a script's call: a denied call counts as a denial, though its text reads as an error of
/// the call.
pub(super) fn counts_as(line: &str) -> &str {
    if line.starts_with(DENIED_IN_SCRIPT) { "NOPERM" } else { line }
}

impl Executor {
    /// Refuses a request that the user may not make. For a user with all permissions, one word is read.
    #[inline]
    pub(super) fn permission(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
    ) -> Result<(), ClientError> {
        let user = self.server.clients[handle].user;
        if self.server.users.permits_all(user) || self.server.users.permits_single_key(user, id, args) {
            return Ok(());
        }
        self.whole_permission(handle, id, args)
    }

    #[inline(never)]
    fn whole_permission(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
    ) -> Result<(), ClientError> {
        self.check_whole_permission(handle, id, args).map_err(|denied| self.denied(handle, id, args, denied))
    }

    /// As [`Self::permission`], without logging or counting.
    pub(super) fn check_permission(
        &self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
    ) -> Result<(), Denied> {
        let user = self.server.clients[handle].user;
        if self.server.users.permits_all(user) || self.server.users.permits_single_key(user, id, args) {
            return Ok(());
        }
        self.check_whole_permission(handle, id, args)
    }

    #[inline(never)]
    fn check_whole_permission(
        &self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
    ) -> Result<(), Denied> {
        let client = &self.server.clients[handle];
        let row = self.server.registry.row(id);
        // Queued commands use the database selected by a SELECT queued before them.
        let queued = client.transaction.as_ref();
        let db_index = queued.map_or(client.db_index, |transaction| transaction.db_index);
        let call = Call { id, row, args, db_index, database_count: self.db.database_count() };
        self.server.users.check_whole(client.user, &call)
    }

    #[cold]
    fn denied(&mut self, handle: ClientHandle, id: CommandId, args: Args<'_>, denied: Denied) -> ClientError {
        let queues = self.server.clients[handle].transaction.is_some();
        let context = if queues { DenialContext::Multi } else { DenialContext::TopLevel };
        let text = self.note_denied(handle, id, args, denied, context);
        ClientError::formatted(format!("NOPERM {text}"))
    }

    /// Refuses a queued command whose permission was revoked meanwhile.
    #[cold]
    pub(super) fn denied_in_transaction(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
        denied: Denied,
    ) -> ClientError {
        self.note_denied(handle, id, args, denied, DenialContext::Multi);
        let reason = match denied.reason {
            Reason::Command => "no permission to execute the command or subcommand",
            Reason::Key => "no permission to touch the specified keys",
            Reason::Channel => "no permission to access one of the channels used as arguments",
            Reason::Database | Reason::Auth | Reason::TlsCertificate => "no permission",
        };
        ClientError::formatted(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {reason}"
        ))
    }

    /// Refuses a script's call; returns the error line for the script.
    #[cold]
    pub(super) fn denied_in_script(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
        denied: Denied,
    ) -> String {
        let text = self.note_denied(handle, id, args, denied, DenialContext::Lua);
        format!("{DENIED_IN_SCRIPT}{text}")
    }

    /// Counts and logs a denial, and formats the error for the client.
    fn note_denied(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
        denied: Denied,
        context: DenialContext,
    ) -> String {
        let row = self.server.registry.row(id);
        let user_name = self.server.users.name(self.server.clients[handle].user).to_vec();
        let object = denied.object(row, args);
        let denial = Denial { reason: denied.reason, context, object, user_name: &user_name };
        self.server.note_denial(handle, &denial, args);
        quoted(&denied.text(&user_name, row, args, false))
    }
}
