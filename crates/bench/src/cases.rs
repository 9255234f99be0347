//! Cases for the comparison of servers: a data set, and requests to it.

use client::append_request;

use crate::connection::{Conversation, LoadError};
use crate::template::Random;

const MILLION: u64 = 1_000_000;

/// Requests to existing data.
pub struct Case {
    pub name: String,
    pub load: Load,
    /// In the syntax of the command line; `__rand_int__` is below `keyspace`.
    pub command: String,
    pub pipeline: u64,
    pub requests: u64,
    pub keyspace: u64,
    /// Length of `__data__`.
    pub data_len: usize,
}

/// Data that is stored before the requests.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    Nothing,
    Strings {
        count: u64,
        len: usize,
    },
    /// One key of each type, with this number of members, fields or elements.
    SortedSet(u64),
    Hash(u64),
    Set(u64),
    List(u64),
    SortedSets {
        count: u64,
        members: u64,
    },
    Hashes {
        count: u64,
        fields: u64,
    },
}

impl Load {
    pub fn store(self, conversation: &mut Conversation) -> Result<(), LoadError> {
        let member = |number: u64| format!("member:{number:012}");
        match self {
            Self::Nothing => Ok(()),
            Self::Strings { count, len } => {
                let value = "x".repeat(len);
                conversation.load(count, |number, out| {
                    append_request(out, &["SET", &format!("key:{number:012}"), &value]);
                })
            }
            Self::SortedSet(count) => {
                let scores = shuffled(count);
                conversation.load(count, |number, out| {
                    let score = scores[number as usize].to_string();
                    append_request(out, &["ZADD", "z", &score, &member(number)]);
                })
            }
            Self::Hash(count) => conversation.load(count, |number, out| {
                append_request(
                    out,
                    &["HSET", "h", &format!("field:{number:012}"), &format!("value{number}")],
                );
            }),
            Self::Set(count) => {
                conversation.load(count, |number, out| append_request(out, &["SADD", "s", &member(number)]))
            }
            Self::List(count) => conversation.load(count, |number, out| {
                append_request(out, &["RPUSH", "l", &format!("element:{number}")]);
            }),
            Self::SortedSets { count, members } => {
                let pairs = (0..members).flat_map(|number| [number.to_string(), format!("member:{number}")]);
                store_each(conversation, count, "ZADD", "zset", &pairs.collect::<Vec<_>>())
            }
            Self::Hashes { count, fields } => {
                let pairs =
                    (0..fields).flat_map(|number| [format!("field:{number}"), format!("value:{number:010}")]);
                store_each(conversation, count, "HSET", "hash", &pairs.collect::<Vec<_>>())
            }
        }
    }
}

fn store_each(
    conversation: &mut Conversation,
    count: u64,
    command: &str,
    prefix: &str,
    rest: &[String],
) -> Result<(), LoadError> {
    conversation.load(count, |number, out| {
        let mut args = vec![command.to_string(), format!("{prefix}:{number:012}")];
        args.extend_from_slice(rest);
        append_request(out, &args);
    })
}

/// Returns the numbers below a count in a random order that is the same each time (Fisher-Yates).
pub fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut random = Random::new(u64::MAX, 1);
    for place in (1..numbers.len()).rev() {
        let other = (u128::from(random.next_bits()) * (place as u128 + 1)) >> 64;
        numbers.swap(place, other as usize);
    }
    numbers
}

/// A row of the table.
type Row = (&'static str, Load, u64, &'static str, u64, u64);

/// Name, data, depth of the pipeline, command, thousands of requests, keyspace.
fn rows_of_strings() -> Vec<Row> {
    const M: u64 = MILLION;
    use Load::{Nothing, Strings};
    let strings = |count, len| Strings { count, len };
    vec![
        ("ping-p1", Nothing, 1, "PING", 300, 1),
        ("ping-p16", Nothing, 16, "PING", 4000, 1),
        ("set10-p1", strings(M, 10), 1, "SET key:__rand_int__ __data__", 300, M),
        ("set10-p16", strings(M, 10), 16, "SET key:__rand_int__ __data__", 4000, M),
        ("get10-p1", strings(M, 10), 1, "GET key:__rand_int__", 300, M),
        ("get10-p16", strings(M, 10), 16, "GET key:__rand_int__", 4000, M),
        ("get10-p10-5M", strings(5 * M, 10), 10, "GET key:__rand_int__", 4000, 5 * M),
        ("set10-p10-5M", strings(5 * M, 10), 10, "SET key:__rand_int__ __data__", 4000, 5 * M),
        ("get1k-p10", strings(M, 1024), 10, "GET key:__rand_int__", 1500, M),
        ("mget10-p10", strings(M, 10), 10, "MGET {10 key:__rand_int__}", 300, M),
        ("mset10-p10", strings(M, 10), 10, "MSET {10 key:__rand_int__ __data__}", 300, M),
        ("mget100-p10-5M", strings(5 * M, 10), 10, "MGET {100 key:__rand_int__}", 60, 5 * M),
        ("incr-p16", Nothing, 16, "INCR counter:__rand_int__", 4000, M),
        (
            "eval-p10",
            Nothing,
            10,
            "EVAL \"return redis.call('SET',KEYS[1],ARGV[1])\" 1 key:__rand_int__ v",
            500,
            M,
        ),
    ]
}

fn rows_of_collections() -> Vec<Row> {
    const M: u64 = MILLION;
    use Load::{Hash, Hashes, List, Nothing, Set, SortedSet, SortedSets};
    vec![
        (
            "zrange00-10k",
            SortedSets { count: 10_000, members: 129 },
            1,
            "ZRANGE zset:__rand_int__ 0 0",
            300,
            10_000,
        ),
        (
            "zrange00-100k",
            SortedSets { count: 100_000, members: 129 },
            16,
            "ZRANGE zset:__rand_int__ 0 0",
            2000,
            100_000,
        ),
        ("zrank-1M-p16", SortedSet(M), 16, "ZRANK z member:__rand_int__", 1500, M),
        ("zscore-1M-p16", SortedSet(M), 16, "ZSCORE z member:__rand_int__", 2000, M),
        ("zadd-1M-p16", SortedSet(M), 16, "ZADD z __rand_int__ member:__rand_1st__", 1000, M),
        ("zincrby-1M-p16", SortedSet(M), 16, "ZINCRBY z 3 member:__rand_int__", 1000, M),
        (
            "zrangebyscore-100-p16",
            SortedSet(M),
            16,
            "ZRANGE z __rand_int__ 1000000 BYSCORE LIMIT 0 100",
            200,
            M,
        ),
        ("zcount-1M-p16", SortedSet(M), 16, "ZCOUNT z __rand_int__ 900000", 1000, M),
        ("hget-1M-p16", Hash(M), 16, "HGET h field:__rand_int__", 2000, M),
        ("hset-1M-p16", Hash(M), 16, "HSET h field:__rand_int__ value1234567", 2000, M),
        ("hgetall-50", Hashes { count: 10_000, fields: 50 }, 10, "HGETALL hash:__rand_int__", 300, 10_000),
        (
            "hget-1000x-p16",
            Hashes { count: 2_000, fields: 1000 },
            16,
            "HGET hash:__rand_int__ field:777",
            2000,
            2_000,
        ),
        ("sismember-1M-p16", Set(M), 16, "SISMEMBER s member:__rand_int__", 2000, M),
        ("sadd-p16", Set(M), 16, "SADD s member:__rand_int__", 2000, 2 * M),
        ("lpush-p16", Nothing, 16, "LPUSH l element:__rand_int__", 3000, M),
        ("lrange-600", List(600), 1, "LRANGE l 0 599", 60, 1),
        ("lrange-100-p10", List(100), 10, "LRANGE l 0 -1", 400, 1),
        ("xadd-p10", Nothing, 10, "XADD st * f value:__rand_int__", 1000, M),
    ]
}

/// Returns all cases, with the size of data and number of requests multiplied by `scale`.
pub fn all(scale: f64) -> Vec<Case> {
    let case = |(name, load, pipeline, command, thousands, keyspace): Row| Case {
        name: name.to_string(),
        load,
        command: expanded(command),
        pipeline,
        requests: ((thousands * 1000) as f64 * scale).max(1.0) as u64,
        keyspace,
        data_len: 10,
    };
    rows_of_strings().into_iter().chain(rows_of_collections()).map(case).collect()
}

/// Expands `{3 a b}` to `a b a b a b`.
fn expanded(command: &str) -> String {
    let inner = command.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (repeated, behind))) = inner else { return command.to_string() };
    let (count, words) = repeated.split_once(' ').unwrap_or((repeated, ""));
    let words = vec![words; count.parse().unwrap_or(1)].join(" ");
    format!("{before}{words}{behind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_command() {
        let cases = all(0.5);
        assert!(cases.len() > 25);
        for case in &cases {
            assert!(shlex::split(&case.command).is_some_and(|words| !words.is_empty()), "{}", case.command);
        }
        assert_eq!(expanded("MGET {3 a}"), "MGET a a a");
        assert_eq!(expanded("GET a"), "GET a");
        let mut numbers = shuffled(1000);
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1000));
    }
}
