//! What others hear of a command: events of keys in their order, and which copies of keys are stale.

use super::arguments::{KEY_TYPES, Source};
use super::link::{Link, Pair};
use super::random::Random;
use super::{Command, Step};
use wire::response::Value;

/// Number of commands after which the tracking client reads its keys again.
const COMMANDS_PER_LOOK: usize = 10;
const KEYS_PER_LOOK: usize = 20;

/// Clients that only listen, on both sides.
pub struct Listeners {
    /// Subscribed to all events of keys, misses and new keys among them.
    events: Pair,
    /// Told of every key that changes.
    broadcast: Pair,
    /// Told of keys that it has read.
    reader: Pair,
    source: Source,
    commands: usize,
}

/// What one kind of listener has heard on both sides where that differs.
pub struct Heard {
    pub by: &'static str,
    pub here: Vec<String>,
    pub there: Vec<String>,
}

impl Listeners {
    pub fn connect(here: &str, there: &str) -> Listeners {
        let pair = |first: &[&str]| {
            let mut pair = Pair {
                here: Link::connect("this server", here),
                there: Link::connect("the other server", there),
            };
            pair.ask_both(&["HELLO", "3"]);
            pair.ask_both(first);
            pair
        };
        Listeners {
            events: pair(&["CONFIG", "SET", "notify-keyspace-events", "EAmn"]),
            broadcast: pair(&["CLIENT", "TRACKING", "ON", "BCAST"]),
            reader: pair(&["CLIENT", "TRACKING", "ON"]),
            source: Source::new(Random::new(1), 0),
            commands: 0,
        }
    }

    /// Listens from now on; what has been before is forgotten.
    pub fn begin(&mut self) {
        self.events.ask_both(&["PSUBSCRIBE", "__keyevent@*"]);
        self.look();
    }

    /// Reads some keys, so that they are invalidated when they change.
    fn look(&mut self) {
        let mut words = vec![b"MGET".to_vec()];
        for at in 0..KEYS_PER_LOOK {
            words.push(self.source.key_of(KEY_TYPES[at % KEY_TYPES.len()]));
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        for link in [&mut self.reader.here, &mut self.reader.there] {
            link.send_words(&words);
            while matches!(link.receive(), Value::Push(_)) {}
        }
        [&mut self.events, &mut self.broadcast, &mut self.reader]
            .into_iter()
            .for_each(|pair| drop(both(pair)));
    }

    /// What has been heard of the command that was answered so, if that differs.
    pub fn hear(&mut self, step: &Step, reply: &Value) -> Option<Heard> {
        let command = step.command();
        let is_counted = |event: &String| {
            let miss = event.ends_with(" keymiss");
            // Arguments are checked before keys are looked at here, there sometimes after.
            let unseen = reply.is_error() || command.is_some_and(misses_differ);
            !(miss && unseen || event.ends_with(" expired") || event.ends_with(" hexpired"))
        };
        // A string that grows though nothing is written into it has changed here, and not there.
        let grows_unsaid =
            command.is_some_and(|args| args.iter().any(|arg| arg.eq_ignore_ascii_case(b"FAIL")));
        let [mut here, mut there] = both(&mut self.events);
        here.retain(is_counted);
        there.retain(is_counted);
        if here != there {
            return Some(Heard { by: "subscriber", here, there });
        }
        for (by, pair) in [("broadcast", &mut self.broadcast), ("reader", &mut self.reader)] {
            let [mut here, mut there] = both(pair);
            for side in [&mut here, &mut there] {
                side.sort();
                side.dedup();
            }
            if here != there && !grows_unsaid {
                return Some(Heard { by, here, there });
            }
        }
        self.commands += 1;
        if self.commands.is_multiple_of(COMMANDS_PER_LOOK) {
            self.look();
        }
        None
    }
}

/// Whether what the command misses is not the same: it runs others, whose errors do not show in its reply, or follows
/// elements in no order.
fn misses_differ(args: &Command) -> bool {
    ["exec", "eval", "evalsha", "fcall", "sort", "sort_ro"]
        .iter()
        .any(|name| args[0].eq_ignore_ascii_case(name.as_bytes()))
}

/// All that both sides have been sent so far, an event or a key each.
fn both(pair: &mut Pair) -> [Vec<String>; 2] {
    [&mut pair.here, &mut pair.there].map(|link| {
        link.send_words(&[b"PING"]);
        let mut heard = Vec::new();
        while let Value::Push(items) = link.receive() {
            heard.extend(messages(&items));
        }
        heard
    })
}

/// `3 rename_to key` of an event, keys of an invalidation.
fn messages(items: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_bytes().unwrap_or_default().escape_ascii().to_string();
    match items {
        [kind, keys] if kind.as_bytes() == Some(b"invalidate") => match keys.as_list() {
            Some(keys) => keys.iter().map(text).collect(),
            None => vec!["everything".to_owned()],
        },
        [_, _, channel, key] => {
            let channel = text(channel);
            let (db, event) = channel.trim_start_matches("__keyevent@").split_once("__:").unwrap_or_default();
            vec![format!("{db} {} {event}", text(key))]
        }
        _ => Vec::new(),
    }
}
