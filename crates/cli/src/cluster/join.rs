//! How nodes come to know each other.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use client::Family;

use super::nodes::{Cluster, Node, NodeError};
use super::{Access, Level, print};
use crate::Failure;

/// The interval of questions whether the nodes agree.
const AGREEMENT_POLL: Duration = Duration::from_secs(1);
/// The number of questions after which missing links are shown, and what each node adds to it.
const POLLS_BEFORE_WARNING: usize = 20;
const NODES_PER_POLL: usize = 7;
const SETTLE_TIME_MAX: Duration = Duration::from_secs(10);
const SETTLE_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The number of attempts to make a replica of a primary that it may not know yet.
const REPLICATE_TRIES: usize = 20;

/// Tells a node to meet another one, by its address: the command takes no names.
pub fn meet(access: &Access, node: &mut Node, other: &Node) -> Result<(), Failure> {
    let (host, port) = other.address();
    let Some(address) = resolve(access, host, port) else {
        eprint_line!("Invalid IP address or hostname specified: {host}");
        return Err(Failure::Reported);
    };
    let mut request = vec!["CLUSTER".to_owned(), "MEET".to_owned(), address, port.to_string()];
    request.extend(other.bus_port.map(|port| port.to_string()));
    node.must(&request).map(|_| ())
}

fn resolve(access: &Access, host: &str, port: u16) -> Option<String> {
    let addresses: Vec<_> = (host, port).to_socket_addrs().ok()?.collect();
    let is_preferred = |address: &&std::net::SocketAddr| match access.connect.preferred_family {
        Some(Family::V4) => address.is_ipv4(),
        Some(Family::V6) => address.is_ipv6(),
        None => true,
    };
    let preferred = addresses.iter().find(is_preferred).or(addresses.first())?;
    Some(preferred.ip().to_string())
}

/// Waits until all nodes have the same owners of slots.
pub fn wait_for_agreement(cluster: &mut Cluster) {
    // Before the first messages have arrived all nodes may be without owners of slots.
    std::thread::sleep(AGREEMENT_POLL);
    print_line!("Waiting for the cluster to join");
    let mut polls = 0;
    while !cluster.agrees() {
        print_text!(".");
        std::thread::sleep(AGREEMENT_POLL);
        polls += 1;
        if polls > POLLS_BEFORE_WARNING + cluster.nodes.len() / NODES_PER_POLL {
            print_missing_links(cluster);
            polls = 0;
        }
    }
    print_line!("");
}

/// Waits a little until all nodes know each other and have the same owners of slots, so that the next command finds nothing to
/// complain of.
pub fn settle(cluster: &mut Cluster) {
    let count = cluster.nodes.len();
    let began = Instant::now();
    while began.elapsed() < SETTLE_TIME_MAX {
        if cluster.nodes.iter_mut().all(|node| node.known_nodes().is_ok_and(|known| known >= count))
            && cluster.agrees()
        {
            return;
        }
        std::thread::sleep(SETTLE_POLL_INTERVAL);
    }
}

fn print_missing_links(cluster: &mut Cluster) {
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in &mut cluster.nodes {
        for address in node.missing_links().unwrap_or_default() {
            missing.entry(address).or_default().push(node.to_string());
        }
    }
    if missing.is_empty() {
        return;
    }
    print_line!("");
    print(Level::Error, format!("Warning: {} node(s) may be unreachable", missing.len()));
    for (address, from) in missing {
        let text = match address.split_once('@') {
            Some((address, bus_port)) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                format!(" - The port {bus_port} of node {host} may be unreachable from:")
            }
            None => format!(" - Node {address} may be unreachable from:"),
        };
        print(Level::Error, text);
        from.iter().for_each(|node| print(Level::Error, format!("   {node}")));
        let text = "Cluster bus ports must be reachable by every node.\nRemember that cluster bus ports are different from \
                    standard instance ports.";
        print(Level::Error, text);
    }
}

/// Makes a node the replica of another one, as soon as it knows that one.
pub fn replicate(node: &mut Node, primary: &str) -> Result<(), Failure> {
    let request = ["CLUSTER", "REPLICATE", primary];
    for _ in 1..REPLICATE_TRIES {
        match node.command(&request) {
            Err(NodeError::Refused(text)) if text.contains("Unknown node") => {
                std::thread::sleep(AGREEMENT_POLL / 4);
            }
            Err(error) => return Err(node.report(&error)),
            Ok(_) => return Ok(()),
        }
    }
    node.must(&request).map(|_| ())
}
