//! ACL LOG: the log of refused commands and logins.

use super::check::Reason;
use std::collections::VecDeque;

/// Similar refusals within this time share an entry.
const GROUPED_MS: u64 = 60_000;
/// The number of entries searched for a similar refusal.
const SEARCHED_MAX: usize = 10;
/// The maximum stored length of a key, a name or a client's line.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The context of the refused command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialContext {
    /// A command of a client.
    TopLevel,
    /// A command in a transaction.
    Multi,
    /// A command in a script.
    Lua,
}

impl DenialContext {
    /// The name in ACL LOG.
    pub const fn name(self) -> &'static str {
        match self {
            DenialContext::TopLevel => "toplevel",
            DenialContext::Multi => "multi",
            DenialContext::Lua => "lua",
        }
    }
}

/// A refusal to record.
#[derive(Clone, Debug)]
pub struct Refusal<'a> {
    /// Why the command was refused.
    pub reason: Reason,
    /// Where the command came from.
    pub context: DenialContext,
    /// See [`super::Denied::object`].
    pub object: &'a [u8],
    /// Name of the user.
    pub user_name: &'a [u8],
    /// The client's line in CLIENT LIST.
    pub client_info: &'a [u8],
    /// Time of the refusal.
    pub now_unix_ms: i64,
}

/// A group of similar refusals.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Number of refusals.
    pub count: u64,
    /// Why the commands were refused.
    pub reason: Reason,
    /// Where the commands came from.
    pub context: DenialContext,
    /// See [`super::Denied::object`].
    pub object: Vec<u8>,
    /// Name of the user.
    pub user_name: Vec<u8>,
    /// The client of the latest refusal.
    pub client_info: Vec<u8>,
    /// Number of the entry.
    pub id: u64,
    /// Time of the first refusal.
    pub created_unix_ms: i64,
    /// Time of the latest refusal.
    pub updated_unix_ms: i64,
}

impl Entry {
    fn is_like(&self, refusal: &Refusal<'_>) -> bool {
        self.reason == refusal.reason
            && self.context == refusal.context
            && self.updated_unix_ms.abs_diff(refusal.now_unix_ms) <= GROUPED_MS
            && self.object == shortened(refusal.object)
            && self.user_name == shortened(refusal.user_name)
    }
}

/// The latest refusals.
#[derive(Debug, Default)]
pub struct DenialLog {
    /// The latest first.
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl DenialLog {
    /// The latest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries = VecDeque::new();
    }

    /// Adds a refusal to the entry of similar ones, or as a new entry. Keeps at most `max_len` entries.
    pub fn record(&mut self, refusal: &Refusal<'_>, max_len: usize) {
        if max_len == 0 {
            return self.clear();
        }
        let like = self.entries.iter().take(SEARCHED_MAX).position(|entry| entry.is_like(refusal));
        let entry = match like.and_then(|at| self.entries.remove(at)) {
            Some(entry) => Entry {
                count: entry.count + 1,
                client_info: shortened(refusal.client_info).to_vec(),
                updated_unix_ms: refusal.now_unix_ms,
                ..entry
            },
            None => self.entry(refusal),
        };
        self.entries.push_front(entry);
        self.entries.truncate(max_len);
    }

    fn entry(&mut self, refusal: &Refusal<'_>) -> Entry {
        self.next_id += 1;
        Entry {
            count: 1,
            reason: refusal.reason,
            context: refusal.context,
            object: shortened(refusal.object).to_vec(),
            user_name: shortened(refusal.user_name).to_vec(),
            client_info: shortened(refusal.client_info).to_vec(),
            id: self.next_id - 1,
            created_unix_ms: refusal.now_unix_ms,
            updated_unix_ms: refusal.now_unix_ms,
        }
    }
}

fn shortened(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_BYTES_MAX)]
}
