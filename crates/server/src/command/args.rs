//! The arguments of a command: slices of the receive buffer; one of them can be in a buffer of its own.

use crate::db::Key;
use crate::db::strings::NewText;
use crate::error::ClientError;
use std::num::NonZeroU64;
use std::ops::{Index, Range};
use structures::hash::HashSeed;
use structures::key_slot::KeySeed;
use wire::reply::SharedBytes;
use wire::request::{ArgRange, REQUEST_LEN_MAX};

/// The arguments of one command, its name first. A view; copying it copies two slices and two references.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buffer: &'a [u8],
    ranges: &'a [ArgRange],
    /// The argument outside the buffer, if there is one.
    apart: Option<&'a SharedBytes>,
    /// With which keys are hashed; set when the command runs.
    seed: &'a KeySeed,
}

/// Seed of arguments whose command does not run.
static NO_SEED: KeySeed = KeySeed::new(HashSeed::new(0, 0), false);

impl<'a> Args<'a> {
    /// Arguments that are all in `buffer`.
    pub fn new(buffer: &'a [u8], ranges: &'a [ArgRange]) -> Self {
        Args { buffer, ranges, apart: None, seed: &NO_SEED }
    }

    /// As [`Args::new`]; one argument can be in `apart` instead.
    #[inline]
    pub fn with_apart(buffer: &'a [u8], ranges: &'a [ArgRange], apart: Option<&'a SharedBytes>) -> Self {
        let buffer = match apart {
            // No arguments follow the limit, and the range of the separate argument would point there.
            Some(_) => &buffer[..buffer.len().min(REQUEST_LEN_MAX)],
            None => buffer,
        };
        Args { buffer, ranges, apart, seed: &NO_SEED }
    }

    /// These arguments for the command's handler, which looks up keys with hashes of this seed.
    #[inline]
    pub fn with_seed(self, seed: &'a KeySeed) -> Self {
        Args { seed, ..self }
    }

    /// The number of arguments, the name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes from the first argument's beginning to the last one's end: the request without its first header.
    #[inline]
    pub fn request_bytes(&self) -> usize {
        match (self.ranges.first(), self.ranges.last()) {
            (Some(first), Some(_)) if self.apart.is_some() => {
                self.request_bytes_encoded()
                    - number_bytes(self.ranges.len())
                    - number_bytes(first.len as usize)
                    - LINE_END_BYTES
            }
            (Some(first), Some(last)) => last.start as usize + last.len as usize - first.start as usize,
            _ => 0,
        }
    }

    /// Bytes of these arguments encoded as a client's request, whatever buffers they are in.
    pub fn request_bytes_encoded(&self) -> usize {
        let bulks = self.ranges.iter().map(|range| range.len as usize);
        number_bytes(self.ranges.len())
            + bulks.map(|len| number_bytes(len) + len + LINE_END_BYTES).sum::<usize>()
    }

    /// The request in the encoding of the append-only file and replicas, if the buffer holds it so.
    #[inline]
    pub fn as_written(&self) -> Option<&'a [u8]> {
        wire::aof::as_written(self.buffer, self.ranges)
    }

    /// The argument at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|range| self.slice(range))
    }

    /// Like indexing, but the result lives as long as the buffer rather than this view.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.slice(&self.ranges[index])
    }

    /// The argument at `index` as a key. Its hash is known if the command's row says that it is one.
    #[inline]
    pub fn key(&self, index: usize) -> Key<'a> {
        let range = &self.ranges[index];
        let bytes = self.slice(range);
        let key = match range.hash {
            Some(hash) => Key::hashed(bytes, hash.get()),
            None => Key::new(bytes, *self.seed),
        };
        key.of_argument(range.start)
    }

    /// All arguments as keys.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Key<'a>> + Clone + use<'a> {
        let args = *self;
        (0..args.len()).map(move |index| args.key(index))
    }

    /// The hash of the key at `index`, if it is known.
    #[inline]
    pub fn known_hash(&self, index: usize) -> Option<u64> {
        self.ranges.get(index)?.hash.map(NonZeroU64::get)
    }

    #[inline]
    fn slice(&self, range: &ArgRange) -> &'a [u8] {
        match self.buffer.get(range.range()) {
            Some(bytes) => bytes,
            None => self.slice_apart(range),
        }
    }

    #[cold]
    fn slice_apart(&self, range: &ArgRange) -> &'a [u8] {
        match self.apart {
            Some(apart) if range.is_apart() => apart,
            _ => panic!("an argument at {range:?} in a buffer of {} bytes", self.buffer.len()),
        }
    }

    /// The argument, for a command that stores it as a string.
    #[inline]
    pub fn text(&self, index: usize) -> NewText<'a> {
        match self.apart {
            Some(apart) if self.ranges[index].is_apart() => NewText::Shared(apart),
            _ => NewText::Bytes(self.at(index)),
        }
    }

    /// The arguments starting at `first`.
    pub fn from(&self, first: usize) -> Args<'a> {
        Args { ranges: &self.ranges[first.min(self.ranges.len())..], ..*self }
    }

    /// The first `count` arguments.
    pub fn first(&self, count: usize) -> Args<'a> {
        Args { ranges: &self.ranges[..count.min(self.ranges.len())], ..*self }
    }

    /// Total bytes of all arguments.
    pub fn bytes(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }

    /// The arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        self.ranges.iter().map(move |range| args.slice(range))
    }

    /// Whether the argument is `word`, ignoring case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// A 64-bit integer in its canonical form.
    #[inline]
    pub fn integer(&self, index: usize) -> Result<i64, ClientError> {
        wire::number::parse_i64(self.at(index)).ok_or(ClientError::NotInteger)
    }

    /// A 32-bit integer, the type of database numbers.
    pub fn integer_32(&self, index: usize) -> Result<i32, ClientError> {
        i32::try_from(self.integer(index)?).map_err(|_| {
            ClientError::text("ERR value is out of range, value must between -2147483648 and 2147483647")
        })
    }

    /// An integer within `min..=max`, or `error`.
    pub fn integer_in(
        &self,
        index: usize,
        min: i64,
        max: i64,
        error: ClientError,
    ) -> Result<i64, ClientError> {
        self.integer(index).ok().filter(|n| (min..=max).contains(n)).ok_or(error)
    }

    /// As [`Self::integer_in`], of a number that is not negative.
    pub fn count_in(
        &self,
        index: usize,
        min: usize,
        max: usize,
        error: ClientError,
    ) -> Result<usize, ClientError> {
        let count = self.integer(index).ok().and_then(|number| usize::try_from(number).ok());
        count.filter(|count| (min..=max).contains(count)).ok_or(error)
    }

    /// A float; NaN is refused.
    pub fn float(&self, index: usize) -> Result<f64, ClientError> {
        wire::number::parse_f64(self.at(index)).ok_or(ClientError::NotFloat)
    }

    /// A copy that outlives the buffer.
    pub fn to_owned(&self) -> OwnedArgs {
        let mut owned = OwnedArgs::exactly(self.iter());
        owned.ranges.iter_mut().zip(self.ranges).for_each(|(own, range)| own.hash = range.hash);
        owned
    }

    /// As [`Self::to_owned`], without those at `left_out`.
    pub fn to_owned_without(&self, left_out: Range<usize>) -> OwnedArgs {
        let (before, behind) = (self.first(left_out.start), self.from(left_out.end));
        OwnedArgs::exactly(before.iter().chain(behind.iter()))
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}

const LINE_END_BYTES: usize = 2;

/// Bytes of the header line of an array or an argument of this length.
fn number_bytes(number: usize) -> usize {
    // Nearly all have one or two digits.
    let digits = match number {
        0..=9 => 1,
        10..=99 => 2,
        _ => number.ilog10() as usize + 1,
    };
    1 + digits + LINE_END_BYTES
}

/// Arguments that a queued or blocked command keeps, or that a file holds.
#[derive(Clone, Debug, Default)]
pub struct OwnedArgs {
    buffer: Vec<u8>,
    ranges: Vec<ArgRange>,
    /// The argument outside the buffer, if there is one.
    apart: Option<SharedBytes>,
}

/// The arguments without the longest one have `bytes` bytes in total, more than ranges can address.
#[derive(Debug, PartialEq)]
pub struct TooLong {
    /// Length of the arguments, without the longest.
    pub bytes: usize,
}

/// Equal if the arguments are: whether keys have been hashed does not matter.
impl PartialEq for OwnedArgs {
    fn eq(&self, other: &Self) -> bool {
        self.view().iter().eq(other.view().iter())
    }
}

impl OwnedArgs {
    /// Stores arguments that fit one client request, as all arguments from a client do.
    pub fn new<'a>(args: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut owned = OwnedArgs::default();
        for arg in args {
            owned.push(arg);
        }
        owned
    }

    /// Stores arguments from a file, which can be longer than a client's request. If they do not fit one request
    /// together, the longest gets a buffer of its own.
    pub fn from_file(arguments: Vec<Vec<u8>>) -> Result<Self, TooLong> {
        Self::within(arguments, REQUEST_LEN_MAX)
    }

    fn within(mut arguments: Vec<Vec<u8>>, buffer_bytes_max: usize) -> Result<Self, TooLong> {
        let bytes = arguments.iter().map(Vec::len).sum::<usize>();
        if bytes <= buffer_bytes_max {
            return Ok(Self::new(arguments.iter().map(Vec::as_slice)));
        }
        let longest = (0..arguments.len()).max_by_key(|&index| arguments[index].len()).unwrap_or(0);
        let mut apart = std::mem::take(&mut arguments[longest]);
        apart.shrink_to_fit();
        let bytes = bytes - apart.len();
        if bytes > buffer_bytes_max {
            return Err(TooLong { bytes });
        }
        let mut owned = OwnedArgs::default();
        for (index, argument) in arguments.iter().enumerate() {
            if index == longest {
                owned.ranges.push(ArgRange::apart(apart.len()));
            } else {
                owned.push(argument);
            }
        }
        owned.apart = Some(SharedBytes::new(apart));
        Ok(owned)
    }

    /// As [`OwnedArgs::new`], with room for these and no more: a copy that is kept.
    pub fn exactly<'a>(args: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let (count, bytes) = args.clone().fold((0, 0), |(count, bytes), arg| (count + 1, bytes + arg.len()));
        let (buffer, ranges) = (Vec::with_capacity(bytes), Vec::with_capacity(count));
        let mut owned = OwnedArgs { buffer, ranges, apart: None };
        args.for_each(|arg| owned.push(arg));
        owned
    }

    /// These arguments with others put in between, at `position`.
    pub fn with_inserted<'a>(
        &'a self,
        position: usize,
        others: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> OwnedArgs {
        let own = self.view();
        let (before, behind) = (own.first(position), own.from(position));
        OwnedArgs::exactly(before.iter().chain(others).chain(behind.iter()))
    }

    /// Appends an argument.
    pub fn push(&mut self, arg: &[u8]) {
        let range = ArgRange::within(self.buffer.len(), arg.len());
        self.ranges.push(range.expect("the arguments of one request fit into another"));
        self.buffer.extend_from_slice(arg);
    }

    /// A view of the stored arguments.
    pub fn view(&self) -> Args<'_> {
        Args::with_apart(&self.buffer, &self.ranges, self.apart.as_ref())
    }

    /// Bytes that it occupies besides this value itself.
    pub fn memory_bytes(&self) -> usize {
        let apart_bytes = self.apart.as_ref().map_or(0, |apart| apart.capacity());
        self.buffer.capacity() + self.ranges.capacity() * size_of::<ArgRange>() + apart_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(lens: &[usize]) -> Vec<Vec<u8>> {
        lens.iter().enumerate().map(|(at, &len)| vec![b'a' + u8::try_from(at).unwrap(); len]).collect()
    }

    #[test]
    fn arguments_of_a_file_are_whole_however_long_the_longest_is() {
        for lens in [&[3, 3, 200][..], &[3, 200, 3], &[101], &[40, 40, 20], &[50, 60, 50], &[]] {
            let owned = OwnedArgs::within(words(lens), 100).unwrap();
            let view = owned.view();
            assert!(view.iter().eq(words(lens).iter().map(Vec::as_slice)), "{lens:?}");
            assert_eq!(view.len(), lens.len());
            assert!(owned.memory_bytes() >= lens.iter().sum());
            let is_apart = lens.iter().sum::<usize>() > 100;
            let texts = (0..lens.len()).filter(|&at| matches!(view.text(at), NewText::Shared(_)));
            assert_eq!(texts.count(), usize::from(is_apart), "{lens:?}");
        }
    }

    #[test]
    fn arguments_that_no_range_reaches_are_refused() {
        let lens = [500; 9];
        assert_eq!(OwnedArgs::within(words(&lens), 1000), Err(TooLong { bytes: 4000 }));
        assert_eq!(OwnedArgs::within(words(&[60, 60, 60]), 100), Err(TooLong { bytes: 120 }));
    }

    #[test]
    fn counts_are_not_negative() {
        let (owned, error) =
            (OwnedArgs::new([&b"-1"[..], b"0", b"7", b"9223372036854775807"]), ClientError::Syntax);
        let read = |index, min, max| owned.view().count_in(index, min, max, error.clone()).ok();
        assert_eq!(
            [0, 1, 2, 3].map(|index| read(index, 0, usize::MAX)),
            [None, Some(0), Some(7), Some(i64::MAX as usize)]
        );
        assert_eq!([0, 1, 2, 3].map(|index| read(index, 1, 7)), [None, None, Some(7), None]);
    }

    #[test]
    fn no_range_is_cut() {
        assert_eq!(ArgRange::within(0, REQUEST_LEN_MAX).map(ArgRange::range), Some(0..REQUEST_LEN_MAX));
        assert_eq!(ArgRange::within(1, REQUEST_LEN_MAX), None);
        assert_eq!(ArgRange::within(1 << 32, 1), None);
        assert_eq!(ArgRange::within(0, (1 << 32) + 1), None);
        assert_eq!(ArgRange::within(usize::MAX, 2), None);
        assert!(ArgRange::apart((1 << 32) + 1).is_apart());
    }
}
