//! Channels: SUBSCRIBE, PUBLISH and similar commands.

use crate::command::flag::{FAST, LOADING, MAY_REPLICATE, NO_SCRIPT, PUBSUB, STALE, WHILE_SUBSCRIBED};
use crate::command::scope::Channels;
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::error::{ClientError, quoted};
use crate::session::ReplyMode;
use crate::session::pubsub::Kind;
use wire::reply::ReplyBuffer;

const SUBSCRIBING: u32 = PUBSUB | NO_SCRIPT | LOADING | STALE | WHILE_SUBSCRIBED;
const PUBLISHING: u32 = PUBSUB | LOADING | STALE | FAST | MAY_REPLICATE;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("psubscribe", -2, Group::PubSub, psubscribe)
        .flags(SUBSCRIBING)
        .channels(Channels::Patterns)
        .since("2.0.0", "O(N) where N is the number of patterns to subscribe to.")
        .doc("Subscribes to channels by patterns.", "pattern ..."),
    Command::new("publish", 3, Group::PubSub, publish)
        .flags(PUBLISHING)
        .channels(Channels::First)
        .since(
            "2.0.0",
            "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
        )
        .doc("Publishes a message to a channel.", "channel message"),
    Command::new("pubsub", -2, Group::PubSub, super::container)
        .since("2.8.0", "Depends on subcommand.")
        .doc("Shows subscriptions.", "")
        .subcommands(SUBCOMMANDS),
    Command::new("punsubscribe", -1, Group::PubSub, punsubscribe)
        .flags(SUBSCRIBING)
        .since("2.0.0", "O(N) where N is the number of patterns to unsubscribe.")
        .doc("Unsubscribes from patterns, or from all patterns.", "[pattern ...]"),
    Command::new("spublish", 3, Group::PubSub, spublish)
        .flags(PUBLISHING)
        .channels(Channels::First)
        .keys(&[KeySpec::one(1, access::NOT_KEY)])
        .since("7.0.0", "O(N) where N is the number of clients subscribed to the receiving shard channel.")
        .doc("Publishes a message to a shard channel.", "shardchannel message"),
    Command::new("ssubscribe", -2, Group::PubSub, ssubscribe)
        .flags(SUBSCRIBING)
        .channels(Channels::All)
        .keys(&[KeySpec::range(1, -1, 1, access::NOT_KEY)])
        .since("7.0.0", "O(N) where N is the number of shard channels to subscribe to.")
        .doc("Subscribes to shard channels.", "shardchannel ..."),
    Command::new("subscribe", -2, Group::PubSub, subscribe)
        .flags(SUBSCRIBING)
        .channels(Channels::All)
        .since("2.0.0", "O(N) where N is the number of channels to subscribe to.")
        .doc("Subscribes to channels.", "channel ..."),
    Command::new("sunsubscribe", -1, Group::PubSub, sunsubscribe)
        .flags(SUBSCRIBING)
        .keys(&[KeySpec::range(1, -1, 1, access::NOT_KEY)])
        .since("7.0.0", "O(N) where N is the number of shard channels to unsubscribe.")
        .doc("Unsubscribes from shard channels, or from all of them.", "[shardchannel ...]"),
    Command::new("unsubscribe", -1, Group::PubSub, unsubscribe)
        .flags(SUBSCRIBING)
        .since("2.0.0", "O(N) where N is the number of channels to unsubscribe.")
        .doc("Unsubscribes from channels, or from all of them.", "[channel ...]"),
];

const SUBCOMMANDS: &[Command] = &[
    Command::new("pubsub|channels", -2, Group::PubSub, channels)
        .flags(PUBSUB | LOADING | STALE)
        .since(
            "2.8.0",
            "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)",
        )
        .doc("Lists channels with subscribers.", "[pattern]"),
    Command::new("pubsub|help", 2, Group::PubSub, super::help)
        .flags(LOADING | STALE)
        .since("6.2.0", "O(1)")
        .doc("Lists the subcommands.", ""),
    Command::new("pubsub|numpat", 2, Group::PubSub, pattern_count)
        .flags(PUBSUB | LOADING | STALE)
        .since("2.8.0", "O(1)")
        .doc("Returns the number of subscribed patterns.", ""),
    Command::new("pubsub|numsub", -2, Group::PubSub, listener_counts)
        .flags(PUBSUB | LOADING | STALE)
        .since("2.8.0", "O(N) for the NUMSUB subcommand, where N is the number of requested channels")
        .doc("Returns the number of subscribers of channels, without patterns.", "[channel ...]"),
    Command::new("pubsub|shardchannels", -2, Group::PubSub, shard_channels)
        .flags(PUBSUB | LOADING | STALE)
        .since(
            "7.0.0",
            "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).",
        )
        .doc("Lists shard channels with subscribers.", "[pattern]"),
    Command::new("pubsub|shardnumsub", -2, Group::PubSub, shard_listener_counts)
        .flags(PUBSUB | LOADING | STALE)
        .since(
            "7.0.0",
            "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
        )
        .doc("Returns the number of subscribers of shard channels.", "[shardchannel ...]"),
];

fn subscribe(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    begin(ctx, args, Kind::Channel, "subscribe");
    Ok(())
}

fn psubscribe(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    begin(ctx, args, Kind::Pattern, "psubscribe");
    Ok(())
}

/// Refused in a transaction, as in the reference, which permits the other two there.
fn ssubscribe(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !ctx.may_block() {
        return Err(ClientError::text("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    begin(ctx, args, Kind::ShardChannel, "ssubscribe");
    Ok(())
}

fn unsubscribe(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    end(ctx, args, Kind::Channel, "unsubscribe");
    Ok(())
}

fn punsubscribe(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    end(ctx, args, Kind::Pattern, "punsubscribe");
    Ok(())
}

fn sunsubscribe(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    end(ctx, args, Kind::ShardChannel, "sunsubscribe");
    Ok(())
}

fn begin(ctx: &mut Context<'_>, args: Args<'_>, kind: Kind, word: &str) {
    for name in args.from(1).iter() {
        ctx.server.subscribe(ctx.client, kind, name);
        confirm(ctx, kind, word, Some(name));
    }
}

fn end(ctx: &mut Context<'_>, args: Args<'_>, kind: Kind, word: &str) {
    let all: Vec<_>;
    let names: Vec<&[u8]> = if args.len() > 1 {
        args.from(1).iter().collect()
    } else {
        all = ctx.server.clients[ctx.client].subscriptions.of(kind).iter().cloned().collect();
        all.iter().map(|name| &**name).collect()
    };
    for name in &names {
        ctx.server.unsubscribe(ctx.client, kind, name);
        confirm(ctx, kind, word, Some(name));
    }
    if names.is_empty() {
        confirm(ctx, kind, word, None);
    }
}

/// Confirms a subscription change to the client. This is a message rather than a reply: CLIENT REPLY OFF does not suppress it.
fn confirm(ctx: &mut Context<'_>, kind: Kind, word: &str, name: Option<&[u8]>) {
    let subscriptions = &ctx.server.clients[ctx.client].subscriptions;
    let count = match kind {
        Kind::ShardChannel => subscriptions.shard_channels.len(),
        Kind::Channel | Kind::Pattern => subscriptions.count(),
    };
    let write = |reply: &mut ReplyBuffer| {
        reply.push(3);
        reply.bulk(word.as_bytes());
        reply.bulk_or_null(name);
        reply.count(count);
    };
    if ctx.server.clients[ctx.client].reply_mode == ReplyMode::On {
        write(ctx.reply);
    } else {
        ctx.server.clients.push(ctx.client, write);
    }
}

fn publish(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let receivers = ctx.server.publish(args.at(1), args.at(2));
    propagate(ctx, args, false);
    ctx.reply.count(receivers);
    Ok(())
}

/// Sends the message to replicas, or to the other nodes of a cluster, for their clients; it is not part of the data.
fn propagate(ctx: &mut Context<'_>, args: Args<'_>, is_sharded: bool) {
    if let Some(node) = &mut ctx.server.cluster {
        return node.view.publish(args.at(1), args.at(2), is_sharded);
    }
    let db_index = ctx.db.selected();
    ctx.db.change_log.propagate_to_replicas(db_index, args.iter());
}

fn spublish(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let receivers = ctx.server.publish_to_shard(args.at(1), args.at(2));
    propagate(ctx, args, true);
    ctx.reply.count(receivers);
    Ok(())
}

fn channels(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    list_names(ctx, args, Kind::Channel)
}

fn shard_channels(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    list_names(ctx, args, Kind::ShardChannel)
}

fn list_names(ctx: &mut Context<'_>, args: Args<'_>, kind: Kind) -> Outcome {
    if args.len() > 3 {
        let subcommand = quoted(args.at(1));
        return Err(ClientError::SubcommandSyntax { command: "PUBSUB", subcommand });
    }
    let names = ctx.server.pubsub.listeners(kind).keys();
    let pattern = args.get(2);
    let mark = ctx.reply.begin_array();
    let mut count = 0;
    for name in names.filter(|name| pattern.is_none_or(|pattern| wire::glob::matches(pattern, name))) {
        ctx.reply.bulk(name);
        count += 1;
    }
    ctx.reply.end_array(mark, count);
    Ok(())
}

fn pattern_count(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.count(ctx.server.pubsub.listeners(Kind::Pattern).len());
    Ok(())
}

fn listener_counts(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    count_listeners(ctx, args, Kind::Channel);
    Ok(())
}

fn shard_listener_counts(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    count_listeners(ctx, args, Kind::ShardChannel);
    Ok(())
}

fn count_listeners(ctx: &mut Context<'_>, args: Args<'_>, kind: Kind) {
    let names = args.from(2);
    ctx.reply.array(names.len() * 2);
    for name in names.iter() {
        ctx.reply.bulk(name);
        ctx.reply.count(ctx.server.pubsub.listener_count(kind, name));
    }
}
