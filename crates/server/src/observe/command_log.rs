//! Logs of slow and large commands: three logs of the latest entries, each with its own threshold.

use super::trace::Stages;
use std::collections::VecDeque;
use std::ops::Range;

/// Arguments kept of one command; the last one then gives the number of omitted ones.
const ARGS_MAX: usize = 32;
/// Bytes kept of one argument.
const ARG_LEN_MAX: usize = 128;

/// The kind of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Time of execution, in microseconds.
    Slow,
    /// Bytes of the request.
    LargeRequest,
    /// Bytes of the reply.
    LargeReply,
}

/// One logged command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the entry.
    pub id: u64,
    /// Time of the command.
    pub unix_s: i64,
    /// Microseconds or bytes, by the log's kind.
    pub value: u64,
    /// The arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// Address of the client.
    pub client_address: String,
    /// Name of the client.
    pub client_name: Vec<u8>,
    /// Stage times of the request that contains it, if traced.
    pub stages: Option<Stages>,
}

/// The latest entries, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl CommandLog {
    /// Adds an entry, and drops the oldest beyond `len_max`.
    pub fn push(&mut self, mut entry: Entry, len_max: usize) {
        entry.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(len_max);
    }

    /// Returns the entries, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the id of the next entry.
    #[inline]
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Adds stage times to the entries with these ids that are still in the log.
    pub fn note_stages(&mut self, ids: Range<u64>, stages: Stages) {
        let entries = self.entries.iter_mut().skip_while(|entry| entry.id >= ids.end);
        for entry in entries.take_while(|entry| entry.id >= ids.start) {
            entry.stages = Some(stages);
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the log is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

/// The three logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLogs {
    slow: CommandLog,
    large_request: CommandLog,
    large_reply: CommandLog,
    /// The thresholds of all logs.
    pub thresholds: Thresholds,
}

/// Thresholds of each log, as configured, for a comparison with every command. A disabled log has the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    elapsed_ns: u64,
    request_bytes: u64,
    reply_bytes: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds::of(-1, -1, -1)
    }
}

impl Thresholds {
    /// A negative value disables a log.
    pub fn of(elapsed_us: i64, request_bytes: i64, reply_bytes: i64) -> Self {
        let least = |threshold: i64| u64::try_from(threshold).unwrap_or(u64::MAX);
        Thresholds {
            elapsed_ns: least(elapsed_us).saturating_mul(1000),
            request_bytes: least(request_bytes),
            reply_bytes: least(reply_bytes),
        }
    }

    /// Returns whether the command belongs in a log.
    #[inline]
    pub fn are_reached(&self, elapsed_ns: u64, request_bytes: u64, reply_bytes: u64) -> bool {
        elapsed_ns >= self.elapsed_ns
            || request_bytes >= self.request_bytes
            || reply_bytes >= self.reply_bytes
    }
}

impl CommandLogs {
    /// Returns the log of this kind.
    pub fn log(&self, kind: LogKind) -> &CommandLog {
        match kind {
            LogKind::Slow => &self.slow,
            LogKind::LargeRequest => &self.large_request,
            LogKind::LargeReply => &self.large_reply,
        }
    }

    /// As [`Self::log`], mutably.
    pub fn log_mut(&mut self, kind: LogKind) -> &mut CommandLog {
        match kind {
            LogKind::Slow => &mut self.slow,
            LogKind::LargeRequest => &mut self.large_request,
            LogKind::LargeReply => &mut self.large_reply,
        }
    }
}

/// A client's name as it is kept: logs hold many of them, of clients that may be gone.
pub fn shortened_name(name: &[u8]) -> Vec<u8> {
    shortened(std::iter::once(name), &[]).concat()
}

/// Arguments cut to what a log keeps. `hidden` are the positions of those that must not be shown.
pub fn shortened<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>, hidden: &[usize]) -> Vec<Vec<u8>> {
    let mut cut = CutArgs::default();
    cut.push(args, hidden);
    cut.shown(0)
}

/// Cut arguments of commands, stored contiguously without an allocation for each.
#[derive(Clone, Debug, Default)]
pub struct CutArgs {
    commands: Vec<CutCommand>,
    args: Vec<CutArg>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct CutCommand {
    args_start: usize,
    args_kept: usize,
    args_left_out: usize,
}

#[derive(Clone, Copy, Debug)]
struct CutArg {
    start: usize,
    kept: usize,
    left_out: usize,
}

impl CutArgs {
    /// Adds a command, of which the arguments at `hidden` must not be shown.
    pub fn push<'a>(&mut self, args: impl ExactSizeIterator<Item = &'a [u8]>, hidden: &[usize]) {
        let count = args.len();
        let args_kept = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
        self.commands.push(CutCommand {
            args_start: self.args.len(),
            args_kept,
            args_left_out: count - args_kept,
        });
        for (at, arg) in args.take(args_kept).enumerate() {
            let arg = if hidden.contains(&at) { super::REDACTED } else { arg };
            let kept = &arg[..arg.len().min(ARG_LEN_MAX)];
            let (start, left_out) = (self.bytes.len(), arg.len() - kept.len());
            self.args.push(CutArg { start, kept: kept.len(), left_out });
            self.bytes.extend_from_slice(kept);
        }
    }

    /// Adds the only command of `other`.
    pub fn push_from(&mut self, other: &CutArgs) {
        let (args_start, bytes_start) = (self.args.len(), self.bytes.len());
        let commands = other.commands.iter();
        self.commands.extend(
            commands.map(|command| CutCommand { args_start: args_start + command.args_start, ..*command }),
        );
        self.args.extend(other.args.iter().map(|arg| CutArg { start: bytes_start + arg.start, ..*arg }));
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Returns a copy of the command at this index alone.
    pub fn only(&self, index: usize) -> CutArgs {
        let command = self.commands[index];
        let mut only = CutArgs::default();
        only.commands.push(CutCommand { args_start: 0, ..command });
        for arg in &self.args[command.args_start..][..command.args_kept] {
            only.args.push(CutArg { start: only.bytes.len(), ..*arg });
            only.bytes.extend_from_slice(&self.bytes[arg.start..][..arg.kept]);
        }
        only
    }

    /// Returns the command at this index, as it is shown.
    pub fn shown(&self, index: usize) -> Vec<Vec<u8>> {
        let command = self.commands[index];
        let args = &self.args[command.args_start..][..command.args_kept];
        let shown = args.iter().map(|arg| {
            let mut text = self.bytes[arg.start..][..arg.kept].to_vec();
            if arg.left_out > 0 {
                text.extend(format!("... ({} more bytes)", arg.left_out).bytes());
            }
            text
        });
        let mut shown: Vec<Vec<u8>> = shown.collect();
        if command.args_left_out > 0 {
            shown.push(format!("... ({} more arguments)", command.args_left_out).into_bytes());
        }
        shown
    }

    /// Keeps the commands before `first`, which stay in place, and those at these later indices, in ascending order.
    pub fn retain(&mut self, first: usize, indices: impl IntoIterator<Item = usize>) {
        let Some(command) = self.commands.get(first) else { return };
        let (mut commands_end, mut args_end) = (first, command.args_start);
        let mut bytes_end = self.args.get(args_end).map_or(self.bytes.len(), |arg| arg.start);
        for index in indices {
            let CutCommand { args_start, args_kept, args_left_out } = self.commands[index];
            self.commands[commands_end] = CutCommand { args_start: args_end, args_kept, args_left_out };
            commands_end += 1;
            for at in args_start..args_start + args_kept {
                let CutArg { start, kept, left_out } = self.args[at];
                self.bytes.copy_within(start..start + kept, bytes_end);
                self.args[args_end] = CutArg { start: bytes_end, kept, left_out };
                (args_end, bytes_end) = (args_end + 1, bytes_end + kept);
            }
        }
        self.commands.truncate(commands_end);
        self.args.truncate(args_end);
        self.bytes.truncate(bytes_end);
    }
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
                stages: None,
            };
            log.push(entry, 2);
        }
        assert_eq!(log.entries().map(|entry| (entry.id, entry.value)).collect::<Vec<_>>(), [(4, 4), (3, 3)]);
        log.note_stages(1..4, Stages::default());
        assert_eq!(log.entries().map(|entry| entry.stages.is_some()).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn of_commands_kept_together_some_can_go() {
        let long = [b'x'; ARG_LEN_MAX + 1];
        let commands: [&[&[u8]]; 4] = [&[b"get", b"a"], &[b"set", &long, b""], &[], &[b"del", b"b", b"c"]];
        let mut cut = CutArgs::default();
        commands.iter().for_each(|command| cut.push(command.iter().copied(), &[2]));
        let before: Vec<_> = (0..4).map(|index| cut.shown(index)).collect();
        assert_eq!(before[3], [&b"del"[..], b"b", b"(redacted)"]);
        cut.retain(0, [1, 2, 3]);
        cut.push([&b"ping"[..]].into_iter(), &[]);
        assert_eq!((0..3).map(|index| cut.shown(index)).collect::<Vec<_>>(), before[1..]);
        assert_eq!(cut.shown(3), [b"ping"]);
        cut.retain(0, []);
        assert!(cut.bytes.is_empty() && cut.args.is_empty() && cut.commands.is_empty());
    }

    #[test]
    fn what_stays_in_front_is_not_looked_at() {
        let mut random = structures::random::Random::new(3);
        let (mut cut, mut model) = (CutArgs::default(), Vec::new());
        for number in 0..2000u64 {
            let words: Vec<Vec<u8>> =
                (0..random.below(4)).map(|at| format!("{number}-{at}").into_bytes()).collect();
            cut.push(words.iter().map(Vec::as_slice), &[]);
            model.push(words);
            if random.below(3) == 0 {
                let first = random.below(model.len() as u64 + 1) as usize;
                let kept: Vec<usize> = (first + 1..model.len()).filter(|_| random.below(4) > 0).collect();
                model = (0..first).chain(kept.iter().copied()).map(|at| model[at].clone()).collect();
                cut.retain(first, kept);
            }
            assert_eq!(cut.commands.len(), model.len());
            let shown: Vec<_> = (0..model.len()).map(|at| cut.shown(at)).collect();
            assert_eq!(shown, model);
            let alone: Vec<_> = (0..model.len()).map(|at| cut.only(at).shown(0)).collect();
            assert_eq!(alone, model);
        }
    }
}
