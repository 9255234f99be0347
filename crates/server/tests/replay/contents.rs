//! All that a server holds, as it is stored: also what is expired and not yet removed, whatever the encoding.

use server::db::collection::Collection;
use server::db::hash::HashView;
use server::db::list::{List, ListView};
use server::db::object::Object;
use server::db::set::SetView;
use server::db::sorted_set::{SortedSet, SortedSetView};
use server::db::stream::{Group, Stream, StreamId};
use server::db::{Db, Hash, Set, Value};
use server::engine::Executor;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use structures::key_slot::key_slot;
use structures::key_table::Value as Stored;
use wire::cluster_bus::SlotSet;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    All,
    /// When consumers of streams were last seen is in no append-only file.
    WithoutTimes,
}

#[derive(Clone, Debug, PartialEq)]
struct Content {
    expiry_ms: Option<i64>,
    /// Elements of a hash, each with its expiry; of everything else one text.
    parts: Vec<(String, Option<i64>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    keys: BTreeMap<(usize, Vec<u8>), Content>,
    libraries: Vec<Vec<u8>>,
}

impl Contents {
    pub fn of(executor: &Executor, detail: Detail) -> Contents {
        let libraries = executor.server.scripts.libraries.codes().map(<[u8]>::to_vec).collect();
        Contents::of_db(&executor.db, libraries, detail)
    }

    pub fn of_db(db: &Db, mut libraries: Vec<Vec<u8>>, detail: Detail) -> Contents {
        let mut keys = BTreeMap::new();
        for index in 0..db.database_count() {
            for entry in db.database(index).iter() {
                let parts = match entry.value() {
                    Stored::Object(object) => parts_of(object, detail),
                    Stored::Embedded(_) => embedded_parts(db.value_of(entry)),
                    _ => {
                        let text = db.value_of(entry).text().map(|text| text.to_vec()).unwrap_or_default();
                        vec![(text.escape_ascii().to_string(), None)]
                    }
                };
                keys.insert((index, entry.key().to_vec()), Content { expiry_ms: entry.expiry_ms(), parts });
            }
        }
        libraries.sort();
        Contents { keys, libraries }
    }

    /// As a snapshot is loaded: what is expired is left out.
    pub fn without_expired(mut self, now_ms: i64) -> Contents {
        self.keys.retain(|_, content| {
            let had = content.parts.len();
            content.parts.retain(|(_, expiry_ms)| expiry_ms.is_none_or(|at_ms| at_ms >= now_ms));
            let is_gone = had > 0 && content.parts.is_empty();
            !is_gone && content.expiry_ms.is_none_or(|at_ms| at_ms >= now_ms)
        });
        self
    }

    pub fn without_libraries(mut self) -> Contents {
        self.libraries.clear();
        self
    }

    /// What is in some of the slots of a cluster.
    pub fn in_slots(mut self, slots: &SlotSet) -> Contents {
        self.keys.retain(|(_, key), _| slots.contains(key_slot(key)));
        self
    }

    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The first key that differs, and how; an empty name for what is no key.
    pub fn difference(&self, other: &Contents) -> Option<(Vec<u8>, String)> {
        let all = self.keys.keys().chain(other.keys.keys());
        let mut differing = all.filter(|key| self.keys.get(*key) != other.keys.get(*key));
        if let Some(key) = differing.next() {
            let shown = |contents: &Contents| match contents.keys.get(key) {
                None => "nothing".to_owned(),
                Some(content) => {
                    let text = format!("{content:?}");
                    text[..text.floor_char_boundary(3000)].to_owned()
                }
            };
            let (index, name) = key;
            let name = name.escape_ascii();
            let text = format!(
                "database {index}, key \"{name}\"\n  life: {}\n  file: {}",
                shown(self),
                shown(other)
            );
            return Some((key.1.clone(), text));
        }
        let differs = self.libraries != other.libraries;
        let codes = |contents: &Contents| {
            contents.libraries.iter().map(|code| code.escape_ascii().to_string()).collect::<Vec<_>>()
        };
        differs.then(|| {
            (Vec::new(), format!("libraries\n  life: {:?}\n  file: {:?}", codes(self), codes(other)))
        })
    }
}

fn list_text(list: ListView<'_>) -> String {
    let mut text = String::new();
    list.for_each(0, list.len(), &mut |element| {
        write!(text, "\"{}\" ", element.to_vec().escape_ascii()).unwrap();
    });
    text
}

fn set_text(set: SetView<'_>) -> String {
    let mut members = Vec::new();
    set.for_each(&mut |member| members.push(member.to_vec().escape_ascii().to_string()));
    members.sort();
    format!("set {members:?}")
}

fn sorted_set_text(set: SortedSetView<'_>) -> String {
    let mut text = String::new();
    set.for_range(0..set.len(), false, &mut |member, score| {
        write!(text, "{score} \"{}\" ", member.to_vec().escape_ascii()).unwrap();
        true
    });
    text
}

fn embedded_parts(value: Value<'_>) -> Vec<(String, Option<i64>)> {
    if let Some(hash) = value.collection::<Hash>() {
        return fields_of(hash);
    }
    let list = value.collection::<List>().map(list_text);
    let set = || value.collection::<Set>().map(set_text);
    let sorted_set = || value.collection::<SortedSet>().map(sorted_set_text);
    let text = list.or_else(set).or_else(sorted_set).expect("a type has embedded the value");
    vec![(text, None)]
}

fn parts_of(object: &Object, detail: Detail) -> Vec<(String, Option<i64>)> {
    let mut text = String::new();
    match object {
        Object::String(bytes) => write!(text, "{}", bytes.escape_ascii()).unwrap(),
        Object::List(list) => text = list_text(list.view()),
        Object::Set(set) => text = set_text(set.view()),
        Object::SortedSet(set) => text = sorted_set_text(set.view()),
        Object::Hash(hash) => return fields_of(hash.view()),
        Object::Stream(stream) => text = stream_text(stream, detail),
    }
    vec![(text, None)]
}

fn fields_of(hash: HashView<'_>) -> Vec<(String, Option<i64>)> {
    let mut fields = Vec::new();
    hash.for_each(i64::MIN, &mut |field, value| {
        let field = field.to_vec();
        let expiry_ms = hash.get_with_expiry(&field, i64::MIN).and_then(|(_, expiry_ms)| expiry_ms);
        let value = value.to_vec();
        fields.push((format!("\"{}\"=\"{}\"", field.escape_ascii(), value.escape_ascii()), expiry_ms));
    });
    fields.sort();
    fields
}

fn stream_text(stream: &Stream, detail: Detail) -> String {
    let mut text = format!("{:?}", stream.state());
    stream.for_each(&mut |id, fields| {
        write!(text, " {id}:").unwrap();
        for (field, value) in fields {
            let (field, value) = (field.to_vec(), value.to_vec());
            write!(text, "\"{}\"=\"{}\",", field.escape_ascii(), value.escape_ascii()).unwrap();
        }
    });
    for (name, messages) in stream.producers().iter().flat_map(|producers| producers.iter()) {
        let messages: Vec<_> = messages.collect();
        write!(text, "\n    producer {}: {messages:?}", name.escape_ascii()).unwrap();
    }
    write!(text, " {:?}", stream.message_limits()).unwrap();
    for (name, group) in stream.groups() {
        write!(text, "\n    group {}: {}", name.escape_ascii(), group_text(group, detail)).unwrap();
    }
    text
}

fn group_text(group: &Group, detail: Detail) -> String {
    let mut text = format!("last {} read {:?}", group.last_id, group.entries_read);
    for (_, consumer) in group.consumers() {
        write!(text, " consumer \"{}\"", consumer.name().escape_ascii()).unwrap();
        if detail == Detail::All {
            write!(text, " seen {} active {:?}", consumer.seen_ms, consumer.active_ms).unwrap();
        }
        let pending: Vec<String> = consumer.pending_from(StreamId::MIN).map(|id| id.to_string()).collect();
        write!(text, " {pending:?}").unwrap();
    }
    for (id, pending) in group.pending_from(StreamId::MIN) {
        write!(text, " {id} since {} times {}", pending.delivered_ms, pending.deliveries).unwrap();
    }
    text
}
