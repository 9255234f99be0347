//! Moves slots with their keys from one node to another.
//!
//! A slot is opened (importing at the target, then migrating at the source), its keys are sent by MIGRATE, and the target is
//! the first to learn that it is the new owner: whatever node fails, the slot has an owner, and each key is at one of the two
//! nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::printable;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use wire::response::Value;

use super::nodes::{Cluster, NodeError, ranges};
use super::{Access, Level, atomic, print};
use crate::Failure;
use crate::options::ClusterOptions;
use crate::program::Program;

/// By how much longer than others keys may take that have exceeded the timeout together.
const LONGER: u64 = 10;

/// How long a node may be without the cluster's service: longer than new and returning primaries wait.
const DOWN_POLLS_MAX: usize = 150;
const DOWN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The answers to SETSLOT of a source that became a replica when it lost its last slot.
const DEMOTED: [&str; 4] = [
    "ERR Please use SETSLOT only with masters.",
    "ERR Please use SETSLOT only with primaries.",
    "UNBLOCKED",
    "NOREPLICAS",
];

/// How slots are moved.
pub struct Movement {
    user: Option<String>,
    password: Option<String>,
    timeout_ms: u64,
    pipeline: usize,
    /// Whether keys that exist at the target with another value are replaced.
    replaces: bool,
    /// Whether a slot without an owner is given to the target.
    pub fixes: bool,
    is_atomic: bool,
    /// Set by Ctrl-C; no further slot is moved.
    is_interrupted: Arc<AtomicBool>,
    /// A node of the cluster, for advice.
    address: String,
}

/// A slot and its way.
#[derive(Clone, Copy)]
pub struct Way {
    pub source: usize,
    pub target: usize,
    pub slot: usize,
}

/// What is printed while slots move.
#[derive(Clone, Copy, PartialEq)]
pub enum Progress {
    /// A line for each slot with a dot for each key, and a mark when it has moved.
    Keys,
    /// The mark alone.
    Slots,
}

/// Slots of one source, and what the plan calls them.
pub struct Batch {
    pub source: usize,
    pub target: usize,
    pub slots: Vec<usize>,
}

/// Keys of one slot that are sent together.
struct Parcel<'a> {
    way: Way,
    database: u32,
    keys: &'a [Value],
    timeout_ms: u64,
}

impl Movement {
    pub fn new(access: &Access, options: &ClusterOptions, address: String) -> Movement {
        Movement {
            user: access.user.clone(),
            password: access.password.clone(),
            timeout_ms: options.cluster_timeout,
            pipeline: options.cluster_pipeline,
            replaces: options.cluster_replace,
            fixes: false,
            is_atomic: options.cluster_use_atomic_slot_migration,
            is_interrupted: Arc::default(),
            address,
        }
    }

    /// From now on Ctrl-C ends the work after the slot that moves; once more, it ends the program.
    pub fn heed_interrupts(&self) -> Result<(), Failure> {
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 1, Arc::clone(&self.is_interrupted))
                .and_then(|_| flag::register(signal, Arc::clone(&self.is_interrupted)))
                .map_err(|error| Failure::Io("preparing for Ctrl-C", error))?;
        }
        Ok(())
    }

    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    /// Fails if Ctrl-C was pressed; called before each slot.
    pub fn stop_if_interrupted(&self, slot: usize) -> Result<(), Failure> {
        if self.is_interrupted() {
            print(Level::Warning, format!("*** Interrupted before slot {slot}."));
            return Err(Failure::Reported);
        }
        Ok(())
    }

    /// Moves the slots of a batch. One at a time, prints how many were moved if one fails.
    pub fn move_batch(
        &self,
        cluster: &mut Cluster,
        batch: &Batch,
        progress: Progress,
    ) -> Result<(), Failure> {
        let Batch { source, target, slots } = batch;
        if self.is_atomic {
            let ranges = ranges(slots);
            atomic::migrate(self, cluster, (*source, *target), &ranges, progress)?;
            print_text!("{}", "#".repeat(slots.len()));
        } else {
            for (done, &slot) in slots.iter().enumerate() {
                let way = Way { source: *source, target: *target, slot };
                let outcome = if self.is_interrupted() {
                    let text = format!("\n*** Interrupted before slot {slot}; no slot is left open.");
                    print(Level::Warning, text);
                    Err(Failure::Reported)
                } else {
                    self.move_slot(cluster, way, progress)
                };
                if let Err(failure) = outcome {
                    let (source, target) = (&cluster.nodes[*source], &cluster.nodes[*target]);
                    let total = slots.len();
                    let text = format!("*** {done} of {total} slots were moved from {source} to {target}.");
                    print(Level::Warning, text);
                    return Err(failure);
                }
                print_text!("#");
            }
        }
        let (source, target) = (*source, *target);
        for slot in slots {
            cluster.nodes[source].slots.remove(slot);
            cluster.nodes[target].slots.insert(*slot);
        }
        Ok(())
    }

    /// Moves a slot and tells all primaries of its owner.
    pub fn move_slot(&self, cluster: &mut Cluster, way: Way, progress: Progress) -> Result<(), Failure> {
        let Way { source, target, slot } = way;
        if progress == Progress::Keys {
            print_text!("Moving slot {slot} from {} to {}", cluster.nodes[source], cluster.nodes[target]);
        }
        self.open(cluster, way, progress)?;
        let outcome = self.move_keys(cluster, way, progress);
        end_line(progress);
        outcome.and_then(|()| set_owner(cluster, target, target, slot)).inspect_err(|_| {
            self.advise(cluster, way);
        })?;
        self.announce(cluster, way)
    }

    /// Moves the keys of a slot whose owner stays as it is.
    pub fn move_keys_only(&self, cluster: &mut Cluster, way: Way) -> Result<(), Failure> {
        let (source, target) = (&cluster.nodes[way.source], &cluster.nodes[way.target]);
        print_text!("Moving slot {} from {source} to {target}", way.slot);
        let outcome = self.move_keys(cluster, way, Progress::Keys);
        end_line(Progress::Keys);
        outcome
    }

    /// Sets a slot to importing at the target and migrating at the source. If either refuses, neither remains.
    fn open(&self, cluster: &mut Cluster, way: Way, progress: Progress) -> Result<(), Failure> {
        let Way { source, target, slot } = way;
        let slot = slot.to_string();
        let (from, to) = (cluster.nodes[source].id.clone(), cluster.nodes[target].id.clone());
        let importing = cluster.nodes[target].command(&["CLUSTER", "SETSLOT", &slot, "importing", &from]);
        let (node, error) = match importing {
            Err(error) => (target, error),
            Ok(_) => match cluster.nodes[source].command(&["CLUSTER", "SETSLOT", &slot, "migrating", &to]) {
                Err(error) => (source, error),
                Ok(_) => return Ok(()),
            },
        };
        end_line(progress);
        let failure = cluster.nodes[node].report(&error);
        // A node that is lost may have opened the slot.
        let is_closed = matches!(error, NodeError::Refused(_))
            && (node == target
                || cluster.nodes[target].must(&["CLUSTER", "SETSLOT", &slot, "STABLE"]).is_ok());
        if !is_closed {
            self.advise(cluster, way);
        }
        Err(failure)
    }

    /// Tells the other primaries of the owner of a slot, which the target is. They would learn it from each other too.
    fn announce(&self, cluster: &mut Cluster, way: Way) -> Result<(), Failure> {
        let Way { source, target, slot } = way;
        let (slot_text, owner) = (slot.to_string(), cluster.nodes[target].id.clone());
        let request = ["CLUSTER", "SETSLOT", &slot_text, "node", &owner];
        match cluster.nodes[source].command(&request) {
            Err(NodeError::Refused(text)) if DEMOTED.iter().any(|answer| text.starts_with(answer)) => {}
            Err(error) => {
                let failure = cluster.nodes[source].report(&error);
                self.advise(cluster, way);
                return Err(failure);
            }
            Ok(_) => {}
        }
        let primaries = cluster.primaries();
        for other in primaries.into_iter().filter(|node| *node != source && *node != target) {
            if let Err(error) = cluster.nodes[other].command(&request) {
                cluster.nodes[other].report(&error);
                let text =
                    format!("*** {} learns the owner of slot {slot} from other nodes.", cluster.nodes[other]);
                print(Level::Warning, text);
            }
        }
        Ok(())
    }

    /// Says what a slot is left as, and what closes it.
    fn advise(&self, cluster: &Cluster, way: Way) {
        let (source, target) = (&cluster.nodes[way.source], &cluster.nodes[way.target]);
        let (slot, program, address) = (way.slot, Program::current().name, &self.address);
        print(
            Level::Warning,
            format!(
                "*** Slot {slot} may be open: migrating in {source}, importing in {target}. Each of its keys is at one of \
                 the two.\n*** When both nodes answer, '{program} --cluster fix {address}' completes \
                 the move; then repeat the command for the slots that are left."
            ),
        );
    }

    fn move_keys(&self, cluster: &mut Cluster, way: Way, progress: Progress) -> Result<(), Failure> {
        let (slot, pipeline) = (way.slot.to_string(), self.pipeline.to_string());
        for database in 0..cluster.nodes[way.source].databases()? {
            cluster.nodes[way.source].select(database)?;
            loop {
                let reply =
                    cluster.nodes[way.source].must(&["CLUSTER", "GETKEYSINSLOT", &slot, &pipeline])?;
                let keys = reply.as_list().unwrap_or_default();
                if keys.is_empty() {
                    break;
                }
                let parcel = Parcel { way, database, keys, timeout_ms: self.timeout_ms };
                self.deliver(cluster, &parcel)?;
                if progress == Progress::Keys {
                    print_text!("{}", ".".repeat(keys.len()));
                }
            }
        }
        cluster.nodes[way.source].select(0)
    }

    /// Sends keys, and decides what to do where that is refused.
    fn deliver(&self, cluster: &mut Cluster, parcel: &Parcel<'_>) -> Result<(), Failure> {
        let error = match self.migrate_when_up(cluster, parcel) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let source = parcel.way.source;
        match &error {
            NodeError::Refused(text) if text.contains("BUSYKEY") => self.replace(cluster, parcel),
            NodeError::Refused(text) if text.starts_with("IOERR") && parcel.timeout_ms == self.timeout_ms => {
                self.deliver_slowly(cluster, parcel, &error)
            }
            NodeError::Refused(text) if !text.starts_with("IOERR") && is_unowned(cluster, parcel.way)? => {
                self.give_to_target(cluster, parcel.way)?;
                self.migrate(cluster, parcel, false).map(|_| ()).map_err(|error| {
                    print_line!("");
                    cluster.nodes[source].report(&error)
                })
            }
            _ => {
                print_line!("");
                Err(cluster.nodes[source].report(&error))
            }
        }
    }

    /// Sends keys; again while the cluster is down for the source or the target, such as in the first seconds of a new node.
    fn migrate_when_up(&self, cluster: &mut Cluster, parcel: &Parcel<'_>) -> Result<Value, NodeError> {
        let mut outcome = self.migrate(cluster, parcel, false);
        for poll in 0..DOWN_POLLS_MAX {
            let is_down = matches!(&outcome, Err(NodeError::Refused(text)) if text.contains("CLUSTERDOWN"));
            if !is_down || self.is_interrupted() {
                break;
            }
            if poll == 0 {
                let (source, target) = (&cluster.nodes[parcel.way.source], &cluster.nodes[parcel.way.target]);
                let text = format!("\n*** The cluster is down for {source} or {target}; waiting for it...");
                print(Level::Warning, text);
            }
            std::thread::sleep(DOWN_POLL_INTERVAL);
            outcome = self.migrate(cluster, parcel, false);
        }
        outcome
    }

    /// Sends keys one by one, with more time: a large one exceeds the timeout, or many together.
    fn deliver_slowly(
        &self,
        cluster: &mut Cluster,
        parcel: &Parcel<'_>,
        error: &NodeError,
    ) -> Result<(), Failure> {
        let timeout_ms = self.timeout_ms.saturating_mul(LONGER);
        print_line!("");
        cluster.nodes[parcel.way.source].report(error);
        print(
            Level::Warning,
            format!("*** Trying its keys one by one, with a timeout of {timeout_ms} ms..."),
        );
        for key in parcel.keys.chunks(1) {
            let single = Parcel { keys: key, timeout_ms, ..*parcel };
            self.deliver(cluster, &single).inspect_err(|_| {
                let key = String::from_utf8_lossy(key[0].as_bytes().unwrap_or_default()).into_owned();
                let text = format!(
                    "*** Key '{}' was not moved. If the target is sound, give it more than --cluster-timeout {}.",
                    printable(&key),
                    self.timeout_ms
                );
                print(Level::Warning, text);
            })?;
        }
        Ok(())
    }

    fn migrate(
        &self,
        cluster: &mut Cluster,
        parcel: &Parcel<'_>,
        replaces: bool,
    ) -> Result<Value, NodeError> {
        let (host, port) = cluster.nodes[parcel.way.target].address();
        let (port, database) = (port.to_string(), parcel.database.to_string());
        let timeout = parcel.timeout_ms.to_string();
        let mut args: Vec<&[u8]> =
            vec![b"MIGRATE", host.as_bytes(), port.as_bytes(), b"", database.as_bytes(), timeout.as_bytes()];
        if replaces {
            args.push(b"REPLACE");
        }
        args.extend(credentials(self.user.as_deref(), self.password.as_deref()));
        args.push(b"KEYS");
        args.extend(parcel.keys.iter().filter_map(Value::as_bytes));
        // The arguments refer to the target's address.
        let args: Vec<Vec<u8>> = args.into_iter().map(<[u8]>::to_vec).collect();
        cluster.nodes[parcel.way.source].command(&args)
    }

    /// Replaces keys that exist at the target: equal ones, or all with `--cluster-replace`.
    fn replace(&self, cluster: &mut Cluster, parcel: &Parcel<'_>) -> Result<(), Failure> {
        print(Level::Warning, "\n*** Target key exists");
        if !self.replaces {
            print(Level::Warning, "*** Checking key values on both nodes...");
            require_equal(cluster, parcel)?;
        }
        print(Level::Warning, "*** Replacing target keys...");
        self.migrate(cluster, parcel, true).map(|_| ()).map_err(|error| {
            print_line!("");
            cluster.nodes[parcel.way.source].report(&error)
        })
    }

    /// Makes the target the owner of a slot that the source knows no owner of.
    fn give_to_target(&self, cluster: &mut Cluster, way: Way) -> Result<(), Failure> {
        if self.fixes {
            let target = &cluster.nodes[way.target];
            print(Level::Warning, format!("*** Slot was not served, setting owner to node {target}."));
            set_owner(cluster, way.source, way.target, way.slot)?;
        }
        Ok(())
    }
}

fn end_line(progress: Progress) {
    if progress == Progress::Keys {
        print_line!("");
    }
}

/// Tells a node who owns a slot.
pub fn set_owner(cluster: &mut Cluster, node: usize, owner: usize, slot: usize) -> Result<(), Failure> {
    let owner = cluster.nodes[owner].id.clone();
    cluster.nodes[node].must(&["CLUSTER", "SETSLOT", &slot.to_string(), "node", &owner]).map(|_| ())
}

/// Arguments of MIGRATE by which the source authenticates at the target.
pub fn credentials<'a>(user: Option<&'a str>, password: Option<&'a str>) -> Vec<&'a [u8]> {
    match (user, password) {
        (_, None) => Vec::new(),
        (None, Some(password)) => vec![b"AUTH", password.as_bytes()],
        (Some(user), Some(password)) => vec![b"AUTH2", user.as_bytes(), password.as_bytes()],
    }
}

/// Returns whether the source knows no owner of the slot.
fn is_unowned(cluster: &mut Cluster, way: Way) -> Result<bool, Failure> {
    let owners = cluster.nodes[way.source].configuration()?;
    Ok(!owners.iter().any(|(_, slots)| slots.contains(&way.slot)))
}

/// Checks that keys that are at both nodes have the same value.
fn require_equal(cluster: &mut Cluster, parcel: &Parcel<'_>) -> Result<(), Failure> {
    let mut request: Vec<&[u8]> = vec![b"DEBUG", b"DIGEST-VALUE"];
    request.extend(parcel.keys.iter().filter_map(Value::as_bytes));
    let Way { source, target, .. } = parcel.way;
    cluster.nodes[target].select(parcel.database)?;
    let digests = cluster.nodes[source].command(&request);
    let others = cluster.nodes[target].command(&request);
    cluster.nodes[target].select(0)?;
    let (digests, others) = match (digests, others) {
        (Ok(digests), Ok(others)) => (digests, others),
        (digests, others) => {
            for (node, outcome) in [(source, digests), (target, others)] {
                if let Err(error) = outcome {
                    cluster.nodes[node].report(&error);
                }
            }
            let text = "*** Value check failed!\nDEBUG DIGEST-VALUE is not supported or not allowed.\nYou can turn on the \
                        enable-debug-command option.\nOr you can relaunch the command with --cluster-replace option to \
                        force key overriding.";
            print(Level::Error, text);
            return Err(Failure::Reported);
        }
    };
    let is_none =
        |digest: &Value| digest.as_bytes().is_some_and(|digest| digest.iter().all(|digit| *digit == b'0'));
    let pairs = digests.as_list().unwrap_or_default().iter().zip(others.as_list().unwrap_or_default());
    let differing =
        parcel.keys.iter().zip(pairs).filter(|(_, (one, other))| {
            !is_none(one) && !is_none(other) && one.as_bytes() != other.as_bytes()
        });
    let differing: Vec<&Value> = differing.map(|(key, _)| key).collect();
    if differing.is_empty() {
        return Ok(());
    }
    let (source, target) = (&cluster.nodes[source], &cluster.nodes[target]);
    let mut text = format!(
        "*** Found {} key(s) in both source node and target node having different values.\n    Source node: {source}\n    \
         Target node: {target}\n    Keys(s):",
        differing.len()
    );
    for key in differing {
        let key = String::from_utf8_lossy(key.as_bytes().unwrap_or_default());
        text += &format!("\n    - {}", printable(&key));
    }
    print(Level::Error, text);
    let text = "Please fix the above key(s) manually and try again or relaunch the command \nwith --cluster-replace option \
                to force key overriding.";
    print(Level::Error, text);
    Err(Failure::Reported)
}
