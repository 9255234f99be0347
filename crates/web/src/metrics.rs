//! The server's figures in the text forms of Prometheus and OpenMetrics.
//!
//! `prometheus-client` writes OpenMetrics 1.0. The older form of Prometheus differs in two things: the name of a counter
//! ends in `_total` in its HELP and TYPE lines too, and nothing marks the end.

use std::borrow::Cow;
use std::fmt::Write as _;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use wire::response::Value;

use crate::info;

/// Which of the two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    /// By what a request says it accepts: OpenMetrics for those who name it.
    pub fn accepted(header: Option<&[u8]>) -> Self {
        let named =
            |types: &[u8]| types.windows(OPENMETRICS.len()).any(|part| part == OPENMETRICS.as_bytes());
        if header.is_some_and(named) { Form::OpenMetrics } else { Form::Prometheus }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

const OPENMETRICS: &str = "application/openmetrics-text";

/// All of INFO but percentiles of latencies, which cost as much as the rest together: histograms say more. In parts, because
/// a command of more than ten words closes a connection that is not authenticated.
const INFO: [&[&str]; 2] = [
    &["INFO", "server", "tls", "clients", "memory", "persistence", "threads", "stats"],
    &["INFO", "replication", "cpu", "commandstats", "errorstats", "cluster", "scriptingengines", "keyspace"],
];

/// How many of [`commands`] are INFO: the first ones.
pub const INFO_PARTS: usize = INFO.len();

/// What the server is asked for, in this order.
pub fn commands() -> Vec<Vec<&'static str>> {
    let others: [&[&str]; 3] = [&["LATENCY", "HISTOGRAM"], &["SLOWLOG", "LEN"], &["SLOWLOG", "GET", "1"]];
    INFO.iter().chain(&others).map(|words| words.to_vec()).collect()
}

/// What it answered; `None`: the user may not ask.
#[derive(Debug, Default)]
pub struct Replies {
    pub info: String,
    pub histograms: Option<Value>,
    pub slow_len: Option<Value>,
    pub slow_last: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// All samples of one name. A counter's name stands here without `_total`.
#[derive(Debug)]
pub struct Family {
    pub name: Cow<'static, str>,
    pub kind: Kind,
    pub help: Cow<'static, str>,
    pub samples: Vec<Sample>,
}

#[derive(Debug)]
pub struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub value: Measured,
}

#[derive(Debug)]
pub enum Measured {
    Number(f64),
    Histogram {
        sum: f64,
        count: u64,
        /// Upper bounds, rising, and how many lie between each and the one before.
        buckets: Vec<(f64, u64)>,
    },
}

/// The whole answer to a scrape.
pub fn exposition(replies: &Replies, form: Form) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(info::families(replies))));
    let mut text = String::new();
    // Writing to a String cannot fail, and neither can anything else that is encoded here.
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
