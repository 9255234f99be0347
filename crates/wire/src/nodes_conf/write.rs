//! Rows to the text of a file.

use super::line::{NodeLine, append};
use super::{NodeRow, NodesConf};
use std::fmt;

impl NodesConf {
    /// Returns the file's text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.nodes.len() * 256 + 64);
        for node in &self.nodes {
            node.append_to(&mut text);
            text.push('\n');
        }
        let (current, last_vote) = (self.current_epoch, self.last_vote_epoch);
        append(&mut text, format_args!("vars currentEpoch {current} lastVoteEpoch {last_vote}\n"));
        text
    }
}

impl NodeRow {
    fn append_to(&self, out: &mut String) {
        let host: &dyn fmt::Display = match &self.address {
            Some(address) => address,
            None => &"",
        };
        let line = NodeLine {
            id: self.id,
            host,
            port: self.tcp_port,
            bus_port: self.bus_port,
            hostname: &self.hostname,
            flags: self.flags,
            replica_of: self.replica_of,
            ping_sent_ms: self.ping_sent_ms,
            pong_received_ms: self.pong_received_ms,
            epoch: self.config_epoch,
            is_connected: self.is_connected,
            slots: &self.slots,
            open_slots: &self.open_slots,
        };
        line.append_address(out);
        if self.hostname.is_empty() {
            out.push(',');
        }
        self.append_fields(out);
        line.append_rest(out);
    }

    /// Appends the fields behind the host name, in the order that other servers write them in.
    fn append_fields(&self, out: &mut String) {
        let mut field = |name: &str, value: Option<&dyn fmt::Display>| {
            if let Some(value) = value {
                append(out, format_args!(",{name}={value}"));
            }
        };
        fn shown<T: fmt::Display>(value: &T, is_set: bool) -> Option<&dyn fmt::Display> {
            is_set.then_some(value as &dyn fmt::Display)
        }
        fn of<T: fmt::Display>(value: &Option<T>) -> Option<&dyn fmt::Display> {
            value.as_ref().map(|value| value as &dyn fmt::Display)
        }
        field("availability-zone", shown(&self.availability_zone, !self.availability_zone.is_empty()));
        field("client-tls-port", shown(&self.client_tls_port, self.client_tls_port != 0));
        field("client-tcp-port", shown(&self.client_tcp_port, self.client_tcp_port != 0));
        field("client-ipv6", of(&self.client_ipv6));
        field("client-ipv4", of(&self.client_ipv4));
        // Written even if there is none: without it the port before it could be either.
        field("tls-port", Some(&self.tls_port));
        field("nodename", shown(&self.nodename, !self.nodename.is_empty()));
        field("shard-id", of(&self.shard_id));
    }
}
