//! Which keys cost most, while somebody wants to know (HOTKEYS): processor time, and bytes over the network.
//!
//! The first [`EXACT_COMMANDS`] are all looked at. Then each cost has a [`Sampler`]: it lets costs pass until so many
//! nanoseconds or bytes have gone by, about as much as [`COMMANDS_PER_SAMPLE`] commands cost on average, and has the key
//! whose command is then at hand pay for all of it. So a command that is not looked at costs two subtractions, and one that
//! costs much is never missed.
//!
//! What keys have paid is in [`TopKeys`].
//!
//! In instructions, a GET of 2,650 takes 2,800 to 2,840 meanwhile, where one whose keys were all looked at took 5,490 (keys by
//! Zipf's law) to 6,260 (all alike). Of ten million commands on keys by Zipf's law with power 1 and 1.2, the twenty hottest
//! are found, each with what it has cost to within 8 parts of a hundred.

use super::process::{CpuTimes, Whose, cpu_times};
use super::top_keys::TopKeys;
use structures::random::Random;

/// Keys that are kept of each cost: the least of them is then far below any of those that are asked for, whose error it is.
const PLACES: usize = 4096;
/// Commands before which none is passed over.
const EXACT_COMMANDS: u64 = 100_000;
const COMMANDS_PER_SAMPLE: u64 = 64;
/// Longer keys count in the sums, and are not kept.
const KEY_LEN_MAX: usize = 1024;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub by_cpu: bool,
    pub by_net: bool,
    /// Keys to be answered of each cost.
    pub count: usize,
    /// After so long it ends by itself.
    pub duration_ms: Option<i64>,
    /// One command of so many counts. With 1 all do, if not all are looked at.
    pub sample_ratio: u64,
}

/// What a command has cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub cpu_ns: u64,
    pub net_bytes: u64,
}

/// What has been collected since the beginning, on the wall clock.
pub struct HotKeys {
    pub options: Options,
    pub started_ms: i64,
    /// How long it went on, if it has ended.
    ended_after_ms: Option<i64>,
    /// When it ends by itself, or has ended.
    ends_ms: i64,
    cpu_times_before: CpuTimes,
    /// Of all commands with keys.
    pub total: Cost,
    /// What keys have paid.
    pub keys_net_bytes: u64,
    cpu: TopKeys<0>,
    net: TopKeys<0>,
    /// Commands that are looked at whatever they cost.
    exact_left: u64,
    cpu_sampler: Sampler,
    net_sampler: Sampler,
    /// Commands that do not count before one that does, if not all do.
    uncounted_left: u64,
    random: Random,
}

/// Costs until the next one is looked at.
#[derive(Default)]
struct Sampler {
    left: u64,
    /// On average.
    interval: u64,
}

impl Sampler {
    /// Begins after `commands` that have cost `total`.
    fn begin(&mut self, total: u64, commands: u64, random: &mut Random) {
        self.interval = (total.saturating_mul(COMMANDS_PER_SAMPLE) / commands).max(1);
        self.left = self.draw(random);
    }

    /// From half an interval to one and a half: what returns with a period does not fall into step.
    fn draw(&self, random: &mut Random) -> u64 {
        self.interval.div_ceil(2) + random.below(self.interval)
    }

    /// What the command at hand pays for all that has gone by.
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

    /// Whether commands are still to be noted.
    #[inline]
    pub fn is_active(&mut self, now_ms: i64) -> bool {
        if now_ms >= self.ends_ms {
            self.end(now_ms);
        }
        self.ends_ms > now_ms
    }

    #[cold]
    pub fn end(&mut self, now_ms: i64) {
        self.ended_after_ms.get_or_insert(now_ms.saturating_sub(self.started_ms));
        self.ends_ms = i64::MIN;
    }

    /// How long it has gone on.
    pub fn duration_ms(&self, now_ms: i64) -> i64 {
        self.ended_after_ms.unwrap_or_else(|| now_ms.saturating_sub(self.started_ms))
    }

    /// Processor time of this process since the beginning.
    pub fn cpu_times(&self) -> CpuTimes {
        let (now, before) = (cpu_times(Whose::Process), self.cpu_times_before);
        CpuTimes {
            user: now.user.saturating_sub(before.user),
            system: now.system.saturating_sub(before.system),
        }
    }

    /// Notes a command with keys. What its keys have to pay, if it is to be looked at.
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

    /// One of `keys` pays its part.
    pub fn pay(&mut self, key: &[u8], cost: Cost, keys: u64) {
        self.keys_net_bytes += cost.net_bytes / keys;
        if key.len() <= KEY_LEN_MAX {
            self.cpu.add(key, cost.cpu_ns / keys, [], &mut self.random);
            self.net.add(key, cost.net_bytes / keys, [], &mut self.random);
        }
    }

    /// The keys that have cost most time, in microseconds; those that have cost none are none.
    pub fn by_cpu_us(&self) -> Vec<(&[u8], u64)> {
        let all = self.cpu.largest(self.options.count).into_iter();
        all.map(|(key, ns)| (key, ns / 1000)).filter(|&(_, us)| us > 0).collect()
    }

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
