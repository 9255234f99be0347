//! LATENCY TRACE: times of requests' stages; which requests are traced, and the latest traces.
//!
//! A request's stages are contiguous from its read to its reply's write, so that they add up to the client's waiting
//! time on this side of the network.

use std::collections::VecDeque;
use std::num::NonZeroU64;

/// The filter of traced requests: a random sample, and slow ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// One in this number of requests is traced.
    pub every: Option<NonZeroU64>,
    /// Requests that take at least this long are traced.
    pub slower_us: Option<u64>,
}

/// The stages of a request, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Read from the socket, waiting for its turn.
    QueryBuffer,
    /// Its share of prefetching the batch's keys.
    Prefetch,
    /// Execution of the command and its effects.
    Execution,
    /// Waiting for a key, an acknowledgement, the end of a pause.
    Blocked,
    /// Executed, while the rest of the batch runs.
    Batch,
    /// Waiting for the append-only file's write, and its fsync if replies wait for that.
    AppendOnlyFile,
    /// Waiting for the socket to take the reply.
    Output,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 7] = [
        Stage::QueryBuffer,
        Stage::Prefetch,
        Stage::Execution,
        Stage::Blocked,
        Stage::Batch,
        Stage::AppendOnlyFile,
        Stage::Output,
    ];

    /// Returns the name in replies.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::QueryBuffer => "query-buffer",
            Stage::Prefetch => "prefetch",
            Stage::Execution => "execution",
            Stage::Blocked => "blocked",
            Stage::Batch => "batch",
            Stage::AppendOnlyFile => "append-only-file",
            Stage::Output => "output",
        }
    }
}

/// The duration of each stage, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages([u64; Stage::ALL.len()]);

impl Stages {
    /// Adds time to a stage.
    #[inline]
    pub fn add(&mut self, stage: Stage, ns: u64) {
        self.0[stage as usize] += ns;
    }

    /// Returns the time of a stage.
    pub fn ns(&self, stage: Stage) -> u64 {
        self.0[stage as usize]
    }

    /// Returns the time of all stages.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// One traced request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Assigned when it is kept; from 1.
    pub id: u64,
    /// When it was read.
    pub unix_us: i64,
    /// Id of the client.
    pub client_id: u64,
    /// Address of the client.
    pub client_address: String,
    /// Name of the client.
    pub client_name: Vec<u8>,
    /// User of the client.
    pub user: Vec<u8>,
    /// Database of the command.
    pub db_index: usize,
    /// As in the slow log: cut and redacted.
    pub args: Vec<Vec<u8>>,
    /// Duration of each stage.
    pub stages: Stages,
}

/// The latest traces.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// Oldest first.
    entries: VecDeque<Trace>,
    kept_total: u64,
    /// Requests not traced because too many were waiting for their replies to be written.
    pub missed: u64,
    choice: Option<Choice>,
}

impl Traces {
    /// Returns the filter, if tracing is on.
    #[inline]
    pub fn choice(&self) -> Option<Choice> {
        self.choice
    }

    /// Returns whether tracing is on.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.choice.is_some()
    }

    /// Starts tracing with this filter.
    pub fn start(&mut self, choice: Choice) {
        self.choice = Some(choice);
    }

    /// Stops tracing.
    pub fn stop(&mut self) {
        self.choice = None;
    }

    /// Removes all traces. Ids continue.
    pub fn clear(&mut self) {
        self.entries = VecDeque::new();
        self.missed = 0;
    }

    /// Adds a trace with the next id, and drops the oldest beyond `len_max`.
    pub fn push(&mut self, mut trace: Trace, len_max: usize) {
        self.kept_total += 1;
        trace.id = self.kept_total;
        self.entries.push_back(trace);
        self.limit(len_max);
    }

    /// Drops the oldest traces beyond this number.
    pub fn limit(&mut self, len_max: usize) {
        let beyond = self.entries.len().saturating_sub(len_max);
        self.entries.drain(..beyond);
    }

    /// Returns the traces, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Trace> {
        self.entries.iter().rev()
    }

    /// Returns the number of traces kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether no traces are kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of traces kept since the start, including dropped ones.
    pub fn kept_total(&self) -> u64 {
        self.kept_total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_stand_in_their_order_and_add_up() {
        for (index, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, index);
        }
        let mut stages = Stages::default();
        stages.add(Stage::Execution, 5);
        stages.add(Stage::Output, 7);
        stages.add(Stage::Execution, 1);
        assert_eq!((stages.ns(Stage::Execution), stages.ns(Stage::Batch), stages.total_ns()), (6, 0, 13));
    }

    #[test]
    fn the_newest_traces_stay_and_ids_go_on() {
        let mut traces = Traces::default();
        for _ in 0..5 {
            traces.push(Trace::default(), 2);
        }
        assert_eq!(traces.entries().map(|trace| trace.id).collect::<Vec<_>>(), [5, 4]);
        traces.clear();
        traces.push(Trace::default(), 0);
        assert!(traces.is_empty());
        traces.push(Trace::default(), 1);
        assert_eq!(traces.entries().map(|trace| trace.id).collect::<Vec<_>>(), [7]);
    }
}
