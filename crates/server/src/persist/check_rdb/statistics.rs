//! Statistics of a file by database and type: number of keys, elements per key, and sizes.

use super::Format;
use crate::db::Kind;
use crate::db::rdb::ReadValue;
use hdrhistogram::Histogram;
use std::fmt::Write;

/// Names of types by number.
const TYPES: [&str; TYPES_LEN] = {
    let mut names = ["module"; TYPES_LEN];
    let mut kinds = Kind::ALL;
    while let [kind, others @ ..] = kinds {
        names[kind.number() as usize] = kind.name();
        kinds = others;
    }
    names
};
const TYPES_LEN: usize = {
    let (mut len, mut kinds) = (0, Kind::ALL);
    while let [kind, others @ ..] = kinds {
        if len <= kind.number() as usize {
            len = kind.number() as usize + 1;
        }
        kinds = others;
    }
    len
};
const FIELDS: [&str; 18] = [
    "type.name",
    "keys.total",
    "expire_keys.total",
    "already_expired.total",
    "keys.size",
    "keys.value_size",
    "elements.total",
    "elements.size",
    "elements.num.max",
    "elements.num.avg",
    "elements.num.p99",
    "elements.num.p90",
    "elements.num.p50",
    "elements.size.max",
    "elements.size.avg",
    "elements.size.p99",
    "elements.size.p90",
    "elements.size.p50",
];
/// Significant digits of percentiles.
const DIGITS: u8 = 3;

/// The keys of one type in one database. Sizes are in bytes.
struct OfType {
    keys: u64,
    expiring: u64,
    expired: u64,
    key_bytes: u64,
    element_counts: Histogram<u64>,
    element_bytes: Histogram<u64>,
    /// Exact sums and extremes; the histograms are not.
    elements: u64,
    elements_max: u64,
    bytes: u64,
    bytes_max: u64,
}

impl OfType {
    fn new() -> Self {
        let histogram = || Histogram::new(DIGITS).expect("the number of digits is allowed");
        OfType {
            keys: 0,
            expiring: 0,
            expired: 0,
            key_bytes: 0,
            element_counts: histogram(),
            element_bytes: histogram(),
            elements: 0,
            elements_max: 0,
            bytes: 0,
            bytes_max: 0,
        }
    }

    fn add_element(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.bytes += bytes;
        self.bytes_max = self.bytes_max.max(bytes);
        self.element_bytes.saturating_record(bytes);
    }

    fn add_count(&mut self, elements: usize) {
        let elements = elements as u64;
        self.elements += elements;
        self.elements_max = self.elements_max.max(elements);
        self.element_counts.saturating_record(elements);
    }

    fn field(&self, name: &str) -> String {
        let mean = |sum: u64, count: u64| format!("{:.2}", sum as f64 / count.max(1) as f64);
        let percentile = |histogram: &Histogram<u64>, digits: &str| {
            let percent: f64 = digits.parse().unwrap_or(0.0);
            format!("{:.2}", histogram.value_at_quantile(percent / 100.0) as f64)
        };
        match name {
            "keys.total" => self.keys.to_string(),
            "expire_keys.total" => self.expiring.to_string(),
            "already_expired.total" => self.expired.to_string(),
            "keys.size" => self.key_bytes.to_string(),
            "keys.value_size" | "elements.size" => self.bytes.to_string(),
            "elements.total" => self.elements.to_string(),
            "elements.num.max" => self.elements_max.to_string(),
            "elements.num.avg" => mean(self.elements, self.keys),
            "elements.size.max" => self.bytes_max.to_string(),
            "elements.size.avg" => mean(self.bytes, self.elements),
            name => match name.strip_prefix("elements.num.p") {
                Some(digits) => percentile(&self.element_counts, digits),
                None => percentile(&self.element_bytes, name.strip_prefix("elements.size.p").unwrap_or("0")),
            },
        }
    }
}

/// Rows of types for each database up to the last with keys.
#[derive(Default)]
pub struct Statistics {
    databases: Vec<[OfType; TYPES.len()]>,
}

impl Statistics {
    /// Counts a key.
    pub fn add(
        &mut self,
        db_index: usize,
        key: &[u8],
        value: &ReadValue,
        expiry_ms: Option<i64>,
        now_ms: i64,
    ) {
        let Some(kind) = value.kind() else { return };
        self.make_room(db_index);
        let of_type = &mut self.databases[db_index][usize::from(kind.number())];
        of_type.keys += 1;
        of_type.key_bytes += key.len() as u64;
        of_type.expiring += u64::from(expiry_ms.is_some());
        of_type.expired += u64::from(expiry_ms.is_some_and(|expiry_ms| expiry_ms < now_ms));
        add_value(of_type, value);
    }

    fn make_room(&mut self, db_index: usize) {
        while self.databases.len() <= db_index {
            self.databases.push(std::array::from_fn(|_| OfType::new()));
        }
    }

    /// The report's text.
    pub fn describe(&self, format: Format) -> String {
        let none = Statistics { databases: vec![std::array::from_fn(|_| OfType::new())] };
        let databases = if self.databases.is_empty() { &none.databases } else { &self.databases };
        let mut text = String::new();
        for (db_index, types) in databases.iter().enumerate() {
            for field in FIELDS {
                let value = |index: usize| match field {
                    "type.name" => TYPES[index].to_owned(),
                    field => types[index].field(field),
                };
                let name = format!("db.{db_index}.{field}");
                let values = (0..TYPES.len()).map(value);
                match format {
                    Format::Info if field == "type.name" => {}
                    Format::Info => {
                        for (of_type, value) in TYPES.iter().zip(values) {
                            let _ = writeln!(text, "[info] db.{db_index}.type.{of_type}.{field}:{value}");
                        }
                    }
                    Format::Table => {
                        let columns: String = values.map(|value| format!("\t{value:<5}")).collect();
                        let _ = writeln!(text, "{name:<30}{columns}");
                    }
                    Format::Csv => {
                        let columns: String = values.map(|value| format!(",{value}")).collect();
                        let _ = writeln!(text, "{name}{columns}");
                    }
                }
            }
        }
        text
    }
}

fn add_value(of_type: &mut OfType, value: &ReadValue) {
    match value {
        ReadValue::Integer(n) => add_string(of_type, wire::number::i64_text(*n).len()),
        ReadValue::Bytes(bytes) => add_string(of_type, bytes.len()),
        ReadValue::Object(object) => {
            object.for_each_element_len(&mut |bytes| of_type.add_element(bytes));
            of_type.add_count(object.elements().unwrap_or(1));
        }
        ReadValue::Empty | ReadValue::AllExpired => {}
    }
}

fn add_string(of_type: &mut OfType, bytes: usize) {
    of_type.add_element(bytes);
    of_type.add_count(1);
}
