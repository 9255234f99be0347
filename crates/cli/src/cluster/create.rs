//! `--cluster create`: makes a cluster of empty nodes.

use super::check::Check;
use super::join::{meet, replicate, wait_for_agreement};
use super::line::host_and_port;
use super::nodes::{Cluster, Node, Unreachable, print_rejection, ranges_text};
use super::plan::{Affinity, Placement, place, shares};
use super::questions::confirms;
use super::{Access, Level, SLOTS, print};
use crate::Failure;
use crate::options::ClusterOptions;
use crate::program::Program;

/// With fewer primaries no majority is left when one fails.
const PRIMARIES_MIN: usize = 3;

pub fn run(access: &Access, options: &ClusterOptions, addresses: &[String]) -> Result<(), Failure> {
    let mut cluster = Cluster { nodes: Vec::new(), unreachable_primaries: 0 };
    for address in addresses {
        let node = empty_node(access, address)?;
        if cluster.find(&node.id).is_some() {
            return Err(print_rejection(&node.host, node.port, "is given twice."));
        }
        cluster.nodes.push(node);
    }
    let (count, replicas) = (cluster.nodes.len(), options.cluster_replicas);
    let primaries = count / replicas.saturating_add(1);
    if primaries == 0 || primaries > SLOTS {
        let text = format!("[ERR] {count} node(s) cannot be primaries with {replicas} replicas each.");
        print(Level::Error, text);
        return Err(Failure::Reported);
    }
    if primaries < PRIMARIES_MIN {
        let text = format!(
            "Requested to create a cluster with {primaries} primaries and {replicas} replicas per primary."
        );
        print(Level::Information, text);
        let question = format!(
            "{} cluster requires at least 3 primary nodes for automatic failover. Are you sure?",
            Program::current().server
        );
        if !options.cluster_yes && !confirms(&question) {
            return Err(Failure::Reported);
        }
    }
    print(Level::Information, format!(">>> Performing hash slots allocation on {count} node(s)..."));
    let placement = plan(&mut cluster, primaries, replicas);
    if !options.cluster_yes && !confirms("Can I set the above configuration?") {
        return Ok(());
    }
    apply(access, &mut cluster, &placement).inspect_err(|_| {
        let text =
            "*** The cluster is not complete. Before another attempt, CLUSTER RESET each of its nodes.";
        print(Level::Warning, text);
    })?;
    let first = &cluster.nodes[0];
    let mut cluster = Cluster::load(access, &first.host.clone(), first.port, Unreachable::Skipped)?;
    Check::default().run(&mut cluster)?;
    Ok(())
}

fn empty_node(access: &Access, address: &str) -> Result<Node, Failure> {
    let Some((host, Some(port))) = host_and_port(address) else {
        return Err(Failure::Usage(format!("Invalid address format: {address}")));
    };
    let (mut node, _) = Node::join(access, &host, port)?;
    node.require_empty()?;
    Ok(node)
}

impl Node {
    /// Refuses a node that is part of a cluster or has keys.
    pub fn require_empty(&mut self) -> Result<(), Failure> {
        let reason = "is not empty. Either the node already knows other nodes (check with CLUSTER NODES) or contains some key \
                      in database 0.";
        match self.is_empty() {
            Ok(true) => Ok(()),
            Ok(false) => Err(print_rejection(&self.host, self.port, reason)),
            Err(error) => Err(self.report(&error)),
        }
    }
}

/// Plans roles and slots, notes them at the nodes, and shows them.
fn plan(cluster: &mut Cluster, primaries: usize, replicas: usize) -> Placement {
    let hosts: Vec<String> = cluster.nodes.iter().map(|node| node.host.clone()).collect();
    let mut placement = place(&hosts, primaries, replicas);
    for (index, (&node, share)) in placement.primaries.iter().zip(shares(primaries)).enumerate() {
        print_line!("Primary[{index}] -> Slots {} - {}", share.start(), share.end());
        cluster.nodes[node].slots = share.collect();
    }
    for (index, (replica, primary)) in placement.replicas.iter().enumerate() {
        if index == placement.planned {
            print_line!("Adding extra replicas...");
        }
        print_line!("Adding replica {} to {}", cluster.nodes[*replica], cluster.nodes[*primary]);
    }
    if placement.affinity(&hosts) != Affinity::Perfect {
        print(Level::Information, ">>> Trying to optimize replicas allocation for anti-affinity");
        placement.improve(&hosts);
        match placement.affinity(&hosts) {
            Affinity::Perfect => print(Level::Success, "[OK] Perfect anti-affinity obtained!"),
            Affinity::SharedWithPrimary => {
                print(Level::Warning, "[WARNING] Some replicas are in the same host as their primary");
            }
            Affinity::SharedByReplicas => {
                print(Level::Warning, "[WARNING] Some replicas of the same primary are in the same host");
            }
        }
    }
    show(cluster, &placement);
    placement
}

fn show(cluster: &Cluster, placement: &Placement) {
    for (index, node) in cluster.nodes.iter().enumerate() {
        match placement.replicas.iter().find(|(replica, _)| *replica == index) {
            Some((_, primary)) => {
                print_line!("S: {} {node}\n   replicates {}", node.id, cluster.nodes[*primary].id);
            }
            None => {
                let (slots, count) = (ranges_text(&node.slots), node.slots.len());
                print_line!("M: {} {node}\n   slots:{slots} ({count} slots) master", node.id);
            }
        }
    }
}

fn apply(access: &Access, cluster: &mut Cluster, placement: &Placement) -> Result<(), Failure> {
    for &primary in &placement.primaries {
        let node = &mut cluster.nodes[primary];
        let slots = node.slots.iter().map(usize::to_string);
        let request: Vec<String> =
            ["CLUSTER".to_owned(), "ADDSLOTS".to_owned()].into_iter().chain(slots).collect();
        node.must(&request)?;
    }
    print(Level::Information, ">>> Nodes configuration updated");
    print(Level::Information, ">>> Assign a different config epoch to each node");
    for (index, node) in cluster.nodes.iter_mut().enumerate() {
        // A node that was reset without HARD keeps its epoch, and epochs that coincide are resolved by the nodes.
        let _has_one = node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
    }
    print(Level::Information, ">>> Sending CLUSTER MEET messages to join the cluster");
    let (first, others) = cluster.nodes.split_at_mut(1);
    for node in others {
        meet(access, node, &first[0])?;
    }
    wait_for_agreement(cluster);
    for (replica, primary) in &placement.replicas {
        let primary = cluster.nodes[*primary].id.clone();
        replicate(&mut cluster.nodes[*replica], &primary)?;
    }
    Ok(())
}
