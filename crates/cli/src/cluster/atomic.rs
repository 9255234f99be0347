//! Moves slots by the nodes' own atomic slot migration, which needs Valkey 9 or a server that has it too.

use std::collections::BTreeSet;
use std::time::Duration;

use client::printable;
use wire::response::Value;

use super::movement::{Movement, Progress};
use super::nodes::Cluster;
use super::{Level, print};
use crate::Failure;
use crate::program::Program;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, PartialEq)]
enum State {
    Running,
    Done,
    /// Why it is not listed as successful.
    Ended(String),
}

fn field<'a>(entry: &'a Value, name: &str) -> Option<&'a [u8]> {
    let mut entries = entry.entries().into_iter();
    let found =
        entries.find(|(key, _)| key.as_bytes().is_some_and(|key| key.eq_ignore_ascii_case(name.as_bytes())));
    found.and_then(|(_, value)| value.as_bytes())
}

/// Finds the newest migration of these slots in a reply to CLUSTER GETSLOTMIGRATIONS.
fn state(reply: &Value, ranges: &str) -> State {
    let entries = reply.as_list().unwrap_or_default();
    let Some(entry) = entries.iter().find(|entry| field(entry, "slot_ranges") == Some(ranges.as_bytes()))
    else {
        return State::Ended("Slot migration not found in GETSLOTMIGRATIONS".to_owned());
    };
    let state = field(entry, "state").unwrap_or_default().to_ascii_lowercase();
    match state.as_slice() {
        b"success" => State::Done,
        b"cancelled" => State::Ended("Slot migration was cancelled".to_owned()),
        b"failed" => {
            let message = field(entry, "message").unwrap_or_default();
            State::Ended(String::from_utf8_lossy(message).into_owned())
        }
        _ => State::Running,
    }
}

/// Lets the source migrate ranges of slots to the target, and waits for the end.
pub fn migrate(
    movement: &Movement,
    cluster: &mut Cluster,
    (source, target): (usize, usize),
    ranges: &[(usize, usize)],
    progress: Progress,
) -> Result<(), Failure> {
    let text: Vec<String> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    let text = text.join(" ");
    if progress == Progress::Keys {
        let (source, target) = (&cluster.nodes[source], &cluster.nodes[target]);
        print_text!("Moving slot range {text} from {source} to {target} via atomic slot migration");
    }
    let mut request: Vec<String> = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"].map(str::to_owned).to_vec();
    request.extend(ranges.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]));
    request.extend(["NODE".to_owned(), cluster.nodes[target].id.clone()]);
    if let Err(error) = cluster.nodes[source].command(&request) {
        print_line!("");
        return Err(cluster.nodes[source].report(&error));
    }
    loop {
        let reply = cluster.nodes[source].must(&["CLUSTER", "GETSLOTMIGRATIONS"]).inspect_err(|_| {
            print(
                Level::Warning,
                "*** The migration may go on; --cluster check shows which nodes have the slots.",
            );
        })?;
        match state(&reply, &text) {
            State::Done => return Ok(()),
            State::Ended(reason) => return end_without_success(cluster, (source, target), ranges, &reason),
            State::Running if movement.is_interrupted() => {
                let (program, source) = (Program::current().name, &cluster.nodes[source]);
                let (host, port) = (&source.host, source.port);
                let text = format!(
                    "\n*** Interrupted; the migration goes on at {source}. '{program} -h {host} -p {port} cluster \
                     cancelslotmigrations' ends it."
                );
                print(Level::Warning, text);
                return Err(Failure::Reported);
            }
            State::Running => {
                if progress == Progress::Keys {
                    print_text!(".");
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

/// Reports a migration that the source lists as failed, or no longer lists, unless the target owns the slots.
fn end_without_success(
    cluster: &mut Cluster,
    (source, target): (usize, usize),
    moved: &[(usize, usize)],
    reason: &str,
) -> Result<(), Failure> {
    let owners = cluster.nodes[source].configuration();
    let has_all = |node: usize| {
        let id = &cluster.nodes[node].id;
        let of_node = |(owner, slots): &(String, BTreeSet<usize>)| {
            owner == id && moved.iter().all(|&(first, last)| (first..=last).all(|slot| slots.contains(&slot)))
        };
        owners.as_ref().is_ok_and(|owners| owners.iter().any(of_node))
    };
    if has_all(target) {
        return Ok(());
    }
    print(Level::Error, format!("\nAtomic slot migration failed: {}", printable(reason)));
    let text = match has_all(source) {
        true => format!("*** The slots are still at {}.", cluster.nodes[source]),
        false => "*** --cluster check shows which nodes have the slots.".to_owned(),
    };
    print(Level::Warning, text);
    Err(Failure::Reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Simple(text.as_bytes().to_vec())
    }

    #[test]
    fn the_newest_of_the_same_slots_counts() {
        let entry = |ranges: &str, state: &str, message: &str| {
            let words = ["name", "x", "slot_ranges", ranges, "state", state, "message", message];
            Value::Array(words.map(text).to_vec())
        };
        let reply = Value::Array(vec![
            entry("0-5", "snapshotting", ""),
            entry("7-7 9-10", "failed", "Timed out"),
            entry("0-5", "success", ""),
            entry("11-11", "cancelled", ""),
            entry("12-12", "success", ""),
        ]);
        assert_eq!(state(&reply, "0-5"), State::Running);
        assert_eq!(state(&reply, "7-7 9-10"), State::Ended("Timed out".to_owned()));
        assert_eq!(state(&reply, "12-12"), State::Done);
        assert_eq!(state(&reply, "11-11"), State::Ended("Slot migration was cancelled".to_owned()));
        assert!(matches!(state(&reply, "1-2"), State::Ended(reason) if reason.contains("not found")));
    }
}
