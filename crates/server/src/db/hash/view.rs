//! A read-only view of a hash, embedded or not.

use super::{Cell, find};
use crate::db::object::StringValue;
use std::collections::HashSet;
use structures::expiring_list::ExpiringList;
use structures::listpack::Listpack;
use structures::packed_map::PackedMap;
use structures::random::Random;
use structures::record::RecordView;
use wire::convert::signed_len;

/// A read-only view of a hash.
#[derive(Clone, Copy)]
pub struct HashView<'a> {
    pub(super) encoding: Encoding<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Encoding<'a> {
    Record(RecordView<'a>),
    Compact(&'a Listpack),
    Expiring(&'a ExpiringList),
    Packed(&'a PackedMap),
}

/// Draws of a random field that may all be expired before giving up.
const RANDOM_TRIES_MAX: usize = 100;
/// Less than this share of a large hash is drawn field by field; for more the hash is scanned.
const TRIED_SHARE: usize = 3;
/// Draws for each field wanted.
const TRIES_FOR_EACH: usize = 10;

/// Whether a field with this expiry is expired now.
#[inline]
pub(super) fn is_gone(expiry_ms: Option<i64>, now_ms: i64) -> bool {
    expiry_ms.is_some_and(|expiry_ms| expiry_ms < now_ms)
}

impl<'a> HashView<'a> {
    /// Number of fields, including expired ones not yet removed.
    #[allow(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> usize {
        match self.encoding {
            Encoding::Record(record) => record.len(),
            Encoding::Compact(list) => list.len() / 2,
            Encoding::Expiring(list) => list.len(),
            Encoding::Packed(map) => map.len(),
        }
    }

    /// Whether any field has an expiry.
    #[inline]
    pub fn has_expiring(&self) -> bool {
        match self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => false,
            Encoding::Expiring(list) => list.earliest_ms().is_some(),
            Encoding::Packed(map) => map.expiring_len() > 0,
        }
    }

    /// The field's value.
    #[inline]
    pub fn get(&self, field: &[u8], now_ms: i64) -> Option<Cell<'a>> {
        match self.encoding {
            Encoding::Record(record) => record.get(field).map(Cell::from),
            Encoding::Compact(list) => find(list, field).map(|(_, value)| list.get(value).into()),
            Encoding::Packed(map) if map.expiring_len() == 0 => map.get(field).map(StringValue::Bytes),
            Encoding::Expiring(_) | Encoding::Packed(_) => {
                self.get_with_expiry(field, now_ms).map(|(value, _)| value)
            }
        }
    }

    /// The value and the field's expiry.
    pub fn get_with_expiry(&self, field: &[u8], now_ms: i64) -> Option<(Cell<'a>, Option<i64>)> {
        match self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => self.get(field, now_ms).map(|value| (value, None)),
            Encoding::Expiring(list) => list
                .get(field)
                .filter(|&(_, expiry_ms)| !is_gone(expiry_ms, now_ms))
                .map(|(value, expiry_ms)| (value.into(), expiry_ms)),
            Encoding::Packed(map) => map
                .get_with_expiry(field)
                .filter(|&(_, expiry_ms)| !is_gone(expiry_ms, now_ms))
                .map(|(value, expiry_ms)| (StringValue::Bytes(value), expiry_ms)),
        }
    }

    /// Whether the field exists.
    pub fn contains(&self, field: &[u8], now_ms: i64) -> bool {
        self.get(field, now_ms).is_some()
    }

    /// All fields with their values.
    pub fn for_each(&self, now_ms: i64, visit: &mut dyn FnMut(Cell<'a>, Cell<'a>)) {
        match self.encoding {
            Encoding::Packed(map) if map.expiring_len() == 0 => {
                map.iter()
                    .for_each(|(field, value)| visit(StringValue::Bytes(field), StringValue::Bytes(value)));
            }
            Encoding::Packed(map) => map
                .iter_with_expiry()
                .filter(|&(_, _, expiry_ms)| !is_gone(expiry_ms, now_ms))
                .for_each(|(field, value, _)| visit(StringValue::Bytes(field), StringValue::Bytes(value))),
            Encoding::Expiring(list) => list
                .iter()
                .filter(|&(.., expiry_ms)| !is_gone(expiry_ms, now_ms))
                .for_each(|(field, value, _)| visit(field.into(), value.into())),
            Encoding::Record(record) => {
                record.iter().for_each(|(field, value)| visit(field.into(), value.into()));
            }
            Encoding::Compact(list) => {
                let mut elements = list.iter();
                while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
                    visit(field.into(), value.into());
                }
            }
        }
    }

    /// Visits some fields and returns the next cursor, 0 at the end; a hash in a list is visited whole.
    pub fn scan(
        &self,
        cursor: u64,
        wanted: usize,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) -> u64 {
        match self.encoding {
            Encoding::Packed(map) => map.scan_with_expiry(cursor, wanted, &mut |field, value, expiry_ms| {
                if !is_gone(expiry_ms, now_ms) {
                    visit(StringValue::Bytes(field), StringValue::Bytes(value));
                }
            }),
            Encoding::Record(_) | Encoding::Compact(_) | Encoding::Expiring(_) => {
                self.for_each(now_ms, visit);
                0
            }
        }
    }

    /// A uniformly random field; `None` if most fields are expired and no other is found soon.
    pub fn random(&self, random: &mut Random, now_ms: i64) -> Option<(Cell<'a>, Cell<'a>)> {
        match self.encoding {
            Encoding::Packed(map) => {
                let mut tries = (0..RANDOM_TRIES_MAX).filter_map(|_| map.random(random));
                let found =
                    tries.find(|(field, _)| map.expiring_len() == 0 || !is_gone(map.expiry(field), now_ms));
                found.map(|(field, value)| (StringValue::Bytes(field), StringValue::Bytes(value)))
            }
            Encoding::Expiring(list) if list.is_empty() => None,
            Encoding::Expiring(list) => {
                let mut tries = (0..RANDOM_TRIES_MAX).map_while(|_| list.at(random.index(list.len())));
                let found = tries.find(|&(.., expiry_ms)| !is_gone(expiry_ms, now_ms));
                found.map(|(field, value, _)| (field.into(), value.into()))
            }
            Encoding::Record(record) if record.len() == 0 => None,
            Encoding::Record(record) => {
                let (field, value) = record.at(random.index(record.len()));
                Some((field.into(), value.into()))
            }
            Encoding::Compact(list) if list.is_empty() => None,
            Encoding::Compact(list) => {
                let field = list.at(signed_len(2 * random.index(self.len())))?;
                Some((list.get(field).into(), list.get(list.next(field)?).into()))
            }
        }
    }

    /// `wanted` distinct fields, every choice equally likely; all if there are no more.
    pub fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) {
        match self.encoding {
            _ if wanted >= self.len() => self.for_each(now_ms, &mut |field, value| visit(field, value)),
            Encoding::Packed(map) if map.expiring_len() == 0 => {
                map.random_distinct(wanted, random, &mut |field, value| {
                    visit(StringValue::Bytes(field), StringValue::Bytes(value));
                });
            }
            Encoding::Packed(_) if wanted < self.len() / TRIED_SHARE => {
                self.random_by_trying(wanted, random, now_ms, visit);
            }
            _ => self.random_by_walking(wanted, random, now_ms, visit),
        }
    }

    /// Draws fields until there are enough distinct ones.
    fn random_by_trying(
        &self,
        wanted: usize,
        random: &mut Random,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) {
        let mut drawn = HashSet::with_capacity(wanted);
        for _ in 0..wanted * TRIES_FOR_EACH {
            let Some((field, value)) = self.random(random, now_ms) else { break };
            if drawn.insert(field.to_vec()) {
                visit(field, value);
            }
            if drawn.len() == wanted {
                break;
            }
        }
    }

    /// Scans all fields once, taking each with the probability that makes all choices equally likely.
    fn random_by_walking(
        &self,
        wanted: usize,
        random: &mut Random,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) {
        let mut left = 0;
        self.for_each(now_ms, &mut |_, _| left += 1);
        let mut wanted = wanted.min(left) as u64;
        let mut left = left as u64;
        self.for_each(now_ms, &mut |field, value| {
            if wanted > 0 && random.below(left) < wanted {
                visit(field, value);
                wanted -= 1;
            }
            left -= 1;
        });
    }
}
