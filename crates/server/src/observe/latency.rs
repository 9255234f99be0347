//! Latency spikes: events that took longer than the threshold, by kind.

use std::collections::BTreeMap;
use wire::convert::usize_of;

/// Samples kept of one event.
const SAMPLES: usize = 160;

/// The worst spike of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spike {
    /// Time of the spike.
    pub unix_s: i64,
    /// Duration of the spike.
    pub latency_ms: u64,
}

/// The history of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Oldest first, one per second with a spike.
    spikes: std::collections::VecDeque<Spike>,
    /// The longest spike.
    pub max_ms: u64,
    /// Sum of all spikes.
    pub sum_ms: u64,
    /// Number of spikes.
    pub count: u64,
}

/// Statistics of the kept spikes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of spikes.
    pub spikes: usize,
    /// Mean duration.
    pub mean_ms: u64,
    /// The shortest spike.
    pub min_ms: u64,
    /// The longest spike.
    pub max_ms: u64,
    /// Mean distance from the mean.
    pub deviation_ms: u64,
    /// Average time between two spikes.
    pub period_s: f64,
}

impl Event {
    fn note(&mut self, spike: Spike) {
        self.max_ms = self.max_ms.max(spike.latency_ms);
        self.sum_ms += spike.latency_ms;
        self.count += 1;
        match self.spikes.back_mut() {
            Some(last) if last.unix_s == spike.unix_s => {
                last.latency_ms = last.latency_ms.max(spike.latency_ms)
            }
            _ => {
                if self.spikes.len() == SAMPLES {
                    self.spikes.pop_front();
                }
                self.spikes.push_back(spike);
            }
        }
    }

    /// Returns the spikes, oldest first.
    pub fn spikes(&self) -> impl DoubleEndedIterator<Item = Spike> + ExactSizeIterator {
        self.spikes.iter().copied()
    }

    /// Returns the latest spike.
    pub fn latest(&self) -> Spike {
        *self.spikes.back().expect("an event has at least one spike")
    }

    /// Computes the statistics of the kept spikes.
    pub fn summary(&self, now_s: i64) -> Summary {
        let count = self.spikes.len() as u64;
        let latencies = || self.spikes.iter().map(|spike| spike.latency_ms);
        let mean_ms = latencies().sum::<u64>() / count;
        let first_s = self.spikes.front().map_or(now_s, |spike| spike.unix_s);
        Summary {
            spikes: self.spikes.len(),
            mean_ms,
            min_ms: latencies().min().unwrap_or(0),
            max_ms: latencies().max().unwrap_or(0),
            deviation_ms: latencies().map(|ms| ms.abs_diff(mean_ms)).sum::<u64>() / count,
            period_s: (now_s - first_s).max(1) as f64 / count as f64,
        }
    }
}

/// All events. Their kinds are few and fixed, so the table cannot grow without bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyMonitor {
    events: BTreeMap<&'static str, Event>,
}

impl LatencyMonitor {
    /// Records that `event` took `elapsed_us`, if that reaches the threshold; a threshold of 0 is off.
    #[inline]
    pub fn note(&mut self, event: &'static str, elapsed_us: u64, threshold_ms: u64, unix_s: i64) {
        if threshold_ms != 0 && elapsed_us >= threshold_ms.saturating_mul(1000) {
            self.events.entry(event).or_default().note(Spike { unix_s, latency_ms: elapsed_us / 1000 });
        }
    }

    /// Returns the event of this name, if it had a spike.
    pub fn event(&self, name: &[u8]) -> Option<(&'static str, &Event)> {
        self.iter().find(|(event, _)| event.as_bytes() == name)
    }

    /// Iterates over the events by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.events.iter().map(|(name, event)| (*name, event))
    }

    /// Forgets one event, or all; returns how many were forgotten.
    pub fn reset(&mut self, name: Option<&[u8]>) -> usize {
        let before = self.events.len();
        self.events.retain(|event, _| name.is_some_and(|name| !event.as_bytes().eq_ignore_ascii_case(name)));
        before - self.events.len()
    }
}

/// Draws a bar chart of values, `width` columns to a line and `rows` high, with a vertical label below each bar.
pub fn graph(bars: &[(u64, String)], width: usize, rows: usize) -> String {
    bars.chunks(width).map(|line| graph_line(line, rows)).collect::<Vec<_>>().join("\n")
}

/// Fill characters of one row, from emptiest to fullest, a quarter of its height each.
const FILL: [char; 4] = ['_', 'o', '#', '#'];

fn graph_line(bars: &[(u64, String)], rows: usize) -> String {
    let max = bars.iter().map(|(value, _)| *value).max().unwrap_or(0).max(1);
    let min = bars.iter().map(|(value, _)| *value).min().unwrap_or(0);
    let steps = rows * 3;
    // The highest bar fills all steps, the lowest one.
    let heights = bars.iter().map(|(value, _)| {
        let range = (max - min).max(1);
        1 + usize_of((value - min) * (steps as u64 - 1) / range)
    });
    let heights: Vec<usize> = heights.collect();
    let mut text = String::new();
    for row in (0..rows).rev() {
        let cell = |height: &usize| match height.saturating_sub(row * 3) {
            0 if row > 0 => ' ',
            filled => FILL[filled.min(3)],
        };
        text.extend(heights.iter().map(cell));
        text.push('\n');
    }
    let depth = bars.iter().map(|(_, label)| label.len()).max().unwrap_or(0);
    text.push('\n');
    for at in 0..depth {
        text.extend(bars.iter().map(|(_, label)| label.chars().nth(at).unwrap_or(' ')));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeps_its_worst_spike() {
        let mut monitor = LatencyMonitor::default();
        monitor.note("command", 4_999, 5, 1);
        assert_eq!(monitor.iter().len(), 0);
        monitor.note("command", 5_000, 5, 1);
        monitor.note("command", 9_000, 5, 1);
        monitor.note("command", 7_000, 5, 2);
        let (_, event) = monitor.event(b"command").unwrap();
        assert_eq!(event.spikes().map(|s| (s.unix_s, s.latency_ms)).collect::<Vec<_>>(), [(1, 9), (2, 7)]);
        assert_eq!((event.max_ms, event.sum_ms, event.count), (9, 21, 3));
        assert_eq!(monitor.reset(Some(b"other")), 0);
        assert_eq!(monitor.reset(None), 1);
    }

    #[test]
    fn old_spikes_make_room() {
        let mut monitor = LatencyMonitor::default();
        for second in 0..200 {
            monitor.note("fork", 1_000, 1, second);
        }
        let (_, event) = monitor.event(b"fork").unwrap();
        assert_eq!(event.spikes().len(), SAMPLES);
        assert_eq!(event.latest().unix_s, 199);
    }

    #[test]
    fn bars_grow_with_their_values() {
        let bars = [(1, "5s".to_owned()), (10, "1s".to_owned())];
        assert_eq!(graph(&bars, 80, 2), " #\no#\n\n51\nss\n");
    }
}
