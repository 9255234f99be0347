//! Authentication by TLS certificate (`tls-auth-clients-user`).

use super::Server;
use super::denials::Denial;
use crate::acl::{DenialContext, Reason, UserHandle};
use crate::command::Args;
use crate::config::TlsAuthClientsUser;
use crate::session::ClientHandle;
use tls::certificate::{common_name, uris};

impl Server {
    /// Authenticates a client as the user named in its verified certificate; without a matching user it stays as it is,
    /// which is recorded.
    pub fn log_in_by_certificate(&mut self, handle: ClientHandle, certificate: &[u8]) {
        let names = match self.config.tls_auth_clients_user {
            TlsAuthClientsUser::Off => return,
            TlsAuthClientsUser::CommonName => common_name(certificate).into_iter().collect(),
            TlsAuthClientsUser::Uri => uris(certificate),
        };
        let shown = |name: &[u8]| match self.config.hide_user_data_from_log {
            true => "*redacted*".to_owned(),
            false => name.escape_ascii().to_string(),
        };
        let user = names.iter().find_map(|name| Some((name, self.enabled_user(name)?)));
        match (user, names.last()) {
            (Some((name, user)), _) => {
                log::debug!("TLS: Auto-authenticated client as {}", shown(name));
                self.log_in(handle, user);
            }
            (None, Some(name)) => {
                log::debug!("TLS: No matching user found for certificate name {}", shown(name));
                let (reason, context) = (Reason::TlsCertificate, DenialContext::TopLevel);
                let denial = Denial { reason, context, object: b"", user_name: name };
                self.note_denial(handle, &denial, Args::new(&[], &[]));
            }
            (None, None) => log::debug!("TLS: The certificate of a client has no name for a user"),
        }
    }

    fn enabled_user(&self, name: &[u8]) -> Option<UserHandle> {
        let handle = self.users.named(name)?;
        self.users.get(handle).filter(|user| user.is_enabled).map(|_| handle)
    }
}
