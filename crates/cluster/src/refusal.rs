//! Why a command on the cluster is refused, in the words that clients know.

use std::fmt;

use wire::cluster_bus::NodeId;

/// Why a command on the cluster is refused. Its text is what follows `ERR ` in the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A slot that is to be added has an owner.
    SlotBusy(u16),
    /// A slot that is to be deleted has no owner.
    SlotUnassigned(u16),
    /// A slot occurs twice in one command.
    SlotRepeated(u16),
    /// The first slot of a range is behind its last.
    RangeReversed(u16, u16),
    /// `FLUSHSLOTS` while there are keys.
    KeysBeforeFlush,
    /// `SETSLOT` from a client to a replica.
    SetSlotOnReplica,
    /// `SETSLOT ... MIGRATING` of a slot that another node owns.
    NotOwner(u16),
    /// `SETSLOT ... IMPORTING` of a slot that this node owns.
    AlreadyOwner(u16),
    /// `SETSLOT ... MIGRATING` or `IMPORTING` with a node that is not known; the text as the client wrote it.
    UnknownPeer(String),
    /// A node that is not known; the text as the client wrote it.
    UnknownNode(String),
    /// The node that slots are to go to or come from is this one.
    TargetIsMyself,
    /// The node that slots are to go to or come from is a replica.
    TargetIsReplica,
    /// `SETSLOT ... NODE` of an own slot that has keys.
    SlotHasKeys(u16),
    /// `MEET` with what is no address.
    BadAddress(String, u16),
    /// `MEET`, and the table of nodes is full.
    TooManyNodes,
    /// `FORGET` of this node.
    ForgetMyself,
    /// `FORGET` of this node's primary.
    ForgetPrimary,
    /// `REPLICATE` of this node.
    ReplicateMyself,
    /// `REPLICATE` of a replica.
    ReplicateReplica,
    /// `REPLICATE` on a primary that has slots or keys.
    NotEmpty,
    /// `FAILOVER` on a primary.
    FailoverOnPrimary,
    /// `FAILOVER` on a replica that does not know its primary.
    PrimaryUnknown,
    /// `FAILOVER` without `FORCE` while the primary cannot be reached.
    PrimaryDown,
    /// `RESET` of a primary that has keys.
    KeysBeforeReset,
    /// `SET-CONFIG-EPOCH` with a number that is no epoch.
    BadEpoch(i64),
    /// `SET-CONFIG-EPOCH` after other nodes became known.
    EpochWithNodes,
    /// `SET-CONFIG-EPOCH` on a node that has an epoch.
    EpochTaken,
    /// `SETSLOT` while slots are imported.
    ImportInProgress,
    /// `SETSLOT` while slots are exported.
    ExportInProgress,
    /// A slot migration on a replica.
    MigrationOnReplica,
    /// A slot migration while `SETSLOT` has slots in importing state.
    ManualImport,
    /// A slot migration while `SETSLOT` has slots in migrating state.
    ManualMigration,
    /// The first slot of a range that is to be migrated is behind its last.
    MigrationReversed(u16, u16),
    /// A slot that is to be migrated has no owner.
    SlotNotServed(u16),
    /// Slots of one migration have several owners.
    SeveralShards,
    /// Ranges of one migration overlap: the later, and the earlier.
    RangesOverlap((u16, u16), (u16, u16)),
    /// A migration of no slots.
    NoRanges,
    /// A range of one slot number.
    NoLastSlot,
    /// `MIGRATESLOTS` of slots of another node.
    SlotsNotServedHere,
    /// `MIGRATESLOTS` of a slot that is being exported.
    AlreadyMigrating(u16),
    /// Two migrations of one `MIGRATESLOTS` overlap.
    MigrationsOverlap,
    /// `MIGRATESLOTS` to what is no id; the text as the client wrote it.
    BadNodeName(String),
    /// `MIGRATESLOTS` to a node that is not known; the text as the client wrote it.
    UnknownNodeName(String),
    /// `MIGRATESLOTS` to this node.
    MigrationToMyself,
    /// `CANCELSLOTMIGRATIONS` without exports.
    NoMigrations,
    /// `ESTABLISH` from a node that is not known.
    SourceUnknown,
    /// `ESTABLISH` from this node.
    SourceIsMyself,
    /// `ESTABLISH` for slots of an import.
    AlreadyImporting,
    /// `ESTABLISH` for slots that the source does not own.
    OtherOwner,
    /// A list of replicas is asked of a node that is none's primary.
    NotPrimary(NodeId),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::SlotBusy(slot) => write!(f, "Slot {slot} is already busy"),
            Refusal::SlotUnassigned(slot) => write!(f, "Slot {slot} is already unassigned"),
            Refusal::SlotRepeated(slot) => write!(f, "Slot {slot} specified multiple times"),
            Refusal::RangeReversed(first, last) => {
                write!(f, "start slot number {first} is greater than end slot number {last}")
            }
            Refusal::NotOwner(slot) => write!(f, "I'm not the owner of hash slot {slot}"),
            Refusal::AlreadyOwner(slot) => write!(f, "I'm already the owner of hash slot {slot}"),
            Refusal::UnknownPeer(node) => write!(f, "I don't know about node {node}"),
            Refusal::UnknownNode(node) => write!(f, "Unknown node {node}"),
            Refusal::SlotHasKeys(slot) => write!(
                f,
                "Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
            ),
            Refusal::BadAddress(ip, port) => write!(f, "Invalid node address specified: {ip}:{port}"),
            Refusal::MigrationReversed(first, last) => {
                write!(f, "Start slot number {first} is greater than end slot number {last}.")
            }
            Refusal::SlotNotServed(slot) => write!(f, "Slot {slot} has no node served."),
            Refusal::RangesOverlap((first, last), (earlier_first, earlier_last)) => write!(
                f,
                "Slot range {first}-{last} overlaps with previous range {earlier_first}-{earlier_last}."
            ),
            Refusal::AlreadyMigrating(slot) => write!(f, "I am already migrating slot {slot}."),
            Refusal::BadNodeName(node) => write!(f, "Invalid node name: {node}"),
            Refusal::UnknownNodeName(node) => write!(f, "Unknown node name: {node}"),
            Refusal::BadEpoch(epoch) => write!(f, "Invalid config epoch specified: {epoch}"),
            _ => f.write_str(self.fixed_text()),
        }
    }
}

impl Refusal {
    /// The text of a refusal that names nothing.
    fn fixed_text(&self) -> &'static str {
        match self {
            Refusal::KeysBeforeFlush => "DB must be empty to perform CLUSTER FLUSHSLOTS.",
            Refusal::SetSlotOnReplica => "Please use SETSLOT only with masters.",
            Refusal::TargetIsMyself => "Target node is myself",
            Refusal::TargetIsReplica => "Target node is not a master",
            Refusal::TooManyNodes => "Too many nodes are known",
            Refusal::ForgetMyself => "I tried hard but I can't forget myself...",
            Refusal::ForgetPrimary => "Can't forget my master!",
            Refusal::ReplicateMyself => "Can't replicate myself",
            Refusal::ReplicateReplica => "I can only replicate a master, not a replica.",
            Refusal::NotEmpty => "To set a master the node must be empty and without assigned slots.",
            Refusal::FailoverOnPrimary => "You should send CLUSTER FAILOVER to a replica",
            Refusal::PrimaryUnknown => "I'm a replica but my master is unknown to me",
            Refusal::PrimaryDown => "Master is down or failed, please use CLUSTER FAILOVER FORCE",
            Refusal::KeysBeforeReset => "CLUSTER RESET can't be called with master nodes containing keys",
            Refusal::EpochWithNodes => {
                "The user can assign a config epoch only when the node does not know any other node."
            }
            Refusal::ImportInProgress => "Slot import in progress.",
            Refusal::ExportInProgress => "Slot export in progress.",
            Refusal::MigrationOnReplica => "Slot migration can only be used on primary nodes.",
            Refusal::ManualImport => "Slots are being manually imported",
            Refusal::ManualMigration => "Slots are being manually migrated",
            Refusal::SeveralShards => "Requested slots span multiple shards",
            Refusal::NoRanges => "No slot ranges specified",
            Refusal::NoLastSlot => "No end slot for final slot range",
            Refusal::SlotsNotServedHere => "Slots are not served by this node.",
            Refusal::MigrationsOverlap => "Slot ranges in migrations overlap",
            Refusal::MigrationToMyself => "Target node can not be this node.",
            Refusal::NoMigrations => "No migrations ongoing",
            Refusal::SourceUnknown => "Target node does not know the source node",
            Refusal::SourceIsMyself => "Source node is target node itself",
            Refusal::AlreadyImporting => {
                "Slot is already being imported on the target by a different migration"
            }
            Refusal::OtherOwner => "Target node does not agree about current slot ownership",
            Refusal::EpochTaken => "Node config epoch is already non-zero",
            _ => "The specified node is not a master",
        }
    }
}
