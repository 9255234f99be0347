//! `--check-config`: checks whether the server would start with a configuration, without side effects: no port is
//! opened, no file written, no data read.

use super::{StartError, executor, refuse_modules, system, without_effect};
use crate::config::Config;
use crate::net::listener::ListenError;
use crate::net::tls_context::TlsContext;
use std::ffi::OsString;
use std::sync::Arc;

/// Checks the configuration given by `arguments`: the file, the options after it, and the files of users and
/// certificates that they name. Returns warnings.
///
/// # Errors
/// The error that would keep the server from starting.
pub fn check(arguments: &[OsString]) -> Result<Vec<String>, StartError> {
    let startup = Config::check(arguments).map_err(StartError::Config)?;
    refuse_modules(&startup)?;
    std::env::set_current_dir(&startup.config.dir).map_err(system("Changing to the working directory"))?;
    let mut warnings = without_effect(&startup.config);
    let executor = executor(startup)?;
    warnings.extend(executor.warning_about_password());
    TlsContext::new(Arc::clone(&executor.server.observed.tls))
        .prepare(&executor.server.config)
        .map_err(|error| StartError::Listen(ListenError::Tls(error)))?;
    Ok(warnings)
}
