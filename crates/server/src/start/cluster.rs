//! The start of a cluster's node: its view of the cluster comes from its file, or begins with this node alone.

use super::{StartError, random_bytes, system};
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::cluster::{BUS_PORT_OFFSET, settings};
use crate::server::cluster_node::now;
use crate::sys::file::failed;
use cluster::Cluster;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use structures::random::Random;

/// Returns the node's view of its cluster; `None` unless `cluster-enabled`.
///
/// # Errors
/// The configuration contradicts a cluster, or the file cannot be read.
pub(super) fn view(config: &Config, clock: &Clock) -> Result<Option<Cluster>, StartError> {
    if !config.cluster_enabled {
        return Ok(None);
    }
    if let Some(conflict) = conflict(config) {
        return Err(StartError::Cluster(conflict));
    }
    let random = Random::new(u64::from_le_bytes(random_bytes().map_err(system("Reading random bytes"))?));
    let (settings, now) = (settings(config), now(clock.read()));
    let path = Path::new(OsStr::from_bytes(&config.cluster_config_file));
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let doing = failed("Loading the cluster node config from", path);
            return Err(StartError::File(doing(error)));
        }
    };
    if text.is_empty() {
        return Ok(Some(Cluster::new(settings, random, now)));
    }
    let loaded = Cluster::load(&text, settings, random, now);
    let fault = |fault| {
        StartError::Cluster(format!(
            "Unrecoverable error: corrupted cluster config file {}: {fault}",
            path.display()
        ))
    };
    loaded.map(Some).map_err(fault)
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
