//! The most costly keys during an observation (HOTKEYS): processor time, and bytes over the network.
//!
//! The first [`EXACT_COMMANDS`] are all sampled. After that each cost has a [`Sampler`]: it passes over costs up to a
//! number of nanoseconds or bytes, about as much as [`COMMANDS_PER_SAMPLE`] commands cost on average, and charges all
//! of it to the key of the current command. So a command that is not sampled costs two subtractions, and a costly
//! command is never missed.
//!
//! The charges of keys are in [`TopKeys`].
//!
//! In instructions, a GET of 2,650 takes 2,800 to 2,840 meanwhile, where one whose keys were all sampled took 5,490
//! (keys by Zipf's law) to 6,260 (uniform). Of ten million commands on keys by Zipf's law with power 1 and 1.2, the
//! twenty hottest are found, each with its cost to within 8 parts of a hundred.

use super::process::{CpuTimes, Whose, cpu_times};
use super::top_keys::TopKeys;
use structures::random::Random;

/// Keys kept for each cost: the least of them, whose cost bounds the error, is then far below any reported key.
const PLACES: usize = 4096;
/// The first commands, all of which are sampled.
const EXACT_COMMANDS: u64 = 100_000;
const COMMANDS_PER_SAMPLE: u64 = 64;
/// Longer keys count in the sums, and are not kept.
const KEY_LEN_MAX: usize = 1024;

/// Options of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether processor time is tracked.
    pub by_cpu: bool,
    /// Whether network bytes are tracked.
    pub by_net: bool,
    /// Number of keys in the reply for each cost.
    pub count: usize,
    /// Time after which it ends by itself.
    pub duration_ms: Option<i64>,
    /// One command of this number counts. With 1 all do, if not all are sampled.
    pub sample_ratio: u64,
}

/// The cost of a command.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Processor time.
    pub cpu_ns: u64,
    /// Bytes of request and reply.
    pub net_bytes: u64,
}

/// The results since the start, on the wall clock.
pub struct HotKeys {
    /// Options of the observation.
    pub options: Options,
    /// Start of the observation.
    pub started_ms: i64,
    /// Duration, if it has ended.
    ended_after_ms: Option<i64>,
    /// When it ends by itself, or has ended.
    ends_ms: i64,
    cpu_times_before: CpuTimes,
    /// Costs of all commands with keys.
    pub total: Cost,
    /// Bytes charged to keys.
    pub keys_net_bytes: u64,
    cpu: TopKeys<0>,
    net: TopKeys<0>,
    /// Commands left that are sampled whatever they cost.
    exact_left: u64,
    cpu_sampler: Sampler,
    net_sampler: Sampler,
    /// Commands to skip before the next one that counts, if not all do.
    uncounted_left: u64,
    random: Random,
}

/// The cost left until the next sample.
#[derive(Default)]
struct Sampler {
    left: u64,
    /// Average distance.
    interval: u64,
}

impl Sampler {
    /// Begins after `commands` that have cost `total`.
    fn begin(&mut self, total: u64, commands: u64, random: &mut Random) {
        self.interval = (total.saturating_mul(COMMANDS_PER_SAMPLE) / commands).max(1);
        self.left = self.draw(random);
    }

    /// Draws from half an interval to one and a half, to avoid falling into step with periodic load.
    fn draw(&self, random: &mut Random) -> u64 {
        self.interval.div_ceil(2) + random.below(self.interval)
    }

    /// Returns the charge of the current command for all costs passed over.
    #[inline]
    fn take(&mut self, cost: u64, random: &mut Random) -> u64 {
        if cost < self.left {
            self.left -= cost;
            return 0;
        }
        self.take_sample(cost - self.left, random)
    }

    #[cold]
    fn take_sample(&mut self, beyond: u64, random: &mut Random) -> u64 {
        let paid = (1 + beyond / self.interval) * self.interval;
        let next = self.draw(random);
        self.left = next.saturating_sub(beyond % self.interval).max(1);
        paid
    }
}

impl HotKeys {
    /// Begins an observation.
    pub fn begin(options: Options, now_ms: i64) -> Self {
        let places = |is_wanted: bool| if is_wanted { PLACES } else { 0 };
        let ends_ms = options.duration_ms.map_or(i64::MAX, |duration_ms| now_ms.saturating_add(duration_ms));
        HotKeys {
            options,
            started_ms: now_ms,
            ended_after_ms: None,
            ends_ms,
            cpu_times_before: cpu_times(Whose::Process),
            total: Cost { cpu_ns: 0, net_bytes: 0 },
            keys_net_bytes: 0,
            cpu: TopKeys::new(places(options.by_cpu)),
            net: TopKeys::new(places(options.by_net)),
            exact_left: EXACT_COMMANDS,
            cpu_sampler: Sampler::default(),
            net_sampler: Sampler::default(),
            uncounted_left: 0,
            random: Random::new(now_ms as u64),
        }
    }

    /// Returns whether commands are still recorded.
    #[inline]
    pub fn is_active(&mut self, now_ms: i64) -> bool {
        if now_ms >= self.ends_ms {
            self.end(now_ms);
        }
        self.ends_ms > now_ms
    }

    /// Ends the observation.
    #[cold]
    pub fn end(&mut self, now_ms: i64) {
        self.ended_after_ms.get_or_insert(now_ms.saturating_sub(self.started_ms));
        self.ends_ms = i64::MIN;
    }

    /// Returns the duration so far.
    pub fn duration_ms(&self, now_ms: i64) -> i64 {
        self.ended_after_ms.unwrap_or_else(|| now_ms.saturating_sub(self.started_ms))
    }

    /// Returns the processor time of this process since the start.
    pub fn cpu_times(&self) -> CpuTimes {
        let (now, before) = (cpu_times(Whose::Process), self.cpu_times_before);
        CpuTimes {
            user: now.user.saturating_sub(before.user),
            system: now.system.saturating_sub(before.system),
        }
    }

    /// Records a command with keys. Returns the charge of its keys, if it is sampled.
    #[inline]
    pub fn note(&mut self, cost: Cost) -> Option<Cost> {
        self.total.cpu_ns += cost.cpu_ns;
        self.total.net_bytes += cost.net_bytes;
        if self.exact_left > 0 || self.options.sample_ratio > 1 {
            return self.note_exactly(cost);
        }
        let paid = Cost {
            cpu_ns: self.cpu_sampler.take(cost.cpu_ns, &mut self.random),
            net_bytes: self.net_sampler.take(cost.net_bytes, &mut self.random),
        };
        (paid.cpu_ns > 0 || paid.net_bytes > 0).then_some(paid)
    }

    fn note_exactly(&mut self, cost: Cost) -> Option<Cost> {
        if self.options.sample_ratio > 1 {
            if self.uncounted_left > 0 {
                self.uncounted_left -= 1;
                return None;
            }
            self.uncounted_left = self.random.below(2 * self.options.sample_ratio - 1);
        } else {
            self.exact_left -= 1;
        }
        if self.exact_left == 0 {
            let Cost { cpu_ns, net_bytes } = self.total;
            self.cpu_sampler.begin(cpu_ns, EXACT_COMMANDS, &mut self.random);
            self.net_sampler.begin(net_bytes, EXACT_COMMANDS, &mut self.random);
        }
        Some(cost)
    }

    /// Charges one of `keys` its part.
    pub fn pay(&mut self, key: &[u8], cost: Cost, keys: u64) {
        self.keys_net_bytes += cost.net_bytes / keys;
        if key.len() <= KEY_LEN_MAX {
            self.cpu.add(key, cost.cpu_ns / keys, [], &mut self.random);
            self.net.add(key, cost.net_bytes / keys, [], &mut self.random);
        }
    }

    /// Returns the keys with the largest processor time, in microseconds; keys without any are left out.
    pub fn by_cpu_us(&self) -> Vec<(&[u8], u64)> {
        let all = self.cpu.largest(self.options.count).into_iter();
        all.map(|(key, ns)| (key, ns / 1000)).filter(|&(_, us)| us > 0).collect()
    }

    /// Returns the keys with the most bytes over the network; keys without any are left out.
    pub fn by_net_bytes(&self) -> Vec<(&[u8], u64)> {
        self.net.largest(self.options.count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::top_keys::tests::Zipf;
    use super::*;

    #[test]
    fn what_has_a_time_ends_by_itself() {
        let options =
            Options { by_cpu: true, by_net: false, count: 1, duration_ms: Some(2000), sample_ratio: 1 };
        let mut keys = HotKeys::begin(options, 10_000);
        assert!(keys.is_active(11_999));
        assert_eq!(keys.duration_ms(11_999), 1999);
        assert!(!keys.is_active(12_500));
        assert_eq!(keys.duration_ms(99_999), 2500);
        keys.pay(&[b'k'; KEY_LEN_MAX + 1], Cost { cpu_ns: 5000, net_bytes: 1 }, 1);
        keys.pay(b"k", Cost { cpu_ns: 2500, net_bytes: 1 }, 1);
        keys.pay(b"k", Cost { cpu_ns: 5000, net_bytes: 1 }, 2);
        assert_eq!((keys.by_cpu_us(), keys.by_net_bytes()), (vec![(&b"k"[..], 5)], vec![]));
    }

    /// `WARMLINE_TEST_SCALE=100` has ten million keys, and as many commands.
    #[test]
    fn the_hottest_keys_are_found_with_about_what_they_cost() {
        let scale: u64 =
            std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        let (keys, commands, asked) = (100_000 * scale as usize, 10_000_000.max(100_000 * scale), 20);
        for power in [1.0, 1.2] {
            let options =
                Options { by_cpu: true, by_net: true, count: asked, duration_ms: None, sample_ratio: 1 };
            let (mut hot, mut random) = (HotKeys::begin(options, 1), Random::new(3));
            let (zipf, mut costs) = (Zipf::new(keys, power), vec![(0, 0); keys]);
            for _ in 0..commands {
                let key = zipf.draw(&mut random);
                let cost = Cost { cpu_ns: 500 + random.below(1000), net_bytes: 40 + key as u64 % 7 };
                costs[key].0 += cost.cpu_ns;
                costs[key].1 += cost.net_bytes;
                if let Some(paid) = hot.note(cost) {
                    hot.pay(key.to_string().as_bytes(), paid, 1);
                }
            }
            let error = |told: &[(&[u8], u64)], of: &dyn Fn(usize) -> u64| {
                let key = |text: &[u8]| std::str::from_utf8(text).unwrap().parse::<usize>().unwrap();
                // Two neighbours may change places.
                let found = told.iter().filter(|(text, _)| key(text) < asked).count();
                let parts = told.iter().map(|&(text, cost)| (cost as f64 / of(key(text)) as f64 - 1.0).abs());
                (found, parts.fold(0.0, f64::max))
            };
            let by_cpu = error(&hot.cpu.largest(asked), &|key| costs[key].0);
            let by_net = error(&hot.by_net_bytes(), &|key| costs[key].1);
            println!("power {power}: found and greatest error, by time {by_cpu:?}, by bytes {by_net:?}");
            assert!(by_cpu.0 >= asked - 1 && by_net.0 >= asked - 1, "{by_cpu:?} {by_net:?}");
            assert!(by_cpu.1 < 0.1 && by_net.1 < 0.1, "{by_cpu:?} {by_net:?}");
        }
    }
}
