//! When two replies agree. Most must be equal; what follows is how the others are compared.

use super::Command;
use super::generate::{Traits, called_by_script};
use wire::response::Value;

/// How the replies to a command are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Agreement {
    Exact,
    /// The same elements in any order.
    Unordered,
    /// The same pairs in any order.
    UnorderedPairs,
    /// Integers that differ by no more than this: what is left of a time, and which time that is.
    Within(i64),
    /// A cursor and elements: both walks end at once, and then the same elements in any order; or neither need be.
    Scan {
        pairs: bool,
    },
    /// As the scan of pairs, of members and scores: how many digits a score has shows whether its sorted set is small.
    ScanOfScores,
    /// Chosen at random: only how many.
    Chosen,
    /// The name of an encoding. Those of strings follow from how they came about; and with SORT, whether a sorted set
    /// is small.
    Encoding {
        sorting: bool,
    },
    /// Strings sorted up to a NUL, which ends them there.
    Sorted,
    /// Times since and of events, wherever they stand in the reply.
    Times,
}

/// As long as a busy machine may take between the same command here and there.
const TOLERANCE_MS: i64 = 20_000;

fn agreement(args: &[Vec<u8>]) -> Agreement {
    let name = args.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let has = |word: &[u8]| args.iter().any(|arg| arg.eq_ignore_ascii_case(word));
    match name.as_slice() {
        b"spop" if !has(b"100000") => Agreement::Chosen,
        b"keys" | b"smembers" | b"sinter" | b"sunion" | b"sdiff" | b"spop" | b"hkeys" | b"hvals" => {
            Agreement::Unordered
        }
        b"sort" | b"sort_ro" if has(b"BY") && has(b"LIMIT") => Agreement::Chosen,
        b"sort" | b"sort_ro" if has(b"BY") => Agreement::Unordered,
        b"sort" | b"sort_ro" if has(b"ALPHA") && has(b"GET") => Agreement::Chosen,
        b"sort" | b"sort_ro" if has(b"ALPHA") => Agreement::Sorted,
        b"hgetall" => Agreement::UnorderedPairs,
        b"ttl" | b"expiretime" | b"httl" | b"hexpiretime" => Agreement::Within(TOLERANCE_MS / 1000),
        b"pttl" | b"pexpiretime" | b"hpttl" | b"hpexpiretime" => Agreement::Within(TOLERANCE_MS),
        b"object" if has(b"IDLETIME") => Agreement::Within(TOLERANCE_MS / 1000),
        b"scan" if args.get(1).is_some_and(|cursor| cursor != b"0") => Agreement::Chosen,
        b"sscan" | b"hscan" | b"zscan" if args.get(2).is_some_and(|cursor| cursor != b"0") => {
            Agreement::Chosen
        }
        b"scan" | b"sscan" => Agreement::Scan { pairs: false },
        b"hscan" => Agreement::Scan { pairs: !has(b"NOVALUES") },
        b"zscan" => Agreement::Scan { pairs: !has(b"NOSCORES") },
        b"hello" | b"srandmember" | b"hrandfield" | b"zrandmember" | b"randomkey" => Agreement::Chosen,
        b"xinfo" | b"xpending" => Agreement::Times,
        b"xreadgroup" if has(b"CLAIM") => Agreement::Times,
        _ => Agreement::Exact,
    }
}

/// Follows a connection, because EXEC answers for the commands before it.
pub struct Comparer {
    /// OBJECT ENCODING must agree too.
    same_encodings: bool,
    traits: Traits,
    queued: Vec<Agreement>,
    in_transaction: bool,
}

impl Comparer {
    pub fn new(same_encodings: bool, traits: Traits) -> Self {
        Comparer { same_encodings, traits, queued: Vec::new(), in_transaction: false }
    }

    fn agreement(&self, args: &[Vec<u8>]) -> Agreement {
        let args = called_by_script(args).unwrap_or(args);
        let is = |at: usize, word: &[u8]| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word));
        let encoding = is(0, b"OBJECT") && is(1, b"ENCODING");
        if is(0, b"DUMP") || encoding && !self.same_encodings || is(0, b"DBSIZE") && self.traits.expiring {
            return Agreement::Chosen;
        }
        // A copy of a hash takes expired fields along here and leaves them out there; HLEN counts them until they go.
        if is(0, b"HLEN") && self.traits.expiring {
            return Agreement::Chosen;
        }
        if encoding {
            return Agreement::Encoding { sorting: self.traits.sorting };
        }
        if is(0, b"ZSCAN") && self.traits.sorting {
            return Agreement::Chosen;
        }
        if is(0, b"ZSCAN") && !self.same_encodings && agreement(args) == (Agreement::Scan { pairs: true }) {
            return Agreement::ScanOfScores;
        }
        agreement(args)
    }

    pub fn agree(&mut self, args: &Command, here: Value, there: Value) -> bool {
        let name = args.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        let queued = Value::Simple(b"QUEUED".to_vec());
        if self.in_transaction && here == queued && there == queued {
            self.queued.push(self.agreement(args));
            return true;
        }
        match name.as_slice() {
            b"multi" if !here.is_error() => self.in_transaction = true,
            b"exec" | b"discard" => {
                self.in_transaction = false;
                let queued = std::mem::take(&mut self.queued);
                if let (Value::Array(here), Value::Array(there)) = (&here, &there) {
                    let each = here.iter().zip(there).zip(queued);
                    return here.len() == there.len() && each.into_iter().all(|((h, t), a)| agrees(a, h, t));
                }
            }
            _ => {}
        }
        agrees(self.agreement(args), &here, &there)
    }
}

fn agrees(agreement: Agreement, here: &Value, there: &Value) -> bool {
    if here == there {
        return true;
    }
    match agreement {
        Agreement::Exact => false,
        Agreement::Unordered => sorted(here, 1) == sorted(there, 1) && same_kind(here, there),
        Agreement::UnorderedPairs => sorted(here, 2) == sorted(there, 2) && same_kind(here, there),
        Agreement::Within(tolerance) => within(here, there, tolerance),
        Agreement::Scan { pairs } => scans_agree(here, there, pairs),
        Agreement::ScanOfScores => scans_agree(&with_numbers(here), &with_numbers(there), true),
        Agreement::Chosen => same_kind(here, there) && length(here) == length(there) && !here.is_error(),
        Agreement::Encoding { sorting } => encodings_agree(here, there, sorting),
        Agreement::Sorted => sorts_agree(here, there),
        Agreement::Times => times_agree(here, there),
    }
}

fn encodings_agree(here: &Value, there: &Value, sorting: bool) -> bool {
    let (Some(here), Some(there)) = (here.as_bytes(), there.as_bytes()) else { return false };
    let is_string = |name: &[u8]| matches!(name, b"int" | b"embstr" | b"raw");
    // A list that shrinks is small again at once here, and there only if it lies in one node.
    let small_again = here == b"listpack" && there == b"quicklist";
    is_string(here) && is_string(there)
        || small_again
        || sorting && here == b"listpack" && there == b"skiplist"
}

fn sorts_agree(here: &Value, there: &Value) -> bool {
    let (Some(here), Some(there)) = (here.as_list(), there.as_list()) else { return false };
    let has_nul = |item: &Value| item.as_bytes().is_some_and(|bytes| bytes.contains(&0));
    here.len() == there.len() && here.iter().chain(there).any(has_nul)
}

fn same_kind(here: &Value, there: &Value) -> bool {
    std::mem::discriminant(here) == std::mem::discriminant(there)
}

fn length(value: &Value) -> Option<usize> {
    match value {
        Value::Map(pairs) => Some(pairs.len()),
        other => other.as_list().map(<[Value]>::len),
    }
}

/// The elements of a list, `together` at a time, in an order of our own.
fn sorted(value: &Value, together: usize) -> Option<Vec<String>> {
    let mut parts: Vec<String> = match value {
        Value::Map(pairs) => pairs.iter().map(|pair| format!("{pair:?}")).collect(),
        other => {
            let list = other.as_list()?;
            let nested = together == 2 && list.iter().all(|item| item.as_list().is_some());
            list.chunks(if nested { 1 } else { together }).map(|chunk| format!("{chunk:?}")).collect()
        }
    };
    parts.sort();
    Some(parts)
}

fn within(here: &Value, there: &Value, tolerance: i64) -> bool {
    match (here, there) {
        (Value::Integer(here), Value::Integer(there)) => {
            here == there || *here >= 0 && *there >= 0 && here.abs_diff(*there) <= tolerance as u64
        }
        (Value::Array(here), Value::Array(there)) => {
            here.len() == there.len() && here.iter().zip(there).all(|(h, t)| within(h, t, tolerance))
        }
        _ => here == there,
    }
}

/// A scan's reply with each second element as the number that it spells.
fn with_numbers(reply: &Value) -> Value {
    let Some([cursor, items]) = reply.as_list() else { return reply.clone() };
    let spelled = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<f64>().ok();
    let number = |(at, item): (usize, &Value)| match item.as_bytes().and_then(spelled) {
        Some(number) if at % 2 == 1 => Value::Bulk(format!("{number:?}").into_bytes()),
        _ => item.clone(),
    };
    let items = items.as_list().unwrap_or_default().iter().enumerate().map(number).collect();
    Value::Array(vec![cursor.clone(), Value::Array(items)])
}

fn scans_agree(here: &Value, there: &Value, pairs: bool) -> bool {
    let (Some([here_cursor, here_items]), Some([there_cursor, there_items])) =
        (here.as_list(), there.as_list())
    else {
        return false;
    };
    let end = |cursor: &Value| cursor.as_bytes() == Some(b"0");
    if end(here_cursor) && end(there_cursor) {
        let together = if pairs { 2 } else { 1 };
        return sorted(here_items, together) == sorted(there_items, together);
    }
    same_kind(here_items, there_items)
}

/// Equal but for integers that are times, which must be close.
fn times_agree(here: &Value, there: &Value) -> bool {
    match (here, there) {
        (Value::Integer(_), Value::Integer(_)) => within(here, there, TOLERANCE_MS),
        (Value::Map(here), Value::Map(there)) => {
            let entries = |pairs: &[(Value, Value)]| -> Vec<Value> {
                pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect()
            };
            entries_agree(&entries(here), &entries(there))
        }
        (Value::Array(here), Value::Array(there)) => entries_agree(here, there),
        _ => here == there,
    }
}

/// Integers count exactly unless they stand where times stand.
fn entries_agree(here: &[Value], there: &[Value]) -> bool {
    // A node that trimming has emptied goes at once here.
    const TIMES: &[&[u8]] =
        &[b"idle", b"inactive", b"seen-time", b"active-time", b"radix-tree-keys", b"radix-tree-nodes"];
    let pair = |at: usize| {
        let named = at > 0 && here[at - 1].as_bytes().is_some_and(|name| TIMES.contains(&name));
        // [id, consumer, idle, deliveries] and [id, time, deliveries] of pending entries.
        let of_pending = at + 2 == here.len() && matches!(here.len(), 3 | 4) && here[0].as_bytes().is_some();
        named || of_pending
    };
    here.len() == there.len()
        && here.iter().zip(there).enumerate().all(|(at, (h, t))| match (h, t) {
            (Value::Integer(_), Value::Integer(_)) => h == t || pair(at) && within(h, t, TOLERANCE_MS),
            _ => times_agree(h, t),
        })
}
