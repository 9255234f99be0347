//! What `--sizing` prints.

use std::cmp::Reverse;

use super::estimate::{Database, Estimate, Group, Refused, Sizes};
use crate::statistics::human_bytes;

/// A sum whose error may exceed this is marked.
const MARGIN_PERCENT_MAX: f64 = 5.0;

/// A larger part of what is used that is not in the sums is pointed out.
const UNEXPLAINED_SHARE_MAX: f64 = 0.1;

/// What the report says beside the sizes.
pub struct About {
    /// The server that was asked, by name and version, and where.
    pub there: String,
    pub here_version: String,
    pub there_used_bytes: Option<u64>,
    pub read_bytes: u64,
    /// The options that decide how collections are stored were read there.
    pub has_options: bool,
    /// No pattern or type was given.
    pub is_of_all_keys: bool,
    pub was_interrupted: bool,
}

fn human(bytes: f64) -> String {
    human_bytes(bytes.round() as i64)
}

fn ratio(there: f64, here: f64) -> String {
    if there > 0.0 { format!("{:.2}", here / there) } else { "-".to_owned() }
}

/// A number with its thousands set off.
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
        "# What the data of {} would take in Warmline {}\n\nSampled {} of {} keys, for which {} were read.\n",
        about.there,
        about.here_version,
        grouped(sampled),
        grouped(keys),
        human(about.read_bytes as f64)
    );
    if about.was_interrupted {
        out += "Interrupted: only what was met until then is counted.\n";
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

/// The sampled keys by type and encoding, the largest first.
fn groups(groups: &[Group]) -> String {
    let mut out = format!(
        "\n{:<10} {:<12} {:>11} {:>13} {:>12} {:>12} {:>6}\n",
        "Type", "Encoding", "Keys", "Elements", "Bytes there", "Bytes here", "Ratio"
    );
    let mut groups: Vec<&Group> = groups.iter().collect();
    groups.sort_by_key(|group| Reverse(group.there_bytes));
    for group in groups {
        let (there, here) = (group.there_bytes as f64, group.here_bytes as f64);
        out += &format!(
            "{:<10} {:<12} {:>11} {:>13} {:>12} {:>12} {:>6}\n",
            group.type_name,
            group.encoding,
            grouped(group.keys),
            group.elements.map_or("-".to_owned(), grouped),
            human(there),
            human(here),
            ratio(there, here)
        );
    }
    out
}

/// All keys of each database, tables of keys included.
fn databases(databases: &[Database]) -> String {
    let mut out = format!(
        "\n{:<10} {:>13} {:>11} {:>8} {:>12} {:>12} {:>6} {:>6}\n",
        "Database", "Keys", "Sampled", "Share", "Bytes there", "Bytes here", "+- 95%", "Ratio"
    );
    let mut line = |name: String, keys: u64, sampled: u64, there: Estimate, here: Estimate| {
        out += &format!(
            "{name:<10} {:>13} {:>11} {:>7.2}% {:>12} {:>12} {:>5.1}% {:>6}\n",
            grouped(keys),
            grouped(sampled),
            100.0 * (sampled as f64 / keys.max(1) as f64).min(1.0),
            human(there.sum),
            human(here.sum),
            here.margin_percent(),
            ratio(there.sum, here.sum)
        );
    };
    let mut all = (0_u64, 0, Estimate::default(), Estimate::default());
    for database in databases {
        let (there, here) = (database.there(), database.here());
        line(format!("db{}", database.number), database.keys, database.sampled(), there, here);
        (all.0, all.1) = (all.0.saturating_add(database.keys), all.1 + database.sampled());
        all.2.add(there);
        all.3.add(here);
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
            "\nLeft out of the sums: keys of type {}, {:.2}% of those sampled ({} there); the first was refused with: {}\n",
            refused.type_name,
            100.0 * refused.keys as f64 / sampled as f64,
            human(refused.there_bytes as f64),
            refused.reason
        );
    }
    out
}

fn notes(sizes: &Sizes, about: &About) -> String {
    let mut out = String::from("\n");
    let (mut there, mut here) = (0.0, 0.0);
    for database in &sizes.databases {
        (there, here) = (there + database.there().sum, here + database.here().sum);
    }
    if let Some(used) = about.there_used_bytes.map(|bytes| bytes as f64).filter(|_| about.is_of_all_keys) {
        out += &format!(
            "used_memory there is {}, with all that is no key; in the same ratio that is {} here.\n",
            human(used),
            human(used * here / f64::max(there, 1.0))
        );
        if used > there * (1.0 + UNEXPLAINED_SHARE_MAX) {
            out += "That is more than the sums: keys that are much larger than all others were not met (--memkeys finds \
                    them), or it is none of keys.\n";
        }
    }
    out += if about.has_options {
        "Collections are stored as the options there say (hash-max-listpack-entries and its like).\n"
    } else {
        "Collections are stored as Warmline's options say; those of the server could not be read.\n"
    };
    let is_vague = |database: &Database| database.here().margin_percent() > MARGIN_PERCENT_MAX;
    if sizes.databases.iter().any(is_vague) {
        out += "Keys differ much in size: with a larger --sizing-samples the sum is nearer.\n";
    }
    out + "On top come clients, replication and holes: see docs/sizing.md.\n"
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
            (database.keys, database.there_table_bytes, database.here_table_bytes) = (2000, 48, 20_000.0);
            sizes.databases.push(database);
            sizes.add(&key("hash", 1000), &Measured::Bytes(400));
            sizes.add(&key("string", 100), &Measured::Bytes(90));
            sizes.add(&key("string", 1), &Measured::Gone);
        }
        sizes.add(&key("MBbloom--", 5000), &Measured::Refused("ERR Bad data format".to_owned()));
        let about = About {
            there: "valkey 9.1.2 at 127.0.0.1:6379".to_owned(),
            here_version: "0.1.0".to_owned(),
            there_used_bytes: Some(3 << 20),
            read_bytes: 2048,
            has_options: true,
            is_of_all_keys: true,
            was_interrupted: false,
        };
        let text = text(&sizes, &about);
        for line in [
            "# What the data of valkey 9.1.2 at 127.0.0.1:6379 would take in Warmline 0.1.0",
            "Sampled 5 of 4,000 keys, for which 2.00K were read.",
            "hash       listpack               2             6        1.95K         800B   0.40",
            "string     listpack               2             -         200B         180B   0.90",
            "db0                2,000           2    0.10%        1.05M      498.05K 119.1%   0.46",
            "Left out of the sums: keys of type MBbloom--, 20.00% of those sampled (4.88K there); the first was refused with: \
             ERR Bad data format",
            "used_memory there is 3.00M, with all that is no key; in the same ratio that is 1.40M here.",
            "Keys differ much in size: with a larger --sizing-samples the sum is nearer.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("\nall                4,000           5 "), "{text}");
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
