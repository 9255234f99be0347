//! HyperLogLog: estimates the number of distinct elements in little memory. A sketch is a string in its own format.

use crate::command::flag::{ADMIN, DENY_OOM, FAST, MAY_REPLICATE, READONLY, WRITE};
use crate::command::{Access, Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::db::{EventClasses, Key, StringValue};
use crate::error::{ClientError, quoted};
use structures::hyperloglog::{self as sketch, Corrupt, Encoding, REGISTERS, Registers};
use wire::convert::{low_u8, signed_bits, whole_u64};

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("pfadd", -2, Group::HyperLogLog, pfadd)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::INSERT)])
        .since("2.8.9", "O(1) for each element")
        .doc("Adds elements to a HyperLogLog and returns whether its estimate changed.", "key [element ...]"),
    Command::new("pfcount", -2, Group::HyperLogLog, pfcount)
        .flags(READONLY | MAY_REPLICATE)
        .keys(&[KeySpec::range(1, -1, 1, access::RW | access::ACCESS)
            .noted("caches the computed count in the value")])
        .since("2.8.9", "O(1) for one key, O(N) for N keys")
        .doc("Returns the estimated cardinality of the union of HyperLogLogs.", "key ..."),
    Command::new("pfdebug", 3, Group::HyperLogLog, pfdebug)
        .flags(WRITE | DENY_OOM | ADMIN)
        .keys(&[KeySpec::one(2, access::RW | access::ACCESS)])
        .since("2.8.9", "N/A")
        .internal()
        .doc("Shows the internals of a HyperLogLog.", "subcommand key"),
    Command::new("pfmerge", -2, Group::HyperLogLog, pfmerge)
        .flags(WRITE | DENY_OOM)
        .keys(&[
            KeySpec::one(1, access::RW | access::ACCESS | access::INSERT),
            KeySpec::range(2, -1, 1, access::RO | access::ACCESS),
        ])
        .finds_keys(merged_keys)
        .since("2.8.9", "O(N) where N is the number of HyperLogLogs")
        .doc("Merges HyperLogLogs into another.", "destkey:key [sourcekey:key ...]"),
    Command::new("pfselftest", 1, Group::HyperLogLog, pfselftest)
        .flags(ADMIN)
        .since("2.8.9", "N/A")
        .internal()
        .doc("Tests the accuracy of HyperLogLogs.", ""),
];

impl From<Corrupt> for ClientError {
    fn from(_: Corrupt) -> Self {
        ClientError::text("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The target is written even without sources.
fn merged_keys(args: Args<'_>) -> Vec<(usize, Access)> {
    let merged = (2..args.len()).map(|at| (at, access::RO | access::ACCESS));
    std::iter::once((1, access::RW | access::ACCESS | access::INSERT)).chain(merged).collect()
}

fn encoding_of(bytes: &[u8]) -> Result<Encoding, ClientError> {
    sketch::encoding_of(bytes)
        .ok_or(ClientError::text("WRONGTYPE Key is not a valid HyperLogLog string value."))
}

fn encoding_of_text(text: StringValue<'_>) -> Result<Encoding, ClientError> {
    text.with_bytes(encoding_of)
}

fn pfadd(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let sparse_bytes_max = ctx.server.config.hll_sparse_max_bytes;
    let created = match ctx.db.read_string_for_write(key)? {
        None => true,
        Some(text) => encoding_of_text(text).map(|_| false)?,
    };
    let (updates, result) = ctx.db.edit_text_if(key, |text| {
        if created {
            *text = sketch::empty();
        }
        let mut updates = u64::from(created);
        let mut result = Ok(());
        for element in args.from(2).iter() {
            match sketch::add(text, element, sparse_bytes_max) {
                Ok(raised) => updates += u64::from(raised),
                Err(corrupt) => {
                    result = Err(corrupt);
                    break;
                }
            }
        }
        if updates > 0 {
            sketch::mark_stale(text);
        }
        ((updates, result), updates > 0)
    })?;
    if updates > 0 {
        ctx.db.changed_many(EventClasses::STRING, "pfadd", key, updates);
    }
    result?;
    ctx.reply.integer((updates > 0).into());
    Ok(())
}

fn pfcount(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 2 {
        let mut registers = [0; REGISTERS];
        merge(ctx, args.from(1), &mut registers)?;
        ctx.reply.integer(signed_bits(sketch::cardinality_of(&registers)));
        return Ok(());
    }
    let key = args.key(1);
    let Some(text) = ctx.db.read_string(key)? else {
        ctx.reply.integer(0);
        return Ok(());
    };
    let (cached, counted) = text.with_bytes(|bytes| -> Result<_, ClientError> {
        encoding_of(bytes)?;
        Ok(match sketch::cached_cardinality(bytes) {
            Some(cached) => (true, cached),
            None => (false, sketch::cardinality(bytes)?),
        })
    })?;
    if !cached {
        ctx.db.edit_string(key, |text| sketch::cache_cardinality(text, counted))?;
        ctx.db.touched(key);
    }
    ctx.reply.integer(signed_bits(counted));
    Ok(())
}

/// Raises registers to the maximum of all existing sketches; returns whether one of these is dense.
fn merge(ctx: &mut Context<'_>, keys: Args<'_>, registers: &mut Registers) -> Result<bool, ClientError> {
    let mut any_dense = false;
    for key in keys.keys() {
        let Some(text) = ctx.db.read_string(key)? else { continue };
        text.with_bytes(|bytes| -> Result<(), ClientError> {
            // In lines of the cache.
            structures::work::visited(bytes.len().div_ceil(64));
            any_dense |= encoding_of(bytes)? == Encoding::Dense;
            sketch::merge_into(registers, bytes)?;
            Ok(())
        })?;
    }
    Ok(any_dense)
}

fn pfmerge(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let sparse_bytes_max = ctx.server.config.hll_sparse_max_bytes;
    let mut registers = [0; REGISTERS];
    let any_dense = merge(ctx, args.from(1), &mut registers)?;
    ctx.db.edit_string(key, |text| -> Result<(), Corrupt> {
        if text.is_empty() {
            *text = sketch::empty();
        }
        if any_dense {
            sketch::make_dense(text)?;
            sketch::store_dense(text, &registers);
        } else {
            sketch::raise_to(text, &registers, sparse_bytes_max)?;
        }
        sketch::mark_stale(text);
        Ok(())
    })??;
    ctx.db.changed(EventClasses::STRING, "pfadd", key);
    ctx.reply.ok();
    Ok(())
}

fn pfdebug(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.is(1, "SIMD") {
        return simd(ctx, args);
    }
    let key = args.key(2);
    let text = ctx
        .db
        .read_string_for_write(key)?
        .ok_or(ClientError::text("ERR The specified key does not exist"))?;
    let encoding = encoding_of_text(text)?;
    if args.is(1, "ENCODING") {
        ctx.reply.simple(if encoding == Encoding::Dense { "dense" } else { "sparse" });
    } else if args.is(1, "DECODE") {
        if encoding == Encoding::Dense {
            return Err(ClientError::text("ERR HLL encoding is not sparse"));
        }
        ctx.reply.bulk(text.with_bytes(decoded).as_bytes());
    } else if args.is(1, "TODENSE") {
        let converted = make_dense(ctx, key)?;
        ctx.reply.integer(converted.into());
    } else if args.is(1, "GETREG") {
        make_dense(ctx, key)?;
        let mut registers = [0; REGISTERS];
        merge(ctx, args.from(2), &mut registers)?;
        ctx.reply.array(REGISTERS);
        registers.iter().for_each(|&register| ctx.reply.integer(register.into()));
    } else {
        let word = quoted(args.at(1));
        return Err(ClientError::formatted(format!("ERR Unknown PFDEBUG subcommand '{word}'")));
    }
    Ok(())
}

/// The merge always uses the processor's instructions: the switch has no effect.
fn simd(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !args.is(2, "ON") && !args.is(2, "OFF") {
        return Err(ClientError::text("ERR Argument must be ON or OFF"));
    }
    ctx.reply.simple("disabled");
    Ok(())
}

/// Converts the sketch to the dense encoding; returns whether it was sparse.
fn make_dense(ctx: &mut Context<'_>, key: Key<'_>) -> Result<bool, ClientError> {
    let converted = ctx.db.edit_text_if(key, |text| {
        let converted = sketch::make_dense(text);
        (converted, converted == Ok(true))
    })??;
    if converted {
        ctx.db.touched(key);
    }
    Ok(converted)
}

/// A sparse sketch's runs as text: `Z:1000` and `z:3` for zeros, `v:5,2` for two registers of five.
fn decoded(bytes: &[u8]) -> String {
    let words: Vec<String> = sketch::runs(bytes)
        .map(|run| match run.value {
            0 if run.is_long_zero() => format!("Z:{}", run.len),
            0 => format!("z:{}", run.len),
            value => format!("v:{value},{}", run.len),
        })
        .collect();
    words.join(" ")
}

/// The number of elements that the self-test adds to a sparse and to a dense sketch.
const SELF_TEST_ELEMENTS: u64 = 10_000_000;

fn pfselftest(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let sparse_bytes_max = ctx.server.config.hll_sparse_max_bytes;
    check_registers(ctx)?;
    let seed = ctx.db.random.next_u64();
    let (mut dense, mut other) = (sketch::empty(), sketch::empty());
    sketch::make_dense(&mut dense)?;
    let standard_error = 1.04 / (REGISTERS as f64).sqrt();
    let mut checkpoint = 1;
    for n in 1..=SELF_TEST_ELEMENTS {
        let element = (n ^ seed).to_le_bytes();
        sketch::add(&mut dense, &element, sparse_bytes_max)?;
        sketch::add(&mut other, &element, sparse_bytes_max)?;
        if n != checkpoint {
            continue;
        }
        if n < sparse_bytes_max as u64 / 2 && encoding_of(&other)? != Encoding::Sparse {
            return Err(ClientError::text("ERR TESTFAILED sparse encoding not used"));
        }
        let counted = sketch::cardinality(&dense)?;
        if counted != sketch::cardinality(&other)? {
            return Err(ClientError::text("ERR TESTFAILED dense/sparse disagree"));
        }
        let error = counted.abs_diff(n);
        // Collisions among few elements are rare, but have a large effect.
        let error_max = if n == 10 { 1 } else { whole_u64((standard_error * 6.0 * n as f64).ceil()) };
        if error > error_max {
            return Err(ClientError::formatted(format!(
                "ERR TESTFAILED Too big error. card:{n} abserr:{error}"
            )));
        }
        checkpoint *= 10;
    }
    ctx.reply.ok();
    Ok(())
}

/// The number of rounds in which random registers are stored and read back.
const SELF_TEST_ROUNDS: usize = 1000;

fn check_registers(ctx: &mut Context<'_>) -> Result<(), ClientError> {
    let mut dense = sketch::empty();
    sketch::make_dense(&mut dense)?;
    let mut written: Box<Registers> = Box::new([0; REGISTERS]);
    for _ in 0..SELF_TEST_ROUNDS {
        written.iter_mut().for_each(|register| *register = low_u8(ctx.db.random.below(64)));
        sketch::store_dense(&mut dense, &written);
        let mut read: Box<Registers> = Box::new([0; REGISTERS]);
        sketch::merge_into(&mut read, &dense)?;
        if let Some(at) = (0..REGISTERS).find(|&at| read[at] != written[at]) {
            return Err(ClientError::formatted(format!(
                "ERR TESTFAILED Register {at} should be {} but is {}",
                written[at], read[at]
            )));
        }
    }
    Ok(())
}
