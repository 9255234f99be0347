//! A page: up to 512 integers close to each other, in the smallest of three forms.
//!
//! ```text
//!  page (32 bytes): base i64 | count u16 | form | ──> contents
//!  run:       base, base + 1, ..., base + count - 1; no contents
//!  offsets:   value - base, sorted, `width` bytes each, little-endian
//!  bitmap:    bit i of the contents: base + i is in
//! ```
//!
//! Invariants:
//! 1. `1 <= count <= 512`, and `base` is at most the least value.
//! 2. Offsets ascend strictly and fit `width`; the contents have `size_class(count * width)` bytes.
//! 3. A bitmap has `count` bits set and its contents a length that is a size class.
//! 4. Consecutive values are a run. Otherwise the form is at most about twice the size of the best: it changes
//!    only if that halves the size, so that alternately adding and removing a value does not convert the page
//!    each time.

use crate::prefetch::prefetch;
use crate::size_class::{size_class, usable_size};

/// Most values of a page: inserting moves at most about 2 KiB, and the 32 bytes of the page itself are 0.07 of
/// a byte for each value.
pub(super) const PAGE_MAX: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Run,
    Offsets(u8),
    Bitmap,
}

#[derive(Clone)]
pub(super) struct Page {
    /// The number that offsets are added to.
    pub base: i64,
    contents: Box<[u8]>,
    count: u16,
    encoding: Encoding,
}

const _: () = assert!(size_of::<Page>() == 32);

#[inline]
fn read_as<const WIDTH: usize>(contents: &[u8], index: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..WIDTH].copy_from_slice(&contents[index * WIDTH..(index + 1) * WIDTH]);
    u64::from_le_bytes(bytes)
}

#[inline]
fn search_as<const WIDTH: usize>(contents: &[u8], count: usize, offset: u64) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = (low + high) / 2;
        if read_as::<WIDTH>(contents, middle) < offset {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Calls `$function::<width>`, so that the compiler knows each width.
macro_rules! with_width {
    ($width:expr, $function:ident($($argument:expr),*)) => {
        match $width {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            3 => $function::<3>($($argument),*),
            4 => $function::<4>($($argument),*),
            5 => $function::<5>($($argument),*),
            6 => $function::<6>($($argument),*),
            7 => $function::<7>($($argument),*),
            _ => $function::<8>($($argument),*),
        }
    };
}

/// Bytes needed for `offset`, 1 to 8.
fn width_of(offset: u64) -> usize {
    (u64::BITS - offset.leading_zeros()).div_ceil(8).max(1) as usize
}

fn bitmap_bytes(last: u64) -> usize {
    usize::try_from(last / 8 + 1).unwrap_or(usize::MAX)
}

fn resized(contents: &[u8], used: usize, bytes: usize) -> Box<[u8]> {
    let mut new = vec![0; size_class(bytes)].into_boxed_slice();
    new[..used].copy_from_slice(&contents[..used]);
    new
}

impl Page {
    /// Creates a page of `values`, which ascend strictly, leaving room for `headroom` lower values below the
    /// first.
    pub fn encode(values: &[i64], headroom: u64) -> Page {
        assert!((1..=PAGE_MAX).contains(&values.len()), "a page has 1 to {PAGE_MAX} values");
        crate::work::moved(size_of_val(values));
        let (first, last) = (values[0], values[values.len() - 1]);
        let mut page =
            Page { base: first, contents: Box::new([]), count: values.len() as u16, encoding: Encoding::Run };
        if page.offset(last) == values.len() as u64 - 1 {
            return page;
        }
        page.base = (first as i128 - headroom as i128).max(i64::MIN as i128) as i64;
        let last = page.offset(last);
        let (width, bitmap) = (width_of(last), bitmap_bytes(last));
        if bitmap <= values.len() * width {
            page.encoding = Encoding::Bitmap;
            page.contents = vec![0; size_class(bitmap)].into_boxed_slice();
            for &value in values {
                let offset = page.offset(value) as usize;
                page.contents[offset / 8] |= 1 << (offset % 8);
            }
        } else {
            page.encoding = Encoding::Offsets(width as u8);
            page.contents = vec![0; size_class(values.len() * width)].into_boxed_slice();
            for (index, &value) in values.iter().enumerate() {
                let offset = page.offset(value).to_le_bytes();
                page.contents[index * width..(index + 1) * width].copy_from_slice(&offset[..width]);
            }
        }
        page
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Allocated bytes of the contents.
    pub fn memory_bytes(&self) -> usize {
        usable_size(self.contents.len())
    }

    /// Bytes of the contents used by values.
    pub fn used_bytes(&self) -> usize {
        match self.encoding {
            Encoding::Run => 0,
            Encoding::Offsets(width) => self.count() * usize::from(width),
            Encoding::Bitmap => self.contents.len(),
        }
    }

    /// Returns whether the page is a bitmap.
    pub fn is_bitmap(&self) -> bool {
        self.encoding == Encoding::Bitmap
    }

    #[inline]
    fn offset(&self, value: i64) -> u64 {
        (value as u64).wrapping_sub(self.base as u64)
    }

    #[inline]
    fn value(&self, offset: u64) -> i64 {
        (self.base as u64).wrapping_add(offset) as i64
    }

    /// Prefetches the line that a lookup of `value` reads first.
    pub fn prefetch(&self, value: i64) {
        let at = match self.encoding {
            Encoding::Run => return,
            Encoding::Bitmap => usize::try_from(self.offset(value) / 8).unwrap_or(usize::MAX),
            Encoding::Offsets(width) => self.count() / 2 * width as usize,
        };
        if let Some(byte) = self.contents.get(at) {
            prefetch(byte);
        }
    }

    /// Returns whether `value` is in the page.
    #[inline]
    pub fn contains(&self, value: i64) -> bool {
        if value < self.base {
            return false;
        }
        let offset = self.offset(value);
        match self.encoding {
            Encoding::Run => offset < self.count as u64,
            Encoding::Bitmap => self.bit(offset),
            Encoding::Offsets(width) => {
                let index = with_width!(width, search_as(&self.contents, self.count(), offset));
                index < self.count() && with_width!(width, read_as(&self.contents, index)) == offset
            }
        }
    }

    #[inline]
    fn bit(&self, offset: u64) -> bool {
        let byte = usize::try_from(offset / 8).ok().and_then(|at| self.contents.get(at));
        byte.is_some_and(|byte| byte >> (offset % 8) & 1 == 1)
    }

    /// The value with `rank` smaller ones in this page.
    pub fn at(&self, rank: usize) -> i64 {
        debug_assert!(rank < self.count());
        match self.encoding {
            Encoding::Run => self.value(rank as u64),
            Encoding::Offsets(width) => self.value(with_width!(width, read_as(&self.contents, rank))),
            Encoding::Bitmap => {
                let mut rest = rank;
                for (index, byte) in self.contents.iter().enumerate() {
                    let ones = byte.count_ones() as usize;
                    if rest < ones {
                        let bit = (0..8).filter(|bit| byte >> bit & 1 == 1).nth(rest).unwrap_or(0);
                        return self.value((index * 8 + bit) as u64);
                    }
                    rest -= ones;
                }
                unreachable!("the rank is below the count")
            }
        }
    }

    /// The greatest value.
    pub fn last(&self) -> i64 {
        match self.encoding {
            Encoding::Bitmap => {
                let at = self.contents.iter().rposition(|&byte| byte != 0).unwrap_or(0);
                self.value(at as u64 * 8 + self.contents[at].checked_ilog2().unwrap_or(0) as u64)
            }
            _ => self.at(self.count() - 1),
        }
    }

    /// The start of an iteration that skips values below `value`: see [`Page::step`].
    pub fn place(&self, value: i64) -> usize {
        let offset = if value > self.base { self.offset(value) } else { 0 };
        match self.encoding {
            Encoding::Run => offset.min(self.count as u64) as usize,
            Encoding::Bitmap => offset.min(self.contents.len() as u64 * 8) as usize,
            Encoding::Offsets(width) => with_width!(width, search_as(&self.contents, self.count(), offset)),
        }
    }

    /// The first value at or after `place` and the place after it. Places are ranks or bits; 0 is the first.
    #[inline]
    pub fn step(&self, place: usize) -> Option<(i64, usize)> {
        match self.encoding {
            Encoding::Run => (place < self.count()).then(|| (self.value(place as u64), place + 1)),
            Encoding::Offsets(width) => (place < self.count())
                .then(|| (self.value(with_width!(width, read_as(&self.contents, place))), place + 1)),
            Encoding::Bitmap => {
                let mut at = place / 8;
                let mut byte = *self.contents.get(at)? & (0xFF << (place % 8)) as u8;
                while byte == 0 {
                    at += 1;
                    byte = *self.contents.get(at)?;
                }
                let bit = at * 8 + byte.trailing_zeros() as usize;
                Some((self.value(bit as u64), bit + 1))
            }
        }
    }

    /// Iterates over the values.
    pub fn values(&self) -> impl Iterator<Item = i64> + '_ {
        let mut place = 0;
        std::iter::from_fn(move || {
            let (value, next) = self.step(place)?;
            place = next;
            Some(value)
        })
    }

    /// Adds a value that is not in the page, which is not full.
    pub fn insert(&mut self, value: i64) {
        debug_assert!(self.count() < PAGE_MAX && !self.contains(value));
        let done = match self.encoding {
            _ if value < self.base => {
                self.encoding == Encoding::Run && value == self.base - 1 && self.grow_run_down()
            }
            Encoding::Run => self.offset(value) == self.count as u64,
            Encoding::Bitmap => self.set_bit(self.offset(value)),
            Encoding::Offsets(width) => self.insert_offset(width as usize, self.offset(value)),
        };
        if !done {
            return self.encode_with(value);
        }
        self.count += 1;
        if self.encoding != Encoding::Run && self.is_run() {
            *self = Page::encode(&self.values().collect::<Vec<_>>(), 0);
        }
    }

    fn grow_run_down(&mut self) -> bool {
        self.base -= 1;
        true
    }

    /// Returns whether the values are consecutive.
    pub fn is_run(&self) -> bool {
        self.last().wrapping_sub(self.at(0)) as u64 == self.count as u64 - 1
    }

    /// Re-encodes the page with one more value.
    fn encode_with(&mut self, value: i64) {
        let mut values = Vec::with_capacity(self.count() + 1);
        values.extend(self.values().take_while(|&other| other < value));
        values.push(value);
        values.extend(self.values().skip(values.len() - 1));
        // Descending inserts would move the base each time: leave it a quarter of the span.
        let span = self.last().wrapping_sub(self.base) as u64;
        let headroom = if value < self.base { span / 4 } else { 0 };
        *self = Page::encode(&values, headroom);
    }

    fn set_bit(&mut self, offset: u64) -> bool {
        let needed = bitmap_bytes(offset);
        if needed > self.contents.len() {
            if needed > (self.count() + 1) * width_of(offset) * 2 {
                return false;
            }
            self.contents = resized(&self.contents, self.contents.len(), needed);
        }
        self.contents[offset as usize / 8] |= 1 << (offset % 8);
        true
    }

    fn insert_offset(&mut self, width: usize, offset: u64) -> bool {
        let count = self.count();
        let used = count * width;
        let last = offset.max(with_width!(width, read_as(&self.contents, count - 1)));
        if width_of(offset) > width || bitmap_bytes(last) <= used / 2 {
            return false;
        }
        if used + width > self.contents.len() {
            self.contents = resized(&self.contents, used, used + width);
        }
        let at = with_width!(width, search_as(&self.contents, count, offset)) * width;
        self.contents.copy_within(at..used, at + width);
        self.contents[at..at + width].copy_from_slice(&offset.to_le_bytes()[..width]);
        true
    }

    /// Removes a value that is in the page and not its only one.
    pub fn remove(&mut self, value: i64) {
        debug_assert!(self.count() > 1 && self.contains(value));
        let offset = self.offset(value);
        match self.encoding {
            Encoding::Run if offset == 0 => self.base += 1,
            Encoding::Run if offset == self.count as u64 - 1 => {}
            Encoding::Run => return self.encode_without(value),
            Encoding::Bitmap => {
                self.contents[offset as usize / 8] &= !(1 << (offset % 8));
                let width = width_of(self.contents.len() as u64 * 8);
                if self.contents.len() > self.count() * width * 2 {
                    return self.encode_counted(self.count() - 1);
                }
            }
            Encoding::Offsets(width) => self.remove_offset(width as usize, offset),
        }
        self.count -= 1;
        if self.encoding != Encoding::Run && self.is_run() {
            self.encode_counted(self.count());
        }
    }

    fn encode_without(&mut self, value: i64) {
        let values: Vec<i64> = self.values().filter(|&other| other != value).collect();
        *self = Page::encode(&values, 0);
    }

    /// Re-encodes the contents, which have `count` values.
    fn encode_counted(&mut self, count: usize) {
        let values: Vec<i64> = self.values().take(count).collect();
        *self = Page::encode(&values, 0);
    }

    fn remove_offset(&mut self, width: usize, offset: u64) {
        let used = self.count() * width;
        let at = with_width!(width, search_as(&self.contents, self.count(), offset)) * width;
        self.contents.copy_within(at + width..used, at);
        if size_class(used - width) < self.contents.len() {
            self.contents = resized(&self.contents, used - width, used - width);
        }
    }

    /// Panics unless the documented invariants hold.
    pub fn check(&self) {
        assert!((1..=PAGE_MAX).contains(&self.count()));
        let values: Vec<i64> = self.values().collect();
        assert_eq!(values.len(), self.count());
        assert!(values.is_sorted_by(|a, b| a < b) && self.base <= values[0]);
        assert_eq!(self.last(), values[values.len() - 1]);
        assert_eq!(self.encoding == Encoding::Run, self.is_run());
        match self.encoding {
            Encoding::Run => assert!(self.contents.is_empty() && self.base == values[0]),
            Encoding::Offsets(width) => {
                assert_eq!(self.contents.len(), size_class(self.count() * width as usize));
            }
            Encoding::Bitmap => assert_eq!(self.contents.len(), size_class(self.contents.len())),
        }
    }
}
