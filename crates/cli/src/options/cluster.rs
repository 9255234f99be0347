//! Options of `--cluster`.

use clap::{ArgAction, Args};

/// Arguments of `--cluster`.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Clusters")]
pub struct ClusterOptions {
    /// Command for a cluster and its arguments; `--cluster help` lists them
    #[arg(long = "cluster", value_name = "COMMAND", num_args = 1..)]
    pub cluster_command: Option<Vec<String>>,
    /// Only primaries
    #[arg(long, alias = "cluster-only-masters")]
    pub cluster_only_primaries: bool,
    /// Only replicas
    #[arg(long)]
    pub cluster_only_replicas: bool,
    /// create: number of replicas of each primary
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub cluster_replicas: usize,
    /// Do not ask before changes, except for those of fix
    #[arg(long)]
    pub cluster_yes: bool,
    /// check, fix: search for slots that several nodes claim
    #[arg(long)]
    pub cluster_search_multiple_owners: bool,
    /// fix: take slots of primaries that are not reached for uncovered
    #[arg(long, alias = "cluster-fix-with-unreachable-masters")]
    pub cluster_fix_with_unreachable_primaries: bool,
    /// reshard: ids of the nodes that give slots, with commas between them, or all; import: host:port of the source
    #[arg(long, value_name = "NODES")]
    pub cluster_from: Option<String>,
    /// reshard: id of the node that gets slots
    #[arg(long, value_name = "ID")]
    pub cluster_to: Option<String>,
    /// reshard: number of slots to move
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    pub cluster_slots: usize,
    /// Timeout of each transfer of keys in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub cluster_timeout: u64,
    /// Number of keys that are sent together
    #[arg(long, value_name = "KEYS", default_value = "10", value_parser = keys)]
    pub cluster_pipeline: usize,
    /// Replace keys that the target has too
    #[arg(long)]
    pub cluster_replace: bool,
    /// reshard, rebalance: let the nodes move all slots of a source at once (Valkey 9)
    #[arg(long)]
    pub cluster_use_atomic_slot_migration: bool,
    /// rebalance: weights of nodes other than 1, as id=weight; ids may be shortened
    #[arg(long, value_name = "ID=WEIGHT", num_args = 1.., action = ArgAction::Append)]
    pub cluster_weight: Vec<String>,
    /// rebalance: give slots to primaries that have none too
    #[arg(long, alias = "cluster-use-empty-masters")]
    pub cluster_use_empty_primaries: bool,
    /// rebalance: deviation in per cent up to which nothing moves
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub cluster_threshold: f32,
    /// rebalance: show what would move
    #[arg(long)]
    pub cluster_simulate: bool,
    /// add-node: as replica of --cluster-primaries-id, or of the primary with the fewest replicas
    #[arg(long, alias = "cluster-slave")]
    pub cluster_replica: bool,
    /// add-node: id of the new node's primary
    #[arg(
        long = "cluster-primaries-id",
        value_name = "ID",
        aliases = ["cluster-primary-id", "cluster-master-id", "cluster-masters-id"]
    )]
    pub cluster_primary_id: Option<String>,
    /// import: user name for the source
    #[arg(long, value_name = "USER")]
    pub cluster_from_user: Option<String>,
    /// import: password for the source
    #[arg(long, value_name = "PASSWORD")]
    pub cluster_from_pass: Option<String>,
    /// import: prompt for the password for the source
    #[arg(long)]
    pub cluster_from_askpass: bool,
    /// import: keep the keys at the source
    #[arg(long)]
    pub cluster_copy: bool,
}

fn keys(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text} is no number of keys.")),
        Ok(count) => Ok(count),
    }
}
