//! Serialized values, and persistence: DUMP, RESTORE, SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE.

use crate::command::flag::{
    ADMIN, ASKING, DENY_OOM, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NO_SCRIPT, READONLY, STALE, WRITE,
};
use crate::command::{Args, Command, Context, Group, KeySpec, Next, Outcome, access, propagation};
use crate::config::{EventClasses, RdbVersionCheck};
use crate::db::Key;
use crate::db::access::GivenAccess;
use crate::db::object::REFERRED_LEN_MIN;
use crate::db::rdb::{Loaded, LoadedKey, ReadValue};
use crate::error::ClientError;
use crate::persist::rdb::save::dump_payload;
use crate::server::PersistRequest;
use wire::rdb::read::split_payload;
use wire::rdb::{Magic, OWN_TYPE_MIN, Origin, ReadError, Reader, accepts_version, module, opcode};
use wire::reply::SharedBytes;

const RESTORE_COMPLEXITY: &str = "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number of objects composing the value and M their average size";
const RESTORE_SYNTAX: &str = "key ttl:integer serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME seconds@5.0.0] [FREQ \
    frequency:integer@5.0.0]";

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("bgrewriteaof", 1, Group::Server, bgrewriteaof)
        .flags(NO_ASYNC_LOADING | ADMIN | NO_SCRIPT)
        .since("1.0.0", "O(1)")
        .doc("Rewrites the append-only file in the background.", ""),
    Command::new("bgsave", -1, Group::Server, bgsave)
        .flags(NO_ASYNC_LOADING | ADMIN | NO_SCRIPT)
        .since("1.0.0", "O(1)")
        .doc("Saves all data to the RDB file in the background.", "[operation: SCHEDULE@3.2.2 | CANCEL@8.1.0]").history(&[("3.2.2", "`SCHEDULE`."), ("8.1.0", "`CANCEL`.")]),
    Command::new("dump", 2, Group::Generic, dump)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .since("2.6.0", "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of objects composing the value and M their average size")
        .doc("Serializes a key's value for RESTORE.", "key")
        .tips(&["nondeterministic_output"]),
    Command::new("lastsave", 1, Group::Server, lastsave)
        .flags(LOADING | STALE | FAST)
        .categories(&["admin", "dangerous"])
        .since("1.0.0", "O(1)")
        .doc("Returns the Unix time of the last successful save.", "")
        .tips(&["nondeterministic_output"]),
    Command::new("restore", -4, Group::Generic, restore)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::OW | access::UPDATE)])
        .categories(&["dangerous"])
        .propagated_as(propagation::restored)
        .since("2.6.0", RESTORE_COMPLEXITY)
        .doc("Creates a key from a value serialized by DUMP.", RESTORE_SYNTAX).history(&[("3.0.0", "`REPLACE`."), ("5.0.0", "`ABSTTL`."), ("5.0.0", "`IDLETIME` and `FREQ`.")]),
    Command::new("restore-asking", -4, Group::Server, restore)
        .flags(WRITE | DENY_OOM | ASKING)
        .keys(&[KeySpec::one(1, access::OW | access::UPDATE)])
        .categories(&["keyspace", "dangerous"])
        .propagated_as(propagation::restored)
        .since("3.0.0", RESTORE_COMPLEXITY)
        .internal()
        .doc("Restores a key during slot migration.", RESTORE_SYNTAX).history(&[("3.0.0", "`REPLACE`."), ("5.0.0", "`ABSTTL`."), ("5.0.0", "`IDLETIME` and `FREQ`.")]),
    Command::new("save", 1, Group::Server, save)
        .flags(NO_ASYNC_LOADING | ADMIN | NO_SCRIPT | NO_MULTI)
        .since("1.0.0", "O(N) where N is the total number of keys in all databases")
        .doc("Saves all data to the RDB file and blocks all clients meanwhile.", ""),
];

fn dump(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let compresses = ctx.server.config.rdbcompression;
    let reply = &mut *ctx.reply;
    let answer = |payload: &mut Vec<u8>| match payload.len() {
        REFERRED_LEN_MIN.. => reply.bulk_shared(&SharedBytes::new(std::mem::take(payload))),
        _ => reply.bulk(payload),
    };
    match ctx.db.read(args.key(1)) {
        Some(value) => dump_payload(&value, compresses, &mut ctx.server.payload_writer, answer),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// The arguments of RESTORE.
struct Restore<'a> {
    key: Key<'a>,
    ttl_ms: i64,
    payload: &'a [u8],
    replace: bool,
    absolute: bool,
    access: GivenAccess,
}

impl<'a> Restore<'a> {
    /// Does not check the time to live: whether the key exists is checked before it.
    fn parse(args: Args<'a>) -> Result<Self, ClientError> {
        let mut restore = Restore {
            key: args.key(1),
            ttl_ms: 0,
            payload: args.at(3),
            replace: false,
            absolute: false,
            access: GivenAccess::default(),
        };
        let mut at = 4;
        while at < args.len() {
            let has_next = at + 1 < args.len();
            if args.is(at, "REPLACE") {
                restore.replace = true;
            } else if args.is(at, "ABSTTL") {
                restore.absolute = true;
            } else if args.is(at, "IDLETIME") && has_next && restore.access.frequency.is_none() {
                let idle_s = args.integer(at + 1)?;
                let invalid = ClientError::text("ERR Invalid IDLETIME value, must be >= 0");
                restore.access.idle_s = Some(u64::try_from(idle_s).map_err(|_| invalid)?);
                at += 1;
            } else if args.is(at, "FREQ") && has_next && restore.access.idle_s.is_none() {
                let frequency = args.integer(at + 1)?;
                let invalid = ClientError::text("ERR Invalid FREQ value, must be >= 0 and <= 255");
                restore.access.frequency = Some(u8::try_from(frequency).map_err(|_| invalid)?);
                at += 1;
            } else {
                return Err(ClientError::Syntax);
            }
            at += 1;
        }
        Ok(restore)
    }

    /// Parses the payload, which is not trusted; returns the value and the server whose format it has.
    fn value(&self, ctx: &mut Context<'_>) -> Result<(ReadValue, Origin), ClientError> {
        const WRONG: ClientError = ClientError::text("ERR DUMP payload version or checksum are wrong");
        const BAD: ClientError = ClientError::text("ERR Bad data format");
        let strict = ctx.server.config.rdb_version_check == RdbVersionCheck::Strict;
        let split = match split_payload(self.payload) {
            None if ctx.server.switches.skip_checksums => without_checksum(self.payload),
            split => split,
        };
        let (content, version) = split.ok_or(WRONG)?;
        if !accepts_version(version, Magic::Absent, strict) {
            return Err(WRONG);
        }
        let mut reader = Reader::of_bytes(content);
        let mut written = reader.byte().map_err(|_| BAD)?;
        let origin = Origin::of(Magic::Absent, version);
        let foreign = |written: u8, what: &str| {
            ClientError::formatted(format!("ERR Unsupported foreign data type: {written}{what}"))
        };
        if origin == Origin::Redis && written == opcode::KEY_METADATA {
            if let Some(class) = module::skip_key_metadata(&mut reader).map_err(|_| BAD)? {
                return Err(foreign(written, &format!(": {}", module::no_place_for(&class))));
            }
            written = reader.byte().map_err(|_| BAD)?;
        }
        let is_foreign = origin == Origin::Redis && written >= OWN_TYPE_MIN;
        let Some(kind) = origin.kind(written) else {
            return Err(if is_foreign { foreign(written, "") } else { BAD });
        };
        match ctx.db.read_value(self.key.bytes(), &mut reader, kind, None) {
            Ok(ReadValue::Empty | ReadValue::AllExpired) => Err(BAD),
            Ok(mut value) => match ctx.db.read_asides(&mut reader, &mut value) {
                Ok(()) => Ok((value, origin)),
                Err(_) => Err(BAD),
            },
            Err(ReadError::Unsupported(what)) if is_foreign => Err(foreign(written, &format!(": {what}"))),
            Err(error) => {
                log::debug!("RESTORE: {error}");
                Err(BAD)
            }
        }
    }
}

fn without_checksum(payload: &[u8]) -> Option<(&[u8], u16)> {
    let (content, footer) = payload.split_last_chunk::<10>()?;
    Some((content, u16::from_le_bytes([footer[0], footer[1]])))
}

fn restore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut restore = Restore::parse(args)?;
    if !restore.replace && ctx.db.read_for_write(restore.key).is_some() {
        return Err(ClientError::text("BUSYKEY Target key name already exists."));
    }
    restore.ttl_ms = args.integer(2)?;
    if restore.ttl_ms < 0 {
        return Err(ClientError::text("ERR Invalid TTL value, must be >= 0"));
    }
    let (value, origin) = restore.value(ctx)?;
    let now_ms = ctx.db.now_ms();
    let expiry_ms = match restore.ttl_ms {
        0 => None,
        ttl_ms if restore.absolute => Some(ttl_ms),
        ttl_ms => Some(ttl_ms.saturating_add(now_ms)),
    };
    let replaced = restore.replace && ctx.db.remove_replaced(restore.key);
    if expiry_ms.is_some_and(|expiry_ms| ctx.db.is_expired(expiry_ms)) {
        if replaced {
            ctx.db.changed(EventClasses::GENERIC, "del", restore.key);
        }
        ctx.reply.ok();
        return Ok(());
    }
    // An expired key that cannot be removed automatically (`import-mode`) counts as absent, but still exists.
    let about = LoadedKey { expiry_ms, access: restore.access, replaces: true };
    let loaded = ctx.db.restore_read(restore.key, value, about);
    assert!(loaded == Loaded::Stored, "the value is not empty");
    ctx.db.event(EventClasses::NEW, "new", restore.key);
    ctx.db.changed(EventClasses::GENERIC, "restore", restore.key);
    if origin == Origin::Redis {
        propagate_in_own_format(ctx, args);
    }
    ctx.reply.ok();
    Ok(())
}

/// Propagates a payload from Redis in our format: replicas and readers of the file may not accept another one.
fn propagate_in_own_format(ctx: &mut Context<'_>, args: Args<'_>) {
    if !ctx.db.change_log.is_recording() {
        return;
    }
    let compresses = ctx.server.config.rdbcompression;
    let writer = &mut ctx.server.payload_writer;
    let value = ctx.db.find(args.key(1));
    let payload = value.map(|value| dump_payload(&value, compresses, writer, std::mem::take));
    if let Some(payload) = payload {
        propagation::restored_from(args, Some(&payload), ctx.db);
    }
}

fn save(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.next = Next::Persist(PersistRequest::Save);
    Ok(())
}

fn bgsave(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let request = match args.len() {
        1 => PersistRequest::BackgroundSave { schedule: false },
        2 if args.is(1, "SCHEDULE") => PersistRequest::BackgroundSave { schedule: true },
        2 if args.is(1, "CANCEL") => PersistRequest::CancelSave,
        _ => return Err(ClientError::Syntax),
    };
    ctx.next = Next::Persist(request);
    Ok(())
}

fn bgrewriteaof(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.next = Next::Persist(PersistRequest::RewriteAof);
    Ok(())
}

fn lastsave(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.integer(ctx.server.observed.persistence.last_save_s);
    Ok(())
}
