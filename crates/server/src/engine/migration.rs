//! MIGRATE: removes keys that the target server has acknowledged.

use super::Executor;
use super::persistence::Answer;
use crate::config::EventClasses;
use crate::error::ClientError;
use crate::persist::migration::{Encryption, Failure, Parcel};
use crate::server::Migration;
use std::time::Duration;

impl Executor {
    /// Sends the keys that a command has collected. Keys that the target has not acknowledged stay.
    pub(super) fn migrate(&mut self, migration: &Migration) -> Answer {
        let encryption = match self.server.config.tls_cluster {
            false => Encryption::None,
            true => self.server.process_settings.tls_client().map_or(Encryption::Missing, Encryption::Tls),
        };
        let outcome = self.targets.send(&Parcel {
            encryption,
            host: &migration.host,
            port: &migration.port,
            timeout: Duration::from_millis(migration.timeout_ms),
            target_db: migration.target_db,
            authentication: migration.authentication.as_deref(),
            keys: migration.keys.len(),
            commands: &migration.commands,
        });
        self.server.observed.persistence.migration_connections = self.targets.len();
        if !migration.copy {
            let mut removal: Vec<&[u8]> = vec![b"DEL"];
            for &index in &outcome.accepted {
                let key = self.db.key(&migration.keys[index]);
                // A key may be listed twice.
                if self.db.remove(key) {
                    self.db.changed(EventClasses::GENERIC, "del", key);
                    removal.push(key.bytes());
                }
            }
            if removal.len() > 1 {
                self.db.propagate_as(&removal);
            }
        }
        match outcome.failure {
            None => Ok(()),
            Some(Failure::Connecting) => {
                Err(ClientError::text("IOERR error or timeout connecting to the client"))
            }
            Some(Failure::Writing) => {
                Err(ClientError::text("IOERR error or timeout writing to target instance"))
            }
            Some(Failure::Reading) => {
                Err(ClientError::text("IOERR error or timeout reading to target instance"))
            }
            Some(Failure::Refused(reason)) => {
                Err(ClientError::formatted(format!("ERR Target instance replied with error: {reason}")))
            }
        }
    }

    /// Closes idle connections to other servers.
    pub(super) fn close_idle_targets(&mut self) {
        if self.targets.is_empty() {
            return;
        }
        self.targets.close_idle();
        self.server.observed.persistence.migration_connections = self.targets.len();
    }
}
