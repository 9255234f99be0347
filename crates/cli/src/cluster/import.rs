//! `--cluster import`: moves or copies the keys of a server without a cluster to the nodes of one.

use client::{info_field, printable};
use structures::key_slot::{SLOTS, key_slot};
use wire::response::Value;

use super::check::Check;
use super::line::host_and_port;
use super::movement::credentials;
use super::nodes::{Cluster, Unreachable};
use super::{Access, Level, print};
use crate::Failure;
use crate::options::ClusterOptions;
use crate::program::Program;
use crate::session::Session;

/// COUNT of each SCAN of the source.
const SCAN_COUNT: &str = "1000";

/// A server whose keys are imported.
struct Source {
    session: Session,
    host: String,
    port: u16,
}

impl Source {
    /// Returns a reply; prints an error.
    fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, Failure> {
        match self.session.request(args)? {
            Value::Error(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                let text =
                    format!("Source {}:{} replied with error:\n{}", self.host, self.port, printable(&text));
                print(Level::Error, text);
                Err(Failure::Reported)
            }
            reply => Ok(reply),
        }
    }
}

/// The source's address: `--cluster-from` is needed here.
fn source_address(options: &ClusterOptions) -> Result<(String, u16), Failure> {
    let Some(from) = &options.cluster_from else {
        let text = "[ERR] Option '--cluster-from' is required for subcommand 'import'.";
        return Err(Failure::Usage(text.to_owned()));
    };
    match host_and_port(from) {
        Some((host, Some(port))) => Ok((host, port)),
        _ => {
            let text =
                "[ERR] Invalid --cluster-from host. You need to pass a valid address (ie. 120.0.0.1:7000).";
            Err(Failure::Usage(text.to_owned()))
        }
    }
}

/// The password of the source: from a prompt or the command line.
fn source_password(options: &ClusterOptions) -> Result<Option<String>, Failure> {
    if !options.cluster_from_askpass {
        return Ok(options.cluster_from_pass.clone());
    }
    let password = rpassword::prompt_password("Please input import source node password: ");
    password.map(Some).map_err(|error| Failure::Io("reading the password", error))
}

pub fn run(access: &Access, options: &ClusterOptions, host: &str, port: u16) -> Result<(), Failure> {
    let (source_host, source_port) = source_address(options)?;
    let password = source_password(options)?;
    let text = format!(">>> Importing data from {source_host}:{source_port} to cluster {host}:{port}");
    print(Level::Information, text);
    let mut cluster = Cluster::load(access, host, port, Unreachable::Skipped)?;
    Check::default().run(&mut cluster)?.require_sound()?;
    let user = options.cluster_from_user.clone();
    let source_access = Access { user, password, connect: access.connect.clone() };
    let session = source_access.connect(&source_host, source_port)?;
    let mut source = Source { session, host: source_host, port: source_port };
    let info = source.ask(&["INFO"])?;
    let info = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
    if info_field(&info, "cluster_enabled") == Some("1") {
        print(Level::Error, "[ERR] The source node should not be a cluster node.");
        return Err(Failure::Reported);
    }
    let count = if let Value::Integer(count) = source.ask(&["DBSIZE"])? { count } else { 0 };
    print(Level::Warning, format!("*** Importing {count} keys from DB 0"));
    let transfer = Transfer { access, options, owners: owners(&cluster), cluster: &cluster };
    transfer.all(&mut source).inspect_err(|_| {
        let program = Program::current().name;
        let text = format!(
            "*** Keys that were migrated are in the cluster. '{program} --cluster import' again takes the others{}.",
            if options.cluster_copy { "; with --cluster-replace also those that were copied" } else { "" }
        );
        print(Level::Warning, text);
    })
}

/// Returns the owner of each slot.
fn owners(cluster: &Cluster) -> Vec<Option<usize>> {
    let mut owners = vec![None; SLOTS];
    for node in cluster.primaries() {
        cluster.nodes[node].slots.iter().for_each(|slot| owners[*slot] = Some(node));
    }
    owners
}

/// Moves keys to the owners of their slots.
struct Transfer<'a> {
    access: &'a Access,
    options: &'a ClusterOptions,
    owners: Vec<Option<usize>>,
    cluster: &'a Cluster,
}

impl Transfer<'_> {
    fn all(&self, source: &mut Source) -> Result<(), Failure> {
        let mut cursor = b"0".to_vec();
        loop {
            let reply = source.ask(&[b"SCAN".as_slice(), &cursor, b"COUNT", SCAN_COUNT.as_bytes()])?;
            let Some([next, keys]) = reply.as_list() else {
                return Err(Failure::Reply("Error: invalid SCAN reply".to_owned()));
            };
            for key in keys.as_list().unwrap_or_default() {
                self.one(source, key.as_bytes().unwrap_or_default())?;
            }
            cursor = next.as_bytes().unwrap_or(b"0").to_vec();
            if cursor == b"0" {
                return Ok(());
            }
        }
    }

    fn one(&self, source: &mut Source, key: &[u8]) -> Result<(), Failure> {
        let slot = key_slot(key);
        let Some(target) = self.owners[usize::from(slot)].map(|node| &self.cluster.nodes[node]) else {
            print(Level::Error, format!("[ERR] Slot {slot} has no owner."));
            return Err(Failure::Reported);
        };
        print_text!("Migrating {} to {target}: ", printable(&String::from_utf8_lossy(key)));
        let (host, port) = target.address();
        let (port, timeout) = (port.to_string(), self.options.cluster_timeout.to_string());
        let mut request: Vec<&[u8]> =
            vec![b"MIGRATE", host.as_bytes(), port.as_bytes(), key, b"0", timeout.as_bytes()];
        request.extend(credentials(self.access.user.as_deref(), self.access.password.as_deref()));
        if self.options.cluster_copy {
            request.push(b"COPY");
        }
        if self.options.cluster_replace {
            request.push(b"REPLACE");
        }
        source.ask(&request).inspect_err(|_| print_line!(""))?;
        print(Level::Success, "OK");
        Ok(())
    }
}
