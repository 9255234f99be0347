//! `--cluster backup`: a snapshot of each primary, and a file with the nodes and slots of the cluster.

use std::path::Path;

use serde_json::json;

use super::check::Check;
use super::nodes::{Cluster, Node, ranges};
use super::{Level, print};
use crate::Failure;
use crate::rdb;

pub fn run(cluster: &mut Cluster, directory: &Path) -> Result<(), Failure> {
    let is_sound = Check::default().run(cluster)?.is_sound;
    if !directory.is_dir() {
        print(Level::Error, format!("[ERR] {} is not a valid directory", directory.display()));
        return Err(Failure::Reported);
    }
    let description: Vec<_> = cluster.nodes.iter().map(describe).collect();
    for node in cluster.nodes.iter_mut().filter(|node| node.replicates.is_none()) {
        print(Level::Information, format!(">>> Node {node} -> Saving RDB..."));
        let name = format!("valkey-node-{}-{}-{}.rdb", node.host, node.port, node.id);
        rdb::transfer(&mut node.session, &directory.join(name))?;
    }
    let path = directory.join("nodes.json");
    print(Level::Information, format!("Saving cluster configuration to: {}", path.display()));
    let text = format!("{:#}\n", serde_json::Value::Array(description));
    if let Err(error) = std::fs::write(&path, text) {
        print(Level::Error, format!("Could not save nodes to: {}: {error}", path.display()));
        print(Level::Error, "[ERR] Failed to back cluster!");
        return Err(Failure::Reported);
    }
    if !is_sound {
        print(
            Level::Warning,
            "*** Cluster seems to have some problems, please be aware of it if you're going to restore this backup.",
        );
    }
    print(Level::Success, format!("[OK] Backup created into: {}", directory.display()));
    Ok(())
}

fn describe(node: &Node) -> serde_json::Value {
    let slots: Vec<Vec<usize>> = ranges(&node.slots)
        .into_iter()
        .map(|(first, last)| if first == last { vec![first] } else { vec![first, last] })
        .collect();
    let flags: Vec<&str> = node.flags.iter().map(String::as_str).filter(|flag| *flag != "myself").collect();
    json!({
        "name": node.id,
        "host": node.host,
        "port": node.port,
        "replicate": node.replicates,
        "slots": slots,
        "slots_count": node.slots.len(),
        "flags": flags.join(","),
        "current_epoch": node.epoch,
        "migrating": node.migrating,
        "importing": node.importing,
    })
}
