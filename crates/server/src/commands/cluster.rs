//! CLUSTER, ASKING and CLUSTERSCAN: this server as a node of a cluster.

mod keys;
mod membership;
mod migration;
mod nodes;
mod scan;
mod slot_stats;
mod slots;
mod topology;

use crate::command::flag::{
    ADMIN, FAST, Flags, LOADING, MAY_REPLICATE, NO_ASYNC_LOADING, NO_SCRIPT, READONLY, STALE, STREAMED,
    TOUCHES_ARBITRARY_KEYS, WRITE,
};
use crate::command::scope::Databases;
use crate::command::{Args, Command, Context, Control, Group, Handler, KeySpec, Outcome, access};
use crate::error::{ClientError, quoted};
use crate::server::Server;
use crate::server::cluster_node::ClusterNode;
use crate::session::{BlockRequest, BlockedOn, SavedReply};
use cluster::{Cluster, Refusal};
use structures::key_slot::SLOTS;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    node_command("asking", 1, FAST, asking)
        .categories(&["connection"])
        .since("3.0.0", "O(1)")
        .doc("Accepts redirects of another node.", ""),
    Command::new("cluster", -2, Group::Cluster, super::container)
        .since("3.0.0", "Depends on subcommand.")
        .doc("Shows and controls the cluster.", "")
        .subcommands(SUBCOMMANDS),
    node_command("clusterscan", -2, READONLY | TOUCHES_ARBITRARY_KEYS, scan::cluster_scan)
        .keys(&[KeySpec::one(1, access::NOT_KEY)])
        .categories(&["keyspace"])
        .since("9.1.0", "O(N) where N is the number of elements returned")
        .doc(
            "Iterates over the keys of a cluster.",
            "cursor:string [MATCH match-pattern:pattern] [COUNT count] [TYPE type] [SLOT slot:integer]",
        )
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"]),
];

/// Flags of subcommands that only read.
const LOOKS: Flags = LOADING | STALE;
/// Flags of subcommands that change the cluster.
const CHANGES: Flags = NO_ASYNC_LOADING | ADMIN | STALE;
const VARIES: &[&str] = &["nondeterministic_output"];

/// A command that only a node of a cluster supports.
const fn node_command(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    Command::new(name, arity, Group::Cluster, on_node).node_handler(handler).flags(flags)
}

/// Runs a node's command, and refuses it on servers that are no nodes.
fn on_node(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    view(ctx.server)?;
    (ctx.command.node_handler)(ctx, args)
}

const SUBCOMMANDS: &[Command] = &[
    node_command("cluster|addslots", -3, CHANGES, slots::add)
        .since("3.0.0", "O(N) where N is the number of slots")
        .doc("Assigns slots to the node.", "slot:integer ..."),
    node_command("cluster|addslotsrange", -4, CHANGES, slots::add_ranges)
        .since("7.0.0", "O(N) where N is the number of slots in the ranges")
        .doc("Assigns ranges of slots to the node.", "<range: start-slot:integer end-slot:integer> ..."),
    node_command("cluster|bumpepoch", 2, CHANGES, membership::bump_epoch)
        .since("3.0.0", "O(1)")
        .doc("Advances the node's configuration epoch.", "")
        .tips(VARIES),
    node_command("cluster|cancelslotmigrations", 2, CHANGES, migration::cancel)
        .databases(Databases::All)
        .since("9.0.0", "O(N) where N is the number of migrations")
        .doc("Cancels slot migrations in progress.", ""),
    node_command("cluster|count-failure-reports", 3, ADMIN | STALE, nodes::count_failure_reports)
        .since("3.0.0", "O(N) where N is the number of reports")
        .doc("Returns the number of failure reports about a node.", "node-id")
        .history(&[("9.0.0", "Reports beyond those required to mark the node as failed are not counted.")])
        .tips(VARIES),
    node_command("cluster|countkeysinslot", 3, STALE, keys::count)
        .since("3.0.0", "O(1)")
        .doc("Returns the number of keys in a slot.", "slot:integer"),
    node_command("cluster|delslots", -3, CHANGES, slots::delete)
        .since("3.0.0", "O(N) where N is the number of slots")
        .doc("Removes slots from the node.", "slot:integer ..."),
    node_command("cluster|delslotsrange", -4, CHANGES, slots::delete_ranges)
        .since("7.0.0", "O(N) where N is the number of slots in the ranges")
        .doc("Removes ranges of slots from the node.", "<range: start-slot:integer end-slot:integer> ..."),
    node_command("cluster|failover", -2, CHANGES | STREAMED, membership::failover)
        .since("3.0.0", "O(1)")
        .doc("Promotes a replica to primary.", "[options: FORCE | TAKEOVER]"),
    node_command("cluster|flushslot", -3, WRITE | NO_ASYNC_LOADING | ADMIN, keys::flush)
        .databases(Databases::All)
        .categories(&["keyspace"])
        .since("9.0.0", "O(N) where N is the number of keys in the slot")
        .doc("Deletes all keys of a slot.", "slot:integer [flush-type: ASYNC | SYNC]"),
    node_command("cluster|flushslots", 2, CHANGES, slots::flush)
        .since("3.0.0", "O(1)")
        .doc("Removes all slots from the node.", ""),
    node_command("cluster|forget", 3, CHANGES, membership::forget)
        .since("3.0.0", "O(1)")
        .doc("Removes a node from the table of known nodes.", "node-id"),
    node_command("cluster|getkeysinslot", 4, STALE, keys::list)
        .since("3.0.0", "O(N) where N is the number of requested keys")
        .doc("Returns keys of a slot.", "slot:integer count")
        .tips(VARIES),
    node_command("cluster|getslotmigrations", 2, CHANGES, migration::list)
        .since("9.0.0", "O(N) where N is the number of migrations")
        .doc("Lists current and recent slot migrations.", ""),
    node_command("cluster|help", 2, LOOKS, super::help).since("5.0.0", "O(1)").doc("Lists the subcommands.", ""),
    node_command("cluster|info", 2, LOOKS, nodes::info)
        .since("3.0.0", "O(1)")
        .doc("Returns the state of the cluster.", "")
        .tips(VARIES),
    Command::new("cluster|keyslot", 3, Group::Cluster, key_slot)
        .flags(STALE)
        .since("3.0.0", "O(N) where N is the number of bytes in the key")
        .doc("Returns the slot of a key.", "key:string"),
    node_command("cluster|links", 2, STALE, nodes::links)
        .since("7.0.0", "O(N) where N is the number of nodes")
        .doc("Lists the links to other nodes.", "")
        .tips(VARIES),
    node_command("cluster|meet", -4, CHANGES, membership::meet)
        .since("3.0.0", "O(1)")
        .doc("Connects the node to another node.", "ip port:integer [cluster-bus-port:integer@4.0.0]")
        .history(&[("4.0.0", "The port of the cluster bus.")]),
    node_command("cluster|migrateslots", -4, CHANGES, migration::migrate_slots)
        .databases(Databases::All)
        .since("9.0.0", "O(N) where N is the number of slots in the ranges")
        .doc(
            "Moves slots to other nodes.",
            "<migration-group: <slotsrange-token=SLOTSRANGE> <range: start-slot:integer end-slot:integer> ... \
             <node-token=NODE> node-id> ...",
        ),
    node_command("cluster|myid", 2, LOOKS, nodes::my_id).since("3.0.0", "O(1)").doc("Returns this node's id.", ""),
    node_command("cluster|myshardid", 2, LOOKS, nodes::my_shard_id)
        .since("7.2.0", "O(1)")
        .doc("Returns the id of this node's shard.", "")
        .tips(VARIES),
    node_command("cluster|nodes", 2, LOOKS, nodes::list)
        .since("3.0.0", "O(N) where N is the number of nodes")
        .doc("Lists the nodes.", "")
        .tips(VARIES),
    node_command("cluster|replicas", 3, ADMIN | STALE, nodes::replicas)
        .since("5.0.0", "O(N) where N is the number of replicas")
        .doc("Lists the replicas of a node.", "node-id")
        .tips(VARIES),
    node_command("cluster|replicate", -3, CHANGES, membership::replicate)
        .since("3.0.0", "O(1)")
        .doc("Makes the node a replica of another, or a primary.", "<args: node-id | <no-one@9.0.0: NO ONE>>")
        .history(&[("9.0.0", "`NO ONE`.")]),
    node_command("cluster|reset", -2, ADMIN | STALE | NO_SCRIPT, membership::reset)
        .since("3.0.0", "O(N) where N is the number of nodes; may remove all keys")
        .doc("Resets the node's cluster state.", "[reset-type: HARD | SOFT]"),
    node_command("cluster|saveconfig", 2, CHANGES, membership::save_config)
        .since("3.0.0", "O(1)")
        .doc("Saves the cluster configuration to disk.", ""),
    node_command("cluster|set-config-epoch", 3, CHANGES, membership::set_config_epoch)
        .since("3.0.0", "O(1)")
        .doc("Sets the configuration epoch of a new node.", "config-epoch:integer"),
    node_command("cluster|setslot", -4, CHANGES | MAY_REPLICATE, slots::set)
        .since("3.0.0", "O(1)")
        .doc(
            "Sets the owner or migration state of a slot.",
            "slot:integer <subcommand: IMPORTING importing(node-id) | MIGRATING migrating(node-id) \
             | NODE node(node-id) | STABLE> [TIMEOUT timeout:integer@8.0.0]",
        )
        .history(&[("8.0.0", "`TIMEOUT`.")]),
    node_command("cluster|shards", 2, LOOKS, topology::shards)
        .since("7.0.0", "O(N) where N is the number of nodes")
        .doc("Lists the shards with their nodes and slots.", "")
        .history(&[("9.1.0", "Ids of shards, availability zones of nodes.")])
        .tips(VARIES),
    node_command("cluster|slaves", 3, ADMIN | STALE, nodes::replicas)
        .since("3.0.0", "O(N) where N is the number of replicas")
        .doc("Lists the replicas of a node; an older form of CLUSTER REPLICAS.", "node-id")
        .deprecated("5.0.0", "`CLUSTER REPLICAS`")
        .tips(VARIES),
    node_command("cluster|slot-stats", -4, LOOKS, slot_stats::answer)
        .since("8.0.0", "O(N) where N is the number of slots, O(N*log(N)) in order")
        .doc(
            "Returns usage statistics of slots.",
            "<filter: SLOTSRANGE <slotsrange: start-slot:integer end-slot:integer> \
             | ORDERBY <orderby: metric [LIMIT limit:integer] [order: ASC | DESC]>>",
        )
        .tips(&["nondeterministic_output", "request_policy:all_shards"]),
    node_command("cluster|slots", 2, LOOKS, topology::slots)
        .since("3.0.0", "O(N) where N is the number of nodes")
        .doc("Returns the mapping of slots to nodes.", "")
        .history(&[
            ("4.0.0", "Names each node."),
            ("7.0.0", "Reports additional addresses."),
            ("9.1.0", "Reports the availability zone."),
        ])
        .tips(VARIES),
    node_command("cluster|syncslots", -3, CHANGES | MAY_REPLICATE, migration::sync_slots)
        .control(Control::SlotMigration)
        .internal()
        .since("9.0.0", "Depends on subcommand.")
        .doc("Internal protocol between nodes during slot migration.", ""),
];

/// What this node knows of its cluster.
fn view(server: &Server) -> Result<&Cluster, ClientError> {
    server.cluster.as_deref().map(|node| &node.view).ok_or(DISABLED)
}

/// The node of a cluster that this server is.
fn node<'a>(ctx: &'a mut Context<'_>) -> Result<&'a mut ClusterNode, ClientError> {
    ctx.server.cluster.as_deref_mut().ok_or(DISABLED)
}

/// Replies as [`answer`] to a command that changes the cluster: once the change is on disk, so that no client
/// repeats to other nodes what a crash of this one could undo.
fn answer_saved(ctx: &mut Context<'_>, result: Result<(), Refusal>) -> Outcome {
    result.map_err(refused)?;
    reply_saved(ctx, SavedReply::Ok);
    Ok(())
}

/// Replies once what the command has changed is on disk; at once in transactions and scripts, which do not wait, and if
/// nothing has changed.
fn reply_saved(ctx: &mut Context<'_>, reply: SavedReply) {
    let awaited = ctx.server.cluster.as_ref().and_then(|node| node.view.awaited_save());
    // The primary's stream and files do not wait for a reply.
    let number = awaited.filter(|_| !ctx.is_repeated());
    let waits =
        number.is_some_and(|number| ctx.block(BlockRequest::until(BlockedOn::Save { number, reply })));
    if !waits {
        reply.write(ctx.reply);
    }
}

/// Replies OK, or with the cluster's refusal.
fn answer(ctx: &mut Context<'_>, result: Result<(), Refusal>) -> Outcome {
    result.map_err(refused)?;
    ctx.reply.ok();
    Ok(())
}

fn refused(refusal: Refusal) -> ClientError {
    ClientError::formatted(format!("ERR {refusal}"))
}

const DISABLED: ClientError = ClientError::text("ERR This instance has cluster support disabled");

/// The error for an unknown subcommand or a wrong number of arguments, as the reference formats it.
fn syntax_error(args: Args<'_>) -> ClientError {
    ClientError::SubcommandSyntax { command: "CLUSTER", subcommand: quoted(args.at(1)) }
}

/// Parses a slot.
fn slot_at(args: Args<'_>, at: usize) -> Result<u16, ClientError> {
    const ERROR: ClientError = ClientError::text("ERR Invalid or out of range slot");
    let slot = args.integer(at).ok().and_then(|slot| u16::try_from(slot).ok());
    slot.filter(|slot| usize::from(*slot) < SLOTS).ok_or(ERROR)
}

/// Two, since the end of each command takes one: ASKING's own, and that of the next command, for which it holds.
fn asking(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    if !ctx.origin.in_script {
        ctx.server.clients[ctx.client].routing.asking = 2;
    }
    ctx.reply.ok();
    Ok(())
}

fn key_slot(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.integer(structures::key_slot::key_slot(args.at(2)).into());
    Ok(())
}
