use super::*;
use crate::documentation::Documentation;

#[test]
fn hints_follow_what_is_typed() {
    let docs = Documentation::built_in(None);
    for (line, expected) in [
        ("get ", "key"),
        ("GET abc ", ""),
        ("incrby k 2 ", ""),
        ("incrby ", "key increment"),
        ("lpop k ", "[count]"),
        ("lpop k 3 ", ""),
        ("xrange k - + ", "[COUNT count]"),
        ("xrange k - + COU", "[COUNT count]"),
        ("xrange k - + count ", "count"),
        ("config set maxmemory ", "value [parameter value ...]"),
        ("config set maxmemory 1 ", "[parameter value ...]"),
        ("zrandmember k ", "[count [WITHSCORES]]"),
        ("zrandmember k 3 ", "[WITHSCORES]"),
        // What fits nothing ends the hints.
        ("zrandmember k three ", ""),
        ("mget ", "key [key ...]"),
        ("mget a b ", "[key ...]"),
        // Optional arguments come in any order, and the one that has begun first.
        ("scan 0 match ", "pattern [COUNT count] [TYPE type]"),
        ("zrange k 1 2 limit 2 4 ", "[BYSCORE|BYLEX] [REV] [WITHSCORES]"),
        ("zrange k 1 2 rev bylex ", "[LIMIT offset count] [WITHSCORES]"),
        ("blmove a b LEFT ", "LEFT|RIGHT timeout"),
        (
            "georadius k 1 -2.5 3 M COUNT 12 ",
            "[ANY] [WITHCOORD] [WITHDIST] [WITHHASH] [ASC|DESC] [STORE key|STOREDIST key]",
        ),
        ("georadius k 1 X ", ""),
        // What comes behind required arguments is gone once those are there.
        ("zadd k 0 ", "member [score member ...]"),
        ("zadd k ch lt ", "[NX|XX] [INCR] score member [score member ...]"),
        (
            "migrate ",
            "host port key|\"\" destination-db timeout [COPY] [REPLACE] [AUTH password|AUTH2 username password] [KEYS key [key ...]]",
        ),
    ] {
        assert_eq!(docs.hint(line).as_deref().map(str::trim_end), Some(expected), "{line}");
    }
    for line in ["nothing ", "get", "get 'a"] {
        assert_eq!(docs.hint(line), None, "{line}");
    }
}

#[test]
fn numbers_are_told_from_words() {
    for number in ["1", "-1", "+5x", "007"] {
        assert!(starts_with_number(number.as_bytes(), false), "{number}");
    }
    for number in [".5", "-inf", "NaN", "1e5"] {
        assert!(starts_with_number(number.as_bytes(), true), "{number}");
    }
    for word in ["", "-", "x1", "."] {
        assert!(!starts_with_number(word.as_bytes(), true), "{word}");
    }
}
