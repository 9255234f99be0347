//! `--cluster`: commands for all nodes of a cluster, without those that change the assignment of slots.

mod backup;
mod check;
mod nodes;

use std::fmt::Display;
use std::path::Path;

use client::{Address, ConnectSettings};
use wire::response::Value;

use crate::Failure;
use crate::format::{self, Style};
use crate::options::Options;
use crate::program::{Program, has_colors};
use crate::session::{Session, Settings};
use nodes::{Cluster, Node};

const SLOTS: usize = 16384;
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

const COMMANDS: [ClusterCommand; 6] = [
    ClusterCommand { name: "check", arity: -1, arguments: ANY_NODE, options: &["search-multiple-owners"] },
    ClusterCommand { name: "info", arity: -1, arguments: ANY_NODE, options: &[] },
    ClusterCommand {
        name: "call",
        arity: -2,
        arguments: "host:port command arg arg .. arg",
        options: &["only-primaries", "only-replicas"],
    },
    ClusterCommand { name: "set-timeout", arity: 2, arguments: "host:port milliseconds", options: &[] },
    ClusterCommand { name: "backup", arity: 2, arguments: "host:port backup_directory", options: &[] },
    ClusterCommand { name: "help", arity: 0, arguments: "", options: &[] },
];

/// Commands of other clients that move slots or nodes.
const CHANGES: [&str; 7] = ["create", "fix", "reshard", "rebalance", "add-node", "del-node", "import"];

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
    fn connect(&self, host: &str, port: u16) -> Result<Session, Failure> {
        let settings = Settings {
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
        };
        let mut session = Session::new(settings, Address::Tcp(host.to_owned(), port), 0);
        session.connect()?;
        Ok(session)
    }
}

/// Runs a command; `words` are its name and arguments.
pub fn run(options: &Options, settings: &Settings, words: &[String]) -> Result<(), Failure> {
    let [name, given @ ..] = words else { return Err(Failure::Usage("Unknown --cluster subcommand".into())) };
    // Arguments may also follow the options.
    let given = if given.is_empty() { &options.command } else { given };
    if CHANGES.contains(&name.as_str()) {
        return Err(Failure::Usage(format!(
            "[ERR] {} does not support --cluster {name}: it changes no cluster",
            Program::current().name
        )));
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Err(Failure::Usage("Unknown --cluster subcommand".to_owned()));
    };
    let count = given.len() as i64;
    if (command.arity > 0 && count != command.arity) || (command.arity < 0 && count < -command.arity) {
        let text = "[ERR] Wrong number of arguments for specified --cluster sub command";
        return Err(Failure::Usage(text.to_owned()));
    }
    if name == "help" {
        print_text!("{}", help());
        return Ok(());
    }
    let access = Access {
        user: settings.user.clone(),
        password: settings.password.clone(),
        connect: settings.connect.clone(),
    };
    let (host, port) = match (name.as_str(), given) {
        ("check" | "info", [host, port, ..]) => (host.clone(), port.parse().ok()),
        (_, [address, ..]) => nodes::host_and_port(address).unwrap_or_default(),
        (_, []) => (String::new(), None),
    };
    let Some(port) = port else {
        return Err(Failure::Usage(
            "[ERR] Invalid arguments: you need to pass either a valid address (ie. 120.0.0.1:7000) or space separated IP \
             and port (ie. 120.0.0.1 7000)"
                .to_owned(),
        ));
    };
    if name == "set-timeout" {
        return set_timeout(&access, &host, port, &given[1]);
    }
    let mut cluster = Cluster::load(&access, &host, port)?;
    match name.as_str() {
        "info" => show(&mut cluster),
        "check" => {
            show(&mut cluster)?;
            check::run(&mut cluster, options.cluster_options.cluster_search_multiple_owners)
        }
        "backup" => backup::run(&mut cluster, Path::new(&given[1])),
        _ => {
            call(&mut cluster, options, &given[1..]);
            Ok(())
        }
    }
}

fn help() -> String {
    let mut out = "Cluster Manager Commands:\n".to_owned();
    for command in &COMMANDS {
        out += &format!("  {:<15}{}\n", command.name, command.arguments);
        for option in command.options {
            out += &format!("{:15}  --cluster-{option}\n", "");
        }
    }
    out + "\nFor check, info, call, set-timeout and backup you can specify the host and port of any working node in the cluster.\n\n"
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
    let mut cluster = Cluster::load(access, host, port)?;
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
