//! Links: each node opens one to each other node, and is connected to by it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::cluster_bus::{Kind, NodeFlags, NodeId};

use crate::action::{BusAction, Level, LinkId};
use crate::cluster::Cluster;

/// Links that are open or being opened. A link is bound to a node as soon as that is known: from the start if this
/// node opened it, otherwise by the first frame of a known sender.
#[derive(Default)]
pub(crate) struct Links {
    table: BTreeMap<LinkId, Link>,
    opened: u64,
}

pub(crate) struct Link {
    pub(crate) node: Option<NodeId>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) local: Option<IpAddr>,
    pub(crate) created: u64,
    pub(crate) reads_extensions: bool,
    is_open: bool,
    backlog_bytes: u64,
}

/// A link of CLUSTER LINKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The link.
    pub link: LinkId,
    /// The node at its other end.
    pub node: NodeId,
    /// When it was opened, in milliseconds since 1970.
    pub created_unix_ms: u64,
    /// What waits to be sent.
    pub backlog_bytes: u64,
}

impl Links {
    pub(crate) fn get(&self, link: LinkId) -> Option<&Link> {
        self.table.get(&link)
    }

    pub(crate) fn get_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        self.table.get_mut(&link)
    }

    pub(crate) fn node(&self, link: LinkId) -> Option<NodeId> {
        self.table.get(&link)?.node
    }
}

impl Cluster {
    /// Returns the links to and from known nodes.
    pub fn links(&self) -> impl Iterator<Item = LinkInfo> + '_ {
        let links = self.nodes().flat_map(|node| [node.link, node.inbound_link]).flatten();
        links.filter_map(|id| {
            let link = self.links.get(id)?;
            Some(LinkInfo {
                link: id,
                node: link.node?,
                created_unix_ms: self.now.date_ms(Some(link.created)),
                backlog_bytes: link.backlog_bytes,
            })
        })
    }

    /// Returns the memory of all links, with what waits to be sent, and what this turn sends.
    pub fn links_memory_bytes(&self) -> u64 {
        let records = self.links.table.len() * size_of::<Link>();
        let waiting: u64 = self.links.table.values().map(|link| link.backlog_bytes).sum();
        let frames = self.outbox.iter().map(|action| match action {
            BusAction::Send(_, frame) => frame.expected_len(),
            _ => 0,
        });
        (records + frames.sum::<usize>()) as u64 + waiting
    }

    /// DEBUG CLUSTERLINK KILL: closes the link to a node, the one from it, or both.
    pub fn kill_links(&mut self, id: NodeId, to: bool, from: bool) {
        let Some(node) = self.nodes.get(id) else { return };
        let links = [node.link.filter(|_| to), node.inbound_link.filter(|_| from)];
        for link in links.into_iter().flatten() {
            self.close_link(link);
        }
    }

    /// Opens a link to a node. What is sent on it waits until it is open.
    pub(crate) fn open_link(&mut self, id: NodeId) {
        let (now_ms, number) = (self.now_ms(), self.links.opened);
        let Some(node) = self.nodes.get_mut(id) else { return };
        let Some(address) = node.address.clone() else { return };
        let (link, port) = (LinkId::opened(number), node.endpoints.bus_port);
        node.link = Some(link);
        node.times.connected = Some(now_ms);
        self.links.opened += 1;
        let record = Link {
            node: Some(id),
            peer: address.ip(),
            local: None,
            created: now_ms,
            reads_extensions: false,
            is_open: false,
            backlog_bytes: 0,
        };
        self.links.table.insert(link, record);
        self.act(BusAction::Connect { link, address, port });
    }

    /// A link that this node asked for is open.
    pub(crate) fn link_opened(&mut self, link: LinkId) {
        let Some(record) = self.links.get_mut(link) else { return };
        record.is_open = true;
        let Some(id) = record.node else { return };
        let Some(node) = self.nodes.get(id) else { return };
        // A PING that has not been answered keeps its time over a new link.
        let pending = node.times.ping_sent;
        let kind = if node.has(NodeFlags::MEET) { Kind::Meet } else { Kind::Ping };
        self.send_ping(link, kind);
        if let Some(node) = self.nodes.get_mut(id) {
            node.times.ping_sent = pending.or(node.times.ping_sent);
        }
        self.log_with(Level::Debug, |cluster| {
            let node = cluster.nodes.get(id);
            let port = node.map_or(0, |node| node.endpoints.bus_port);
            let address = node.map(|node| node.address_text()).unwrap_or_default();
            format!("Connecting with Node {id} at {address}:{port}")
        });
    }

    /// Another node has opened a link.
    pub(crate) fn link_accepted(&mut self, link: LinkId, peer: IpAddr, local: IpAddr) {
        let record = Link {
            node: None,
            peer: Some(peer),
            local: Some(local),
            created: self.now_ms(),
            reads_extensions: false,
            is_open: true,
            backlog_bytes: 0,
        };
        self.links.table.insert(link, record);
    }

    /// A link is no longer there.
    pub(crate) fn link_closed(&mut self, link: LinkId) {
        let Some(record) = self.unlink(link) else { return };
        let now_ms = self.now_ms();
        if let Some(node) = record.node.and_then(|id| self.nodes.get_mut(id))
            && !link.is_inbound()
            && !record.is_open
        {
            // A node that cannot be connected to has a PING to answer: otherwise it would never count as failed.
            node.times.ping_sent.get_or_insert(now_ms);
        }
    }

    pub(crate) fn close_link(&mut self, link: LinkId) {
        if self.unlink(link).is_some() {
            self.act(BusAction::Close(link));
        }
    }

    pub(crate) fn close_links_of(&mut self, id: NodeId) {
        self.kill_links(id, true, true);
    }

    /// Forgets a link.
    fn unlink(&mut self, link: LinkId) -> Option<Link> {
        let record = self.links.table.remove(&link)?;
        let now_ms = self.now_ms();
        if let Some(node) = record.node.and_then(|id| self.nodes.get_mut(id)) {
            if node.link == Some(link) {
                node.link = None;
            }
            if node.inbound_link == Some(link) {
                node.inbound_link = None;
                node.times.inbound_link_closed = now_ms;
            }
        }
        self.log_with(Level::Debug, |cluster| {
            let node = record.node.map(|id| cluster.called(id).to_string());
            let direction = if link.is_inbound() { "inbound" } else { "outbound" };
            format!("Freeing cluster link for node: {}:{direction}", node.as_deref().unwrap_or("<unknown>"))
        });
        Some(record)
    }

    /// Notes whose link an accepted one is. An older one of that node is closed: it is more likely to be dead.
    pub(crate) fn bind_link(&mut self, link: LinkId, id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        if let Some(older) = node.inbound_link
            && older != link
        {
            self.close_link(older);
        }
        let Some(record) = self.links.get_mut(link) else { return };
        record.node = Some(id);
        let peer = record.peer;
        if let Some(node) = self.nodes.get_mut(id) {
            node.inbound_link = Some(link);
        }
        self.act(BusAction::Bound(link));
        self.log_with(Level::Verbose, |cluster| {
            let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
            format!("Bound cluster node {} to connection of client {peer}", cluster.called(id))
        });
    }

    /// A node in handshake got its id: its links follow.
    pub(crate) fn rename_links(&mut self, old: NodeId, new: NodeId) {
        let Some(node) = self.nodes.get(new) else { return };
        for link in [node.link, node.inbound_link].into_iter().flatten() {
            if let Some(record) = self.links.table.get_mut(&link)
                && record.node == Some(old)
            {
                record.node = Some(new);
            }
        }
    }

    pub(crate) fn note_backlog(&mut self, link: LinkId, bytes: u64) {
        if let Some(link) = self.links.get_mut(link) {
            link.backlog_bytes = bytes;
        }
    }

    /// Closes the links of a node that have too much to send.
    pub(crate) fn close_links_over_limit(&mut self, id: NodeId) {
        let limit = self.settings.link_send_buffer_limit_bytes;
        let Some(node) = self.nodes.get(id).filter(|_| limit > 0) else { return };
        for link in [node.link, node.inbound_link].into_iter().flatten() {
            let bytes = self.links.get(link).map_or(0, |link| link.backlog_bytes);
            if bytes <= limit {
                continue;
            }
            let direction = if link.is_inbound() { "from" } else { "to" };
            let text = format!(
                "Freeing cluster link({direction} node {}, used memory: {bytes}) due to exceeding send buffer \
                 memory limit.",
                self.called(id)
            );
            self.log(Level::Warning, text);
            self.close_link(link);
            self.statistics.links_over_limit += 1;
        }
    }

    pub(crate) fn check_links(&self) {
        for (id, link) in &self.links.table {
            let Some(node) = link.node.and_then(|node| self.nodes.get(node)) else {
                assert!(link.node.is_none(), "a link of a node that is gone");
                continue;
            };
            assert_eq!(if id.is_inbound() { node.inbound_link } else { node.link }, Some(*id));
        }
        for link in self.nodes.iter().flat_map(|node| [node.link, node.inbound_link]).flatten() {
            assert!(self.links.table.contains_key(&link));
        }
    }
}
