//! Replication: the commands of a replica to its primary (REPLCONF, PSYNC, SYNC), ROLE, and waiting for replicas
//! (WAIT, WAITAOF).

use super::timeout::milliseconds;
use crate::command::flag::{
    ADMIN, ALLOW_BUSY, BLOCKING, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NO_SCRIPT, STALE,
};
use crate::command::{Args, Command, Context, Control, Group, Next, Outcome};
use crate::config::{ReplicaOf, is_host};
use crate::error::{ClientError, NO_LOG_TO_WAIT_FOR, quoted};
use crate::observe::replication::LinkState;
use crate::server::{FailoverRequest, Point, ReplicationRequest};
use crate::session::client::ReplicaProfile;
use crate::session::{BlockRequest, BlockedOn, TimeoutReply};
use wire::cluster_bus::NodeId;
use wire::convert::{signed_count, signed_len};
use wire::request::split_args;

const REPLICAOF_SYNTAX: &str = "<args: <host-port: host:string port:integer> | <no-one: NO ONE>>";

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("failover", -1, Group::Server, failover)
        .flags(ADMIN | NO_SCRIPT | STALE)
        .since("6.2.0", "O(1)")
        .doc(
            "Hands the primary role to a replica that is in sync.",
            "[TO <target: host:string port:integer [FORCE]>] [ABORT] [TIMEOUT milliseconds]",
        ),
    Command::new("psync", -3, Group::Server, psync)
        .flags(NO_ASYNC_LOADING | ADMIN | NO_MULTI | NO_SCRIPT)
        .since("2.8.0", "")
        .doc(
            "Starts replication for a replica, from its offset if possible.",
            "replicationid offset:integer",
        ),
    Command::new("replconf", -1, Group::Server, replconf)
        .flags(ADMIN | NO_SCRIPT | LOADING | STALE | ALLOW_BUSY)
        .control(Control::Link)
        .since("3.0.0", "O(1)")
        .internal()
        .doc("Exchanges replication settings between primary and replica.", ""),
    Command::new("replicaof", 3, Group::Server, replicaof)
        .flags(NO_ASYNC_LOADING | ADMIN | NO_SCRIPT | STALE)
        .since("5.0.0", "O(1)")
        .doc("Makes the server a replica of another, or a primary again.", REPLICAOF_SYNTAX),
    Command::new("role", 1, Group::Server, role)
        .flags(NO_SCRIPT | LOADING | STALE | FAST)
        .categories(&["admin", "dangerous"])
        .since("2.8.12", "O(1)")
        .doc("Returns the replication role and its peers.", ""),
    Command::new("slaveof", 3, Group::Server, replicaof)
        .flags(NO_ASYNC_LOADING | ADMIN | NO_SCRIPT | STALE)
        .since("1.0.0", "O(1)")
        .deprecated("5.0.0", "`REPLICAOF`")
        .doc("Makes the server a replica of another, or a primary again.", REPLICAOF_SYNTAX),
    Command::new("sync", 1, Group::Server, sync)
        .flags(NO_ASYNC_LOADING | ADMIN | NO_MULTI | NO_SCRIPT)
        .since("1.0.0", "")
        .doc("Starts replication for a replica with a full copy.", ""),
    Command::new("wait", 3, Group::Generic, wait)
        .flags(BLOCKING)
        .categories(&["connection"])
        .outside_category()
        .since("3.0.0", "O(1)")
        .doc(
            "Blocks until replicas have acknowledged the connection's writes.",
            "numreplicas timeout:integer",
        )
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
    Command::new("waitaof", 4, Group::Generic, waitaof)
        .flags(BLOCKING)
        .categories(&["connection"])
        .outside_category()
        .since("7.2.0", "O(1)")
        .doc(
            "Blocks until the connection's writes are on disk, here and on replicas.",
            "numlocal numreplicas timeout:integer",
        )
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
];

/// The maximum length of a replica's address: that of a host name.
const ADDRESS_LEN_MAX: usize = 255;

fn sync(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.next = Next::Replicate(Box::new(ReplicationRequest::Synchronize { from: None }));
    Ok(())
}

fn psync(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let takes_over = args.len() > 3 && args.is(3, "failover");
    let from = Point { id: args.at(1).to_vec(), next: wire::number::parse_i64(args.at(2)), takes_over };
    ctx.next = Next::Replicate(Box::new(ReplicationRequest::Synchronize { from: Some(from) }));
    Ok(())
}

fn replconf(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(ClientError::Syntax);
    }
    for at in (1..args.len()).step_by(2) {
        if args.is(at, "ack") {
            return acknowledge(ctx, args.from(at));
        }
        if args.is(at, "getack") {
            // A primary does not acknowledge offsets.
            ctx.next = Next::NoReply;
            return Ok(());
        }
        configure(ctx, args, at)?;
    }
    ctx.reply.ok();
    Ok(())
}

/// `ACK offset [FACK offset]`: there is no reply, even to an error.
fn acknowledge(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.next = Next::NoReply;
    let number = |at: usize| wire::number::parse_i64(args.at(at));
    let (true, Some(stream)) = (ctx.server.clients[ctx.client].is_replica, number(1)) else { return Ok(()) };
    let has_second = args.len() > 3 && args.is(2, "fack");
    let on_disk = has_second.then(|| number(3)).flatten();
    let is_sign_of_life = !has_second || on_disk.is_some();
    ctx.next =
        Next::Replicate(Box::new(ReplicationRequest::Acknowledged { stream, on_disk, is_sign_of_life }));
    Ok(())
}

/// Applies one option.
fn configure(ctx: &mut Context<'_>, args: Args<'_>, at: usize) -> Outcome {
    let value = args.at(at + 1);
    let yes_no = || match args.integer(at + 1)? {
        flag @ 0..=1 => Ok(flag),
        _ => Err(ClientError::text("ERR value is out of range, value must between 0 and 1")),
    };
    if ctx.server.clients[ctx.client].is_replica {
        return Err(ClientError::text("ERR REPLCONF options come before SYNC and PSYNC"));
    }
    let config = &ctx.server.config;
    let (has_channels, is_diskless) = (config.dual_channel_replication_enabled, config.repl_diskless_sync);
    let profile = ctx.server.clients[ctx.client].replica.get_or_insert_default();
    match args.at(at).to_ascii_lowercase().as_slice() {
        b"listening-port" => profile.listening_port = args.integer(at + 1)?,
        b"ip-address" if value.len() > ADDRESS_LEN_MAX => {
            let text = "ERR REPLCONF ip-address provided by replica instance is too long";
            return Err(ClientError::formatted(format!("{text}: {} bytes", value.len())));
        }
        b"ip-address" if !is_host(value) => {
            let text = "ERR REPLCONF ip-address provided by replica instance is not an address or host name";
            return Err(ClientError::text(text));
        }
        b"ip-address" => profile.address = Some(String::from_utf8_lossy(value).into_owned()),
        b"capa" => match value.to_ascii_lowercase().as_slice() {
            b"eof" => profile.finds_end_mark = true,
            b"psync2" => profile.takes_new_ids = true,
            b"dual-channel" if has_channels && is_diskless => profile.takes_rdb_channel = true,
            b"dual-channel" if has_channels => {
                log::info!("Dual channel capability ignored: repl-diskless-sync disabled");
            }
            // Other capabilities are not used.
            _ => {}
        },
        b"rdb-only" => profile.snapshot_only = yes_no()? == 1,
        b"rdb-filter-only" => filter(profile, value)?,
        b"version" => {
            profile.version = parse_version(value).ok_or_else(|| {
                ClientError::formatted(format!("ERR Unrecognized version format: {}", quoted(value)))
            })?;
        }
        b"rdb-channel" => profile.is_rdb_channel = yes_no()? == 1,
        b"set-rdb-client-id" => {
            let id = args.integer(at + 1)?;
            let known =
                ctx.server.replicas.awaiting_main_channel.iter().find(|known| signed_count(known.0) == id);
            let unknown = || ClientError::formatted(format!("ERR Unrecognized RDB client id {id}"));
            profile.rdb_client = Some(*known.ok_or_else(unknown)?);
        }
        b"set-cluster-node-id" => {
            if ctx.server.cluster.is_none() {
                return Err(ClientError::text("ERR This instance has cluster support disabled"));
            }
            profile.node_id = NodeId::parse(value);
        }
        _ => {
            let option = quoted(args.at(at));
            return Err(ClientError::formatted(format!("ERR Unrecognized REPLCONF option: {option}")));
        }
    }
    Ok(())
}

/// Restricts the snapshot to the named parts.
fn filter(profile: &mut ReplicaProfile, words: &[u8]) -> Outcome {
    let missing = ClientError::text("ERR Missing rdb-filter-only values");
    let words = split_args(words).map_err(|_| missing)?;
    (profile.without_data, profile.without_functions) = (true, true);
    for word in words {
        if !word.eq_ignore_ascii_case(b"functions") {
            let text = format!("ERR Unsupported rdb-filter-only option: {}", quoted(&word));
            return Err(ClientError::formatted(text));
        }
        profile.without_functions = false;
    }
    Ok(())
}

/// Parses `9.1.2` as 0x090102.
fn parse_version(text: &[u8]) -> Option<u32> {
    let parts: Vec<&[u8]> = text.split(|&byte| byte == b'.').collect();
    let [major, minor, patch] = parts[..] else { return None };
    let mut version = 0;
    for part in [major, minor, patch] {
        // Missing digits are zero, as in the reference.
        let number = part.iter().try_fold(0u32, |number, digit| {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
            Some(number * 10 + u32::from(digit)).filter(|number| *number <= 255)
        })?;
        version = version << 8 | number;
    }
    Some(version)
}

fn replicaof(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if ctx.server.cluster.is_some() {
        return Err(ClientError::text("ERR REPLICAOF not allowed in cluster mode."));
    }
    let primary = if args.is(1, "no") && args.is(2, "one") {
        None
    } else {
        let wrong = || ClientError::text("ERR Invalid master port");
        let port = args.integer(2).ok().and_then(|port| u16::try_from(port).ok()).ok_or_else(wrong)?;
        if !is_host(args.at(1)) {
            return Err(ClientError::text("ERR Invalid master host"));
        }
        Some(ReplicaOf { host: args.at(1).to_vec(), port })
    };
    ctx.next = Next::Replicate(Box::new(ReplicationRequest::Follow(primary)));
    Ok(())
}

fn failover(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if ctx.server.cluster.is_some() {
        return Err(ClientError::text(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    if args.len() == 2 && args.is(1, "abort") {
        ctx.next = Next::Replicate(Box::new(ReplicationRequest::AbortFailover));
        return Ok(());
    }
    let mut request = FailoverRequest { target: None, force: false, timeout_ms: None };
    let mut at = 1;
    while at < args.len() {
        let values = args.len() - at - 1;
        if args.is(at, "timeout") && values >= 1 && request.timeout_ms.is_none() {
            let too_small = ClientError::text("ERR FAILOVER timeout must be greater than 0");
            let timeout_ms = u64::try_from(args.integer(at + 1)?).ok().filter(|&ms| ms > 0);
            request.timeout_ms = Some(timeout_ms.ok_or(too_small)?);
            at += 2;
        } else if args.is(at, "to") && values >= 2 && request.target.is_none() {
            request.target = Some((args.at(at + 1).to_vec(), args.integer(at + 2)?));
            at += 3;
        } else if args.is(at, "force") && !request.force {
            request.force = true;
            at += 1;
        } else {
            return Err(ClientError::Syntax);
        }
    }
    ctx.next = Next::Replicate(Box::new(ReplicationRequest::Failover(request)));
    Ok(())
}

fn role(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    if let Some(primary) = ctx.server.config.replicaof.clone() {
        return role_of_replica(ctx, &primary);
    }
    let figures = &ctx.server.observed.replication;
    ctx.reply.array(3);
    ctx.reply.bulk(b"master");
    ctx.reply.count(figures.offset);
    let online: Vec<_> = figures.replicas.iter().filter(|replica| replica.is_online()).collect();
    ctx.reply.array(online.len());
    for replica in online {
        ctx.reply.array(3);
        ctx.reply.bulk(replica.address.as_bytes());
        ctx.reply.bulk(replica.port.to_string().as_bytes());
        ctx.reply.bulk(replica.acknowledged.to_string().as_bytes());
    }
    Ok(())
}

fn role_of_replica(ctx: &mut Context<'_>, primary: &ReplicaOf) -> Outcome {
    let figures = &ctx.server.observed.replication;
    let state = figures.link.map_or(LinkState::Connect, |link| link.state);
    let offset = if state == LinkState::Connected { signed_count(figures.offset) } else { -1 };
    ctx.reply.array(5);
    ctx.reply.bulk(b"slave");
    ctx.reply.bulk(&primary.host);
    ctx.reply.integer(primary.port.into());
    ctx.reply.bulk(state.name().as_bytes());
    ctx.reply.integer(offset);
    Ok(())
}

fn wait(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if ctx.server.config.replicaof.is_some() {
        return Err(ClientError::text(
            "ERR WAIT cannot be used with replica instances. Please also note that if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let replicas = args.integer(1)?;
    let timeout_us = milliseconds(args, 2)?;
    let acknowledged = ctx.server.acknowledged_by(ctx.client);
    let on = BlockedOn::Acknowledgement { local: false, replicas, on_disk: false };
    let request = BlockRequest { on, timeout_us, timeout_reply: TimeoutReply::Replicas, claim: None };
    if replicas <= signed_len(acknowledged.replicas) || !ctx.block(request) {
        TimeoutReply::Replicas.write(acknowledged, ctx.reply);
        return Ok(());
    }
    ctx.server.replicas.acknowledgements_requested = true;
    Ok(())
}

fn waitaof(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let local = args.integer(1)?;
    if !(0..=1).contains(&local) {
        return Err(ClientError::text("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = args.integer_in(2, 0, i64::MAX, ClientError::MustBePositive)?;
    let timeout_us = milliseconds(args, 3)?;
    if ctx.server.config.replicaof.is_some() {
        return Err(ClientError::text(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.",
        ));
    }
    if local > 0 && !ctx.server.durability.aof_enabled {
        return Err(NO_LOG_TO_WAIT_FOR);
    }
    let acknowledged = ctx.server.acknowledged_by(ctx.client);
    let on = BlockedOn::Acknowledgement { local: local > 0, replicas, on_disk: true };
    let waits = !acknowledged.satisfies(local > 0, replicas, true);
    let request = BlockRequest { on, timeout_us, timeout_reply: TimeoutReply::OnDisk, claim: None };
    if !waits || !ctx.block(request) {
        TimeoutReply::OnDisk.write(acknowledged, ctx.reply);
        return Ok(());
    }
    ctx.server.replicas.acknowledgements_requested = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn versions_have_three_parts_of_a_byte_each() {
        assert_eq!(parse_version(b"9.1.2"), Some(0x09_01_02));
        assert_eq!(parse_version(b"7.255.0"), Some(0x07_ff_00));
        assert_eq!(parse_version(b".."), Some(0));
        for text in ["9.1", "9", "9.1.2.3", "9.1.256", "9.1.x", "-1.0.0", ""] {
            assert_eq!(parse_version(text.as_bytes()), None, "{text}");
        }
    }
}
