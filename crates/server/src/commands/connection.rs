//! The connection: PING, HELLO, AUTH, SELECT and similar commands.

use crate::acl::{DenialContext, UserHandle};
use crate::command::flag::{ALLOW_BUSY, FAST, LOADING, NO_AUTH, NO_SCRIPT, STALE, WHILE_SUBSCRIBED};
use crate::command::scope::Databases;
use crate::command::{Args, Command, Context, Control, Group, Outcome};
use crate::db::strings::NewText;
use crate::error::{ClientError, quoted};
use crate::session::ReplyMode;
use wire::reply::Protocol;

/// The Redis version whose features clients can rely on.
pub const COMPATIBLE_VERSION: &str = "7.2.4";

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("auth", -2, Group::Connection, auth)
        .flags(NO_SCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY)
        .since("1.0.0", "O(N) where N is the number of passwords defined for the user")
        .doc("Authenticates the connection.", "[username@6.0.0] password")
        .history(&[("6.0.0", "A user name is accepted too.")])
        .hides(|args| (1..args.len()).collect()),
    Command::new("echo", 2, Group::Connection, echo)
        .flags(LOADING | STALE | FAST)
        .since("1.0.0", "O(1)")
        .doc("Returns the given message.", "message"),
    Command::new("hello", -1, Group::Connection, hello)
        .flags(NO_SCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY)
        .since("6.0.0", "O(1)")
        .doc(
            "Negotiates the protocol version and returns server information.",
            "[arguments: protover:integer [AUTH <auth: username password>] [SETNAME clientname]]",
        )
        .history(&[
            ("8.1.0", "Tells the availability zone, if one is configured."),
            ("6.2.0", "Without `protover`, tells of the connection as it is."),
        ])
        .hides(hello_secrets),
    Command::new("ping", -1, Group::Connection, ping)
        .flags(FAST | WHILE_SUBSCRIBED)
        .control(Control::Ping)
        .since("1.0.0", "O(1)")
        .doc("Returns PONG, or the given message.", "[message]")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Command::new("quit", -1, Group::Connection, quit)
        .flags(NO_SCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY | WHILE_SUBSCRIBED)
        .control(Control::EndsSession)
        .since("1.0.0", "O(1)")
        .doc("Closes the connection after all replies are sent.", ""),
    Command::new("reset", 1, Group::Connection, reset)
        .flags(NO_SCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY | WHILE_SUBSCRIBED)
        .control(Control::EndsSession)
        .since("6.2.0", "O(1)")
        .doc("Resets the connection to its initial state.", ""),
    Command::new("select", 2, Group::Connection, select)
        .databases(Databases::Named(|_| vec![1]))
        .flags(LOADING | STALE | FAST | ALLOW_BUSY)
        .control(Control::SelectsDatabase)
        .since("1.0.0", "O(1)")
        .doc("Selects the database of the connection.", "index"),
];

fn ping(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 2 {
        return Err(ClientError::WrongArity { command: "ping".into() });
    }
    if ctx.server.clients[ctx.client].in_subscribed_context() {
        ctx.reply.array(2);
        ctx.reply.bulk(b"pong");
        ctx.reply.bulk(args.get(1).unwrap_or_default());
        return Ok(());
    }
    if args.len() == 2 {
        return echo(ctx, args);
    }
    ctx.reply.simple("PONG");
    Ok(())
}

/// A long message has its own buffer, to which the reply can refer.
fn echo(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match args.text(1) {
        NewText::Bytes(message) => ctx.reply.bulk(message),
        NewText::Shared(message) => ctx.reply.bulk_shared(message),
    }
    Ok(())
}

fn select(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let index = usize::try_from(args.integer_32(1)?).ok().filter(|&index| index < ctx.db.database_count());
    ctx.server.clients[ctx.client].db_index = index.ok_or(ClientError::DbIndexOutOfRange)?;
    ctx.reply.ok();
    Ok(())
}

fn quit(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.server.clients[ctx.client].close_after_reply = true;
    ctx.reply.ok();
    Ok(())
}

fn auth(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 {
        return Err(ClientError::Syntax);
    }
    if args.len() == 2 && ctx.server.users.default_needs_no_password() {
        return Err(ClientError::NoPasswordSet);
    }
    let user = if args.len() == 3 { args.at(1) } else { b"default" };
    authenticate(ctx, (user, args.at(args.len() - 1)), args)?;
    ctx.reply.ok();
    Ok(())
}

/// Authenticates the client as the user of that name, if the password is correct.
fn authenticate(
    ctx: &mut Context<'_>,
    credentials: (&[u8], &[u8]),
    args: Args<'_>,
) -> Result<(), ClientError> {
    let context = if ctx.origin.in_transaction { DenialContext::Multi } else { DenialContext::TopLevel };
    ctx.server.authenticate(ctx.client, credentials, context, args)
}

/// Names and passwords in HELLO: of several AUTH options the last one applies, and all are secret.
fn hello_secrets(args: Args<'_>) -> Vec<usize> {
    let (mut hidden, mut at) = (Vec::new(), 2);
    while at < args.len() {
        if args.is(at, "AUTH") {
            hidden.extend([at + 1, at + 2]);
            at += 2;
        } else if args.is(at, "SETNAME") {
            at += 1;
        }
        at += 1;
    }
    hidden
}

fn hello(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let protocol = match args.get(1) {
        None => None,
        Some(word) => match wire::number::parse_i64(word) {
            Some(2) => Some(Protocol::Resp2),
            Some(3) => Some(Protocol::Resp3),
            Some(_) => return Err(ClientError::NoProtocol),
            None => {
                return Err(ClientError::text("ERR Protocol version is not an integer or out of range"));
            }
        },
    };
    let mut name = None;
    let mut credentials = None;
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        if args.is(at, "AUTH") && left >= 2 {
            credentials = Some((args.at(at + 1), args.at(at + 2)));
            at += 3;
        } else if args.is(at, "SETNAME") && left >= 1 {
            super::connection::check_name(args.at(at + 1), "Client names")?;
            name = Some(args.at(at + 1));
            at += 2;
        } else {
            let option = quoted(args.at(at));
            return Err(ClientError::formatted(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some(credentials) = credentials {
        authenticate(ctx, credentials, args)?;
    }
    if !ctx.server.clients[ctx.client].authenticated {
        return Err(ClientError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        ctx.server.clients[ctx.client].name = name.to_vec();
    }
    if let Some(protocol) = protocol {
        speak(ctx, protocol);
    }
    introduce(ctx);
    Ok(())
}

/// Switches the protocol of the current reply and of later messages.
fn speak(ctx: &mut Context<'_>, protocol: Protocol) {
    ctx.reply.protocol = protocol;
    ctx.server.clients[ctx.client].output.protocol = protocol;
}

fn introduce(ctx: &mut Context<'_>) {
    let id = ctx.server.clients[ctx.client].id.0;
    let config = &ctx.server.config;
    let (server, version): (&[u8], _) = match config.extended_redis_compatibility {
        true => (b"redis", COMPATIBLE_VERSION),
        false => (b"valkey", super::info::VALKEY_VERSION),
    };
    let zone = &config.availability_zone;
    let mode: &[u8] = if ctx.server.cluster.is_some() { b"cluster" } else { b"standalone" };
    let role: &[u8] = if ctx.server.config.replicaof.is_some() { b"replica" } else { b"master" };
    let reply = &mut *ctx.reply;
    let protocol = if reply.protocol == Protocol::Resp3 { 3 } else { 2 };
    reply.map(7 + usize::from(!zone.is_empty()));
    reply.bulk(b"server");
    reply.bulk(server);
    reply.bulk(b"version");
    reply.bulk(version.as_bytes());
    reply.bulk(b"proto");
    reply.integer(protocol);
    reply.bulk(b"id");
    reply.count(id);
    reply.bulk(b"mode");
    reply.bulk(mode);
    reply.bulk(b"role");
    reply.bulk(role);
    reply.bulk(b"modules");
    super::modules::reply_modules(reply);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone);
    }
}

/// Names of clients and libraries must not contain spaces: they are shown in lines of space-separated words.
pub fn check_name(name: &[u8], what: &str) -> Result<(), ClientError> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(ClientError::formatted(format!("ERR {what} cannot contain spaces, newlines or special characters.")))
}

fn reset(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    reset_client(ctx);
    speak(ctx, Protocol::Resp2);
    ctx.reply.simple("RESET");
    Ok(())
}

fn reset_client(ctx: &mut Context<'_>) {
    let server = &mut *ctx.server;
    server.unwatch_all(ctx.client);
    server.unsubscribe_all(ctx.client);
    server.disable_tracking(ctx.client);
    let client = &mut server.clients[ctx.client];
    client.transaction = None;
    client.db_index = 0;
    client.name.clear();
    // The reply of RESET itself can be the one that is skipped.
    if client.reply_mode != ReplyMode::Skip {
        client.reply_mode = ReplyMode::On;
    }
    client.is_monitor = false;
    client.no_evict = false;
    client.no_touch = false;
    client.routing.reads_replicas = false;
    client.routing.asking = 0;
    client.import_source = false;
    client.authenticated = server.users.default_is_open();
    server.clients.set_user(ctx.client, UserHandle::DEFAULT);
}
