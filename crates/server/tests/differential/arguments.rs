//! Arguments from a command's row: its `syntax` is walked as a tree, each value is made up by its name.

use super::random::Random;
use super::words::{self, chance, in_some_case, pick};
use server::command::syntax::{Argument, ArgumentKind, parse};
use server::command::{Command, Group};

/// Keys of each type; commands of a group mostly use the keys named after it.
pub const KEYS_PER_TYPE: u64 = 5;
pub const KEY_TYPES: &[&str] =
    &["string", "list", "set", "zset", "hash", "stream", "hll", "geo", "bits", "any"];
pub const ODD_KEYS: &[&[u8]] = &[b"", b"\x00bin\xff\r\n", b"any:{tag}", &[b'k'; 300]];
/// Sorted sets whose members all have the same score: ranges of members are undefined in others.
pub const EQUAL_SCORES: &str = "equal";

/// What arguments are made from besides chance.
pub struct Source {
    pub random: Random,
    /// The time of the server when the run began.
    pub now_ms: i64,
    /// Ids of streams mostly grow.
    next_stream_id: u64,
    /// Commands use the keys of their own type less often: more collisions of types.
    pub few_keys: bool,
}

impl Source {
    pub fn new(random: Random, now_ms: i64) -> Self {
        Source { random, now_ms, next_stream_id: 1, few_keys: false }
    }

    /// The command with arguments that mostly make sense.
    pub fn arguments(&mut self, row: &'static Command) -> Vec<Vec<u8>> {
        let mut args: Vec<Vec<u8>> = row
            .name
            .split('|')
            .map(|word| in_some_case(&mut self.random, &word.to_ascii_uppercase()))
            .collect();
        let mut tree = parse(row.syntax);
        if chance(&mut self.random, 10) {
            self.shuffle_options(&mut tree);
        }
        Walk { source: self, row, counts_at: Vec::new(), repeats: 1 }.all(&tree, &mut args);
        args
    }

    fn shuffle_options(&mut self, tree: &mut [Argument]) {
        for i in 1..tree.len() {
            let j = i - self.random.below(i as u64 + 1) as usize;
            if tree[i].optional && tree[j].optional {
                tree.swap(i, j);
            }
        }
    }

    pub fn key_of(&mut self, key_type: &str) -> Vec<u8> {
        let keys = if self.few_keys { 2 } else { KEYS_PER_TYPE };
        format!("{key_type}:{}", self.random.below(keys)).into_bytes()
    }

    pub fn key(&mut self, group: Group) -> Vec<u8> {
        let random = &mut self.random;
        let own = match group {
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => pick(random, &["zset", "zset", "zset", "zset", "zset", "zset", "set"]),
            Group::Hash => "hash",
            Group::Stream => "stream",
            Group::HyperLogLog => "hll",
            Group::Geo => "geo",
            Group::Bitmap => pick(random, &["bits", "bits", "bits", "bits", "string"]),
            _ => pick(random, KEY_TYPES),
        };
        match random.below(100) {
            0..92 => self.key_of(own),
            92..98 => {
                let other = pick(random, KEY_TYPES);
                self.key_of(other)
            }
            _ => pick(random, ODD_KEYS).to_vec(),
        }
    }

    /// An id of an entry, mostly one that exists or is about to.
    pub fn stream_id(&mut self) -> Vec<u8> {
        let next = self.next_stream_id;
        let random = &mut self.random;
        let recent = next.saturating_sub(random.below(next.min(60) + 1));
        match random.below(40) {
            0..24 => format!("{recent}-{}", random.below(3)),
            24..32 => recent.to_string(),
            32..34 => random.below(next + 2).to_string(),
            34 => "0".to_owned(),
            35 => "0-0".to_owned(),
            36 => "18446744073709551615-18446744073709551615".to_owned(),
            37 => format!("{recent}-18446744073709551615"),
            38 => String::from_utf8_lossy(&words::integer(random)).into_owned(),
            _ => {
                pick(random, &["1-", "-1", "x", "1-x", "1-2-3", "", "18446744073709551616", "5-*"]).to_owned()
            }
        }
        .into_bytes()
    }

    fn new_stream_id(&mut self) -> Vec<u8> {
        self.next_stream_id += self.random.below(2);
        let next = self.next_stream_id;
        match self.random.below(20) {
            0..15 => format!("{next}-{}", self.random.below(30)).into_bytes(),
            15..19 => format!("{next}-*").into_bytes(),
            _ => self.stream_id(),
        }
    }

    fn stream_bound(&mut self) -> Vec<u8> {
        match self.random.below(10) {
            0..3 => b"-".to_vec(),
            3..6 => b"+".to_vec(),
            6 => [b"(".as_slice(), &self.stream_id()].concat(),
            _ => self.stream_id(),
        }
    }

    /// A number of seconds (or of milliseconds, with `unit` 1) far enough ahead that it does not pass unseen, or one
    /// that is refused.
    pub fn span(&mut self, unit_ms: i64) -> Vec<u8> {
        let random = &mut self.random;
        match random.below(20) {
            0 => b"0".to_vec(),
            1 => pick(random, &["-1", "-100", "-9223372036854775808"]).into(),
            2 => {
                pick(random, &["9223372036854775807", "9223372036854775", "9223370399119966", "x", "1.5", ""])
                    .into()
            }
            _ => ((1_000_000 + random.below(9_000_000) as i64) / unit_ms * 1000).to_string().into_bytes(),
        }
    }

    pub fn instant(&mut self, unit_ms: i64) -> Vec<u8> {
        let random = &mut self.random;
        match random.below(20) {
            0 => pick(random, &["0", "1", "-1", "1000"]).into(),
            1 => {
                pick(random, &["9223372036854775807", "9223372036854775", "-9223372036854775808", "x"]).into()
            }
            _ => ((self.now_ms + 1_000_000 + random.below(9_000_000) as i64) / unit_ms)
                .to_string()
                .into_bytes(),
        }
    }

    fn coordinate(&mut self, around: f64, most: f64) -> Vec<u8> {
        let random = &mut self.random;
        match random.below(20) {
            0 => words::number(random),
            1 => format!("{:.6}", (random.unit() * 2.0 - 1.0) * most).into_bytes(),
            2 => (if chance(random, 50) { most } else { -most }).to_string().into_bytes(),
            _ => format!("{:.6}", around + random.unit() * 4.0 - 2.0).into_bytes(),
        }
    }

    fn bit_encoding(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        match random.below(20) {
            0 => words::word(random),
            1 => pick(random, &["u64", "i65", "u0", "i0", "i64", "u63", "u", "i", "U8", "u08"]).into(),
            n => format!("{}{}", if n % 2 == 0 { 'u' } else { 'i' }, 1 + random.below(63)).into_bytes(),
        }
    }
}

/// One walk over a command's arguments.
struct Walk<'a> {
    source: &'a mut Source,
    row: &'static Command,
    /// Positions of numbers that say how many arguments follow.
    counts_at: Vec<usize>,
    /// How often the last repeated argument stands there; what is parallel to it repeats as often.
    repeats: usize,
}

impl Walk<'_> {
    fn all(&mut self, tree: &[Argument], args: &mut Vec<Vec<u8>>) {
        for argument in tree {
            self.one(argument, args);
        }
    }

    fn one(&mut self, argument: &Argument, args: &mut Vec<Vec<u8>>) {
        if argument.optional && !chance(&mut self.source.random, 35) {
            return;
        }
        let times = if argument.multiple { self.times(argument) } else { 1 };
        if argument.multiple {
            for at in self.counts_at.drain(..) {
                let off_by_one = chance(&mut self.source.random, 2) as usize;
                args[at] = (times + off_by_one).to_string().into_bytes();
            }
        }
        for time in 0..times {
            if let Some(token) = &argument.token
                && (time == 0 || argument.token_each_time)
                && argument.kind != ArgumentKind::PureToken
            {
                args.push(in_some_case(&mut self.source.random, token));
            }
            self.value(argument, args);
        }
    }

    /// How often a repeated argument stands there.
    fn times(&mut self, argument: &Argument) -> usize {
        let parallel =
            argument.name == "weight" || argument.name == "id" && self.row.name.starts_with("xread");
        let random = &mut self.source.random;
        if parallel && !chance(random, 4) {
            return self.repeats;
        }
        let of_keys =
            argument.kind == ArgumentKind::Key || argument.parts.iter().any(|p| p.kind == ArgumentKind::Key);
        let grows = self.row.flags & server::command::flag::DENY_OOM != 0 && !of_keys;
        let times = match random.below(200) {
            0..150 => 1 + random.below(3),
            _ if of_keys => 1 + random.below(6),
            _ if self.row.name == "xadd" => 1 + random.below(12),
            150..190 => 1 + random.below(8),
            190..198 => 4 + random.below(40),
            _ if grows => 40 + random.below(400),
            _ => 10 + random.below(100),
        };
        let fewest = if argument.parts.first().is_some_and(|part| part.name == "longitude") { 3 } else { 1 };
        self.repeats = fewest.max(times as usize);
        self.repeats
    }

    fn value(&mut self, argument: &Argument, args: &mut Vec<Vec<u8>>) {
        match argument.kind {
            ArgumentKind::OneOf => {
                let part = self.source.random.below(argument.parts.len() as u64) as usize;
                let part = Argument { optional: false, ..argument.parts[part].clone() };
                self.one(&part, args);
            }
            ArgumentKind::Block => self.all(&argument.parts, args),
            ArgumentKind::PureToken => {
                let token = argument.token.as_deref().unwrap_or_default();
                let word = match token {
                    "*" => self.source.new_stream_id(),
                    token => in_some_case(&mut self.source.random, token),
                };
                args.push(word);
            }
            ArgumentKind::Key => {
                let key = match () {
                    () if self.row.name.contains("lex") => self.source.key_of(EQUAL_SCORES),
                    () => self.source.key(self.row.group),
                };
                args.push(key);
            }
            _ => {
                if matches!(argument.name.as_str(), "numkeys" | "numfields" | "num-vertices") {
                    self.counts_at.push(args.len());
                }
                let value = self.named(&argument.name);
                args.push(value);
            }
        }
    }

    /// A value by its name.
    fn named(&mut self, name: &str) -> Vec<u8> {
        let group = self.row.group;
        let source = &mut *self.source;
        let random = &mut source.random;
        match name {
            "dst" | "src" => source.key(group),
            "seconds" => source.span(1000),
            "milliseconds" if matches!(self.row.name, "xread" | "xreadgroup") => b"1".to_vec(),
            "milliseconds" => source.span(1),
            "unix-time-seconds" => source.instant(1000),
            "unix-time-milliseconds" => source.instant(1),
            "timeout" => pick(random, &["0.001", "0.002", "1e-3", "-1", "x", "", "inf"]).into(),
            "by-pattern" | "get-pattern" => sort_pattern(random),
            "pattern" => words::pattern(random),
            "cursor" => {
                if chance(random, 95) {
                    b"0".to_vec()
                } else {
                    words::integer(random)
                }
            }
            "group" => pick(random, &["g1", "g1", "g1", "g2", "g3", ""]).into(),
            "consumer" => pick(random, &["alice", "bob", "carol", ""]).into(),
            "id" if self.row.name == "xadd" => source.new_stream_id(),
            "id" if self.row.name == "xread" => match random.below(6) {
                0 => pick(random, &["$", "+"]).into(),
                1 => b"0".to_vec(),
                _ => source.stream_id(),
            },
            "id" if self.row.name == "xreadgroup" => {
                if chance(random, 70) {
                    b">".to_vec()
                } else {
                    source.stream_id()
                }
            }
            "start" | "end" if group == Group::Stream => source.stream_bound(),
            "id" | "lastid" | "last-id" | "max-deleted-id" => source.stream_id(),
            "threshold" => {
                if chance(random, 50) {
                    words::count(random)
                } else {
                    source.stream_id()
                }
            }
            "min-idle-time" => pick(random, &["0", "0", "0", "1000000", "-1", "x"]).into(),
            "ms" => pick(random, &["0", "2000000", "5000000", "-1"]).into(),
            "longitude" => source.coordinate(13.0, 180.0),
            "latitude" => source.coordinate(38.0, 85.05112878),
            "radius" | "width" | "height" => match random.below(10) {
                0 => words::number(random),
                _ => random.below(400).to_string().into_bytes(),
            },
            "encoding" => source.bit_encoding(),
            "offset" if self.row.name.starts_with("bitfield") => match random.below(3) {
                0 => format!("#{}", random.below(40)).into_bytes(),
                _ => words::count(random),
            },
            "offset" => {
                if chance(random, 80) {
                    random.below(4000).to_string().into_bytes()
                } else {
                    words::count(random)
                }
            }
            "bit" => pick(random, &["0", "1", "0", "1", "0", "1", "2", "x"]).into(),
            "value" if self.row.name == "setbit" => pick(random, &["0", "1", "1", "1", "2", "x"]).into(),
            "value" if self.row.name == "bitfield" => words::integer(random),
            "increment" if self.row.name.ends_with("float") || self.row.name == "zincrby" => {
                words::number(random)
            }
            "increment" | "decrement" | "rank" | "index" | "start" | "stop" | "end" => words::integer(random),
            "weight" if chance(random, 90) => {
                format!("{}", 0.25 + random.below(40) as f64 / 4.0).into_bytes()
            }
            "score" | "weight" => words::number(random),
            "min" | "max" if self.row.name.contains("lex") => words::member_bound(random),
            "min" | "max" => words::score_bound(random),
            "count" | "num-matches" | "len" | "maxlen" | "limit" | "numkeys" | "numfields"
            | "num-vertices" | "min-match-len" | "entriesread" | "entries-added" => words::count(random),
            "db" | "destination-db" | "index1" | "index2" => {
                pick(random, &["0", "1", "1", "1", "16", "-1", "x"]).into()
            }
            "type" => pick(random, &["string", "list", "set", "zset", "hash", "stream", "nothing"]).into(),
            _ => words::word(random),
        }
    }
}

fn sort_pattern(random: &mut Random) -> Vec<u8> {
    pick(
        random,
        &[
            "string:*",
            "hash:*->a",
            "hash:*->field",
            "hash:0->*",
            "nosort",
            "#",
            "string:0",
            "*",
            "any:*->",
            "bits:*",
        ],
    )
    .into()
}
