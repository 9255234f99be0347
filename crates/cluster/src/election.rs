//! Elections: a replica whose primary has failed asks the primaries for their votes, and takes the slots if a majority
//! gives them.
//!
//! ```text
//!  primary failed -> wait by rank -> next epoch on disk -> ask all -> majority -> own epoch, slots, PONG to all
//! ```
//!
//! 1. A primary votes once in an epoch, and its vote is on disk before it leaves.
//! 2. Voters are counted, not votes: a frame that comes twice is one vote.
//! 3. Only votes for the epoch of the election count.
//! 4. A candidate has no vote in its epoch, also once it is a primary: the primary whose place it took may have given
//!    that vote.

use std::collections::BTreeSet;

use wire::cluster_bus::{Body, Header, NodeFlags, NodeId};

use crate::action::{Effect, Level};
use crate::cluster::Cluster;
use crate::node::{Node, age_ms};

/// Longest time that is waited for the news of a failure to spread.
const DELAY_MS_MAX: u64 = 500;
/// The delay's part of the node timeout.
const DELAY_DIVISOR: u64 = 30;
/// What a replica that never got data waits longer: others may know more.
const EMPTY_DELAY_MS: u64 = 500;
/// Least time for which votes are waited for.
const TIMEOUT_MS_MIN: u64 = 2_000;
/// Why there is no failover is said again after this time.
const LOG_AGAIN_MS: u64 = 1_000;
/// As [`LOG_AGAIN_MS`], if the data is too old.
const LOG_AGAIN_OF_AGE_MS: u64 = 10_000;

/// The latest election of this replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Election {
    /// When votes are asked for, or were. None: there is none.
    start: Option<u64>,
    is_asked: bool,
    epoch: u64,
    voters: BTreeSet<NodeId>,
    rank: u64,
    failed_primary_rank: u64,
    obstacle: Option<Obstacle>,
    obstacle_logged: Option<u64>,
}

/// Why a replica does not fail over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    DataAge,
    Delay,
    Expired,
    Votes,
}

impl Election {
    pub(crate) fn cancel(&mut self) {
        self.start = None;
        self.is_asked = false;
        self.voters.clear();
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.start.is_some()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Cluster {
    /// Goes on with a failover as far as possible: finds out whether there is to be one, waits, asks, counts, wins.
    pub(crate) fn continue_election(&mut self) {
        self.todo.failover = false;
        let is_manual = self.manual.can_start();
        let primary = self.myself().primary.and_then(|primary| self.nodes.get(primary));
        let is_due = primary.is_some_and(Node::is_failed) && !self.settings.replica_no_failover;
        if !self.myself().is_replica() || primary.is_none() || !(is_due || is_manual) {
            self.election.obstacle = None;
            return;
        }
        if !is_manual && self.is_data_too_old() {
            return self.log_obstacle(Obstacle::DataAge);
        }
        let timeout_ms = self.settings.node_timeout_ms.saturating_mul(2).max(TIMEOUT_MS_MIN);
        let now_ms = self.now_ms();
        if age_ms(now_ms, self.election.start) > timeout_ms.saturating_mul(2) {
            self.schedule_election();
            if self.election.start > Some(now_ms) {
                return;
            }
        } else if !self.election.is_asked && !self.manual.is_active() {
            self.reschedule_election();
        }
        if self.election.start > Some(now_ms) {
            return self.log_obstacle(Obstacle::Delay);
        }
        if age_ms(now_ms, self.election.start) > timeout_ms {
            return self.log_obstacle(Obstacle::Expired);
        }
        if !self.election.is_asked {
            self.ask_for_votes();
        } else if self.election.voters.len() >= self.quorum() {
            self.win_election();
        } else {
            self.log_obstacle(Obstacle::Votes);
        }
    }

    /// The data is older than the validity factor allows. The time in which the primary was found to have failed does
    /// not count.
    fn is_data_too_old(&self) -> bool {
        let settings = &self.settings;
        let age_ms = self.facts.data_age_ms / 1_000 * 1_000;
        let age_ms =
            if age_ms > settings.node_timeout_ms { age_ms - settings.node_timeout_ms } else { age_ms };
        let factor = settings.replica_validity_factor;
        let allowed_ms = settings
            .replication_ping_period_s
            .saturating_mul(1_000)
            .saturating_add(settings.node_timeout_ms.saturating_mul(factor));
        factor != 0 && age_ms > allowed_ms
    }

    fn election_delay_ms(&self) -> u64 {
        (self.settings.node_timeout_ms / DELAY_DIVISOR).min(DELAY_MS_MAX)
    }

    /// Chooses when votes are asked for, so that the best replica comes first and few ask at once.
    fn schedule_election(&mut self) {
        let (now_ms, delay_ms) = (self.now_ms(), self.election_delay_ms());
        let offset = self.facts.replication_offset;
        self.election.cancel();
        let mut start = now_ms + delay_ms;
        if self.manual.is_active() {
            start = now_ms;
            (self.election.rank, self.election.failed_primary_rank) = (0, 0);
        } else {
            start += if delay_ms > 0 { self.random.below(delay_ms) } else { 0 };
            self.election.rank = self.rank();
            self.election.failed_primary_rank = self.failed_primary_rank();
            start += self.election.rank * delay_ms * 2 + self.election.failed_primary_rank * delay_ms;
            start += if offset == 0 { EMPTY_DELAY_MS } else { 0 };
            if self.is_best_replica() {
                start = now_ms;
                let text = "This is the best ranked replica and can initiate the election immediately.";
                self.log(Level::Notice, text.to_string());
            }
        }
        self.election.start = Some(start);
        let text = format!(
            "Start of election delayed for {} milliseconds (rank #{}, primary rank #{}, offset {offset}).",
            start - now_ms,
            self.election.rank,
            self.election.failed_primary_rank
        );
        self.log(Level::Notice, text);
        // The shard's other replicas find their ranks by this node's offset.
        self.broadcast_pong(|cluster, node| {
            let (me, mine) = (cluster.my_id(), cluster.myself().primary);
            node.is_replica() && node.primary.is_some_and(|primary| primary == me || Some(primary) == mine)
        });
    }

    /// What is known of other replicas and primaries has changed, and with it this replica's turn.
    fn reschedule_election(&mut self) {
        let Some(start) = self.election.start else { return };
        let (now_ms, delay_ms) = (self.now_ms(), self.election_delay_ms());
        let ranks = (self.rank(), self.failed_primary_rank());
        let move_by = |start: u64, from: u64, to: u64, step_ms: u64| {
            (start + to * step_ms).saturating_sub(from * step_ms)
        };
        let difference = |from: u64, to: u64, step_ms: u64| {
            let sign = if to < from { "-" } else { "" };
            format!("{sign}{}", from.abs_diff(to) * step_ms)
        };
        let mut moved = start;
        if ranks.0 != self.election.rank {
            moved = move_by(moved, self.election.rank, ranks.0, delay_ms * 2);
            let added = difference(self.election.rank, ranks.0, delay_ms * 2);
            let rank = ranks.0;
            self.log(
                Level::Notice,
                format!("Replica rank updated to #{rank}, added {added} milliseconds of delay."),
            );
            self.election.rank = rank;
        }
        if ranks.1 != self.election.failed_primary_rank {
            moved = move_by(moved, self.election.failed_primary_rank, ranks.1, delay_ms);
            let added = difference(self.election.failed_primary_rank, ranks.1, delay_ms);
            let rank = ranks.1;
            self.log(
                Level::Notice,
                format!("Failed primary rank updated to #{rank}, added {added} milliseconds of delay."),
            );
            self.election.failed_primary_rank = rank;
        }
        if self.is_best_replica() {
            moved = now_ms;
            let text = "Myself become the best ranked replica, initiate the election immediately.";
            self.log(Level::Notice, text.to_string());
        }
        self.election.start = Some(moved);
    }

    /// How many other replicas of the primary have more data, or as much and a smaller id.
    fn rank(&self) -> u64 {
        let (me, offset) = (self.my_id(), self.facts.replication_offset);
        let siblings = self.my_primary().replicas.iter().filter(|id| **id != me);
        let siblings = siblings.filter_map(|id| self.nodes.get(*id));
        let is_better = |node: &&Node| {
            !node.has(NodeFlags::NO_FAILOVER)
                && (node.replication_offset > offset || node.replication_offset == offset && node.id < me)
        };
        siblings.filter(is_better).count() as u64
    }

    /// How many primaries have failed whose replicas come first, so that their elections do not share the votes.
    fn failed_primary_rank(&self) -> u64 {
        let (now_ms, factor) = (self.now_ms(), self.settings.replica_validity_factor);
        let valid_ms = self.settings.node_timeout_ms.saturating_mul(factor);
        let comes_first = |node: &&Node| {
            node.is_failed()
                && node.has_vote()
                && !node.replicas.is_empty()
                && (factor == 0 || age_ms(now_ms, node.times.failed) <= valid_ms)
                && node.shard_id < self.myself().shard_id
        };
        self.nodes.iter().filter(comes_first).count() as u64
    }

    /// All replicas know that the primary has failed, so that their offsets are final, and this one's is the best.
    fn is_best_replica(&self) -> bool {
        let flag = NodeFlags::PRIMARY_FAILED;
        let mut replicas = self.my_primary().replicas.iter().filter_map(|id| self.nodes.get(*id));
        !self.manual.is_active()
            && self.facts.replication_offset != 0
            && self.election.rank == 0
            && self.election.failed_primary_rank == 0
            && replicas.all(|node| node.has(flag))
    }

    fn ask_for_votes(&mut self) {
        self.current_epoch += 1;
        self.election.epoch = self.current_epoch;
        self.last_vote_epoch = self.current_epoch;
        let text = format!(
            "Starting a failover election for epoch {}, node config epoch is {}",
            self.current_epoch,
            self.epoch_of(self.myself())
        );
        self.log(Level::Notice, text);
        // The news of the failure may not have reached all who vote.
        let forces_vote = self.manual.is_active() || self.is_best_replica();
        self.broadcast_vote_request(forces_vote);
        self.election.is_asked = true;
        self.save_synced();
        self.todo.update_state = true;
    }

    /// A vote has come.
    pub(crate) fn count_vote(&mut self, voter: NodeId, header: &Header) {
        let election = &mut self.election;
        // A primary that was elected in the same epoch has no vote in it, whether its server knows that or not.
        let may_vote = |node: &Node| node.has_vote() && node.config_epoch < election.epoch;
        let has_vote = self.nodes.get(voter).is_some_and(may_vote);
        let is_for_this = election.is_asked && header.current_epoch == election.epoch;
        if has_vote && is_for_this && election.voters.insert(voter) {
            self.todo.failover = true;
        }
    }

    fn win_election(&mut self) {
        self.log(Level::Notice, "Failover election won: I'm the new primary.".to_string());
        let epoch = self.election.epoch;
        if self.myself().config_epoch < epoch {
            self.nodes.myself_mut().config_epoch = epoch;
            self.log(Level::Notice, format!("configEpoch set to {epoch} after successful failover"));
        }
        self.replace_primary();
    }

    /// Takes the place of the primary. This node has its epoch already.
    pub(crate) fn replace_primary(&mut self) {
        let Some(old) = self.myself().primary.filter(|_| self.myself().is_replica()) else { return };
        let text = format!(
            "Setting myself to primary in shard {} after failover; my old primary is {}",
            self.myself().shard_id,
            self.called(old)
        );
        self.log(Level::Notice, text);
        let me = self.my_id();
        self.set_as_primary(me);
        let slots = self.nodes.get(old).map(|node| node.slots.clone()).unwrap_or_default();
        for slot in slots.iter() {
            self.move_slot(me, slot);
        }
        self.update_state();
        self.save_synced();
        self.todo.broadcast = true;
        self.reset_manual_failover();
        self.effect(Effect::VerifyData);
        self.election.cancel();
    }

    /// A primary has an epoch that this replica cannot beat with the election that is under way.
    pub(crate) fn lose_election_to(&mut self, id: NodeId, epoch: u64) {
        let election = &self.election;
        if !election.is_under_way() || !election.is_asked || epoch < election.epoch {
            return;
        }
        let text = format!(
            "Failover election in progress for epoch {}, but received a claim from node {} with an equal or higher \
             epoch {epoch}. Resetting the election since we cannot win an election in the past.",
            election.epoch,
            self.called(id)
        );
        self.log(Level::Warning, text);
        self.election.cancel();
        self.todo.failover = true;
    }

    /// Votes for a replica, if this node has a vote and the replica deserves it.
    pub(crate) fn vote_if_right(&mut self, candidate: NodeId, request: &Header) {
        if !self.myself().has_vote() {
            return;
        }
        if let Err(reason) = self.check_vote(candidate, request) {
            let text = format!("Failover auth denied to {}{reason}", self.called(candidate));
            return self.log(Level::Warning, text);
        }
        let newer = request.slots.iter().find_map(|slot| {
            let owner = self.owner(slot).filter(|_| !self.slots.is_free(slot))?;
            (owner.config_epoch > request.config_epoch).then_some((slot, owner.id, owner.config_epoch))
        });
        if let Some((slot, owner, epoch)) = newer {
            let text = format!(
                "Failover auth denied to {}: slot {slot} epoch ({epoch}) > reqConfigEpoch ({})",
                self.called(candidate),
                request.config_epoch
            );
            self.log(Level::Warning, text);
            // Otherwise it would never know why it gets no votes.
            return self.send_update(candidate, owner);
        }
        self.last_vote_epoch = self.current_epoch;
        self.save_synced();
        self.send_to(candidate, Body::FailoverAuthAck);
        let text =
            format!("Failover auth granted to {} for epoch {}", self.called(candidate), self.current_epoch);
        self.log(Level::Notice, text);
    }

    /// Why a replica gets no vote, apart from its slots.
    fn check_vote(&self, candidate: NodeId, request: &Header) -> Result<(), String> {
        let epoch = request.current_epoch;
        if !self.state.is_settled {
            return Err(": it is not safe to vote in this moment)".to_string());
        }
        if epoch < self.current_epoch {
            return Err(format!(": reqEpoch ({epoch}) < curEpoch({})", self.current_epoch));
        }
        if self.last_vote_epoch == self.current_epoch {
            return Err(format!(": already voted for epoch {}", self.current_epoch));
        }
        let Some(node) = self.nodes.get(candidate) else { return Err(": it is not known".to_string()) };
        if node.is_primary() {
            return Err(format!(" for epoch {epoch}: it is a primary node"));
        }
        let Some(primary) = node.primary.and_then(|primary| self.nodes.get(primary)) else {
            return Err(format!(" for epoch {epoch}: I don't know its primary"));
        };
        if !primary.is_failed() && !request.mflags.forces_vote {
            return Err(format!(" for epoch {epoch}: its primary is up"));
        }
        Ok(())
    }

    /// Says why there is no failover, but not again and again.
    fn log_obstacle(&mut self, obstacle: Obstacle) {
        let now_ms = self.now_ms();
        let again_ms = if obstacle == Obstacle::DataAge { LOG_AGAIN_OF_AGE_MS } else { LOG_AGAIN_MS };
        let is_said = self.election.obstacle == Some(obstacle);
        if is_said && age_ms(now_ms, self.election.obstacle_logged) < again_ms {
            return;
        }
        self.election.obstacle = Some(obstacle);
        self.election.obstacle_logged = Some(now_ms);
        let text = match obstacle {
            Obstacle::DataAge => {
                "Disconnected from primary for longer than allowed. Please check the \
                 'cluster-replica-validity-factor' configuration option."
            }
            Obstacle::Delay => "Waiting the delay before I can start a new failover.",
            Obstacle::Expired => "Failover attempt expired.",
            Obstacle::Votes => "Waiting for votes, but majority still not reached.",
        };
        self.log(Level::Notice, format!("Currently unable to failover: {text}"));
        if matches!(obstacle, Obstacle::Votes | Obstacle::Expired) {
            let (quorum, votes) = (self.quorum(), self.election.voters.len());
            let text = format!("Needed quorum: {quorum}. Number of votes received so far: {votes}");
            self.log(Level::Notice, text);
        }
    }
}
