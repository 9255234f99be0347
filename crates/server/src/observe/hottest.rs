//! Which keys are used most, always (HOTKEYS TOP): by calls, processor time, and bytes in and out, reads and writes of each
//! database apart.
//!
//! ```text
//!  command -> four countdowns: a call, its nanoseconds, its bytes in, its bytes out
//!               one has run out: the keys at hand pay for all that has gone by
//!                 -> TopKeys of that cost, of [database, kind, key]
//!  sample (ten times a second) -> how long countdowns are; every tenth second all that was paid decays
//! ```
//! A command that no countdown ends with costs their subtractions: nothing is hashed or looked up. As in HOTKEYS of Redis
//! (`hot_keys`), who costs much is never missed, and keys that are not kept get in by random admission.
//!
//! A countdown is as long as so many commands cost on average that [`SAMPLES_PER_SECOND`] keys pay a second, and no more than
//! [`COMMANDS_PER_SAMPLE_MAX`] commands: where there is little to do all of them count, and where there is much they cost next
//! to nothing.
//!
//! What is told are rates: what was paid over how long, both of which lose a part every tenth second, half in a minute. So it is
//! an average in which a minute ago counts half.
//!
//! Invariant: a countdown that has not run out is above 0.
//!
//! Rejected: one table of keys with all four costs, which finds a key in one place, but who is admitted for one cost
//! then takes the room of who is there for another.

use super::top_keys::TopKeys;
use structures::random::Random;

/// Keys that are kept of each cost.
const PLACES: usize = 2048;
/// Longer keys are not kept.
pub const KEY_LEN_MAX: usize = 512;
const SAMPLES_PER_SECOND: u64 = 250;
const COMMANDS_PER_SAMPLE_MAX: u64 = 64;
/// After so many samples since countdowns were chosen, they are twice as long: load that sets in is not looked at whole until
/// its rate is known.
const BURST_SAMPLES: u32 = 100;
/// Calls are kept in parts, so that what decays does not vanish at once.
const CALL: u64 = 1 << 10;
const DECAY_PERIOD_US: u64 = 10_000_000;
/// Half of it is left after six of them.
const DECAY: f64 = 0.890_898_718;

/// What is kept of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Calls,
    Cpu,
    BytesIn,
    BytesOut,
}

pub const METRICS: usize = 4;

/// By [`Metric`].
pub type Costs = [u64; METRICS];

/// What is left until the next sample of each cost; beside the counters of every command.
#[derive(Clone, Copy, Debug)]
pub struct Countdowns {
    left: [i64; METRICS],
    is_on: bool,
}

impl Default for Countdowns {
    fn default() -> Self {
        Countdowns { left: [1; METRICS], is_on: false }
    }
}

impl Countdowns {
    /// A command has cost so much; whether a countdown has run out, and its keys are to pay ([`Hottest::take`]).
    #[inline]
    pub fn pass(&mut self, cpu_ns: u64, bytes_in: usize, bytes_out: usize) -> bool {
        if !self.is_on {
            return false;
        }
        self.left[Metric::Calls as usize] -= 1;
        self.left[Metric::Cpu as usize] -= cpu_ns as i64;
        self.left[Metric::BytesIn as usize] -= bytes_in as i64;
        self.left[Metric::BytesOut as usize] -= bytes_out as i64;
        self.left.iter().any(|&left| left <= 0)
    }
}

/// Which keys are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Calls,
    Cpu,
    Bytes,
}

/// A key with its rates a second.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    pub key: Vec<u8>,
    pub db_index: usize,
    pub writes: bool,
    pub rates: [f64; METRICS],
}

/// What keys have paid.
pub struct Hottest {
    tables: [TopKeys; METRICS],
    /// How long countdowns are on average.
    intervals: Costs,
    /// Commands and their costs since the intervals were chosen.
    passed: Costs,
    passed_since_us: u64,
    /// Since the intervals were chosen or made longer.
    samples: u32,
    /// How long the tables have been paid into, on the monotonic clock, as much of it as has not decayed.
    time_us: f64,
    noted_us: u64,
    decayed_us: u64,
    random: Random,
    /// A key as the tables have it.
    name: Vec<u8>,
}

impl Hottest {
    /// Begins; every command is looked at until rates are known.
    pub fn begin(now_us: u64, seed: u64, countdowns: &mut Countdowns) -> Hottest {
        *countdowns = Countdowns { left: [1; METRICS], is_on: true };
        Hottest {
            tables: std::array::from_fn(|_| TopKeys::new(PLACES)),
            intervals: [1; METRICS],
            passed: [0; METRICS],
            passed_since_us: now_us,
            samples: 0,
            time_us: 0.0,
            noted_us: now_us,
            decayed_us: now_us,
            random: Random::new(seed),
            name: Vec::new(),
        }
    }

    /// What the command at hand pays, by whose costs a countdown has run out.
    pub fn take(&mut self, countdowns: &mut Countdowns) -> Costs {
        let mut paid = [0; METRICS];
        for (metric, paid) in paid.iter_mut().enumerate() {
            let (left, interval) = (countdowns.left[metric], self.intervals[metric]);
            if left <= 0 {
                let beyond = left.unsigned_abs();
                *paid = (1 + beyond / interval) * interval;
                let next = self.draw(interval);
                countdowns.left[metric] = next.saturating_sub(beyond % interval).max(1) as i64;
                self.passed[metric] = self.passed[metric].saturating_add(*paid);
            }
        }
        self.samples += 1;
        if self.samples >= BURST_SAMPLES && self.intervals[Metric::Calls as usize] < COMMANDS_PER_SAMPLE_MAX {
            self.samples = 0;
            self.intervals.iter_mut().for_each(|interval| *interval = (*interval * 2).min(INTERVAL_MAX));
        }
        paid
    }

    /// From half an interval to one and a half: what returns with a period does not fall into step.
    fn draw(&mut self, interval: u64) -> u64 {
        match interval {
            0 | 1 => 1,
            _ => interval.div_ceil(2) + self.random.below(interval),
        }
    }

    /// One of `keys` pays its part; each of them has been called as often as the command.
    pub fn pay(&mut self, db_index: usize, writes: bool, key: &[u8], paid: &Costs, keys: u64) {
        if key.len() > KEY_LEN_MAX {
            return;
        }
        self.name.clear();
        self.name.extend((db_index as u32).to_le_bytes());
        self.name.push(u8::from(writes));
        self.name.extend(key);
        for (metric, &cost) in paid.iter().enumerate().filter(|&(_, &cost)| cost > 0) {
            let cost = if metric == Metric::Calls as usize { cost.saturating_mul(CALL) } else { cost / keys };
            self.tables[metric].add(&self.name, cost, &mut self.random);
        }
    }

    /// Chooses how long countdowns are, by what commands have cost since it was done last, and lets the past fade.
    pub fn adapt(&mut self, now_us: u64) {
        self.time_us += now_us.saturating_sub(self.noted_us) as f64;
        self.noted_us = now_us;
        let elapsed_us = now_us.saturating_sub(self.passed_since_us);
        let calls = self.passed[Metric::Calls as usize];
        if elapsed_us > 0 && calls > 0 {
            let samples = u128::from(SAMPLES_PER_SECOND) * u128::from(elapsed_us) / 1_000_000;
            let commands = (u128::from(calls) / samples.max(1)).clamp(1, COMMANDS_PER_SAMPLE_MAX.into());
            for (interval, &passed) in self.intervals.iter_mut().zip(&self.passed) {
                let wanted =
                    (commands * u128::from(passed) / u128::from(calls)).min(INTERVAL_MAX.into()) as u64;
                // None at all: the countdown is much too long.
                *interval = if passed == 0 { *interval / 2 } else { wanted }.max(1);
            }
            self.passed = [0; METRICS];
            self.passed_since_us = now_us;
            self.samples = 0;
        }
        if now_us.saturating_sub(self.decayed_us) >= DECAY_PERIOD_US {
            self.decayed_us = now_us;
            self.time_us *= DECAY;
            self.tables.iter_mut().for_each(|table| table.scale(DECAY));
        }
    }

    /// The keys with the highest rates.
    pub fn hottest(&self, order: Order, count: usize, db_index: Option<usize>) -> Vec<HotKey> {
        let metrics: &[Metric] = match order {
            Order::Calls => &[Metric::Calls],
            Order::Cpu => &[Metric::Cpu],
            Order::Bytes => &[Metric::BytesIn, Metric::BytesOut],
        };
        let mut names: Vec<&[u8]> =
            metrics.iter().flat_map(|&metric| self.tables[metric as usize].keys()).collect();
        names.sort_unstable();
        names.dedup();
        let cost = |name: &[u8]| -> u64 { metrics.iter().map(|&metric| self.cost(metric, name)).sum() };
        let mut found: Vec<(u64, &[u8])> = names.into_iter().map(|name| (cost(name), name)).collect();
        found.retain(|&(cost, name)| cost > 0 && db_index.is_none_or(|index| database_of(name) == index));
        found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        found.into_iter().take(count).map(|(_, name)| self.described(name)).collect()
    }

    fn cost(&self, metric: Metric, name: &[u8]) -> u64 {
        self.tables[metric as usize].cost_of(name).unwrap_or(0)
    }

    fn described(&self, name: &[u8]) -> HotKey {
        let seconds = (self.time_us / 1e6).max(SECONDS_MIN);
        let rate = |metric, unit: f64| self.cost(metric, name) as f64 / unit / seconds;
        HotKey {
            key: name[NAME_HEAD..].to_vec(),
            db_index: database_of(name),
            writes: name[NAME_HEAD - 1] != 0,
            rates: [
                rate(Metric::Calls, CALL as f64),
                rate(Metric::Cpu, 1000.0),
                rate(Metric::BytesIn, 1.0),
                rate(Metric::BytesOut, 1.0),
            ],
        }
    }
}

/// Database and kind, before the key.
const NAME_HEAD: usize = 5;
/// Rates are those of a tenth of a second at least.
const SECONDS_MIN: f64 = 0.1;
/// A command of seconds or gigabytes does not keep others from being looked at.
const INTERVAL_MAX: u64 = 1 << 40;

fn database_of(name: &[u8]) -> usize {
    name.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::top_keys::tests::Zipf;
    use super::*;

    fn feed(hottest: &mut Hottest, countdowns: &mut Countdowns, key: &[u8], costs: [u64; 3]) {
        if countdowns.pass(costs[0], costs[1] as usize, costs[2] as usize) {
            let paid = hottest.take(countdowns);
            hottest.pay(0, false, key, &paid, 1);
        }
    }

    #[test]
    fn where_there_is_little_to_do_all_is_exact() {
        let mut countdowns = Countdowns::default();
        assert!(!countdowns.pass(1000, 10, 10), "it is off");
        let mut hottest = Hottest::begin(0, 1, &mut countdowns);
        for _ in 0..10 {
            feed(&mut hottest, &mut countdowns, b"a", [3000, 30, 5]);
            feed(&mut hottest, &mut countdowns, b"b", [1000, 10, 500]);
            feed(&mut hottest, &mut countdowns, &[b'k'; KEY_LEN_MAX + 1], [1, 1, 1]);
        }
        hottest.adapt(2_000_000);
        let told = |order| hottest.hottest(order, 10, None);
        let a = HotKey { key: b"a".into(), db_index: 0, writes: false, rates: [5.0, 15.0, 150.0, 25.0] };
        let b = HotKey { key: b"b".into(), db_index: 0, writes: false, rates: [5.0, 5.0, 50.0, 2500.0] };
        assert_eq!(told(Order::Cpu), [a.clone(), b.clone()]);
        assert_eq!(told(Order::Bytes), [b.clone(), a.clone()]);
        assert_eq!(hottest.hottest(Order::Calls, 1, None), [a]);
        assert_eq!(hottest.hottest(Order::Calls, 10, Some(1)), []);
    }

    #[test]
    fn the_past_fades() {
        let mut countdowns = Countdowns::default();
        let mut hottest = Hottest::begin(0, 1, &mut countdowns);
        (0..1000).for_each(|_| feed(&mut hottest, &mut countdowns, b"old", [10, 10, 10]));
        for second in 1..=120 {
            hottest.adapt(second * 1_000_000);
            (0..10).for_each(|_| feed(&mut hottest, &mut countdowns, b"new", [10, 10, 10]));
        }
        let told = hottest.hottest(Order::Calls, 2, None);
        assert_eq!(told[0].key, b"new");
        assert!((told[0].rates[0] - 10.0).abs() < 1.0, "{told:?}");
    }

    #[test]
    fn kinds_and_databases_are_apart() {
        let mut countdowns = Countdowns::default();
        let mut hottest = Hottest::begin(0, 1, &mut countdowns);
        for (db_index, writes, times) in [(0, false, 3), (0, true, 2), (7, false, 1)] {
            (0..times).for_each(|_| hottest.pay(db_index, writes, b"k", &[1, 0, 0, 0], 1));
        }
        hottest.adapt(1_000_000);
        let told = hottest.hottest(Order::Calls, 10, None).into_iter();
        let told: Vec<_> = told.map(|hot| (hot.db_index, hot.writes, hot.rates[0])).collect();
        assert_eq!(told, [(0, false, 3.0), (0, true, 2.0), (7, false, 1.0)]);
        assert_eq!(hottest.hottest(Order::Calls, 10, Some(7)).len(), 1);
    }

    /// `WARMLINE_TEST_SCALE=100` has ten million keys.
    #[test]
    fn the_hottest_keys_are_found_among_many() {
        let scale = std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        let (keys, commands, asked) = (100_000 * scale, 10_000_000u64, 20);
        for power in [1.0, 1.2] {
            let mut countdowns = Countdowns::default();
            let mut hottest = Hottest::begin(0, 1, &mut countdowns);
            let (zipf, mut random, mut costs) =
                (Zipf::new(keys, power), Random::new(3), vec![[0u64; 2]; keys]);
            for at in 0..commands {
                let key = zipf.draw(&mut random);
                let (cpu_ns, bytes) = (500 + random.below(1000), 40 + key as u64 % 7);
                costs[key][0] += 1;
                costs[key][1] += cpu_ns;
                feed(&mut hottest, &mut countdowns, key.to_string().as_bytes(), [cpu_ns, bytes, bytes]);
                // A million commands a second, and nothing fades.
                if at % 100_000 == 0 {
                    hottest.adapt(at);
                }
            }
            hottest.adapt(commands);
            for (order, metric, unit) in [(Order::Calls, 0, 1.0), (Order::Cpu, 1, 1000.0)] {
                let told = hottest.hottest(order, asked, None);
                let key = |hot: &HotKey| std::str::from_utf8(&hot.key).unwrap().parse::<usize>().unwrap();
                // Two neighbours may change places.
                let found = told.iter().filter(|hot| key(hot) < asked).count();
                let seconds = commands as f64 / 1e6;
                let error = |hot: &HotKey| {
                    (hot.rates[metric] * unit * seconds / costs[key(hot)][metric] as f64 - 1.0).abs()
                };
                let error = told.iter().map(error).fold(0.0, f64::max);
                println!("power {power}, {order:?}: found {found}, greatest error {error:.3}");
                assert!(found >= asked - 1 && error < 0.1, "{order:?}: {found} {error}");
            }
        }
    }
}
