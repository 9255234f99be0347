//! Which nodes serve which slots: SLOTS and SHARDS.

use super::view;
use crate::command::{Args, Context, Outcome};
use crate::server::cluster_node::Endpoint;
use cluster::{Cluster, Node};
use std::collections::BTreeMap;
use structures::key_slot::SLOTS_END;
use wire::cluster_bus::NodeId;
use wire::reply::ReplyBuffer;

/// Runs of neighbouring slots of the same node.
fn runs(view: &Cluster) -> Vec<(u16, u16, &Node)> {
    let mut runs: Vec<(u16, u16, &Node)> = Vec::new();
    for slot in 0..SLOTS_END {
        let Some(owner) = view.owner(slot) else { continue };
        match runs.last_mut() {
            Some((_, last, node)) if std::ptr::eq(*node, owner) && *last + 1 == slot => *last = slot,
            _ => runs.push((slot, slot, owner)),
        }
    }
    runs
}

/// Returns whether clients can read from the replica.
fn is_available(node: &Node) -> bool {
    !node.is_failed() && node.replication_offset() != 0
}

pub(super) fn slots(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let (view, kind) = (view(ctx.server)?, ctx.server.config.cluster_preferred_endpoint_type);
    let (protocol, seen_by) = (ctx.reply.protocol, &ctx.server.clients[ctx.client].connection);
    let runs = runs(view);
    // Slots may alternate between nodes: each node is described once.
    let mut described: BTreeMap<NodeId, (usize, ReplyBuffer)> = BTreeMap::new();
    ctx.reply.array(runs.len());
    for (first, last, owner) in runs {
        let (nodes, text) = described.entry(owner.id()).or_insert_with(|| {
            let replicas = owner.replicas().iter().filter_map(|id| view.node(*id));
            let nodes = std::iter::once(owner).chain(replicas.filter(|replica| is_available(replica)));
            let mut text = ReplyBuffer::new(protocol);
            let count = nodes.map(|node| place(node, &Endpoint::of(node, kind, seen_by), &mut text)).count();
            (count, text)
        });
        ctx.reply.array(2 + *nodes);
        ctx.reply.integer(first.into());
        ctx.reply.integer(last.into());
        ctx.reply.raw(text.read_back());
    }
    Ok(())
}

/// Writes where a node of a run is.
fn place(node: &Node, endpoint: &Endpoint, reply: &mut ReplyBuffer) {
    reply.array(4);
    match &endpoint.host {
        Some(host) => reply.bulk(host.as_bytes()),
        None => reply.null(),
    }
    reply.integer(endpoint.port.into());
    reply.bulk(node.id().as_bytes());
    more(endpoint, node, reply);
}

/// Writes what is known beside the preferred endpoint.
fn more(endpoint: &Endpoint, node: &Node, reply: &mut ReplyBuffer) {
    let (hostname, zone) = (&node.endpoints().hostname, &node.endpoints().availability_zone);
    let host = endpoint.host.as_deref();
    let mut pairs: Vec<(&str, String)> = Vec::new();
    if !endpoint.is_address {
        pairs.push(("ip", endpoint.address.clone()));
    }
    if !hostname.is_empty() && host != Some(&hostname.to_string()) {
        pairs.push(("hostname", hostname.to_string()));
    }
    if !zone.is_empty() {
        pairs.push(("availability-zone", zone.to_string()));
    }
    reply.map(pairs.len());
    for (name, value) in pairs {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

pub(super) fn shards(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let (view, kind) = (view(ctx.server)?, ctx.server.config.cluster_preferred_endpoint_type);
    let seen_by = &ctx.server.clients[ctx.client].connection;
    let mut shards: BTreeMap<NodeId, Vec<&Node>> = BTreeMap::new();
    for node in view.nodes().filter(|node| !node.is_in_handshake()) {
        shards.entry(node.shard_id()).or_default().push(node);
    }
    let reply = &mut *ctx.reply;
    reply.array(shards.len());
    for (id, nodes) in shards {
        reply.map(3);
        reply.bulk(b"slots");
        let owner = nodes.iter().find(|node| node.slot_count() > 0);
        let ranges: Vec<(u16, u16)> = owner.map(|node| node.slots().ranges().collect()).unwrap_or_default();
        reply.array(2 * ranges.len());
        for (first, last) in ranges {
            reply.integer(first.into());
            reply.integer(last.into());
        }
        reply.bulk(b"nodes");
        reply.array(nodes.len());
        nodes.iter().for_each(|node| describe(node, &Endpoint::of(node, kind, seen_by), reply));
        reply.bulk(b"id");
        reply.bulk(id.as_bytes());
    }
    Ok(())
}

fn describe(node: &Node, endpoint: &Endpoint, reply: &mut ReplyBuffer) {
    let endpoints = node.endpoints();
    let health = match () {
        () if node.is_failed() => "fail",
        () if node.is_replica() && node.replication_offset() == 0 => "loading",
        () => "online",
    };
    let role = if node.is_replica() { "replica" } else { "master" };
    let mut texts = vec![("ip", endpoint.address.clone())];
    // Without an endpoint the client uses the one that it has.
    texts.push(("endpoint", endpoint.host.clone().unwrap_or_default()));
    if !endpoints.hostname.is_empty() {
        texts.push(("hostname", endpoints.hostname.to_string()));
    }
    texts.push(("role", role.to_owned()));
    let is_zone_known = !endpoints.availability_zone.is_empty();
    let ports = [
        ("port", endpoints.tcp_port, Endpoint::port_of(node, false)),
        ("tls-port", endpoints.tls_port, Endpoint::port_of(node, true)),
    ];
    let ports: Vec<_> = ports.into_iter().filter(|(_, own, _)| *own != 0).collect();
    reply.map(1 + ports.len() + texts.len() + 2 + usize::from(is_zone_known));
    reply.bulk(b"id");
    reply.bulk(node.id().as_bytes());
    for (name, _, port) in ports {
        reply.bulk(name.as_bytes());
        reply.integer(port.into());
    }
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.count(node.replication_offset());
    reply.bulk(b"health");
    reply.bulk(health.as_bytes());
    if is_zone_known {
        reply.bulk(b"availability-zone");
        reply.bulk(endpoints.availability_zone.to_string().as_bytes());
    }
}
