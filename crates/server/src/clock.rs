//! The only place where time is read. The executor samples it once per batch and passes readings down, so a command
//! sees one instant from start to end and tests can control the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wire::convert::{signed_count, whole_us};

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Microseconds since the Unix epoch; may jump when the machine's clock is set.
    pub unix_us: i64,
    /// Microseconds since the process began; never goes back.
    pub monotonic_us: u64,
}

impl Reading {
    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(&self) -> i64 {
        self.unix_us / 1000
    }

    /// Seconds since the Unix epoch.
    pub fn unix_s(&self) -> i64 {
        self.unix_us / 1_000_000
    }
}

/// The machine's clock, or a test's.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The time since `start` in cycles of the processor, and the date of the system.
    Machine {
        /// Time of the start.
        start: Instant,
        /// The processor's cycle counter.
        cycles: quanta::Clock,
        /// Cycles at the start.
        start_cycles: u64,
    },
    /// The time that a test has set.
    Virtual(VirtualClock),
}

/// A clock controlled by a test.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: Reading,
    /// Each reading advances it by this much.
    pace_us: u64,
    passed_us: AtomicU64,
}

impl Clone for VirtualClock {
    fn clone(&self) -> Self {
        let passed_us = AtomicU64::new(self.passed_us.load(Ordering::Relaxed));
        VirtualClock { now: self.now, pace_us: self.pace_us, passed_us }
    }
}

impl VirtualClock {
    fn read(&self) -> Reading {
        let passed_us = self.passed_us.fetch_add(self.pace_us, Ordering::Relaxed);
        let Reading { unix_us, monotonic_us } = self.now;
        Reading { unix_us: unix_us + signed_count(passed_us), monotonic_us: monotonic_us + passed_us }
    }
}

impl Clock {
    /// Creates a clock that reads the machine's time.
    pub fn machine() -> Self {
        let cycles = quanta::Clock::new();
        Clock::Machine { start: Instant::now(), start_cycles: cycles.raw(), cycles }
    }

    /// Creates a clock that stands still at `unix_ms` until [`Clock::advance_ms`].
    pub fn standing_at(unix_ms: i64) -> Self {
        let now = Reading { unix_us: unix_ms * 1000, monotonic_us: 0 };
        Clock::Virtual(VirtualClock { now, ..VirtualClock::default() })
    }

    /// Reads both clocks.
    pub fn read(&self) -> Reading {
        match self {
            Clock::Machine { start, .. } => Reading {
                unix_us: SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |d| signed_count(whole_us(d))),
                monotonic_us: whole_us(start.elapsed()),
            },
            Clock::Virtual(clock) => clock.read(),
        }
    }

    /// Returns microseconds on the monotonic clock.
    #[inline]
    pub fn monotonic_us(&self) -> u64 {
        match self {
            Clock::Machine { start, .. } => whole_us(start.elapsed()),
            Clock::Virtual(clock) => clock.read().monotonic_us,
        }
    }

    /// Returns nanoseconds that are meaningful only as differences. A command's duration is read after each: of a GET
    /// at pipeline 100 on 5 million keys, asking the system took 11 %, counting the processor's cycles takes 5 %.
    #[inline]
    pub fn stopwatch_ns(&self) -> u64 {
        match self {
            Clock::Machine { cycles, start_cycles, .. } => cycles.delta_as_nanos(*start_cycles, cycles.raw()),
            Clock::Virtual(clock) => clock.read().monotonic_us * 1000,
        }
    }

    /// Sets the date of a virtual clock, forward or back; the monotonic clock is unaffected.
    pub fn set_unix_us(&mut self, unix_us: i64) {
        match self {
            Clock::Machine { .. } => panic!("only a virtual clock can be set"),
            Clock::Virtual(clock) => clock.now.unix_us = unix_us - signed_count(*clock.passed_us.get_mut()),
        }
    }

    /// Advances a virtual clock. A machine clock cannot be advanced.
    pub fn advance_ms(&mut self, ms: u64) {
        match self {
            Clock::Machine { .. } => panic!("only a virtual clock can be advanced"),
            Clock::Virtual(VirtualClock { now, .. }) => {
                now.unix_us += signed_count(ms * 1000);
                now.monotonic_us += ms * 1000;
            }
        }
    }

    /// Makes a virtual clock advance by this much at each reading; 0 stops it.
    pub fn set_pace_us(&mut self, us: u64) {
        match self {
            Clock::Machine { .. } => panic!("only a virtual clock has a pace"),
            Clock::Virtual(clock) => clock.pace_us = us,
        }
    }
}
