//! What is told to those who copy the data by its changes: each command by its effect. What a command says by itself
//! is enough for most; times that pass are told as points in time, what is drawn by lot or worked out in floating
//! point as its result, and what waits as what it did in the end. Handlers that know more note effects of their own.

use super::Executor;
use crate::command::{Args, Command, Group, Origin, flag};
use crate::db::{Db, Effect, Hash, Text};

/// What is told of a command that has changed data.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Verbatim,
    /// What else was noted says it all.
    Nothing,
    As(Vec<Vec<u8>>),
}

fn told(arguments: &[&[u8]]) -> Told {
    Told::As(arguments.iter().map(|argument| argument.to_vec()).collect())
}

impl Executor {
    /// Takes in what the command that has just run did. `changes` is how many it said.
    #[inline]
    pub(super) fn propagate(&mut self, row: &Command, args: Args<'_>, origin: Origin, changes: u64) {
        if !self.db.journal.recording {
            return;
        }
        let (effects, replaced) = self.db.journal.take_effects();
        self.unit.extend(effects);
        if changes > 0 && !replaced && is_told(row) {
            let db_index = self.db.selected();
            let own = match as_effect(row.name, args, &mut self.db) {
                Told::Verbatim => Some(args.iter().map(<[u8]>::to_vec).collect()),
                Told::As(arguments) => Some(arguments),
                Told::Nothing => None,
            };
            self.unit.extend(own.map(|arguments| Effect { db_index, arguments }));
        }
        if !origin.in_transaction && self.suspended.is_none() {
            self.end_unit();
        }
    }

    /// Expiry and eviction have removed keys on their own account: each is told by itself.
    pub(super) fn propagate_removals(&mut self) {
        if !self.db.journal.recording {
            return;
        }
        let (effects, _) = self.db.journal.take_effects();
        for effect in effects {
            self.append(&effect);
        }
    }

    /// All that was done as one has been done: it is told as one.
    pub(super) fn end_unit(&mut self) {
        let unit = std::mem::take(&mut self.unit);
        let Some(first) = unit.first() else { return };
        if unit.len() == 1 {
            return self.append(first);
        }
        let db_index = first.db_index;
        let word = |word: &[u8]| Effect { db_index, arguments: vec![word.to_vec()] };
        self.append(&word(b"MULTI"));
        unit.iter().for_each(|effect| self.append(effect));
        self.append(&word(b"EXEC"));
    }
}

/// Whether a command with changes to its name is told: scripts are not, but what they call.
fn is_told(row: &Command) -> bool {
    let writes = row.is(flag::WRITE) || matches!(row.name, "pfcount" | "debug");
    writes && (row.group != Group::Scripting || row.name.starts_with("function|"))
}

fn expiry_of(db: &mut Db, key: &[u8]) -> Option<i64> {
    db.inspect(key).and_then(|value| value.expiry_ms())
}

fn as_effect(name: &str, args: Args<'_>, db: &mut Db) -> Told {
    let Some(key) = args.get(1) else { return Told::Verbatim };
    match name {
        "set" if args.len() > 3 => set_with_expiry(key, args.at(2), db),
        "setex" | "psetex" => set_with_expiry(key, args.at(3), db),
        "getex" | "expire" | "pexpire" | "expireat" | "pexpireat" => expiry_effect(key, db),
        "getdel" | "delifeq" => told(&[b"DEL", key]),
        "incrbyfloat" => match db.peek_text(key) {
            Ok(Some(text)) => told(&[b"SET", key, &text.to_vec(), b"KEEPTTL"]),
            _ => Told::Verbatim,
        },
        "hincrbyfloat" => field_effect(key, args.at(2), db),
        "restore" | "restore-asking" => restore_effect(args, db),
        "msetex" => {
            let pairs = args.integer(1).ok().and_then(|pairs| usize::try_from(pairs).ok());
            absolute(args, pairs.map_or(args.len(), |pairs| 2 + 2 * pairs), db)
        }
        "hsetex" | "hgetex" => absolute(args, 2, db),
        "hexpire" | "hpexpire" | "hexpireat" => field_expiry_effect(name, args, db),
        _ => Told::Verbatim,
    }
}

fn set_with_expiry(key: &[u8], value: &[u8], db: &mut Db) -> Told {
    if !db.holds(db.selected(), key) {
        return Told::Nothing;
    }
    match expiry_of(db, key) {
        Some(at_ms) => told(&[b"SET", key, value, b"PXAT", at_ms.to_string().as_bytes()]),
        None => told(&[b"SET", key, value]),
    }
}

/// A key that was given an expiry in the past is gone, and that was noted.
fn expiry_effect(key: &[u8], db: &mut Db) -> Told {
    if !db.holds(db.selected(), key) {
        return Told::Nothing;
    }
    match expiry_of(db, key) {
        Some(at_ms) => told(&[b"PEXPIREAT", key, at_ms.to_string().as_bytes()]),
        None => told(&[b"PERSIST", key]),
    }
}

fn field_effect(key: &[u8], field: &[u8], db: &mut Db) -> Told {
    let hash = db.stored::<Hash>(key);
    let found = hash.and_then(|hash| hash.get_with_expiry(field, i64::MIN));
    match found.map(|(value, expiry_ms)| (Text::to_vec(&value), expiry_ms)) {
        Some((value, None)) => told(&[b"HSET", key, field, &value]),
        Some((value, Some(at_ms))) => {
            let at_ms = at_ms.to_string();
            told(&[b"HSETEX", key, b"PXAT", at_ms.as_bytes(), b"FIELDS", b"1", field, &value])
        }
        None => Told::Verbatim,
    }
}

fn restore_effect(args: Args<'_>, db: &mut Db) -> Told {
    let key = args.at(1);
    if !db.holds(db.selected(), key) {
        return told(&[b"DEL", key]);
    }
    let is_absolute = args.from(4).iter().any(|word| word.eq_ignore_ascii_case(b"ABSTTL"));
    let Some(at_ms) = expiry_of(db, key).filter(|_| !is_absolute) else { return Told::Verbatim };
    let at_ms = at_ms.to_string();
    let mut arguments: Vec<&[u8]> = args.iter().collect();
    arguments[2] = at_ms.as_bytes();
    arguments.push(b"ABSTTL");
    told(&arguments)
}

/// The arguments with EX, PX or EXAT, which may stand from `first` on and before FIELDS, as PXAT.
fn absolute(args: Args<'_>, first: usize, db: &Db) -> Told {
    let fields_at = (first..args.len()).find(|&at| args.is(at, "FIELDS")).unwrap_or(args.len());
    let scale = |word: &str| match word {
        "EX" => (1000, db.now_ms()),
        "PX" => (1, db.now_ms()),
        _ => (1000, 0),
    };
    for word in ["EX", "PX", "EXAT"] {
        let Some(at) = (first..fields_at).find(|&at| args.is(at, word)) else { continue };
        let (unit_ms, base_ms) = scale(word);
        let Some(Ok(amount)) = args.get(at + 1).map(|_| args.integer(at + 1)) else { continue };
        let at_ms = amount.saturating_mul(unit_ms).saturating_add(base_ms).to_string();
        let mut arguments: Vec<&[u8]> = args.iter().collect();
        (arguments[at], arguments[at + 1]) = (b"PXAT", at_ms.as_bytes());
        return told(&arguments);
    }
    Told::Verbatim
}

fn field_expiry_effect(name: &str, args: Args<'_>, db: &Db) -> Told {
    let (unit_ms, base_ms) = match name {
        "hexpire" => (1000, db.now_ms()),
        "hpexpire" => (1, db.now_ms()),
        _ => (1000, 0),
    };
    let Ok(amount) = args.integer(2) else { return Told::Verbatim };
    let at_ms = amount.saturating_mul(unit_ms).saturating_add(base_ms).to_string();
    let mut arguments: Vec<&[u8]> = args.iter().collect();
    (arguments[0], arguments[2]) = (b"HPEXPIREAT", at_ms.as_bytes());
    told(&arguments)
}
