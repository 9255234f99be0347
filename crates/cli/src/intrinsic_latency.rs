//! `--intrinsic-latency`: the scheduling latency of the system, measured by a computation without system calls.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::scan::catch_interrupts;

/// A computation of a few microseconds that the compiler cannot remove.
fn compute() -> u64 {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..2000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}

pub fn run(seconds: u64) -> Result<(), Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    catch_interrupts(&interrupted)?;
    let (begin, wanted) = (Instant::now(), Duration::from_secs(seconds));
    let (mut worst, mut runs) = (0, 0u64);
    while runs == 0 || !interrupted.load(Ordering::Relaxed) && begin.elapsed() < wanted {
        let start = Instant::now();
        compute();
        let microseconds = start.elapsed().as_micros();
        runs += 1;
        if microseconds > worst {
            worst = microseconds;
            print_line!("Max latency so far: {worst} microseconds.");
        }
    }
    let mean = begin.elapsed().as_secs_f64() * 1e6 / runs.max(1) as f64;
    print_line!(
        "\n{runs} total runs (avg latency: {mean:.4} microseconds / {:.2} nanoseconds per run).",
        mean * 1e3
    );
    print_line!("Worst run took {:.0}x longer than the average latency.", worst as f64 / mean);
    Ok(())
}
