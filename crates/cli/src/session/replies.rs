//! Kinds of replies that are printed in a special form.

use client::printable;
use wire::response::Value;

use super::is_command;

pub fn is_subscription(args: &[Vec<u8>]) -> bool {
    ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"].iter().any(|name| is_command(args, name))
}

pub fn is_unsubscription(args: &[Vec<u8>]) -> bool {
    ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"].iter().any(|name| is_command(args, name))
}

/// Returns whether the command's reply is a human-readable text.
pub fn is_verbatim(args: &[Vec<u8>]) -> bool {
    let subcommand = |names: &[&str]| {
        args.get(1).is_some_and(|arg| names.iter().any(|name| arg.eq_ignore_ascii_case(name.as_bytes())))
    };
    is_command(args, "INFO")
        || is_command(args, "LOLWUT")
        || (is_command(args, "DEBUG") && subcommand(&["HTSTATS", "HTSTATS-KEY", "CLIENT-EVICTION"]))
        || (is_command(args, "MEMORY") && subcommand(&["MALLOC-STATS", "DOCTOR"]))
        || (is_command(args, "CLUSTER") && args.len() == 2 && subcommand(&["NODES", "INFO"]))
        || (is_command(args, "CLIENT") && subcommand(&["LIST", "INFO"]))
        || (is_command(args, "LATENCY") && args.len() == 3 && subcommand(&["GRAPH"]))
        || (is_command(args, "LATENCY") && args.len() == 2 && subcommand(&["DOCTOR"]))
        || (is_command(args, "PROXY") && subcommand(&["INFO"]))
}

/// Returns the kind of a publish/subscribe message, its first element; it is a push in RESP3 and an array in RESP2.
pub fn message_kind(value: &Value, is_resp3: bool) -> Option<&[u8]> {
    let items = match value {
        Value::Push(items) if is_resp3 => items,
        Value::Array(items) if !is_resp3 => items,
        _ => return None,
    };
    let kind = items.first()?.as_bytes()?;
    (items.len() >= 3 && (kind.ends_with(b"message") || kind.ends_with(b"subscribe"))).then_some(kind)
}

/// Formats an invalidation message as one line.
pub fn invalidated_keys(value: &Value) -> Option<Vec<u8>> {
    let Value::Push(items) = value else { return None };
    let [kind, Value::Array(keys)] = items.as_slice() else { return None };
    if kind.as_bytes() != Some(b"invalidate") {
        return None;
    }
    let keys: Vec<String> = keys
        .iter()
        .map(|key| format!("'{}'", printable(&String::from_utf8_lossy(key.as_bytes().unwrap_or_default()))))
        .collect();
    Some(format!("-> invalidate: {}\n", keys.join(", ")).into_bytes())
}
