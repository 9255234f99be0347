//! `--check-config`: checks whether the server would start with a configuration, without side effects: no port is
//! listened on, no file written, no data read.
//!
//! The check is of this machine and of the user who runs it. A port in use is no error, because the server of this
//! configuration may be running.

use super::{StartError, cluster, enter_directory, executor, permit_files, refuse_modules, without_effect};
use crate::config::Config;
use crate::engine::loading::RestoreError;
use crate::engine::users::warning_about_password;
use crate::net::listener::ListenError;
use crate::net::listeners;
use crate::net::tls_context::TlsContext;
use crate::sys::file::{FileError, failed, system_text};
use rustix::fs::Access;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Checks the configuration given by `arguments`: the file, the options after it, the files of users and certificates that
/// they name, the addresses to listen on, and the directories to write to. Returns warnings.
///
/// # Errors
/// The error that would keep the server from starting.
pub fn check(arguments: &[OsString]) -> Result<Vec<String>, StartError> {
    let mut startup = Config::check(arguments).map_err(StartError::Config)?;
    refuse_modules(&startup)?;
    permit_files(&mut startup.config)?;
    enter_directory(&startup.config)?;
    let mut warnings = without_effect(&startup.config);
    let nodes = cluster::read_file(&startup.config)?;
    let executor = executor(startup, nodes.as_deref())?;
    let config = &executor.server.config;
    warnings.extend(warning_about_password(&executor.server));
    TlsContext::new(Arc::clone(&executor.server.observed.tls))
        .prepare(config)
        .map_err(|error| StartError::Listen(ListenError::Tls(error)))?;
    listeners::probe(config).map_err(StartError::Listen)?;
    match config.appendonly {
        true => writable_log(config).map_err(|error| StartError::Load(RestoreError::File(error)))?,
        false => warnings.extend(warning_about_snapshots(config)),
    }
    Ok(warnings)
}

/// Checks whether files can be created in the directory.
fn writable(directory: &Path) -> io::Result<()> {
    // The name `.` exists in directories only.
    Ok(rustix::fs::access(directory.join("."), Access::EXISTS | Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Checks the directory of the append-only file, which the start creates in the working directory if it is missing.
fn writable_log(config: &Config) -> Result<(), FileError> {
    let directory = Path::new(OsStr::from_bytes(&config.appenddirname));
    let checked = match writable(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => writable(Path::new(".")),
        checked => checked,
    };
    checked.map_err(failed("Can't open or create append-only dir", directory))
}

/// Returns a warning if the working directory cannot be written to: the server would start, and no save would succeed.
fn warning_about_snapshots(config: &Config) -> Option<String> {
    let error = writable(Path::new(".")).err().filter(|_| !config.save.is_empty())?;
    let directory = config.dir.display();
    Some(format!("No snapshot can be saved in the working directory {directory}: {}", system_text(&error)))
}
