//! `--bigkeys` and `--memkeys`: the largest key of each type, found by walking over all of them.

use std::collections::BTreeMap;

use wire::request::quoted;
use wire::response::Value;

use crate::Failure;
use crate::options::Options;
use crate::scan::{Walk, pause};
use crate::session::Session;

/// How the size of a type is asked, and in what it is counted.
const SIZES: &[(&str, &str, &str)] = &[
    ("string", "STRLEN", "bytes"),
    ("list", "LLEN", "items"),
    ("set", "SCARD", "members"),
    ("zset", "ZCARD", "members"),
    ("hash", "HLEN", "fields"),
    ("stream", "XLEN", "entries"),
];

#[derive(Default)]
struct Type {
    keys: u64,
    total: i64,
    biggest: i64,
    biggest_key: Vec<u8>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn run(session: &mut Session, options: &Options) -> Result<(), Failure> {
    session.connect()?;
    let total_keys = match session.request(&["DBSIZE"])? {
        Value::Integer(count) => count,
        other => {
            return Err(Failure::Reply(format!(
                "DBSIZE failed: {}",
                text(other.as_bytes().unwrap_or_default())
            )));
        }
    };
    println!("\n# Scanning the entire keyspace to find the biggest keys as well as");
    println!("# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec");
    println!("# per 100 SCAN commands (not usually needed).\n");

    let (mut types, mut walk, mut sampled, mut key_bytes) =
        (BTreeMap::new(), Walk::new(options)?, 0u64, 0u64);
    for calls in 1.. {
        let Some(keys) = walk.next(session)? else { break };
        sampled += keys.len() as u64;
        key_bytes += keys.iter().map(|key| key.len() as u64).sum::<u64>();
        measure(session, options, &keys, &mut types, sampled * 100 / (total_keys.max(1) as u64))?;
        pause(options, calls);
    }
    summarize(options, &types, sampled, key_bytes);
    Ok(())
}

/// Asks type and size of a few keys, in two rounds.
fn measure(
    session: &mut Session,
    options: &Options,
    keys: &[Vec<u8>],
    types: &mut BTreeMap<String, Type>,
    percent: u64,
) -> Result<(), Failure> {
    let commands: Vec<Vec<Vec<u8>>> = keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]).collect();
    let names: Vec<String> = pipeline(session, &commands)?
        .iter()
        .map(|reply| text(reply.as_bytes().unwrap_or_default()))
        .collect();
    let commands: Vec<Vec<Vec<u8>>> =
        keys.iter().zip(&names).map(|(key, name)| size_command(options, name, key)).collect();
    let sizes = pipeline(session, &commands)?;
    for ((key, name), size) in keys.iter().zip(names).zip(sizes) {
        // A key may be gone by now.
        let Value::Integer(size) = size else { continue };
        let unit = unit(options, &name);
        let entry = types.entry(name.clone()).or_default();
        entry.keys += 1;
        entry.total += size;
        if size > entry.biggest || entry.biggest_key.is_empty() {
            entry.biggest = size;
            entry.biggest_key.clone_from(key);
            let (percent, key) = (percent.min(100), text(&quoted(key)));
            println!("[{percent:02}.00%] Biggest {name:<6} found so far {key} with {size} {unit}");
        }
    }
    Ok(())
}

fn size_command(options: &Options, name: &str, key: &[u8]) -> Vec<Vec<u8>> {
    let known = SIZES.iter().find(|(known, ..)| *known == name);
    match known {
        Some((_, command, _)) if !options.memkeys => vec![command.as_bytes().to_vec(), key.to_vec()],
        None if !options.memkeys => vec![b"EXISTS".to_vec(), key.to_vec()],
        _ => {
            let mut args = vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.to_vec()];
            if let Some(samples) = options.memkeys_samples {
                args.extend([b"SAMPLES".to_vec(), samples.to_string().into_bytes()]);
            }
            args
        }
    }
}

fn unit(options: &Options, name: &str) -> &'static str {
    let known = SIZES.iter().find(|(known, ..)| *known == name);
    if options.memkeys { "bytes" } else { known.map_or("?", |(_, _, unit)| unit) }
}

fn pipeline(session: &mut Session, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, Failure> {
    let connection = session.connection()?;
    for command in commands {
        connection.send(command)?;
    }
    let mut replies = Vec::new();
    for _ in commands {
        replies.push(connection.receive()?);
    }
    Ok(replies)
}

fn summarize(options: &Options, types: &BTreeMap<String, Type>, sampled: u64, key_bytes: u64) {
    let mean = |total: f64, count: u64| if count == 0 { 0.0 } else { total / count as f64 };
    println!("\n-------- summary -------\n");
    println!("Sampled {sampled} keys in the keyspace!");
    println!("Total key length in bytes is {key_bytes} (avg len {:.2})\n", mean(key_bytes as f64, sampled));
    for (name, found) in types {
        let key = text(&quoted(&found.biggest_key));
        println!("Biggest {name:>6} found {key} has {} {}", found.biggest, unit(options, name));
    }
    println!();
    for (name, found) in types {
        let share = 100.0 * mean(found.keys as f64, sampled);
        let (keys, total, unit) = (found.keys, found.total, unit(options, name));
        println!(
            "{keys} {name}s with {total} {unit} ({share:05.2}% of keys, avg size {:.2})",
            mean(total as f64, keys)
        );
    }
}
