//! Converts INFO, LATENCY HISTOGRAM, SLOWLOG and, of a node of a cluster, four commands of CLUSTER to families of metrics.
//!
//! 1. Every numeric or boolean field of INFO becomes a metric: by its row in [`rows`](crate::rows), or under its own
//!    name.
//! 2. Lists within a line (`cmdstat_get:calls=1,...`) become one metric for each member, with a label for the line.

mod cluster;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use wire::response::Value;

use crate::metrics::{Family, Kind, Measured, Replies, Sample};
use crate::rows::{EXPORTER_GAUGES, ROWS, Row};

/// Numeric fields that are identifiers.
const NO_MEASURES: &[&str] = &[
    "redis_git_sha1",
    "redis_git_dirty",
    "redis_build_id",
    "arch_bits",
    "tcp_port",
    "uptime_in_days",
    "lru_clock",
    "run_id",
    "master_replid",
    "master_replid2",
    "master_port",
];

/// Fields with -1 for a missing value: no snapshot was written, the link is up.
const NOTHING_IS_MINUS_ONE: &[&str] = &[
    "rdb_last_bgsave_time_sec",
    "rdb_current_bgsave_time_sec",
    "aof_last_rewrite_time_sec",
    "aof_current_rewrite_time_sec",
    "second_repl_offset",
    "master_last_io_seconds_ago",
    "master_link_down_since_seconds",
    "master_sync_total_bytes",
];

/// Returns whether the field has no value. A metric with a placeholder would be taken for a measurement, also by
/// alerts. Names of redis_exporter keep the placeholder.
fn is_of_nothing(fields: &BTreeMap<&str, &str>, field: &str, text: &str) -> bool {
    match field.strip_suffix("_cert_expires_in_seconds") {
        // 0 also stands for an expired certificate.
        Some(role) => fields.get(format!("{role}_cert_serial").as_str()) == Some(&"none"),
        None => text == "-1" && NOTHING_IS_MINUS_ONE.contains(&field),
    }
}

/// Lines of the form `name:member=number,...`: prefix of the name, label for the rest of it, and members.
struct List {
    prefix: &'static str,
    label: &'static str,
    members: &'static [Member],
}

struct Member {
    of_list: &'static str,
    name: &'static str,
    per_unit: f64,
    /// Name in redis_exporter, with the value unchanged.
    exporter: &'static str,
    kind: Kind,
    help: &'static str,
}

const fn member(
    of_list: &'static str,
    kind: Kind,
    name: &'static str,
    per_unit: f64,
    exporter: &'static str,
    help: &'static str,
) -> Member {
    Member { of_list, name, per_unit, exporter, kind, help }
}

const LISTS: &[List] = &[
    List {
        prefix: "cmdstat_",
        label: "cmd",
        members: &[
            member("calls", Kind::Counter, "command_calls", 1.0, "commands", "Calls of the command"),
            member(
                "usec",
                Kind::Counter,
                "command_seconds",
                1e6,
                "commands_duration_seconds",
                "Time spent in the command",
            ),
            member(
                "rejected_calls",
                Kind::Counter,
                "command_rejected_calls",
                1.0,
                "commands_rejected_calls",
                "Calls refused before they ran",
            ),
            member(
                "failed_calls",
                Kind::Counter,
                "command_failed_calls",
                1.0,
                "commands_failed_calls",
                "Calls that ended in an error",
            ),
        ],
    },
    List {
        prefix: "errorstat_",
        label: "err",
        members: &[member(
            "count",
            Kind::Counter,
            "errors",
            1.0,
            "errors",
            "Error replies by their first word",
        )],
    },
    List {
        prefix: "io_thread_",
        label: "thread",
        members: &[
            member(
                "clients",
                Kind::Gauge,
                "thread_clients",
                1.0,
                "",
                "Clients whose sockets the thread serves",
            ),
            member("reads", Kind::Counter, "thread_reads", 1.0, "", "Reads by the thread"),
            member("writes", Kind::Counter, "thread_writes", 1.0, "", "Writes by the thread"),
        ],
    },
    List {
        prefix: "db",
        label: "db",
        members: &[
            member("keys", Kind::Gauge, "keys", 1.0, "db_keys", "Keys of the database"),
            member(
                "expires",
                Kind::Gauge,
                "keys_expiring",
                1.0,
                "db_keys_expiring",
                "Keys of the database with an expiry",
            ),
            member(
                "avg_ttl",
                Kind::Gauge,
                "keys_ttl_seconds",
                1e3,
                "db_avg_ttl_seconds",
                "Mean time to live of keys with an expiry",
            ),
            member(
                "keys_with_volatile_items",
                Kind::Gauge,
                "keys_with_expiring_fields",
                1.0,
                "",
                "Hashes with field expiry",
            ),
        ],
    },
    List {
        prefix: "slave",
        label: "replica",
        members: &[
            member(
                "offset",
                Kind::Gauge,
                "connected_replica_offset_bytes",
                1.0,
                "",
                "Replication offset acknowledged by the replica",
            ),
            member(
                "lag",
                Kind::Gauge,
                "connected_replica_silent_seconds",
                1.0,
                "",
                "Time since the last acknowledgement of the replica",
            ),
        ],
    },
];

/// Families by name, in order of first appearance.
#[derive(Default)]
struct Collected {
    families: Vec<Family>,
    places: HashMap<String, usize>,
}

impl Collected {
    /// Returns whether there is a sample with this name and these labels.
    fn has(&self, name: &str, labels: &[(&'static str, String)]) -> bool {
        let family = self.places.get(name).map(|&place| &self.families[place]);
        family.is_some_and(|family| family.samples.iter().any(|sample| sample.labels == labels))
    }

    fn add(
        &mut self,
        kind: Kind,
        name: String,
        help: impl Into<Cow<'static, str>>,
        labels: Vec<(&'static str, String)>,
        value: Measured,
    ) {
        let place = *self.places.entry(name).or_insert_with_key(|name| {
            let name = Cow::Owned(name.clone());
            self.families.push(Family { name, kind, help: help.into(), samples: Vec::new() });
            self.families.len() - 1
        });
        self.families[place].samples.push(Sample { labels, value });
    }
}

/// Returns all metrics of a scrape.
pub fn families(replies: &Replies) -> Vec<Family> {
    let mut collected = Collected::default();
    let fields: BTreeMap<&str, &str> = replies
        .info
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(':'))
        .collect();
    describe_instance(&mut collected, &fields);
    let rows: HashMap<&str, &Row> = ROWS.iter().map(|row| (row.field, row)).collect();
    for line in replies.info.lines().filter(|line| !line.starts_with('#')) {
        let Some((field, text)) = line.split_once(':') else { continue };
        if let Some(number) = number(field, text) {
            let is_measured = !is_of_nothing(&fields, field, text);
            add_field(&mut collected, rows.get(field).copied(), field, number, is_measured);
        } else if let Some((list, which)) = list_of(field, text) {
            add_list(&mut collected, list, which, text);
        }
    }
    describe_link(&mut collected, &fields);
    add_histograms(&mut collected, replies, &fields);
    add_slow_log(&mut collected, replies);
    cluster::add(&mut collected, replies, &fields);
    collected.families
}

/// Returns whether a field of INFO with this text becomes a metric.
pub fn is_measure(field: &str, text: &str) -> bool {
    number(field, text).is_some()
}

/// Returns the value of a field; words for success and failure are 1 and 0.
fn number(field: &str, text: &str) -> Option<f64> {
    if NO_MEASURES.contains(&field) {
        return None;
    }
    match text {
        "ok" | "up" => return Some(1.0),
        "err" | "down" | "fail" => return Some(0.0),
        _ => {}
    }
    let digits = text.strip_suffix('%').unwrap_or(text);
    // Rust parses these as numbers too.
    let is_number = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e'));
    digits.parse().ok().filter(|_| is_number)
}

fn add_field(collected: &mut Collected, row: Option<&Row>, field: &str, value: f64, is_measured: bool) {
    match row {
        Some(row) => {
            if is_measured {
                let scaled = Measured::Number(value / row.per_unit);
                collected.add(row.kind, format!("warmline_{}", row.name), row.help, Vec::new(), scaled);
            }
            if !row.exporter.is_empty() {
                let name = format!("redis_{}", row.exporter);
                collected.add(row.kind, name, row.help, Vec::new(), Measured::Number(value));
            }
        }
        None if thread_of(field).is_some() || !is_measured => {}
        None if cluster::bus_messages(field).is_some() => cluster::add_bus_messages(collected, field, value),
        None => {
            let name = unlisted_name(field);
            let help = format!("The field {field} of INFO");
            collected.add(Kind::Gauge, name, help, Vec::new(), Measured::Number(value));
        }
    }
    if let Some(thread) = thread_of(field) {
        let labels = vec![("thread", thread.to_owned())];
        let help =
            "Active time of the thread: processor time, and for the main thread, 0, all time except waiting";
        collected.add(
            Kind::Counter,
            format!("warmline_{THREAD_TIME}"),
            help,
            labels,
            Measured::Number(value),
        );
    }
    if let Some((_, name)) = EXPORTER_GAUGES.iter().find(|(of_info, _)| *of_info == field) {
        let help = row.map_or("A field of INFO", |row| row.help);
        collected.add(Kind::Gauge, format!("redis_{name}"), help, Vec::new(), Measured::Number(value));
    }
}

const THREAD_TIME: &str = "thread_active_seconds";

/// Returns the number of the thread for a field of its time.
fn thread_of(field: &str) -> Option<&str> {
    match field {
        "used_active_time_main_thread" => Some("0"),
        _ => field.strip_prefix("used_active_time_io_thread_"),
    }
}

/// Returns the name of a field without a row. Suffixes with a meaning in the text formats are removed.
fn unlisted_name(field: &str) -> String {
    let name = metric_name(&format!("warmline_{field}"));
    let is_reserved = ["_total", "_count", "_sum", "_bucket", "_info"].iter().any(|end| name.ends_with(end));
    if is_reserved { name + "_value" } else { name }
}

/// Returns the metric that shows a numeric field of INFO, without the `_total` of a counter.
pub fn metric_of(field: &str) -> String {
    let row = ROWS.iter().find(|row| row.field == field);
    match (row, thread_of(field)) {
        (Some(row), _) => format!("warmline_{}", row.name),
        (None, Some(_)) => format!("warmline_{THREAD_TIME}"),
        (None, None) => match cluster::bus_messages(field) {
            Some(messages) => messages.metric(),
            None => unlisted_name(field),
        },
    }
}

/// Replaces characters that are not permitted in names by `_`. INFO's own fields have none.
fn metric_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

/// Returns the list to which a line belongs, and the label's value.
fn list_of<'a>(field: &'a str, text: &str) -> Option<(&'static List, &'a str)> {
    let named = |list: &&'static List| field.strip_prefix(list.prefix).is_some_and(|rest| !rest.is_empty());
    let list = LISTS.iter().find(named).filter(|_| text.contains('='))?;
    Some((list, &field[list.prefix.len()..]))
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|pair| pair.split_once('='))
}

fn add_list(collected: &mut Collected, list: &List, which: &str, text: &str) {
    let found: HashMap<&str, &str> = pairs(text).collect();
    for member in list.members {
        let Some(value) = found.get(member.of_list).and_then(|text| text.parse::<f64>().ok()) else {
            continue;
        };
        let scaled = value / member.per_unit;
        let which = if list.label == "db" { format!("db{which}") } else { which.replace('|', " ") };
        let labels = || vec![(list.label, which.clone())];
        // No key has an expiry, or no sample was taken yet.
        let is_measured = member.of_list != "avg_ttl" || value != 0.0;
        if is_measured {
            let name = format!("warmline_{}", member.name);
            collected.add(member.kind, name, member.help, labels(), Measured::Number(scaled));
        }
        if !member.exporter.is_empty() {
            let name = format!("redis_{}", member.exporter);
            collected.add(member.kind, name, member.help, labels(), Measured::Number(scaled));
        }
    }
    if list.prefix == "slave" {
        add_replica(collected, &found);
    }
}

fn add_replica(collected: &mut Collected, found: &HashMap<&str, &str>) {
    let text = |member: &str| (*found.get(member).unwrap_or(&"")).to_owned();
    for (member, name, help) in [
        ("offset", "redis_connected_slave_offset_bytes", "Replication offset acknowledged by the replica"),
        ("lag", "redis_connected_slave_lag_seconds", "Time since the last acknowledgement of the replica"),
    ] {
        let Some(value) = found.get(member).and_then(|text| text.parse().ok()) else { continue };
        let labels =
            vec![("slave_ip", text("ip")), ("slave_port", text("port")), ("slave_state", text("state"))];
        // Two replicas may report the same address.
        if collected.has(name, &labels) {
            continue;
        }
        collected.add(Kind::Gauge, name.to_owned(), help, labels, Measured::Number(value));
    }
}

/// Adds the server's identity as labels of the constant 1.
fn describe_instance(collected: &mut Collected, fields: &BTreeMap<&str, &str>) {
    let labelled = |names: &[&'static str], from: &[&str]| -> Vec<(&'static str, String)> {
        let text = |field: &&str| (*fields.get(*field).unwrap_or(&"")).to_owned();
        names.iter().copied().zip(from.iter().map(text)).collect()
    };
    let one = || Measured::Number(1.0);
    let versions = labelled(&["version", "valkey_version"], &["warmline_version", "valkey_version"]);
    collected.add(Kind::Gauge, "warmline_build".to_owned(), "Version of the server", versions, one());
    let names = [
        "role",
        "redis_version",
        "redis_build_id",
        "redis_mode",
        "os",
        "maxmemory_policy",
        "tcp_port",
        "run_id",
        "process_id",
        "master_replid",
    ];
    let from = names.map(|name| if name == "redis_mode" { "server_mode" } else { name });
    let labels = labelled(&names, &from);
    collected.add(Kind::Gauge, "redis_instance_info".to_owned(), "Identity of the server", labels, one());
    collected.add(Kind::Gauge, "redis_up".to_owned(), "Whether the server responds", Vec::new(), one());
    let number = |field: &str| fields.get(field).and_then(|text| text.parse::<f64>().ok());
    if let (Some(now_us), Some(uptime_s)) = (number("server_time_usec"), number("uptime_in_seconds")) {
        let start_s = (now_us / 1e6).floor() - uptime_s;
        for name in ["warmline_start_timestamp_seconds", "redis_start_time_seconds"] {
            let help = "Unix time of the server's start";
            collected.add(Kind::Gauge, name.to_owned(), help, Vec::new(), Measured::Number(start_s));
        }
    }
}

/// Adds the link of a replica to its primary, with redis_exporter's labels.
fn describe_link(collected: &mut Collected, fields: &BTreeMap<&str, &str>) {
    let (Some(host), Some(port)) = (fields.get("master_host"), fields.get("master_port")) else { return };
    for (field, name, help) in [
        ("master_link_status", "redis_master_link_up", "Whether the link to the primary is up"),
        (
            "master_last_io_seconds_ago",
            "redis_master_last_io_seconds_ago",
            "Time since the last data from the primary",
        ),
        (
            "master_sync_in_progress",
            "redis_master_sync_in_progress",
            "Whether a full sync from the primary is in progress",
        ),
        ("slave_repl_offset", "redis_slave_repl_offset", "Replication offset of this replica"),
    ] {
        let Some(value) = fields.get(field).and_then(|text| number(field, text)) else { continue };
        let labels = vec![("master_host", (*host).to_owned()), ("master_port", (*port).to_owned())];
        collected.add(Kind::Gauge, name.to_owned(), help, labels, Measured::Number(value));
    }
    let read_only = (*fields.get("slave_read_only").unwrap_or(&"")).to_owned();
    let labels = vec![
        ("master_host", (*host).to_owned()),
        ("master_port", (*port).to_owned()),
        ("read_only", read_only),
    ];
    let help = "Primary of this replica";
    collected.add(Kind::Gauge, "redis_slave_info".to_owned(), help, labels, Measured::Number(1.0));
}

fn text_of(value: &Value) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default())
}

fn integer_of(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        other => text_of(other).parse().ok(),
    }
}

/// Adds the duration of calls, in the buckets of LATENCY HISTOGRAM.
fn add_histograms(collected: &mut Collected, replies: &Replies, fields: &BTreeMap<&str, &str>) {
    let commands = replies.histograms.as_ref().map(Value::entries).unwrap_or_default();
    for (command, figures) in commands {
        let command = text_of(command);
        let figures = figures.entries();
        let figure =
            |name: &str| figures.iter().find(|(key, _)| text_of(key) == name).map(|(_, value)| *value);
        let Some(count) = figure("calls").and_then(integer_of) else { continue };
        let mut before = 0;
        let mut buckets = Vec::new();
        for (bound_us, cumulative) in figure("histogram_usec").map(Value::entries).unwrap_or_default() {
            let (Some(bound_us), Some(cumulative)) = (integer_of(bound_us), integer_of(cumulative)) else {
                continue;
            };
            buckets.push((bound_us as f64 / 1e6, (cumulative - before).max(0) as u64));
            before = cumulative;
        }
        buckets.push((f64::INFINITY, (count - before).max(0) as u64));
        let statistics = fields.get(format!("cmdstat_{command}").as_str());
        let sum_us = statistics.and_then(|text| pairs(text).find(|(name, _)| *name == "usec"));
        let sum = sum_us.and_then(|(_, text)| text.parse::<f64>().ok()).unwrap_or(0.0) / 1e6;
        let value = Measured::Histogram { sum, count: count.max(0) as u64, buckets };
        let labels = vec![("cmd", command.replace('|', " "))];
        let name = "warmline_command_duration_seconds".to_owned();
        collected.add(Kind::Histogram, name, "Duration of calls of the command", labels, value);
    }
}

fn add_slow_log(collected: &mut Collected, replies: &Replies) {
    if let Some(len) = replies.slow_len.as_ref().and_then(integer_of) {
        for name in ["warmline_slow_log_entries", "redis_slowlog_length"] {
            let value = Measured::Number(len as f64);
            collected.add(Kind::Gauge, name.to_owned(), "Entries in the slow log", Vec::new(), value);
        }
    }
    let last =
        replies.slow_last.as_ref().and_then(Value::as_list).and_then(|entries| entries.first()?.as_list());
    let Some([id, _, duration_us, ..]) = last else { return };
    let (Some(id), Some(duration_us)) = (integer_of(id), integer_of(duration_us)) else { return };
    for (name, help, value) in [
        ("redis_slowlog_last_id", "Id of the last entry in the slow log", id as f64),
        (
            "redis_last_slow_execution_duration_seconds",
            "Duration of the last entry in the slow log",
            duration_us as f64 * 1e6,
        ),
    ] {
        collected.add(Kind::Gauge, name.to_owned(), help, Vec::new(), Measured::Number(value));
    }
}

#[cfg(test)]
mod tests;
