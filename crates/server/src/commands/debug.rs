//! DEBUG: inspects internals and changes settings for tests. Allowed only if `enable-debug-command` permits it.

mod cluster;

use crate::command::flag::{ADMIN, LOADING, LOCAL, NO_SCRIPT, PROTECTED, STALE};
use crate::command::{Args, Command, Context, Group, Next, Outcome};
use crate::config::RewriteRequest;
use crate::db::access::Meaning;
use crate::db::list::List;
use crate::db::rdb::write_value;
use crate::db::{StringValue, Value};
use crate::error::{ClientError, quoted};
use crate::observe::process;
use crate::server::{PersistRequest, ReplicationRequest, Shutdown};
use crate::session::ClientId;
use std::time::Duration;
use wire::aof::write_command;
use wire::rdb::Writer;
use wire::reply::Protocol;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("debug", -2, Group::Server, debug)
    .flags(ADMIN | NO_SCRIPT | LOADING | STALE | PROTECTED | LOCAL)
    .since("1.0.0", "Depends on subcommand.")
    .doc("Inspects and changes server internals, for tests.", "")
    .internal()];

/// A subcommand of DEBUG. `args` counts arguments as a command's arity does, DEBUG and the subcommand included.
struct Word {
    name: &'static str,
    arity: std::ops::RangeInclusive<usize>,
    syntax: &'static str,
    effect: &'static str,
    run: fn(&mut Context<'_>, Args<'_>) -> Outcome,
}

const ANY: usize = usize::MAX;

const fn word(
    name: &'static str,
    arity: std::ops::RangeInclusive<usize>,
    syntax: &'static str,
    effect: &'static str,
    run: fn(&mut Context<'_>, Args<'_>) -> Outcome,
) -> Word {
    Word { name, arity, syntax, effect, run }
}

const WORDS: &[Word] = &[
    word(
        "aof-flush-sleep",
        3..=3,
        "AOF-FLUSH-SLEEP <microseconds>",
        "Delay each write to the append-only file.",
        delay_log_writes,
    ),
    word("assert", 2..=2, "ASSERT", "End the process by a failed assertion.", fail_assertion),
    word("client-eviction", 2..=2, "CLIENT-EVICTION", "Return the memory of each client.", client_eviction),
    word(
        "close-cluster-link-on-packet-drop",
        3..=3,
        "CLOSE-CLUSTER-LINK-ON-PACKET-DROP <0|1>",
        "Close the link of each dropped frame of the cluster bus.",
        cluster::close_link_on_drop,
    ),
    word(
        "clusterlink",
        5..=5,
        "CLUSTERLINK KILL <to|from|all> <node-id>",
        "Close links to a node of the cluster, or from it.",
        cluster::kill_link,
    ),
    word(
        "disable-cluster-random-ping",
        3..=3,
        "DISABLE-CLUSTER-RANDOM-PING <0|1>",
        "Send no pings to random nodes of the cluster.",
        cluster::disable_random_ping,
    ),
    word(
        "disable-cluster-reconnection",
        3..=3,
        "DISABLE-CLUSTER-RECONNECTION <0|1>",
        "Do not open closed links to nodes of the cluster again.",
        cluster::disable_reconnection,
    ),
    word(
        "drop-cluster-packet-filter",
        3..=3,
        "DROP-CLUSTER-PACKET-FILTER <type>",
        "Drop received frames of the cluster bus of this type; -1 is none, -2 all.",
        cluster::drop_frames,
    ),
    word(
        "change-repl-id",
        2..=2,
        "CHANGE-REPL-ID",
        "Begin a new replication history: replicas that reconnect need a full sync.",
        change_history,
    ),
    word(
        "client-enforce-reply-list",
        3..=3,
        "CLIENT-ENFORCE-REPLY-LIST <0|1>",
        "Count all unsent output towards limits.",
        enforce_reply_list,
    ),
    word(
        "config-rewrite-force-all",
        2..=2,
        "CONFIG-REWRITE-FORCE-ALL",
        "Run CONFIG REWRITE, including options that have their defaults.",
        rewrite_all,
    ),
    word(
        "delay-rdb-client-free-seconds",
        3..=3,
        "DELAY-RDB-CLIENT-FREE-SECONDS <seconds>",
        "Set how long the stream is kept for a replica that has received its snapshot on another connection.",
        delay_rdb_client_free,
    ),
    word(
        "dict-resizing",
        3..=3,
        "DICT-RESIZING <0|1>",
        "Enable or disable resizing of key tables in the background.",
        dict_resizing,
    ),
    word("digest", 2..=2, "DIGEST", "Return the digest of all data.", digest),
    word(
        "digest-value",
        2..=ANY,
        "DIGEST-VALUE <key> [<key> ...]",
        "Return the digests of values.",
        digest_values,
    ),
    word("error", 3..=3, "ERROR <string>", "Return the string as an error.", error),
    word(
        "hashtable-can-abort-shrink",
        3..=3,
        "HASHTABLE-CAN-ABORT-SHRINK <0|1>",
        "Accepted without effect: tables are resized a group of buckets at a time.",
        accept,
    ),
    word(
        "force-free-primary-async",
        3..=3,
        "FORCE-FREE-PRIMARY-ASYNC <0|1>",
        "Accepted without effect: a connection to a primary is closed at the end of the tick.",
        accept,
    ),
    word("help", 2..=2, "HELP", "Print this help.", show_help),
    word(
        "htstats",
        3..=4,
        "HTSTATS <dbid> [full]",
        "Return statistics of a database's key table.",
        table_statistics,
    ),
    word(
        "htstats-key",
        3..=4,
        "HTSTATS-KEY <key> [full]",
        "Return statistics of the table that stores a value.",
        value_statistics,
    ),
    word("listpack", 3..=3, "LISTPACK <key>", "Describe a value in listpack encoding.", listpack),
    word("loadaof", 2..=2, "LOADAOF", "Reload the append-only file.", load_log),
    word("log", 3..=3, "LOG <message>", "Write a message to the log.", log_message),
    word("object", 3..=4, "OBJECT <key> [fast]", "Describe the storage of a value.", object),
    word("panic", 2..=2, "PANIC", "End the process by a panic.", panic),
    word(
        "pause-after-fork",
        3..=3,
        "PAUSE-AFTER-FORK <0|1>",
        "Stop the process by SIGSTOP after the fork of a child that writes for replicas.",
        pause_after_fork,
    ),
    word("pause-cron", 3..=3, "PAUSE-CRON <0|1>", "Disable or enable periodic tasks.", pause_cron),
    word("populate", 3..=5, "POPULATE <count> [<prefix>] [<size>]", "Create string keys.", populate),
    word("protocol", 3..=3, "PROTOCOL <type>", "Return a reply of the given protocol type.", protocol),
    word(
        "quicklist-packed-threshold",
        3..=3,
        "QUICKLIST-PACKED-THRESHOLD <size>",
        "Accepted without effect: the size of list elements stored separately is fixed.",
        packed_threshold,
    ),
    word("reload", 2..=ANY, "RELOAD [option ...]", "Save all data and reload it.", reload),
    word(
        "replicate",
        3..=ANY,
        "REPLICATE <command> [<argument> ...]",
        "Send a command to replicas without running it.",
        feed_replicas,
    ),
    word(
        "replybuffer",
        4..=4,
        "REPLYBUFFER <PEAK-RESET-TIME|RESIZING> <value>",
        "Set when reply buffers shrink.",
        reply_buffer,
    ),
    word(
        "restart",
        2..=3,
        "RESTART [<milliseconds>]",
        "Rewrite the configuration file, shut down, and start again after a delay.",
        restart,
    ),
    word("sdslen", 3..=3, "SDSLEN <key>", "Return the lengths of a key and its string.", string_lengths),
    word("segfault", 2..=2, "SEGFAULT", "End the process by an invalid memory access.", fault),
    word(
        "set-active-expire",
        3..=3,
        "SET-ACTIVE-EXPIRE <0|1>",
        "Enable or disable active expiry.",
        active_expire,
    ),
    word(
        "set-disable-deny-scripts",
        3..=3,
        "SET-DISABLE-DENY-SCRIPTS <0|1>",
        "Permit scripts to call commands flagged noscript.",
        deny_scripts,
    ),
    word(
        "set-skip-checksum-validation",
        3..=3,
        "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
        "Accept payloads and files with wrong checksums.",
        skip_checksums,
    ),
    word("sleep", 3..=3, "SLEEP <seconds>", "Block the server.", sleep),
    word(
        "slotmigration",
        4..=4,
        "SLOTMIGRATION PREVENT-PAUSE|PREVENT-FAILOVER <0|1>",
        "Keep exports of slots from their pause, or imports from taking their slots.",
        cluster::slot_migration,
    ),
];

fn restart(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if ctx.origin.in_transaction || ctx.origin.in_script {
        return Err(ClientError::text("ERR DEBUG RESTART is not allowed in a transaction"));
    }
    let delay_ms = if args.len() > 2 { args.integer(2)? } else { 0 };
    let restarts_after = Some(Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0)));
    if ctx.server.config.config_file.is_some() {
        super::config::rewrite_file(ctx)?;
    }
    ctx.next = Next::Persist(PersistRequest::Shutdown(Shutdown {
        now: true,
        restarts_after,
        ..Shutdown::default()
    }));
    Ok(())
}

fn debug(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let named = WORDS.iter().find(|word| args.is(1, word.name) && word.arity.contains(&args.len()));
    match named {
        Some(word) => (word.run)(ctx, args),
        None => Err(ClientError::SubcommandSyntax {
            command: "DEBUG",
            subcommand: quoted(&args[1][..args[1].len().min(128)]),
        }),
    }
}

fn show_help(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.array(1 + 2 * WORDS.len());
    ctx.reply.simple("DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let (help, others): (Vec<&Word>, Vec<&Word>) = WORDS.iter().partition(|word| word.name == "help");
    for word in others.into_iter().chain(help) {
        ctx.reply.simple(word.syntax);
        ctx.reply.simple(&format!("    {}", word.effect));
    }
    Ok(())
}

/// A number in the syntax of C: text after the digits is ignored, and no digits are zero.
fn switch_at(args: Args<'_>, index: usize) -> bool {
    let digits = args[index].iter().skip_while(|byte| byte.is_ascii_whitespace());
    digits.take_while(|byte| byte.is_ascii_digit()).any(|byte| *byte != b'0')
}

fn accept(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.ok();
    Ok(())
}

fn change_history(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.next = Next::Replicate(Box::new(ReplicationRequest::ChangeId));
    Ok(())
}

fn feed_replicas(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut command = Vec::new();
    write_command(&mut command, args.from(2).iter()).expect("writing to memory does not fail");
    ctx.next = Next::Replicate(Box::new(ReplicationRequest::Feed(command)));
    Ok(())
}

fn pause_after_fork(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.switches.pause_after_fork = switch_at(args, 2);
    ctx.reply.ok();
    Ok(())
}

fn delay_rdb_client_free(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let seconds = wire::number::parse_i64(args.at(2)).unwrap_or(0);
    ctx.server.switches.rdb_client_free_delay_s = u64::try_from(seconds).unwrap_or(0);
    ctx.reply.ok();
    Ok(())
}

fn load_log(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.next = Next::Persist(PersistRequest::LoadAof);
    Ok(())
}

fn reload(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    const WORDS: [&str; 3] = ["MERGE", "NOFLUSH", "NOSAVE"];
    let has = |word: &str| args.from(2).iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let known = |arg: &[u8]| WORDS.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()));
    if !args.from(2).iter().all(known) {
        return Err(ClientError::text(
            "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
        ));
    }
    let (save, flush, merge) = (!has("NOSAVE"), !has("NOFLUSH"), has("MERGE"));
    ctx.next = Next::Persist(PersistRequest::Reload { save, flush, merge });
    Ok(())
}

fn skip_checksums(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.switches.skip_checksums = switch_at(args, 2);
    ctx.reply.ok();
    Ok(())
}

fn delay_log_writes(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.switches.aof_write_delay_us = args.integer(2)?.max(0) as u64;
    ctx.reply.ok();
    Ok(())
}

fn active_expire(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.switches.active_expire = switch_at(args, 2);
    ctx.reply.ok();
    Ok(())
}

fn enforce_reply_list(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.switches.enforce_reply_list = switch_at(args, 2);
    ctx.reply.ok();
    Ok(())
}

fn pause_cron(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.switches.cron = !switch_at(args, 2);
    ctx.reply.ok();
    Ok(())
}

fn dict_resizing(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.switches.table_steps = switch_at(args, 2);
    ctx.reply.ok();
    Ok(())
}

fn deny_scripts(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.switches.deny_scripts = !switch_at(args, 2);
    ctx.reply.ok();
    Ok(())
}

fn reply_buffer(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.is(2, "PEAK-RESET-TIME") {
        let reset_ms = match () {
            () if args.is(3, "NEVER") => None,
            () if args.is(3, "RESET") => Some(crate::server::REPLY_PEAK_RESET_MS),
            () => Some(args.integer(3)?.max(0) as u64),
        };
        ctx.server.switches.reply_peak_reset_ms = reset_ms;
    } else if args.is(2, "RESIZING") {
        ctx.server.switches.reply_resizing = switch_at(args, 3);
    } else {
        return Err(ClientError::SubcommandSyntax { command: "DEBUG", subcommand: "replybuffer".to_owned() });
    }
    ctx.reply.ok();
    Ok(())
}

const PACKED_THRESHOLD_MAX: u64 = (4 << 30) - (1 << 20);

fn packed_threshold(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let size = crate::config::parse_memory(args.at(2));
    if size.is_none_or(|size| size > PACKED_THRESHOLD_MAX) {
        return Err(ClientError::text(
            "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
        ));
    }
    ctx.reply.ok();
    Ok(())
}

fn rewrite_all(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let request = RewriteRequest { every_option: true, ..RewriteRequest::default() };
    ctx.server
        .config
        .rewrite(request)
        .map_err(|error| format!("ERR CONFIG-REWRITE-FORCE-ALL failed: {}", error.reason()))
        .map_err(ClientError::formatted)?;
    ctx.reply.ok();
    Ok(())
}

fn log_message(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    log::warn!("DEBUG LOG: {}", String::from_utf8_lossy(args.at(2)));
    ctx.reply.ok();
    Ok(())
}

fn fail_assertion(_ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    assert!(WORDS.is_empty(), "DEBUG ASSERT");
    Ok(())
}

fn panic(_ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    panic!("DEBUG PANIC");
}

fn fault(_ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    process::fault();
}

fn error(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.error(args.at(2));
    Ok(())
}

/// The maximum sleep: a sleeping server cannot be woken.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 3600);

fn sleep(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let seconds = wire::number::parse_f64(args.at(2)).unwrap_or(0.0);
    let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(SLEEP_MAX);
    std::thread::sleep(duration.min(SLEEP_MAX));
    ctx.reply.ok();
    Ok(())
}

fn digest(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let text = ctx.db.digest().text();
    ctx.reply.simple(&text);
    Ok(())
}

fn digest_values(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let keys = args.from(2);
    ctx.reply.array(keys.len());
    for key in keys.keys() {
        ctx.reply.simple(&ctx.db.digest_of(key).text());
    }
    Ok(())
}

fn object(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (bits, now_ms) = (ctx.db.access.bits, ctx.db.now_ms());
    let limits = ctx.db.policies.of_key(args.at(2)).limits.clone();
    let is_fast = args.get(3).is_some_and(|arg| arg.eq_ignore_ascii_case(b"fast"));
    let compresses = ctx.server.config.rdbcompression;
    // Expired keys that still exist are shown too.
    ctx.db.show_expired_keys();
    let value = ctx.db.find(args.key(2)).ok_or(ClientError::NoSuchKey)?;
    let access = value.entry().access();
    let mut line =
        format!("Value at:{:p} refcount:1 encoding:{}", value.entry().key().as_ptr(), value.encoding_name());
    if !is_fast {
        line += &format!(" serializedlength:{}", serialized_bytes(&value, compresses));
    }
    line += &match bits.meaning() {
        Meaning::Frequency => {
            format!(" lfu_freq:{} lfu_access_time_minutes:{}", bits.frequency(access, now_ms), access >> 8)
        }
        Meaning::Queue => {
            let place = bits.place(access);
            format!(" s3fifo_queue:{} s3fifo_uses:{}", place.queue.name(), place.uses)
        }
        Meaning::LastUse | Meaning::LastChange => {
            format!(" lru:{access} lru_seconds_idle:{}", bits.idle_ms(access, now_ms) / 1000)
        }
    };
    line += &format!(" memory_bytes:{}", value.memory_bytes());
    if let Some(list) = value.collection::<List>().filter(|_| value.encoding_name() == "quicklist") {
        let (nodes, len) = (list.node_count(), list.len());
        let (size_max, depth) = (limits.list_listpack_size, limits.list_compress_depth);
        line += &format!(" ql_nodes:{nodes} ql_avg_node:{:.2}", len as f64 / nodes as f64);
        line += &format!(" ql_listpack_max:{size_max} ql_compressed:{}", u8::from(depth > 0));
        if !is_fast {
            line += &format!(" ql_uncompressed_size:{}", list.node_bytes_in_files());
        }
    }
    ctx.reply.simple(&line);
    Ok(())
}

/// The size of the value in a snapshot, without its key and type.
fn serialized_bytes(value: &Value<'_>, compresses: bool) -> u64 {
    let mut writer = Writer::new(std::io::sink(), compresses, false);
    match write_value(&mut writer, value) {
        Ok(()) => writer.position(),
        Err(error) => unreachable!("writing to a sink does not fail: {error}"),
    }
}

fn string_lengths(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let value = ctx.db.find(args.key(2)).ok_or(ClientError::NoSuchKey)?;
    let Some(text @ (StringValue::Bytes(_) | StringValue::Compressed(_))) = value.text() else {
        return Err(ClientError::text("ERR Not an sds encoded string."));
    };
    let line = format!(
        "key_sds_len:{} key_sds_avail:0 obj_alloc:{} val_sds_len:{} val_sds_avail:0 val_alloc:{}",
        value.entry().key().len(),
        value.entry().allocation_bytes(),
        text.len(),
        value.memory_bytes() - value.entry().allocation_bytes(),
    );
    ctx.reply.simple(&line);
    Ok(())
}

fn listpack(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let value = ctx.db.find(args.key(2)).ok_or(ClientError::NoSuchKey)?;
    if value.encoding_name() != "listpack" {
        return Err(ClientError::text("ERR Not a listpack encoded object."));
    }
    log::info!("The listpack of a {} occupies {} bytes", value.kind().name(), value.memory_bytes());
    ctx.reply.simple("Listpack structure printed on stdout");
    Ok(())
}

fn table_statistics(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let index = args.integer(2)?;
    let index = usize::try_from(index).ok().filter(|&index| index < ctx.db.database_count());
    let index = index.ok_or(ClientError::text("ERR Out of range database"))?;
    let text = ctx.db.with_database(index, |db| {
        format!(
            "[Dictionary HT]\n{}\n[Expires HT]\n number of elements: {}\n",
            table_text("main hash table", db.len(), db.table_buckets(), db.table_bytes()),
            db.expiring_len(),
        )
    });
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn table_text(name: &str, elements: usize, buckets: usize, bytes: usize) -> String {
    if elements == 0 {
        return "No stats available for empty hash tables\n".to_owned();
    }
    format!(
        "Hash table 0 stats ({name}):\n table size: {buckets}\n number of elements: {elements}\n table bytes: {bytes}\n"
    )
}

fn value_statistics(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let value = ctx.db.find(args.key(2)).ok_or(ClientError::NoSuchKey)?;
    let is_table = matches!(value.encoding_name(), "hashtable" | "skiplist");
    let Some((len, bytes)) = value.elements().filter(|_| is_table).map(|len| (len, value.memory_bytes()))
    else {
        return Err(ClientError::text(
            "ERR The value stored at the specified key is not represented using an hash table",
        ));
    };
    let text = table_text("main hash table", len, len, bytes);
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn client_eviction(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    if ctx.server.config.maxmemory_clients.bytes_of(ctx.server.config.maxmemory_bytes) == 0 {
        return Err(ClientError::text("ERR maxmemory-clients is disabled."));
    }
    let mut clients: Vec<(usize, ClientId)> =
        ctx.server.clients.iter().map(|client| (client.memory_bytes(), client.id)).collect();
    clients.sort_unstable_by(|a, b| b.cmp(a));
    let lines: String = clients.iter().map(|(bytes, id)| format!("id={id} tot-mem={bytes}\n")).collect();
    ctx.reply.verbatim("txt", lines.as_bytes());
    Ok(())
}

fn populate(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let count = args.integer_in(2, 0, i64::MAX, ClientError::MustBePositive)?;
    let prefix = args.get(3).unwrap_or(b"key");
    let size = match args.len() {
        5 => args.count_in(4, 0, ctx.server.config.proto_max_bulk_len_bytes, ClientError::MustBePositive)?,
        _ => 0,
    };
    for number in 0..count {
        let name = [prefix, format!(":{number}").as_bytes()].concat();
        let key = ctx.db.key(&name);
        if ctx.db.exists(key) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        ctx.db.put_string(key, &value, None);
        ctx.db.touched(key);
    }
    ctx.reply.ok();
    Ok(())
}

/// The number that DEBUG PROTOCOL DOUBLE replies; clients' test suites expect it.
#[expect(clippy::approx_constant, reason = "three digits are what is expected, not an approximation")]
const DEMONSTRATED_DOUBLE: f64 = 3.141;

fn protocol(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let name = args.at(2).to_ascii_lowercase();
    let reply = &mut *ctx.reply;
    match name.as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(DEMONSTRATED_DOUBLE),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|i| reply.integer(i));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|i| reply.integer(i));
        }
        b"map" => {
            reply.map(3);
            for i in 0..3 {
                reply.integer(i);
                reply.boolean(i == 1);
            }
        }
        b"attrib" => {
            if reply.protocol == Protocol::Resp3 {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol == Protocol::Resp2 {
                return Err(ClientError::text("ERR RESP2 is not supported by this command"));
            }
            // Push messages are sent after the reply to the current command is complete.
            reply.bulk(b"Some real reply following the push reply");
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
        }
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => {
            return Err(ClientError::text(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted_and_help_names_them() {
        for word in WORDS {
            assert!(word.syntax.to_ascii_lowercase().starts_with(word.name), "{}", word.name);
        }
    }
}
