//! `--hotkeys`: the most used keys, on servers with an LFU policy.

use wire::response::Value;

use crate::Failure;
use crate::options::Options;
use crate::progress::Progress;
use crate::scan::{Walk, allow_reads, shown, total_keys};
use crate::session::Session;

const COUNT: usize = 16;
/// Number of keys between rows that show only the progress.
const KEYS_PER_NOTE: u64 = 1_000_000;

/// The hottest keys so far, in ascending order.
struct Hottest {
    keys: Vec<(u64, String)>,
    len_max: usize,
}

impl Hottest {
    fn new(len_max: usize) -> Hottest {
        Hottest { keys: Vec::new(), len_max }
    }

    /// Adds a key and returns whether it is among the hottest. A key without accesses is not added.
    fn add(&mut self, key: &[u8], counter: u64) -> bool {
        let place = self.keys.partition_point(|(other, _)| *other < counter);
        let is_full = self.keys.len() >= self.len_max;
        if counter == 0 || is_full && place == 0 {
            return false;
        }
        self.keys.insert(place, (counter, shown(key)));
        if is_full {
            self.keys.remove(0);
        }
        true
    }
}

/// Returns the access frequency of each key.
fn counters(session: &mut Session, keys: &[Vec<u8>]) -> Result<Vec<u64>, Failure> {
    let command = |key: &Vec<u8>| vec![b"OBJECT".to_vec(), b"FREQ".to_vec(), key.clone()];
    let replies = session.pipeline(&keys.iter().map(command).collect::<Vec<_>>())?;
    let counters = replies.iter().zip(keys).map(|(reply, key)| match reply {
        Value::Integer(counter) => Ok(*counter as u64),
        Value::Error(text) => Err(Failure::Reply(format!("Error: {}", String::from_utf8_lossy(text)))),
        _ => {
            eprint_line!("Warning: OBJECT freq on '{}' failed (may have been deleted)", shown(key));
            Ok(0)
        }
    });
    counters.collect()
}

pub fn run(session: &mut Session, options: &Options) -> Result<(), Failure> {
    session.connect()?;
    let total = total_keys(session)?;
    print_line!("\n# Scanning the entire keyspace to find hot keys as well as");
    print_line!("# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec");
    print_line!("# per 100 SCAN commands (not usually needed).\n");
    allow_reads(session)?;

    let progress = Progress::keys(total);
    let mut walk = Walk::new(session, options)?;
    let (mut hottest, mut sampled) = (Hottest::new(options.hotkeys_count.unwrap_or(COUNT)), 0u64);
    let mut percent = 0.0;
    loop {
        let percent_before = 100.0 * sampled as f64 / total.max(1) as f64;
        let Some(keys) = walk.next(session)? else { break };
        percent = percent_before;
        for (key, counter) in keys.iter().zip(counters(session, &keys)?) {
            sampled += 1;
            if sampled.is_multiple_of(KEYS_PER_NOTE) {
                progress.print(&format!("[{percent:05.2}%] Sampled {sampled} keys so far"));
            }
            if hottest.add(key, counter) {
                let key = shown(key);
                progress
                    .print(&format!("[{percent:05.2}%] Hot key '{key}' found so far with counter {counter}"));
            }
        }
        progress.set(sampled);
    }
    drop(progress);
    print_line!("\n-------- Summary --------\n");
    if walk.was_interrupted() {
        print_text!("[{percent:05.2}%] ");
    }
    print_line!("Sampled {sampled} keys in the keyspace!");
    for (counter, key) in hottest.keys.iter().rev() {
        print_line!("hot key found with counter: {counter}\tkeyname: {key}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_stay() {
        let mut hottest = Hottest::new(3);
        for (key, counter) in [("a", 5), ("b", 1), ("c", 9), ("d", 7), ("e", 7), ("f", 1), ("g", 0)] {
            hottest.add(key.as_bytes(), counter);
        }
        let counters: Vec<u64> = hottest.keys.iter().map(|(counter, _)| *counter).collect();
        assert_eq!(counters, [7, 7, 9]);
        assert!(!Hottest::new(0).add(b"a", 3) && Hottest::new(usize::MAX).add(b"a", 3));
    }
}
