//! What the server knows of its own work: counters, slow commands, latencies, memory.

pub mod log;
pub mod memory;
pub mod statistics;

pub use statistics::{CommandFigures, Statistics};

/// All that is observed.
pub struct Observations {
    pub statistics: Statistics,
    /// By command id.
    pub commands: Vec<CommandFigures>,
}

impl Observations {
    pub fn new(commands: usize) -> Self {
        Observations {
            statistics: Statistics::default(),
            commands: vec![CommandFigures::default(); commands],
        }
    }
}
