//! The requests of one connection, as a plan has them.

use std::io::Write as _;

use client::append_bulk;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal, Zipf};
use wire::response::Value;

use super::memtier::{Argument, Pattern, Plan};
use crate::load::Requests;

/// The buffer of random data is this number of bytes longer than the longest piece.
const SPARE_DATA_LEN: usize = 4096;

pub struct Generator<'a> {
    plan: &'a Plan,
    /// Encoded where it is always the same.
    commands: Vec<Vec<Piece<'a>>>,
    key_min: u64,
    key_max: u64,
    /// For each command, if its keys are in order.
    next_keys: Vec<u64>,
    /// Whose turn it is, and how often still.
    command: usize,
    turns_left: u64,
    requests_left: Option<u64>,
    random: SmallRng,
    zipf: Option<Zipf<f64>>,
    normal: Option<Normal<f64>>,
    data: Vec<u8>,
    /// Where a SCAN goes on.
    cursor: Vec<u8>,
    batch: Vec<u8>,
}

enum Piece<'a> {
    Encoded(Vec<u8>),
    Key(&'a [u8], &'a [u8]),
    Data,
    Cursor,
}

impl<'a> Generator<'a> {
    pub fn new(plan: &'a Plan, connection: usize) -> Self {
        let (key_min, key_max) = plan.key_range(connection);
        let seed = plan.seed.wrapping_add(if plan.has_seeds { connection as u64 } else { 0 });
        let mut random = SmallRng::seed_from_u64(seed);
        let data_len = plan.data_len_max + if plan.has_random_data { SPARE_DATA_LEN } else { 0 };
        let mut data = vec![b'x'; data_len];
        if plan.has_random_data {
            data.fill_with(|| random.random());
        }
        let keys = (key_max - key_min + 1) as f64;
        let median = plan.key_median.unwrap_or(key_min as f64 + keys / 2.0);
        Self {
            plan,
            commands: plan.commands.iter().map(|command| pieces(command, plan.follows_cursor)).collect(),
            key_min,
            key_max,
            next_keys: vec![key_min; plan.commands.len()],
            command: 0,
            turns_left: plan.commands[0].ratio,
            requests_left: plan.requests_of(connection),
            random,
            zipf: Zipf::new(keys, plan.zipf_exponent).ok(),
            normal: Normal::new(median, plan.key_deviation.unwrap_or(keys / 6.0)).ok(),
            data,
            cursor: b"0".to_vec(),
            batch: Vec::new(),
        }
    }

    fn key(&mut self, command: usize) -> u64 {
        let (min, max) = (self.key_min, self.key_max);
        match self.plan.commands[command].pattern {
            Pattern::Random => self.random.random_range(min..=max),
            Pattern::Zipf => match self.zipf {
                Some(zipf) => (min + zipf.sample(&mut self.random) as u64 - 1).min(max),
                None => self.random.random_range(min..=max),
            },
            Pattern::Gaussian => match self.normal {
                // Far out there is nothing; a deviation without bounds would be drawn for ever.
                Some(normal) => (normal.sample(&mut self.random).max(0.0) as u64).clamp(min, max),
                None => self.random.random_range(min..=max),
            },
            Pattern::Sequential | Pattern::Parallel => {
                let key = self.next_keys[command];
                self.next_keys[command] = if key >= max { min } else { key + 1 };
                key
            }
        }
    }

    /// Where in `self.data` a value is.
    fn value(&mut self, key: u64) -> std::ops::Range<usize> {
        let (shortest, longest) = (self.plan.data_len_min, self.plan.data_len_max);
        let len = if shortest == longest {
            longest
        } else if self.plan.data_len_grows {
            let place = (key - self.key_min) as f64 / ((self.key_max - self.key_min).max(1)) as f64;
            shortest + ((longest - shortest) as f64 * place) as usize
        } else {
            self.random.random_range(shortest.max(1)..=longest)
        };
        let start = if self.plan.has_random_data { self.random.random_range(0..SPARE_DATA_LEN) } else { 0 };
        start..start + len
    }

    fn append(&mut self, command: usize) {
        let mut batch = std::mem::take(&mut self.batch);
        let pieces = std::mem::take(&mut self.commands[command]);
        let mut key = self.key_min;
        for piece in &pieces {
            match piece {
                Piece::Encoded(bytes) => batch.extend_from_slice(bytes),
                Piece::Cursor => append_bulk(&mut batch, &self.cursor),
                Piece::Data => {
                    let value = self.value(key);
                    append_bulk(&mut batch, &self.data[value]);
                }
                Piece::Key(before, behind) => {
                    key = self.key(command);
                    let prefix = &self.plan.key_prefix;
                    let digits = key.checked_ilog10().unwrap_or(0) as usize + 1;
                    let len = before.len() + prefix.len() + digits + behind.len();
                    // Writing to memory cannot fail.
                    let _infallible = write!(batch, "${len}\r\n");
                    batch.extend_from_slice(before);
                    batch.extend_from_slice(prefix);
                    let _infallible = write!(batch, "{key}");
                    batch.extend_from_slice(behind);
                    batch.extend_from_slice(b"\r\n");
                }
            }
        }
        (self.batch, self.commands[command]) = (batch, pieces);
    }

    /// The command whose turn it is.
    fn take_turn(&mut self) -> usize {
        let command = self.command;
        self.turns_left -= 1;
        if self.turns_left == 0 {
            self.command = (command + 1) % self.commands.len();
            self.turns_left = self.plan.commands[self.command].ratio;
        }
        command
    }
}

fn pieces(command: &super::memtier::PlannedCommand, follows_cursor: bool) -> Vec<Piece<'_>> {
    let mut pieces = vec![Piece::Encoded(format!("*{}\r\n", command.arguments.len()).into_bytes())];
    for (index, argument) in command.arguments.iter().enumerate() {
        match (argument, pieces.last_mut()) {
            (Argument::Fixed(_), _) if follows_cursor && index == 1 => pieces.push(Piece::Cursor),
            (Argument::Fixed(bytes), Some(Piece::Encoded(encoded))) => append_bulk(encoded, bytes),
            (Argument::Fixed(bytes), _) => {
                let mut encoded = Vec::new();
                append_bulk(&mut encoded, bytes);
                pieces.push(Piece::Encoded(encoded));
            }
            (Argument::Key(before, behind), _) => pieces.push(Piece::Key(before, behind)),
            (Argument::Data, _) => pieces.push(Piece::Data),
        }
    }
    pieces
}

impl Requests for Generator<'_> {
    fn next_batch(&mut self, is_warming: bool) -> u64 {
        let wanted = self.plan.pipeline;
        let count =
            if is_warming { wanted } else { self.requests_left.map_or(wanted, |left| left.min(wanted)) };
        if !is_warming && let Some(left) = &mut self.requests_left {
            *left -= count;
        }
        self.batch.clear();
        for _ in 0..count {
            let command = self.take_turn();
            self.append(command);
        }
        count
    }

    fn bytes(&self) -> &[u8] {
        &self.batch
    }

    fn wants_replies(&self) -> bool {
        self.plan.follows_cursor
    }

    fn reply(&mut self, reply: Value) {
        let cursor = reply.as_list().and_then(|parts| parts.first()).and_then(Value::as_bytes);
        self.cursor = cursor.unwrap_or(b"0").to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(line: &str, connection: usize, batches: usize) -> Vec<String> {
        let plan = Plan::parse(&shlex::split(line).unwrap()).unwrap();
        let mut generator = Generator::new(&plan, connection);
        let mut out = Vec::new();
        for _ in 0..batches {
            let count = generator.next_batch(false);
            let text = String::from_utf8(generator.bytes().to_vec()).unwrap();
            let commands: Vec<&str> = text.split('*').skip(1).collect();
            assert_eq!(commands.len() as u64, count);
            out.extend(commands.iter().map(|command| {
                let words: Vec<&str> = command.split("\r\n").collect();
                for bulk in words[1..words.len() - 1].chunks(2) {
                    assert_eq!(bulk[0], format!("${}", bulk[1].len()));
                }
                words[2..].iter().step_by(2).copied().collect::<Vec<_>>().join(" ")
            }));
        }
        out
    }

    #[test]
    fn keys_in_order_and_commands_by_turns() {
        let line = "--command 'SET __key__ __data__' --command-key-pattern P --command-ratio 2 \
                    --command 'PING' --key-prefix k --key-minimum 8 --key-maximum 11 -c 2 -t 1 -d 2 -n 4 --pipeline 3";
        assert_eq!(requests(line, 1, 3), ["SET k10 xx", "SET k11 xx", "PING", "SET k10 xx"]);
        let line = "--ratio 1:2 --key-pattern S:S --key-maximum 1 -n 5 -d 1 --pipeline 5 --key-prefix ''";
        assert_eq!(requests(line, 0, 1), ["SET 0 x", "GET 0", "GET 1", "SET 1 x", "GET 0"]);
    }

    #[test]
    fn keys_at_random_stay_in_their_range() {
        for pattern in ["R", "G", "Z"] {
            let line = format!(
                "--command 'GET __key__' --command-key-pattern {pattern} --key-prefix '' --key-minimum 100 \
                 --key-maximum 199 -n 1000 --pipeline 1000 --distinct-client-seed"
            );
            let keys: Vec<u64> =
                requests(&line, 3, 1).iter().map(|request| request[4..].parse().unwrap()).collect();
            assert!(keys.iter().all(|key| (100..200).contains(key)), "{pattern}");
            let count = |low: u64, high: u64| keys.iter().filter(|key| (low..high).contains(key)).count();
            match pattern {
                "Z" => assert!(count(100, 110) > 400),
                "G" => assert!(count(134, 167) > 500),
                _ => assert!(count(100, 110) < 200 && count(190, 200) > 50),
            }
        }
    }

    #[test]
    fn a_scan_goes_on_where_it_stopped() {
        let words = shlex::split("--command 'SCAN 0 COUNT 10' --scan-incremental-iteration").unwrap();
        let plan = Plan::parse(&words).unwrap();
        let mut generator = Generator::new(&plan, 0);
        let mut sent = |reply: &[u8]| {
            generator.next_batch(false);
            let text = String::from_utf8(generator.bytes().to_vec()).unwrap();
            generator.reply(Value::Array(vec![Value::Bulk(reply.to_vec()), Value::Array(Vec::new())]));
            text.split("\r\n").nth(4).unwrap().to_string()
        };
        assert_eq!([sent(b"17"), sent(b"0"), sent(b"5")], ["0", "17", "0"]);
    }
}
