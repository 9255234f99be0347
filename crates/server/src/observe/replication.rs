//! What INFO, ROLE and others show of replication: copies that the engine makes. Nothing is decided by them.

/// The stream of changes, and who is sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replication {
    /// Of the history that the data is at the end of; forty hexadecimal digits.
    pub id: String,
    /// The id that it had before, and the number of the first byte for which that is not good.
    pub second_id: Option<(String, u64)>,
    /// Bytes of the stream so far.
    pub offset: u64,
    pub backlog: Option<BacklogFigures>,
    /// Held for the backlog and for replicas that are behind.
    pub buffer_bytes: u64,
}

/// The last bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogFigures {
    /// Bytes are numbered from 1.
    pub first_byte_offset: u64,
}

impl Replication {
    /// Bytes in the backlog.
    pub fn backlog_len(&self) -> u64 {
        self.backlog.map_or(0, |backlog| (self.offset + 1).saturating_sub(backlog.first_byte_offset))
    }
}
