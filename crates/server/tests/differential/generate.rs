//! Random streams of commands: which command, what goes wrong with its arguments, and what stands around it.

use super::arguments::{EQUAL_SCORES, KEY_TYPES, ODD_KEYS, Source};
use super::random::Random;
use super::words::{self, chance, in_some_case, pick};
use super::{Command, Step};
use server::command::{self, Group};
use server::commands::GROUPS;

/// Commands that are not compared, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("fcall", "no library is loaded; EVAL covers what is in a script"),
    ("fcall_ro", "as FCALL"),
    ("function", "golden scripts cover libraries"),
    (
        "migrate",
        "where it goes is drawn by lot, and what comes back depends on the network; tests/processes/migrate.rs covers it",
    ),
    ("object|layout", "the reference has no such command"),
    ("object|refcount", "here nothing is shared, there arguments are"),
    ("pfselftest", "takes long"),
    ("script", "golden scripts cover the cache"),
    ("wait", "is about replicas"),
    ("waitaof", "is about replicas"),
];

/// Groups whose commands are about connections and the process, not data.
const GROUPS_LEFT_OUT: &[Group] = &[Group::PubSub, Group::Connection, Group::Cluster, Group::Transactions];
/// Of the group of the server, the few about data.
const OF_SERVER: &[&str] = &["dbsize", "flushdb", "flushall", "swapdb"];

/// How often commands come that need another than the common weight: what fills collections often, what empties the
/// keyspace seldom.
const WEIGHTS: &[(&str, u32)] = &[
    ("append", 20),
    ("bitfield", 25),
    ("blmove", 1),
    ("blmpop", 1),
    ("blpop", 1),
    ("brpop", 1),
    ("brpoplpush", 1),
    ("bzmpop", 1),
    ("bzpopmax", 1),
    ("bzpopmin", 1),
    ("copy", 20),
    ("del", 5),
    ("eval", 40),
    ("eval_ro", 8),
    ("evalsha", 2),
    ("evalsha_ro", 1),
    ("flushall", 0),
    ("flushdb", 0),
    ("geoadd", 50),
    ("geosearch", 40),
    ("geosearchstore", 20),
    ("hset", 60),
    ("hsetex", 30),
    ("hexpire", 15),
    ("lcs", 3),
    ("linsert", 20),
    ("lpush", 40),
    ("move", 5),
    ("pfadd", 40),
    ("rename", 6),
    ("renamenx", 6),
    ("restore", 20),
    ("rpush", 50),
    ("sadd", 60),
    ("set", 30),
    ("setbit", 30),
    ("sort", 30),
    ("spop", 5),
    ("swapdb", 0),
    ("unlink", 3),
    ("xadd", 80),
    ("xclaim", 20),
    ("xgroup|create", 25),
    ("xreadgroup", 50),
    ("zadd", 80),
    ("zincrby", 20),
    ("zrange", 30),
    ("zrangestore", 20),
];
const COMMON_WEIGHT: u32 = 10;

const SCRIPTS: &[&str] = &[
    "return redis.call(unpack(ARGV))",
    "return redis.call(unpack(ARGV))",
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "redis.setresp(3) return redis.call(unpack(ARGV))",
];
const OTHER_SCRIPTS: &[&str] = &[
    "return {KEYS[1], ARGV[1], #ARGV, 3.99, true, false, {1, {2}}}",
    "return redis.error_reply(ARGV[1])",
    "return redis.status_reply(ARGV[1] or 'none')",
    "return cjson.encode({KEYS[1] or 0, ARGV})",
    "return cmsgpack.pack(ARGV)",
    "return {redis.pcall('GET', KEYS[1]), redis.pcall('TYPE', KEYS[1])}",
    "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])",
    "for i = 1, 20 do redis.call('RPUSH', KEYS[1], i .. ARGV[1]) end return redis.call('LLEN', KEYS[1])",
    "return tostring(tonumber(ARGV[1]))",
    "return redis.sha1hex(ARGV[1])",
    "return nil_variable.field",
    "return {double = 3.5}",
    "return",
    "syntax error",
];

pub struct Generator {
    pub source: Source,
    rows: Vec<&'static command::Command>,
    /// Running sums of weights.
    weights: Vec<u32>,
    /// Serialised values that were seen, for RESTORE.
    pub payloads: Vec<Vec<u8>>,
    pub traits: Traits,
    /// What the run is mostly about.
    theme: Option<Group>,
    /// What is sent is compared with what another server makes of it.
    against_reference: bool,
}

/// What a run does or does without, because it hides something from the comparison.
#[derive(Clone, Copy)]
pub struct Traits {
    /// Keys and fields expire, so that the number of keys is unknown.
    pub expiring: bool,
    /// SORT: there it changes how a sorted set is kept.
    pub sorting: bool,
}

impl Traits {
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7261_6974);
        Traits { expiring: chance(&mut random, 60), sorting: chance(&mut random, 50) }
    }
}

/// Every command that is compared, subcommands instead of their containers.
fn compared_rows() -> Vec<&'static command::Command> {
    let left_out = |name: &str| LEFT_OUT.iter().any(|(left_out, _)| *left_out == name);
    let rows = GROUPS.iter().flat_map(|group| group.iter()).filter(|row| {
        let of_data = !GROUPS_LEFT_OUT.contains(&row.group)
            && (row.group != Group::Server || OF_SERVER.contains(&row.name))
            && !row.name.starts_with("pfdebug");
        of_data && !left_out(row.name)
    });
    rows.flat_map(|row| if row.subcommands.is_empty() { std::slice::from_ref(row) } else { row.subcommands })
        .filter(|row| !left_out(row.name) && !row.name.ends_with("|help"))
        .collect()
}

impl Generator {
    pub fn new(seed: u64, now_ms: i64) -> Self {
        let mut random = Random::new(seed);
        let traits = Traits::of_seed(seed);
        let mut rows = compared_rows();
        rows.retain(|row| traits.sorting || !row.name.starts_with("sort"));
        // Each run is about all groups, or mostly about one: then its collections grow larger.
        let themes = [
            Group::List,
            Group::Set,
            Group::SortedSet,
            Group::Hash,
            Group::Stream,
            Group::Geo,
            Group::String,
        ];
        let theme = chance(&mut random, 50).then(|| themes[random.below(themes.len() as u64) as usize]);
        let mut sum = 0;
        let weights = rows.iter().map(|row| {
            let own = WEIGHTS.iter().find(|(name, _)| *name == row.name).map_or(COMMON_WEIGHT, |(_, w)| *w);
            sum += if theme == Some(row.group) { own * 20 } else { own };
            sum
        });
        let weights = weights.collect();
        let mut source = Source::new(random, now_ms);
        source.few_keys = theme.is_some();
        let against_reference = std::env::var("REFERENCE").is_ok();
        Generator { source, rows, weights, payloads: Vec::new(), traits, theme, against_reference }
    }

    fn row(&mut self) -> &'static command::Command {
        let total = *self.weights.last().expect("there are commands");
        let at = self.source.random.below(total as u64) as u32;
        self.rows[self.weights.partition_point(|sum| *sum <= at)]
    }

    /// About `count` steps, with pauses between groups of commands.
    pub fn steps(&mut self, count: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        while steps.len() < count {
            let random = &mut self.source.random;
            let protocol = if chance(random, 50) { "2" } else { "3" };
            steps.push(Step::words(&["HELLO", protocol]));
            for _ in 0..150 {
                self.push_command(&mut steps);
            }
            if self.traits.expiring && chance(&mut self.source.random, 30) {
                self.push_expiries(&mut steps);
            }
        }
        steps
    }

    fn push_command(&mut self, steps: &mut Vec<Step>) {
        match self.source.random.below(1000) {
            0..8 => steps.push(Step::words(&["MULTI"])),
            8..22 => steps.push(Step::words(&["EXEC"])),
            22 => steps.push(Step::words(&["DISCARD"])),
            23 => steps.push(Step::words(&["UNWATCH"])),
            24..28 => {
                let key = self.source.key(Group::Generic);
                steps.push(Step::Command(vec![b"WATCH".to_vec(), key]));
            }
            28 => steps.push(Step::words(&["SELECT", "1"])),
            29..34 => steps.push(Step::words(&["SELECT", "0"])),
            34 if chance(&mut self.source.random, 10) => steps.push(Step::words(&["SWAPDB", "0", "1"])),
            35 if chance(&mut self.source.random, 5) => steps.push(Step::words(&["FLUSHDB"])),
            36..48 => self.push_equal_scores(steps),
            // What only grows takes more and more of the time.
            48..56 => {
                let group = if chance(&mut self.source.random, 50) { self.theme } else { None };
                let key = self.source.key(group.unwrap_or(Group::Generic));
                steps.push(Step::Command(vec![b"DEL".to_vec(), key]));
            }
            56 => {
                let name = words::word(&mut self.source.random);
                let argument = words::word(&mut self.source.random);
                steps.push(Step::Command(vec![name, argument]));
            }
            _ => {
                let command = self.command();
                let random_part = takes_a_random_part(&command).map(<[u8]>::to_vec);
                steps.push(Step::Command(command));
                // Each side removed others: what is left cannot be compared.
                steps.extend(random_part.map(|key| Step::Command(vec![b"DEL".to_vec(), key])));
            }
        }
    }

    /// Members for those sorted sets whose scores are all equal, or the end of one.
    fn push_equal_scores(&mut self, steps: &mut Vec<Step>) {
        let key = self.source.key_of(EQUAL_SCORES);
        let random = &mut self.source.random;
        if chance(random, 15) {
            return steps.push(Step::Command(vec![b"DEL".to_vec(), key]));
        }
        let mut args = vec![b"ZADD".to_vec(), key];
        let members = if chance(random, 10) { 200 } else { 12 };
        for _ in 0..1 + random.below(members) {
            args.extend([b"0".to_vec(), words::word(random)]);
        }
        steps.push(Step::Command(args));
    }

    /// A command with its arguments, now and then damaged ones.
    pub fn command(&mut self) -> Command {
        loop {
            let row = self.row();
            let mut args = self.whole_command(row);
            if chance(&mut self.source.random, 5) {
                self.damage(&mut args);
            }
            let is_known = !self.against_reference || is_known_to_reference(&args);
            if is_bounded(&args) && is_defined(&args) && is_known {
                return args;
            }
        }
    }

    fn whole_command(&mut self, row: &'static command::Command) -> Command {
        match row.name {
            "eval" | "eval_ro" => self.script(row.name),
            "restore" => self.restore(),
            "zrange" | "zrangestore" => self.sorted_range(row),
            "spop" if chance(&mut self.source.random, 50) => {
                vec![b"SPOP".to_vec(), self.source.key(Group::Set), b"100000".to_vec()]
            }
            _ => self.source.arguments(row),
        }
    }

    fn script(&mut self, name: &str) -> Command {
        let random = &mut self.source.random;
        let name = in_some_case(random, &name.to_ascii_uppercase());
        if chance(random, 20) {
            let script = pick(random, OTHER_SCRIPTS).into();
            let key = self.source.key(Group::Generic);
            return vec![name, script, b"1".to_vec(), key, words::word(&mut self.source.random)];
        }
        let script = pick(random, SCRIPTS).into();
        let inner = loop {
            let inner = self.command();
            if !starts_with_word(&inner, b"EVAL") {
                break inner;
            }
        };
        [vec![name, script, b"0".to_vec()], inner].concat()
    }

    fn restore(&mut self) -> Command {
        let key = self.source.key(Group::Generic);
        let random = &mut self.source.random;
        let mut payload = match self.payloads.len() as u64 {
            0 => words::word(random),
            n => self.payloads[random.below(n) as usize].clone(),
        };
        if chance(random, 10) && !payload.is_empty() {
            let at = random.below(payload.len() as u64) as usize;
            if chance(random, 50) { payload[at] ^= 1 << random.below(8) } else { payload.truncate(at) }
        }
        let absolute = chance(random, 15);
        let ttl = match random.below(4) {
            0 if absolute => self.source.instant(1),
            0 => self.source.span(1),
            _ => b"0".to_vec(),
        };
        let random = &mut self.source.random;
        let mut args = vec![b"RESTORE".to_vec(), key, ttl, payload];
        for (word, percent) in [("REPLACE", 70), ("ABSTTL", if absolute { 100 } else { 0 })] {
            if chance(random, percent) {
                args.push(in_some_case(random, word));
            }
        }
        for word in ["IDLETIME", "FREQ"] {
            if chance(random, 4) {
                args.extend([word.into(), words::count(random)]);
            }
        }
        args
    }

    /// ZRANGE's bounds are ranks, scores or members by an option that follows them.
    fn sorted_range(&mut self, row: &'static command::Command) -> Command {
        let mut args = self.source.arguments(row);
        let random = &mut self.source.random;
        let is = |args: &[Vec<u8>], word: &[u8]| args.iter().any(|arg| arg.eq_ignore_ascii_case(word));
        let first_bound = if row.name == "zrange" { 2 } else { 3 };
        for at in first_bound..first_bound + 2 {
            args[at] = match () {
                () if chance(random, 4) => words::word(random),
                () if is(&args, b"BYSCORE") => words::score_bound(random),
                () if is(&args, b"BYLEX") => words::member_bound(random),
                () => words::integer(random),
            };
        }
        if is(&args, b"BYLEX") {
            args[first_bound - 1] = self.source.key_of(EQUAL_SCORES);
        }
        args
    }

    /// Drops, doubles, exchanges or adds arguments.
    fn damage(&mut self, args: &mut Vec<Vec<u8>>) {
        let random = &mut self.source.random;
        let at = random.below(args.len() as u64) as usize;
        let other = random.below(args.len() as u64) as usize;
        match random.below(6) {
            0 if args.len() > 1 => drop(args.remove(at)),
            1 => args.insert(at, args[other].clone()),
            2 => args.swap(at, other),
            3 if at > 0 => args[at] = words::word(random),
            4 if at > 0 => args[at] = words::integer(random),
            _ => args.push(words::word(random)),
        }
    }

    /// Keys and fields that expire during the pause that follows. Each is set to by the last command that sees it
    /// alive, so that the time of its removal is unknown.
    fn push_expiries(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::words(&["EXEC"]));
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for _ in 0..6 {
            let key = self.source.key(Group::Generic);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        for key in keys {
            if key.starts_with(b"geo") {
                continue;
            }
            let random = &mut self.source.random;
            let word = |text: &str| text.as_bytes().to_vec();
            let fields = [words::word(random), words::word(random)];
            steps.push(Step::Command(match random.below(6) {
                0 | 1 => vec![word("PEXPIRE"), key, word("1")],
                2 => vec![word("SET"), key, word("short"), word("PX"), word("1")],
                3 => vec![word("GETEX"), key, word("PX"), word("1")],
                4 => {
                    let [a, b] = fields;
                    vec![word("HPEXPIRE"), key, word("1"), word("FIELDS"), word("2"), a, b]
                }
                _ => {
                    let [a, b] = fields;
                    let start = ["HSETEX", "PX", "1", "FIELDS", "2"].map(word);
                    let mut args = start.to_vec();
                    args.insert(1, key);
                    args.extend([a, word("1"), b, word("2")]);
                    args
                }
            }));
        }
        steps.push(Step::Pause);
    }
}

pub fn starts_with_word(args: &[Vec<u8>], word: &[u8]) -> bool {
    args.first()
        .and_then(|first| first.get(..word.len()))
        .is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The command that a script of [`SCRIPTS`] calls.
pub fn called_by_script(args: &[Vec<u8>]) -> Option<&[Vec<u8>]> {
    let calls =
        starts_with_word(args, b"EVAL") && args.get(1)?.ends_with(b"unpack(ARGV))") && args.get(2)? == b"0";
    calls.then(|| &args[3..])
}

/// The key from which the command removes elements that the server chooses.
pub fn takes_a_random_part(args: &[Vec<u8>]) -> Option<&[u8]> {
    let args = called_by_script(args).unwrap_or(args);
    let is_spop = args.first()?.eq_ignore_ascii_case(b"SPOP");
    let takes_all = args.get(2).is_some_and(|count| count == b"100000");
    if is_spop && !takes_all { args.get(1).map(Vec::as_slice) } else { None }
}

/// Commands and their options that come from Redis 8.4 and later.
const OF_REDIS: &[(&[u8], &[&str])] = &[
    (b"bitop", &["DIFF", "DIFF1", "ANDOR", "ONE"]),
    (b"delex", &[]),
    (b"digest", &[]),
    (b"set", &["IFNE", "IFDEQ", "IFDNE"]),
    (b"xackdel", &[]),
    (b"xadd", &["KEEPREF", "DELREF", "ACKED", "IDMP", "IDMPAUTO"]),
    (b"xcfgset", &[]),
    (b"xdelex", &[]),
    (b"xidmprecord", &[]),
    (b"xreadgroup", &["CLAIM"]),
    (b"xtrim", &["KEEPREF", "DELREF", "ACKED"]),
];

/// Whether Valkey knows the command, with its options.
fn is_known_to_reference(args: &[Vec<u8>]) -> bool {
    let inner = called_by_script(args).unwrap_or(args);
    let has = |word: &&str| inner.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let is_of_redis = |(name, words): &(&[u8], &[&str])| {
        inner.first().is_some_and(|first| first.eq_ignore_ascii_case(name))
            && (words.is_empty() || words.iter().any(has))
    };
    !OF_REDIS.iter().any(is_of_redis)
}

/// Whether what the command does follows from what it says: `docs/differences.md` has what is excluded here.
fn is_defined(args: &[Vec<u8>]) -> bool {
    let inner = called_by_script(args).unwrap_or(args);
    let name = inner.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let integer_at = |at: usize| inner.get(at).and_then(|arg| wire::number::parse_i64(arg));
    let position = |word: &[u8]| inner.iter().position(|arg| arg.eq_ignore_ascii_case(word));
    let value_of = |word: &[u8]| position(word).and_then(|at| integer_at(at + 1));
    let has = |word: &[u8]| position(word).is_some();
    match name.as_slice() {
        // Indexes wrap around at 32 bits there.
        b"lset" if integer_at(2).is_some_and(|index| i32::try_from(index).is_err()) => false,
        // Elements that weigh the same are stored in any order.
        b"sort" if has(b"BY") && has(b"STORE") => false,
        // The time of the end overflows there.
        b"restore" if integer_at(2).is_some_and(|ttl| ttl > i64::MAX / 2) => false,
        // The centre of a polygon near a pole can lie outside of the map; what is then searched is undefined there.
        b"geosearch" | b"geosearchstore" if has(b"BYPOLYGON") && is_near_pole(inner) => false,
        // Distances in place of positions: many are the same, and which of those comes first is not defined.
        name if name.starts_with(b"geo") && has(b"STOREDIST") => false,
        // A time that has passed lets the key live on there until somebody looks.
        b"msetex"
            if [&b"PXAT"[..], b"EXAT"].iter().any(|word| value_of(word).is_some_and(|at| at < 1 << 20)) =>
        {
            false
        }
        // The key is taken for the condition there.
        b"hsetex" if inner.get(1).is_some_and(|key| is_field_condition(key)) => false,
        // The reference allocates this much memory.
        b"xautoclaim" if value_of(b"COUNT").is_some_and(|count| count > 1 << 20) => false,
        // A negative offset does what the encoding makes of it.
        name if name.starts_with(b"z") && value_of(b"LIMIT").is_some_and(|offset| offset < 0) => false,
        name => !stores_negative_zero(name, inner) && keeps_meaning(name, inner),
    }
}

fn is_field_condition(word: &[u8]) -> bool {
    ["NX", "XX", "FNX", "FXX"].iter().any(|condition| word.eq_ignore_ascii_case(condition.as_bytes()))
}

fn is_near_pole(args: &[Vec<u8>]) -> bool {
    let number = |arg: &Vec<u8>| std::str::from_utf8(arg).ok().and_then(|text| text.parse::<f64>().ok());
    let shape = args.iter().skip_while(|arg| !arg.eq_ignore_ascii_case(b"BYPOLYGON"));
    shape.skip(2).filter_map(number).any(|n| n.abs() > 50.0)
}

/// Whether a score could become -0, which is 0 here.
fn stores_negative_zero(name: &[u8], args: &[Vec<u8>]) -> bool {
    let number = |arg: &Vec<u8>| std::str::from_utf8(arg).ok().and_then(|text| text.parse::<f64>().ok());
    let weights = args.iter().skip_while(|arg| !arg.eq_ignore_ascii_case(b"WEIGHTS"));
    name.starts_with(b"z")
        && (args.iter().filter_map(number).any(|n| n == 0.0 && n.is_sign_negative())
            || weights.skip(1).filter_map(number).any(|n| n <= 0.0))
}

/// Commands that leave scores as they are and do not give a key another name.
const KEEP_SCORES: &[&[u8]] = &[
    b"del",
    b"dump",
    b"exists",
    b"expire",
    b"object",
    b"persist",
    b"pttl",
    b"sinter",
    b"touch",
    b"ttl",
    b"type",
    b"unlink",
    b"zcard",
    b"zcount",
    b"zinter",
    b"zmpop",
    b"zmscore",
    b"zpopmax",
    b"zpopmin",
    b"zrandmember",
    b"zrange",
    b"zrangebyscore",
    b"zrank",
    b"zrem",
    b"zremrangebyrank",
    b"zrevrange",
    b"zrevrank",
    b"zscan",
    b"zscore",
];

/// Ranges of members are defined only where all scores are equal, and positions only where scores are positions: such
/// sorted sets have keys of their own, which other commands leave as they are.
fn keeps_meaning(name: &[u8], args: &[Vec<u8>]) -> bool {
    let is_of =
        |arg: &Vec<u8>, kind: &str| arg.starts_with(kind.as_bytes()) && arg.get(kind.len()) == Some(&b':');
    let count = |kind: &str| args.iter().filter(|arg| is_of(arg, kind)).count();
    let keys: usize = KEY_TYPES.iter().map(|kind| count(kind)).sum::<usize>() + count(EQUAL_SCORES);
    let odd_keys = args.iter().any(|arg| ODD_KEYS.contains(&arg.as_slice()));
    let is_lexical = name.windows(3).any(|part| part == b"lex")
        || args.iter().any(|arg| arg.eq_ignore_ascii_case(b"BYLEX"));
    let (equal, positions) = (count(EQUAL_SCORES), count("geo"));
    if is_lexical {
        let source = if name == b"zrangestore" { 2 } else { 1 };
        return equal == 1 && positions == 0 && args.get(source).is_some_and(|arg| is_of(arg, EQUAL_SCORES));
    }
    if name.starts_with(b"geo") {
        return positions == keys && !odd_keys;
    }
    equal + positions == 0 || KEEP_SCORES.contains(&name)
}

/// Whether something is to expire so soon that one server may find it expired and the other may not.
pub fn expires_soon(name: &[u8], args: &[Vec<u8>]) -> bool {
    const SOON_MS: i64 = 600_000;
    let soon = |at: usize, unit_ms: i64| {
        let span = args.get(at).and_then(|arg| wire::number::parse_i64(arg));
        span.is_some_and(|span| span > 0 && span < SOON_MS / unit_ms)
    };
    let option = |word: &[u8], unit_ms: i64| {
        args.iter().enumerate().any(|(at, arg)| arg.eq_ignore_ascii_case(word) && soon(at + 1, unit_ms))
    };
    match name {
        b"setex" | b"expire" | b"hexpire" => soon(2, 1000),
        b"psetex" | b"pexpire" | b"hpexpire" => soon(2, 1),
        b"restore" => soon(2, 1) && !args.iter().any(|arg| arg.eq_ignore_ascii_case(b"ABSTTL")),
        _ => option(b"EX", 1000) || option(b"PX", 1),
    }
}

/// Whether both servers answer the command soon and with something of bearable size.
fn is_bounded(args: &[Vec<u8>]) -> bool {
    let inner = called_by_script(args).unwrap_or(args);
    let name = inner.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let integers = || {
        let digits =
            |arg: &Vec<u8>| std::str::from_utf8(arg).ok()?.trim_start_matches('#').parse::<i64>().ok();
        inner.iter().skip(1).filter_map(digits)
    };
    let is_wait = |arg: Option<&Vec<u8>>| {
        if arg.is_some_and(|arg| arg.contains(&b'x') && arg.len() > 1) {
            return true;
        }
        let seconds = arg.and_then(|arg| std::str::from_utf8(arg).ok()?.trim().parse::<f64>().ok());
        seconds.is_some_and(|seconds| seconds == 0.0 || seconds > 0.01 && seconds < 1e16)
    };
    if expires_soon(&name, inner) {
        return false;
    }
    match name.as_slice() {
        b"setbit" | b"bitfield" | b"setrange" | b"bitfield_ro" => {
            !integers().any(|n| (100_000..1 << 36).contains(&n))
        }
        b"srandmember" | b"hrandfield" | b"zrandmember" => !integers().any(|n| n < -300),
        b"blmpop" | b"bzmpop" => !is_wait(inner.get(1)),
        b"blpop" | b"brpop" | b"blmove" | b"brpoplpush" | b"bzpopmin" | b"bzpopmax" => !is_wait(inner.last()),
        b"xread" | b"xreadgroup" => {
            let block = inner.iter().position(|arg| arg.eq_ignore_ascii_case(b"BLOCK"));
            block.is_none_or(|at| inner.get(at + 1).is_none_or(|ms| ms == b"1" || ms.first() == Some(&b'-')))
        }
        // Stored in place of what it reads, it would multiply it each time.
        b"sort" if inner.iter().any(|arg| arg.eq_ignore_ascii_case(b"STORE")) => {
            inner.iter().filter(|arg| arg.eq_ignore_ascii_case(b"GET")).count() <= 1
        }
        b"xadd" => !inner.iter().any(|arg| arg == b"*"),
        b"debug" | b"monitor" | b"shutdown" | b"subscribe" | b"psubscribe" | b"ssubscribe" => false,
        _ => true,
    }
}

#[test]
fn what_is_left_out_exists() {
    let rows = GROUPS.iter().flat_map(|group| group.iter());
    let names: Vec<&str> = rows
        .flat_map(|row| std::iter::once(row.name).chain(row.subcommands.iter().map(|sub| sub.name)))
        .collect();
    let listed =
        LEFT_OUT.iter().map(|(name, _)| name).chain(OF_SERVER).chain(WEIGHTS.iter().map(|(name, _)| name));
    for name in listed {
        assert!(names.contains(name), "{name} is no command (any more)");
    }
}
