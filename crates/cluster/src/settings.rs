//! The options that the cluster depends on.

use std::net::Ipv4Addr;

use wire::cluster_bus::{Address, Ipv6Text, Kind, Text};

use crate::action::Level;

/// The options that the cluster depends on, all of which can change at run time. Ports are those that other nodes and
/// clients are to use: the server has put announced ones in the place of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `cluster-node-timeout`.
    pub node_timeout_ms: u64,
    /// `cluster-ping-interval`; 0: half the node timeout.
    pub ping_interval_ms: u64,
    /// `cluster-message-gossip-perc`.
    pub gossip_percent: u64,
    /// `cluster-replica-validity-factor`; 0: a replica is always recent enough to be elected.
    pub replica_validity_factor: u64,
    /// `cluster-replica-no-failover`.
    pub replica_no_failover: bool,
    /// `cluster-migration-barrier`.
    pub migration_barrier: usize,
    /// `cluster-allow-replica-migration`.
    pub allow_replica_migration: bool,
    /// `cluster-require-full-coverage`.
    pub require_full_coverage: bool,
    /// `cluster-manual-failover-timeout`.
    pub manual_failover_timeout_ms: u64,
    /// `cluster-blacklist-ttl`.
    pub blacklist_ttl_s: u64,
    /// `cluster-link-sendbuf-limit`; 0: no limit.
    pub link_send_buffer_limit_bytes: u64,
    /// `repl-ping-replica-period`.
    pub replication_ping_period_s: u64,
    /// `tls-cluster`: the bus uses TLS, and the port of a frame's header is the TLS port.
    pub tls_cluster: bool,
    /// `tls-replication`: replicas connect to the primary's TLS port.
    pub tls_replication: bool,
    /// `cluster-announce-ip`; none: the address that other nodes reach this one at.
    pub announce_ip: Option<Address>,
    /// `cluster-announce-client-ipv4`.
    pub announce_client_ipv4: Option<Ipv4Addr>,
    /// `cluster-announce-client-ipv6`.
    pub announce_client_ipv6: Option<Ipv6Text>,
    /// `cluster-announce-hostname`.
    pub announce_hostname: Text,
    /// `cluster-announce-human-nodename`.
    pub announce_human_nodename: Text,
    /// `availability-zone`.
    pub availability_zone: Text,
    /// Port without TLS; 0: none.
    pub tcp_port: u16,
    /// Port with TLS; 0: none.
    pub tls_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// `cluster-announce-client-port`; 0: as for nodes.
    pub client_tcp_port: u16,
    /// `cluster-announce-client-tls-port`; 0: as for nodes.
    pub client_tls_port: u16,
    /// `repl-timeout`: a job of slot migration without a sign of life from the other node for longer fails.
    pub replication_timeout_s: u64,
    /// `slot-migration-max-failover-repl-bytes`: writes to slots are paused when no more is unsent; none: at once.
    pub slot_migration_unsent_bytes_max: Option<u64>,
    /// `cluster-slot-migration-log-max-len`: ended jobs beyond it are forgotten.
    pub slot_migration_log_len_max: usize,
    /// `loglevel`: what is below it is not written.
    pub log_level: Level,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node_timeout_ms: 15_000,
            ping_interval_ms: 0,
            gossip_percent: 10,
            replica_validity_factor: 10,
            replica_no_failover: false,
            migration_barrier: 1,
            allow_replica_migration: true,
            require_full_coverage: true,
            manual_failover_timeout_ms: 5_000,
            blacklist_ttl_s: 60,
            link_send_buffer_limit_bytes: 0,
            replication_ping_period_s: 10,
            tls_cluster: false,
            tls_replication: false,
            announce_ip: None,
            announce_client_ipv4: None,
            announce_client_ipv6: None,
            announce_hostname: Text::default(),
            announce_human_nodename: Text::default(),
            availability_zone: Text::default(),
            tcp_port: 6379,
            tls_port: 0,
            bus_port: 16_379,
            client_tcp_port: 0,
            client_tls_port: 0,
            replication_timeout_s: 60,
            slot_migration_unsent_bytes_max: Some(0),
            slot_migration_log_len_max: 1000,
            log_level: Level::Notice,
        }
    }
}

/// What DEBUG can switch off, for tests of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// `DEBUG DROP-CLUSTER-PACKET-FILTER`: received frames that are ignored.
    pub drop: FrameFilter,
    /// `DEBUG CLOSE-CLUSTER-LINK-ON-PACKET-DROP`: the link of an ignored frame is closed.
    pub close_link_on_drop: bool,
    /// `DEBUG DISABLE-CLUSTER-RECONNECTION`.
    pub no_reconnection: bool,
    /// `DEBUG DISABLE-CLUSTER-RANDOM-PING`.
    pub no_random_ping: bool,
    /// `DEBUG SLOTMIGRATION PREVENT-PAUSE`: exports stay before their pause.
    pub no_migration_pause: bool,
    /// `DEBUG SLOTMIGRATION PREVENT-FAILOVER`: imports do not take their slots.
    pub no_migration_failover: bool,
}

/// Which received frames are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameFilter {
    /// None.
    #[default]
    Nothing,
    /// Those of one type.
    Kind(Kind),
    /// All.
    Everything,
}
