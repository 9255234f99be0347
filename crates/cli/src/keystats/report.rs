//! The tables of `--keystats`.

use super::Statistics;
use crate::scan::shown;
use crate::statistics::human_bytes;

const BAR_LEN: usize = 60;
/// Number of distinct lengths of names.
const NAME_LENGTHS: [u64; 7] = [1 << 5, 1 << 8, 1 << 16, 1 << 20, 1 << 24, 1 << 27, 1 << 29];

fn human(bytes: u64) -> String {
    human_bytes(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// Histogram of the lengths of names.
#[derive(Default)]
pub struct NameLengths {
    counts: [u64; NAME_LENGTHS.len() + 1],
    total_bytes: u64,
    total: u64,
    max: u64,
}

impl NameLengths {
    pub fn add(&mut self, len: u64) {
        self.counts[NAME_LENGTHS.partition_point(|max| *max < len)] += 1;
        self.total += 1;
        self.total_bytes += len;
        self.max = self.max.max(len);
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            "Key name length Percentile Total keys".to_owned(),
            "--------------- ---------- -----------".to_owned(),
        ];
        let (mut so_far, percent) = (0, 100.0 / self.total.max(1) as f64);
        for (len, count) in NAME_LENGTHS.iter().zip(self.counts) {
            if count > 0 {
                so_far += count;
                let len = human(self.max.min(*len));
                lines.push(format!("{len:>15} {:>9.4}% {so_far:>11}", percent * so_far as f64));
            }
        }
        if so_far < self.total {
            lines.push(format!("{:>14} {:>9.4}% {:>11}", "inf", 100.0, self.total));
        }
        let mean = self.total_bytes.checked_div(self.total).map_or("0".to_owned(), human);
        lines.push(format!("Total key length is {} ({mean} avg)", human(self.total_bytes)));
        lines
    }
}

impl Statistics {
    /// Returns the tables that are printed during the scan and at its end.
    pub fn overview(&self, is_watched: bool) -> Vec<String> {
        let share = match self.total_keys {
            0 => 0.0,
            total => (self.sampled as f64 / total as f64).min(1.0),
        };
        let bar = if is_watched {
            let done = (BAR_LEN as f64 * share).round() as usize;
            format!("\x1b[32m{}\x1b[31m{}\x1b[39m", "|".repeat(done), "-".repeat(BAR_LEN - done))
        } else {
            "keys scanned".to_owned()
        };
        let mut lines = vec![
            format!("{:>6.2}% {bar}", share * 100.0),
            format!("Keys sampled: {}", self.sampled),
            format!("Keys size:    {}", human(self.total_bytes)),
            String::new(),
            format!("--- Top {} key sizes ---", self.top_len_max),
        ];
        for (index, key) in self.top.iter().enumerate() {
            let (size, name) = (human(key.size), shown(&key.key));
            lines.push(format!("{:>3} {size:>8} {:<10} {name}", index + 1, key.type_name));
        }
        lines.extend([String::new(), "--- Top size per type ---".to_owned()]);
        for found in &self.by_memory.0 {
            if let Some(key) = &found.biggest_key {
                lines.push(format!("{:<10} {} is {}", found.name, shown(key), human(found.biggest)));
            }
        }
        lines.extend([String::new(), "--- Top length and cardinality per type ---".to_owned()]);
        for found in &self.by_elements.0 {
            if let Some(key) = &found.biggest_key {
                let size = match found.unit {
                    "bytes" => human(found.biggest),
                    unit => format!("{} {unit}", found.biggest),
                };
                lines.push(format!("{:<10} {} has {size}", found.name, shown(key)));
            }
        }
        lines
    }

    /// Returns the tables that are printed only at the end.
    pub fn distributions(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        lines.extend(self.size_lines());
        lines.push(String::new());
        lines.extend(self.name_lengths.lines());
        lines.push(String::new());
        lines.extend(self.type_lines());
        lines
    }

    fn size_lines(&self) -> Vec<String> {
        let mut lines =
            vec!["Key size Percentile Total keys".to_owned(), "-------- ---------- -----------".to_owned()];
        let (mut so_far, mut shown_last) = (0, 0);
        for step in self.sizes.iter_quantiles(1) {
            so_far += step.count_since_last_iteration();
            if so_far == shown_last {
                continue;
            }
            let percentile =
                if so_far == self.sizes.len() { 100.0 } else { step.quantile_iterated_to() * 100.0 };
            let size = human(step.value_iterated_to());
            lines.push(format!("{size:>8} {percentile:>9.4}% {so_far:>11}"));
            shown_last = so_far;
        }
        lines.push(format!(
            "Note: 0.01% size precision, Mean: {}, StdDeviation: {}",
            human(self.sizes.mean() as u64),
            human(self.sizes.stdev() as u64)
        ));
        lines
    }

    fn type_lines(&self) -> Vec<String> {
        let mut lines = vec![
            "Type        Total keys  Keys % Tot size Avg size  Total length/card Avg ln/card".to_owned(),
            "--------- ------------ ------- -------- -------- ------------------ -----------".to_owned(),
        ];
        for (memory, elements) in self.by_memory.0.iter().zip(&self.by_elements.0) {
            if memory.keys == 0 {
                continue;
            }
            let mean = elements.total as f64 / memory.keys as f64;
            let (total, mean) = match elements.unit {
                _ if !elements.has_elements() => (" - ".to_owned(), " - ".to_owned()),
                "bytes" => (human(elements.total), human(mean.round() as u64)),
                unit => (format!("{} {unit}", elements.total), format!("{mean:.2}")),
            };
            lines.push(format!(
                "{:<10} {:>11} {:>6.2}% {:>8} {:>8} {total:>18} {mean:>11}",
                memory.name,
                memory.keys,
                100.0 * memory.keys as f64 / self.sampled.max(1) as f64,
                human(memory.total),
                human(memory.total / memory.keys),
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_say_what_was_met() {
        let mut statistics = Statistics::new(4, 2).unwrap();
        statistics.add(b"small", 0, 100, 3);
        statistics.add(b"large", 1, 5000, 40);
        statistics.add(&[b'x'; 300], 1, 2000, 4);
        let overview = statistics.overview(false).join("\n");
        assert!(
            overview.starts_with(" 75.00% keys scanned\nKeys sampled: 3\nKeys size:    6.93K\n"),
            "{overview}"
        );
        assert!(
            overview.contains("--- Top 2 key sizes ---\n  1    4.88K list       \"large\"\n  2    1.95K"),
            "{overview}"
        );
        assert!(
            overview.contains("string     \"small\" has 3B\nlist       \"large\" has 40 items"),
            "{overview}"
        );
        let rest = statistics.distributions().join("\n");
        assert!(
            rest.contains("    100B    0.0000%           1\n   1.95K   50.0000%           2\n"),
            "{rest}"
        );
        assert!(rest.contains("           300B  100.0000%           3\n"), "{rest}");
        assert!(
            rest.contains("list                 2  66.67%    6.84K    3.42K           44 items       22.00"),
            "{rest}"
        );
    }
}
