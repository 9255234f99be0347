//! Shapes: how the hash range is divided into groups of buckets, and which bits of the hash a slot's tag
//! keeps.
//!
//! ```text
//!  hash   | group: `level` bits | place: 8 bits | ...                               ... | fixed: 5 bits |
//!         0                     level           level+8        (bits counted from the top)
//!  bucket = group * width + (place * width >> 8)
//!
//!  tag    | fixed: 5 bits | window: the 11 bits of the hash that start at `base` |   base = level & !3
//! ```
//! The bucket number ascends with the hash in every shape, so a hash is a position that survives any change
//! of size. The window contains the place bits at every level from `base` to `base + 3`: bucket and tag
//! together give enough of the hash to find the bucket of either neighbouring shape without reading the key.
//! Only when the growing level passes a multiple of 4, once in 16-fold growth, are keys read and hashed
//! again.

const PLACE_BITS: u32 = 8;
const WINDOW_BITS: u32 = 11;
const FIXED_BITS: u32 = 5;
/// Levels that share one window.
const LEVELS_PER_WINDOW: u32 = WINDOW_BITS - PLACE_BITS + 1;
/// Widths go from 4 to 7, then the next level starts at 4. Level 0 starts at 1.
const WIDTH_MIN: u32 = 4;
/// 2^40 groups. A scan's cursor is the upper 48 bits of a hash, which holds every bucket's boundary up to
/// this level.
pub(super) const LEVEL_MAX: u32 = 40;

const _: () = assert!(WINDOW_BITS + FIXED_BITS == 16);
const _: () = assert!(LEVEL_MAX + PLACE_BITS <= 48);

/// A way to divide the range of the hash into `width << level` buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    level: u32,
    width: u32,
}

impl Shape {
    pub(super) const SMALLEST: Shape = Shape { level: 0, width: 1 };

    #[inline]
    pub(super) fn groups(&self) -> usize {
        1 << self.level
    }

    #[inline]
    pub(super) fn width(&self) -> usize {
        self.width as usize
    }

    #[inline]
    fn base(&self) -> u32 {
        self.level & !(LEVELS_PER_WINDOW - 1)
    }

    #[inline]
    pub(super) fn group(&self, hash: u64) -> usize {
        // Two shifts: one by 64 is undefined, and level 0 has one group.
        (hash >> 1 >> (63 - self.level)) as usize
    }

    #[inline]
    pub(super) fn bucket(&self, hash: u64) -> usize {
        ((hash >> (64 - PLACE_BITS - self.level)) as usize * self.width as usize) >> PLACE_BITS
    }

    #[inline]
    pub(super) fn tag(&self, hash: u64) -> u16 {
        let window = (hash << self.base()) >> (64 - WINDOW_BITS);
        let fixed = hash & ((1 << FIXED_BITS) - 1);
        (fixed << WINDOW_BITS | window) as u16
    }

    /// The bits of the hashes that a bucket's number and the tags in it determine.
    #[inline]
    pub(super) fn known_bits(&self, bucket: usize) -> KnownBits {
        let group = (bucket / self.width as usize) as u64;
        KnownBits {
            group: group << (WINDOW_BITS + self.base() - self.level),
            shift: 64 - WINDOW_BITS - self.base(),
        }
    }

    /// The index of the entry's part if its group is divided into `parts`. The group is one of this shape,
    /// `parts` at most twice `WIDTH_MIN`, and the tag of this shape or of another with the same window.
    #[inline]
    pub(super) fn place(&self, tag: u16, parts: usize) -> usize {
        let place =
            (tag >> (LEVELS_PER_WINDOW - 1 - (self.level - self.base()))) as usize & ((1 << PLACE_BITS) - 1);
        (place * parts) >> PLACE_BITS
    }

    /// Whether a hash has the same tag in both shapes.
    #[inline]
    pub(super) fn has_tags_of(&self, other: &Shape) -> bool {
        self.base() == other.base()
    }

    /// Whether [`KnownBits`] of this shape has enough bits for `other`, one step away.
    #[inline]
    pub(super) fn knows_enough_for(&self, other: &Shape) -> bool {
        other.base() <= self.base()
    }

    /// The lowest hash beyond this bucket; `None` for the last bucket.
    pub(super) fn end(&self, bucket: usize) -> Option<u64> {
        let place = ((bucket as u64 + 1) << PLACE_BITS).div_ceil(self.width as u64);
        let bits = self.level + PLACE_BITS;
        (place < 1 << bits).then(|| place << (64 - bits))
    }

    /// The shape with one more bucket in each group (or, equivalently, twice the groups). `None` at the
    /// largest.
    pub(super) fn wider(&self) -> Option<Shape> {
        if self.width + 1 < 2 * WIDTH_MIN {
            return Some(Shape { width: self.width + 1, ..*self });
        }
        (self.level < LEVEL_MAX).then_some(Shape { level: self.level + 1, width: WIDTH_MIN })
    }

    /// The shape whose `wider` is this one.
    pub(super) fn narrower(&self) -> Option<Shape> {
        if self.level > 0 && self.width == WIDTH_MIN {
            return Some(Shape { level: self.level - 1, width: 2 * WIDTH_MIN - 1 });
        }
        (self.width > 1).then_some(Shape { width: self.width - 1, ..*self })
    }
}

/// The bits of the hash that bucket and tag determine: the highest, down to the window's end, and the lowest
/// five.
pub(super) struct KnownBits {
    group: u64,
    shift: u32,
}

impl KnownBits {
    #[inline]
    pub(super) fn hash(&self, tag: u16) -> u64 {
        let window = (tag & ((1 << WINDOW_BITS) - 1)) as u64;
        // Where group and window overlap, they agree.
        (self.group | window) << self.shift | (tag >> WINDOW_BITS) as u64
    }
}
