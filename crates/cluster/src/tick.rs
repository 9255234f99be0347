//! What passes with time: links that are opened again, PINGs, and nodes that do not answer.

use wire::cluster_bus::{Kind, NodeFlags, NodeId};

use crate::action::{Input, Level, LinkId};
use crate::cluster::Cluster;
use crate::node::{Node, age_ms};

/// Time between two ticks.
pub const TICK_MS: u64 = 100;
/// A node is connected to at least this many times in half a node timeout.
const CONNECTS_PER_HALF_TIMEOUT: u64 = 10;
/// Ticks from one PING at random to the next.
const TICKS_PER_RANDOM_PING: u64 = 10;
/// Number of nodes of which the one with the oldest PONG is asked.
const RANDOM_PING_CHOICES: usize = 5;

impl Cluster {
    /// Takes what has happened. What follows from it is done by [`Self::end_turn`].
    pub fn step(&mut self, input: Input, now: crate::action::Now) {
        self.now = now;
        match input {
            Input::Tick => self.tick(),
            Input::Facts(facts) => {
                self.facts = facts;
                self.nodes.myself_mut().replication_offset = facts.replication_offset;
            }
            Input::LinkOpened(link) => self.link_opened(link),
            Input::LinkAccepted { link, peer, local } => self.link_accepted(link, peer, local),
            Input::LinkClosed(link) => self.link_closed(link),
            Input::LinkBacklog(link, bytes) => self.note_backlog(link, bytes),
            Input::Frame(link, frame) => self.receive(link, frame),
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.trim_migration_log();
        self.has_ticked = true;
        self.connect_to_all();
        if self.ticks.is_multiple_of(TICKS_PER_RANDOM_PING) && !self.faults.no_random_ping {
            self.ping_one_at_random();
        }
        self.has_unreachable = self.nodes.unreachable().next().is_some();
        let mut state_changed = false;
        let interval_ms = self.ping_interval_ms();
        let now_ms = self.now_ms();
        let is_quiet = |node: &Node| {
            let pong_age_ms = age_ms(now_ms, node.times.pong_received);
            node.times.ping_sent.is_none()
                && pong_age_ms <= interval_ms
                && self.manual.replica() != Some(node.id)
        };
        for id in self.nodes.ids_of(|node| !is_quiet(node)) {
            state_changed |= self.watch(id, interval_ms);
        }
        if self.myself().is_replica() && !self.is_replicating {
            self.announce_primary(false);
        }
        self.give_up_manual_failover_in_time();
        if self.myself().is_replica() {
            self.continue_manual_failover();
            self.continue_election();
            self.migrate_if_needed();
        }
        if state_changed || !self.state.is_ok {
            self.update_state();
        }
    }

    /// A node is asked when its latest answer is older than this.
    fn ping_interval_ms(&self) -> u64 {
        match self.settings.ping_interval_ms {
            0 => self.settings.node_timeout_ms / 2,
            set => set,
        }
    }

    /// Opens links where there are none, and ends handshakes that take too long.
    fn connect_to_all(&mut self) {
        let half_timeout_ms = self.settings.node_timeout_ms / 2;
        let nodes = self.nodes.len() as u64;
        let mut budget =
            (nodes * TICK_MS).checked_div(half_timeout_ms).unwrap_or(0) * CONNECTS_PER_HALF_TIMEOUT;
        let has_limit = self.settings.link_send_buffer_limit_bytes > 0;
        let is_settled = |node: &Node| {
            node.link.is_some() && node.inbound_link.is_some() && !node.is_in_handshake() || node.is_myself()
        };
        for id in self.nodes.ids_of(|node| has_limit || !is_settled(node)) {
            self.close_links_over_limit(id);
            if !self.faults.no_reconnection {
                self.connect_to(id, half_timeout_ms, &mut budget);
            }
        }
    }

    fn connect_to(&mut self, id: NodeId, half_timeout_ms: u64, budget: &mut u64) {
        let now_ms = self.now_ms();
        let Some(node) = self.nodes.get(id) else { return };
        if node.has(NodeFlags::MYSELF | NodeFlags::NO_ADDRESS) {
            return;
        }
        if node.is_in_handshake() && self.is_past_handshake_time(node) {
            let text =
                format!("Clusterbus handshake timeout {}:{}", node.address_text(), node.endpoints.bus_port);
            self.log(Level::Warning, text);
            return self.remove_node(id);
        }
        if self.does_not_know_me(node) {
            self.meet_again(id);
        }
        let Some(node) = self.nodes.get(id) else { return };
        if node.link.is_some() {
            return;
        }
        let waits = age_ms(now_ms, node.times.connected) < half_timeout_ms / CONNECTS_PER_HALF_TIMEOUT
            && *budget == 0;
        if node.inbound_link.is_none() && waits {
            return;
        }
        *budget = budget.saturating_sub(1);
        self.open_link(id);
    }

    /// There is a link to the node and none from it: it seems not to know this node.
    fn does_not_know_me(&self, node: &Node) -> bool {
        let unsettled =
            NodeFlags::HANDSHAKE | NodeFlags::MEET | NodeFlags::POSSIBLY_FAILED | NodeFlags::FAILED;
        let (now_ms, timeout_ms) = (self.now_ms(), self.handshake_timeout_ms());
        !node.has(unsettled)
            && node.link.is_some()
            && node.inbound_link.is_none()
            && now_ms.saturating_sub(node.times.inbound_link_closed) > timeout_ms
            && age_ms(now_ms, node.times.meet_sent) > timeout_ms
            && node.has(NodeFlags::LIGHT_MODULE)
    }

    fn meet_again(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.flags |= NodeFlags::MEET;
        let Some(link) = node.link else { return };
        let text = format!(
            "Sending MEET packet to node {} because there is no inbound link for it",
            self.called(id)
        );
        self.log(Level::Notice, text);
        self.send_ping(link, Kind::Meet);
    }

    fn ping_one_at_random(&mut self) {
        let mut oldest: Option<(Option<u64>, NodeId)> = None;
        for _ in 0..RANDOM_PING_CHOICES {
            let node = self.nodes.random(&mut self.random);
            let is_asked = node.link.is_none() || node.times.ping_sent.is_some();
            if is_asked || node.has(NodeFlags::MYSELF | NodeFlags::HANDSHAKE) {
                continue;
            }
            let candidate = (node.times.pong_received, node.id);
            oldest = Some(oldest.map_or(candidate, |oldest| oldest.min(candidate)));
        }
        let Some((_, id)) = oldest else { return };
        if let Some(link) = self.nodes.get(id).and_then(|node| node.link) {
            self.log_with(Level::Debug, |cluster| format!("Pinging node {}", cluster.called(id)));
            self.send_ping(link, Kind::Ping);
        }
    }

    /// Asks a node if it has been silent for long, and notes if it does not answer. Returns whether that is news.
    fn watch(&mut self, id: NodeId, interval_ms: u64) -> bool {
        let (now_ms, timeout_ms) = (self.now_ms(), self.settings.node_timeout_ms);
        let Some(node) = self.nodes.get(id) else { return false };
        if node.has(NodeFlags::MYSELF | NodeFlags::NO_ADDRESS | NodeFlags::HANDSHAKE) {
            return false;
        }
        let data_age_ms = age_ms(now_ms, node.times.data_received);
        if let Some(link) = node.link
            && self.is_link_dead(link, node)
        {
            self.close_link(link);
        }
        let Some(node) = self.nodes.get(id) else { return false };
        if let Some(link) = node.link {
            let is_silent =
                node.times.ping_sent.is_none() && age_ms(now_ms, node.times.pong_received) > interval_ms;
            if is_silent || self.manual.replica() == Some(id) && self.myself().is_primary() {
                self.send_ping(link, Kind::Ping);
                return false;
            }
        }
        let Some(ping) = node.times.ping_sent else { return false };
        let is_late = now_ms.saturating_sub(ping).min(data_age_ms) > timeout_ms;
        let is_known = node.has(NodeFlags::FAILED | NodeFlags::POSSIBLY_FAILED);
        if is_late && !is_known {
            self.mark_possibly_failed(id);
        }
        is_late && !is_known
    }

    /// The fault may be the link's: a PING on it was not answered, although it had the time.
    fn is_link_dead(&self, link: LinkId, node: &Node) -> bool {
        let (now_ms, timeout_ms) = (self.now_ms(), self.settings.node_timeout_ms);
        let Some(ping) = node.times.ping_sent else { return false };
        let ping_age_ms = now_ms.saturating_sub(ping);
        let link_age_ms = self.links.get(link).map_or(0, |link| now_ms.saturating_sub(link.created));
        let is_silent = age_ms(now_ms, node.times.data_received) > timeout_ms / 2;
        // A node whose frames come on its own link only would otherwise never be asked again.
        let is_lost = ping_age_ms > timeout_ms * 2 && link_age_ms > timeout_ms * 2;
        link_age_ms > timeout_ms && ping_age_ms > timeout_ms / 2 && is_silent || is_lost
    }

    fn mark_possibly_failed(&mut self, id: NodeId) {
        self.has_unreachable = true;
        if let Some(node) = self.nodes.get_mut(id) {
            node.flags |= NodeFlags::POSSIBLY_FAILED;
        }
        if self.myself().has_vote() {
            self.fail_by_majority(id);
        } else {
            let text = format!("NODE {} possibly failing.", self.called(id));
            self.log(Level::Notice, text);
        }
    }
}
