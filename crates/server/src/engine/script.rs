//! Execution of scripts: their commands take the path of all commands, and a long script is suspended between slices, so
//! that other clients get `BUSY` and can kill it.

use super::Executor;
use super::call::Call;
use super::cluster::carry_out_effects;
use super::peers;
use super::permission::counts_as;
use super::redirection::{Redirection, Redirections, slot_of_keys};
use super::transaction::TransactionRun;
use crate::clock::Reading;
use crate::command::args::OwnedArgs;
use crate::command::registry::CommandId;
use crate::command::{Args, Command, Group, Next, Origin, flag};
use crate::engine::observation::show_to_monitors;
use crate::error::{ClientError, on_the_wire};
use crate::script::numbers::Random48;
use crate::script::values::{self, Written};
use crate::script::{
    self, Caller, CommandLine, Fiber, Interpreter, Interrupt, Mode, Progress, Running, Scratch, Scripts,
    Settings, Turn, environment, functions,
};
use crate::server::Server;
use crate::session::ClientHandle;
use std::borrow::Cow;
use std::num::NonZeroUsize;
use wire::reply::ReplyBuffer;

/// State of a running script command.
struct ScriptRun {
    handle: ClientHandle,
    id: CommandId,
    /// Where the script's command came from: figures of slots count those of a transaction with its EXEC.
    origin: Origin,
    /// The client's database: a script's SELECT does not affect the client.
    db_index: usize,
    /// The frozen time of the script and its transaction, however long they take.
    now: Reading,
    started_ns: u64,
}

/// Time accounting of the running script.
#[derive(Clone, Copy, Debug, Default)]
struct ScriptTurn {
    /// When it was last checked or resumed, on the monotonic clock.
    checked_us: u64,
    /// A command that ends after this stopwatch time triggers a check.
    due_ns: u64,
    /// For a slow script: the end of its time slice.
    slice_until_us: u64,
}

/// The script that runs or is suspended.
#[derive(Default)]
pub(super) struct ScriptExecution {
    /// The client that the current script runs for.
    client: Option<ClientHandle>,
    turn: ScriptTurn,
    suspended: Option<Box<SuspendedScript>>,
}

impl ScriptExecution {
    /// Returns whether a script is suspended.
    #[inline]
    fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// Returns the client of the suspended script.
    pub(super) fn suspended_client(&self) -> Option<ClientHandle> {
        self.suspended.as_ref().map(|suspended| suspended.rest.run.handle)
    }

    /// Returns whether the client waits for the suspended script.
    fn is_put_aside(&self, handle: ClientHandle) -> bool {
        self.suspended.as_ref().is_some_and(|suspended| suspended.rest.run.handle == handle)
    }

    /// Marks the suspended script's client as disconnected, if it is this one: it is forgotten when the script ends.
    /// Returns whether it is.
    pub(super) fn abandon(&mut self, handle: ClientHandle) -> bool {
        let suspended = self.suspended.as_mut().filter(|suspended| suspended.rest.run.handle == handle);
        suspended.map(|suspended| suspended.rest.abandoned = true).is_some()
    }

    fn begin_turn(&mut self, now_us: u64, stopwatch_ns: u64) {
        self.turn = ScriptTurn {
            checked_us: now_us,
            due_ns: stopwatch_ns + COMMANDS_NS_MAX,
            slice_until_us: now_us + SLICE_US,
        };
    }

    /// Stores the transaction, or the preceding replies, with the suspended script.
    pub(super) fn keep_with_suspended(
        &mut self,
        server: &mut Server,
        partial_reply: Vec<u8>,
        transaction: Option<TransactionRun>,
    ) {
        let suspended = self.suspended.as_mut().expect("a script has just been put aside");
        let queue_bytes = transaction.as_ref().map_or(0, TransactionRun::memory_bytes);
        let client = &mut server.clients[suspended.rest.run.handle];
        client.suspended_bytes += partial_reply.capacity() + queue_bytes;
        suspended.rest.partial_reply = partial_reply;
        suspended.rest.transaction = transaction;
    }
}

/// A suspended script.
struct SuspendedScript {
    fiber: Fiber,
    rest: SuspendedCommand,
}

/// The command of a suspended script, for resuming.
struct SuspendedCommand {
    run: ScriptRun,
    args: OwnedArgs,
    /// Replies of the client that precede the script's result.
    partial_reply: Vec<u8>,
    /// The transaction that contains the script.
    transaction: Option<TransactionRun>,
    /// The client has disconnected.
    abandoned: bool,
}

/// Result of running a script until it ends or is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum ScriptEnd {
    Done,
    /// The reply follows when the resumed script ends.
    Suspended,
}

impl Executor {
    /// Runs a script. Its result is the reply; on suspension `reply` is unchanged.
    pub(super) fn run_script(
        &mut self,
        call: &Call<'_>,
        script: script::Call,
        reply: &mut ReplyBuffer,
    ) -> ScriptEnd {
        let &Call { client: handle, id, args, origin, .. } = call;
        if !self.server.monitors.is_empty() {
            show_to_monitors(&mut self.server, &self.clock, call);
        }
        let client = &self.server.clients[handle];
        let is_streamed = client.is_primary;
        let (db_index, now, started_ns) = (client.db_index, self.server.now, self.stopwatch_ns);
        let run = ScriptRun { handle, id, origin, db_index, now, started_ns };
        let scripts = &mut self.server.scripts;
        let mut interpreter = scripts.take(script.mode);
        let arguments = push_call(&mut interpreter, &script, args);
        let started_us = self.clock.monotonic_us();
        let since_frozen_ns = started_us.saturating_sub(now.monotonic_us).saturating_mul(1000);
        let frozen_ns = self.clock.stopwatch_ns().saturating_sub(since_frozen_ns);
        let mut running = Running::new(script, started_us, frozen_ns, is_streamed);
        running.slot = self.server.cluster.as_ref().and_then(|_| slot_of_keys(call));
        scripts.running = Some(running);
        self.script.client = Some(handle);
        self.script.begin_turn(started_us, self.stopwatch_ns);
        let progress = interpreter.run(arguments, 1, self as &mut (dyn Caller + 'static));
        match progress {
            Progress::Done { interpreter, failed } => {
                self.finish_script(&run, args, interpreter, failed, reply);
                ScriptEnd::Done
            }
            Progress::Suspended(fiber) => {
                if let Some(running) = &mut self.server.scripts.running {
                    running.command = args.iter().map(<[u8]>::to_vec).collect();
                }
                let (args, partial_reply) = (args.to_owned(), Vec::new());
                // The script's own arguments are held a second time, to be shown.
                let shown_bytes = args.view().bytes() + args.view().len() * size_of::<Vec<u8>>();
                self.server.clients[handle].suspended_bytes = args.memory_bytes() + shown_bytes;
                let rest = SuspendedCommand { run, args, partial_reply, transaction: None, abandoned: false };
                self.script.suspended = Some(Box::new(SuspendedScript { fiber, rest }));
                ScriptEnd::Suspended
            }
        }
    }

    /// Writes the script's result and records its command.
    fn finish_script(
        &mut self,
        run: &ScriptRun,
        args: Args<'_>,
        mut interpreter: Interpreter,
        failed: bool,
        reply: &mut ReplyBuffer,
    ) {
        let running = self.server.scripts.running.take().expect("the script was running");
        self.script.client = None;
        let start = reply.len();
        let mut stack = interpreter.stack();
        let written = match failed {
            true => write_failure(&mut stack, reply),
            false => values::write(&mut stack, reply, running.settings.protocol),
        };
        stack.set_top(0);
        self.server.scripts.give_back(running.call.mode, interpreter);
        written.errors.iter().for_each(|line| self.server.observed.statistics.count_script_error(line));
        self.server.clients[run.handle].db_index = run.db_index;
        self.gate.close();
        let reply_bytes = reply.len().saturating_sub(start);
        let call = Call { origin: run.origin, ..Call::new(&self.server.registry, run.handle, run.id, args) };
        let slot = running.slot.filter(|_| !running.call.crosses_slots);
        self.observe_composite(&call, run.started_ns, reply_bytes, written.failed, slot);
    }

    /// Returns whether a script is suspended: only this script may change data then.
    pub fn is_busy(&self) -> bool {
        self.script.is_suspended()
    }

    /// Returns whether the client's request is suspended.
    pub(super) fn is_put_aside(&self, handle: ClientHandle) -> bool {
        self.script.is_put_aside(handle)
    }

    /// Resumes a suspended script for one slice.
    pub(super) fn go_on_with_script(&mut self) {
        let Some(mut suspended) = self.script.suspended.take() else { return };
        // The script's time is frozen, and moves for all others.
        let now = self.server.now;
        self.set_now(suspended.rest.run.now);
        self.start_stopwatch();
        self.script.begin_turn(self.clock.monotonic_us(), self.stopwatch_ns);
        if self.server.clients[suspended.rest.run.handle].is_primary {
            self.db.note_client_expiry(false);
        }
        match suspended.fiber.resume(self as &mut (dyn Caller + 'static)) {
            Progress::Suspended(fiber) => {
                suspended.fiber = fiber;
                self.script.suspended = Some(suspended);
            }
            Progress::Done { interpreter, failed } => self.end_suspended(suspended.rest, interpreter, failed),
        }
        self.note_client_expiry();
        if self.server.now.monotonic_us < now.monotonic_us {
            self.set_now(now);
        }
    }

    /// Finishes the script's command and its transaction, and unblocks its client.
    fn end_suspended(&mut self, rest: SuspendedCommand, interpreter: Interpreter, failed: bool) {
        let SuspendedCommand { run, args, partial_reply, transaction, abandoned } = rest;
        let handle = run.handle;
        self.server.clients[handle].suspended_bytes = 0;
        if self.loads.is_replaying() {
            // The reply of a replayed script is dropped.
            let mut reply = ReplyBuffer::new(self.server.clients[handle].output.protocol);
            self.finish_script(&run, args.view(), interpreter, failed, &mut reply);
            return self.free_discarded();
        }
        let mut reply = self.borrow_output(handle);
        let start = reply.len();
        reply.raw(&partial_reply);
        self.finish_script(&run, args.view(), interpreter, failed, &mut reply);
        let end = match transaction {
            Some(transaction) => self.go_on_with_transaction(handle, transaction, start, &mut reply),
            None => {
                self.end_unit(handle);
                ScriptEnd::Done
            }
        };
        if end == ScriptEnd::Suspended {
            if let Some(suspended) = &mut self.script.suspended {
                suspended.rest.abandoned = abandoned;
            }
            return self.return_output(handle, reply);
        }
        if self.is_tracing() {
            self.tracing.claim_slow_log(handle);
        }
        carry_out_effects(self);
        self.after_command(handle, start, &mut reply);
        self.return_output(handle, reply);
        self.forward_script(handle);
        if abandoned {
            self.disconnect(handle);
        } else {
            self.server.clients.push(handle, |_| ());
            self.server.resumed.push_back(handle);
        }
        peers::resume(self);
        self.note_client_expiry();
        self.serve_ready();
    }

    /// Returns whether a script may call the command now. `Err` is the error line, in the texts that scripts expect.
    fn script_refusal(&mut self, call: &Call<'_>) -> Result<(), Cow<'static, str>> {
        let &Call { row, args, .. } = call;
        if !row.accepts(args.len()) {
            return Err("ERR Wrong number of args calling command from script".into());
        }
        // DEBUG may permit otherwise denied calls, but a script never runs commands that run others.
        let runs_others = matches!(row.group, Group::Scripting | Group::Transactions);
        if row.is(flag::NO_SCRIPT) && (self.server.switches.deny_scripts || runs_others) {
            return Err("ERR This Valkey command is not allowed from script".into());
        }
        // Replayed commands and those of a primary have run before: refusing one here would lose it.
        let is_repeated = self.loads.is_replaying()
            || self.script.client.is_some_and(|handle| self.server.clients[handle].is_primary);
        if !is_repeated && !row.is(flag::STALE) && self.has_stale_data() {
            return Err("ERR Can not execute the command on a stale replica".into());
        }
        let running = self.server.scripts.running.as_ref().expect("a script is running");
        let may_fail = !is_repeated && !running.wrote;
        if may_fail && self.lacks_memory_for_script(row, running) {
            return Err("OOM command not allowed when used memory > 'maxmemory'.".into());
        }
        if let Err(denied) = self.check_permission(call) {
            return Err(self.denied_in_script(call, denied).into());
        }
        let running = self.server.scripts.running.as_ref().expect("a script is running");
        if running.call.read_only && row.is(flag::WRITE | flag::MAY_REPLICATE) {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if !is_repeated && self.server.cluster.is_some() {
            cluster_refusal(self, call)?;
        }
        if may_fail && row.is(flag::WRITE) {
            self.write_refusal()?;
        }
        let running = self.server.scripts.running.as_mut().expect("a script is running");
        running.wrote |= row.is(flag::WRITE);
        Ok(())
    }

    fn lacks_memory_for_script(&self, row: &Command, running: &Running) -> bool {
        let is_short = self.server.short_of_memory && self.server.config.maxmemory_bytes > 0;
        is_short && row.is(flag::DENY_OOM) && !running.call.allows_oom
    }

    /// Returns whether a script that has not written yet may write.
    fn write_refusal(&self) -> Result<(), Cow<'static, str>> {
        if self.server.lacks_replicas() {
            return Err(crate::server::TOO_FEW_REPLICAS.into());
        }
        if let Some(error) = self.disk_error() {
            return Err(error.to_string().into());
        }
        if self.is_replica() && self.server.config.replica_read_only {
            return Err(crate::error::READ_ONLY_REPLICA.to_string().into());
        }
        Ok(())
    }
}

/// Refuses a command with keys that this node of a cluster does not serve, or of another slot than the script's.
fn cluster_refusal(executor: &mut Executor, call: &Call<'_>) -> Result<(), Cow<'static, str>> {
    const OTHER_SLOT: &str = "ERR Script attempted to access keys that do not hash to the same slot";
    let name = call.row.name;
    match Redirections::of(executor).find(call) {
        None => {}
        Some(Redirection::CrossSlot) => return Err(OTHER_SLOT.into()),
        Some(Redirection::Down) => {
            let text = format!("ERR Can not execute a command '{name}' while the cluster is down");
            return Err(text.into());
        }
        Some(Redirection::DownForWrites) => {
            let text = format!(
                "ERR Can not execute a write command '{name}' while the cluster is down and readonly"
            );
            return Err(text.into());
        }
        Some(_) => return Err("ERR Attempted to access a non local key in a cluster node".into()),
    }
    let running = executor.server.scripts.running.as_mut().expect("a script is running");
    match slot_of_keys(call).filter(|_| !running.call.crosses_slots) {
        Some(slot) if *running.slot.get_or_insert(slot) != slot => Err(OTHER_SLOT.into()),
        _ => Ok(()),
    }
}

/// Pushes the error handler, the function and its arguments; returns the number of arguments.
fn push_call(interpreter: &mut Interpreter, call: &script::Call, args: Args<'_>) -> usize {
    let mut stack = interpreter.stack();
    environment::push_error_handler(&mut stack);
    stack.push_kept(call.function);
    let (keys, values) = (args.from(3).first(call.keys), args.from(3 + call.keys));
    if call.mode == Mode::Function {
        push_array(&mut stack, keys);
        push_array(&mut stack, values);
        return 2;
    }
    stack.push_globals();
    stack.set_readonly(-1, false);
    push_array(&mut stack, keys);
    stack.set_field(-2, "KEYS");
    push_array(&mut stack, values);
    stack.set_field(-2, "ARGV");
    stack.set_readonly(-1, true);
    stack.pop(1);
    0
}

fn push_array(stack: &mut script::Stack<'_>, args: Args<'_>) {
    stack.push_table(args.len(), 0);
    for (number, arg) in (1..).zip(args.iter()) {
        stack.push_bytes(arg);
        stack.set_element(-2, number);
    }
}

/// Returns a command's flags; for a script, those it declares.
#[inline]
pub(super) fn flags_of(scripts: &Scripts, row: &Command, args: Args<'_>) -> flag::Flags {
    let is_script = row.group == Group::Scripting && row.is(flag::NO_MANDATORY_KEYS) && args.len() >= 2;
    if is_script { flags_of_script(scripts, row, args) } else { row.flags }
}

fn flags_of_script(scripts: &Scripts, row: &Command, args: Args<'_>) -> flag::Flags {
    let found = match row.name {
        "eval" | "eval_ro" => Some(scripts.flags_of_body(args.at(1))),
        "evalsha" | "evalsha_ro" => {
            scripts.cache.find_digest(args.at(1)).map(|at| scripts.cache.get(at).flags)
        }
        _ => scripts.libraries.function(args.at(1)).map(|function| Some(function.flags)),
    };
    let declared = match found {
        Some(Some(declared)) => declared,
        // A script without declarations may read data.
        Some(None) => return row.flags & !flag::STALE,
        None => return row.flags,
    };
    use crate::script::flags::ScriptFlags;
    let mut flags = row.flags & !(flag::STALE | flag::DENY_OOM | flag::WRITE | flag::MAY_REPLICATE);
    if !declared.has(ScriptFlags::ALLOW_OOM) && !declared.has(ScriptFlags::NO_WRITES) {
        flags |= flag::DENY_OOM;
    }
    if !declared.has(ScriptFlags::NO_WRITES) {
        flags |= flag::WRITE;
    }
    if declared.has(ScriptFlags::ALLOW_STALE) {
        flags |= flag::STALE;
    }
    flags
}

/// Writes the reply of a script that ended with the error on top of the stack.
fn write_failure(stack: &mut script::Stack<'_>, reply: &mut ReplyBuffer) -> Written {
    let (line, counted) = if stack.kind(-1) == script::Kind::Table {
        let error = values::error_information(stack);
        let mut line = values::until_nul(&error.message).to_vec();
        if let Some((source, number)) = error.place {
            line.extend([b" script: on ", source.as_slice(), b":", &number, b"."].concat());
        }
        (line, error.counted)
    } else {
        let text = stack.text_up_to(-1, 100).unwrap_or_else(|| b"execution failure".to_vec());
        let text = values::until_nul(&text);
        ([b"ERR Error running script, ", text].concat(), false)
    };
    reply.error(&line);
    let mut written = Written::default();
    written.failed = true;
    if !counted {
        written.note_error(&line);
    }
    written
}

impl Caller for Executor {
    fn call(&mut self, command: &mut CommandLine, reply: &mut ReplyBuffer) -> bool {
        let registry = &self.server.registry;
        let id = registry.find(Args::new(&command.buffer, &command.ranges));
        if let Ok(id) = &id {
            registry.row(*id).hash_keys(&command.buffer, &mut command.ranges, None, self.db.key_seed());
        }
        let args = Args::new(&command.buffer, &command.ranges);
        let handle = self.script.client.expect("a script runs for a client");
        let replayed = self.loads.is_replaying();
        let origin = Origin { in_transaction: true, in_script: true, replayed, ..Origin::default() };
        let found = id.map(|id| Call { origin, ..Call::new(registry, handle, id, args) });
        let refused = match &found {
            Ok(call) => self.script_refusal(call).err(),
            Err(ClientError::UnknownCommand { .. }) => Some("ERR Unknown command called from script".into()),
            Err(error) => Some(error.to_string().into()),
        };
        if let Some(line) = refused {
            if let Ok(call) = found {
                self.server.observed.commands[call.id.0 as usize].rejected += 1;
            }
            self.server.observed.statistics.count_error(counts_as(&line));
            reply.error(on_the_wire(&line));
            return false;
        }
        let Ok(call) = found else { return false };
        // Time spent in Lua since the last command belongs to the script, not to this command.
        self.start_stopwatch();
        if let Some(running) = &mut self.server.scripts.running {
            running.passed_us = self.stopwatch_ns.saturating_sub(running.frozen_ns) / 1000;
        }
        reply.set_limit(NonZeroUsize::new(environment::BYTES_MAX));
        let next = self.call(&call, reply);
        if reply.is_overflowed() {
            reply.set_limit(None);
            reply.error("ERR the command's reply is too large for a script");
        }
        assert!(
            matches!(next, Next::Reply | Next::NoReply | Next::Persist(_) | Next::Replicate(_)),
            "nothing waits inside a script"
        );
        self.stopwatch_ns >= self.script.turn.due_ns
    }

    fn may_call(&mut self, command: &CommandLine) -> Option<bool> {
        let args = Args::new(&command.buffer, &command.ranges);
        let id = self.server.registry.find(args).ok()?;
        let handle = self.script.client.expect("a script runs for a client");
        Some(self.check_permission(&Call::new(&self.server.registry, handle, id, args)).is_ok())
    }

    fn register(&mut self, _: functions::NewFunction) -> Result<(), &'static str> {
        Err(functions::REGISTERED_TOO_LATE)
    }

    fn interrupt(&mut self) -> Turn {
        let now_us = self.clock.monotonic_us();
        let lasted_us = now_us.saturating_sub(std::mem::replace(&mut self.script.turn.checked_us, now_us));
        self.script.turn.due_ns = self.clock.stopwatch_ns() + COMMANDS_NS_MAX;
        let interrupt = self.interrupt_of_script(now_us);
        let is_slow = self.server.scripts.running.as_ref().is_some_and(|running| running.is_slow);
        let gives_way = is_slow && now_us >= self.script.turn.slice_until_us && !self.loads.replays_at_once();
        Turn { interrupt, gives_way, lasted_us }
    }

    fn settings(&mut self) -> &mut Settings {
        &mut self.server.scripts.running.as_mut().expect("a script is running").settings
    }

    fn scratch(&mut self) -> &mut Scratch {
        &mut self.server.scripts.scratch
    }

    fn random(&mut self) -> &mut Random48 {
        &mut self.server.scripts.random
    }
}

impl Executor {
    /// Returns the duration from which a script is slow; 0: unlimited. During a shutdown the default is its upper limit:
    /// otherwise the script would keep the process from ending.
    fn slow_script_ms_min(&self) -> u64 {
        let configured_ms = self.server.config.busy_reply_threshold_ms;
        let is_to_end = self.ending.is_requested();
        match configured_ms {
            0 | SLOW_SCRIPT_MS_AT_STOP.. if is_to_end => SLOW_SCRIPT_MS_AT_STOP,
            _ => configured_ms,
        }
    }

    /// Returns whether the running script may continue.
    fn interrupt_of_script(&mut self, now_us: u64) -> Interrupt {
        let threshold_ms = self.slow_script_ms_min();
        let is_stopping = self.is_stopping();
        let Some(running) = &mut self.server.scripts.running else { return Interrupt::GoOn };
        if running.killed {
            return Interrupt::Kill(match running.call.mode {
                _ if is_stopping => "ERR Script ended because the server is shutting down.",
                Mode::Eval => "ERR Script killed by user with SCRIPT KILL.",
                Mode::Function => "ERR Script killed by user with FUNCTION KILL.",
            });
        }
        if running.is_slow {
            // The rest of the server runs once per slice.
            let over = now_us >= self.script.turn.slice_until_us;
            return if over && !self.loads.replays_at_once() { Interrupt::Suspend } else { Interrupt::GoOn };
        }
        let elapsed_ms = now_us.saturating_sub(running.started_us) / 1000;
        if threshold_ms == 0 || elapsed_ms < threshold_ms {
            return Interrupt::GoOn;
        }
        running.is_slow = true;
        let command = if running.call.mode == Mode::Eval { "SCRIPT KILL" } else { "FUNCTION KILL" };
        log::warn!(
            "Slow script detected: still in execution after {elapsed_ms} milliseconds. You can try killing the script \
             using the {command} command. Script name is: {}.",
            running.call.name
        );
        if self.loads.replays_at_once() { Interrupt::GoOn } else { Interrupt::Suspend }
    }
}

/// The default of `busy-reply-threshold`.
const SLOW_SCRIPT_MS_AT_STOP: u64 = 5000;
/// Length of a slow script's slice before the rest of the server runs.
const SLICE_US: u64 = 500;
/// Time of a script's commands that triggers a check, for scripts that run little Lua between commands.
const COMMANDS_NS_MAX: u64 = 200_000;
