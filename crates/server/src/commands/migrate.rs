//! MIGRATE: sends keys to another server in DUMP's format, and removes them here once it has stored them.

use crate::command::flag::{MOVES_KEYS, NOT_STREAMED, WRITE};
use crate::command::key_spec::{Begin, Find};
use crate::command::{Access, Args, Command, Context, Group, KeySpec, Next, Outcome, access};
use crate::db::Key;
use crate::error::ClientError;
use crate::persist::rdb::save::dump_payload;
use crate::server::{Migration, PersistRequest};
use wire::aof::write_command;

const KEY: Access = access::RW | access::ACCESS | access::DELETE;

/// The keys after KEYS; they can have any name, also KEYS.
const LED_BY_KEYS: KeySpec = KeySpec {
    access: KEY | access::INCOMPLETE,
    begin: Begin::Keyword { word: "KEYS", from: -2 },
    find: Find::Range { last: -1, step: 1, limit: 0 },
    notes: "",
};

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("migrate", -6, Group::Generic, migrate)
    .flags(WRITE | NOT_STREAMED | MOVES_KEYS)
    .keys(&[KeySpec::one(3, KEY), LED_BY_KEYS])
    .finds_keys(find_keys)
    .hides(secrets)
    .categories(&["keyspace", "dangerous"])
    .since("2.6.0", "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target instance. See the pages of these commands for time complexity. Also an O(N) data transfer between the two instances is performed.")
    .doc(
        "Moves keys to another server atomically.",
        "host port:integer <key-selector: key | \"\"> destination-db:integer timeout:integer \
                [COPY@3.0.0] [REPLACE@3.0.0] [authentication: AUTH auth(password)@4.0.7 | AUTH2 \
                <auth2@6.0.0: username password>] [KEYS keys(key):key@3.0.6 ...]",
    ).history(&[("3.0.0", "`COPY` and `REPLACE`."), ("3.0.6", "`KEYS`."), ("4.0.7", "`AUTH`."), ("6.0.0", "`AUTH2`.")])
    .tips(&["nondeterministic_output"])];

/// Used if the command's timeout is not positive.
const DEFAULT_TIMEOUT_MS: u64 = 1000;

#[derive(Default)]
struct Options<'a> {
    copy: bool,
    replace: bool,
    user: Option<&'a [u8]>,
    password: Option<&'a [u8]>,
    /// The index of the first key after KEYS.
    keys_at: Option<usize>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Self, ClientError> {
        let mut options = Options::default();
        let mut at = 6;
        while at < args.len() {
            let following = args.len() - 1 - at;
            if args.is(at, "COPY") {
                options.copy = true;
            } else if args.is(at, "REPLACE") {
                options.replace = true;
            } else if args.is(at, "AUTH") && following >= 1 {
                at += 1;
                options.password = Some(args.at(at));
            } else if args.is(at, "AUTH2") && following >= 2 {
                at += 2;
                (options.user, options.password) = (Some(args.at(at - 1)), Some(args.at(at)));
            } else if args.is(at, "KEYS") {
                if !args.at(3).is_empty() {
                    return Err(ClientError::text(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    ));
                }
                options.keys_at = Some(at + 1);
                break;
            } else {
                return Err(ClientError::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }

    /// The command for authentication at the other server.
    fn authentication(&self) -> Option<Vec<Vec<u8>>> {
        let password = self.password?;
        let words = [Some(&b"AUTH"[..]), self.user, Some(password)];
        Some(words.into_iter().flatten().map(<[u8]>::to_vec).collect())
    }
}

/// The index of the word KEYS, if it is an option.
fn keys_word(args: Args<'_>) -> Option<usize> {
    let mut at = 6;
    while at < args.len() {
        match () {
            () if args.is(at, "KEYS") => return Some(at),
            () if args.is(at, "AUTH") => at += 1,
            () if args.is(at, "AUTH2") => at += 2,
            () => {}
        }
        at += 1;
    }
    None
}

fn find_keys(args: Args<'_>) -> Vec<(usize, Access)> {
    match keys_word(args) {
        Some(_) if !args.at(3).is_empty() => Vec::new(),
        Some(at) => (at + 1..args.len()).map(|at| (at, KEY)).collect(),
        None => vec![(3, KEY)],
    }
}

fn secrets(args: Args<'_>) -> Vec<usize> {
    let end = keys_word(args).unwrap_or(args.len());
    let mut hidden = Vec::new();
    for at in 6..end {
        if args.is(at, "AUTH") {
            hidden.push(at + 1);
        } else if args.is(at, "AUTH2") {
            hidden.extend([at + 1, at + 2]);
        }
    }
    hidden
}

fn migrate(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args)?;
    let timeout_ms = args.integer(5)?;
    let target_db = args.integer(4)?;
    let positions = options.keys_at.map_or(3..4, |first| first..args.len());
    let mut migration = Migration {
        host: args.at(1).to_vec(),
        port: args.at(2).to_vec(),
        timeout_ms: u64::try_from(timeout_ms).ok().filter(|ms| *ms > 0).unwrap_or(DEFAULT_TIMEOUT_MS),
        target_db,
        authentication: options.authentication(),
        copy: options.copy,
        keys: Vec::new(),
        commands: Vec::new(),
    };
    for at in positions {
        add_key(ctx, args.key(at), options.replace, &mut migration);
    }
    if migration.keys.is_empty() {
        ctx.reply.simple("NOKEY");
        return Ok(());
    }
    ctx.next = Next::Persist(PersistRequest::Migrate(Box::new(migration)));
    Ok(())
}

/// Adds the command that creates the key on the other server, if the key exists.
fn add_key(ctx: &mut Context<'_>, key: Key<'_>, replace: bool, migration: &mut Migration) {
    let compresses = ctx.server.config.rdbcompression;
    let now_ms = ctx.db.now_ms();
    let Some(value) = ctx.db.read(key) else { return };
    let ttl_ms = value.expiry_ms().map_or(0, |expiry_ms| expiry_ms.saturating_sub(now_ms).max(1)).to_string();
    let restore: &[u8] = if ctx.server.cluster.is_some() { b"RESTORE-ASKING" } else { b"RESTORE" };
    dump_payload(&value, compresses, &mut ctx.server.payload_writer, |payload| {
        let arguments: [&[u8]; 5] = [restore, key.bytes(), ttl_ms.as_bytes(), payload, b"REPLACE"];
        let count = if replace { 5 } else { 4 };
        write_command(&mut migration.commands, arguments.into_iter().take(count))
            .expect("writing to memory does not fail");
    });
    migration.keys.push(key.bytes().to_vec());
}
