//! `--bigkeys` and `--memkeys`: the largest key of each type, found by a scan of all keys.

use crate::Failure;
use crate::key_sizes::{KeyTypes, Measure};
use crate::options::Options;
use crate::progress::Progress;
use crate::scan::{Walk, allow_reads, shown, total_keys};
use crate::session::Session;

/// Number of keys between rows that show only the progress.
const KEYS_PER_NOTE: u64 = 1_000_000;

/// Results of the scan so far.
#[derive(Default)]
struct Met {
    keys: u64,
    key_bytes: u64,
}

pub fn run(session: &mut Session, options: &Options) -> Result<(), Failure> {
    session.connect()?;
    let measure = if options.memkeys || options.memkeys_samples.is_some() {
        Measure::Memory(options.memkeys_samples.filter(|samples| *samples > 0))
    } else {
        Measure::Elements
    };
    let total = total_keys(session)?;
    print_line!("\n# Scanning the entire keyspace to find biggest keys as well as");
    print_line!("# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec");
    print_line!("# per 100 SCAN commands (not usually needed).\n");
    allow_reads(session)?;

    let progress = Progress::keys(total);
    let (mut types, mut walk, mut met) = (KeyTypes::new(), Walk::new(session, options)?, Met::default());
    let mut percent = 0.0;
    loop {
        let percent_before = 100.0 * met.keys as f64 / total.max(1) as f64;
        let Some(keys) = walk.next(session)? else { break };
        percent = percent_before;
        let indices = types.of_keys(session, &keys)?;
        let sizes = types.sizes(session, &keys, &indices, measure)?;
        for ((key, index), size) in keys.iter().zip(indices).zip(sizes) {
            let Some(index) = index else { continue };
            met.keys += 1;
            met.key_bytes += key.len() as u64;
            let found = &mut types.0[index];
            if found.add(key, size) {
                progress.print(&format!(
                    "[{percent:05.2}%] Biggest {:<6} found so far '{}' with {size} {}",
                    found.name,
                    shown(key),
                    found.unit(measure)
                ));
            }
            if met.keys.is_multiple_of(KEYS_PER_NOTE) {
                progress.print(&format!("[{percent:05.2}%] Sampled {} keys so far", met.keys));
            }
        }
        progress.set(met.keys);
    }
    drop(progress);
    let interruption = walk.was_interrupted().then_some(percent);
    print_text!("{}", summary(&types, &met, interruption, measure));
    Ok(())
}

/// Returns the summary. `interruption`: the progress, if the scan was interrupted.
fn summary(types: &KeyTypes, met: &Met, interruption: Option<f64>, measure: Measure) -> String {
    let mean = |total: u64, count: u64| if count == 0 { 0.0 } else { total as f64 / count as f64 };
    let so_far = interruption.map_or(String::new(), |percent| format!("[{percent:05.2}%] "));
    let mut out = format!(
        "\n-------- Summary --------\n\n{so_far}Sampled {} keys in the keyspace!\nTotal key length in bytes is {} (avg len \
         {:.2})\n\n",
        met.keys,
        met.key_bytes,
        mean(met.key_bytes, met.keys)
    );
    for found in &types.0 {
        if let Some(key) = &found.biggest_key {
            let (name, biggest, unit) = (&found.name, found.biggest, found.unit(measure));
            out += &format!("Biggest {name:>6} found '{}' has {biggest} {unit}\n", shown(key));
        }
    }
    out.push('\n');
    for found in &types.0 {
        out += &format!(
            "{} {}s with {} {} ({:05.2}% of keys, avg size {:.2})\n",
            found.keys,
            found.name,
            found.total,
            found.unit(measure),
            100.0 * mean(found.keys, met.keys),
            mean(found.total, found.keys)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_all_types() {
        let mut types = KeyTypes::new();
        types.0[0].add(b"a", 3);
        assert!(types.0[0].add(b"b\n", 5) && !types.0[0].add(b"c", 5));
        let met = Met { keys: 4, key_bytes: 10 };
        let text = summary(&types, &met, Some(12.5), Measure::Elements);
        assert!(text.contains("[12.50%] Sampled 4 keys in the keyspace!\n"), "{text}");
        assert!(text.contains("Total key length in bytes is 10 (avg len 2.50)\n"), "{text}");
        assert!(text.contains("Biggest string found '\"b\\n\"' has 5 bytes\n"), "{text}");
        assert!(text.contains("3 strings with 13 bytes (75.00% of keys, avg size 4.33)\n"), "{text}");
        assert!(text.contains("0 streams with 0 entries (00.00% of keys, avg size 0.00)\n"), "{text}");
    }
}
