//! CONFIG: reads and changes the configuration of the running server.

use crate::command::flag::{ADMIN, LOADING, NO_SCRIPT, STALE};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::config::{self, Change, Config, Directive, RewriteRequest, SetError, SetOrigin};
use crate::error::{ClientError, quoted};
use crate::server::{Loading, PreparedConfig, Server};

const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("config", -2, Group::Server, super::container)
    .since("2.0.0", "Depends on subcommand.")
    .doc("Reads and changes the configuration of the running server.", "")
    .subcommands(&[
        Command::new("config|get", -3, Group::Server, get)
            .flags(ADMIN | NO_SCRIPT | LOADING | STALE)
            .since("2.0.0", "O(N) where N is the number of configuration parameters provided")
            .doc("Returns options that match any of the patterns, with their values.", "parameter ...")
            .history(&[("7.0.0", "Several patterns at once.")]),
        Command::new("config|help", 2, Group::Server, super::help)
            .flags(LOADING | STALE)
            .since("5.0.0", "O(1)")
            .doc("Lists the subcommands.", ""),
        Command::new("config|resetstat", 2, Group::Server, reset_statistics)
            .flags(ADMIN | NO_SCRIPT | LOADING | STALE)
            .since("2.0.0", "O(1)")
            .doc("Resets the counters that INFO shows.", "")
            .tips(ALL_NODES),
        Command::new("config|rewrite", 2, Group::Server, rewrite)
            .flags(ADMIN | NO_SCRIPT | LOADING | STALE)
            .since("2.8.0", "O(1)")
            .doc("Writes the current configuration to the configuration file.", "")
            .tips(ALL_NODES),
        Command::new("config|set", -4, Group::Server, set)
            .flags(ADMIN | NO_SCRIPT | LOADING | STALE)
            .since("2.0.0", "O(N) where N is the number of configuration parameters provided")
            .doc("Changes options, all of them or none.", "<data: parameter value> ...")
            .history(&[("7.0.0", "Several options at once.")])
            .hides(sensitive_arguments)
            .tips(ALL_NODES),
    ])];

fn get(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let patterns: Vec<&[u8]> = args.from(2).iter().collect();
    let found = ctx.server.config.get(&patterns);
    ctx.reply.map(found.len());
    for (name, value) in found {
        ctx.reply.bulk(&name);
        ctx.reply.bulk(&value);
    }
    Ok(())
}

fn set(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() % 2 == 1 {
        return Err(ClientError::Syntax);
    }
    let words: Vec<&[u8]> = args.from(2).iter().collect();
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let server = &mut *ctx.server;
    let local = server.clients[ctx.client].connection.is_loopback;
    let loading = server.loading != Loading::Nothing;
    let name = server_name(&server.config);
    let prepared = server.config.prepare(&pairs, SetOrigin { loading, local });
    let (next, changes) = prepared.map_err(|error| refusal(&error, name))?;
    adopt(server, next, changes)?;
    ctx.reply.ok();
    Ok(())
}

fn refusal(error: &SetError, name: &str) -> ClientError {
    error.text().map_or_else(|| ClientError::loading(name), |text| ClientError::formatted(quoted(&text)))
}

/// Prepares a new configuration, which takes effect after the command, or refuses it, with nothing changed.
pub(super) fn adopt(server: &mut Server, next: Config, changes: Vec<Change>) -> Result<(), ClientError> {
    let name = server_name(&server.config);
    let prepared = server.process_settings.prepare(&server.config, &next, &changes);
    let settings = prepared.map_err(|error| refusal(&error, name))?;
    server.prepared_config = Some(Box::new(PreparedConfig { config: next, changes, settings }));
    Ok(())
}

fn server_name(config: &Config) -> &'static str {
    if config.extended_redis_compatibility { "Redis" } else { "Valkey" }
}

fn rewrite(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    rewrite_file(ctx)?;
    ctx.reply.ok();
    Ok(())
}

/// Writes the options in force to the configuration file.
pub(super) fn rewrite_file(ctx: &Context<'_>) -> Outcome {
    let users: Vec<Vec<u8>> = ctx.server.users.iter().map(crate::acl::User::config_line).collect();
    let rules = ctx.server.rules();
    let users_of = |lines: &[&Directive]| {
        crate::acl::file::configured_users(lines.iter().map(|line| &line.words[1..]), rules)
    };
    let request =
        RewriteRequest { users: Some(&users), users_of: Some(&users_of), ..RewriteRequest::default() };
    // In a cluster the primary is in the file of nodes.
    let of_cluster =
        ctx.server.cluster.is_some().then(|| Config { replicaof: None, ..ctx.server.config.clone() });
    match of_cluster.as_ref().unwrap_or(&ctx.server.config).rewrite(request) {
        Ok(()) => {
            log::info!("CONFIG REWRITE executed with success.");
            Ok(())
        }
        Err(error) => {
            log::warn!("CONFIG REWRITE failed: {error}");
            Err(ClientError::formatted(error.text()))
        }
    }
}

fn reset_statistics(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.server.observed.reset();
    if let Some(node) = &mut ctx.server.cluster {
        node.reset_statistics();
    }
    ctx.db.figures = crate::db::DbFigures::default();
    if let Some(queues) = ctx.db.access.queues_mut() {
        queues.reset_counters();
    }
    ctx.server.scripts.evicted = 0;
    ctx.reply.ok();
    Ok(())
}

/// The positions of arguments that must not be shown: values of sensitive options in CONFIG SET.
fn sensitive_arguments(args: Args<'_>) -> Vec<usize> {
    (2..args.len().saturating_sub(1))
        .step_by(2)
        .filter(|&at| config::is_sensitive(&args[at]))
        .map(|at| at + 1)
        .collect()
}
