//! The rows of the sorted set commands; their handlers are in the files beside this one.

use super::{algebra, popping, range, sampling};
use crate::command::flag::{BLOCKING, DENY_OOM, FAST, READONLY, WRITE};
use crate::command::{Command, Group, KeySpec, PrefetchHint, access};

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("bzmpop", -5, Group::SortedSet, popping::bzmpop)
        .flags(WRITE | BLOCKING)
        .keys(&[KeySpec::counted(2, access::RW | access::ACCESS | access::DELETE)])
        .since("7.0.0", "O(K + M*log(N)) where K is the number of keys and M the number of members popped")
        .doc(
            "Pops members from the first non-empty sorted set; blocks until one is available.",
            "timeout numkeys key ... <where: MIN | MAX> [COUNT count]",
        ),
    Command::new("bzpopmax", -3, Group::SortedSet, popping::bzpopmax)
        .flags(WRITE | FAST | BLOCKING)
        .keys(&[KeySpec::range(1, -2, 1, access::RW | access::ACCESS | access::DELETE)])
        .since("5.0.0", "O(K + M*log(N)) where K is the number of keys and M the number of members popped")
        .doc(
            "Pops the member with the highest score of the first non-empty sorted set; blocks until one is available.",
            "key ... timeout",
        )
        .history(&[("6.0.0", "`timeout` can be fractional.")]),
    Command::new("bzpopmin", -3, Group::SortedSet, popping::bzpopmin)
        .flags(WRITE | FAST | BLOCKING)
        .keys(&[KeySpec::range(1, -2, 1, access::RW | access::ACCESS | access::DELETE)])
        .since("5.0.0", "O(K + M*log(N)) where K is the number of keys and M the number of members popped")
        .doc(
            "Pops the member with the lowest score of the first non-empty sorted set; blocks until one is available.",
            "key ... timeout",
        )
        .history(&[("6.0.0", "`timeout` can be fractional.")]),
    Command::new("zadd", -4, Group::SortedSet, super::zadd)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::UPDATE)])
        .prefetch_hint(PrefetchHint::Element(3))
        .since("1.2.0", "O(log(N)) for each member")
        .doc(
            "Adds members or updates their scores.",
            "key [condition@3.0.2: NX | XX] [comparison@6.2.0: GT | LT] [change=CH@3.0.2] \
                [increment=INCR@3.0.2] <data: score member> ...",
        )
        .history(&[
            ("2.4.0", "Several members at once."),
            ("3.0.2", "`XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "`GT` and `LT`."),
        ]),
    Command::new("zcard", 2, Group::SortedSet, super::zcard)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO)])
        .since("1.2.0", "O(1)")
        .doc("Returns the number of members.", "key"),
    Command::new("zcount", 4, Group::SortedSet, super::zcount)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .since("2.0.0", "O(log(N))")
        .doc("Returns the number of members within a range of scores.", "key min:double max:double"),
    Command::new("zdiff", -3, Group::SortedSet, algebra::zdiff)
        .flags(READONLY)
        .keys(&[KeySpec::counted(1, access::RO | access::ACCESS)])
        .since("6.2.0", "O(N*log(N)) where N is the number of members of all sets")
        .doc(
            "Returns the difference of sorted sets.",
            "numkeys key ... [WITHSCORES]",
        ),
    Command::new("zdiffstore", -4, Group::SortedSet, algebra::zdiffstore)
        .flags(WRITE | DENY_OOM)
        .keys(&[
            KeySpec::one(1, access::OW | access::UPDATE),
            KeySpec::counted(2, access::RO | access::ACCESS),
        ])
        .since("6.2.0", "O(N*log(N)) where N is the number of members of all sets")
        .doc(
            "Stores the difference of sorted sets.",
            "destination numkeys key ...",
        ),
    Command::new("zincrby", 4, Group::SortedSet, super::zincrby)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::UPDATE)])
        .prefetch_hint(PrefetchHint::Element(3))
        .since("1.2.0", "O(log(N))")
        .doc("Increments the score of a member.", "key increment:integer member"),
    Command::new("zinter", -3, Group::SortedSet, algebra::zinter)
        .flags(READONLY)
        .keys(&[KeySpec::counted(1, access::RO | access::ACCESS)])
        .since("6.2.0", "O(N*log(N)) where N is the number of members of all sets")
        .doc(
            "Returns the intersection of sorted sets.",
            "numkeys key ... [WEIGHTS weight ...] [AGGREGATE <aggregate: SUM | MIN | MAX>] [WITHSCORES]",
        ),
    Command::new("zintercard", -3, Group::SortedSet, algebra::zintercard)
        .flags(READONLY)
        .keys(&[KeySpec::counted(1, access::RO | access::ACCESS)])
        .since("7.0.0", "O(N*log(N)) where N is the number of members of all sets")
        .doc("Returns the number of members of the intersection of sorted sets.", "numkeys key ... [LIMIT limit:integer]"),
    Command::new("zinterstore", -4, Group::SortedSet, algebra::zinterstore)
        .flags(WRITE | DENY_OOM)
        .keys(&[
            KeySpec::one(1, access::OW | access::UPDATE),
            KeySpec::counted(2, access::RO | access::ACCESS),
        ])
        .since("2.0.0", "O(N*log(N)) where N is the number of members of all sets")
        .doc(
            "Stores the intersection of sorted sets.",
            "destination numkeys key ... [WEIGHTS weight ...] [AGGREGATE <aggregate: SUM | MIN | MAX>]",
        ),
    Command::new("zlexcount", 4, Group::SortedSet, super::zlexcount)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .since("2.8.9", "O(log(N))")
        .doc("Returns the number of members within a lexicographic range.", "key min max"),
    Command::new("zmpop", -4, Group::SortedSet, popping::zmpop)
        .flags(WRITE)
        .keys(&[KeySpec::counted(1, access::RW | access::ACCESS | access::DELETE)])
        .since("7.0.0", "O(K + M*log(N)) where K is the number of keys and M the number of members popped")
        .doc(
            "Pops members from the first non-empty sorted set.",
            "numkeys key ... <where: MIN | MAX> [COUNT count]",
        ),
    Command::new("zmscore", -3, Group::SortedSet, super::zmscore)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Element(2))
        .since("6.2.0", "O(N) where N is the number of requested members")
        .doc("Returns the scores of several members.", "key member ..."),
    Command::new("zpopmax", -2, Group::SortedSet, popping::zpopmax)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::DELETE)])
        .prefetch_hint(PrefetchHint::Back)
        .since("5.0.0", "O(K + M*log(N)) where K is the number of keys and M the number of members popped")
        .doc("Removes and returns the members with the highest scores.", "key [count]"),
    Command::new("zpopmin", -2, Group::SortedSet, popping::zpopmin)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::DELETE)])
        .prefetch_hint(PrefetchHint::Front)
        .since("5.0.0", "O(K + M*log(N)) where K is the number of keys and M the number of members popped")
        .doc("Removes and returns the members with the lowest scores.", "key [count]"),
    Command::new("zrandmember", -2, Group::SortedSet, sampling::zrandmember)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .since("6.2.0", "O(N*log(M)) where N is the number of members returned")
        .doc("Returns random members.", "key [options: count [WITHSCORES]]")
        .tips(&["nondeterministic_output"]),
    Command::new("zrange", -4, Group::SortedSet, range::zrange)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Ranks { reversed: false })
        .since("1.2.0", "O(log(N)+M) where M is the number of members returned or removed")
        .doc(
            "Returns a range of members.",
            "key start:string stop:string [sortby@6.2.0: BYSCORE | BYLEX] [REV@6.2.0] [LIMIT \
                <limit@6.2.0: offset count>] [WITHSCORES]",
        )
        .history(&[("6.2.0", "`REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")]),
    Command::new("zrangebylex", -4, Group::SortedSet, range::zrangebylex)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Bounds)
        .since("2.8.9", "O(log(N)+M) where M is the number of members returned or removed")
        .doc("Returns the members within a lexicographic range.", "key min max [LIMIT <limit: offset count>]"),
    Command::new("zrangebyscore", -4, Group::SortedSet, range::zrangebyscore)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Bounds)
        .since("1.0.5", "O(log(N)+M) where M is the number of members returned or removed")
        .doc(
            "Returns the members within a range of scores.",
            "key min:double max:double [WITHSCORES@2.0.0] [LIMIT <limit: offset count>]",
        )
        .history(&[("2.0.0", "`WITHSCORES`.")]),
    Command::new("zrangestore", -5, Group::SortedSet, range::zrangestore)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::OW | access::UPDATE), KeySpec::one(2, access::RO | access::ACCESS)])
        .since("6.2.0", "O(log(N)+M) where M is the number of members returned or removed")
        .doc(
            "Stores a range of members at another key.",
            "dst:key src:key min max [sortby: BYSCORE | BYLEX] [REV] [LIMIT <limit: offset count>]",
        ),
    Command::new("zrank", -3, Group::SortedSet, super::zrank)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(log(N))")
        .doc("Returns the rank of a member, ordered by ascending score.", "key member [WITHSCORE]")
        .history(&[("7.2.0", "`WITHSCORE`.")]),
    Command::new("zrem", -3, Group::SortedSet, super::zrem)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::DELETE)])
        .prefetch_hint(PrefetchHint::Element(2))
        .since("1.2.0", "O(log(N))")
        .doc("Removes members.", "key member ...")
        .history(&[("2.4.0", "Several members at once.")]),
    Command::new("zremrangebylex", 4, Group::SortedSet, range::zremrangebylex)
        .flags(WRITE)
        .keys(&[KeySpec::one(1, access::RW | access::DELETE)])
        .prefetch_hint(PrefetchHint::Bounds)
        .since("2.8.9", "O(log(N)+M) where M is the number of members returned or removed")
        .doc("Removes the members within a lexicographic range.", "key min max"),
    Command::new("zremrangebyrank", 4, Group::SortedSet, range::zremrangebyrank)
        .flags(WRITE)
        .keys(&[KeySpec::one(1, access::RW | access::DELETE)])
        .prefetch_hint(PrefetchHint::Ranks { reversed: false })
        .since("2.0.0", "O(log(N)+M) where M is the number of members returned or removed")
        .doc("Removes the members within a range of ranks.", "key start stop"),
    Command::new("zremrangebyscore", 4, Group::SortedSet, range::zremrangebyscore)
        .flags(WRITE)
        .keys(&[KeySpec::one(1, access::RW | access::DELETE)])
        .prefetch_hint(PrefetchHint::Bounds)
        .since("1.2.0", "O(log(N)+M) where M is the number of members returned or removed")
        .doc("Removes the members within a range of scores.", "key min:double max:double"),
    Command::new("zrevrange", -4, Group::SortedSet, range::zrevrange)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Ranks { reversed: true })
        .since("1.2.0", "O(log(N)+M) where M is the number of members returned or removed")
        .doc("Returns a range of members in descending order.", "key start stop [WITHSCORES]"),
    Command::new("zrevrangebylex", -4, Group::SortedSet, range::zrevrangebylex)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Bounds)
        .since("2.8.9", "O(log(N)+M) where M is the number of members returned or removed")
        .doc(
            "Returns the members within a lexicographic range in descending order.",
            "key max min [LIMIT <limit: offset count>]",
        ),
    Command::new("zrevrangebyscore", -4, Group::SortedSet, range::zrevrangebyscore)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Bounds)
        .since("2.2.0", "O(log(N)+M) where M is the number of members returned or removed")
        .doc(
            "Returns the members within a range of scores in descending order.",
            "key max:double min:double [WITHSCORES] [LIMIT <limit: offset count>]",
        )
        .history(&[("2.1.6", "Exclusive bounds.")]),
    Command::new("zrevrank", -3, Group::SortedSet, super::zrevrank)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Element(2))
        .since("2.0.0", "O(log(N))")
        .doc("Returns the rank of a member, ordered by descending score.", "key member [WITHSCORE]")
        .history(&[("7.2.0", "`WITHSCORE`.")]),
    Command::new("zscan", -3, Group::SortedSet, sampling::zscan)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .since("2.8.0", "O(1) for every call, O(N) for a complete iteration")
        .doc("Iterates over members.", "key cursor [MATCH pattern] [COUNT count] [NOSCORES]")
        .history(&[("8.0.0", "`NOSCORES`.")])
        .tips(&["nondeterministic_output"]),
    Command::new("zscore", 3, Group::SortedSet, super::zscore)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .prefetch_hint(PrefetchHint::Element(2))
        .since("1.2.0", "O(1)")
        .doc("Returns the score of a member.", "key member"),
    Command::new("zunion", -3, Group::SortedSet, algebra::zunion)
        .flags(READONLY)
        .keys(&[KeySpec::counted(1, access::RO | access::ACCESS)])
        .since("6.2.0", "O(N*log(N)) where N is the number of members of all sets")
        .doc(
            "Returns the union of sorted sets.",
            "numkeys key ... [WEIGHTS weight ...] [AGGREGATE <aggregate: SUM | MIN | MAX>] [WITHSCORES]",
        ),
    Command::new("zunionstore", -4, Group::SortedSet, algebra::zunionstore)
        .flags(WRITE | DENY_OOM)
        .keys(&[
            KeySpec::one(1, access::OW | access::UPDATE),
            KeySpec::counted(2, access::RO | access::ACCESS),
        ])
        .since("2.0.0", "O(N*log(N)) where N is the number of members of all sets")
        .doc(
            "Stores the union of sorted sets.",
            "destination numkeys key ... [WEIGHTS weight ...] [AGGREGATE <aggregate: SUM | MIN | MAX>]",
        ),
];
