//! Counters since the start or the last CONFIG RESETSTAT.

use std::collections::BTreeMap;

/// How often one command ran and how that went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandFigures {
    pub calls: u64,
    pub busy_us: u64,
    /// Refused before it ran.
    pub rejected: u64,
    /// Ran and answered an error.
    pub failed: u64,
}

/// Distinct error codes counted; a script can invent more, and they are then counted together.
const ERROR_CODES_MAX: usize = 128;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub commands_processed: u64,
    pub connections_received: u64,
    pub connections_rejected: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub errors: u64,
    pub errors_by_code: BTreeMap<String, u64>,
    pub total_reads: u64,
    pub total_writes: u64,
}

impl Statistics {
    /// Counts an error reply; `line` is its text, code first.
    pub fn count_error(&mut self, line: &str) {
        self.errors += 1;
        let code = crate::error::ClientError::code(line);
        if let Some(count) = self.errors_by_code.get_mut(code) {
            *count += 1;
        } else if self.errors_by_code.len() < ERROR_CODES_MAX {
            self.errors_by_code.insert(code.to_owned(), 1);
        }
    }
}
