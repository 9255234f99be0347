//! Commands that took long or were large: three logs of the latest ones, each with its own threshold.

use std::collections::VecDeque;

/// Arguments kept of one command; the last one then says how many more there were.
const ARGS_MAX: usize = 32;
/// Bytes kept of one argument.
const ARG_LEN_MAX: usize = 128;

/// What a log is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Time of execution, in microseconds.
    Slow,
    /// Bytes of the request.
    LargeRequest,
    /// Bytes of the reply.
    LargeReply,
}

/// One command that was worth noting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: u64,
    pub unix_s: i64,
    /// Microseconds or bytes, by the log's kind.
    pub value: u64,
    pub args: Vec<Vec<u8>>,
    pub client_address: String,
    pub client_name: Vec<u8>,
}

/// The latest entries, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl CommandLog {
    pub fn push(&mut self, mut entry: Entry, len_max: usize) {
        entry.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(len_max);
    }

    /// Newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLogs {
    slow: CommandLog,
    large_request: CommandLog,
    large_reply: CommandLog,
}

impl CommandLogs {
    pub fn log(&self, kind: LogKind) -> &CommandLog {
        match kind {
            LogKind::Slow => &self.slow,
            LogKind::LargeRequest => &self.large_request,
            LogKind::LargeReply => &self.large_reply,
        }
    }

    pub fn log_mut(&mut self, kind: LogKind) -> &mut CommandLog {
        match kind {
            LogKind::Slow => &mut self.slow,
            LogKind::LargeRequest => &mut self.large_request,
            LogKind::LargeReply => &mut self.large_reply,
        }
    }
}

/// Arguments cut to what a log keeps. `hidden` are the positions of those that must not be shown.
pub fn shortened<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>, hidden: &[usize]) -> Vec<Vec<u8>> {
    let count = args.len();
    let kept = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
    let mut shown: Vec<Vec<u8>> = args
        .take(kept)
        .enumerate()
        .map(|(at, arg)| {
            if hidden.contains(&at) {
                return super::REDACTED.to_vec();
            }
            let mut text = arg[..arg.len().min(ARG_LEN_MAX)].to_vec();
            if arg.len() > ARG_LEN_MAX {
                text.extend(format!("... ({} more bytes)", arg.len() - ARG_LEN_MAX).bytes());
            }
            text
        })
        .collect();
    if count > kept {
        shown.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut() {
        let args: Vec<Vec<u8>> = (0..40).map(|i| vec![b'a'; i * 10]).collect();
        let shown = shortened(args.iter().map(Vec::as_slice), &[1]);
        assert_eq!(shown.len(), ARGS_MAX);
        assert_eq!(shown[1], b"(redacted)");
        assert_eq!(shown[2].len(), 20);
        assert!(shown[20].ends_with(b"... (72 more bytes)"));
        assert_eq!(shown[31], b"... (9 more arguments)");
    }

    #[test]
    fn the_newest_entries_stay_and_ids_go_on() {
        let mut log = CommandLog::default();
        for value in 0..5 {
            let entry = Entry {
                id: 0,
                unix_s: 0,
                value,
                args: Vec::new(),
                client_address: String::new(),
                client_name: Vec::new(),
            };
            log.push(entry, 2);
        }
        assert_eq!(log.entries().map(|entry| (entry.id, entry.value)).collect::<Vec<_>>(), [(4, 4), (3, 3)]);
    }
}
