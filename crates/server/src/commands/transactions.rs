//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use crate::command::flag::{ALLOW_BUSY, FAST, LOADING, NO_MULTI, NO_SCRIPT, SKIP_COMMANDLOG, STALE};
use crate::command::{Args, Command, Context, Control, Group, KeySpec, Next, Outcome, access};
use crate::error::ClientError;
use crate::session::client::Transaction;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("discard", 1, Group::Transactions, discard)
        .flags(NO_SCRIPT | LOADING | STALE | FAST | ALLOW_BUSY)
        .control(Control::DropsTransaction)
        .since("2.0.0", "O(N) where N is the number of queued commands")
        .doc("Discards a transaction.", ""),
    Command::new("exec", 1, Group::Transactions, exec)
        .flags(NO_SCRIPT | LOADING | STALE | SKIP_COMMANDLOG)
        .control(Control::RunsTransaction)
        .since("1.2.0", "Depends on the commands in the transaction")
        .doc("Runs all queued commands of a transaction.", ""),
    Command::new("multi", 1, Group::Transactions, multi)
        .flags(NO_SCRIPT | LOADING | STALE | FAST | ALLOW_BUSY | NO_MULTI)
        .control(Control::OpensTransaction)
        .since("1.2.0", "O(1)")
        .doc("Starts a transaction; further commands are queued until EXEC.", ""),
    Command::new("unwatch", 1, Group::Transactions, unwatch)
        .flags(NO_SCRIPT | LOADING | STALE | FAST | ALLOW_BUSY)
        .since("2.2.0", "O(1)")
        .doc("Stops watching all keys.", ""),
    Command::new("watch", -2, Group::Transactions, watch)
        .flags(NO_SCRIPT | LOADING | STALE | FAST | ALLOW_BUSY | NO_MULTI)
        .keys(&[KeySpec::range(1, -1, 1, access::RO)])
        .since("2.2.0", "O(1) for each key")
        .doc("Watches keys; the next transaction runs only if none of them has changed.", "key ..."),
];

fn multi(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let client = &mut ctx.server.clients[ctx.client];
    let transaction = Transaction { db_index: client.db_index, ..Transaction::default() };
    client.transaction = Some(Box::new(transaction));
    ctx.reply.ok();
    Ok(())
}

fn discard(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let server = &mut *ctx.server;
    if server.clients[ctx.client].transaction.take().is_none() {
        return Err(ClientError::DiscardWithoutMulti);
    }
    server.unwatch_all(ctx.client);
    ctx.reply.ok();
    Ok(())
}

fn exec(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let server = &mut *ctx.server;
    let client = &server.clients[ctx.client];
    let Some(transaction) = &client.transaction else { return Err(ClientError::ExecWithoutMulti) };
    let aborted = transaction.aborted;
    let watch = &server.watch;
    let expired = client.watched.iter().any(|watched| {
        ctx.db.is_stored_expired(watched.db_index, ctx.db.key(&watched.key))
            && !watch.watches_stale_key(ctx.client, watched)
    });
    if !aborted && !client.watch_broken && !expired {
        ctx.next = Next::RunTransaction;
        return Ok(());
    }
    server.clients[ctx.client].transaction = None;
    server.unwatch_all(ctx.client);
    if aborted {
        return Err(ClientError::ExecAborted);
    }
    ctx.reply.null_array();
    Ok(())
}

fn watch(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let server = &mut *ctx.server;
    // EXEC will reply null in any case, so further changes do not matter.
    if !server.clients[ctx.client].watch_broken {
        let db_index = server.clients[ctx.client].db_index;
        for key in args.from(1).keys() {
            let is_stale = ctx.db.is_stored_expired(db_index, key);
            server.watch_key(ctx.client, db_index, key.bytes(), is_stale);
        }
    }
    ctx.reply.ok();
    Ok(())
}

fn unwatch(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let server = &mut *ctx.server;
    server.unwatch_all(ctx.client);
    ctx.reply.ok();
    Ok(())
}
