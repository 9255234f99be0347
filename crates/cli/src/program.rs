//! The name by which the program was called. It determines the names in messages, of environment variables, and of the
//! user's files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq)]
pub struct Program {
    pub name: &'static str,
    pub server: &'static str,
    /// Prefix of environment variables, and in lower case of files.
    prefix: &'static str,
}

const WARMLINE: Program = Program { name: "warmline-cli", server: "Warmline", prefix: "WARMLINECLI" };
const VALKEY: Program = Program { name: "valkey-cli", server: "Valkey", prefix: "VALKEYCLI" };
const REDIS: Program = Program { name: "redis-cli", server: "Redis", prefix: "REDISCLI" };

impl Program {
    /// The running program.
    pub fn current() -> &'static Program {
        Self::called(std::env::args_os().next().unwrap_or_default())
    }

    fn called(path: OsString) -> &'static Program {
        let file = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        match file {
            name if name.contains("valkey") => &VALKEY,
            name if name.contains("redis") => &REDIS,
            _ => &WARMLINE,
        }
    }

    pub fn version_line(&self) -> String {
        format!("{} {}", self.name, env!("CARGO_PKG_VERSION"))
    }

    /// Returns the variable with this suffix: with its own prefix before those of other names.
    pub fn variable(&self, ending: &str) -> Option<OsString> {
        let prefixes = [self.prefix, WARMLINE.prefix, VALKEY.prefix, REDIS.prefix];
        prefixes.iter().find_map(|prefix| std::env::var_os(format!("{prefix}_{ending}")))
    }

    /// Returns the path of a user's file: from a variable, otherwise in the home directory; `None` without one.
    pub fn user_file(&self, variable: &str, ending: &str) -> Option<PathBuf> {
        match self.variable(variable) {
            Some(path) if path == "/dev/null" => None,
            Some(path) if !path.is_empty() => Some(PathBuf::from(path)),
            _ => {
                std::env::home_dir().map(|home| home.join(format!(".{}{ending}", self.prefix.to_lowercase())))
            }
        }
    }

    /// Returns the name of the preferences file for messages.
    pub fn preferences_name(&self) -> String {
        format!(".{}rc", self.prefix.to_lowercase())
    }
}

/// Returns whether replies are formatted for a terminal. `FAKETTY` forces it without a terminal.
pub fn is_watched() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal() || std::env::var_os("FAKETTY").is_some()
}

/// Returns whether the terminal shows colours, by its name.
pub fn has_colors() -> bool {
    std::env::var("TERM").is_ok_and(|name| name.contains("xterm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_what_is_spoken_of() {
        let server = |path: &str| Program::called(path.into()).server;
        assert_eq!(server("/usr/bin/valkey-cli"), "Valkey");
        assert_eq!(server("redis-cli"), "Redis");
        assert_eq!(server("/opt/valkey/warmline-cli"), "Warmline");
        assert_eq!(VALKEY.preferences_name(), ".valkeyclirc");
    }
}
