//! The start of a cluster's node: its view of the cluster comes from its file, or begins with this node alone.

use super::{StartError, random_bytes, system};
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::cluster::settings;
use crate::net::bus::ConfFile;
use crate::server::cluster_node::now;
use crate::sys::file::failed;
use cluster::Cluster;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use structures::random::Random;
use wire::nodes_conf::BUS_PORT_OFFSET;

/// The file of the node's view, locked, and its text; `None` unless `cluster-enabled`.
///
/// # Errors
/// The file cannot be opened, or is another server's.
pub(super) fn open_file(config: &Config) -> Result<Option<(ConfFile, Vec<u8>)>, StartError> {
    if !config.cluster_enabled {
        return Ok(None);
    }
    let opened = ConfFile::open(path_of(config));
    opened.map(Some).map_err(|error| StartError::Cluster(error.to_string()))
}

fn path_of(config: &Config) -> &Path {
    Path::new(OsStr::from_bytes(&config.cluster_config_file))
}

/// As [`open_file`], for a check: the text only, and no file is created.
pub(super) fn read_file(config: &Config) -> Result<Option<Vec<u8>>, StartError> {
    if !config.cluster_enabled {
        return Ok(None);
    }
    match std::fs::read(path_of(config)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Vec::new())),
        Err(error) => {
            let doing = failed("Loading the cluster node config from", path_of(config));
            Err(StartError::File(doing(error)))
        }
    }
}

/// Returns the node's view of its cluster from its file's text, or of a cluster of its own if that is empty.
///
/// # Errors
/// The configuration contradicts a cluster, or the text is none that a node has written.
pub(super) fn view(config: &Config, clock: &Clock, text: &[u8]) -> Result<Cluster, StartError> {
    if let Some(conflict) = conflict(config) {
        return Err(StartError::Cluster(conflict));
    }
    let random = Random::new(u64::from_le_bytes(random_bytes().map_err(system("Reading random bytes"))?));
    let (settings, now) = (settings(config), now(clock.read()));
    if text.is_empty() {
        return Ok(Cluster::new(settings, random, now));
    }
    Cluster::load(text, settings, random, now).map_err(|fault| {
        let path = path_of(config).display();
        StartError::Cluster(format!("Unrecoverable error: corrupted cluster config file {path}: {fault}"))
    })
}

/// Returns what other options contradict a cluster.
fn conflict(config: &Config) -> Option<String> {
    if config.replicaof.is_some() {
        return Some("replicaof directive not allowed in cluster mode".to_owned());
    }
    let highest = config.port.max(config.tls_port);
    (config.cluster_port == 0 && highest > u16::MAX - BUS_PORT_OFFSET).then(|| {
        format!(
            "The port {highest} is too high for a cluster: the port for other nodes is {BUS_PORT_OFFSET} above it. \
             Use a port of at most {}, or set cluster-port.",
            u16::MAX - BUS_PORT_OFFSET
        )
    })
}
