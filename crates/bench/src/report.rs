//! What a test found, in three forms.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;

pub struct Outcome<'a> {
    pub title: &'a str,
    pub elapsed: Duration,
    pub commands: u64,
    pub latencies: &'a Histogram<u64>,
}

/// How the test was run, for the long form.
pub struct Circumstances {
    pub clients: u32,
    pub data_len: usize,
    pub keep_alive: bool,
    pub pipeline: u32,
    pub threads: u32,
    pub precision: usize,
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

pub const CSV_HEADING: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                               \"p99_latency_ms\",\"max_latency_ms\"";

impl Outcome<'_> {
    pub fn per_second(&self) -> f64 {
        self.commands as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn percentile(&self, percentile: f64) -> f64 {
        milliseconds(self.latencies.value_at_percentile(percentile))
    }

    /// Mean, least, median, 95th and 99th percentile, greatest, in milliseconds.
    fn summary(&self) -> [f64; 6] {
        let latencies = self.latencies;
        [
            latencies.mean() / 1e6,
            milliseconds(latencies.min()),
            self.percentile(50.0),
            self.percentile(95.0),
            self.percentile(99.0),
            milliseconds(latencies.max()),
        ]
    }

    pub fn quiet(&self, precision: usize) -> String {
        let (title, rate, median) = (self.title, self.per_second(), self.percentile(50.0));
        format!("{title}: {rate:.2} requests per second, p50={median:.precision$} msec")
    }

    pub fn csv(&self, precision: usize) -> String {
        let figures = self.summary().map(|figure| format!("\"{figure:.precision$}\""));
        format!("\"{}\",\"{:.2}\",{}", self.title, self.per_second(), figures.join(","))
    }

    pub fn long(&self, circumstances: &Circumstances) -> String {
        let Circumstances { clients, data_len, keep_alive, pipeline, threads, precision } = circumstances;
        let precision = *precision;
        let mut out = format!("====== {} ======\n", self.title);
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        line(format!("  {} requests completed in {:.2} seconds", self.commands, self.elapsed.as_secs_f64()));
        line(format!("  {clients} parallel clients"));
        line(format!("  {data_len} bytes payload"));
        line(format!("  keep alive: {}", u8::from(*keep_alive)));
        line(format!("  pipeline: {pipeline}"));
        line(format!("  threads: {threads}"));
        line(String::new());
        line("Latency by percentile distribution:".to_string());
        for (percentile, value) in self.percentiles() {
            let count = self.latencies.count_between(0, value);
            let value = milliseconds(value);
            line(format!("{percentile:.3}% <= {value:.precision$} milliseconds (cumulative count {count})"));
        }
        line(String::new());
        line("Summary:".to_string());
        line(format!("  throughput summary: {:.2} requests per second", self.per_second()));
        line("  latency summary (msec):".to_string());
        let columns =
            |cells: [String; 6]| cells.iter().fold("  ".to_string(), |row, cell| format!("{row} {cell:>9}"));
        line(columns(["avg", "min", "p50", "p95", "p99", "max"].map(str::to_string)));
        line(columns(self.summary().map(|figure| format!("{figure:.precision$}"))));
        out
    }

    /// Percentiles that each halve what is left above them, up to the greatest value.
    fn percentiles(&self) -> Vec<(f64, u64)> {
        let mut out = vec![(0.0, self.latencies.min())];
        let mut above = 50.0;
        while out.last().is_some_and(|&(_, value)| value < self.latencies.max()) && above > 1e-6 {
            out.push((100.0 - above, self.latencies.value_at_percentile(100.0 - above)));
            above /= 2.0;
        }
        out.push((100.0, self.latencies.max()));
        out
    }
}

/// The line that is shown while a test runs.
pub fn progress(
    title: &str,
    elapsed: Duration,
    finished: u64,
    since_last: Duration,
    finished_since: u64,
) -> String {
    let mut out = format!("{title}: ");
    let now = finished_since as f64 / since_last.as_secs_f64().max(1e-9);
    let overall = finished as f64 / elapsed.as_secs_f64().max(1e-9);
    let _infallible = write!(out, "rps={now:.1} (overall: {overall:.1}) {finished} requests");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_from_the_histogram() {
        let mut latencies = crate::load::new_histogram();
        for microseconds in 1..=1000 {
            latencies.record(microseconds * 1000).unwrap();
        }
        let outcome =
            Outcome { title: "GET", elapsed: Duration::from_secs(2), commands: 1000, latencies: &latencies };
        assert_eq!(outcome.quiet(3), "GET: 500.00 requests per second, p50=0.500 msec");
        let csv = outcome.csv(1);
        assert_eq!(csv, "\"GET\",\"500.00\",\"0.5\",\"0.0\",\"0.5\",\"1.0\",\"1.0\",\"1.0\"");
        assert_eq!(csv.split(',').count(), CSV_HEADING.split(',').count());
        let percentiles = outcome.percentiles();
        assert!(percentiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        let circumstances = Circumstances {
            clients: 1,
            data_len: 3,
            keep_alive: true,
            pipeline: 1,
            threads: 1,
            precision: 3,
        };
        let long = outcome.long(&circumstances);
        assert!(long.contains("50.000% <= 0.500 milliseconds (cumulative count 500)"), "{long}");
    }
}
