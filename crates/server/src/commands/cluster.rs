//! CLUSTER, of which this server is no part: where keys would be, and that nothing else is known.

use crate::command::flag::{FAST, LOADING, STALE};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::error::ClientError;

pub const COMMANDS: &[Command] = &[
    Command::new("asking", 1, Group::Cluster, cluster_disabled)
        .flags(FAST)
        .categories(&["connection"])
        .since("3.0.0", "O(1)")
        .doc("Says that a client follows another node's advice.", ""),
    Command::new("cluster", -2, Group::Cluster, super::container)
        .since("3.0.0", "Depends on subcommand.")
        .doc("Tells about the cluster, of which this server is no part.", "")
        .subcommands(&[
            Command::new("cluster|help", 2, Group::Cluster, cluster_disabled)
                .flags(LOADING | STALE)
                .since("5.0.0", "O(1)")
                .doc("Lists the subcommands.", ""),
            Command::new("cluster|info", 2, Group::Cluster, cluster_disabled)
                .flags(LOADING | STALE)
                .since("3.0.0", "O(1)")
                .doc("Tells the state of the cluster.", "")
                .tips(&["nondeterministic_output"]),
            Command::new("cluster|keyslot", 3, Group::Cluster, key_slot)
                .flags(STALE)
                .since("3.0.0", "O(N) where N is the number of bytes in the key")
                .doc("Answers which slot of a cluster a key would be in.", "key:string"),
            Command::new("cluster|myid", 2, Group::Cluster, cluster_disabled)
                .flags(LOADING | STALE)
                .since("3.0.0", "O(1)")
                .doc("Answers this node's name.", ""),
            Command::new("cluster|nodes", 2, Group::Cluster, cluster_disabled)
                .flags(LOADING | STALE)
                .since("3.0.0", "O(N) where N is the total number of Cluster nodes")
                .doc("Lists the nodes.", "")
                .tips(&["nondeterministic_output"]),
            Command::new("cluster|shards", 2, Group::Cluster, cluster_disabled)
                .flags(LOADING | STALE)
                .since("7.0.0", "O(N) where N is the total number of cluster nodes")
                .doc("Lists the shards with their nodes and slots.", "")
                .history(&[("9.1.0", "Names each shard, and the availability zone of each node.")])
                .tips(&["nondeterministic_output"]),
            Command::new("cluster|slots", 2, Group::Cluster, cluster_disabled)
                .flags(LOADING | STALE)
                .since("3.0.0", "O(N) where N is the total number of Cluster nodes")
                .doc("Lists which nodes serve which slots.", "")
                .history(&[
                    ("4.0.0", "Names each node."),
                    ("7.0.0", "Tells of further addresses."),
                    ("9.1.0", "Tells the availability zone."),
                ])
                .tips(&["nondeterministic_output"]),
        ]),
];

fn cluster_disabled(_ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    Err(ClientError::text("ERR This instance has cluster support disabled"))
}

fn key_slot(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.integer(slot_of(args.at(2)).into());
    Ok(())
}

/// A cluster's number of slots.
const SLOTS: u16 = 16384;

/// The slot of a key: only what stands between the first brace and the next counts, unless nothing does, so that
/// keys can be made to lie together.
fn slot_of(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).map(|open| &key[open + 1..]);
    let tag = tag.and_then(|rest| memchr::memchr(b'}', rest).map(|close| &rest[..close]));
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, from zero, not reflected.
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
