//! The most used keys, always on (HOTKEYS TOP): by calls, processor time, and bytes in and out, with reads and writes
//! of each database apart.
//!
//! ```text
//!  command -> its weight, of calls, nanoseconds, bytes in and out -> countdown
//!               it has run out: keys of the current command are charged for all commands passed over
//!                 -> TopKeys by weight, of [database, kind, key], with the four costs
//!  sample (ten times a second) -> length of the countdown, and weights of costs: each of the four weighs the same on average;
//!                                 every tenth second all charges decay
//! ```
//! A command that does not exhaust the countdown costs three multiplications: nothing is hashed or looked up. A command
//! of twice the weight is sampled twice as often and charged its own costs times half as much. So all four sums are
//! right on average, and a costly command is never missed.
//!
//! The countdown's length is the average weight of the commands between two samples at [`SAMPLES_PER_SECOND`], and at
//! most that of [`COMMANDS_PER_SAMPLE_MAX`] commands: under low load all commands count, and under high load they cost
//! next to nothing. Of a command with more keys than [`KEYS_MAX`], a limit that falls with the share of sampled
//! commands, some keys are charged for all.
//!
//! The results are rates: charges over time, both of which decay every tenth second, by half in a minute. So a rate is
//! an average in which a minute ago counts half.
//!
//! Invariant: a countdown that has not run out is above 0.
//!
//! In instructions, by callgrind, when one of 56 to 63 is sampled, and keys are uniform out of 200,000: GET 23 of
//! 2,840, SET 22, MGET of ten keys 59; a GET by Zipf's law 22.
//! Rejected: a countdown and a table of keys for each cost, each with its own look-ups: 74 instructions a GET when one
//! of 19 was sampled, in the same run in which one countdown sampled one of 58. A sample costs the same; there are
//! fewer.

use super::top_keys::TopKeys;
use structures::random::Random;
use wire::convert::{short_len, signed_count, whole_u64};

/// Number of keys kept.
const PLACES: usize = 2048;
/// Longer keys are not kept.
pub const KEY_LEN_MAX: usize = 512;
const SAMPLES_PER_SECOND: f64 = 250.0;
const COMMANDS_PER_SAMPLE_MAX: f64 = 64.0;
/// Samples after which the countdown doubles, if its length was not recomputed meanwhile: a load that sets in is not
/// sampled in full until its rate is known.
const BURST_SAMPLES: u32 = 100;
/// Keys charged per command while all commands are sampled.
const KEYS_MAX: u64 = 64;
/// A command's weight for the call itself; its other costs weigh as much each on average.
const CALL_WEIGHT: u64 = 256;
/// Weights of costs have this many more fraction bits than those of commands.
const WEIGHT_BITS: u32 = 12;
/// A script may run for days.
const CPU_NS_MAX: u64 = 1 << 40;
/// Weight of the last sample in the average costs.
const NEW_PART: f64 = 0.25;
const DECAY_PERIOD_US: u64 = 10_000_000;
/// Six steps halve a value.
const DECAY: f64 = 0.890_898_718;

/// The costs tracked per command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Calls.
    Calls,
    /// Processor time.
    Cpu,
    /// Bytes of requests.
    BytesIn,
    /// Bytes of replies.
    BytesOut,
}

/// Number of metrics.
pub const METRICS: usize = 4;

/// Indexed by [`Metric`].
pub type Costs = [u64; METRICS];

/// The weight left until the next sample; stored with the counters of every command.
#[derive(Clone, Copy, Debug)]
pub struct Countdown {
    left: i64,
    /// Weight per unit of each [`Metric`], with fraction bits except for calls. All zero while disabled.
    weights: Costs,
}

impl Default for Countdown {
    fn default() -> Self {
        Countdown { left: 1, weights: [0; METRICS] }
    }
}

impl Countdown {
    /// Adds a command's costs; returns whether its keys are to be charged ([`Hottest::take`]).
    #[inline]
    pub fn pass(&mut self, costs: Costs) -> bool {
        self.left -= signed_count(self.weight(costs));
        self.left <= 0
    }

    #[inline]
    fn weight(&self, [calls, cpu_ns, bytes_in, bytes_out]: Costs) -> u64 {
        let [call, cpu, byte_in, byte_out] = self.weights;
        let finer = cpu_ns.min(CPU_NS_MAX) * cpu + bytes_in * byte_in + bytes_out * byte_out;
        calls * call + (finer >> WEIGHT_BITS)
    }
}

/// The charge of a command's keys.
#[derive(Clone, Copy, Debug)]
pub struct Paid {
    costs: Costs,
    weight: u64,
    /// Multiplier of the command's costs.
    times: f64,
    /// The number of the command's keys.
    keys: u64,
    /// One of this many keys is charged for them.
    stride: u64,
    /// Keys to skip before the next one charged.
    skipped: u64,
}

/// The order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By calls.
    Calls,
    /// By processor time.
    Cpu,
    /// By bytes of requests and replies.
    Bytes,
}

/// A key with its rates per second.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key.
    pub key: Vec<u8>,
    /// Its database.
    pub db_index: usize,
    /// Whether the commands can write.
    pub writes: bool,
    /// Rates per second, by [`Metric`].
    pub rates: [f64; METRICS],
}

/// The charges of keys.
pub struct Hottest {
    keys: TopKeys<METRICS>,
    /// The countdown's average length, in commands and by weight.
    commands_per_sample: f64,
    interval: u64,
    /// Average costs of commands; 0 until known.
    averages: [f64; METRICS],
    /// Costs of all commands, with keys or without, since `adapted_us`.
    paid: [f64; METRICS],
    adapted_us: u64,
    /// The server's number of commands at that time.
    commands: u64,
    /// Samples since the countdown's length was chosen or doubled.
    samples: u32,
    /// The time of charging, decayed like the charges.
    time_us: f64,
    decayed_us: u64,
    random: Random,
    /// Buffer for a key's name in the table.
    name: Vec<u8>,
}

impl Hottest {
    /// Begins; every command is sampled until rates are known. `now_us` is on the monotonic clock and `commands` is the
    /// server's total so far, here and below.
    pub fn begin(now_us: u64, commands: u64, seed: u64, countdown: &mut Countdown) -> Hottest {
        *countdown = Countdown { left: 1, weights: [CALL_WEIGHT, 0, 0, 0] };
        Hottest {
            keys: TopKeys::new(PLACES),
            commands_per_sample: 1.0,
            interval: 1,
            averages: [0.0; METRICS],
            paid: [0.0; METRICS],
            adapted_us: now_us,
            commands,
            samples: 0,
            time_us: 0.0,
            decayed_us: now_us,
            random: Random::new(seed),
            name: Vec::new(),
        }
    }

    /// Computes the charge of the current command, whose costs exhausted the countdown; `keys` is its number of keys.
    pub fn take(&mut self, countdown: &mut Countdown, costs: Costs, keys: u64) -> Paid {
        let (weight, beyond) = (countdown.weight(costs).max(1), countdown.left.unsigned_abs());
        let mut paid = (1 + beyond / self.interval) * self.interval;
        let behind = signed_count(beyond % self.interval);
        self.note_sample(countdown);
        countdown.left = self.draw() - behind;
        while countdown.left <= 0 {
            paid += self.interval;
            countdown.left += self.draw();
        }
        let times = paid as f64 / weight as f64;
        self.paid.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost as f64 * times);
        let keys_max = whole_u64(KEYS_MAX as f64 / self.commands_per_sample);
        let stride = keys.div_ceil(keys_max.max(1)).max(1);
        let skipped = if stride > 1 { self.random.below(stride) } else { 0 };
        Paid { costs, weight, times, keys, stride, skipped }
    }

    fn note_sample(&mut self, countdown: &Countdown) {
        self.samples += 1;
        if self.samples >= BURST_SAMPLES && self.commands_per_sample < COMMANDS_PER_SAMPLE_MAX {
            self.choose_interval(self.commands_per_sample * 2.0, countdown);
        }
    }

    fn choose_interval(&mut self, commands: f64, countdown: &Countdown) {
        self.samples = 0;
        self.commands_per_sample = commands.clamp(1.0, COMMANDS_PER_SAMPLE_MAX);
        let average = countdown.weight(self.averages.map(whole_u64)).max(CALL_WEIGHT);
        // While all commands are sampled, each is charged exactly its costs.
        self.interval =
            if commands <= 1.0 { 1 } else { whole_u64(self.commands_per_sample * average as f64) };
    }

    /// Draws from half an interval to one and a half, to avoid falling into step with periodic load.
    fn draw(&mut self) -> i64 {
        match self.interval {
            0 | 1 => 1,
            interval => signed_count(interval.div_ceil(2) + self.random.below(interval)),
        }
    }

    /// Charges the command's next key its part, or skips it because another key is charged for it.
    pub fn pay(&mut self, db_index: usize, writes: bool, key: &[u8], paid: &mut Paid) {
        if paid.skipped > 0 {
            paid.skipped -= 1;
            return;
        }
        paid.skipped = paid.stride - 1;
        if key.len() > KEY_LEN_MAX {
            return;
        }
        self.name.clear();
        self.name.extend(short_len(db_index).to_le_bytes());
        self.name.push(u8::from(writes));
        self.name.extend_from_slice(key);
        // Each key has as many calls as the command, and a part of its other costs.
        let (times, part) = (paid.times * paid.stride as f64, 1.0 / paid.keys.max(1) as f64);
        let called = paid.weight.min(CALL_WEIGHT) as f64;
        let weight = times * (called + (paid.weight as f64 - called) * part);
        let [calls, costs @ ..] = paid.costs;
        let [cpu_ns, bytes_in, bytes_out] = costs.map(|cost| cost as f64 * times * part);
        let details = [calls as f64 * times, cpu_ns, bytes_in, bytes_out];
        self.keys.add(&self.name, whole_u64(weight).max(1), details, &mut self.random);
    }

    /// Recomputes the countdown's length from the costs since the last call, and decays the charges.
    pub fn adapt(&mut self, now_us: u64, commands: u64, countdown: &mut Countdown) {
        let elapsed_us = now_us.saturating_sub(self.adapted_us) as f64;
        // CONFIG RESETSTAT resets it to 0.
        let passed = commands.checked_sub(self.commands).unwrap_or(commands);
        (self.adapted_us, self.commands) = (now_us, commands);
        self.time_us += elapsed_us;
        self.weigh(countdown);
        if elapsed_us > 0.0 {
            let before = self.interval;
            let wanted = passed as f64 / (SAMPLES_PER_SECOND * elapsed_us / 1e6);
            self.choose_interval(wanted, countdown);
            // The rest was drawn for another load.
            let left = i128::from(countdown.left) * i128::from(self.interval) / i128::from(before);
            countdown.left = i64::try_from(left).unwrap_or(i64::MAX).max(1);
        }
        if now_us.saturating_sub(self.decayed_us) >= DECAY_PERIOD_US {
            self.decayed_us = now_us;
            self.time_us *= DECAY;
            self.keys.scale(DECAY);
        }
    }

    /// Sets the weights so that each cost weighs as much as calls do, on average.
    fn weigh(&mut self, countdown: &mut Countdown) {
        let paid = std::mem::take(&mut self.paid);
        let calls = paid[Metric::Calls as usize];
        if calls <= 0.0 {
            return;
        }
        for metric in [Metric::Cpu, Metric::BytesIn, Metric::BytesOut] {
            let (average, now) = (&mut self.averages[metric as usize], paid[metric as usize] / calls);
            *average = if *average == 0.0 { now } else { *average + (now - *average) * NEW_PART };
            let even = (CALL_WEIGHT << WEIGHT_BITS) as f64;
            // A cost that averages a million weighs nothing: a single slow command must not hide those after it.
            countdown.weights[metric as usize] = whole_u64(even / average.max(1.0));
        }
        self.averages[Metric::Calls as usize] = 1.0;
    }

    /// Returns the keys with the highest rates.
    pub fn hottest(&self, order: Order, count: usize, db_index: Option<usize>) -> Vec<HotKey> {
        let cost = |details: &[f64; METRICS]| match order {
            Order::Calls => details[Metric::Calls as usize],
            Order::Cpu => details[Metric::Cpu as usize],
            Order::Bytes => details[Metric::BytesIn as usize] + details[Metric::BytesOut as usize],
        };
        let mut found: Vec<_> = self.keys.details().collect();
        found.retain(|&(name, details)| {
            cost(details) > 0.0 && db_index.is_none_or(|index| database_of(name) == index)
        });
        found.sort_unstable_by(|a, b| cost(b.1).total_cmp(&cost(a.1)).then_with(|| a.0.cmp(b.0)));
        let seconds = (self.time_us / 1e6).max(SECONDS_MIN);
        let told = |(name, &[calls, cpu_ns, bytes_in, bytes_out]): (&[u8], &[f64; METRICS])| HotKey {
            key: name[NAME_HEAD..].to_vec(),
            db_index: database_of(name),
            writes: name[NAME_HEAD - 1] != 0,
            rates: [calls, cpu_ns / 1000.0, bytes_in, bytes_out].map(|sum| sum / seconds),
        };
        found.into_iter().take(count).map(told).collect()
    }
}

/// Length of database and kind, which precede the key.
const NAME_HEAD: usize = 5;
/// Minimum time for computing rates: a tenth of a second.
const SECONDS_MIN: f64 = 0.1;

fn database_of(name: &[u8]) -> usize {
    name.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::top_keys::tests::Zipf;
    use super::*;

    /// Runs a command with these keys.
    fn call(hottest: &mut Hottest, countdown: &mut Countdown, keys: &[&[u8]], costs: [u64; 3]) {
        let costs = [1, costs[0], costs[1], costs[2]];
        if countdown.pass(costs) {
            let mut paid = hottest.take(countdown, costs, keys.len() as u64);
            keys.iter().for_each(|key| hottest.pay(0, false, key, &mut paid));
        }
    }

    fn feed(hottest: &mut Hottest, countdown: &mut Countdown, key: &[u8], costs: [u64; 3]) {
        call(hottest, countdown, &[key], costs);
    }

    #[test]
    fn where_there_is_little_to_do_all_is_exact() {
        let mut countdown = Countdown::default();
        assert!(!countdown.pass([1, u64::MAX, 10, 10]), "it is off");
        let mut hottest = Hottest::begin(0, 0, 1, &mut countdown);
        for _ in 0..10 {
            feed(&mut hottest, &mut countdown, b"a", [3000, 30, 5]);
            feed(&mut hottest, &mut countdown, b"b", [1000, 10, 500]);
            feed(&mut hottest, &mut countdown, &[b'k'; KEY_LEN_MAX + 1], [1, 1, 1]);
        }
        hottest.adapt(2_000_000, 30, &mut countdown);
        let told = |order| hottest.hottest(order, 10, None);
        let a = HotKey { key: b"a".into(), db_index: 0, writes: false, rates: [5.0, 15.0, 150.0, 25.0] };
        let b = HotKey { key: b"b".into(), db_index: 0, writes: false, rates: [5.0, 5.0, 50.0, 2500.0] };
        assert_eq!(told(Order::Cpu), [a.clone(), b.clone()]);
        assert_eq!(told(Order::Bytes), [b.clone(), a.clone()]);
        assert_eq!(hottest.hottest(Order::Calls, 1, None), [a]);
        assert_eq!(hottest.hottest(Order::Calls, 10, Some(1)), []);
    }

    #[test]
    fn what_came_before_it_began_says_nothing_of_the_load() {
        let mut countdown = Countdown::default();
        let mut hottest = Hottest::begin(0, 1_000_000, 1, &mut countdown);
        hottest.adapt(100_000, 1_000_001, &mut countdown);
        feed(&mut hottest, &mut countdown, b"a", [10, 10, 10]);
        assert_eq!(hottest.hottest(Order::Calls, 1, None).len(), 1);
    }

    #[test]
    fn the_past_fades() {
        let mut countdown = Countdown::default();
        let mut hottest = Hottest::begin(0, 0, 1, &mut countdown);
        (0..1000).for_each(|_| feed(&mut hottest, &mut countdown, b"old", [10, 10, 10]));
        for second in 1..=120 {
            hottest.adapt(second * 1_000_000, 1000 + second * 10, &mut countdown);
            (0..10).for_each(|_| feed(&mut hottest, &mut countdown, b"new", [10, 10, 10]));
        }
        let told = hottest.hottest(Order::Calls, 2, None);
        assert_eq!(told[0].key, b"new");
        assert!((told[0].rates[0] - 10.0).abs() < 1.0, "{told:?}");
    }

    #[test]
    fn kinds_and_databases_are_apart() {
        let mut countdown = Countdown::default();
        let mut hottest = Hottest::begin(0, 0, 1, &mut countdown);
        for (db_index, writes, times) in [(0, false, 3), (0, true, 2), (7, false, 1)] {
            for _ in 0..times {
                assert!(countdown.pass([1, 0, 0, 0]));
                let mut paid = hottest.take(&mut countdown, [1, 0, 0, 0], 1);
                hottest.pay(db_index, writes, b"k", &mut paid);
            }
        }
        hottest.adapt(1_000_000, 6, &mut countdown);
        let told = hottest.hottest(Order::Calls, 10, None).into_iter();
        let told: Vec<_> = told.map(|hot| (hot.db_index, hot.writes, hot.rates[0])).collect();
        assert_eq!(told, [(0, false, 3.0), (0, true, 2.0), (7, false, 1.0)]);
        assert_eq!(hottest.hottest(Order::Calls, 10, Some(7)).len(), 1);
    }

    #[test]
    fn sums_are_right_whatever_commands_weigh() {
        for seed in 0..10 {
            println!("seed {seed}");
            let (mut countdown, mut random) = (Countdown::default(), Random::new(seed));
            let mut hottest = Hottest::begin(0, 0, seed, &mut countdown);
            // Cheap ones, some slow ones, and a few with large replies; two commands a microsecond.
            let kinds =
                [(b"cheap", [300, 30, 5]), (b"slow.", [400_000, 30, 5]), (b"large", [2000, 30, 200_000])];
            let mut calls = [0u64; 3];
            for at in 0..1_000_000u64 {
                let kind = if random.below(200) == 0 { 1 + random.below(2) as usize } else { 0 };
                calls[kind] += 1;
                feed(&mut hottest, &mut countdown, kinds[kind].0, kinds[kind].1);
                if at % 200_000 == 0 {
                    hottest.adapt(at / 2, at, &mut countdown);
                }
            }
            hottest.adapt(500_000, 1_000_000, &mut countdown);
            assert_eq!(hottest.hottest(Order::Cpu, 1, None)[0].key, b"slow.");
            assert_eq!(hottest.hottest(Order::Bytes, 1, None)[0].key, b"large");
            for told in hottest.hottest(Order::Calls, 3, None) {
                let kind = kinds.iter().position(|(key, _)| told.key == *key).unwrap();
                let ratio = told.rates[0] * 0.5 / calls[kind] as f64;
                assert!((0.93..1.07).contains(&ratio), "{told:?}: {ratio}");
            }
        }
    }

    #[test]
    fn of_many_keys_some_pay_for_all() {
        let (mut countdown, mut random) = (Countdown::default(), Random::new(5));
        let mut hottest = Hottest::begin(0, 0, 1, &mut countdown);
        let names: Vec<String> = (0..1000).map(|key| format!("key {key}")).collect();
        let mut keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        for at in 1..=2000u64 {
            // One is repeated, at any position.
            let place = random.below(999) as usize;
            keys.swap(0, place);
            keys.push(names[7].as_bytes());
            call(&mut hottest, &mut countdown, &keys, [1_000_000, 10_000, 100_000]);
            keys.pop();
            hottest.adapt(at * 100_000, at, &mut countdown);
        }
        let told = hottest.hottest(Order::Calls, 2000, None);
        assert_eq!((told.len(), told[0].key.as_slice()), (1000, names[7].as_bytes()));
        assert!((told[0].rates[0] - 20.0).abs() < 4.0, "{:?}", told[0]);
        let sum = |metric: usize| told.iter().map(|hot| hot.rates[metric]).sum::<f64>();
        assert!((sum(1) / 10_000.0 - 1.0).abs() < 0.01, "microseconds of 10 ms a second: {}", sum(1));
        assert!((sum(3) / 1e6 - 1.0).abs() < 0.01, "bytes out: {}", sum(3));
    }

    #[test]
    fn a_slow_command_hides_none_after_it() {
        let mut countdown = Countdown::default();
        let mut hottest = Hottest::begin(0, 0, 1, &mut countdown);
        let mut at = 0;
        let mut load = |hottest: &mut Hottest, countdown: &mut Countdown, ticks: u64, key: &[u8]| {
            for _ in 0..ticks {
                (0..10_000).for_each(|_| feed(hottest, countdown, key, [500, 30, 30]));
                at += 1;
                hottest.adapt(at * 100_000, at * 10_000, countdown);
            }
        };
        load(&mut hottest, &mut countdown, 10, b"before");
        feed(&mut hottest, &mut countdown, b"slow", [5_000_000_000, 30, 1 << 30]);
        load(&mut hottest, &mut countdown, 10, b"after");
        let told = hottest.hottest(Order::Calls, 2, None);
        assert!(told.iter().all(|hot| (hot.rates[0] / 50_000.0 - 1.0).abs() < 0.1), "{told:?}");
        let slow = &hottest.hottest(Order::Cpu, 1, None)[0];
        assert!(slow.key == b"slow" && (slow.rates[1] * 2.0 / 5e6 - 1.0).abs() < 0.01, "{slow:?}");
    }

    #[test]
    fn load_that_ends_leaves_no_blindness() {
        let mut countdown = Countdown::default();
        let mut hottest = Hottest::begin(0, 0, 1, &mut countdown);
        for at in 1..=20u64 {
            (0..50_000).for_each(|_| feed(&mut hottest, &mut countdown, b"busy", [500, 30, 30]));
            hottest.adapt(at * 100_000, at * 50_000, &mut countdown);
        }
        assert!(hottest.interval > 1000);
        hottest.adapt(2_100_000, 1_000_000, &mut countdown);
        (0..3).for_each(|_| feed(&mut hottest, &mut countdown, b"calm", [500, 30, 30]));
        let told = hottest.hottest(Order::Calls, 2, None);
        assert_eq!(told[1].key, b"calm");
        assert!((told[1].rates[0] * 2.1 - 3.0).abs() < 0.01, "{told:?}");
    }

    #[test]
    fn what_is_left_of_a_countdown_stays_within_64_bits() {
        let mut countdown = Countdown::default();
        let mut hottest = Hottest::begin(0, 0, 1, &mut countdown);
        feed(&mut hottest, &mut countdown, b"busy", [500, 30, 30]);
        countdown.left = i64::MAX;
        hottest.adapt(100_000, 50_000, &mut countdown);
        assert!(hottest.interval > 1);
        assert_eq!(countdown.left, i64::MAX);
    }

    /// `WARMLINE_TEST_SCALE=100` has ten million keys.
    #[test]
    fn the_hottest_keys_are_found_among_many() {
        let scale = std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        let (keys, commands, asked) = (100_000 * scale, 10_000_000u64, 20);
        for power in [1.0, 1.2] {
            let mut countdown = Countdown::default();
            let mut hottest = Hottest::begin(0, 0, 1, &mut countdown);
            let (zipf, mut random, mut costs) =
                (Zipf::new(keys, power), Random::new(3), vec![[0u64; 2]; keys]);
            for at in 0..commands {
                let key = zipf.draw(&mut random);
                let (cpu_ns, bytes) = (500 + random.below(1000), 40 + key as u64 % 7);
                costs[key][0] += 1;
                costs[key][1] += cpu_ns;
                feed(&mut hottest, &mut countdown, key.to_string().as_bytes(), [cpu_ns, bytes, bytes]);
                // A million commands a second, without decay.
                if at % 100_000 == 0 {
                    hottest.adapt(at, at, &mut countdown);
                }
            }
            hottest.adapt(commands, commands, &mut countdown);
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
