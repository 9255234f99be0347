//! CLUSTER on a server without a cluster: computes the slots of keys, and otherwise reports that the cluster is disabled.

use crate::command::flag::{
    ADMIN, FAST, Flags, LOADING, MAY_REPLICATE, NO_ASYNC_LOADING, NO_SCRIPT, READONLY, STALE,
    TOUCHES_ARBITRARY_KEYS, WRITE,
};
use crate::command::scope::Databases;
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::error::ClientError;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    refused("asking", 1, FAST)
        .categories(&["connection"])
        .since("3.0.0", "O(1)")
        .doc("Accepts redirects of another node.", ""),
    Command::new("cluster", -2, Group::Cluster, super::container)
        .since("3.0.0", "Depends on subcommand.")
        .doc("Shows and controls the cluster; this server is not part of one.", "")
        .subcommands(SUBCOMMANDS),
    refused("clusterscan", -2, READONLY | TOUCHES_ARBITRARY_KEYS)
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

/// A command that only a cluster node supports.
const fn refused(name: &'static str, arity: i32, flags: Flags) -> Command {
    Command::new(name, arity, Group::Cluster, cluster_disabled).flags(flags)
}

const SUBCOMMANDS: &[Command] = &[
    refused("cluster|addslots", -3, CHANGES)
        .since("3.0.0", "O(N) where N is the number of slots")
        .doc("Assigns slots to the node.", "slot:integer ..."),
    refused("cluster|addslotsrange", -4, CHANGES)
        .since("7.0.0", "O(N) where N is the number of slots in the ranges")
        .doc("Assigns ranges of slots to the node.", "<range: start-slot:integer end-slot:integer> ..."),
    refused("cluster|bumpepoch", 2, CHANGES)
        .since("3.0.0", "O(1)")
        .doc("Advances the node's configuration epoch.", "")
        .tips(VARIES),
    refused("cluster|cancelslotmigrations", 2, CHANGES)
        .databases(Databases::All)
        .since("9.0.0", "O(N) where N is the number of migrations")
        .doc("Cancels slot migrations in progress.", ""),
    refused("cluster|count-failure-reports", 3, ADMIN | STALE)
        .since("3.0.0", "O(N) where N is the number of reports")
        .doc("Returns the number of failure reports about a node.", "node-id")
        .history(&[("9.0.0", "Reports beyond those required to mark the node as failed are not counted.")])
        .tips(VARIES),
    refused("cluster|countkeysinslot", 3, STALE)
        .since("3.0.0", "O(1)")
        .doc("Returns the number of keys in a slot.", "slot:integer"),
    refused("cluster|delslots", -3, CHANGES)
        .since("3.0.0", "O(N) where N is the number of slots")
        .doc("Removes slots from the node.", "slot:integer ..."),
    refused("cluster|delslotsrange", -4, CHANGES)
        .since("7.0.0", "O(N) where N is the number of slots in the ranges")
        .doc("Removes ranges of slots from the node.", "<range: start-slot:integer end-slot:integer> ..."),
    refused("cluster|failover", -2, CHANGES)
        .since("3.0.0", "O(1)")
        .doc("Promotes a replica to primary.", "[options: FORCE | TAKEOVER]"),
    refused("cluster|flushslot", -3, WRITE | NO_ASYNC_LOADING | ADMIN)
        .databases(Databases::All)
        .categories(&["keyspace"])
        .since("9.0.0", "O(N) where N is the number of keys in the slot")
        .doc("Deletes all keys of a slot.", "slot:integer [flush-type: ASYNC | SYNC]"),
    refused("cluster|flushslots", 2, CHANGES)
        .since("3.0.0", "O(1)")
        .doc("Removes all slots from the node.", ""),
    refused("cluster|forget", 3, CHANGES)
        .since("3.0.0", "O(1)")
        .doc("Removes a node from the table of known nodes.", "node-id"),
    refused("cluster|getkeysinslot", 4, STALE)
        .since("3.0.0", "O(N) where N is the number of requested keys")
        .doc("Returns keys of a slot.", "slot:integer count")
        .tips(VARIES),
    refused("cluster|getslotmigrations", 2, CHANGES)
        .since("9.0.0", "O(N) where N is the number of migrations")
        .doc("Lists current and recent slot migrations.", ""),
    refused("cluster|help", 2, LOOKS).since("5.0.0", "O(1)").doc("Lists the subcommands.", ""),
    refused("cluster|info", 2, LOOKS)
        .since("3.0.0", "O(1)")
        .doc("Returns the state of the cluster.", "")
        .tips(VARIES),
    Command::new("cluster|keyslot", 3, Group::Cluster, key_slot)
        .flags(STALE)
        .since("3.0.0", "O(N) where N is the number of bytes in the key")
        .doc("Returns the slot of a key.", "key:string"),
    refused("cluster|links", 2, STALE)
        .since("7.0.0", "O(N) where N is the number of nodes")
        .doc("Lists the links to other nodes.", "")
        .tips(VARIES),
    refused("cluster|meet", -4, CHANGES)
        .since("3.0.0", "O(1)")
        .doc("Connects the node to another node.", "ip port:integer [cluster-bus-port:integer@4.0.0]")
        .history(&[("4.0.0", "The port of the cluster bus.")]),
    refused("cluster|migrateslots", -4, CHANGES)
        .databases(Databases::All)
        .since("9.0.0", "O(N) where N is the number of slots in the ranges")
        .doc(
            "Moves slots to other nodes.",
            "<migration-group: <slotsrange-token=SLOTSRANGE> <range: start-slot:integer end-slot:integer> ... \
             <node-token=NODE> node-id> ...",
        ),
    refused("cluster|myid", 2, LOOKS).since("3.0.0", "O(1)").doc("Returns this node's id.", ""),
    refused("cluster|myshardid", 2, LOOKS)
        .since("7.2.0", "O(1)")
        .doc("Returns the id of this node's shard.", "")
        .tips(VARIES),
    refused("cluster|nodes", 2, LOOKS)
        .since("3.0.0", "O(N) where N is the number of nodes")
        .doc("Lists the nodes.", "")
        .tips(VARIES),
    refused("cluster|replicas", 3, ADMIN | STALE)
        .since("5.0.0", "O(N) where N is the number of replicas")
        .doc("Lists the replicas of a node.", "node-id")
        .tips(VARIES),
    refused("cluster|replicate", -3, CHANGES)
        .since("3.0.0", "O(1)")
        .doc("Makes the node a replica of another, or a primary.", "<args: node-id | <no-one@9.0.0: NO ONE>>")
        .history(&[("9.0.0", "`NO ONE`.")]),
    refused("cluster|reset", -2, ADMIN | STALE | NO_SCRIPT)
        .since("3.0.0", "O(N) where N is the number of nodes; may remove all keys")
        .doc("Resets the node's cluster state.", "[reset-type: HARD | SOFT]"),
    refused("cluster|saveconfig", 2, CHANGES)
        .since("3.0.0", "O(1)")
        .doc("Saves the cluster configuration to disk.", ""),
    refused("cluster|set-config-epoch", 3, CHANGES)
        .since("3.0.0", "O(1)")
        .doc("Sets the configuration epoch of a new node.", "config-epoch:integer"),
    refused("cluster|setslot", -4, CHANGES | MAY_REPLICATE)
        .since("3.0.0", "O(1)")
        .doc(
            "Sets the owner or migration state of a slot.",
            "slot:integer <subcommand: IMPORTING importing(node-id) | MIGRATING migrating(node-id) \
             | NODE node(node-id) | STABLE> [TIMEOUT timeout:integer@8.0.0]",
        )
        .history(&[("8.0.0", "`TIMEOUT`.")]),
    refused("cluster|shards", 2, LOOKS)
        .since("7.0.0", "O(N) where N is the number of nodes")
        .doc("Lists the shards with their nodes and slots.", "")
        .history(&[("9.1.0", "Ids of shards, availability zones of nodes.")])
        .tips(VARIES),
    refused("cluster|slaves", 3, ADMIN | STALE)
        .since("3.0.0", "O(N) where N is the number of replicas")
        .doc("Lists the replicas of a node; an older form of CLUSTER REPLICAS.", "node-id")
        .deprecated("5.0.0", "`CLUSTER REPLICAS`")
        .tips(VARIES),
    refused("cluster|slot-stats", -4, LOOKS)
        .since("8.0.0", "O(N) where N is the number of slots, O(N*log(N)) in order")
        .doc(
            "Returns usage statistics of slots.",
            "<filter: SLOTSRANGE <slotsrange: start-slot:integer end-slot:integer> \
             | ORDERBY <orderby: metric [LIMIT limit:integer] [order: ASC | DESC]>>",
        )
        .tips(&["nondeterministic_output", "request_policy:all_shards"]),
    refused("cluster|slots", 2, LOOKS)
        .since("3.0.0", "O(N) where N is the number of nodes")
        .doc("Returns the mapping of slots to nodes.", "")
        .history(&[
            ("4.0.0", "Names each node."),
            ("7.0.0", "Reports additional addresses."),
            ("9.1.0", "Reports the availability zone."),
        ])
        .tips(VARIES),
    refused("cluster|syncslots", -3, CHANGES | MAY_REPLICATE)
        .internal()
        .since("9.0.0", "Depends on subcommand.")
        .doc("Internal protocol between nodes during slot migration.", ""),
];

fn cluster_disabled(_ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    Err(ClientError::text("ERR This instance has cluster support disabled"))
}

fn key_slot(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.integer(slot_of(args.at(2)).into());
    Ok(())
}

/// The number of slots of a cluster.
const SLOTS: u16 = 16384;

/// The slot of a key: only the text between the first opening brace and the next closing one is hashed, unless it is empty,
/// so that clients can place keys in the same slot.
fn slot_of(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).map(|open| &key[open + 1..]);
    let tag = tag.and_then(|rest| memchr::memchr(b'}', rest).map(|close| &rest[..close]));
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value zero, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8)
            .fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::{crc16, slot_of};

    #[test]
    fn checksums_are_those_of_the_published_test() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn tags_bring_keys_together() {
        assert_eq!(slot_of(b"a"), 15495);
        assert_eq!(slot_of(b"x{a}y"), slot_of(b"a"));
        assert_eq!(slot_of(b"x{a}{b}"), slot_of(b"a"));
        assert_ne!(slot_of(b"{}a"), slot_of(b"{}b"));
        assert_eq!(slot_of(b""), 0);
    }
}
