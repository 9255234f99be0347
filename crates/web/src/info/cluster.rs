//! Metrics of a node of a cluster.
//!
//! Their number grows with the number of nodes, and not with that of slots.

use std::collections::{BTreeMap, BTreeSet};

use wire::response::Value;

use super::{Collected, integer_of, text_of};
use crate::metrics::{Kind, Measured, Replies};

type Labels = Vec<(&'static str, String)>;

fn gauge(collected: &mut Collected, name: &str, help: &'static str, labels: Labels, value: f64) {
    collected.add(Kind::Gauge, format!("warmline_cluster_{name}"), help, labels, Measured::Number(value));
}

fn counter(collected: &mut Collected, name: &str, help: &'static str, labels: Labels, value: f64) {
    collected.add(Kind::Counter, format!("warmline_cluster_{name}"), help, labels, Measured::Number(value));
}

/// A count of frames of the bus: `cluster_stats_messages_ping_sent`, or `cluster_stats_messages_sent` for their sum.
pub(super) struct BusMessages<'a> {
    /// `sent` or `received`.
    direction: &'a str,
    /// `None`: of all types.
    of_type: Option<&'a str>,
}

impl BusMessages<'_> {
    /// Returns the metric, without `_total`.
    pub(super) fn metric(&self) -> String {
        format!("warmline_cluster_bus_{}_messages", self.direction)
    }
}

/// Returns what a field of INFO counts, if it counts frames of the bus.
pub(super) fn bus_messages(field: &str) -> Option<BusMessages<'_>> {
    let rest = field.strip_prefix("cluster_stats_messages_")?;
    let (of_type, direction) = match rest.rsplit_once('_') {
        Some((of_type, direction)) => (Some(of_type), direction),
        None => (None, rest),
    };
    matches!(direction, "sent" | "received").then_some(BusMessages { direction, of_type })
}

/// Adds a count of frames: with a label for their type here, their sum under redis_exporter's name.
pub(super) fn add_bus_messages(collected: &mut Collected, field: &str, value: f64) {
    let Some(messages) = bus_messages(field) else { return };
    let help = match messages.direction {
        "sent" => "Messages sent to other nodes, by type",
        _ => "Messages received from other nodes, by type",
    };
    let (name, labels) = match messages.of_type {
        Some(of_type) => (messages.metric(), vec![("type", of_type.to_owned())]),
        None => (format!("redis_cluster_messages_{}", messages.direction), Vec::new()),
    };
    collected.add(Kind::Counter, name, help, labels, Measured::Number(value));
}

/// Adds what the replies to commands of CLUSTER say; on other servers there are none.
pub(super) fn add(collected: &mut Collected, replies: &Replies, fields: &BTreeMap<&str, &str>) {
    let links = replies.cluster_links.as_ref().map(unsent_bytes);
    if let Some(nodes) = &replies.cluster_nodes {
        add_nodes(collected, &text_of(nodes), links.as_ref());
    }
    if let Some(jobs) = replies.slot_migrations.as_ref().and_then(Value::as_list) {
        let now_us = fields.get("server_time_usec").and_then(|text| text.parse::<f64>().ok());
        add_migrations(collected, jobs, now_us.unwrap_or_default() / 1e6);
    }
    add_slots(collected, &replies.slot_stats);
}

/// Adds nodes, links and open slots by the lines of CLUSTER NODES. `links` is `None` if the user may not see them.
fn add_nodes(collected: &mut Collected, lines: &str, links: Option<&BTreeMap<(String, String), f64>>) {
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, address, flags, _, _, _, _, link, slots @ ..] = words.as_slice() else { continue };
        let is = |flag: &str| flags.split(',').any(|other| other == flag);
        if is("myself") {
            for (state, sign) in [("migrating", "->-"), ("importing", "-<-")] {
                let open = slots.iter().filter(|slot| slot.starts_with('[') && slot.contains(sign)).count();
                let help = "Slots that SETSLOT has opened on this node";
                let labels = vec![("state", state.to_owned())];
                gauge(collected, "open_slots", help, labels, open as f64);
            }
            continue;
        }
        // The id of a node that has not answered is made up.
        if is("handshake") {
            continue;
        }
        let node = || ("node", (*id).to_owned());
        let is_ok = !is("fail") && !is("fail?");
        let role = if is("slave") { "replica" } else { "primary" };
        let address = address.split('@').next().unwrap_or_default();
        let labels = vec![node(), ("address", address.to_owned()), ("role", role.to_owned())];
        let help = "Whether the other node is well: neither unreached by this one nor failed";
        gauge(collected, "node_ok", help, labels, f64::from(u8::from(is_ok)));
        for direction in ["to", "from"] {
            let labels = || vec![("direction", direction.to_owned()), node()];
            let unsent = links.map(|links| links.get(&(direction.to_owned(), (*id).to_owned())));
            let is_there = if direction == "to" {
                Some(*link == "connected")
            } else {
                unsent.map(|unsent| unsent.is_some())
            };
            if let Some(is_there) = is_there {
                let help = "Whether there is a link to or from the other node";
                gauge(collected, "link_connected", help, labels(), f64::from(u8::from(is_there)));
            }
            if let Some(unsent) = unsent.flatten() {
                let help = "Bytes that wait to be sent on the link to or from a node";
                gauge(collected, "link_send_buffer_bytes", help, labels(), *unsent);
            }
        }
    }
}

/// Returns the unsent bytes of links by direction and node. While a link is replaced there are two.
fn unsent_bytes(links: &Value) -> BTreeMap<(String, String), f64> {
    let mut found = BTreeMap::new();
    for link in links.as_list().into_iter().flatten() {
        let text = |name: &str| member(link, name).map(text_of).unwrap_or_default().into_owned();
        let bytes = member(link, "send-buffer-used").and_then(integer_of).unwrap_or_default();
        *found.entry((text("direction"), text("node"))).or_insert(0.0) += bytes as f64;
    }
    found
}

fn member<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.entries().iter().find(|(key, _)| text_of(key) == name).map(|(_, value)| *value)
}

/// Migrations in progress in one direction.
#[derive(Default)]
struct InProgress {
    by_state: BTreeMap<String, usize>,
    remaining_bytes: i64,
    in_state_s: f64,
}

fn add_migrations(collected: &mut Collected, jobs: &[Value], now_s: f64) {
    let mut directions = [("export", InProgress::default()), ("import", InProgress::default())];
    for job in jobs {
        let text = |name: &str| member(job, name).map(text_of).unwrap_or_default();
        let number = |name: &str| member(job, name).and_then(integer_of).unwrap_or_default();
        let state = text("state");
        if matches!(&*state, "success" | "failed" | "cancelled" | "canceled") {
            continue;
        }
        let operation = text("operation");
        let Some((_, sum)) = directions.iter_mut().find(|(name, _)| operation.eq_ignore_ascii_case(name))
        else {
            continue;
        };
        *sum.by_state.entry(state.into_owned()).or_default() += 1;
        sum.remaining_bytes += number("remaining_repl_size");
        sum.in_state_s = sum.in_state_s.max(now_s - number("last_update_time") as f64);
    }
    for (operation, sum) in directions {
        let label = || ("operation", operation.to_owned());
        for (state, count) in sum.by_state {
            let labels = vec![label(), ("state", state)];
            gauge(collected, "slot_migrations", "Slot migrations in progress", labels, count as f64);
        }
        let help = "Bytes that slot migrations in progress have to send";
        let remaining = sum.remaining_bytes as f64;
        gauge(collected, "slot_migration_remaining_bytes", help, vec![label()], remaining);
        let help = "Longest time for which a slot migration has been in its state; 0 without one";
        gauge(collected, "slot_migration_state_seconds", help, vec![label()], sum.in_state_s);
    }
}

/// Adds the figures of slots that lead in some order.
fn add_slots(collected: &mut Collected, tops: &[Value]) {
    let mut seen = BTreeSet::new();
    for entry in tops.iter().filter_map(Value::as_list).flatten() {
        let Some([slot, figures]) = entry.as_list() else { continue };
        let Some(slot) = integer_of(slot).filter(|slot| seen.insert(*slot)) else { continue };
        let labels = || vec![("slot", slot.to_string())];
        let figure = |name: &str| member(figures, name).and_then(integer_of).map(|number| number as f64);
        if let Some(keys) = figure("key-count") {
            gauge(collected, "slot_keys", "Keys of a slot among those with most", labels(), keys);
        }
        for (of_reply, name, per_unit, help) in [
            ("cpu-usec", "slot_processor_seconds", 1e6, "Execution time of a slot's commands"),
            ("network-bytes-in", "slot_input_bytes", 1.0, "Bytes received for a slot"),
            ("network-bytes-out", "slot_output_bytes", 1.0, "Bytes sent for a slot"),
        ] {
            if let Some(value) = figure(of_reply) {
                counter(collected, name, help, labels(), value / per_unit);
            }
        }
    }
}
