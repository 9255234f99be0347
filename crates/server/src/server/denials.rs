//! Authentication, and records of denials: counters, and the entries of ACL LOG.

use super::Server;
use crate::acl::{DenialContext, Reason, Refusal, UserHandle};
use crate::command::Args;
use crate::error::ClientError;
use crate::session::ClientHandle;

/// Consecutive wrong passwords after which a connection is closed: guessing requires reconnecting, within `maxclients`.
const AUTHENTICATION_FAILURES_MAX: u8 = 20;

/// A denied operation.
pub struct Denial<'a> {
    /// What was denied.
    pub reason: Reason,
    /// Where the command came from.
    pub context: DenialContext,
    /// The denied command, key, channel or database.
    pub object: &'a [u8],
    /// Name of the user.
    pub user_name: &'a [u8],
}

impl Server {
    /// Sets the client's user after a successful authentication.
    pub fn log_in(&mut self, handle: ClientHandle, user: UserHandle) {
        self.clients.set_user(handle, user);
        let client = &mut self.clients[handle];
        (client.authenticated, client.ever_authenticated) = (true, true);
        client.authentication_failures = 0;
    }

    /// Authenticates the client as the named user, if the password is correct. `args` are those of the current command.
    pub fn authenticate(
        &mut self,
        handle: ClientHandle,
        (name, password): (&[u8], &[u8]),
        context: DenialContext,
        args: Args<'_>,
    ) -> Result<(), ClientError> {
        if self.clients[handle].authentication_failures >= AUTHENTICATION_FAILURES_MAX {
            // It is closed after the transaction that contains this command.
            return Err(ClientError::WrongPassword);
        }
        if let Some(user) = self.users.authenticate(name, password) {
            self.log_in(handle, user);
            return Ok(());
        }
        let denial = Denial { reason: Reason::Auth, context, object: args.at(0), user_name: name };
        self.note_denial(handle, &denial, args);
        let client = &mut self.clients[handle];
        client.authentication_failures += 1;
        if client.authentication_failures == AUTHENTICATION_FAILURES_MAX {
            log::info!(
                "Client id={} addr={} closed after {AUTHENTICATION_FAILURES_MAX} wrong passwords",
                client.id,
                client.connection.address
            );
            client.close_after_reply = true;
        }
        Err(ClientError::WrongPassword)
    }

    /// Counts a denial and records it for ACL LOG. `args` are those of the current command.
    #[cold]
    pub fn note_denial(&mut self, handle: ClientHandle, denial: &Denial<'_>, args: Args<'_>) {
        let denials = &mut self.observed.denials;
        *match denial.reason {
            Reason::Auth => &mut denials.authentications,
            Reason::Command => &mut denials.commands,
            Reason::Key => &mut denials.keys,
            Reason::Channel => &mut denials.channels,
            Reason::Database => &mut denials.databases,
            Reason::TlsCertificate => &mut denials.certificates,
        } += 1;
        let max_len = self.config.acllog_max_len;
        if max_len == 0 {
            return self.users.log.clear();
        }
        let mut client_info = String::new();
        self.describe_client(&mut client_info, &self.clients[handle], handle, args);
        let refusal = Refusal {
            reason: denial.reason,
            context: denial.context,
            object: denial.object,
            user_name: denial.user_name,
            client_info: client_info.trim_end().as_bytes(),
            now_unix_ms: self.now.unix_ms(),
        };
        self.users.log.record(&refusal, max_len);
    }
}
