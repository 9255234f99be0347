//! LATENCY TRACE: times of a request's stages, recorded as it passes through the executor.
//!
//! ```text
//!   read            taken up   fetched   executed        the batch is done   file written   reply written
//!     |  query-buffer  | prefetch | execution |  (blocked)  batch  | append-only-file | output |
//! ```
//!
//! 1. Stages are contiguous: each begins where the previous one ended, and only the last is open.
//! 2. Selection by duration is possible only when the reply is written. Until then every request is under way, with its
//!    arguments cut as the log keeps them and stored contiguously: an allocation for each was 20 % of a GET.
//! 3. A request whose reply stays unread is set aside ([`unread`]): the cost of a turn depends on the requests since.
//! 4. The commands of a transaction or a script are not requests: EXEC or EVAL is, and its trace includes their time.
//! 5. The primary's stream is not traced: it gets no replies.

mod unread;

use super::Executor;
use super::observation::hidden_arguments;
use crate::clock::Clock;
use crate::command::registry::CommandId;
use crate::command::{Args, Request};
use crate::observe::command_log::{CutArgs, LogKind, shortened_name};
use crate::observe::trace::{Stage, Stages, Trace};
use crate::server::Server;
use crate::session::ClientHandle;
use crate::session::blocked::Blocked;
use crate::session::name_table::NameTable;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::Ordering;
use structures::random::Random;
use unread::Unread;
use wire::convert::signed_count;

/// Maximum number of requests under way; further ones are counted as missed.
const UNDER_WAY_MAX: usize = 16 * 1024;

/// Age from which an unread reply is set aside. A lower age would cost an allocation for replies that I/O threads write in
/// the next turns.
const UNREAD_NS: u64 = 1_000_000;

/// The executor's tracing state.
pub(super) struct Tracing {
    /// This tick traces requests; all of them, because duration decides which are kept.
    is_on: bool,
    looks_at_all: bool,
    /// Number of requests until the next sampled one, inclusive; and the average distance.
    until_next: u64,
    mean: Option<NonZeroU64>,
    /// Slow log entries added by the current request.
    slow_log: Range<u64>,
    random: Random,
    /// Zero of the monotonic clock, on the stopwatch; set again in each traced tick.
    zero_ns: u64,
    /// The time of the last prefetch, per key.
    prefetch_share_ns: u64,
    /// Executed or unblocked requests in order, and their arguments.
    under_way: Vec<UnderWay>,
    args: CutArgs,
    /// Requests of blocked clients, not scanned until the block ends.
    waiting: NameTable<ClientHandle, Waiting>,
    /// Answered requests, not checked until their sockets make progress.
    unread: Unread,
    /// When output was last written, by client slot; grows with the highest slot.
    written_ns: Vec<u64>,
}

impl Tracing {
    /// Returns whether this tick traces requests.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn new(seed: u64) -> Self {
        Tracing {
            is_on: false,
            looks_at_all: false,
            until_next: 0,
            mean: None,
            slow_log: 0..0,
            random: Random::new(seed),
            zero_ns: 0,
            prefetch_share_ns: 0,
            under_way: Vec::new(),
            args: CutArgs::default(),
            waiting: NameTable::default(),
            unread: Unread::default(),
            written_ns: Vec::new(),
        }
    }

    /// Stops tracing and drops all requests under way.
    fn free_memory(&mut self) {
        (self.under_way, self.args, self.written_ns) = (Vec::new(), CutArgs::default(), Vec::new());
        (self.waiting, self.unread) = (NameTable::default(), Unread::default());
    }

    /// Returns the number of requests that are not finished.
    fn requests(&self) -> usize {
        self.under_way.len() + self.waiting.len() + self.unread.len()
    }

    /// Returns the client's request whose script was suspended.
    fn put_aside(&mut self, handle: ClientHandle) -> Option<&mut UnderWay> {
        let mut latest_first = self.under_way.iter_mut().rev();
        latest_first.find(|request| request.handle == handle && request.waits.is_some())
    }

    /// Moves a client's request back among the others when its block ends.
    fn end_waiting(&mut self, handle: ClientHandle) {
        if let Some(Waiting { request, args }) = self.waiting.remove(&handle) {
            self.args.push_from(&args);
            self.under_way.push(request);
        }
    }

    /// Draws the next sampled request. At random, because a pipeline's length would divide a fixed distance.
    #[cold]
    fn draw(&mut self) {
        self.until_next = match self.mean {
            Some(mean) => 1 + self.random.below(mean.get().saturating_mul(2) - 1),
            None => u64::MAX,
        };
    }
}

/// A request whose reply has not been written.
#[derive(Clone)]
struct UnderWay {
    handle: ClientHandle,
    db_index: usize,
    /// When it was read; all times are of the monotonic clock.
    received_ns: u64,
    /// The finished stages, and the start of the open one.
    stages: Stages,
    since_ns: u64,
    /// It is kept, whatever its duration.
    is_chosen: bool,
    /// Reason why its reply is delayed.
    waits: Option<Waits>,
    /// The client's output position at which it is answered; `None` until the whole batch has run.
    answered_at: Option<u64>,
    /// Its entries in the slow log.
    slow_log: Range<u64>,
}

/// A request that turns skip, and its arguments.
struct Waiting {
    request: UnderWay,
    args: CutArgs,
}

/// Fate of a request under way.
#[derive(Clone, Copy)]
enum Fate {
    Stays,
    Ends {
        at_ns: u64,
    },
    /// Its reply stays unread.
    IsSetAside,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Blocked since this time, which distinguishes it from a later block of the same client.
    Blocked { since_us: u64 },
    /// Its script was suspended.
    Script,
}

impl Waits {
    fn of(blocked: &Blocked) -> Self {
        Waits::Blocked { since_us: blocked.since_us }
    }
}

/// A request that may be traced, at its start.
#[derive(Clone, Copy, Default)]
pub struct Begun {
    /// Stopwatch time.
    ns: u64,
    is_sampled: bool,
}

impl Tracing {
    /// Returns the nanoseconds on the monotonic clock.
    fn trace_ns(&self, clock: &Clock) -> u64 {
        clock.stopwatch_ns().wrapping_sub(self.zero_ns)
    }

    /// Records the prefetch of this number of keys since `began_ns` on the stopwatch.
    #[cold]
    pub(super) fn note_fetch(&mut self, clock: &Clock, began_ns: u64, keys: usize) {
        let elapsed_ns = clock.stopwatch_ns().saturating_sub(began_ns);
        self.prefetch_share_ns = elapsed_ns.checked_div(keys as u64).unwrap_or(0);
    }

    /// Records the id of a slow log entry added by the current request.
    pub(super) fn note_slow_log(&mut self, id: u64) {
        let first = if self.slow_log.is_empty() { id } else { self.slow_log.start };
        self.slow_log = first..id + 1;
    }

    /// Records the retry, which finished or blocked again.
    #[cold]
    pub(super) fn note_retried(
        &mut self,
        server: &Server,
        clock: &Clock,
        handle: ClientHandle,
        begun: Begun,
        is_done: bool,
    ) {
        let now_ns = self.trace_ns(clock);
        let begun_ns = begun.ns.wrapping_sub(self.zero_ns);
        let slow_log = std::mem::take(&mut self.slow_log);
        let Some(client) = server.clients.get(handle) else { return };
        let blocked = client.blocked.as_ref().filter(|_| !is_done);
        let waits = blocked.map(|blocked| Waits::of(blocked));
        let Some(Waiting { request, .. }) = self.waiting.get_mut(&handle) else { return };
        request.claim_slow_log(slow_log);
        request.stages.add(Stage::Blocked, begun_ns.saturating_sub(request.since_ns));
        request.stages.add(Stage::Execution, now_ns.saturating_sub(begun_ns));
        request.since_ns = now_ns;
        request.waits = waits;
    }

    /// Attributes new slow log entries to the client's suspended script, which has ended.
    #[cold]
    pub(super) fn claim_slow_log(&mut self, handle: ClientHandle) {
        let slow_log = std::mem::take(&mut self.slow_log);
        if let Some(request) = self.put_aside(handle) {
            request.claim_slow_log(slow_log);
        }
    }

    /// Moves requests back whose clients are no longer blocked.
    fn end_traced_waits(&mut self, server: &mut Server) {
        for handle in server.blocked.take_ended() {
            let Some(Waiting { request, .. }) = self.waiting.get(&handle) else { continue };
            let blocked = server.clients.get(handle).and_then(|client| client.blocked.as_ref());
            let still_waits = blocked.is_some() && request.waits == blocked.map(|blocked| Waits::of(blocked));
            if !still_waits {
                self.end_waiting(handle);
            }
        }
    }
}

/// Of an unknown command only the first word is kept: the rest may contain a password after a typing error.
fn push_args(server: &Server, id: Option<CommandId>, args: Args<'_>, cut: &mut CutArgs) {
    match id {
        Some(id) => cut.push(args.iter(), &hidden_arguments(server.registry.row(id), args)),
        None => cut.push(args.first(1).iter(), &[]),
    }
}

impl Executor {
    /// Returns whether requests must be passed to [`Executor::begin_trace`] and [`Executor::note_request`].
    #[inline]
    pub fn is_tracing(&self) -> bool {
        self.tracing.is_on
    }

    /// Returns whether traced requests wait for their reply.
    #[inline]
    pub fn has_traces_under_way(&self) -> bool {
        let Tracing { under_way, waiting, unread, .. } = &self.tracing;
        !under_way.is_empty() || !waiting.is_empty() || !unread.is_empty()
    }

    /// Starts or stops tracing at the beginning of a tick, once the clock has been read.
    #[inline]
    pub(super) fn begin_tracing(&mut self) {
        let is_on = self.server.observed.traces.is_active();
        let was_on = std::mem::replace(&mut self.tracing.is_on, is_on);
        if is_on || was_on || self.has_traces_under_way() {
            self.begin_traced_tick();
        }
    }

    #[cold]
    fn begin_traced_tick(&mut self) {
        let now_ns = self.server.now.monotonic_us * 1000;
        let choice = self.server.observed.traces.choice().unwrap_or_default();
        self.tracing.looks_at_all = choice.slower_us.is_some();
        if self.tracing.mean != choice.every || self.tracing.until_next == 0 {
            self.tracing.mean = choice.every;
            self.tracing.draw();
        }
        self.tracing.zero_ns = self.clock.stopwatch_ns().wrapping_sub(now_ns);
        self.tracing.prefetch_share_ns = 0;
        self.finish_traces();
        self.forget_ended_traces();
    }

    /// Stops recording the ends of waits while no traced request waits; frees memory once no request is traced.
    fn forget_ended_traces(&mut self) {
        if self.tracing.waiting.is_empty() {
            self.server.blocked.notes_ended = false;
            drop(self.server.blocked.take_ended());
        }
        if !self.tracing.is_on && !self.has_traces_under_way() {
            self.tracing.free_memory();
        }
    }

    /// Starts timing a request.
    #[inline]
    pub fn begin_trace(&mut self) -> Begun {
        self.tracing.until_next -= 1;
        let is_sampled = self.tracing.until_next == 0;
        if is_sampled {
            self.tracing.draw();
        }
        Begun { ns: self.stopwatch_ns, is_sampled }
    }

    /// Returns whether an executed request may be traced.
    #[inline]
    pub fn is_candidate(&self, begun: Begun) -> bool {
        begun.is_sampled || self.tracing.looks_at_all || !self.tracing.slow_log.is_empty()
    }

    /// Records an executed or blocked candidate. `received_us`: when it was read, on the monotonic clock.
    #[inline(never)]
    pub fn note_request(
        &mut self,
        handle: ClientHandle,
        request: Request<'_>,
        received_us: u64,
        begun: Begun,
    ) {
        let observed = &mut self.server.observed;
        let slow_log = std::mem::take(&mut self.tracing.slow_log);
        let is_chosen = begun.is_sampled || !slow_log.is_empty();
        let begun_ns = begun.ns.wrapping_sub(self.tracing.zero_ns);
        if self.tracing.requests() >= UNDER_WAY_MAX {
            observed.traces.missed += 1;
            return;
        }
        let Some(client) = self.server.clients.get(handle) else { return };
        let db_index = client.db_index;
        let waits = match &client.blocked {
            Some(blocked) => Some(Waits::of(blocked)),
            None => self.is_put_aside(handle).then_some(Waits::Script),
        };
        let since_ns = self.tracing.trace_ns(&self.clock);
        let received_ns = (received_us * 1000).min(begun_ns);
        let waited_ns = begun_ns - received_ns;
        let prefetch_ns = self.tracing.prefetch_share_ns.min(waited_ns);
        let mut stages = Stages::default();
        stages.add(Stage::QueryBuffer, waited_ns - prefetch_ns);
        stages.add(Stage::Prefetch, prefetch_ns);
        stages.add(Stage::Execution, since_ns.saturating_sub(begun_ns));
        let under_way = UnderWay {
            handle,
            db_index,
            received_ns,
            stages,
            since_ns,
            is_chosen,
            waits,
            answered_at: None,
            slow_log,
        };
        if matches!(waits, Some(Waits::Blocked { .. })) {
            // A request that was blocked earlier in this turn has been unblocked since.
            self.tracing.end_waiting(handle);
            let mut args = CutArgs::default();
            push_args(&self.server, request.id, request.args, &mut args);
            self.tracing.waiting.insert(handle, Waiting { request: under_way, args });
            self.server.blocked.notes_ended = true;
        } else {
            let mut args = std::mem::take(&mut self.tracing.args);
            push_args(&self.server, request.id, request.args, &mut args);
            self.tracing.args = args;
            self.tracing.under_way.push(under_way);
        }
    }

    /// Starts timing the retry of a blocked command. Whether or not it is traced, [`Executor::note_retried`] must be
    /// called, so that its slow log entries are not attributed to another request.
    pub(super) fn begin_retry(&self) -> Begun {
        Begun { ns: self.clock.stopwatch_ns(), is_sampled: false }
    }

    /// [`Executor::write_aof`] while traced requests wait for it; then their reply positions are known.
    #[cold]
    pub(super) fn write_aof_traced(&mut self) {
        let began_ns = self.tracing.trace_ns(&self.clock);
        self.aof.write_aof(&self.disk, &mut self.server);
        let ended_ns = self.tracing.trace_ns(&self.clock);
        self.tracing.end_traced_waits(&mut self.server);
        let mut under_way = std::mem::take(&mut self.tracing.under_way);
        structures::work::visited(under_way.len());
        for request in under_way.iter_mut().filter(|request| request.answered_at.is_none()) {
            let handle = request.handle;
            let Some(client) = self.server.clients.get(handle) else { continue };
            let still_waits = match request.waits {
                Some(Waits::Script) => self.is_put_aside(handle),
                Some(Waits::Blocked { .. }) | None => false,
            };
            if still_waits {
                continue;
            }
            request.close_stage(began_ns);
            request.stages.add(Stage::AppendOnlyFile, ended_ns.saturating_sub(request.since_ns));
            request.since_ns = request.since_ns.max(ended_ns);
            let held_len = client.held.as_ref().map_or(0, |held| held.len());
            let answered_at = client.connection.output_bytes_total + (held_len + client.output.len()) as u64;
            request.answered_at = Some(answered_at);
            if let Some(meter) = &client.connection.meter {
                meter.await_written(answered_at);
            }
        }
        self.tracing.under_way = under_way;
    }

    /// Records that output of this client, served by this thread, was written.
    #[cold]
    pub fn note_written(&mut self, handle: ClientHandle) {
        let now_ns = self.tracing.trace_ns(&self.clock);
        let written_ns = &mut self.tracing.written_ns;
        if written_ns.len() <= handle.index() {
            written_ns.resize(handle.index() + 1, 0);
        }
        written_ns[handle.index()] = now_ns;
        self.tracing.unread.note_written(handle);
    }

    /// Keeps or drops the requests whose replies have been written.
    #[cold]
    pub fn finish_traces(&mut self) {
        let now_ns = self.tracing.trace_ns(&self.clock);
        self.sort_out(|executor, request| match executor.written_ns(request, now_ns) {
            Some(at_ns) => Fate::Ends { at_ns },
            None if request.answered_at.is_some() && now_ns.saturating_sub(request.since_ns) >= UNREAD_NS => {
                Fate::IsSetAside
            }
            None => Fate::Stays,
        });
        if !self.tracing.unread.is_empty() {
            self.finish_unread(now_ns);
        }
    }

    /// Returns when the request's reply was written; `None`: not yet.
    fn written_ns(&self, request: &UnderWay, now_ns: u64) -> Option<u64> {
        let connection = &self.server.clients.get(request.handle)?.connection;
        let sent = connection.output_bytes_total - connection.output_under_way() as u64;
        if sent < request.answered_at? {
            return None;
        }
        let written_ns = match &connection.meter {
            Some(meter) => Some(meter.written_us.load(Ordering::Relaxed) * 1000),
            None => self.tracing.written_ns.get(request.handle.index()).copied(),
        };
        // An earlier write belongs to an earlier request.
        Some(written_ns.filter(|&at_ns| at_ns >= request.since_ns).unwrap_or(now_ns))
    }

    /// Keeps or drops requests that were set aside and whose replies have been written, for some of the clients.
    fn finish_unread(&mut self, now_ns: u64) {
        let clients = self.tracing.unread.clients_to_check();
        structures::work::visited(clients.len());
        for handle in clients {
            let mut requests = self.tracing.unread.take(handle);
            while let Some(first) = requests.front()
                && let Some(at_ns) = self.written_ns(&first.request, now_ns)
                && let Some(first) = requests.pop_front()
            {
                self.finish_waiting(first, at_ns);
            }
            self.tracing.unread.put_back(handle, requests);
        }
    }

    fn finish_waiting(&mut self, waiting: Waiting, at_ns: u64) {
        let Waiting { mut request, args } = waiting;
        request.close_stage(at_ns);
        self.keep_trace(&request, &args, 0);
    }

    /// Ends the client's traces at its disconnection, with the times so far.
    #[cold]
    pub(super) fn end_traces_of(&mut self, handle: ClientHandle) {
        let now_ns = self.tracing.trace_ns(&self.clock);
        self.tracing.end_waiting(handle);
        for waiting in self.tracing.unread.take(handle) {
            self.finish_waiting(waiting, now_ns);
        }
        self.sort_out(|_, request| match request.handle == handle {
            true => Fate::Ends { at_ns: now_ns },
            false => Fate::Stays,
        });
        // No traced tick follows if this was the last traced client.
        self.forget_ended_traces();
    }

    /// Ends or sets aside requests under way.
    fn sort_out(&mut self, fate: impl Fn(&Executor, &UnderWay) -> Fate) {
        let mut under_way = std::mem::take(&mut self.tracing.under_way);
        let mut args = std::mem::take(&mut self.tracing.args);
        structures::work::visited(under_way.len());
        // Suspended scripts precede finished requests: their arguments stay in place.
        let (mut first_gone, mut kept_behind) = (None, Vec::new());
        let mut index = 0;
        under_way.retain_mut(|request| {
            let fate = fate(self, request);
            match fate {
                Fate::Stays if first_gone.is_some() => kept_behind.push(index),
                Fate::Stays => {}
                Fate::Ends { at_ns } => {
                    request.close_stage(at_ns);
                    self.keep_trace(request, &args, index);
                }
                Fate::IsSetAside => {
                    let waiting = Waiting { request: request.clone(), args: args.only(index) };
                    self.tracing.unread.push(waiting);
                }
            }
            let stays = matches!(fate, Fate::Stays);
            if !stays {
                first_gone.get_or_insert(index);
            }
            index += 1;
            stays
        });
        if let Some(first_gone) = first_gone {
            args.retain(first_gone, kept_behind);
        }
        (self.tracing.under_way, self.tracing.args) = (under_way, args);
    }

    /// Records a finished request, if it matches the trace's filter. Its arguments are those at `index`.
    fn keep_trace(&mut self, request: &UnderWay, args: &CutArgs, index: usize) {
        let observed = &mut self.server.observed;
        let slower_us = observed.traces.choice().and_then(|choice| choice.slower_us);
        let is_slow = slower_us.is_some_and(|slower_us| request.stages.total_ns() / 1000 >= slower_us);
        if !request.is_chosen && !is_slow {
            return;
        }
        observed.command_logs.log_mut(LogKind::Slow).note_stages(request.slow_log.clone(), request.stages);
        let Some(client) = self.server.clients.get(request.handle) else { return };
        let now = self.server.now;
        let age_us = signed_count(now.monotonic_us) - signed_count(request.received_ns / 1000);
        let trace = Trace {
            id: 0,
            unix_us: now.unix_us - age_us,
            client_id: client.id.0,
            client_address: client.connection.address.clone(),
            client_name: shortened_name(&client.name),
            user: self.server.users.name(client.user()).to_vec(),
            db_index: request.db_index,
            args: args.shown(index),
            stages: request.stages,
        };
        observed.traces.push(trace, self.server.config.latency_trace_max_len);
    }
}

impl UnderWay {
    /// Attributes the slow log entries just added to this request.
    fn claim_slow_log(&mut self, slow_log: Range<u64>) {
        if !slow_log.is_empty() {
            self.slow_log = slow_log;
            self.is_chosen = true;
        }
    }

    /// Closes the open stage.
    fn close_stage(&mut self, now_ns: u64) {
        let stage = match (self.answered_at, self.waits) {
            (Some(_), _) => Stage::Output,
            (None, None) => Stage::Batch,
            (None, Some(Waits::Blocked { .. })) => Stage::Blocked,
            (None, Some(Waits::Script)) => Stage::Execution,
        };
        self.stages.add(stage, now_ns.saturating_sub(self.since_ns));
        self.since_ns = self.since_ns.max(now_ns);
    }
}
