//! `--latency-dist`: rows of a spectrum from short to long latencies; the brightness is the share of PINGs.

use std::thread;
use std::time::{Duration, Instant};

use client::print_bytes;

use super::{INTERVAL, PAUSE};
use crate::Failure;
use crate::session::Session;

const ROWS_PER_LEGEND: usize = 20;

/// Colors of a terminal with 256 colors, from a share of none to all.
const COLORS: &[u8] =
    &[0, 233, 234, 235, 237, 239, 241, 243, 245, 247, 144, 143, 142, 184, 226, 214, 208, 202, 196];
const GREYS: &[u8] = &[0, 233, 234, 235, 237, 239, 241, 243, 245, 247, 249, 251, 253];

/// The upper bound of each letter in microseconds; longer times have `?`.
const BUCKETS: [(u64, char); 30] = [
    (10, '.'),
    (125, '-'),
    (250, '*'),
    (500, '#'),
    (1_000, '1'),
    (2_000, '2'),
    (3_000, '3'),
    (4_000, '4'),
    (5_000, '5'),
    (6_000, '6'),
    (7_000, '7'),
    (8_000, '8'),
    (9_000, '9'),
    (10_000, 'A'),
    (20_000, 'B'),
    (30_000, 'C'),
    (40_000, 'D'),
    (50_000, 'E'),
    (100_000, 'F'),
    (200_000, 'G'),
    (300_000, 'H'),
    (400_000, 'I'),
    (500_000, 'J'),
    (1_000_000, 'K'),
    (2_000_000, 'L'),
    (4_000_000, 'M'),
    (8_000_000, 'N'),
    (16_000_000, 'O'),
    (30_000_000, 'P'),
    (60_000_000, 'Q'),
];

struct Spectrum {
    counts: [u64; BUCKETS.len() + 1],
    total: u64,
}

impl Spectrum {
    fn new() -> Spectrum {
        Spectrum { counts: [0; BUCKETS.len() + 1], total: 0 }
    }

    fn add(&mut self, microseconds: u64) {
        self.counts[BUCKETS.partition_point(|(max, _)| *max < microseconds)] += 1;
        self.total += 1;
    }

    fn row(&self, palette: &[u8]) -> String {
        let letters = BUCKETS.iter().map(|(_, letter)| *letter).chain(['?']);
        let mut row = "\x1b[38;5;0m".to_owned();
        for (count, letter) in self.counts.iter().zip(letters) {
            let share = *count as f64 / self.total.max(1) as f64;
            let color = palette[(share * (palette.len() - 1) as f64).ceil() as usize];
            row += &format!("\x1b[48;5;{color}m{letter}");
        }
        row + "\x1b[0m\n"
    }
}

fn legend(palette: &[u8]) -> String {
    let line = "---------------------------------------------\n";
    let shades: String = palette.iter().map(|color| format!("\x1b[48;5;{color}m ")).collect();
    format!(
        "{line}. - * #          .01 .125 .25 .5 milliseconds\n1,2,3,...,9      from 1 to 9     milliseconds\n\
         A,B,C,D,E        10,20,30,40,50  milliseconds\nF,G,H,I,J        .1,.2,.3,.4,.5       seconds\n\
         K,L,M,N,O,P,Q,?  1,2,4,8,16,30,60,>60 seconds\nFrom 0 to 100%: {shades}\x1b[0m\n{line}"
    )
}

pub fn run(session: &mut Session, interval: Option<Duration>, in_grey: bool) -> Result<(), Failure> {
    session.connect()?;
    let palette = if in_grey { GREYS } else { COLORS };
    let interval = interval.unwrap_or(INTERVAL);
    let (mut spectrum, mut since, mut rows) = (Spectrum::new(), Instant::now(), 0);
    loop {
        let start = Instant::now();
        session.request_with_retries(&["PING"])?;
        spectrum.add(start.elapsed().as_micros() as u64);
        if since.elapsed() > interval {
            if rows % ROWS_PER_LEGEND == 0 {
                print_bytes(legend(palette).as_bytes());
            }
            rows += 1;
            print_bytes(spectrum.row(palette).as_bytes());
            (spectrum, since) = (Spectrum::new(), Instant::now());
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_find_their_letters() {
        let mut spectrum = Spectrum::new();
        [0, 10, 11, 60_000_001].into_iter().for_each(|time| spectrum.add(time));
        assert_eq!((spectrum.counts[0], spectrum.counts[1], spectrum.counts[BUCKETS.len()]), (2, 1, 1));
        let row = spectrum.row(COLORS);
        assert!(row.starts_with("\x1b[38;5;0m\x1b[48;5;247m.\x1b[48;5;239m-\x1b[48;5;0m*"), "{row:?}");
        assert!(row.ends_with("\x1b[48;5;239m?\x1b[0m\n"), "{row:?}");
    }
}
