//! The commands permitted over HTTP, decided by their table rows, so that a new command is refused until its row marks
//! it as read-only.
//!
//! 1. Without `http-commands` only commands without side effects run: read commands, except scripts, and those of
//!    [`WITHOUT_SIDE_EFFECTS`], which no flag distinguishes.
//! 2. With it, commands are still refused that block, authenticate, or end the pairing of request and reply.
//! 3. Permitted commands are still subject to the user's permissions.

use crate::command::args::OwnedArgs;
use crate::command::registry::Registry;
use crate::command::{Args, Command, Control, Group, flag};
use web::Verdict;

/// Commands without data, or without the flag, that change only their own connection.
const WITHOUT_SIDE_EFFECTS: &[&str] = &[
    "acl|cat",
    "acl|dryrun",
    "acl|getuser",
    "acl|list",
    "acl|users",
    "acl|whoami",
    "client|getname",
    "client|id",
    "client|info",
    "client|list",
    "client|no-touch",
    "cluster|countkeysinslot",
    "cluster|getkeysinslot",
    "cluster|getslotmigrations",
    "cluster|info",
    "cluster|keyslot",
    "cluster|links",
    "cluster|myid",
    "cluster|myshardid",
    "cluster|nodes",
    "cluster|shards",
    "cluster|slot-stats",
    "cluster|slots",
    "command",
    "command|count",
    "command|docs",
    "command|getkeys",
    "command|getkeysandflags",
    "command|info",
    "command|list",
    "commandlog|get",
    "commandlog|len",
    "config|get",
    "echo",
    "function|list",
    "function|stats",
    "hotkeys|get",
    "hotkeys|top",
    "info",
    "lastsave",
    "latency|doctor",
    "latency|graph",
    "latency|histogram",
    "latency|history",
    "latency|latest",
    "lolwut",
    "memory|bigkeys",
    "memory|doctor",
    "memory|malloc-stats",
    "memory|prefixes",
    "memory|stats",
    "module|list",
    "ping",
    "policy|explain",
    "policy|list",
    "policy|stats",
    "pubsub|channels",
    "pubsub|numpat",
    "pubsub|numsub",
    "pubsub|shardchannels",
    "pubsub|shardnumsub",
    "role",
    "script|exists",
    "script|show",
    "select",
    "slowlog|get",
    "slowlog|len",
    "time",
];

/// Commands without exactly one reply, and commands that authenticate.
const TAKES_OVER: &[&str] = &[
    "auth",
    "client|reply",
    "client|tracking",
    "hello",
    "monitor",
    "psync",
    "quit",
    "replconf",
    "reset",
    "sync",
];

/// The gate of the HTTP thread.
pub struct Gate {
    /// The commands as at the start; they are not renamed later.
    registry: Registry,
    /// The option `http-commands`.
    runs_all: bool,
}

impl Gate {
    /// Creates a gate for these commands.
    pub fn new(registry: Registry, runs_all: bool) -> Self {
        Gate { registry, runs_all }
    }

    /// Decides whether a request may run.
    pub fn judge(&self, words: &[Vec<u8>]) -> Verdict {
        let owned = OwnedArgs::exactly(words.iter().map(Vec::as_slice));
        let args = owned.view();
        match self.registry.find(args) {
            Err(error) => Verdict { refusal: Some(error.to_string()), opens_transaction: false },
            Ok(id) => {
                let row = self.registry.row(id);
                Verdict {
                    refusal: self.refusal(row, args),
                    opens_transaction: row.control == Control::OpensTransaction,
                }
            }
        }
    }

    fn refusal(&self, row: &Command, args: Args<'_>) -> Option<String> {
        let shown = row.name.replace('|', " ");
        if takes_over(row) {
            return Some(format!(
                "ERR '{shown}' does not run over HTTP: it blocks, subscribes, authenticates or takes over the connection"
            ));
        }
        if self.runs_all || has_no_side_effects(row, args) {
            return None;
        }
        Some(format!("NOPERM '{shown}' has side effects: over HTTP it requires http-commands yes"))
    }
}

fn takes_over(row: &Command) -> bool {
    let subscribes = row.is(flag::PUBSUB) && row.is(flag::NO_SCRIPT);
    row.is(flag::BLOCKING) || subscribes || TAKES_OVER.contains(&row.name)
}

fn has_no_side_effects(row: &Command, args: Args<'_>) -> bool {
    let reads = row.is(flag::READONLY) && !row.is(flag::WRITE | flag::MAY_REPLICATE | flag::ADMIN);
    let helps = row.name.ends_with("|help");
    match row.name {
        // Its operations are arguments; these have no side effects.
        "latency|trace" => ["get", "json", "status", "help"].iter().any(|word| args.is(2, word)),
        name => reads && row.group != Group::Scripting || helps || WITHOUT_SIDE_EFFECTS.contains(&name),
    }
}

#[cfg(test)]
mod tests;
