//! ACL: users, their rules, and the log of refusals.

mod describe;

use crate::acl::{ArgumentError, Call, is_word};
use crate::command::flag::{ADMIN, LOADING, NO_SCRIPT, STALE};
use crate::command::{Args, Command, Context, Flags, Group, Next, Outcome, category};
use crate::error::{ClientError, quoted};
use crate::server::PersistRequest;
use wire::convert::unsigned_len;

const ASKS: Flags = NO_SCRIPT | LOADING | STALE;
const ON_ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const MANAGES: Flags = ADMIN | NO_SCRIPT | LOADING | STALE;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("acl", -2, Group::Server, super::container)
    .since("6.0.0", "Depends on subcommand.")
    .doc("Shows and changes users and their permissions.", "")
    .subcommands(SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::new("acl|cat", -2, Group::Server, cat)
        .flags(ASKS)
        .since("6.0.0", "O(1) since the categories and commands are a fixed set.")
        .doc("Lists the categories of commands, or the commands in one category.", "[category]"),
    Command::new("acl|deluser", -3, Group::Server, delete_users)
        .flags(MANAGES)
        .since("6.0.0", "O(1) amortized, for a typical user.")
        .doc("Deletes users and closes their connections.", "username ...")
        .tips(ON_ALL_NODES)
        .hides(all_but_subcommand),
    Command::new("acl|dryrun", -4, Group::Server, dry_run)
        .flags(MANAGES)
        .since("7.0.0", "O(1).")
        .doc("Checks whether a user may run a command, without running it.", "username command [arg ...]"),
    Command::new("acl|genpass", -2, Group::Server, generate_password)
        .flags(ASKS)
        .since("6.0.0", "O(1)")
        .doc("Generates a random password.", "[bits:integer]"),
    Command::new("acl|getuser", 3, Group::Server, describe::get_user)
        .flags(MANAGES)
        .since(
            "6.0.0",
            "O(N) where N is the number of password, command and pattern rules that the user has.",
        )
        .doc("Returns a user's rules.", "username")
        .history(&[
            ("6.2.0", "Channels are shown."),
            ("7.0.0", "Selectors; patterns are shown as rules."),
            ("9.1.0", "Databases are shown."),
        ])
        .hides(all_but_subcommand),
    Command::new("acl|help", 2, Group::Server, super::help)
        .flags(LOADING | STALE)
        .since("6.0.0", "O(1)")
        .doc("Lists the subcommands.", ""),
    Command::new("acl|list", 2, Group::Server, describe::list)
        .flags(MANAGES)
        .since("6.0.0", "O(N) where N is the number of configured users.")
        .doc("Lists all users with their rules.", ""),
    Command::new("acl|load", 2, Group::Server, |ctx, _| of_file(ctx, PersistRequest::LoadUsers))
        .flags(MANAGES)
        .since("6.0.0", "O(N) where N is the number of configured users.")
        .doc("Reloads all users from the ACL file.", ""),
    Command::new("acl|log", -2, Group::Server, describe::log)
        .flags(MANAGES)
        .since("6.0.0", "O(N) where N is the number of entries returned.")
        .doc("Lists recent denials, or clears the list.", "[operation: count:integer | RESET]")
        .history(&[("7.2.0", "Ids, creation and update times of entries.")]),
    Command::new("acl|save", 2, Group::Server, |ctx, _| of_file(ctx, PersistRequest::SaveUsers))
        .flags(MANAGES)
        .since("6.0.0", "O(N) where N is the number of configured users.")
        .doc("Saves all users to the ACL file.", "")
        .tips(ON_ALL_NODES),
    Command::new("acl|setuser", -3, Group::Server, set_user)
        .flags(MANAGES)
        .since("6.0.0", "O(N) where N is the number of rules provided.")
        .doc("Creates or changes a user.", "username [rule ...]")
        .history(&[
            ("6.2.0", "Rules for channels."),
            ("7.0.0", "Selectors, and key permissions for reading and writing."),
            ("9.1.0", "Rules for databases."),
        ])
        .tips(ON_ALL_NODES)
        .hides(all_but_subcommand),
    Command::new("acl|users", 2, Group::Server, describe::users)
        .flags(MANAGES)
        .since("6.0.0", "O(N) where N is the number of configured users.")
        .doc("Lists the names of all users.", ""),
    Command::new("acl|whoami", 2, Group::Server, who_am_i)
        .flags(ASKS)
        .since("6.0.0", "O(1)")
        .doc("Returns the user that the connection is authenticated as.", ""),
];

fn all_but_subcommand(args: Args<'_>) -> Vec<usize> {
    (2..args.len()).collect()
}

/// Refuses too many arguments of a subcommand, because its row's arity is only a minimum.
fn at_most(args: Args<'_>, count: usize) -> Result<(), ClientError> {
    if args.len() <= count {
        return Ok(());
    }
    Err(ClientError::SubcommandSyntax { command: "ACL", subcommand: quoted(args.at(1)) })
}

fn who_am_i(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let user = ctx.server.clients[ctx.client].user();
    ctx.reply.bulk(ctx.server.users.name(user));
    Ok(())
}

fn set_user(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let name = args.at(2);
    if !is_word(name) {
        return Err(ClientError::text("ERR Usernames can't contain spaces or null characters"));
    }
    let rules: Vec<&[u8]> = args.from(3).iter().collect();
    let changed = ctx.server.set_user(name, &rules).map_err(refusal)?;
    ctx.server.close_listeners(&changed, Some(ctx.client));
    ctx.reply.ok();
    Ok(())
}

fn refusal(error: ArgumentError) -> ClientError {
    ClientError::formatted(match error {
        ArgumentError::Rule { rule, error } => {
            format!("ERR Error in ACL SETUSER modifier '{}': {error}", quoted(&rule))
        }
        ArgumentError::Unmatched { rule, .. } => {
            format!("ERR Unmatched parenthesis in acl selector starting at '{}'.", quoted(&rule))
        }
        ArgumentError::TooManyUsers => "ERR There are too many users".to_owned(),
    })
}

fn delete_users(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let names = args.from(2);
    if names.iter().any(|name| name == b"default") {
        return Err(ClientError::text("ERR The 'default' user cannot be removed"));
    }
    let mut removed = 0;
    for name in names.iter() {
        if let Some(user) = ctx.server.users.remove(name) {
            ctx.server.close_clients_of(user, Some(ctx.client));
            removed += 1;
        }
    }
    ctx.reply.integer(removed);
    Ok(())
}

fn of_file(ctx: &mut Context<'_>, request: PersistRequest) -> Outcome {
    if ctx.server.config.aclfile.is_empty() {
        return Err(ClientError::text(
            "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the configuration.",
        ));
    }
    ctx.next = Next::Persist(request);
    Ok(())
}

fn dry_run(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let server = &*ctx.server;
    let Some(user) = server.users.named(args.at(2)) else {
        return Err(ClientError::formatted(format!("ERR User '{}' not found", quoted(args.at(2)))));
    };
    let args = args.from(3);
    let Ok(id) = server.registry.find(args) else {
        return Err(ClientError::formatted(format!("ERR Command '{}' not found", quoted(args.at(0)))));
    };
    let row = server.registry.row(id);
    if !row.accepts(args.len()) {
        return Err(ClientError::WrongArity { command: row.name.to_owned() });
    }
    let db_index = server.clients[ctx.client].db_index;
    let database_count = ctx.db.database_count();
    let call = Call { id, row, args, db_index, database_count };
    match server.users.check(user, &call) {
        Ok(()) => ctx.reply.ok(),
        Err(denied) => ctx.reply.bulk(&denied.text(server.users.name(user), row, args, true)),
    }
    Ok(())
}

/// The maximum length of a password of ACL GENPASS.
const PASSWORD_BITS_MAX: i64 = 4096;

fn generate_password(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    at_most(args, 3)?;
    let bits = if args.len() == 3 { args.integer(2)? } else { 256 };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(ClientError::formatted(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {PASSWORD_BITS_MAX}"
        )));
    }
    let digits = unsigned_len(bits).div_ceil(4);
    ctx.reply.bulk(ctx.server.users.generator.digits(digits).as_bytes());
    Ok(())
}

fn cat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    at_most(args, 3)?;
    if args.len() == 2 {
        ctx.reply.array(category::NAMES.len());
        category::NAMES.iter().for_each(|name| ctx.reply.bulk(name.as_bytes()));
        return Ok(());
    }
    let wanted = quoted(args.at(2));
    let known = category::NAMES.iter().find(|name| name.eq_ignore_ascii_case(&wanted));
    let Some(known) = known else {
        let shown: String = wanted.chars().take(128).collect();
        return Err(ClientError::formatted(format!("ERR Unknown category '{shown}'")));
    };
    let rows = ctx.server.registry.iter().map(|(_, row)| row);
    let names: Vec<&str> = rows.filter(|row| category::contains(row, known)).map(|row| row.name).collect();
    ctx.reply.array(names.len());
    names.iter().for_each(|name| ctx.reply.bulk(name.as_bytes()));
    Ok(())
}
