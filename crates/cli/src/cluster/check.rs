//! `--cluster check`: checks that the nodes agree, that no slots are being migrated, and that each slot has exactly one
//! owner.

use std::collections::BTreeSet;

use wire::response::Value;

use super::nodes::{Cluster, ranges_text};
use super::{Level, SLOTS, print};
use crate::Failure;

pub fn run(cluster: &mut Cluster, search_multiple_owners: bool) -> Result<(), Failure> {
    print(Level::Information, format!(">>> Performing Cluster Check (using node {})", cluster.nodes[0]));
    show_nodes(cluster);
    let mut is_sound = agree(cluster)?;
    is_sound &= no_open_slots(cluster);
    is_sound &= all_covered(cluster);
    if search_multiple_owners {
        is_sound &= single_owners(cluster)?;
    }
    if is_sound { Ok(()) } else { Err(Failure::Reported) }
}

fn show_nodes(cluster: &Cluster) {
    for node in &cluster.nodes {
        let role = if node.replicates.is_none() { 'M' } else { 'S' };
        let flags: Vec<&str> =
            node.flags.iter().map(String::as_str).filter(|flag| *flag != "myself").collect();
        print_line!("{role}: {} {node}", node.id);
        print_line!("   slots:{} ({} slots) {}", ranges_text(&node.slots), node.slots.len(), flags.join(","));
        let replicas =
            cluster.nodes.iter().filter(|other| other.replicates.as_ref() == Some(&node.id)).count();
        match &node.replicates {
            Some(primary) => print_line!("   replicates {primary}"),
            None if replicas > 0 => print_line!("   {replicas} additional replica(s)"),
            None => {}
        }
    }
}

fn agree(cluster: &mut Cluster) -> Result<bool, Failure> {
    let mut beliefs = BTreeSet::new();
    for node in &mut cluster.nodes {
        beliefs.insert(node.configuration()?);
    }
    let do_agree = beliefs.len() == 1;
    match do_agree {
        true => print(Level::Success, "[OK] All nodes agree about slots configuration."),
        false => print(Level::Error, "[ERR] Nodes don't agree about configuration!"),
    }
    Ok(do_agree)
}

fn no_open_slots(cluster: &Cluster) -> bool {
    print(Level::Information, ">>> Check for open slots...");
    let mut open = BTreeSet::new();
    for node in &cluster.nodes {
        for (slots, state) in [(&node.migrating, "migrating"), (&node.importing, "importing")] {
            if !slots.is_empty() {
                open.extend(slots.iter().cloned());
                let list = slots.join(",");
                print(Level::Error, format!("[WARNING] Node {node} has slots in {state} state {list}."));
            }
        }
    }
    if !open.is_empty() {
        let list = open.iter().cloned().collect::<Vec<_>>().join(",");
        print(Level::Error, format!("[WARNING] The following slots are open: {list}."));
    }
    open.is_empty()
}

fn all_covered(cluster: &Cluster) -> bool {
    print(Level::Information, ">>> Check slots coverage...");
    let covered: BTreeSet<usize> = cluster.nodes.iter().flat_map(|node| node.slots.iter().copied()).collect();
    let are_all = covered.len() == SLOTS;
    match are_all {
        true => print(Level::Success, format!("[OK] All {SLOTS} slots covered.")),
        false => print(Level::Error, format!("[ERR] Not all {SLOTS} slots are covered by nodes.\n")),
    }
    are_all
}

/// Checks that no slot has several owners. Nodes with keys of a slot count as its owners too.
fn single_owners(cluster: &mut Cluster) -> Result<bool, Failure> {
    print(Level::Information, ">>> Check for multiple slot owners...");
    let count_keys: Vec<Vec<Vec<u8>>> = (0..SLOTS)
        .map(|slot| vec![b"CLUSTER".to_vec(), b"COUNTKEYSINSLOT".to_vec(), slot.to_string().into_bytes()])
        .collect();
    let mut owners: Vec<Vec<String>> = vec![Vec::new(); SLOTS];
    for node in cluster.nodes.iter_mut().filter(|node| node.replicates.is_none()) {
        let counts = node.session.pipeline(&count_keys)?;
        for (slot, count) in counts.iter().enumerate() {
            let has_keys = matches!(count, Value::Integer(count) if *count > 0);
            if has_keys || node.slots.contains(&slot) {
                owners[slot].push(node.to_string());
            }
        }
    }
    let mut is_sound = true;
    for (slot, owners) in owners.iter().enumerate().filter(|(_, owners)| owners.len() > 1) {
        is_sound = false;
        print(Level::Error, format!("[WARNING] Slot {slot} has {} owners:", owners.len()));
        owners.iter().for_each(|owner| print(Level::Error, format!("    {owner}")));
    }
    if is_sound {
        print(Level::Success, "[OK] No multiple owners found.");
    }
    Ok(is_sound)
}
