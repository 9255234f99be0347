//! POLICY: changes single rules of `key-policy`, and shows the settings that apply to a key.

use super::config::adopt;
use super::memory::prefixes::{sums, write_sums};
use crate::command::flag::{ADMIN, LOADING, NO_SCRIPT, READONLY, STALE};
use crate::command::{Args, Command, Context, Flags, Group, KeySpec, Outcome, access};
use crate::config::key_policy::{self, KeyPolicy};
use crate::config::{Change, OptionId};
use crate::db::accounts::Respect;
use crate::db::accounts::classes::Ruled;
use crate::error::{ClientError, quoted};

const FLAGS: Flags = ADMIN | NO_SCRIPT | LOADING | STALE;
const LOOKS: [KeySpec; 1] = [KeySpec::one(2, access::RO)];
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("policy", -2, Group::Server, super::container)
    .since("9.1.0", "Depends on subcommand.")
    .doc("Shows and changes the rules that set options for families of keys.", "")
    .subcommands(&[
        Command::new("policy|del", -3, Group::Server, del)
            .flags(FLAGS)
            .since("9.1.0", "O(N) where N is the number of rules")
            .doc("Deletes rules and returns how many existed.", "glob ...")
            .tips(ALL_NODES),
        Command::new("policy|explain", 3, Group::Server, explain)
            .flags(READONLY | ADMIN | NO_SCRIPT)
            .keys(&LOOKS)
            .since("9.1.0", "O(N) where N is the number of rules, and of pages or nodes of the value")
            .doc(
                "Returns the rule that applies to a key, its settings, and the key's present encoding.",
                "key",
            ),
        Command::new("policy|help", 2, Group::Server, super::help)
            .flags(LOADING | STALE)
            .since("9.1.0", "O(1)")
            .doc("Lists the subcommands.", ""),
        Command::new("policy|list", 2, Group::Server, list)
            .flags(FLAGS)
            .since("9.1.0", "O(N) where N is the number of rules")
            .doc("Returns all rules in order of evaluation.", ""),
        Command::new("policy|set", -5, Group::Server, set)
            .flags(FLAGS)
            .since("9.1.0", "O(N) where N is the number of rules")
            .doc(
                "Adds a rule, last or before another, or changes the rule with this glob.",
                "glob <data: setting value> ... [BEFORE index]",
            )
            .tips(ALL_NODES),
        Command::new("policy|stats", 2, Group::Server, stats)
            .flags(FLAGS)
            .since("9.1.0", "O(N) where N is the number of rules")
            .doc(
                "Tells of each rule how many keys it has, what they take and what compression saves; the first call begins \
                    to count them.",
                "",
            ),
    ])];

fn refused(reason: &str) -> ClientError {
    ClientError::formatted(format!("ERR {}", quoted(reason.as_bytes())))
}

/// Applies other rules, as CONFIG SET does.
fn replace(ctx: &mut Context<'_>, rules: Vec<KeyPolicy>) -> Result<(), ClientError> {
    let mut next = ctx.server.config.clone();
    next.key_policy = rules;
    adopt(ctx.server, next, vec![Change { option: OptionId::key_policy, name: "key-policy" }])
}

fn set(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let has_place = args.len() >= 7 && args.is(args.len() - 2, "BEFORE");
    let words: Vec<&[u8]> = args.from(2).iter().take(args.len() - if has_place { 4 } else { 2 }).collect();
    let rule = KeyPolicy::parse(&words).map_err(|reason| refused(&reason))?;
    let mut rules = ctx.server.config.key_policy.clone();
    let before = match has_place {
        false => None,
        true => {
            let no_rule = ClientError::formatted(format!("ERR there are {} rules", rules.len()));
            let index = args.integer_in(args.len() - 1, 0, i64::MAX, no_rule)?;
            Some(usize::try_from(index).unwrap_or(usize::MAX))
        }
    };
    key_policy::put(&mut rules, rule, before).map_err(|reason| refused(&reason))?;
    replace(ctx, rules)?;
    ctx.reply.ok();
    Ok(())
}

fn del(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut rules = ctx.server.config.key_policy.clone();
    let removed = args.from(2).iter().filter(|glob| key_policy::remove(&mut rules, glob)).count();
    if removed > 0 {
        replace(ctx, rules)?;
    }
    ctx.reply.count(removed);
    Ok(())
}

fn list(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let (rules, reply) = (&ctx.server.config.key_policy, &mut *ctx.reply);
    reply.array(rules.len());
    for (index, rule) in rules.iter().enumerate() {
        reply.map(3);
        reply.bulk(b"index");
        reply.count(index);
        reply.bulk(b"glob");
        reply.bulk(&rule.glob);
        reply.bulk(b"settings");
        reply.map(rule.settings().len());
        for (name, value) in rule.settings() {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
    }
    Ok(())
}

fn stats(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.db.count_policies();
    let (tallies, is_exact) = ctx.db.tallies(Respect::Policy).unwrap_or_default();
    let (rules, reply) = (&ctx.server.config.key_policy, &mut *ctx.reply);
    reply.array(rules.len());
    for (index, rule) in rules.iter().enumerate() {
        let tally = tallies.get(&Ruled::name_of(index)).cloned().unwrap_or_default();
        let figures = ctx.db.compression_figures(index);
        let figures = [
            ("keys", tally.keys()),
            ("bytes", tally.bytes()),
            ("compressed-values", figures.values),
            ("compressed-plain-bytes", figures.plain_bytes),
            ("compressed-stored-bytes", figures.stored_bytes),
            ("saved-bytes", figures.plain_bytes.saturating_sub(figures.stored_bytes)),
            ("compression-refused", figures.refused),
            ("dictionary-version", figures.version.into()),
            ("dictionary-bytes", figures.dictionary_bytes),
        ];
        reply.map(5 + figures.len());
        reply.bulk(b"index");
        reply.count(index);
        reply.bulk(b"glob");
        reply.bulk(&rule.glob);
        for (name, value) in figures {
            reply.bulk(name.as_bytes());
            reply.count(value);
        }
        reply.bulk(b"types");
        write_sums(reply, &sums(&tally, |cell| cell.kind.name()));
        reply.bulk(b"encodings");
        write_sums(reply, &sums(&tally, |cell| cell.encoding));
        reply.bulk(b"state");
        reply.bulk(if is_exact { b"exact" } else { b"counting" });
    }
    Ok(())
}

/// Explains why this rule, or none, applies to the key.
fn reason(rules: &[KeyPolicy], key: &[u8], rule: Option<usize>) -> String {
    let Some(rule) = rule else {
        return "no rule's glob matches: the server's options apply".to_owned();
    };
    let matching: Vec<usize> =
        (rule + 1..rules.len()).filter(|index| wire::glob::matches(&rules[*index].glob, key)).collect();
    match matching.as_slice() {
        [] => "the only rule whose glob matches".to_owned(),
        [second, ..] => format!(
            "the first of {} rules whose globs match; the next would be rule {second}",
            matching.len() + 1
        ),
    }
}

fn explain(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, config) = (args.key(2), &ctx.server.config);
    let rule = ctx.db.policies.of_key(key.bytes()).rule;
    let settings = key_policy::in_force(config, rule);
    let kept = ctx.db.find(key).map(|value| {
        let structure = value.layout().structure;
        (value.kind().name(), value.encoding_name(), structure, value.elements(), value.memory_bytes())
    });
    let reply = &mut *ctx.reply;
    reply.map(match &kept {
        None => 6,
        Some((.., elements, _)) => 9 + usize::from(elements.is_some()),
    });
    reply.bulk(b"rule");
    match rule {
        None => reply.null(),
        Some(rule) => reply.count(rule),
    }
    reply.bulk(b"glob");
    match rule {
        None => reply.null(),
        Some(rule) => reply.bulk(&config.key_policy[rule].glob),
    }
    reply.bulk(b"why");
    reply.bulk(reason(&config.key_policy, key.bytes(), rule).as_bytes());
    reply.bulk(b"settings");
    reply.map(settings.len());
    for (name, value) in settings {
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
    let names = rule.iter().flat_map(|rule| config.key_policy[*rule].settings()).map(|(name, _)| name);
    reply.bulk(b"of-rule");
    reply.array(names.clone().count());
    names.for_each(|name| reply.bulk(name.as_bytes()));
    reply.bulk(b"type");
    let Some((kind, encoding, structure, elements, bytes)) = kept else {
        reply.bulk(b"none");
        return Ok(());
    };
    reply.bulk(kind.as_bytes());
    reply.bulk(b"encoding");
    reply.bulk(encoding.as_bytes());
    reply.bulk(b"structure");
    reply.bulk(structure.as_bytes());
    if let Some(elements) = elements {
        reply.bulk(b"elements");
        reply.count(elements);
    }
    reply.bulk(b"bytes");
    reply.count(bytes);
    Ok(())
}
