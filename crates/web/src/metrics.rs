//! The text formats of Prometheus and OpenMetrics.
//!
//! `prometheus-client` writes OpenMetrics 1.0. The older format of Prometheus differs in two points: HELP and TYPE
//! lines of a counter contain the suffix `_total`, and there is no end mark.

use std::borrow::Cow;
use std::fmt::Write as _;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use wire::response::Value;

use crate::info;

/// The text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Form {
    /// Returns the format for a request's `Accept` header: OpenMetrics if it is named.
    pub fn accepted(header: Option<&[u8]>) -> Self {
        let named =
            |types: &[u8]| types.windows(OPENMETRICS.len()).any(|part| part == OPENMETRICS.as_bytes());
        if header.is_some_and(named) { Form::OpenMetrics } else { Form::Prometheus }
    }

    /// Returns the value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

const OPENMETRICS: &str = "application/openmetrics-text";

/// All of INFO except percentiles of latencies, which cost as much as the rest together and say less than the
/// histograms. In parts, because a command of more than ten arguments closes a connection that is not authenticated.
const INFO: [&[&str]; 2] = [
    &["INFO", "server", "tls", "clients", "memory", "persistence", "threads", "stats"],
    &[
        "INFO",
        "replication",
        "cpu",
        "commandstats",
        "errorstats",
        "cluster",
        "cluster_info",
        "scriptingengines",
        "keyspace",
    ],
];

/// Slots with figures of their own, for each order: a node has up to 16,384.
const TOP_SLOTS: &str = "10";

/// The number of INFO commands, the first of [`commands`].
pub const INFO_PARTS: usize = INFO.len();

/// Returns the commands of a scrape, in order.
pub fn commands() -> Vec<Vec<&'static str>> {
    let others: [&[&str]; 3] = [&["LATENCY", "HISTOGRAM"], &["SLOWLOG", "LEN"], &["SLOWLOG", "GET", "1"]];
    INFO.iter().chain(&others).map(|words| words.to_vec()).collect()
}

/// Returns the commands of a scrape that only a node of a cluster answers; of other servers, and of a node that loads its
/// data and would refuse them, none.
pub fn cluster_commands(info: &str) -> Vec<Vec<&'static str>> {
    let says = |line: &str| info.lines().any(|other| other == line);
    if !says("cluster_enabled:1") || says("loading:1") || says("async_loading:1") {
        return Vec::new();
    }
    let orders: &[&str] = match says("cluster_slot_stats_enabled:1") {
        true => &["KEY-COUNT", "CPU-USEC", "NETWORK-BYTES-IN", "NETWORK-BYTES-OUT"],
        false => &[],
    };
    let tops = orders.iter().map(|order| {
        let mut words = vec!["CLUSTER", "SLOT-STATS", "ORDERBY"];
        words.extend([*order, "LIMIT", TOP_SLOTS, "DESC"]);
        words
    });
    ["NODES", "LINKS", "GETSLOTMIGRATIONS"]
        .map(|word| vec!["CLUSTER", word])
        .into_iter()
        .chain(tops)
        .collect()
}

/// The replies; `None` where the user lacks the permission.
#[derive(Debug, Default)]
pub struct Replies {
    /// The text of INFO.
    pub info: String,
    /// The reply to LATENCY HISTOGRAM.
    pub histograms: Option<Value>,
    /// The reply to SLOWLOG LEN.
    pub slow_len: Option<Value>,
    /// The reply to SLOWLOG GET 1.
    pub slow_last: Option<Value>,
    /// The reply to CLUSTER NODES.
    pub cluster_nodes: Option<Value>,
    /// The reply to CLUSTER LINKS.
    pub cluster_links: Option<Value>,
    /// The reply to CLUSTER GETSLOTMIGRATIONS.
    pub slot_migrations: Option<Value>,
    /// The replies to CLUSTER SLOT-STATS; a slot may be in several.
    pub slot_stats: Vec<Value>,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A counter.
    Counter,
    /// A gauge.
    Gauge,
    /// A histogram.
    Histogram,
}

/// All samples with the same name. Names of counters are without `_total`.
#[derive(Debug)]
pub struct Family {
    /// Name of the metric.
    pub name: Cow<'static, str>,
    /// Type of the metric.
    pub kind: Kind,
    /// The HELP text.
    pub help: Cow<'static, str>,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// A value with its labels.
#[derive(Debug)]
pub struct Sample {
    /// Names and values of labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Measured,
}

/// The value of a sample.
#[derive(Debug)]
pub enum Measured {
    /// A number.
    Number(f64),
    /// A histogram.
    Histogram {
        /// Sum of all observations.
        sum: f64,
        /// Number of observations.
        count: u64,
        /// Upper bounds in ascending order, each with the number of observations in its bucket.
        buckets: Vec<(f64, u64)>,
    },
}

/// Returns the text of a scrape.
pub fn exposition(replies: &Replies, form: Form) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(info::families(replies))));
    let mut text = String::new();
    // Writing to a String cannot fail, nor can the encoding of these values.
    let written = text::encode(&mut text, &registry);
    debug_assert!(written.is_ok());
    match form {
        Form::OpenMetrics => text,
        Form::Prometheus => in_older_form(&text),
    }
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> std::fmt::Result {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(&family.name, &family.help, None, kind)?;
            for Sample { labels, value } in &family.samples {
                if labels.is_empty() {
                    encode_value(&mut metric, family.kind, value)?;
                } else {
                    encode_value(&mut metric.encode_family(labels)?, family.kind, value)?;
                }
            }
        }
        Ok(())
    }
}

fn encode_value(sample: &mut MetricEncoder<'_>, kind: Kind, value: &Measured) -> std::fmt::Result {
    match value {
        Measured::Number(number) if kind == Kind::Counter => {
            sample.encode_counter(number, None::<&Exemplar<NoLabelSet, f64>>)
        }
        Measured::Number(number) => sample.encode_gauge(number),
        Measured::Histogram { sum, count, buckets } => {
            sample.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}

fn in_older_form(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let described = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
        let Some((name, help)) = described else {
            if line != "# EOF" {
                out.push_str(line);
                out.push('\n');
            }
            continue;
        };
        let is_counter = lines
            .peek()
            .and_then(|next| next.strip_prefix("# TYPE ")?.strip_prefix(name))
            .is_some_and(|kind| kind == " counter");
        // Writing to a String cannot fail.
        if is_counter {
            lines.next();
            let _ = writeln!(out, "# HELP {name}_total {help}\n# TYPE {name}_total counter");
        } else {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_openmetrics_gets_it() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(Form::accepted(Some(prometheus.as_bytes())), Form::OpenMetrics);
        assert_eq!(Form::accepted(Some(b"*/*")), Form::Prometheus);
        assert_eq!(Form::accepted(None), Form::Prometheus);
    }

    #[test]
    fn counters_in_both_forms() {
        let replies = Replies {
            info: "# Stats\r\ntotal_commands_processed:7\r\nkeyspace_hits:2\r\n".to_owned(),
            ..Replies::default()
        };
        let open = exposition(&replies, Form::OpenMetrics);
        assert!(open.ends_with("# EOF\n"));
        assert!(
            open.contains("# TYPE redis_commands_processed counter\nredis_commands_processed_total 7.0\n"),
            "{open}"
        );
        let older = exposition(&replies, Form::Prometheus);
        assert!(!older.contains("# EOF"));
        assert!(
            older.contains(
                "# TYPE redis_commands_processed_total counter\nredis_commands_processed_total 7.0\n"
            )
        );
        assert!(older.contains("# HELP redis_commands_processed_total "));
    }
}
