//! Serialised values that are nearly right: taken apart by their structure, changed in a place or two, and put together
//! again with lengths and checksum that fit.

use super::random::Random;
use super::words::{chance, pick, word};
use structures::listpack::Listpack;
use wire::rdb::{Reader, VERSION, kind, node};

/// What a payload consists of, in order.
#[derive(Clone)]
enum Part {
    Length(u64),
    Text(Vec<u8>),
    Listpack(Vec<u8>),
    Integers(Vec<u8>),
    /// A score, a time, an id.
    Fixed(Vec<u8>),
}

/// A changed copy; the payload itself where it cannot be taken apart.
pub fn changed(payload: &[u8], random: &mut Random) -> Vec<u8> {
    let Some((&kind, body)) = payload.split_first() else { return Vec::new() };
    let Some(mut parts) = parse(kind, body) else { return payload.to_vec() };
    let mut kind = kind;
    for _ in 0..1 + random.below(2) {
        match random.below(100) {
            0..6 => kind = sibling(kind, random),
            _ => change(&mut parts, random),
        }
    }
    written(kind, &parts)
}

/// Another type whose values are written in the same form.
fn sibling(kind: u8, random: &mut Random) -> u8 {
    match kind {
        kind::HASH_LISTPACK | kind::ZSET_LISTPACK | kind::SET_LISTPACK | kind::STRING | kind::SET_INTSET => {
            [kind::HASH_LISTPACK, kind::ZSET_LISTPACK, kind::SET_LISTPACK, kind::SET_INTSET, kind::STRING]
                [random.below(5) as usize]
        }
        kind::LIST | kind::SET | kind::HASH | kind::ZSET => {
            [kind::LIST, kind::SET, kind::HASH, kind::ZSET][random.below(4) as usize]
        }
        kind::STREAM_LISTPACKS_3 | kind::STREAM_LISTPACKS_2 | kind::STREAM_LISTPACKS => {
            [kind::STREAM_LISTPACKS, kind::STREAM_LISTPACKS_2, kind::STREAM_LISTPACKS_3]
                [random.below(3) as usize]
        }
        _ => random.below(23) as u8,
    }
}

fn parse(kind: u8, body: &[u8]) -> Option<Vec<Part>> {
    let mut walk = Walk { reader: Reader::of_bytes(body), parts: Vec::new() };
    match kind {
        kind::STRING => walk.text()?,
        kind::LIST | kind::SET => walk.times(Walk::text)?,
        kind::HASH => walk.times(|walk| walk.text().and_then(|()| walk.text()))?,
        kind::HASH_2 => walk.times(|walk| {
            walk.text()?;
            walk.text()?;
            walk.fixed::<8>()
        })?,
        kind::ZSET_2 => walk.times(|walk| walk.text().and_then(|()| walk.fixed::<8>()))?,
        kind::SET_INTSET => walk.integers()?,
        kind::HASH_LISTPACK | kind::ZSET_LISTPACK | kind::SET_LISTPACK => walk.listpack()?,
        kind::LIST_QUICKLIST_2 => walk.times(|walk| match walk.length()? {
            node::PACKED => walk.listpack(),
            _ => walk.text(),
        })?,
        kind::STREAM_LISTPACKS_3 => walk.stream()?,
        _ => return None,
    }
    Some(walk.parts)
}

struct Walk {
    reader: Reader<std::io::Empty>,
    parts: Vec<Part>,
}

impl Walk {
    fn length(&mut self) -> Option<u64> {
        let length = self.reader.length().ok()?;
        self.parts.push(Part::Length(length));
        Some(length)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        Some(self.reader.string().ok()?.to_vec())
    }

    fn text(&mut self) -> Option<()> {
        let bytes = self.bytes()?;
        self.parts.push(Part::Text(bytes));
        Some(())
    }

    fn listpack(&mut self) -> Option<()> {
        let bytes = self.bytes()?;
        self.parts.push(Part::Listpack(bytes));
        Some(())
    }

    fn integers(&mut self) -> Option<()> {
        let bytes = self.bytes()?;
        self.parts.push(Part::Integers(bytes));
        Some(())
    }

    fn fixed<const N: usize>(&mut self) -> Option<()> {
        let bytes = self.reader.array::<N>().ok()?;
        self.parts.push(Part::Fixed(bytes.to_vec()));
        Some(())
    }

    fn times(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let count = self.length()?;
        (0..count).try_for_each(|_| each(self))
    }

    fn lengths(&mut self, count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.length().map(|_| ()))
    }

    fn stream(&mut self) -> Option<()> {
        self.times(|walk| walk.text().and_then(|()| walk.listpack()))?;
        // Entries; the last, the first and the greatest deleted id; entries ever added.
        self.lengths(1 + 3 * 2 + 1)?;
        self.times(|walk| {
            walk.text()?;
            walk.lengths(2 + 1)?;
            walk.times(|walk| {
                walk.fixed::<16>()?;
                walk.fixed::<8>()?;
                walk.lengths(1)
            })?;
            walk.times(|walk| {
                walk.text()?;
                walk.fixed::<8>()?;
                walk.fixed::<8>()?;
                walk.times(Self::fixed::<16>)
            })
        })
    }
}

fn written(kind: u8, parts: &[Part]) -> Vec<u8> {
    let mut payload = vec![kind];
    for part in parts {
        match part {
            Part::Length(length) => write_length(&mut payload, *length),
            Part::Text(bytes) | Part::Listpack(bytes) | Part::Integers(bytes) => {
                write_length(&mut payload, bytes.len() as u64);
                payload.extend(bytes);
            }
            Part::Fixed(bytes) => payload.extend(bytes),
        }
    }
    payload.extend(VERSION.to_le_bytes());
    let checksum = wire::crc64::extend(0, &payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

fn write_length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..64 => out.push(length as u8),
        64..0x4000 => out.extend([0x40 | (length >> 8) as u8, length as u8]),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend((length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend(length.to_be_bytes());
        }
    }
}

fn change(parts: &mut Vec<Part>, random: &mut Random) {
    if parts.is_empty() {
        return;
    }
    let packed: Vec<usize> = (0..parts.len()).filter(|&at| matches!(parts[at], Part::Listpack(_))).collect();
    let at = match packed.len() as u64 {
        n @ 1.. if chance(random, 50) => packed[random.below(n) as usize],
        _ => random.below(parts.len() as u64) as usize,
    };
    if chance(random, 12) {
        return change_order(parts, at, random);
    }
    match &mut parts[at] {
        Part::Length(length) => *length = changed_number(*length, random),
        Part::Text(bytes) => *bytes = changed_text(bytes, random),
        Part::Listpack(bytes) => *bytes = changed_listpack(bytes, random),
        Part::Integers(bytes) => change_integers(bytes, random),
        Part::Fixed(bytes) => change_fixed(bytes, random),
    }
}

/// Drops, doubles or exchanges a part, and sets the count before it right half of the time.
fn change_order(parts: &mut Vec<Part>, at: usize, random: &mut Random) {
    let step: i64 = match random.below(3) {
        0 => {
            parts.remove(at);
            -1
        }
        1 => {
            parts.insert(at, parts[at].clone());
            1
        }
        _ => {
            let other = random.below(parts.len() as u64) as usize;
            parts.swap(at, other);
            0
        }
    };
    let before = at.min(parts.len());
    let mut lengths = parts[..before].iter_mut().filter_map(|part| match part {
        Part::Length(length) => Some(length),
        _ => None,
    });
    if chance(random, 50)
        && let Some(length) = lengths.next_back()
    {
        *length = length.wrapping_add_signed(step);
    }
}

fn changed_number(number: u64, random: &mut Random) -> u64 {
    const ENDS: &[u64] = &[
        0,
        1,
        63,
        64,
        0x3fff,
        0x4000,
        65_535,
        65_536,
        0xffff_ffff,
        0x1_0000_0000,
        i64::MAX as u64,
        u64::MAX,
    ];
    match random.below(4) {
        0 => number.wrapping_add(1),
        1 => number.wrapping_sub(1),
        2 => ENDS[random.below(ENDS.len() as u64) as usize],
        _ => random.below(100),
    }
}

fn changed_text(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match random.below(4) {
        0 => return word(random),
        1 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        2 => bytes.extend(word(random)),
        _ if bytes.is_empty() => {}
        _ => {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
    }
    bytes
}

fn change_fixed(bytes: &mut [u8], random: &mut Random) {
    let at = random.below(bytes.len() as u64) as usize;
    match random.below(6) {
        0 => bytes.fill(0xff),
        1 => bytes.fill(0),
        2 if bytes.len() == 8 => bytes.copy_from_slice(&f64::NAN.to_le_bytes()),
        3 if bytes.len() == 8 => bytes.copy_from_slice(&(-0.0f64).to_le_bytes()),
        4 if bytes.len() == 8 => bytes.copy_from_slice(&i64::MIN.to_le_bytes()),
        _ => bytes[at] = random.below(256) as u8,
    }
}

/// The width and the count, four bytes each, and then the integers in order.
fn change_integers(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(5) {
        0 if bytes.len() >= 4 => bytes[0] = [0, 1, 2, 3, 4, 8, 16][random.below(7) as usize],
        1 if bytes.len() >= 8 => bytes[4] = bytes[4].wrapping_add(1),
        2 if bytes.len() >= 24 => {
            let (one, other) = (random.below(bytes.len() as u64 - 8), random.below(bytes.len() as u64 - 8));
            bytes.swap(8 + one as usize, 8 + other as usize);
        }
        3 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        _ => *bytes = changed_text(bytes, random),
    }
}

/// Changes an element or what stands around the elements.
fn changed_listpack(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let Ok(list) = Listpack::validate(bytes) else { return changed_text(bytes, random) };
    let mut elements: Vec<Vec<u8>> = list.iter().map(|element| shortest(&element.to_vec())).collect();
    if elements.is_empty() {
        return changed_text(bytes, random);
    }
    let at = random.below(elements.len() as u64) as usize;
    let other = random.below(elements.len() as u64) as usize;
    let (mut count_change, mut damage) = (0, None);
    match random.below(12) {
        0 => drop(elements.remove(at)),
        1 => elements.insert(at, elements[other].clone()),
        2 => elements.swap(at, other),
        3..7 => elements[at] = widened(&list.iter().nth(at).map(|e| e.to_vec()).unwrap_or_default(), random),
        7..9 => {
            let value = if chance(random, 30) { extreme_integer(random) } else { word(random) };
            elements[at] = shortest(&value);
        }
        9 => count_change = pick_change(random),
        _ => damage = Some(random.next_u64()),
    }
    let mut packed = assembled(&elements, count_change);
    if let Some(damage) = damage {
        let at = damage as usize % packed.len();
        packed[at] = (damage >> 32) as u8;
    }
    packed
}

fn pick_change(random: &mut Random) -> i64 {
    [-1, 1, 65_535, -100][random.below(4) as usize]
}

fn extreme_integer(random: &mut Random) -> Vec<u8> {
    pick(
        random,
        &["-9223372036854775808", "9223372036854775807", "0", "-1", "4294967296", "65536", "-2147483649"],
    )
    .into()
}

/// An element in the form in which a server writes it.
fn shortest(text: &[u8]) -> Vec<u8> {
    match wire::number::parse_i64(text) {
        Some(value) => {
            let width = (0..6).find(|&width| fits(value, width)).unwrap_or(5);
            integer(value, width)
        }
        None => string(text, 0),
    }
}

/// The same element in a longer form than it needs.
fn widened(text: &[u8], random: &mut Random) -> Vec<u8> {
    match wire::number::parse_i64(text) {
        Some(value) if chance(random, 75) => {
            let widths: Vec<usize> = (0..6).filter(|&width| fits(value, width)).collect();
            integer(value, widths[random.below(widths.len() as u64) as usize])
        }
        _ => string(text, random.below(3) as usize),
    }
}

/// Of 7, 13, 16, 24, 32 and 64 bits, the first without a sign.
fn fits(value: i64, width: usize) -> bool {
    let within = |bits: u32| (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value);
    match width {
        0 => (0..128).contains(&value),
        5 => true,
        _ => within([13, 16, 24, 32][width - 1]),
    }
}

fn integer(value: i64, width: usize) -> Vec<u8> {
    let bytes = value.to_le_bytes();
    match width {
        0 => vec![bytes[0]],
        1 => vec![0xc0 | bytes[1] & 0x1f, bytes[0]],
        _ => {
            let (tag, len) = [(0xf1, 2), (0xf2, 3), (0xf3, 4), (0xf4, 8)][width - 2];
            [&[tag][..], &bytes[..len]].concat()
        }
    }
}

/// With a header of at least this width: 6, 12 or 32 bits of length.
fn string(text: &[u8], step_min: usize) -> Vec<u8> {
    let len = text.len();
    let head = match len {
        0..64 if step_min == 0 => vec![0x80 | len as u8],
        0..4096 if step_min < 2 => vec![0xe0 | (len >> 8) as u8, len as u8],
        _ => [&[0xf0][..], &(len as u32).to_le_bytes()].concat(),
    };
    [head.as_slice(), text].concat()
}

fn assembled(elements: &[Vec<u8>], count_change: i64) -> Vec<u8> {
    let mut packed = vec![0; 6];
    for element in elements {
        packed.extend(element);
        let size = element.len();
        let groups = (usize::BITS - size.leading_zeros()).div_ceil(7).max(1) as usize;
        for group in (0..groups).rev() {
            let more = if group + 1 == groups { 0 } else { 0x80 };
            packed.push((size >> (7 * group)) as u8 & 0x7f | more);
        }
    }
    packed.push(0xff);
    let count = (elements.len() as i64).wrapping_add(count_change).clamp(0, 65_535) as u16;
    let total = packed.len() as u32;
    packed[..4].copy_from_slice(&total.to_le_bytes());
    packed[4..6].copy_from_slice(&count.to_le_bytes());
    packed
}

/// What is taken apart and put together unchanged is the same value.
pub fn unchanged(payload: &[u8]) -> Vec<u8> {
    payload
        .split_first()
        .and_then(|(&kind, body)| Some(written(kind, &parse(kind, body)?)))
        .unwrap_or_default()
}
