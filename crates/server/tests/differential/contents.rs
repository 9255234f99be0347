//! Everything that two servers hold, compared key by key, and each one's serialised values read by the other.

use super::arguments::{EQUAL_SCORES, KEY_TYPES, KEYS_PER_TYPE, ODD_KEYS};
use super::compare::Comparer;
use super::generate::Traits;
use super::link::{Link, Pair};
use super::{Command, Step};
use wire::response::Value;

/// Where a value is put that the other side has serialised.
const CROSSED: &str = "crossed";

fn command(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Commands that read all of a key; their replies are to be compared.
fn whole_read(link: &mut Link, key: &[u8]) -> Vec<Step> {
    let mut reads = vec![
        command(&[b"TYPE", key]),
        command(&[b"PEXPIRETIME", key]),
        command(&[b"OBJECT", b"ENCODING", key]),
    ];
    match link.ask_bytes(&[b"TYPE", key]).as_bytes() {
        Some(b"string") => reads.push(command(&[b"GET", key])),
        Some(b"list") => reads.push(command(&[b"LRANGE", key, b"0", b"-1"])),
        Some(b"set") => reads.push(command(&[b"SMEMBERS", key])),
        Some(b"zset") => reads.push(command(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])),
        Some(b"stream") => {
            reads.push(command(&[b"XRANGE", key, b"-", b"+"]));
            reads.push(command(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]));
        }
        Some(b"hash") => {
            reads.push(command(&[b"HGETALL", key]));
            if let Value::Array(fields) = link.ask_bytes(&[b"HKEYS", key]) {
                let count = fields.len().to_string();
                let mut times = command(&[b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()]);
                times.extend(fields.iter().filter_map(|field| Some(field.as_bytes()?.to_vec())));
                if !fields.is_empty() {
                    reads.push(times);
                }
            }
        }
        _ => {}
    }
    reads.push(command(&[b"DEBUG", b"DIGEST-VALUE", key]));
    reads.into_iter().map(Step::Command).collect()
}

static EXISTS_ALL: std::sync::OnceLock<Command> = std::sync::OnceLock::new();

/// A command that looks at every key there may be.
fn every_key() -> Command {
    let own = KEY_TYPES.iter().chain(&[EQUAL_SCORES]);
    let own = own.flat_map(|kind| (0..KEYS_PER_TYPE).map(move |n| format!("{kind}:{n}").into_bytes()));
    std::iter::once(b"EXISTS".to_vec()).chain(own).chain(ODD_KEYS.iter().map(|key| key.to_vec())).collect()
}

/// Compares both servers' databases; the steps up to and including the first whose replies differ.
pub fn compare(pair: &mut Pair, same_encodings: bool, traits: Traits) -> Option<Vec<Step>> {
    for db in ["0", "1"] {
        let mut steps =
            vec![Step::words(&["RESET"]), Step::words(&["SELECT", db]), Step::words(&["KEYS", "*"])];
        pair.ask_both(&["RESET"]);
        pair.ask_both(&["SELECT", db]);
        // Whether keys that are expired still count as there depends on who looked at them.
        let all_keys = EXISTS_ALL.get_or_init(every_key);
        for link in [&mut pair.here, &mut pair.there] {
            link.ask_bytes(&all_keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        let keys = pair.here.ask(&["KEYS", "*"]);
        let keys: Vec<&[u8]> = keys.as_list().unwrap_or(&[]).iter().filter_map(Value::as_bytes).collect();
        for key in &keys {
            steps.extend(whole_read(&mut pair.here, key));
        }
        let mut comparer = Comparer::new(same_encodings, traits);
        let mut differs_at = None;
        pair.run(&steps, |at, command, here, there| {
            let agree = comparer.agree(command, here, there);
            if !agree {
                differs_at = Some(at);
            }
            agree
        });
        if let Some(at) = differs_at {
            return Some(vec![steps[1].clone(), steps[at].clone()]);
        }
        if let Some(key) = keys.iter().find(|key| !has_only_expired_fields(pair, key) && !crosses(pair, key))
        {
            let dump = Step::Command(command(&[b"DUMP", key]));
            return Some(vec![steps[1].clone(), dump]);
        }
    }
    let digest = Step::words(&["DEBUG", "DIGEST"]);
    let equal = |pair: &mut Pair| pair.here.ask(&["DEBUG", "DIGEST"]) == pair.there.ask(&["DEBUG", "DIGEST"]);
    if !equal(pair) {
        return Some(vec![digest]);
    }
    pair.ask_both(&["DEBUG", "RELOAD"]);
    (!equal(pair)).then(|| vec![Step::words(&["DEBUG", "RELOAD"]), digest])
}

/// Whether all fields of a hash are expired: what is serialised then differs, and none of it is seen again.
fn has_only_expired_fields(pair: &mut Pair, key: &[u8]) -> bool {
    let is_hash = pair.here.ask_bytes(&[b"TYPE", key]).as_bytes() == Some(b"hash");
    is_hash && pair.here.ask_bytes(&[b"HKEYS", key]) == Value::Array(Vec::new())
}

/// Whether each side reads what the other has serialised as the value that it was.
fn crosses(pair: &mut Pair, key: &[u8]) -> bool {
    let digest = pair.here.ask_bytes(&[b"DEBUG", b"DIGEST-VALUE", key]);
    let from_here = pair.here.ask_bytes(&[b"DUMP", key]);
    let from_there = pair.there.ask_bytes(&[b"DUMP", key]);
    let (Some(from_here), Some(from_there)) = (from_here.as_bytes(), from_there.as_bytes()) else {
        return false;
    };
    // The digest tells whether a key expires, but not when.
    let expires = pair.here.ask_bytes(&[b"PTTL", key]) != Value::Integer(-1);
    let ttl: &[u8] = if expires { b"1000000000" } else { b"0" };
    let sides = [(&mut pair.here, from_there), (&mut pair.there, from_here)];
    sides.into_iter().all(|(link, payload)| {
        link.ask_bytes(&[b"RESTORE", CROSSED.as_bytes(), ttl, payload, b"REPLACE"]);
        let read = link.ask_bytes(&[b"DEBUG", b"DIGEST-VALUE", CROSSED.as_bytes()]);
        link.ask_bytes(&[b"DEL", CROSSED.as_bytes()]);
        read == digest
    })
}
