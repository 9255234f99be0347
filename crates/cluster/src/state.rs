//! Whether the cluster works, as this node sees it.

use wire::cluster_bus::{NodeFlags, SLOTS};

use crate::action::Level;
use crate::cluster::Cluster;

/// How long a primary serves nothing after its start, so that it can hear that it was replaced.
const START_DELAY_MS: u64 = 2_000;
/// Limits of the time that a primary which was in a minority waits after it is in a majority again.
const REJOIN_DELAY_MS: (u64, u64) = (500, 5_000);

/// Whether the cluster works, and since when this is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) is_ok: bool,
    reason: Option<Reason>,
    /// Past the start delay: others can rely on this node's view, so that it may vote.
    pub(crate) is_settled: bool,
    /// Number of primaries that have slots.
    pub(crate) size: usize,
    first_evaluated: Option<u64>,
    in_minority: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Coverage,
    Minority,
}

impl Cluster {
    /// Returns whether the cluster works.
    pub fn is_ok(&self) -> bool {
        self.state.is_ok
    }

    /// Returns the number of primaries that have slots.
    pub fn size(&self) -> usize {
        self.state.size
    }

    /// Votes that are a majority.
    pub(crate) fn quorum(&self) -> usize {
        self.state.size / 2 + 1
    }

    /// Finds out whether the cluster works.
    pub(crate) fn update_state(&mut self) {
        self.todo.update_state = false;
        let now_ms = self.now_ms();
        let first = *self.state.first_evaluated.get_or_insert(now_ms);
        let is_primary = self.myself().is_primary();
        self.state.size = self.nodes.iter().filter(|node| node.has_vote()).count();
        self.state.is_settled = !is_primary || self.state.is_ok || now_ms - first >= START_DELAY_MS;
        if !self.state.is_settled {
            return;
        }
        let reason = self.evaluate();
        if reason == Some(Reason::Minority) {
            self.state.in_minority = Some(now_ms);
        }
        let is_ok = reason.is_none();
        if is_ok != self.state.is_ok {
            let (least, most) = REJOIN_DELAY_MS;
            let delay_ms = self.settings.node_timeout_ms.clamp(least, most);
            let waits = self.state.in_minority.is_some_and(|since| now_ms - since < delay_ms);
            if is_ok && is_primary && waits {
                return;
            }
            let level = if is_ok { Level::Notice } else { Level::Warning };
            self.log(level, format!("Cluster state changed: {}", if is_ok { "ok" } else { "fail" }));
            self.state.is_ok = is_ok;
        }
        if reason != self.state.reason {
            self.state.reason = reason;
            self.log_reason(reason);
        }
    }

    /// Why the cluster does not work.
    fn evaluate(&self) -> Option<Reason> {
        let unreachable = NodeFlags::FAILED | NodeFlags::POSSIBLY_FAILED;
        let voting = self.nodes.iter().filter(|node| node.has_vote());
        if voting.filter(|node| !node.has(unreachable)).count() < self.quorum() {
            return Some(Reason::Minority);
        }
        // By node and not by slot: there are fewer of them.
        let served = self.nodes.iter().filter(|node| !node.is_failed());
        let served: usize = served.map(|node| usize::from(node.slot_count)).sum();
        (self.settings.require_full_coverage && served < usize::from(SLOTS)).then_some(Reason::Coverage)
    }

    fn log_reason(&mut self, reason: Option<Reason>) {
        let text = match reason {
            None => return,
            Some(Reason::Coverage) => {
                "At least one hash slot is not served by any available node. \
                 Please check the 'cluster-require-full-coverage' configuration."
            }
            Some(Reason::Minority) => "I am part of a minority partition.",
        };
        self.log(Level::Warning, format!("Cluster is currently down: {text}"));
    }
}
