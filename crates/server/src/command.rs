//! The definition of a command: the narrow interface between the `engine`, which runs commands, and `commands`, which
//! implements them. A command is one constant row beside its handler; lookup, refusals, key positions, COMMAND,
//! COMMAND DOCS, ACL categories and the client's hints all come from the row.

use crate::command::args::OwnedArgs;
use crate::db::Db;
use crate::error::ClientError;
use crate::server::{PersistRequest, ReplicationRequest, Server};
use crate::session::{BlockRequest, ClientHandle};
use std::num::NonZeroU64;
use structures::key_slot::KeySeed;
use wire::reply::{ReplyBuffer, SharedBytes};
use wire::request::ArgRange;

pub mod args;
pub mod category;
pub mod flag;
pub mod key_spec;
pub mod propagation;
pub mod registry;
pub mod repetition;
pub mod scope;
pub mod syntax;

pub use args::Args;
pub use flag::{Control, Flags, Group};
pub use key_spec::{Access, KeySpec, access};
use propagation::PropagateAs;
use registry::CommandId;
use scope::{Channels, Databases};

/// The result of a handler. `Ok`: the handler has written one whole reply, or has requested a [`Next`]. `Err`: it has
/// written nothing, and the error is the reply.
pub type Outcome = Result<(), ClientError>;

/// Parses all of `args` before it touches data, writes one reply, and reports changes through
/// [`Db::changed`]. Touches no socket, file, clock or other client.
pub type Handler = fn(&mut Context<'_>, Args<'_>) -> Outcome;

/// One row of the command table. Built in constants by [`Command::new`] and the methods that follow it.
pub struct Command {
    /// Lower case; the name of a subcommand is `container|subcommand`.
    pub name: &'static str,
    /// The number of arguments, the name included; negative for "at least".
    pub arity: i32,
    /// Runs the command.
    pub handler: Handler,
    /// Runs the command on a node of a cluster, where `handler` refuses it on other servers.
    pub node_handler: Handler,
    /// Properties for the gate and the engine: whether it writes, may run while data is loaded, and others.
    pub flags: Flags,
    /// Its effect on the following requests of its client.
    pub control: Control,
    /// The section of the documentation, from which a category follows.
    pub group: Group,
    /// Where its keys are among the arguments, and how each is used; empty for a command without keys.
    pub keys: &'static [KeySpec],
    /// The index of the first key if it is the same for all arguments; otherwise 0.
    pub first_key: usize,
    /// Whether `first_key` is the only key for all arguments.
    pub one_key: bool,
    /// Categories beyond those that follow from the flags and the group, as `@` words without the `@`.
    pub categories: &'static [&'static str],
    /// Whether the category that follows from the group does not apply.
    pub outside_category: bool,
    /// The version of the reference that had it first.
    pub since: &'static str,
    /// The processor time that it takes, as a function of its arguments and data.
    pub complexity: &'static str,
    /// Its summary, a sentence.
    pub summary: &'static str,
    /// The arguments in the notation of the documentation: `key [NX | XX] value [value ...]`.
    pub syntax: &'static str,
    /// Changes in versions after the first, oldest first: the version and its change.
    pub history: &'static [(&'static str, &'static str)],
    /// The version that deprecated the command, and its replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// For internal use or tests of the server, as COMMAND DOCS reports it.
    pub internal: bool,
    /// Advice to proxies and cluster clients, as COMMAND INFO lists it.
    pub tips: &'static [&'static str],
    /// The rows of a container; empty for others.
    pub subcommands: &'static [Command],
    /// The positions of arguments that logs and monitors must not show.
    pub hidden: Option<fn(Args<'_>) -> Vec<usize>>,
    /// The part of its first key's value that the command accesses first.
    pub prefetch_hint: PrefetchHint,
    /// Finds keys and their access if `keys` cannot describe them (SET with GET, SORT with STORE).
    pub key_finder: Option<KeyFinder>,
    /// How the command is propagated; `None` is verbatim.
    pub propagated_as: Option<PropagateAs>,
    /// Which arguments are channels of pub/sub, for permissions; `None` if none is.
    pub channels: Option<Channels>,
    /// Which databases it accesses, for permissions.
    pub databases: Databases,
}

/// Positions of keys, with the command's access to each.
pub type KeyFinder = fn(Args<'_>) -> Vec<(usize, Access)>;

impl Command {
    /// A row with defaults; the methods that follow set the other columns.
    pub const fn new(name: &'static str, arity: i32, group: Group, handler: Handler) -> Self {
        Command {
            name,
            arity,
            handler,
            node_handler: handler,
            flags: 0,
            control: Control::None,
            group,
            keys: &[],
            first_key: 0,
            one_key: false,
            categories: &[],
            outside_category: false,
            since: "1.0.0",
            complexity: "",
            summary: "",
            syntax: "",
            history: &[],
            deprecated: None,
            internal: false,
            tips: &[],
            subcommands: &[],
            hidden: None,
            prefetch_hint: PrefetchHint::Value,
            key_finder: None,
            propagated_as: None,
            channels: None,
            databases: Databases::Own,
        }
    }

    /// See [`Command::node_handler`].
    pub const fn node_handler(mut self, handler: Handler) -> Self {
        self.node_handler = handler;
        self
    }

    /// Adds flags.
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// See [`Command::control`].
    pub const fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Sets the key specifications.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        if let [first, ..] = keys {
            self.first_key = first.first_key();
            self.one_key = keys.len() == 1 && first.is_one_key();
        }
        self
    }

    /// See [`Command::categories`].
    pub const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    /// See [`Command::outside_category`].
    pub const fn outside_category(mut self) -> Self {
        self.outside_category = true;
        self
    }

    /// The first version of the protocol's original server that had the command, and its complexity as `O(...)`.
    pub const fn since(mut self, since: &'static str, complexity: &'static str) -> Self {
        self.since = since;
        self.complexity = complexity;
        self
    }

    /// The one-line summary, and the arguments in the notation of [`syntax`].
    pub const fn doc(mut self, summary: &'static str, syntax: &'static str) -> Self {
        self.summary = summary;
        self.syntax = syntax;
        self
    }

    /// See [`Command::history`].
    pub const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Self {
        self.history = history;
        self
    }

    /// See [`Command::deprecated`].
    pub const fn deprecated(mut self, since: &'static str, replaced_by: &'static str) -> Self {
        self.deprecated = Some((since, replaced_by));
        self
    }

    /// See [`Command::internal`].
    pub const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// See [`Command::tips`].
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    /// The subcommands of a container.
    pub const fn subcommands(mut self, subcommands: &'static [Command]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Declares which arguments are secrets.
    pub const fn hides(mut self, hidden: fn(Args<'_>) -> Vec<usize>) -> Self {
        self.hidden = Some(hidden);
        self
    }

    /// See [`Command::prefetch_hint`].
    pub const fn prefetch_hint(mut self, hint: PrefetchHint) -> Self {
        self.prefetch_hint = hint;
        self
    }

    /// See [`Command::key_finder`].
    pub const fn finds_keys(mut self, finder: KeyFinder) -> Self {
        self.key_finder = Some(finder);
        self
    }

    /// See [`Command::propagated_as`].
    pub const fn propagated_as(mut self, propagate_as: PropagateAs) -> Self {
        self.propagated_as = Some(propagate_as);
        self
    }

    /// Declares which arguments are channels.
    pub const fn channels(mut self, channels: Channels) -> Self {
        self.channels = Some(channels);
        self
    }

    /// Declares which databases the command accesses besides its client's.
    pub const fn databases(mut self, databases: Databases) -> Self {
        self.databases = databases;
        self
    }

    /// Whether any argument can be a key.
    pub fn has_keys(&self) -> bool {
        self.key_finder.is_some() || self.keys.iter().any(|spec| spec.access & access::NOT_KEY == 0)
    }

    /// The positions of the keys in `args`, and the command's access to each; empty if the arguments are invalid.
    pub fn find_keys(&self, args: Args<'_>) -> Vec<(usize, Access)> {
        let mut found = Vec::new();
        let valid = self.visit_keys(args, &mut |at, access| found.push((at, access)));
        if valid { found } else { Vec::new() }
    }

    /// Calls `visit` for each result of [`Command::find_keys`]. `false`: the arguments are invalid, and the keys visited so
    /// far do not count.
    pub fn visit_keys(&self, args: Args<'_>, visit: &mut dyn FnMut(usize, Access)) -> bool {
        if let Some(finder) = self.key_finder {
            finder(args).into_iter().for_each(|(at, access)| visit(at, access));
            return true;
        }
        self.keys.iter().filter(|spec| spec.access & access::NOT_KEY == 0).all(|spec| {
            let valid = spec.positions(args, &mut |at| visit(at, spec.access));
            valid || spec.access & access::INCOMPLETE != 0
        })
    }

    /// The positions of the keys that the specifications find in `args`.
    pub fn key_positions<'a>(&self, args: Args<'a>) -> impl Iterator<Item = usize> + use<'a> {
        let specs = self.keys.iter().filter(|spec| spec.access & access::NOT_KEY == 0);
        specs.filter_map(move |spec| spec.found(args)).flatten()
    }

    /// Stores the hashes of a request's keys with its arguments: `ranges` of `buffer`, one of which may be `apart`.
    #[inline]
    pub fn hash_keys(
        &self,
        buffer: &[u8],
        ranges: &mut [ArgRange],
        apart: Option<&SharedBytes>,
        seed: KeySeed,
    ) {
        if !self.one_key {
            return self.hash_all_keys(buffer, ranges, apart, seed);
        }
        let at = self.first_key;
        if at < ranges.len() {
            let hash = seed.hash(Args::with_apart(buffer, ranges, apart).at(at));
            ranges[at].hash = NonZeroU64::new(hash);
        }
    }

    #[inline(never)]
    fn hash_all_keys(
        &self,
        buffer: &[u8],
        ranges: &mut [ArgRange],
        apart: Option<&SharedBytes>,
        seed: KeySeed,
    ) {
        for spec in self.keys.iter().filter(|spec| spec.access & access::NOT_KEY == 0) {
            for at in spec.found(Args::with_apart(buffer, ranges, apart)).into_iter().flatten() {
                let hash = seed.hash(Args::with_apart(buffer, ranges, apart).at(at));
                ranges[at].hash = NonZeroU64::new(hash);
            }
        }
    }

    /// The ACL category that follows from the group. A container has none: its subcommands have their own.
    pub fn own_category(&self) -> Option<&'static str> {
        let has_one = !self.outside_category && self.subcommands.is_empty();
        self.group.category().filter(|_| has_one)
    }

    /// Whether the command has any of these flags.
    pub const fn is(&self, flag: Flags) -> bool {
        self.flags & flag != 0
    }

    /// Whether the arity allows `count` arguments, the name included.
    pub const fn accepts(&self, count: usize) -> bool {
        if self.arity >= 0 {
            count == self.arity as usize
        } else {
            count >= self.arity.unsigned_abs() as usize
        }
    }
}

/// A request as the engine runs it, with the results of parsing it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The command that the registry found for the arguments, if any.
    pub id: Option<CommandId>,
    /// The command's name and arguments.
    pub args: Args<'a>,
}

/// The place in a collection that a command accesses first; its memory can be prefetched before the command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchHint {
    /// The value's header, or no particular place.
    Value,
    /// The field or member that is the argument at this index.
    Element(usize),
    /// The end of a sorted set that is nearer to the rank in the argument at index 2, if there is one.
    Ranks {
        /// Whether ranks count from the highest member.
        reversed: bool,
    },
    /// The end of a sorted set that the bound in the argument at index 2 names, if it is infinite.
    Bounds,
    /// The first element of a list, or the lowest member of a sorted set.
    Front,
    /// The last element of a list, or the highest member of a sorted set.
    Back,
}

/// The action that follows a handler's `Ok`, besides sending its reply; the engine performs it. Small, because each command
/// returns one and few request an action.
#[derive(Debug, Default, PartialEq)]
pub enum Next {
    /// The handler's reply is sent.
    #[default]
    Reply,
    /// No reply yet: the client blocks, and the command runs again when one of the keys it waits for has changed.
    Block(Box<BlockRequest>),
    /// As [`Next::Block`], but these arguments run again.
    BlockAs(Box<(BlockRequest, OwnedArgs)>),
    /// Save, load or shut down; the engine writes the reply.
    Persist(PersistRequest),
    /// Replication; the engine writes the reply.
    Replicate(Box<ReplicationRequest>),
    /// EXEC: run the client's queued commands.
    RunTransaction,
    /// EVAL, FCALL: run this script.
    RunScript(Box<crate::script::Call>),
    /// Send no reply now: a later event sends one (SHUTDOWN has begun, the client was paused).
    NoReply,
}

/// Where the current command comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Part of EXEC: a command that would block replies at once instead.
    pub in_transaction: bool,
    /// Run again after it blocked and one of its keys changed.
    pub retried: bool,
    /// From the append-only file, while the data is loaded.
    pub replayed: bool,
    /// From a script.
    pub in_script: bool,
}

/// Everything that a handler can access. It reads statistics of other clients, and changes them only through the methods
/// of [`Server`] in `server/clients.rs`.
pub struct Context<'a> {
    /// The data.
    pub db: &'a mut Db,
    /// All other state of the server.
    pub server: &'a mut Server,
    /// Where the reply is written, in the version of the protocol that the client uses.
    pub reply: &'a mut ReplyBuffer,
    /// The client that sent the command.
    pub client: ClientHandle,
    /// The row of the command that runs.
    pub command: &'static Command,
    /// Who or what calls it, beside a client.
    pub origin: Origin,
    /// What the engine does when the handler has returned.
    pub next: Next,
}

impl Context<'_> {
    /// Blocks the client; see [`BlockRequest`]. Nothing blocks inside a transaction, and the result is `false`: the
    /// handler then replies as if the timeout had expired.
    #[must_use]
    pub fn block(&mut self, request: BlockRequest) -> bool {
        let may_block = self.may_block();
        if may_block {
            self.next = Next::Block(Box::new(request));
        }
        may_block
    }

    /// As [`Context::block`], for a command whose arguments change their meaning later (an id that stands for the
    /// current last one): `args` run again instead.
    #[must_use]
    pub fn block_as(&mut self, request: BlockRequest, args: OwnedArgs) -> bool {
        let may_block = self.may_block();
        if may_block {
            self.next = Next::BlockAs(Box::new((request, args)));
        }
        may_block
    }

    /// Whether the command has already run at its origin, the primary or the append-only file: it must have the same
    /// effect here.
    pub fn is_repeated(&self) -> bool {
        self.origin.replayed || self.server.clients[self.client].is_primary
    }

    /// Whether the client may wait, for data or for messages.
    pub fn may_block(&self) -> bool {
        !self.origin.in_transaction && !self.server.clients[self.client].deny_blocking
    }
}
