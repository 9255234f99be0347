//! Types and sizes of keys, requested in batches.

use client::printable;
use wire::response::Value;

use crate::Failure;
use crate::scan::shown;
use crate::session::Session;

/// The types of every server: name, command that returns the size, and unit.
const KNOWN: [(&str, &str, &str); 6] = [
    ("string", "STRLEN", "bytes"),
    ("list", "LLEN", "items"),
    ("set", "SCARD", "members"),
    ("hash", "HLEN", "fields"),
    ("zset", "ZCARD", "members"),
    ("stream", "XLEN", "entries"),
];

/// Returns the command for the length of values of this type, if every server has it.
pub fn size_command(type_name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(name, ..)| *name == type_name).map(|(_, command, _)| *command)
}

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    Elements,
    /// Memory, sampled from this number of elements, or the server's default.
    Memory(Option<u64>),
}

/// A type of keys, with its results.
#[derive(Debug, Default)]
pub struct KeyType {
    pub name: String,
    size_command: Option<&'static str>,
    pub unit: &'static str,
    pub keys: u64,
    pub total: u64,
    pub biggest: u64,
    pub biggest_key: Option<Vec<u8>>,
}

impl KeyType {
    /// Adds a key and returns whether it is the largest so far.
    pub fn add(&mut self, key: &[u8], size: u64) -> bool {
        self.keys += 1;
        self.total = self.total.saturating_add(size);
        let is_bigger = size > self.biggest;
        if is_bigger {
            self.biggest = size;
            self.biggest_key = Some(key.to_vec());
        }
        is_bigger
    }

    pub fn unit(&self, measure: Measure) -> &'static str {
        if measure == Measure::Elements { self.unit } else { "bytes" }
    }

    pub fn has_elements(&self) -> bool {
        self.size_command.is_some()
    }
}

/// All types, those of every server first.
pub struct KeyTypes(pub Vec<KeyType>);

impl KeyTypes {
    pub fn new() -> KeyTypes {
        let known = KNOWN.map(|(name, command, unit)| KeyType {
            name: name.to_owned(),
            size_command: Some(command),
            unit,
            ..KeyType::default()
        });
        KeyTypes(known.into())
    }

    fn index(&mut self, name: &str) -> usize {
        self.0.iter().position(|known| known.name == name).unwrap_or_else(|| {
            self.0.push(KeyType { name: name.to_owned(), unit: "?", ..KeyType::default() });
            self.0.len() - 1
        })
    }

    /// Returns the type of each key, as an index; `None`: the key does not exist.
    pub fn of_keys(
        &mut self,
        session: &mut Session,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<usize>>, Failure> {
        let commands: Vec<_> = keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]).collect();
        let replies = session.pipeline(&commands)?;
        let types = replies.iter().zip(keys).map(|(reply, key)| match reply {
            Value::Simple(name) if name == b"none" => Ok(None),
            Value::Simple(name) => Ok(Some(self.index(&printable(&String::from_utf8_lossy(name))))),
            Value::Error(text) => {
                Err(Failure::Reply(format!("TYPE returned an error: {}", String::from_utf8_lossy(text))))
            }
            _ => Err(Failure::Reply(format!("Invalid reply type for TYPE on key {}!", shown(key)))),
        });
        types.collect()
    }

    /// Returns the size of each key; 0 if it does not exist, has changed its type, or has a type without a size.
    pub fn sizes(
        &self,
        session: &mut Session,
        keys: &[Vec<u8>],
        types: &[Option<usize>],
        measure: Measure,
    ) -> Result<Vec<u64>, Failure> {
        let asked: Vec<Option<Vec<Vec<u8>>>> =
            keys.iter().zip(types).map(|(key, index)| self.0[(*index)?].size_request(key, measure)).collect();
        let commands: Vec<_> = asked.iter().flatten().cloned().collect();
        let mut replies = session.pipeline(&commands)?.into_iter();
        let sizes = asked.iter().map(|command| {
            let Some(command) = command else { return 0 };
            match replies.next() {
                Some(Value::Integer(size)) => size.max(0) as u64,
                _ => {
                    let (name, key) = match measure {
                        Measure::Elements => (String::from_utf8_lossy(&command[0]).into_owned(), &command[1]),
                        Measure::Memory(_) => ("MEMORY USAGE".to_owned(), &command[2]),
                    };
                    let key = String::from_utf8_lossy(key);
                    eprint_line!("Warning:  {name} on '{key}' failed (may have changed type)");
                    0
                }
            }
        });
        Ok(sizes.collect())
    }
}

impl KeyType {
    fn size_request(&self, key: &[u8], measure: Measure) -> Option<Vec<Vec<u8>>> {
        let command = match measure {
            Measure::Elements => vec![self.size_command?.as_bytes().to_vec(), key.to_vec()],
            Measure::Memory(samples) => {
                let mut command = vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.to_vec()];
                if let Some(samples) = samples {
                    command.extend([b"SAMPLES".to_vec(), samples.to_string().into_bytes()]);
                }
                command
            }
        };
        Some(command)
    }
}
