//! `--cluster add-node` and `del-node`: nodes that join a cluster, and nodes that leave it.

use client::printable;
use wire::response::Value;

use super::check::Check;
use super::join::{meet, replicate, settle, wait_for_agreement};
use super::nodes::{Cluster, Node, NodeError, Unreachable};
use super::{Access, Level, print};
use crate::Failure;
use crate::options::ClusterOptions;

/// A node's host and port.
type Place<'a> = (&'a str, u16);

pub fn add(
    access: &Access,
    options: &ClusterOptions,
    (host, port): Place<'_>,
    (known_host, known_port): Place<'_>,
) -> Result<(), Failure> {
    let text = format!(">>> Adding node {host}:{port} to cluster {known_host}:{known_port}");
    print(Level::Information, text);
    let mut cluster = Cluster::load(access, known_host, known_port, Unreachable::Skipped)?;
    Check::default().run(&mut cluster)?.require_sound()?;
    let primary = if options.cluster_replica {
        Some(primary_of(&cluster, options.cluster_primary_id.as_deref())?)
    } else {
        None
    };
    let joined = Node::join(access, host, port);
    let (mut node, _) = joined.inspect_err(|failure| {
        if let Failure::Session(_) = failure {
            print(Level::Error, format!("[ERR] Sorry, can't connect to node {host}:{port}"));
        }
    })?;
    node.require_empty()?;
    // A replica receives functions from its primary.
    if primary.is_none() {
        copy_functions(&mut cluster.nodes[0], &mut node)?;
    }
    let text = format!(">>> Send CLUSTER MEET to node {node} to make it join the cluster.");
    print(Level::Information, text);
    meet(access, &mut node, &cluster.nodes[0])?;
    cluster.nodes.push(node);
    match primary {
        None => settle(&mut cluster),
        Some(primary) => {
            wait_for_agreement(&mut cluster);
            let text = format!(">>> Configure node as replica of {}.", cluster.nodes[primary]);
            print(Level::Information, text);
            let id = cluster.nodes[primary].id.clone();
            if let Some(node) = cluster.nodes.last_mut() {
                replicate(node, &id)?;
            }
        }
    }
    print(Level::Success, "[OK] New node added correctly.");
    Ok(())
}

fn primary_of(cluster: &Cluster, id: Option<&str>) -> Result<usize, Failure> {
    let Some(id) = id else {
        let Some(primary) = cluster.with_fewest_replicas(None) else {
            print(Level::Error, "[ERR] Could not find a reachable primary node.");
            return Err(Failure::Reported);
        };
        print_line!("Automatically selected primary {}", cluster.nodes[primary]);
        return Ok(primary);
    };
    cluster.find(id).ok_or_else(|| {
        print(Level::Error, format!("[ERR] No such primary ID {}", printable(id)));
        Failure::Reported
    })
}

/// Copies the cluster's functions to a node that has none.
fn copy_functions(from: &mut Node, to: &mut Node) -> Result<(), Failure> {
    print(Level::Information, ">>> Getting functions from cluster");
    let functions = match from.command(&["FUNCTION", "DUMP"]) {
        Ok(reply) => reply,
        Err(NodeError::Refused(text)) => {
            let text = format!(
                ">>> Failed retrieving Functions from the cluster, skip this step (error = '{}')",
                printable(&text)
            );
            print(Level::Information, text);
            return Ok(());
        }
        Err(error) => return Err(from.report(&error)),
    };
    let text = format!(">>> Send FUNCTION LIST to {to} to verify there is no functions in it");
    print(Level::Information, text);
    let own = to.must(&["FUNCTION", "LIST"])?;
    if own.as_list().is_some_and(|own| !own.is_empty()) {
        let text = ">>> New node already contains functions and can not be added to the cluster. Use FUNCTION FLUSH and try \
                    again.";
        print(Level::Error, text);
        return Err(Failure::Reported);
    }
    print(Level::Information, format!(">>> Send FUNCTION RESTORE to {to}"));
    let dump = functions.as_bytes().unwrap_or_default();
    to.must(&[b"FUNCTION".as_slice(), b"RESTORE", dump]).map(|_: Value| ())
}

pub fn remove(access: &Access, (host, port): Place<'_>, id: &str) -> Result<(), Failure> {
    let shown = printable(id);
    print(Level::Information, format!(">>> Removing node {shown} from cluster {host}:{port}"));
    let mut cluster = Cluster::load(access, host, port, Unreachable::Kept)?;
    let Some(removed) = cluster.find(id) else {
        print(Level::Error, format!("[ERR] No such node ID {shown}"));
        return Err(Failure::Reported);
    };
    if !cluster.nodes[removed].slots.is_empty() {
        let text =
            format!("[ERR] Node {} is not empty! Reshard data away and try again.", cluster.nodes[removed]);
        print(Level::Error, text);
        return Err(Failure::Reported);
    }
    let id = cluster.nodes[removed].id.clone();
    print(Level::Information, ">>> Sending CLUSTER FORGET messages to the cluster...");
    for node in (0..cluster.nodes.len()).filter(|node| *node != removed) {
        if !cluster.nodes[node].is_reachable {
            let text = format!(
                ">>> Skipping unreachable node {}. It may need manual reconfiguration when it comes back online.",
                cluster.nodes[node]
            );
            print(Level::Warning, text);
            continue;
        }
        if cluster.nodes[node].replicates.as_ref() == Some(&id) {
            reassign(&mut cluster, node, removed)?;
        }
        cluster.nodes[node].must(&["CLUSTER", "FORGET", &id])?;
    }
    if cluster.nodes[removed].is_reachable {
        print(Level::Information, ">>> Sending CLUSTER RESET SOFT to the deleted node.");
        cluster.nodes[removed].must(&["CLUSTER", "RESET", "SOFT"])?;
    } else {
        let node = &cluster.nodes[removed];
        let text = format!(">>> WARNING: Could not connect to node {node}, unable to send CLUSTER RESET.");
        print(Level::Warning, text);
    }
    print(Level::Success, format!("[OK] Node {shown} removed from the cluster."));
    Ok(())
}

/// Gives a replica of the removed node another primary.
fn reassign(cluster: &mut Cluster, replica: usize, removed: usize) -> Result<(), Failure> {
    let Some(primary) = cluster.with_fewest_replicas(Some(removed)) else {
        let text = format!(
            "[ERR] Could not find a reachable primary node to reassign replica {}.",
            cluster.nodes[replica]
        );
        print(Level::Error, text);
        return Err(Failure::Reported);
    };
    let (node, new) = (&cluster.nodes[replica], &cluster.nodes[primary]);
    print(Level::Information, format!(">>> {node} as replica of {new}"));
    let id = new.id.clone();
    cluster.nodes[replica].must(&["CLUSTER", "REPLICATE", &id])?;
    cluster.nodes[replica].replicates = Some(id);
    Ok(())
}
