//! Packed maps and sets against chained tables with one allocation an element: time per operation, hot and
//! cold, and memory per element. Fields, values and members are 10 bytes.
//!
//! Hot is one table, visited repeatedly. Cold is many tables of the same size, visited in turn, in all at least twice the
//! last-level cache for the most compact structure.

mod measuring;

use measuring::{Slices, cold_bytes, evict_caches, scaled, shuffle_visits, sizes};
use std::hint::black_box;
use structures::hash::HashSeed;
use structures::packed_map::{Expiry, PackedMap, PackedSet};
use structures::random::Random;

type Field = [u8; 10];

/// The measured operations of a map or a set; a map's value equals its field.
trait Table {
    const NAME: &'static str;
    /// Cold tables fill twice the last-level cache even at this density.
    const DENSEST_BYTES: u64;

    fn new(seed: HashSeed) -> Self;
    fn insert(&mut self, field: &Field);
    /// The last byte stored under the field, so that the value is fetched; 0 if the field is absent.
    fn get(&self, field: &Field) -> u8;
    fn remove(&mut self, field: &Field) -> bool;
    /// The sum of all last bytes.
    fn walk(&self) -> u64;
}

impl Table for PackedMap {
    const NAME: &'static str = "packed map";
    const DENSEST_BYTES: u64 = 24;

    fn new(seed: HashSeed) -> Self {
        PackedMap::new(seed)
    }
    fn insert(&mut self, field: &Field) {
        PackedMap::insert(self, field, field, Expiry::Clear);
    }
    fn get(&self, field: &Field) -> u8 {
        PackedMap::get(self, field).map_or(0, |value| value[9])
    }
    fn remove(&mut self, field: &Field) -> bool {
        PackedMap::remove(self, field)
    }
    fn walk(&self) -> u64 {
        self.iter().map(|(_, value)| value[9] as u64).sum()
    }
}

impl Table for PackedSet {
    const NAME: &'static str = "packed set";
    const DENSEST_BYTES: u64 = 14;

    fn new(seed: HashSeed) -> Self {
        PackedSet::new(seed)
    }
    fn insert(&mut self, field: &Field) {
        PackedSet::insert(self, field);
    }
    fn get(&self, field: &Field) -> u8 {
        self.contains(field) as u8
    }
    fn remove(&mut self, field: &Field) -> bool {
        PackedSet::remove(self, field)
    }
    fn walk(&self) -> u64 {
        self.iter().map(|member| member[9] as u64).sum()
    }
}

/// An element in an allocation of its own, as in the tables that packed pages replace.
struct Entry<const BYTES: usize> {
    next: Option<Box<Entry<BYTES>>>,
    /// Elements may have any length; here all have the same.
    field_len: u8,
    len: u8,
    bytes: [u8; BYTES],
}

impl<const BYTES: usize> Entry<BYTES> {
    fn field(&self) -> &[u8] {
        &self.bytes[..self.field_len as usize]
    }
}

/// A table of chains, doubled when there are more elements than buckets. `BYTES` is 10 for a set, 20 for a map.
struct Chained<const BYTES: usize> {
    buckets: Vec<Option<Box<Entry<BYTES>>>>,
    len: usize,
    seed: HashSeed,
}

impl<const BYTES: usize> Chained<BYTES> {
    fn bucket(&self, field: &[u8]) -> usize {
        self.seed.hash(field) as usize & (self.buckets.len() - 1)
    }

    fn find(&self, field: &[u8]) -> Option<&Entry<BYTES>> {
        let mut at = self.buckets[self.bucket(field)].as_deref();
        while let Some(entry) = at {
            if entry.field() == field {
                return Some(entry);
            }
            at = entry.next.as_deref();
        }
        None
    }

    fn double(&mut self) {
        let doubled = (0..self.buckets.len() * 2).map(|_| None).collect();
        for mut chain in std::mem::replace(&mut self.buckets, doubled) {
            while let Some(mut entry) = chain {
                chain = entry.next.take();
                let bucket = self.bucket(entry.field());
                entry.next = self.buckets[bucket].take();
                self.buckets[bucket] = Some(entry);
            }
        }
    }
}

impl<const BYTES: usize> Table for Chained<BYTES> {
    const NAME: &'static str = if BYTES == 20 { "chained map" } else { "chained set" };
    const DENSEST_BYTES: u64 = if BYTES == 20 { PackedMap::DENSEST_BYTES } else { PackedSet::DENSEST_BYTES };

    fn new(seed: HashSeed) -> Self {
        Chained { buckets: (0..4).map(|_| None).collect(), len: 0, seed }
    }

    fn insert(&mut self, field: &Field) {
        if self.find(field).is_some() {
            return;
        }
        if self.len == self.buckets.len() {
            self.double();
        }
        let bucket = self.bucket(field);
        let bytes = std::array::from_fn(|at| field[at % 10]);
        let next = self.buckets[bucket].take();
        self.buckets[bucket] =
            Some(Box::new(Entry { next, field_len: field.len() as u8, len: BYTES as u8, bytes }));
        self.len += 1;
    }

    fn get(&self, field: &Field) -> u8 {
        self.find(field).map_or(0, |entry| entry.bytes[entry.len as usize - 1])
    }

    fn remove(&mut self, field: &Field) -> bool {
        let bucket = self.bucket(field);
        let mut link = &mut self.buckets[bucket];
        while link.as_ref().is_some_and(|entry| entry.field() != field) {
            link = &mut link.as_mut().expect("just seen").next;
        }
        let Some(removed) = link.take() else { return false };
        *link = removed.next;
        self.len -= 1;
        true
    }

    fn walk(&self) -> u64 {
        let mut sum = 0;
        for chain in &self.buckets {
            let mut at = chain.as_deref();
            while let Some(entry) = at {
                sum += entry.bytes[entry.len as usize - 1] as u64;
                at = entry.next.as_deref();
            }
        }
        sum
    }
}

/// Least number of removals or insertions timed together: with one to three, clock ticks were measured.
const TIMED_TOGETHER: usize = 32;

/// Ten hexadecimal digits, different for every number below 2^40, without a pattern.
fn field(number: u64) -> Field {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    std::array::from_fn(|digit| b"0123456789abcdef"[(mixed >> (4 * digit) & 15) as usize])
}

/// Tables of one size under measurement, visited in turn.
struct Bed<T> {
    tables: Vec<Box<T>>,
    size: usize,
    random: Random,
    turn: u64,
}

impl<T: Table> Bed<T> {
    fn build(count: usize, size: usize) -> (Self, f64) {
        let before = measuring::allocated_bytes();
        let mut tables: Vec<Box<T>> =
            (0..count).map(|seed| Box::new(T::new(HashSeed::new(seed as u64, 5)))).collect();
        for table in &mut tables {
            (0..size as u64).for_each(|number| table.insert(&field(number)));
        }
        let bytes = (measuring::allocated_bytes() - before) as f64 / (count * size) as f64;
        (Bed { tables, size, random: Random::new(1), turn: 0 }, bytes)
    }

    /// The next visits: a table and one of its fields, or with `absent` a field in no table. Within `size` visits no
    /// field of a table is visited twice.
    fn plan(&mut self, visits: usize, absent: bool) -> Vec<(usize, Field)> {
        let tables = self.tables.len() as u64;
        let mut next = || {
            let (visit, table) = (self.turn / tables, self.turn % tables);
            self.turn += 1;
            let number = (visit * 7_919 + table) % self.size as u64;
            (table as usize, field(if absent { number + self.size as u64 } else { number }))
        };
        (0..visits).map(|_| next()).collect()
    }

    fn run<R>(
        &mut self,
        slices: &mut Slices,
        plan: &[(usize, Field)],
        mut body: impl FnMut(&mut T, &Field) -> R,
    ) {
        slices.add_all(plan, |(table, field)| {
            black_box(body(&mut self.tables[*table], field));
        });
    }

    /// As [`Bed::run`], for a plan that may be short.
    fn run_batch<R>(
        &mut self,
        slices: &mut Slices,
        plan: &[(usize, Field)],
        mut body: impl FnMut(&mut T, &Field) -> R,
    ) {
        if plan.len() >= TIMED_TOGETHER * TIMED_TOGETHER {
            return self.run(slices, plan, body);
        }
        for slice in plan.chunks(TIMED_TOGETHER) {
            slices.add(slice.len(), || {
                for (table, field) in slice {
                    black_box(body(&mut self.tables[*table], field));
                }
            });
        }
    }

    fn reading(&mut self, visits: usize, absent: bool) -> f64 {
        let mut plan = self.plan(visits, absent);
        // The same visits in one order, hundreds of times, would train the branch predictor on each comparison.
        shuffle_visits(&mut plan, self.tables.len(), &mut self.random);
        let mut slices = Slices::default();
        self.run(&mut slices, &plan, |table, field| table.get(field));
        slices.lowest_decile()
    }

    /// Nanoseconds per removal and per insertion, in batches that restore the sizes.
    fn removing_and_inserting(&mut self, visits: usize) -> (f64, f64) {
        let tables = self.tables.len();
        let per_table = (self.size / 8).min(visits / tables).max(if tables == 1 { 32 } else { 1 });
        let batch = per_table * tables;
        let (mut removing, mut inserting) = (Slices::default(), Slices::default());
        let mut done = 0;
        while done < visits {
            let mut plan = self.plan(batch, false);
            shuffle_visits(&mut plan, tables, &mut self.random);
            self.run_batch(&mut removing, &plan, |table, field| table.remove(field));
            if tables > 1 {
                evict_caches();
            }
            shuffle_visits(&mut plan, tables, &mut self.random);
            self.run_batch(&mut inserting, &plan, |table, field| table.insert(field));
            if tables > 1 {
                evict_caches();
            }
            done += batch;
        }
        (removing.lowest_decile(), inserting.lowest_decile())
    }

    /// Nanoseconds per element of full iterations.
    fn walking(&mut self, elements: usize) -> f64 {
        let walks = (elements / self.size).max(4);
        let plan = self.plan(walks, false);
        let mut slices = Slices::default();
        self.run(&mut slices, &plan, |table, _| table.walk());
        slices.lowest_decile() / self.size as f64
    }
}

fn measure<T: Table>(size: usize, cold: bool) {
    let elements = cold_bytes() / T::DENSEST_BYTES;
    let count = if cold { (elements as usize).div_ceil(size) } else { 1 };
    let temperature = if cold { "cold" } else { "hot" };
    let (mut bed, bytes) = Bed::<T>::build(count, size);
    if cold {
        measuring::note_memory(T::NAME, "", size, bytes);
    }
    let many = scaled(if cold { 50_000 } else { 200_000 }).max(if cold { count } else { 0 });
    let row = |operation, ns| measuring::note_time(T::NAME, operation, size, temperature, ns);
    row("get", bed.reading(many, false));
    row("get what is not there", bed.reading(many, true));
    let (removing, inserting) = bed.removing_and_inserting(many);
    row("remove", removing);
    row("insert", inserting);
    row("walk, an element", bed.walking(10 * many));
}

fn main() {
    for size in std::iter::repeat_n(sizes(), measuring::passes()).flatten() {
        for cold in [false, true] {
            measure::<PackedMap>(size, cold);
            measure::<Chained<20>>(size, cold);
            measure::<PackedSet>(size, cold);
            measure::<Chained<10>>(size, cold);
        }
    }
    measuring::save("packed_pages");
}
