//! A command's arguments: slices of the buffer they arrived in, one of which may stand in a buffer of its own.

use crate::db::strings::NewText;
use crate::error::ClientError;
use std::ops::Index;
use wire::reply::SharedBytes;
use wire::request::{ArgRange, REQUEST_LEN_MAX};

/// The arguments of one command, its name first. A view; copying it copies two slices and a reference.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buffer: &'a [u8],
    ranges: &'a [ArgRange],
    /// The argument that stands in no buffer, if there is one.
    apart: Option<&'a SharedBytes>,
}

impl<'a> Args<'a> {
    pub fn new(buffer: &'a [u8], ranges: &'a [ArgRange]) -> Self {
        Args { buffer, ranges, apart: None }
    }

    /// As [`Args::new`], of which one argument may stand in `apart` instead.
    #[inline]
    pub fn with_apart(buffer: &'a [u8], ranges: &'a [ArgRange], apart: Option<&'a SharedBytes>) -> Self {
        let buffer = match apart {
            // Behind that are no arguments, and the range of the one apart would be found there.
            Some(_) => &buffer[..buffer.len().min(REQUEST_LEN_MAX)],
            None => buffer,
        };
        Args { buffer, ranges, apart }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes from the first argument's beginning to the last one's end: the request but for its first header.
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

    /// Bytes that these arguments take as a request of a client, wherever they stand.
    pub fn request_bytes_encoded(&self) -> usize {
        let bulks = self.ranges.iter().map(|range| range.len as usize);
        number_bytes(self.ranges.len())
            + bulks.map(|len| number_bytes(len) + len + LINE_END_BYTES).sum::<usize>()
    }

    /// The request, where it stands as the append-only file and replicas take it.
    #[inline]
    pub fn as_written(&self) -> Option<&'a [u8]> {
        wire::aof::as_written(self.buffer, self.ranges)
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|range| self.slice(range))
    }

    /// Like indexing, but the result lives as long as the buffer rather than this view.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.slice(&self.ranges[index])
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

    /// The argument for a command that keeps it as a string.
    #[inline]
    pub fn text(&self, index: usize) -> NewText<'a> {
        match self.apart {
            Some(apart) if self.ranges[index].is_apart() => NewText::Shared(apart),
            _ => NewText::Bytes(self.at(index)),
        }
    }

    /// The arguments from `first` on.
    pub fn from(&self, first: usize) -> Args<'a> {
        Args { ranges: &self.ranges[first.min(self.ranges.len())..], ..*self }
    }

    /// The first `count` arguments.
    pub fn first(&self, count: usize) -> Args<'a> {
        Args { ranges: &self.ranges[..count.min(self.ranges.len())], ..*self }
    }

    /// Bytes of all arguments together.
    pub fn bytes(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        self.ranges.iter().map(move |range| args.slice(range))
    }

    /// Whether the argument is `word`, in any case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// A 64-bit integer in its canonical form.
    #[inline]
    pub fn integer(&self, index: usize) -> Result<i64, ClientError> {
        wire::number::parse_i64(self.at(index)).ok_or(ClientError::NotInteger)
    }

    /// An integer of 32 bits, as numbers of databases are.
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

    /// A float; NaN is refused.
    pub fn float(&self, index: usize) -> Result<f64, ClientError> {
        wire::number::parse_f64(self.at(index)).ok_or(ClientError::NotFloat)
    }

    /// A copy that outlives the buffer.
    pub fn to_owned(&self) -> OwnedArgs {
        OwnedArgs::new(self.iter())
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

/// Bytes of the line that announces an array or an argument of this length.
fn number_bytes(number: usize) -> usize {
    // Nearly all have one digit or two.
    let digits = match number {
        0..=9 => 1,
        10..=99 => 2,
        _ => number.ilog10() as usize + 1,
    };
    1 + digits + LINE_END_BYTES
}

/// Arguments that a queued or blocked command keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnedArgs {
    buffer: Vec<u8>,
    ranges: Vec<ArgRange>,
}

impl OwnedArgs {
    pub fn new<'a>(args: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut owned = OwnedArgs::default();
        for arg in args {
            owned.push(arg);
        }
        owned
    }

    pub fn push(&mut self, arg: &[u8]) {
        self.ranges.push(ArgRange { start: self.buffer.len() as _, len: arg.len() as _ });
        self.buffer.extend_from_slice(arg);
    }

    pub fn view(&self) -> Args<'_> {
        Args::new(&self.buffer, &self.ranges)
    }

    /// What it occupies beyond this value itself.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.ranges.capacity() * size_of::<ArgRange>()
    }
}
