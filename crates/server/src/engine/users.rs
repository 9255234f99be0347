//! Users: loaded from the `aclfile` or from configuration lines, and saved to the file.

use super::Executor;
use super::persistence::Disk;
use crate::acl::file;
use crate::acl::{ArgumentError, RuleError, is_word};
use crate::config::{ConfigError, Directive};
use crate::error::{ClientError, quoted};
use crate::server::Server;
use crate::session::ClientHandle;
use crate::sys::file::{replace_from_beside, system_text};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Maximum size of the users' file.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Why loading users at the start failed.
#[derive(Debug)]
pub enum UsersError {
    /// An invalid configuration line.
    Config(ConfigError),
    /// For the log.
    Text(String),
}

fn load_configured_user(server: &mut Server, line: &Directive) -> Result<(), UsersError> {
    let name = &line.words[1];
    if !is_word(name) {
        return Err(of_line(line, "Spaces not allowed in ACL usernames"));
    }
    let words: Vec<&[u8]> =
        std::iter::once(&b"reset"[..]).chain(line.words[2..].iter().map(Vec::as_slice)).collect();
    let shown = String::from_utf8_lossy(name);
    match server.set_user(name, &words) {
        Ok(changed) => {
            if server.users.get(changed.user).is_some_and(|user| !user.is_enabled) {
                log::info!(
                    "The user '{shown}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a configuration error."
                );
            }
            Ok(())
        }
        Err(ArgumentError::Rule { rule, error: error @ RuleError::UnknownCommand }) => {
            let rule = String::from_utf8_lossy(&rule);
            let text = format!("Error loading ACL rule '{rule}' for the user named '{shown}': {error}");
            Err(of_line(line, &text))
        }
        Err(ArgumentError::Rule { rule, error }) => Err(in_declaration(line, &rule, &error.to_string())),
        Err(ArgumentError::Unmatched { rule, .. }) => {
            Err(in_declaration(line, &rule, "Unmatched parenthesis in acl selector"))
        }
        Err(ArgumentError::TooManyUsers) => Err(in_declaration(line, name, "There are too many users")),
    }
}

fn file_of_users(server: &Server) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&server.config.aclfile))
}

/// Replaces all users with those of the file; on any error nothing changes.
fn load_users(disk: &Disk, server: &mut Server, own: Option<ClientHandle>) -> Result<(), String> {
    let (path, world) = (file_of_users(server), disk.world());
    let name = path.display().to_string();
    let cannot = |reason: &str| format!("Error loading ACLs, opening file '{name}': {reason}");
    let len = world.len_of(&path).map_err(|error| cannot(&system_text(&error)))?;
    if len > FILE_BYTES_MAX {
        return Err(cannot(&format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    let text = world.read(&path).map_err(|error| cannot(&system_text(&error)))?;
    let users = file::read(&text, &name, server.rules())?;
    server.replace_users(users, own);
    Ok(())
}

/// Returns a warning if `requirepass` is set but the users defined elsewhere leave `default` without a password: a
/// file that does not define it resets it to the initial state.
pub fn warning_about_password(server: &Server) -> Option<String> {
    let config = &server.config;
    let is_unused = config.requirepass.is_some() && server.users.default_needs_no_password();
    is_unused.then(|| {
        let users = match config.aclfile.is_empty() {
            true => "the configuration".to_owned(),
            false => file_of_users(server).display().to_string(),
        };
        format!(
            "requirepass has no effect: the users of {users} replace it, and `default` has no password there. Clients connect without a password; define `default` there."
        )
    })
}

/// ACL LOAD.
pub(super) fn load_users_on_request(
    disk: &Disk,
    server: &mut Server,
    own: ClientHandle,
) -> Result<(), ClientError> {
    load_users(disk, server, Some(own))
        .map_err(|errors| ClientError::formatted(format!("ERR {}", quoted(errors.as_bytes()))))?;
    warning_about_password(server).inspect(|warning| log::warn!("{warning}"));
    Ok(())
}

/// ACL SAVE.
pub(super) fn save_users_on_request(disk: &Disk, server: &Server) -> Result<(), ClientError> {
    let text = server.users.to_file();
    replace_from_beside(disk.world(), &file_of_users(server), &text).map_err(|error| {
        log::warn!("{error}, for ACL SAVE");
        ClientError::text(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })
}

impl Executor {
    /// Creates the users at the start: from `user` lines, or from the file.
    pub fn load_users_at_start(&mut self, lines: &[Directive]) -> Result<(), UsersError> {
        let has_file = !self.server.config.aclfile.is_empty();
        if has_file && !lines.is_empty() {
            let server = self.server.name();
            return Err(UsersError::Text(format!(
                "Configuring {server} with users defined in valkey.conf and at the same setting an ACL file path is invalid. This setup is very likely to lead to configuration errors and security holes, please define either an ACL file or declare users directly in your valkey.conf, but not both."
            )));
        }
        let mut lines_by_name: BTreeMap<&[u8], &Directive> = BTreeMap::new();
        for line in lines {
            let name = line.words[1].as_slice();
            if let Some(earlier) = lines_by_name.insert(name, line) {
                // The source read later wins, as with options: CONFIG REWRITE changes no included file.
                if earlier.place.source == line.place.source {
                    let why = "Duplicate user found. A user can only be defined once in config files";
                    return Err(in_declaration(line, name, why));
                }
            }
        }
        for line in lines {
            if lines_by_name.get(line.words[1].as_slice()).is_some_and(|last| std::ptr::eq(*last, line)) {
                load_configured_user(&mut self.server, line)?;
            }
        }
        if !has_file {
            return Ok(());
        }
        let server = self.server.name();
        load_users(&self.disk, &mut self.server, None).map_err(|errors| {
            UsersError::Text(format!("Aborting {server} startup because of ACL errors: {errors}"))
        })
    }
}

/// Builds an error with its own text for a configuration line.
fn of_line(line: &Directive, text: &str) -> UsersError {
    UsersError::Text(format!("{text}\n({})", line.place))
}

fn in_declaration(line: &Directive, word: &[u8], why: &str) -> UsersError {
    let word = match word {
        // Hides a password.
        [b'<', ..] => "<(redacted)".into(),
        [b'>', ..] => ">(redacted)".into(),
        word => String::from_utf8_lossy(word),
    };
    UsersError::Config(ConfigError::at(&line.place, format!("Error in user declaration '{word}': {why}")))
}
