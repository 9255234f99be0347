//! ACL: what clients ask about users. There is one, `default`, who may do everything; its password is the
//! option `requirepass`.

use crate::command::flag::{ADMIN, LOADING, NO_SCRIPT, STALE};
use crate::command::{Args, Command, Context, Flags, Group, Outcome, category};
use crate::error::{ClientError, quoted};

const ASKS: Flags = NO_SCRIPT | LOADING | STALE;
const ON_ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const MANAGES: Flags = ADMIN | NO_SCRIPT | LOADING | STALE;

pub const COMMANDS: &[Command] = &[Command::new("acl", -2, Group::Server, super::container)
    .since("6.0.0", "Depends on subcommand.")
    .doc("Tells who may do what.", "")
    .subcommands(&[
        Command::new("acl|cat", -2, Group::Server, cat)
            .flags(ASKS)
            .since("6.0.0", "O(1) since the categories and commands are a fixed set.")
            .doc("Lists the categories, or the commands of one.", "[category]"),
        Command::new("acl|deluser", -3, Group::Server, unavailable)
            .flags(MANAGES)
            .since("6.0.0", "O(1) amortized time considering the typical user.")
            .doc("Removes users.", "username ...")
            .tips(ON_ALL_NODES)
            .hides(all_but_subcommand),
        Command::new("acl|getuser", 3, Group::Server, get_user)
            .flags(MANAGES)
            .since(
                "6.0.0",
                "O(N). Where N is the number of password, command and pattern rules that the user has.",
            )
            .doc("Tells what a user may do.", "username")
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
        Command::new("acl|list", 2, Group::Server, list)
            .flags(MANAGES)
            .since("6.0.0", "O(N). Where N is the number of configured users.")
            .doc("Lists all users with their rules.", ""),
        Command::new("acl|setuser", -3, Group::Server, unavailable)
            .flags(MANAGES)
            .since("6.0.0", "O(N). Where N is the number of rules provided.")
            .doc("Makes or changes a user.", "username [rule ...]")
            .history(&[
                ("6.2.0", "Rules for channels."),
                ("7.0.0", "Selectors, and rules for keys by what is done to them."),
                ("9.1.0", "Rules for databases."),
            ])
            .tips(ON_ALL_NODES)
            .hides(all_but_subcommand),
        Command::new("acl|users", 2, Group::Server, users)
            .flags(MANAGES)
            .since("6.0.0", "O(N). Where N is the number of configured users.")
            .doc("Lists the names of all users.", ""),
        Command::new("acl|whoami", 2, Group::Server, who_am_i)
            .flags(ASKS)
            .since("6.0.0", "O(1)")
            .doc("Names the user that the connection has authenticated as.", ""),
    ])];

fn all_but_subcommand(args: Args<'_>) -> Vec<usize> {
    (2..args.len()).collect()
}

fn unavailable(_ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    Err(ClientError::text(
        "ERR Users other than 'default' do not exist in this version; set its password with CONFIG SET requirepass",
    ))
}

fn who_am_i(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let client = &ctx.server.clients[ctx.client];
    ctx.reply.bulk(&client.user);
    Ok(())
}

fn users(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.array(1);
    ctx.reply.bulk(b"default");
    Ok(())
}

fn list(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let password = match password_digest(ctx) {
        Some(digest) => format!("#{digest}"),
        None => "nopass".to_owned(),
    };
    ctx.reply.array(1);
    ctx.reply.bulk(format!("user default on {password} ~* &* +@all").as_bytes());
    Ok(())
}

/// Passwords are shown as SHA-256, as the rules for users spell them.
fn password_digest(ctx: &Context<'_>) -> Option<String> {
    use sha2::{Digest, Sha256};
    let password = ctx.server.config.requirepass.as_ref()?;
    Some(Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn get_user(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.at(2) != b"default" {
        ctx.reply.null();
        return Ok(());
    }
    let digest = password_digest(ctx);
    let reply = &mut *ctx.reply;
    reply.map(7);
    reply.bulk(b"flags");
    reply.set(if digest.is_some() { 1 } else { 2 });
    reply.bulk(b"on");
    if digest.is_none() {
        reply.bulk(b"nopass");
    }
    reply.bulk(b"passwords");
    reply.array(digest.iter().len());
    digest.iter().for_each(|digest| reply.bulk(digest.as_bytes()));
    for (name, rules) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*"), ("databases", "alldbs")]
    {
        reply.bulk(name.as_bytes());
        reply.bulk(rules.as_bytes());
    }
    reply.bulk(b"selectors");
    reply.array(0);
    Ok(())
}

fn cat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match args.len() {
        2 => {
            ctx.reply.array(category::NAMES.len());
            category::NAMES.iter().for_each(|name| ctx.reply.bulk(name.as_bytes()));
        }
        3 => {
            let wanted = quoted(args.at(2));
            let known = category::NAMES.iter().find(|name| name.eq_ignore_ascii_case(&wanted));
            let Some(known) = known else {
                return Err(ClientError::formatted(format!("ERR Unknown category '{wanted}'")));
            };
            let rows = ctx.server.registry.iter().map(|(_, row)| row);
            let names: Vec<&str> =
                rows.filter(|row| category::contains(row, known)).map(|row| row.name).collect();
            ctx.reply.array(names.len());
            names.iter().for_each(|name| ctx.reply.bulk(name.as_bytes()));
        }
        _ => {
            return Err(ClientError::SubcommandSyntax { command: "ACL", subcommand: quoted(args.at(1)) });
        }
    }
    Ok(())
}
