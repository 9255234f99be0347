//! The expiry of keys: EXPIRE, TTL, PERSIST and similar commands.

use crate::command::flag::{FAST, READONLY, WRITE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access, propagation};
use crate::db::EventClasses;
use crate::error::{ClientError, quoted};

const CHANGES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::UPDATE)];
const LOOKS: [KeySpec; 1] = [KeySpec::one(1, access::RO | access::ACCESS)];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("expire", -3, Group::Generic, expire)
        .flags(WRITE | FAST)
        .keys(&CHANGES)
        .propagated_as(propagation::expiry)
        .since("1.0.0", "O(1)")
        .doc("Sets a key's time to live in seconds.", "key seconds [condition@7.0.0: NX | XX | GT | LT]")
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")]),
    Command::new("expireat", -3, Group::Generic, expireat)
        .flags(WRITE | FAST)
        .keys(&CHANGES)
        .propagated_as(propagation::expiry)
        .since("1.2.0", "O(1)")
        .doc(
            "Sets a key's expiry as a Unix time in seconds.",
            "key unix-time-seconds [condition@7.0.0: NX | XX | GT | LT]",
        )
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")]),
    Command::new("expiretime", 2, Group::Generic, expiretime)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("7.0.0", "O(1)")
        .doc("Returns a key's expiry as a Unix time in seconds.", "key"),
    Command::new("persist", 2, Group::Generic, persist)
        .flags(WRITE | FAST)
        .keys(&CHANGES)
        .since("2.2.0", "O(1)")
        .doc("Removes a key's expiry.", "key"),
    Command::new("pexpire", -3, Group::Generic, pexpire)
        .flags(WRITE | FAST)
        .keys(&CHANGES)
        .propagated_as(propagation::expiry)
        .since("2.6.0", "O(1)")
        .doc(
            "Sets a key's time to live in milliseconds.",
            "key milliseconds [condition@7.0.0: NX | XX | GT | LT]",
        )
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")]),
    Command::new("pexpireat", -3, Group::Generic, pexpireat)
        .flags(WRITE | FAST)
        .keys(&CHANGES)
        .propagated_as(propagation::expiry)
        .since("2.6.0", "O(1)")
        .doc(
            "Sets a key's expiry as a Unix time in milliseconds.",
            "key unix-time-milliseconds [condition@7.0.0: NX | XX | GT | LT]",
        )
        .history(&[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")]),
    Command::new("pexpiretime", 2, Group::Generic, pexpiretime)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("7.0.0", "O(1)")
        .doc("Returns a key's expiry as a Unix time in milliseconds.", "key"),
    Command::new("pttl", 2, Group::Generic, pttl)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("2.6.0", "O(1)")
        .doc("Returns a key's time to live in milliseconds.", "key")
        .history(&[("2.8.0", "Returns -2 if the key does not exist.")])
        .tips(&["nondeterministic_output"]),
    Command::new("ttl", 2, Group::Generic, ttl)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("1.0.0", "O(1)")
        .doc("Returns a key's time to live in seconds.", "key")
        .history(&[("2.8.0", "Returns -2 if the key does not exist.")])
        .tips(&["nondeterministic_output"]),
];

/// Conditions for replacing an expiry. No expiry counts as later than any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireConditions {
    only_without: bool,
    only_with: bool,
    only_later: bool,
    only_earlier: bool,
}

impl ExpireConditions {
    /// Adds the word's condition; returns whether the word is a condition.
    pub fn add(&mut self, word: &[u8]) -> bool {
        let flags = [
            ("NX", &mut self.only_without),
            ("XX", &mut self.only_with),
            ("GT", &mut self.only_later),
            ("LT", &mut self.only_earlier),
        ];
        for (name, flag) in flags {
            if word.eq_ignore_ascii_case(name.as_bytes()) {
                *flag = true;
                return true;
            }
        }
        false
    }

    /// Refuses contradictory conditions.
    pub fn check(&self) -> Result<(), ClientError> {
        if self.only_without && (self.only_with || self.only_later || self.only_earlier) {
            return Err(ClientError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if self.only_later && self.only_earlier {
            return Err(ClientError::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(())
    }

    /// Whether the conditions permit replacing `old_ms` with `new_ms`.
    pub fn allow(&self, old_ms: Option<i64>, new_ms: i64) -> bool {
        match old_ms {
            None => !self.only_with && !self.only_later,
            Some(old_ms) => {
                !self.only_without
                    && (!self.only_later || new_ms > old_ms)
                    && (!self.only_earlier || new_ms < old_ms)
            }
        }
    }
}

fn expire(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_expiry(ctx, args, ctx.db.now_ms(), 1000, "expire")
}

fn pexpire(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_expiry(ctx, args, ctx.db.now_ms(), 1, "pexpire")
}

fn expireat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_expiry(ctx, args, 0, 1000, "expireat")
}

fn pexpireat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_expiry(ctx, args, 0, 1, "pexpireat")
}

/// Sets the expiry to `base_ms` plus the argument times `unit_ms`.
fn set_expiry(
    ctx: &mut Context<'_>,
    args: Args<'_>,
    base_ms: i64,
    unit_ms: i64,
    command: &'static str,
) -> Outcome {
    let mut conditions = ExpireConditions::default();
    for word in args.from(3).iter() {
        if !conditions.add(word) {
            let word = quoted(word);
            return Err(ClientError::formatted(format!("ERR Unsupported option {word}")));
        }
    }
    conditions.check()?;
    let when_ms = args.integer(2)?.checked_mul(unit_ms).and_then(|ms| ms.checked_add(base_ms));
    let when_ms = when_ms.ok_or(ClientError::InvalidExpire { command })?.max(0);
    let key = args.key(1);
    let allowed =
        ctx.db.read_for_write(key).is_some_and(|value| conditions.allow(value.expiry_ms(), when_ms));
    if allowed && ctx.db.is_expired(when_ms) {
        ctx.db.remove_as_expired(key);
    } else if allowed {
        ctx.db.set_expiry(key, Some(when_ms));
        ctx.db.changed(EventClasses::GENERIC, "expire", key);
    }
    ctx.reply.integer(allowed.into());
    Ok(())
}

fn persist(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let had_expiry = ctx.db.read_for_write(key).is_some_and(|value| value.expiry_ms().is_some());
    if had_expiry {
        ctx.db.set_expiry(key, None);
        ctx.db.changed(EventClasses::GENERIC, "persist", key);
    }
    ctx.reply.integer(had_expiry.into());
    Ok(())
}

fn ttl(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = ctx.db.now_ms();
    answer_expiry(ctx, args, |expiry_ms| expiry_ms.saturating_sub(now_ms).saturating_add(500) / 1000)
}

fn pttl(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = ctx.db.now_ms();
    answer_expiry(ctx, args, |expiry_ms| expiry_ms.saturating_sub(now_ms))
}

fn expiretime(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer_expiry(ctx, args, |expiry_ms| expiry_ms.saturating_add(500) / 1000)
}

fn pexpiretime(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer_expiry(ctx, args, |expiry_ms| expiry_ms)
}

/// Replies with the expiry: -2 without a key, -1 without an expiry.
fn answer_expiry(ctx: &mut Context<'_>, args: Args<'_>, shown: impl Fn(i64) -> i64) -> Outcome {
    let answer = match ctx.db.probe(args.key(1)) {
        None => -2,
        Some(value) => value.expiry_ms().map_or(-1, |expiry_ms| shown(expiry_ms).max(0)),
    };
    ctx.reply.integer(answer);
    Ok(())
}
