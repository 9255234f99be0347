//! `--cluster`: commands for all nodes of a cluster, and those that make and change one.
//!
//! 1. `line` is a line of CLUSTER NODES, `nodes` the nodes with their connections, `plan` computes where slots go.
//! 2. `check` finds faults, `fix` mends them; `movement` moves slots, `atomic` lets the nodes do it.
//! 3. `create`, `reshard`, `membership` and `import` are the commands; `join` is how nodes come to know each other.

mod atomic;
mod backup;
mod check;
mod create;
mod fix;
mod import;
mod join;
mod line;
mod membership;
mod movement;
mod nodes;
mod plan;
mod questions;
mod reshard;

use std::fmt::Display;
use std::path::Path;

use client::{Address, ConnectSettings};
use structures::key_slot::SLOTS;
use wire::response::Value;

use crate::Failure;
use crate::format::{self, Style};
use crate::options::{ClusterOptions, Options};
use crate::program::has_colors;
use crate::session::{Session, Settings};
use check::{Check, Fix};
use movement::Movement;
use nodes::{Cluster, Node, Unreachable};

/// Shorter node timeouts treat any pause as a failure.
const NODE_TIMEOUT_MS_MIN: u64 = 100;

const ANY_NODE: &str = "<host:port> or <host> <port> - separated by either colon or space";

struct ClusterCommand {
    name: &'static str,
    /// The exact number, or the minimum if negative.
    arity: i64,
    arguments: &'static str,
    options: &'static [&'static str],
}

const COMMANDS: [ClusterCommand; 13] = [
    ClusterCommand {
        name: "create",
        arity: -1,
        arguments: "host1:port1 ... hostN:portN",
        options: &["replicas <arg>"],
    },
    ClusterCommand { name: "check", arity: -1, arguments: ANY_NODE, options: &["search-multiple-owners"] },
    ClusterCommand { name: "info", arity: -1, arguments: ANY_NODE, options: &[] },
    ClusterCommand {
        name: "fix",
        arity: -1,
        arguments: ANY_NODE,
        options: &["search-multiple-owners", "fix-with-unreachable-primaries"],
    },
    ClusterCommand {
        name: "reshard",
        arity: -1,
        arguments: ANY_NODE,
        options: &[
            "from <arg>",
            "to <arg>",
            "slots <arg>",
            "yes",
            "timeout <arg>",
            "pipeline <arg>",
            "replace",
            "use-atomic-slot-migration",
        ],
    },
    ClusterCommand {
        name: "rebalance",
        arity: -1,
        arguments: ANY_NODE,
        options: &[
            "weight <node1=w1...nodeN=wN>",
            "use-empty-primaries",
            "timeout <arg>",
            "simulate",
            "pipeline <arg>",
            "threshold <arg>",
            "replace",
            "use-atomic-slot-migration",
        ],
    },
    ClusterCommand {
        name: "add-node",
        arity: 2,
        arguments: "new_host:new_port existing_host:existing_port",
        options: &["replica", "primaries-id <arg>"],
    },
    ClusterCommand { name: "del-node", arity: 2, arguments: "host:port node_id", options: &[] },
    ClusterCommand {
        name: "call",
        arity: -2,
        arguments: "host:port command arg arg .. arg",
        options: &["only-primaries", "only-replicas"],
    },
    ClusterCommand { name: "set-timeout", arity: 2, arguments: "host:port milliseconds", options: &[] },
    ClusterCommand {
        name: "import",
        arity: 1,
        arguments: "host:port",
        options: &["from <arg>", "from-user <arg>", "from-pass <arg>", "from-askpass", "copy", "replace"],
    },
    ClusterCommand { name: "backup", arity: 2, arguments: "host:port backup_directory", options: &[] },
    ClusterCommand { name: "help", arity: 0, arguments: "", options: &[] },
];

/// The severity of a line.
#[derive(Clone, Copy)]
enum Level {
    Information,
    Warning,
    Error,
    Success,
}

fn print(level: Level, text: impl Display) {
    let color = match level {
        Level::Information => "29;1m",
        Level::Warning => "33;1m",
        Level::Error => "31;1m",
        Level::Success => "32;1m",
    };
    if has_colors() { print_line!("\x1b[{color}{text}\x1b[0m") } else { print_line!("{text}") }
}

/// Settings of the connections to all nodes.
struct Access {
    user: Option<String>,
    password: Option<String>,
    connect: ConnectSettings,
}

impl Access {
    fn settings(&self) -> Settings {
        Settings {
            user: self.user.clone(),
            password: self.password.clone(),
            connect: self.connect.clone(),
            resp3: false,
            resp3_is_optional: false,
            follow_redirections: false,
            show_pushes: false,
            errors_to_caller: false,
            interactive: false,
            interval: None,
            style: Style::raw(),
            is_colored: false,
            uses_pager: false,
        }
    }

    fn connect(&self, host: &str, port: u16) -> Result<Session, Failure> {
        let mut session = self.session(host, port);
        session.connect()?;
        Ok(session)
    }

    /// A session that is not connected yet.
    fn session(&self, host: &str, port: u16) -> Session {
        Session::new(self.settings(), Address::Tcp(host.to_owned(), port), 0)
    }
}

/// Runs a command; `words` are its name and arguments.
pub fn run(options: &Options, settings: &Settings, words: &[String]) -> Result<(), Failure> {
    let [name, given @ ..] = words else { return Err(Failure::Usage("Unknown --cluster subcommand".into())) };
    // Arguments may also follow the options.
    let given = if given.is_empty() { &options.command } else { given };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Err(Failure::Usage("Unknown --cluster subcommand".to_owned()));
    };
    let count = given.len() as i64;
    if (command.arity > 0 && count != command.arity) || (command.arity < 0 && count < -command.arity) {
        let text = "[ERR] Wrong number of arguments for specified --cluster sub command";
        return Err(Failure::Usage(text.to_owned()));
    }
    let access = Access {
        user: settings.user.clone(),
        password: settings.password.clone(),
        connect: settings.connect.clone(),
    };
    match name.as_str() {
        "help" => {
            print_text!("{}", help());
            Ok(())
        }
        "create" => create::run(&access, &options.cluster_options, given),
        "add-node" => {
            let (host, port) = place(&given[..1])?;
            let (known_host, known_port) = place(&given[1..])?;
            membership::add(&access, &options.cluster_options, (&host, port), (&known_host, known_port))
        }
        _ => run_at(&access, options, name, given),
    }
}

/// Parses `host:port`, or a host and a port.
fn place(words: &[String]) -> Result<(String, u16), Failure> {
    let place = match words {
        [host, port, ..] => Some((host.clone(), port.parse().ok())),
        [address] => line::host_and_port(address),
        [] => None,
    };
    let Some((host, Some(port))) = place else {
        let text = "[ERR] Invalid arguments: you need to pass either a valid address (ie. 120.0.0.1:7000) or space \
                    separated IP and port (ie. 120.0.0.1 7000)";
        return Err(Failure::Usage(text.to_owned()));
    };
    Ok((host, port))
}

/// Runs a command that starts at one node of the cluster.
fn run_at(access: &Access, options: &Options, name: &str, given: &[String]) -> Result<(), Failure> {
    let takes_two_words = ["check", "info", "fix", "reshard", "rebalance"].contains(&name);
    let (host, port) = place(if takes_two_words { given } else { &given[..1] })?;
    let cluster_options = &options.cluster_options;
    match name {
        "set-timeout" => return set_timeout(access, &host, port, &given[1]),
        "import" => return import::run(access, cluster_options, &host, port),
        "del-node" => return membership::remove(access, (&host, port), &given[1]),
        _ => {}
    }
    let mut cluster = Cluster::load(access, &host, port, Unreachable::Skipped)?;
    let mut movement = Movement::new(access, cluster_options, format!("{host}:{port}"));
    match name {
        "info" => show(&mut cluster),
        "check" => check(&mut cluster, cluster_options, None),
        "fix" => {
            movement.fixes = true;
            movement.heed_interrupts()?;
            check(&mut cluster, cluster_options, Some(&movement))?;
            join::settle(&mut cluster);
            Ok(())
        }
        "reshard" | "rebalance" => {
            match name {
                "reshard" => reshard::run(&mut cluster, cluster_options, &movement)?,
                _ => reshard::rebalance(&mut cluster, cluster_options, &movement, options.verbose)?,
            }
            join::settle(&mut cluster);
            Ok(())
        }
        "backup" => backup::run(&mut cluster, Path::new(&given[1])),
        _ => {
            call(&mut cluster, options, &given[1..]);
            Ok(())
        }
    }
}

fn check(
    cluster: &mut Cluster,
    options: &ClusterOptions,
    movement: Option<&Movement>,
) -> Result<(), Failure> {
    show(cluster)?;
    let ignores_unreachable_primaries = options.cluster_fix_with_unreachable_primaries;
    let check = Check {
        is_quiet: false,
        searches_multiple_owners: options.cluster_search_multiple_owners,
        fix: movement.map(|movement| Fix { movement, ignores_unreachable_primaries }),
    };
    check.run(cluster)?.require_sound()
}

fn help() -> String {
    let mut out = "Cluster Manager Commands:\n".to_owned();
    for command in &COMMANDS {
        out += &format!("  {:<15}{}\n", command.name, command.arguments);
        for option in command.options {
            out += &format!("{:15}  --cluster-{option}\n", "");
        }
    }
    out + "\nFor check, fix, reshard, del-node, set-timeout, info, rebalance, call, import, backup you can specify the host and \
           port of any working node in the cluster.\n\nCluster Manager Options:\n  --cluster-yes  Automatic yes to cluster \
           commands prompts\n\n"
}

/// Prints keys, slots and replicas of each primary.
fn show(cluster: &mut Cluster) -> Result<(), Failure> {
    let replicated: Vec<String> = cluster.nodes.iter().filter_map(|node| node.replicates.clone()).collect();
    let (mut primaries, mut keys) = (0, 0);
    for node in cluster.nodes.iter_mut().filter(|node| node.replicates.is_none()) {
        let count = match node.session.request(&["DBSIZE"])? {
            Value::Integer(count) => count,
            other => {
                let text = String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned();
                return Err(Failure::Reply(format!("Node {node} replied with error:\n{text}")));
            }
        };
        let replicas = replicated.iter().filter(|id| **id == node.id).count();
        let (id, slots) = (node.id.get(..8).unwrap_or(&node.id), node.slots.len());
        print_line!("{node} ({id}...) -> {count} keys | {slots} slots | {replicas} replicas.");
        primaries += 1;
        keys = i64::saturating_add(keys, count);
    }
    print(Level::Success, format!("[OK] {keys} keys in {primaries} primaries."));
    print_line!("{:.2} keys per slot on average.", keys as f64 / SLOTS as f64);
    Ok(())
}

fn call(cluster: &mut Cluster, options: &Options, command: &[String]) {
    print(Level::Information, format!(">>> Calling {}", command.join(" ")));
    let is_wanted = |node: &Node| {
        let is_primary = node.replicates.is_none();
        !(options.cluster_options.cluster_only_primaries && !is_primary
            || options.cluster_options.cluster_only_replicas && is_primary)
    };
    for node in cluster.nodes.iter_mut().filter(|node| is_wanted(node)) {
        match node.session.request(command) {
            Ok(reply) => {
                let text = format::reply(&reply, &Style::raw(), true, false);
                print_line!("{node}: {}", String::from_utf8_lossy(&text));
            }
            Err(_) => print_line!("{node}: Failed!"),
        }
    }
}

fn set_timeout(access: &Access, host: &str, port: u16, milliseconds: &str) -> Result<(), Failure> {
    if milliseconds.parse().is_ok_and(|number: u64| number < NODE_TIMEOUT_MS_MIN) {
        let text = "Setting a node timeout of less than 100 milliseconds is a bad idea.";
        return Err(Failure::Usage(text.to_owned()));
    }
    let mut cluster = Cluster::load(access, host, port, Unreachable::Skipped)?;
    print(Level::Information, ">>> Reconfiguring node timeout in every cluster node...");
    let (mut done, mut failed) = (0, 0);
    for node in &mut cluster.nodes {
        let steps: [&[&str]; 2] =
            [&["CONFIG", "SET", "cluster-node-timeout", milliseconds], &["CONFIG", "REWRITE"]];
        let error = steps.iter().find_map(|step| match node.session.request(step) {
            Ok(reply) if reply.is_error() => {
                Some(String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned())
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        });
        match error {
            None => {
                print(Level::Warning, format!("*** New timeout set for {node}"));
                done += 1;
            }
            Some(text) => {
                print(Level::Error, format!("ERR setting node-timeout for {node}: {text}"));
                failed += 1;
            }
        }
    }
    print(Level::Information, format!(">>> New node timeout set. {done} OK, {failed} ERR."));
    Ok(())
}
