//! Tests of servers in processes of their own: `cargo test -p warmline-server --test processes persistence::`.
//!
//! Most of their time they wait for timers of the server. They are one program so that many wait side by side, since cargo
//! runs one test program after the other; `.cargo/config.toml` says how many tests of a program run at a time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../fake_primary/mod.rs"]
mod fake_primary;
#[path = "../fake_replica/mod.rs"]
mod fake_replica;
#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod check_config;
mod check_health;
mod cluster;
mod compression;
mod config_set;
mod confirmed_replies;
mod connections;
mod console;
mod contrib;
mod crash;
mod diskless_load;
mod failover;
mod hostile;
mod http;
mod http_tls;
mod idle_clients;
mod lagging_replicas;
mod large_replies;
mod long_arguments;
mod migrate;
mod option_bounds;
mod permissions;
mod persistence;
mod published_faults;
mod rdb_channel;
mod received_base;
mod reclaim;
mod redis_files;
mod replica;
mod replication;
mod scripts;
mod signals;
mod slot_migration;
mod started;
mod stops;
mod supervised;
mod tls;
mod tls_limits;
mod tls_options;
mod tls_sessions;
mod traces;
mod two_channels;
mod users;
mod writable_replica;
