//! Results of a test in the formats of `valkey-benchmark`.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::run::{Measured, Progress};

/// Settings of the test, for the long format.
pub struct Circumstances<'a> {
    pub clients: usize,
    pub data_len: usize,
    pub keep_alive: bool,
    /// `None` is a single thread, the default.
    pub threads: Option<usize>,
    /// `save` and `appendonly` of the server.
    pub server: Option<&'a (String, String)>,
    /// Nodes of a cluster, and their role.
    pub cluster: Option<(usize, &'a str)>,
    /// The requested rate.
    pub rate: Option<f64>,
}

pub fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

pub const CSV_HEADING: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                               \"p99_latency_ms\",\"max_latency_ms\"";

/// Latencies up to this are listed in steps of 0.1 ms, longer ones in steps of 1 ms.
const FINE_STEPS_END_NS: u64 = 2_000_000;

impl Measured {
    pub fn per_second(&self) -> f64 {
        self.commands as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// In milliseconds.
    pub fn percentile(&self, percentile: f64) -> f64 {
        milliseconds(self.latencies.value_at_percentile(percentile))
    }

    /// Mean, minimum, median, 95th and 99th percentile, maximum, in milliseconds.
    fn summary(&self) -> [f64; 6] {
        let latencies = &self.latencies;
        [
            latencies.mean() / 1e6,
            milliseconds(latencies.min()),
            self.percentile(50.0),
            self.percentile(95.0),
            self.percentile(99.0),
            milliseconds(latencies.max()),
        ]
    }

    pub fn quiet(&self, title: &str) -> String {
        format!(
            "{title}: {:.2} requests per second, p50={:.3} msec",
            self.per_second(),
            self.percentile(50.0)
        )
    }

    pub fn csv(&self, title: &str) -> String {
        let figures = self.summary().map(|figure| format!("\"{figure:.3}\""));
        format!("\"{title}\",\"{:.2}\",{}", self.per_second(), figures.join(","))
    }

    /// Returns the long format.
    pub fn long(&self, title: &str, circumstances: &Circumstances<'_>) -> String {
        let mut lines = vec![format!("====== {title} ======")];
        let mut indented = |text: String| lines.push(format!("  {text}"));
        indented(format!(
            "{} requests completed in {:.2} seconds",
            self.commands,
            self.elapsed.as_secs_f64()
        ));
        indented(format!("{} parallel clients", circumstances.clients));
        indented(format!("{} bytes payload", circumstances.data_len));
        indented(format!("keep alive: {}", u8::from(circumstances.keep_alive)));
        if let Some((nodes, roles)) = circumstances.cluster {
            indented(format!("cluster mode: yes ({nodes} {roles})"));
        }
        if let Some((save, appendonly)) = circumstances.server {
            indented(format!("host configuration \"save\": {save}"));
            indented(format!("host configuration \"appendonly\": {appendonly}"));
        }
        indented(format!("multi-thread: {}", if circumstances.threads.is_some() { "yes" } else { "no" }));
        if let Some(threads) = circumstances.threads {
            indented(format!("threads: {threads}"));
        }
        if let Some(rate) = circumstances.rate {
            lines.extend(self.rate_lines(rate));
        }
        lines.push(String::new());
        lines.push("Latency by percentile distribution:".to_string());
        lines.extend(self.percentile_lines());
        lines.push(String::new());
        lines.push("Cumulative distribution of latencies:".to_string());
        lines.extend(cumulative_lines(&self.latencies));
        lines.push(String::new());
        lines.push("Summary:".to_string());
        lines.push(format!("  throughput summary: {:.2} requests per second", self.per_second()));
        lines.push("  latency summary (msec):".to_string());
        lines.extend(columns("    ", &self.summary()));
        lines.join("\n")
    }

    fn rate_lines(&self, rate: f64) -> Vec<String> {
        if self.rates.is_empty() {
            return Vec::new();
        }
        let mut sorted = self.rates.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let mut lines = vec![
            String::new(),
            "RPS Summary:".to_string(),
            format!("  target RPS: {rate:.2}"),
            "  RPS distribution (reqs/sec):".to_string(),
        ];
        lines.extend(columns("    ", &[mean, at(0), at(50), at(95), at(99), at(100)]));
        lines
    }

    /// Returns percentiles each of which halves the remainder, up to the maximum.
    fn percentile_lines(&self) -> Vec<String> {
        let (mut lines, mut cumulative, mut before) = (Vec::new(), 0, None);
        for step in self.latencies.iter_quantiles(1) {
            cumulative += step.count_since_last_iteration();
            if before.replace(cumulative) != Some(cumulative) || cumulative == self.latencies.len() {
                let percentile = step.quantile_iterated_to() * 100.0;
                lines.push(cumulative_line(percentile, step.value_iterated_to(), cumulative));
            }
        }
        lines
    }
}

fn cumulative_line(percentile: f64, value_ns: u64, cumulative: u64) -> String {
    format!("{percentile:.3}% <= {:.3} milliseconds (cumulative count {cumulative})", milliseconds(value_ns))
}

/// Returns the end of the step that a latency belongs to.
fn step_end_ns(latency_ns: u64) -> u64 {
    let step = if latency_ns <= FINE_STEPS_END_NS { 100_000 } else { 1_000_000 };
    latency_ns.max(1).next_multiple_of(step)
}

fn cumulative_lines(latencies: &Histogram<u64>) -> Vec<String> {
    let mut steps: Vec<(u64, u64)> = Vec::new();
    for recorded in latencies.iter_recorded() {
        let end = step_end_ns(latencies.lowest_equivalent(recorded.value_iterated_to()));
        match steps.last_mut() {
            Some((last_end, count)) if *last_end == end => *count += recorded.count_at_value(),
            _ => steps.push((end, recorded.count_at_value())),
        }
    }
    let mut cumulative = 0;
    let line = |(end, count): (u64, u64)| {
        cumulative += count;
        cumulative_line(cumulative as f64 / latencies.len() as f64 * 100.0, end, cumulative)
    };
    steps.into_iter().map(line).collect()
}

fn columns(indent: &str, figures: &[f64; 6]) -> [String; 2] {
    let row = |cells: Vec<String>| format!("{indent}{}", cells.join(" "));
    let names = ["avg", "min", "p50", "p95", "p99", "max"];
    [
        row(names.iter().map(|name| format!("{name:>9}")).collect()),
        row(figures.iter().map(|figure| format!("{figure:>9.3}")).collect()),
    ]
}

impl Progress {
    /// Returns the progress of a running test; `by_time`: the test is limited by time, not by requests.
    pub fn line(&self, title: &str, by_time: bool) -> String {
        let per_second = |commands: u64, elapsed: Duration| commands as f64 / elapsed.as_secs_f64().max(1e-6);
        let mean = |sum: u64, count: u64| sum as f64 / 1e6 / count.max(1) as f64;
        let mut out = if self.is_warming { "Warming up ".to_string() } else { String::new() };
        let _infallible = write!(
            out,
            "{title}: rps={:.1} (overall: {:.1}) avg_msec={:.3} (overall: {:.3})",
            per_second(self.recent_commands, self.recent_elapsed),
            per_second(self.commands, self.elapsed),
            mean(self.recent_latency_sum_ns, self.recent_commands),
            mean(self.latency_sum_ns, self.commands),
        );
        let _infallible = match self.is_warming || by_time {
            true => write!(out, " {:.1} seconds", self.elapsed.as_secs_f64()),
            false => write!(out, " {} requests", self.commands),
        };
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let mut latencies = crate::load::new_histogram(3);
        for microseconds in 1..=1000 {
            latencies.record(microseconds * 1000).unwrap();
        }
        Measured {
            elapsed: Duration::from_secs(2),
            commands: 1000,
            errors: 0,
            first_error: None,
            latencies,
            rates: vec![400.0, 600.0, 500.0],
        }
    }

    #[test]
    fn figures_come_from_the_histogram() {
        let measured = measured();
        assert_eq!(measured.quiet("GET"), "GET: 500.00 requests per second, p50=0.500 msec");
        let csv = measured.csv("GET");
        assert_eq!(csv, "\"GET\",\"500.00\",\"0.501\",\"0.001\",\"0.500\",\"0.950\",\"0.990\",\"1.000\"");
        assert_eq!(csv.split(',').count(), CSV_HEADING.split(',').count());
        let server = ("".to_string(), "no".to_string());
        let circumstances = Circumstances {
            clients: 1,
            data_len: 3,
            keep_alive: true,
            threads: Some(2),
            server: Some(&server),
            cluster: None,
            rate: Some(500.0),
        };
        let long = measured.long("GET", &circumstances);
        for line in [
            "====== GET ======",
            "  1000 requests completed in 2.00 seconds",
            "  host configuration \"appendonly\": no",
            "  threads: 2",
            "  target RPS: 500.00",
            "  500.000   400.000   500.000   500.000   500.000   600.000",
            "50.000% <= 0.500 milliseconds (cumulative count 500)",
            "100.000% <= 1.000 milliseconds (cumulative count 1000)",
            "20.000% <= 0.200 milliseconds (cumulative count 200)",
            "  throughput summary: 500.00 requests per second",
        ] {
            assert!(long.lines().any(|found| found.trim() == line.trim()), "{line} in {long}");
        }
    }

    #[test]
    fn steps_grow_behind_two_milliseconds() {
        assert_eq!(
            [1, 100_000, 100_001, 2_000_000, 2_000_001].map(step_end_ns),
            [100_000, 100_000, 200_000, 2_000_000, 3_000_000]
        );
    }
}
