//! Extrapolation from the sample to all keys, with confidence intervals.

use super::sample::{Measured, SampledKey};

/// Half width of the 95 % confidence interval, in standard errors.
const NORMAL_95_PERCENT: f64 = 1.96;

/// Mean and variance of values added one by one (Welford's algorithm, which is stable for large values).
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

/// A sum with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    pub sum: f64,
    pub margin: f64,
}

impl Moments {
    pub fn add(&mut self, figure: f64) {
        self.count += 1;
        let distance = figure - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (figure - self.mean);
    }

    /// Returns the sum over a population, of which these values are a sample without replacement.
    pub fn total(&self, population: f64) -> Estimate {
        let count = self.count as f64;
        let left_out = (1.0 - count / population.max(1.0)).max(0.0);
        let variance = if self.count > 1 { self.squares / (count - 1.0) } else { 0.0 };
        let margin = NORMAL_95_PERCENT * population * (variance / count.max(1.0) * left_out).sqrt();
        Estimate { sum: self.mean * population, margin }
    }
}

impl Estimate {
    pub fn add(&mut self, other: Estimate) {
        self.sum += other.sum;
        self.margin = self.margin.hypot(other.margin);
    }

    pub fn margin_percent(&self) -> f64 {
        if self.sum > 0.0 { 100.0 * self.margin / self.sum } else { 0.0 }
    }
}

/// Sampled keys of one type and encoding.
#[derive(Debug, Default)]
pub struct Group {
    pub type_name: String,
    pub encoding: String,
    pub keys: u64,
    /// `None` for strings.
    pub elements: Option<u64>,
    pub source_bytes: u64,
    pub own_bytes: u64,
}

/// Keys of one type that Warmline refuses.
#[derive(Debug)]
pub struct Refused {
    pub type_name: String,
    /// Error of the first key.
    pub reason: String,
    pub keys: u64,
    pub source_bytes: u64,
}

/// One database's sample.
#[derive(Debug, Default)]
pub struct Database {
    pub number: u64,
    /// Number of keys in the source; with a pattern or type, of matching keys.
    pub keys: u64,
    pub measured: u64,
    pub refused: u64,
    source: Moments,
    own: Moments,
    /// Memory of the source's table of keys; 0 if the server does not report it.
    pub source_table_bytes: u64,
    pub own_table_bytes: f64,
}

impl Database {
    pub fn new(number: u64) -> Database {
        Database { number, ..Database::default() }
    }

    pub fn sampled(&self) -> u64 {
        self.measured + self.refused
    }

    /// Returns the estimated number of keys that Warmline accepts.
    pub fn measurable_keys(&self) -> f64 {
        self.keys as f64 * self.measured as f64 / self.sampled().max(1) as f64
    }

    pub fn source(&self) -> Estimate {
        let mut estimate = self.source.total(self.measurable_keys());
        estimate.sum += self.source_table_bytes as f64;
        estimate
    }

    pub fn own(&self) -> Estimate {
        let mut estimate = self.own.total(self.measurable_keys());
        estimate.sum += self.own_table_bytes;
        estimate
    }
}

/// All measurements.
#[derive(Debug, Default)]
pub struct Sizes {
    /// By type and encoding, in the order of their first keys.
    pub groups: Vec<Group>,
    pub refused: Vec<Refused>,
    pub databases: Vec<Database>,
}

impl Sizes {
    /// Adds a key of the last database.
    pub fn add(&mut self, key: &SampledKey, measured: &Measured) {
        let Some(database) = self.databases.last_mut() else { return };
        match measured {
            Measured::Gone => {}
            Measured::Bytes(own) => {
                database.measured += 1;
                database.source.add(key.bytes as f64);
                database.own.add(*own as f64);
                let group = self.group(key);
                group.keys += 1;
                group.source_bytes = group.source_bytes.saturating_add(key.bytes);
                group.own_bytes = group.own_bytes.saturating_add(*own);
                if key.type_name != "string" {
                    let elements = group.elements.unwrap_or(0);
                    group.elements = Some(elements.saturating_add(key.len.unwrap_or(0)));
                }
            }
            Measured::Refused(reason) => {
                database.refused += 1;
                match self.refused.iter_mut().find(|refused| refused.type_name == key.type_name) {
                    Some(refused) => {
                        refused.keys += 1;
                        refused.source_bytes = refused.source_bytes.saturating_add(key.bytes);
                    }
                    None => self.refused.push(Refused {
                        type_name: key.type_name.clone(),
                        reason: reason.clone(),
                        keys: 1,
                        source_bytes: key.bytes,
                    }),
                }
            }
        }
    }

    fn group(&mut self, key: &SampledKey) -> &mut Group {
        let is_its = |group: &Group| group.type_name == key.type_name && group.encoding == key.encoding;
        let index = self.groups.iter().position(is_its).unwrap_or_else(|| {
            let (type_name, encoding) = (key.type_name.clone(), key.encoding.clone());
            self.groups.push(Group { type_name, encoding, ..Group::default() });
            self.groups.len() - 1
        });
        &mut self.groups[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_for_all() {
        let mut moments = Moments::default();
        [10.0, 20.0, 30.0, 40.0].into_iter().for_each(|figure| moments.add(figure));
        let whole = moments.total(4.0);
        assert_eq!((whole.sum, whole.margin), (100.0, 0.0));
        let tenth = moments.total(40.0);
        assert_eq!(tenth.sum, 1000.0);
        // The standard deviation is 12.91; half of it is the error of the mean, reduced by the sampled part of the population.
        assert!((tenth.margin - 1.96 * 40.0 * 6.455 * 0.9_f64.sqrt()).abs() < 0.1, "{tenth:?}");
        assert_eq!(Moments::default().total(0.0).sum, 0.0);
    }

    #[test]
    fn figures_may_be_any() {
        let mut sizes = Sizes::default();
        sizes.databases.push(Database { keys: 4, ..Database::new(0) });
        let key = SampledKey {
            name: b"k".to_vec(),
            type_name: "list".to_owned(),
            encoding: "?".to_owned(),
            len: Some(u64::MAX),
            bytes: u64::MAX,
            expires: false,
        };
        for measured in [Measured::Bytes(u64::MAX), Measured::Refused("ERR".to_owned())] {
            (0..2).for_each(|_| sizes.add(&key, &measured));
        }
        assert_eq!(sizes.groups[0].elements, Some(u64::MAX));
        assert!(sizes.databases[0].source().sum > 1e19);
    }

    #[test]
    fn intervals_hold_what_they_promise() {
        // A skewed population, walked with a step that has no common divisor with its size.
        let population: Vec<f64> = (0..10_007_u64).map(|n| 50.0 + (n * n % 977) as f64).collect();
        let sum: f64 = population.iter().sum();
        let is_within = |start: &usize| {
            let mut moments = Moments::default();
            (0..400).for_each(|n| moments.add(population[(start + n * 7919) % population.len()]));
            let estimate = moments.total(population.len() as f64);
            (estimate.sum - sum).abs() <= estimate.margin
        };
        let hits = (0..1000).map(|n| n * 9).filter(is_within).count();
        assert!((900..=1000).contains(&hits), "{hits} of 1000");
    }
}
