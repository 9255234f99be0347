//! What a command is: the narrow waist between those who run commands (`engine`) and those who write them
//! (`commands`). A command is one constant row beside its handler; lookup, refusals, key positions, COMMAND,
//! COMMAND DOCS, ACL categories and the client's hints all come from the row.

use crate::command::args::OwnedArgs;
use crate::db::Db;
use crate::error::ClientError;
use crate::server::{PersistRequest, ReplicationRequest, Server};
use crate::session::{BlockRequest, ClientHandle};
use wire::reply::ReplyBuffer;

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

/// What a handler answers: it has written one whole reply (or asked for one of the [`Next`]s), or it has
/// written nothing and the error is the reply.
pub type Outcome = Result<(), ClientError>;

/// Parses all of `args` before touching data, writes one reply, and says what changed through
/// [`Db::changed`]. Touches no socket, file, clock or other client.
pub type Handler = fn(&mut Context<'_>, Args<'_>) -> Outcome;

/// One row of the command table. Built in constants by [`Command::new`] and the methods that follow it.
pub struct Command {
    /// Lower case; a subcommand's is `container|subcommand`.
    pub name: &'static str,
    /// The number of arguments, the name included; negative for "at least".
    pub arity: i32,
    pub handler: Handler,
    pub flags: Flags,
    pub control: Control,
    pub group: Group,
    pub keys: &'static [KeySpec],
    /// The argument that is the first of the keys, where that is the same for all arguments; otherwise 0.
    pub first_key: usize,
    /// Whether that is the only key whatever the arguments are.
    pub one_key: bool,
    /// Categories beyond those that follow from the flags and the group, as `@` words without the `@`.
    pub categories: &'static [&'static str],
    /// Whether the category that follows from the group does not apply.
    pub outside_category: bool,
    pub since: &'static str,
    pub complexity: &'static str,
    pub summary: &'static str,
    /// The arguments as a person reads them: `key [NX | XX] value [value ...]`.
    pub syntax: &'static str,
    /// What versions have changed since the first, oldest first: the version and its change.
    pub history: &'static [(&'static str, &'static str)],
    /// Since which version another command is to be preferred, and which.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// For the server's own use or its tests, as COMMAND DOCS says.
    pub internal: bool,
    /// Advice to proxies and cluster clients, as COMMAND INFO lists it.
    pub tips: &'static [&'static str],
    pub subcommands: &'static [Command],
    /// The positions of arguments that no log and no monitor may show.
    pub hidden: Option<fn(Args<'_>) -> Vec<usize>>,
    /// Where in the value of its first key the command looks.
    pub prefetch_hint: PrefetchHint,
    /// Finds keys and what is done with them where that depends on more than `keys` can say (SET with GET, SORT
    /// with STORE).
    pub key_finder: Option<KeyFinder>,
    /// How the command is propagated, unless verbatim.
    pub propagated_as: Option<PropagateAs>,
    pub channels: Option<Channels>,
    pub databases: Databases,
}

/// Positions of keys, with what the command does to each.
pub type KeyFinder = fn(Args<'_>) -> Vec<(usize, Access)>;

impl Command {
    pub const fn new(name: &'static str, arity: i32, group: Group, handler: Handler) -> Self {
        Command {
            name,
            arity,
            handler,
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

    pub const fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// See [`Command::control`].
    pub const fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        if let [first, ..] = keys {
            self.first_key = first.first_key();
            self.one_key = keys.len() == 1 && first.is_one_key();
        }
        self
    }

    pub const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    /// See [`Command::outside_category`].
    pub const fn outside_category(mut self) -> Self {
        self.outside_category = true;
        self
    }

    /// The version of the protocol's first server that had it, and its cost as `O(...)`.
    pub const fn since(mut self, since: &'static str, complexity: &'static str) -> Self {
        self.since = since;
        self.complexity = complexity;
        self
    }

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

    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    pub const fn subcommands(mut self, subcommands: &'static [Command]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Says which arguments are secrets.
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

    /// Says which arguments are channels.
    pub const fn channels(mut self, channels: Channels) -> Self {
        self.channels = Some(channels);
        self
    }

    /// Says which databases it is about, beside that of its client.
    pub const fn databases(mut self, databases: Databases) -> Self {
        self.databases = databases;
        self
    }

    /// Whether any of its arguments may be keys.
    pub fn has_keys(&self) -> bool {
        self.key_finder.is_some() || self.keys.iter().any(|spec| spec.access & access::NOT_KEY == 0)
    }

    /// Where the keys are in `args`, and what the command does to each; none if the arguments make no sense.
    pub fn find_keys(&self, args: Args<'_>) -> Vec<(usize, Access)> {
        let mut found = Vec::new();
        let valid = self.visit_keys(args, &mut |at, access| found.push((at, access)));
        if valid { found } else { Vec::new() }
    }

    /// Calls `visit` with what [`Command::find_keys`] answers. `false`: the arguments make no sense, and what has been
    /// visited does not count.
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

    /// The ACL category that follows from the group. A command that is only its subcommands has none: what it does
    /// is theirs.
    pub fn own_category(&self) -> Option<&'static str> {
        let has_one = !self.outside_category && self.subcommands.is_empty();
        self.group.category().filter(|_| has_one)
    }

    pub const fn is(&self, flag: Flags) -> bool {
        self.flags & flag != 0
    }

    /// Whether `count` arguments, the name included, are as many as the row asks for.
    pub const fn accepts(&self, count: usize) -> bool {
        if self.arity >= 0 {
            count == self.arity as usize
        } else {
            count >= self.arity.unsigned_abs() as usize
        }
    }
}

/// A request as the engine runs it, with what was worked out where it was parsed.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What the registry has found for the arguments, if anything.
    pub id: Option<CommandId>,
    pub args: Args<'a>,
    pub first_key: FirstKey,
}

/// The first of a request's keys.
#[derive(Clone, Copy, Debug)]
pub struct FirstKey {
    /// Which argument it is; 0 if nothing is known of it.
    pub at: u32,
    /// As the database hashes it.
    pub hash: u64,
}

/// The place in a collection that a command goes to first, so that its memory can be fetched ahead of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchHint {
    /// The value's head, or no place in particular.
    Value,
    /// The field or member that is the argument at this index.
    Element(usize),
    /// The end of a sorted set that is near the rank which is the argument at index 2, if one is; `reversed`: ranks count from the
    /// highest member.
    Ranks { reversed: bool },
    /// The first element of a list, or the lowest member of a sorted set.
    Front,
    /// The last one.
    Back,
}

/// What is to follow a handler that returned `Ok`, beyond sending its reply. The engine does it. Small, since each command
/// returns one and few ask for anything.
#[derive(Debug, Default, PartialEq)]
pub enum Next {
    #[default]
    Reply,
    /// No reply yet: the client waits, and the command runs again when what it waits for has changed.
    Block(Box<BlockRequest>),
    /// As [`Next::Block`], but what runs again are these arguments.
    BlockAs(Box<(BlockRequest, OwnedArgs)>),
    /// Save, load or end; the engine writes the reply.
    Persist(PersistRequest),
    /// About replicas; the engine writes the reply.
    Replicate(Box<ReplicationRequest>),
    /// EXEC: run what the client has queued.
    RunTransaction,
    /// EVAL, FCALL: run this.
    RunScript(Box<crate::script::Call>),
    /// Reply to nobody now: some later event will (SHUTDOWN has begun, the client was paused).
    NoReply,
}

/// How the command at hand came to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// As part of EXEC: a command that would block answers at once instead.
    pub in_transaction: bool,
    /// Again, after it had blocked and something it waits for changed.
    pub retried: bool,
    /// Out of the append-only file, as the data is loaded.
    pub replayed: bool,
    /// From a script.
    pub in_script: bool,
}

/// Everything a handler may touch. Of other clients it reads figures, and does to them what [`Server`] has a name for
/// (`server/clients.rs`).
pub struct Context<'a> {
    pub db: &'a mut Db,
    pub server: &'a mut Server,
    pub reply: &'a mut ReplyBuffer,
    /// The client that sent the command.
    pub client: ClientHandle,
    pub command: &'static Command,
    pub origin: Origin,
    pub next: Next,
}

impl Context<'_> {
    /// Makes the client wait; see [`BlockRequest`]. Inside a transaction nothing blocks, and `false` says so: the
    /// handler then answers as if the time had run out.
    #[must_use]
    pub fn block(&mut self, request: BlockRequest) -> bool {
        let may_block = self.may_block();
        if may_block {
            self.next = Next::Block(Box::new(request));
        }
        may_block
    }

    /// As [`Context::block`], for a command whose arguments mean something else later (an id that stands for the
    /// last one now): it runs again with `args` instead.
    #[must_use]
    pub fn block_as(&mut self, request: BlockRequest, args: OwnedArgs) -> bool {
        let may_block = self.may_block();
        if may_block {
            self.next = Next::BlockAs(Box::new((request, args)));
        }
        may_block
    }

    /// Whether the command has been done already where it comes from, which is the primary or the append-only file: it is
    /// to do the same here.
    pub fn is_repeated(&self) -> bool {
        self.origin.replayed || self.server.clients[self.client].is_primary
    }

    fn may_block(&self) -> bool {
        !self.origin.in_transaction && !self.server.clients[self.client].deny_blocking
    }
}
