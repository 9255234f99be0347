//! The permission check of commands. Every source of commands calls it: requests on arrival, transactions at queueing and
//! again at EXEC, scripts at each call, and blocked commands before each retry. Commands from the append-only file or the
//! primary were checked where they ran first, and run as a user with all permissions.

use super::Executor;
use super::call::Call;
use crate::acl::{self, DenialContext, Denied, Reason};
use crate::error::{ClientError, quoted};
use crate::server::denials::Denial;

const DENIED_IN_SCRIPT: &str = "ERR ACL failure in script: ";

/// Returns the error class of a script's call: a denied call counts as a denial, though its text reads as an error of
/// the call.
pub(super) fn counts_as(line: &str) -> &str {
    if line.starts_with(DENIED_IN_SCRIPT) { "NOPERM" } else { line }
}

impl Executor {
    /// Refuses a request that the user may not make. For a user with all permissions, one word is read.
    #[inline]
    pub(super) fn permission(&mut self, call: &Call<'_>) -> Result<(), ClientError> {
        let &Call { client, id, args, .. } = call;
        let user = self.server.clients[client].user();
        if self.server.users.permits_all(user) || self.server.users.permits_single_key(user, id, args) {
            return Ok(());
        }
        self.whole_permission(call)
    }

    #[inline(never)]
    fn whole_permission(&mut self, call: &Call<'_>) -> Result<(), ClientError> {
        self.check_whole_permission(call).map_err(|denied| self.denied(call, denied))
    }

    /// As [`Self::permission`], without logging or counting.
    pub(super) fn check_permission(&self, call: &Call<'_>) -> Result<(), Denied> {
        let &Call { client, id, args, .. } = call;
        let user = self.server.clients[client].user();
        if self.server.users.permits_all(user) || self.server.users.permits_single_key(user, id, args) {
            return Ok(());
        }
        self.check_whole_permission(call)
    }

    #[inline(never)]
    fn check_whole_permission(&self, call: &Call<'_>) -> Result<(), Denied> {
        let &Call { client, id, row, args, .. } = call;
        let client = &self.server.clients[client];
        // Queued commands use the database selected by a SELECT queued before them.
        let queued = client.transaction.as_ref();
        let db_index = queued.map_or(client.db_index, |transaction| transaction.db_index);
        let requested = acl::Call { id, row, args, db_index, database_count: self.db.database_count() };
        self.server.users.check_whole(client.user(), &requested)
    }

    #[cold]
    fn denied(&mut self, call: &Call<'_>, denied: Denied) -> ClientError {
        let queues = self.server.clients[call.client].transaction.is_some();
        let context = if queues { DenialContext::Multi } else { DenialContext::TopLevel };
        let text = self.note_denied(call, denied, context);
        ClientError::formatted(format!("NOPERM {text}"))
    }

    /// Refuses a queued command whose permission was revoked after it was queued.
    #[cold]
    pub(super) fn denied_in_transaction(&mut self, call: &Call<'_>, denied: Denied) -> ClientError {
        self.note_denied(call, denied, DenialContext::Multi);
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
    pub(super) fn denied_in_script(&mut self, call: &Call<'_>, denied: Denied) -> String {
        let text = self.note_denied(call, denied, DenialContext::Lua);
        format!("{DENIED_IN_SCRIPT}{text}")
    }

    /// Counts and logs a denial, and formats the error for the client.
    fn note_denied(&mut self, call: &Call<'_>, denied: Denied, context: DenialContext) -> String {
        let &Call { client, row, args, .. } = call;
        let user_name = self.server.users.name(self.server.clients[client].user()).to_vec();
        let object = denied.object(row, args);
        let denial = Denial { reason: denied.reason, context, object, user_name: &user_name };
        self.server.note_denial(client, &denial, args);
        quoted(&denied.text(&user_name, row, args, false))
    }
}
