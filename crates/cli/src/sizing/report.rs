//! The report of `--sizing`.

use std::cmp::Reverse;

use super::estimate::{Database, Estimate, Group, Refused, Sizes};
use crate::statistics::human_bytes;

/// Margin beyond which the report recommends a larger sample.
const MARGIN_PERCENT_MAX: f64 = 5.0;

/// Share of `used_memory` outside the sums beyond which the report names possible causes.
const UNEXPLAINED_SHARE_MAX: f64 = 0.1;

/// Facts in the report besides the sizes.
pub struct About {
    /// Name, version and address of the source.
    pub source: String,
    pub own_version: String,
    pub source_used_bytes: Option<u64>,
    pub read_bytes: u64,
    /// The source's options of encodings could be read.
    pub has_options: bool,
    /// No pattern or type was given.
    pub is_of_all_keys: bool,
    pub was_interrupted: bool,
}

fn human(bytes: f64) -> String {
    human_bytes(bytes.round() as i64)
}

fn ratio(source: f64, own: f64) -> String {
    if source > 0.0 { format!("{:.2}", own / source) } else { "-".to_owned() }
}

/// Formats a number with thousands separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub fn text(sizes: &Sizes, about: &About) -> String {
    let sampled: u64 = sizes.databases.iter().map(Database::sampled).sum();
    let keys = sizes.databases.iter().map(|database| database.keys).fold(0, u64::saturating_add);
    let mut out = format!(
        "# Memory of {} in Warmline {}\n\nSampled {} of {} keys; read {} of values.\n",
        about.source,
        about.own_version,
        grouped(sampled),
        grouped(keys),
        human(about.read_bytes as f64)
    );
    if about.was_interrupted {
        out += "Interrupted: the report covers the keys sampled so far.\n";
    }
    if sampled == 0 {
        return out;
    }
    out += &groups(&sizes.groups);
    out += &databases(&sizes.databases);
    out += &refusals(&sizes.refused, sampled);
    out += &notes(sizes, about);
    out
}

/// Formats the sampled keys by type and encoding, the largest first.
fn groups(groups: &[Group]) -> String {
    let mut out = format!(
        "\n{:<10} {:<12} {:>11} {:>13} {:>12} {:>12} {:>6}\n",
        "Type", "Encoding", "Keys", "Elements", "Source", "Warmline", "Ratio"
    );
    let mut groups: Vec<&Group> = groups.iter().collect();
    groups.sort_by_key(|group| Reverse(group.source_bytes));
    for group in groups {
        let (source, own) = (group.source_bytes as f64, group.own_bytes as f64);
        out += &format!(
            "{:<10} {:<12} {:>11} {:>13} {:>12} {:>12} {:>6}\n",
            group.type_name,
            group.encoding,
            grouped(group.keys),
            group.elements.map_or("-".to_owned(), grouped),
            human(source),
            human(own),
            ratio(source, own)
        );
    }
    out
}

/// Formats the estimates for all keys of each database, tables of keys included.
fn databases(databases: &[Database]) -> String {
    let mut out = format!(
        "\n{:<10} {:>13} {:>11} {:>8} {:>12} {:>12} {:>6} {:>6}\n",
        "Database", "Keys", "Sampled", "Share", "Source", "Warmline", "+- 95%", "Ratio"
    );
    let mut line = |name: String, keys: u64, sampled: u64, source: Estimate, own: Estimate| {
        out += &format!(
            "{name:<10} {:>13} {:>11} {:>7.2}% {:>12} {:>12} {:>5.1}% {:>6}\n",
            grouped(keys),
            grouped(sampled),
            100.0 * (sampled as f64 / keys.max(1) as f64).min(1.0),
            human(source.sum),
            human(own.sum),
            own.margin_percent(),
            ratio(source.sum, own.sum)
        );
    };
    let mut all = (0_u64, 0, Estimate::default(), Estimate::default());
    for database in databases {
        let (source, own) = (database.source(), database.own());
        line(format!("db{}", database.number), database.keys, database.sampled(), source, own);
        (all.0, all.1) = (all.0.saturating_add(database.keys), all.1 + database.sampled());
        all.2.add(source);
        all.3.add(own);
    }
    if databases.len() > 1 {
        line("all".to_owned(), all.0, all.1, all.2, all.3);
    }
    out
}

fn refusals(refused: &[Refused], sampled: u64) -> String {
    let mut out = String::new();
    for refused in refused {
        out += &format!(
            "\nNot in the sums: keys of type {}, {:.2}% of the sample ({} in the source); error of the first key: {}\n",
            refused.type_name,
            100.0 * refused.keys as f64 / sampled as f64,
            human(refused.source_bytes as f64),
            refused.reason
        );
    }
    out
}

fn notes(sizes: &Sizes, about: &About) -> String {
    let mut out = String::from("\n");
    let (mut source, mut own) = (0.0, 0.0);
    for database in &sizes.databases {
        (source, own) = (source + database.source().sum, own + database.own().sum);
    }
    if let Some(used) = about.source_used_bytes.map(|bytes| bytes as f64).filter(|_| about.is_of_all_keys) {
        out += &format!(
            "used_memory of the source is {}, including memory other than keys; at the same ratio, {} in Warmline.\n",
            human(used),
            human(used * own / f64::max(source, 1.0))
        );
        if used > source * (1.0 + UNEXPLAINED_SHARE_MAX) {
            out += "It exceeds the sums: a few large keys may be outside the sample (--memkeys finds them), or memory other \
            than keys is large.\n";
        }
    }
    out += if about.has_options {
        "Encodings follow the source's options, such as hash-max-listpack-entries.\n"
    } else {
        "Encodings follow Warmline's default options; the source's options could not be read.\n"
    };
    let is_vague = |database: &Database| database.own().margin_percent() > MARGIN_PERCENT_MAX;
    if sizes.databases.iter().any(is_vague) {
        out += "Sizes vary widely: a larger --sizing-samples narrows the interval.\n";
    }
    out + "Not included: clients, replication and fragmentation; see docs/sizing.md.\n"
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Measured, SampledKey};
    use super::*;

    fn key(type_name: &str, bytes: u64) -> SampledKey {
        let (type_name, encoding) = (type_name.to_owned(), "listpack".to_owned());
        SampledKey { name: b"k".to_vec(), type_name, encoding, len: Some(3), bytes, expires: false }
    }

    #[test]
    fn tables_say_what_was_measured() {
        let mut sizes = Sizes::default();
        for number in [0, 5] {
            let mut database = Database::new(number);
            (database.keys, database.source_table_bytes, database.own_table_bytes) = (2000, 48, 20_000.0);
            sizes.databases.push(database);
            sizes.add(&key("hash", 1000), &Measured::Bytes(400));
            sizes.add(&key("string", 100), &Measured::Bytes(90));
            sizes.add(&key("string", 1), &Measured::Gone);
        }
        sizes.add(&key("MBbloom--", 5000), &Measured::Refused("ERR Bad data format".to_owned()));
        let about = About {
            source: "valkey 9.1.2 at 127.0.0.1:6379".to_owned(),
            own_version: "0.1.0".to_owned(),
            source_used_bytes: Some(3 << 20),
            read_bytes: 2048,
            has_options: true,
            is_of_all_keys: true,
            was_interrupted: false,
        };
        let text = text(&sizes, &about);
        for line in [
            "# Memory of valkey 9.1.2 at 127.0.0.1:6379 in Warmline 0.1.0",
            "Sampled 5 of 4,000 keys; read 2.00K of values.",
            "hash       listpack               2             6        1.95K         800B   0.40",
            "string     listpack               2             -         200B         180B   0.90",
            "db0                2,000           2    0.10%        1.05M      498.05K 119.1%   0.46",
            "Not in the sums: keys of type MBbloom--, 20.00% of the sample (4.88K in the source); error of the first key: \
             ERR Bad data format",
            "used_memory of the source is 3.00M, including memory other than keys; at the same ratio, 1.40M in Warmline.",
            "Sizes vary widely: a larger --sizing-samples narrows the interval.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("\nall                4,000           5 "), "{text}");
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
