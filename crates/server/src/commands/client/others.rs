//! Commands for other clients: closing, pausing and unblocking them.

use super::Filter;
use crate::command::{Args, Context, Outcome};
use crate::error::ClientError;
use crate::server::pause::{Pause, PausePurpose};
use crate::session::ClientId;

/// The conditions of CLIENT LIST.
pub const LIST_SYNTAX: &str = "[TYPE <client-type@5.0.0: NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id@6.2.0 ...] [USER \
    username@8.1.0] [ADDR addr(ip:port)@8.1.0] [LADDR laddr(ip:port)@8.1.0] [SKIPME <skipme@8.1.0: YES | \
    NO>] [MAXAGE maxage:integer@8.1.0] [NAME name@9.0.0] [IDLE idle:integer@9.0.0] [FLAGS flags@9.0.0] \
    [LIB-NAME lib-name@9.0.0] [LIB-VER lib-ver@9.0.0] [DB db@9.0.0] [CAPA capa@9.0.0] [IP ip@9.0.0] \
    [NOT-TYPE <not-client-type@9.0.0: NORMAL | MASTER | REPLICA | PUBSUB>] [NOT-ID \
    not-client-id:integer@9.0.0 ...] [NOT-USER not-username@9.0.0] [NOT-ADDR not-addr(ip:port)@9.0.0] \
    [NOT-LADDR not-laddr(ip:port)@9.0.0] [NOT-NAME not-name@9.0.0] [NOT-FLAGS not-flags@9.0.0] \
    [NOT-LIB-NAME not-lib-name@9.0.0] [NOT-LIB-VER not-lib-ver@9.0.0] [NOT-DB not-db:integer@9.0.0] \
    [NOT-CAPA not-capa@9.0.0] [NOT-IP not-ip@9.0.0]";

/// An address alone, or conditions.
pub const KILL_SYNTAX: &str = "<filter: old-format(ip:port)!2.8.12 | <new-format: [ID client-id@2.8.12 ...] | [TYPE \
    <client-type@2.8.12: NORMAL | MASTER@3.2.0 | PRIMARY@8.0.0 | SLAVE | REPLICA@5.0.0 | PUBSUB>] | \
    [USER username] | [ADDR addr(ip:port)] | [LADDR laddr(ip:port)@6.2.0] | [SKIPME <skipme: YES | NO>] \
    | [MAXAGE maxage:integer@8.0.0] | [NAME name@9.0.0] | [IDLE idle:integer@9.0.0] | [FLAGS \
    flags@9.0.0] | [LIB-NAME lib-name@9.0.0] | [LIB-VER lib-ver@9.0.0] | [DB db@9.0.0] | [CAPA \
    capa@9.0.0] | [IP ip@9.0.0] | [NOT-TYPE <not-client-type@9.0.0: NORMAL | MASTER | PRIMARY | SLAVE | \
    REPLICA | PUBSUB>] | [NOT-ID not-client-id:integer@9.0.0 ...] | [NOT-USER not-username@9.0.0] | \
    [NOT-ADDR not-addr(ip:port)@9.0.0] | [NOT-LADDR not-laddr(ip:port)@9.0.0] | [NOT-NAME \
    not-name@9.0.0] | [NOT-FLAGS not-flags@9.0.0] | [NOT-LIB-NAME not-lib-name@9.0.0] | [NOT-LIB-VER \
    not-lib-ver@9.0.0] | [NOT-DB not-db:integer@9.0.0] | [NOT-CAPA not-capa@9.0.0] | [NOT-IP \
    not-ip@9.0.0]> ...>";

/// CLIENT KILL.
pub fn kill(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let old_form = args.len() == 3;
    let filter = if old_form { Filter::by_address(args.at(2)) } else { Filter::parse(ctx, args.from(2))? };
    let ids: Vec<ClientId> = filter.matching(ctx, !old_form).map(|client| client.id).collect();
    ctx.server.kill(&ids, ctx.client);
    match (old_form, ids.len()) {
        (true, 0) => return Err(ClientError::NoSuchClient),
        (true, _) => ctx.reply.ok(),
        (false, count) => ctx.reply.count(count),
    }
    Ok(())
}

/// CLIENT PAUSE.
pub fn pause(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let all = match () {
        () if args.len() == 3 || args.is(3, "ALL") => true,
        () if args.is(3, "WRITE") => false,
        () => return Err(ClientError::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    if args.len() > 4 {
        return Err(ClientError::Syntax);
    }
    let timeout_ms = wire::number::parse_i64(args.at(2)).ok_or(ClientError::TimeoutNotInteger)?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| ClientError::TimeoutNegative)?;
    let now = ctx.server.now;
    if now.unix_ms().checked_add_unsigned(timeout_ms).is_none() {
        return Err(ClientError::TimeoutOutOfRange);
    }
    let until_us = now.monotonic_us.saturating_add(timeout_ms.saturating_mul(1000));
    let pause = Pause { until_us, all };
    ctx.server.pauses.begin(PausePurpose::ClientCommand, pause, now.monotonic_us);
    ctx.reply.ok();
    Ok(())
}

/// CLIENT UNPAUSE.
pub fn unpause(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.server.pauses.end(PausePurpose::ClientCommand);
    ctx.reply.ok();
    Ok(())
}

/// CLIENT UNBLOCK.
pub fn unblock(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let with_error = match () {
        // With more arguments, all of them are ignored, the reason included.
        () if args.len() != 4 || args.is(3, "TIMEOUT") => false,
        () if args.is(3, "ERROR") => true,
        () => return Err(ClientError::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = args.integer(2)?;
    let unblocked = u64::try_from(id).is_ok_and(|id| ctx.server.unblock(ClientId(id), with_error));
    ctx.reply.integer(i64::from(unblocked));
    Ok(())
}
