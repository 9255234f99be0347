//! The event loop's part in the cluster bus: events of the bus go to the executor, and the executor's actions to the bus.

use super::EventLoop;
use super::bus::{self, Bus, BusEvent, BusParts, BusSettings, ConfFile};
use super::listener::ListenError;
use crate::config::{ClusterConfigSave, Config};
use crate::engine::Executor;
use crate::engine::cluster::{bus_port, end_turn, saved, take as take_input};
use ::cluster::{BusAction, Input};
use std::io;
use std::str::from_utf8;
use std::sync::Arc;
use wire::cluster_bus::Received;

/// Period of warnings that the file cannot be saved.
const SAVE_WARNING_PERIOD_US: u64 = 30_000_000;

/// The bus, if this server is a node of a cluster.
#[derive(Default)]
pub(super) struct BusTurns {
    bus: Option<Bus>,
    /// The thread's settings.
    settings: Option<BusSettings>,
    accepts: bool,
    /// When it was last logged that the file could not be saved.
    warned_us: Option<u64>,
}

/// Why the bus cannot be started.
#[derive(Debug)]
pub enum BusStartError {
    /// An address cannot be listened on.
    Listen(ListenError),
    /// The thread cannot be started.
    Thread(io::Error),
}

fn settings(config: &Config) -> BusSettings {
    let source = config.bind_source_addr.as_deref().and_then(|text| from_utf8(text).ok());
    BusSettings {
        save_failure_is_fatal: config.cluster_config_save_behavior == ClusterConfigSave::Sync,
        message_bytes_max: config.proto_max_bulk_len_bytes,
        source: source.and_then(|text| text.parse().ok()),
        keepalive_s: config.tcp_keepalive_seconds.into(),
    }
}

impl BusTurns {
    /// Returns whether nothing of the bus waits for the executor.
    pub fn is_idle(&self) -> bool {
        self.bus.as_ref().is_none_or(|bus| !bus.has_events())
    }

    /// Returns whether there is a bus, whose thread wakes the executor.
    pub fn is_on(&self) -> bool {
        self.bus.is_some()
    }

    /// Returns whether actions wait for room in the queue.
    pub fn is_backed_up(&self) -> bool {
        self.bus.as_ref().is_some_and(Bus::is_backed_up)
    }

    /// Passes what has come to the executor.
    pub fn take_events(&mut self, executor: &mut Executor) {
        if let Some(bus) = &mut self.bus {
            bus.drain(|event| take(event, executor, &mut self.warned_us));
        }
    }

    /// Ends the executor's turn: what it has decided is sent.
    pub fn end(&mut self, executor: &mut Executor) {
        let Some(bus) = &mut self.bus else { return };
        let Some(node) = &mut executor.server.cluster else { return };
        if std::mem::take(&mut node.is_reconfigured) {
            let settings = settings(&executor.server.config);
            if self.settings.replace(settings) != Some(settings) {
                bus.configure(settings);
            }
        }
        // A primary that loads its data cannot serve its slots yet.
        let accepts = !executor.is_loading() || executor.is_replica();
        if std::mem::replace(&mut self.accepts, accepts) != accepts {
            bus.accept(accepts);
        }
        for action in end_turn(executor) {
            if let BusAction::Send(_, frame) = &action {
                let bytes = frame.expected_len() as u64;
                if let Some(node) = &mut executor.server.cluster {
                    node.traffic.note_sent(frame.kind(), bytes);
                }
            }
            bus.execute(action);
        }
        bus.announce();
    }
}

fn take(event: BusEvent, executor: &mut Executor, warned_us: &mut Option<u64>) {
    let input = match event {
        BusEvent::LinkAccepted { link, peer, local } => Input::LinkAccepted { link, peer, local },
        BusEvent::LinkOpened(link) => Input::LinkOpened(link),
        BusEvent::LinkClosed { link, peer, reason } => {
            log::debug!("Link of the cluster bus with {peer:?} closed: {reason:?}");
            Input::LinkClosed(link)
        }
        BusEvent::LinkBacklog { link, bytes } => Input::LinkBacklog(link, bytes as u64),
        BusEvent::Frame { link, received } => {
            let Received { kind, bytes, frame } = *received;
            let Some(node) = &mut executor.server.cluster else { return };
            node.traffic.note_received(kind, bytes.into());
            match frame {
                Ok(frame) => Input::Frame(link, frame),
                Err(fault) => {
                    log::debug!("A frame of the cluster bus was dropped: {fault}");
                    return kind.into_iter().for_each(|kind| node.view.count_dropped_frame(kind));
                }
            }
        }
        BusEvent::Saved(number) => return saved(executor, number, None),
        BusEvent::SaveFailed { number, error, is_fatal: false } => {
            log::warn!("{error}");
            saved(executor, number, Some(&error.to_string()));
            let now_us = executor.server.now.monotonic_us;
            if warned_us.is_none_or(|warned_us| now_us - warned_us >= SAVE_WARNING_PERIOD_US) {
                *warned_us = Some(now_us);
                log::warn!(
                    "Cluster config updated even though writing the cluster config file to disk failed."
                );
            }
            return;
        }
        BusEvent::SaveFailed { error, is_fatal: true, .. } => {
            log::warn!("{error}");
            log::warn!("Fatal: can't update cluster config file.");
            std::process::exit(1);
        }
    };
    take_input(executor, input);
}

impl EventLoop {
    /// Opens the bus's sockets and starts its thread.
    ///
    /// # Errors
    /// The port cannot be listened on, or the thread cannot be started.
    pub fn start_bus(&mut self, file: ConfFile) -> Result<(), BusStartError> {
        let config = &self.executor.server.config;
        let listeners = bus::listen(config, bus_port(config)).map_err(BusStartError::Listen)?;
        let settings = settings(config);
        let clock = self.executor.clock.clone();
        let parts = BusParts { listeners, tls: self.tls.borrow().published_bus(), file, settings, clock };
        let bus = Bus::start(parts, Arc::clone(&self.threads.waker)).map_err(BusStartError::Thread)?;
        self.bus = BusTurns { bus: Some(bus), settings: Some(settings), ..BusTurns::default() };
        Ok(())
    }
}
