//! Client-side caching: CLIENT TRACKING and related commands.

use crate::command::{Args, Context, Outcome};
use crate::error::{ClientError, quoted};
use crate::session::ClientId;
use crate::session::tracking::Tracking;
use std::sync::Arc;

/// The arguments of CLIENT TRACKING.
pub const SYNTAX: &str =
    "<status: ON | OFF> [REDIRECT client-id] [PREFIX... prefix] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]";

/// CLIENT TRACKING.
pub fn tracking(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (tracking, prefixes) = parse(ctx, args)?;
    let turns_on = super::on_or_off(args, 2)?;
    if turns_on {
        refuse_what_contradicts(ctx, &tracking, &prefixes)?;
        let tracking = Tracking { prefixes: prefixes.into_iter().map(Arc::from).collect(), ..tracking };
        ctx.server.enable_tracking(ctx.client, tracking);
    } else {
        ctx.server.disable_tracking(ctx.client);
    }
    ctx.reply.ok();
    Ok(())
}

/// The options, and the prefixes in argument order.
fn parse<'a>(ctx: &Context<'_>, args: Args<'a>) -> Result<(Tracking, Vec<&'a [u8]>), ClientError> {
    let mut tracking = Tracking::default();
    let mut prefixes = Vec::new();
    let mut at = 3;
    while at < args.len() {
        let has_value = at + 1 < args.len();
        match () {
            () if args.is(at, "REDIRECT") && has_value => {
                at += 1;
                if tracking.redirect.is_some() {
                    return Err(ClientError::text("ERR A client can only redirect to a single other client"));
                }
                let target = connected_client(ctx, args, at)?;
                tracking.redirect = Some(target);
                tracking.redirect_user = ctx.server.redirect_user(ctx.client);
            }
            () if args.is(at, "PREFIX") && has_value => {
                at += 1;
                prefixes.push(args.at(at));
            }
            () if args.is(at, "BCAST") => tracking.broadcast = true,
            () if args.is(at, "OPTIN") => tracking.opt_in = true,
            () if args.is(at, "OPTOUT") => tracking.opt_out = true,
            () if args.is(at, "NOLOOP") => tracking.no_loop = true,
            () => return Err(ClientError::Syntax),
        }
        at += 1;
    }
    Ok((tracking, prefixes))
}

fn connected_client(ctx: &Context<'_>, args: Args<'_>, at: usize) -> Result<ClientId, ClientError> {
    let id = u64::try_from(args.integer(at)?).ok().map(ClientId);
    id.filter(|&id| ctx.server.may_redirect_to(ctx.client, id))
        .ok_or(ClientError::text("ERR The client ID you want redirect to does not exist"))
}

/// Refuses options that contradict each other or the client's current tracking mode.
fn refuse_what_contradicts(
    ctx: &Context<'_>,
    tracking: &Tracking,
    prefixes: &[&[u8]],
) -> Result<(), ClientError> {
    const BROADCAST_SWITCHED: ClientError = ClientError::text(
        "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
    );
    const OPTION_SWITCHED: ClientError = ClientError::text(
        "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
    );
    let current = ctx.server.clients[ctx.client].tracking.as_deref();
    if !tracking.broadcast && !prefixes.is_empty() {
        return Err(ClientError::text("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    if current.is_some_and(|current| current.broadcast != tracking.broadcast) {
        return Err(BROADCAST_SWITCHED);
    }
    if tracking.broadcast && (tracking.opt_in || tracking.opt_out) {
        return Err(ClientError::text("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if tracking.opt_in && tracking.opt_out {
        return Err(ClientError::text("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    if current.is_some_and(|c| tracking.opt_in && c.opt_out || tracking.opt_out && c.opt_in) {
        return Err(OPTION_SWITCHED);
    }
    refuse_overlaps(current, prefixes)
}

/// Refuses overlapping prefixes: a client must not get two invalidations of one key.
fn refuse_overlaps(current: Option<&Tracking>, prefixes: &[&[u8]]) -> Result<(), ClientError> {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let refusal = |prefix: &[u8], what: &str, other: &[u8]| {
        ClientError::formatted(format!(
            "ERR Prefix '{}' overlaps with {what} prefix '{}'. Prefixes for a single client must not overlap.",
            quoted(prefix),
            quoted(other)
        ))
    };
    for (at, prefix) in prefixes.iter().enumerate() {
        let mut existing = current.iter().flat_map(|current| &current.prefixes);
        if let Some(other) = existing.find(|other| overlap(prefix, other)) {
            return Err(refusal(prefix, "an existing", other));
        }
        if let Some(other) = prefixes[at + 1..].iter().find(|other| overlap(prefix, other)) {
            return Err(refusal(prefix, "another provided", other));
        }
    }
    Ok(())
}

/// CLIENT CACHING.
pub fn caching(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(tracking) = &mut ctx.server.clients[ctx.client].tracking else {
        return Err(ClientError::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match () {
        () if args.is(2, "YES") && !tracking.opt_in => Err(ClientError::text(
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        )),
        () if args.is(2, "NO") && !tracking.opt_out => Err(ClientError::text(
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        )),
        () if args.is(2, "YES") || args.is(2, "NO") => {
            tracking.caching_given = true;
            ctx.reply.ok();
            Ok(())
        }
        () => Err(ClientError::Syntax),
    }
}

/// CLIENT GETREDIR.
pub fn get_redirection(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.integer(ctx.server.clients[ctx.client].redirection());
    Ok(())
}

/// CLIENT TRACKINGINFO.
pub fn info(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let nothing = Tracking::default();
    let client = &ctx.server.clients[ctx.client];
    let current = client.tracking.as_deref();
    let tracking = current.unwrap_or(&nothing);
    let words = [
        (current.is_some(), "on"),
        (current.is_none(), "off"),
        (tracking.broadcast, "bcast"),
        (tracking.opt_in, "optin"),
        (tracking.opt_in && tracking.caching_given, "caching-yes"),
        (tracking.opt_out, "optout"),
        (tracking.opt_out && tracking.caching_given, "caching-no"),
        (tracking.no_loop, "noloop"),
        (tracking.broken_redirect, "broken_redirect"),
    ];
    let reply = &mut *ctx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(words.iter().filter(|(set, _)| *set).count());
    for (_, word) in words.iter().filter(|(set, _)| *set) {
        reply.bulk(word.as_bytes());
    }
    reply.bulk(b"redirect");
    reply.integer(client.redirection());
    reply.bulk(b"prefixes");
    reply.array(tracking.prefixes.len());
    for prefix in &tracking.prefixes {
        reply.bulk(prefix);
    }
    Ok(())
}
