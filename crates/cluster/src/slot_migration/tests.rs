//! Tests of slot migration: a source and a target that pass each other what they send, in memory.

use structures::random::Random;
use wire::cluster_bus::{Address, Body, Extensions, Frame, Gossip, Header, MessageFlags, NodeFlags, NodeId};

use super::*;
use crate::action::{Input, LinkId};
use crate::node::Node;
use crate::settings::{Faults, Settings};

fn at(ms: u64) -> Now {
    Now { monotonic_ms: 1_000 + ms, unix_ms: 1_700_000_000_000 + ms }
}

/// Two primaries: the source owns slots 0 to 9, the target 10 to 19.
struct Pair {
    source: Cluster,
    target: Cluster,
    ms: u64,
    unsent_bytes: u64,
    /// Effects other than lines of the log and words.
    source_does: Vec<Effect>,
    target_does: Vec<Effect>,
}

fn introduce(cluster: &mut Cluster, other: &Node, first: u16) {
    let mut node = Node::new(other.id, other.shard_id, NodeFlags::PRIMARY, 0);
    node.address = Address::parse("10.0.0.9");
    node.endpoints.tcp_port = 7000;
    cluster.nodes.insert(node).unwrap();
    for slot in first..first + 10 {
        cluster.move_slot(other.id, slot);
    }
}

impl Pair {
    fn new() -> Pair {
        let new = |seed| Cluster::new(Settings::default(), Random::new(seed), at(0));
        let (mut source, mut target) = (new(1), new(2));
        source.add_slots(&[(0, 9)]).unwrap();
        target.add_slots(&[(10, 19)]).unwrap();
        let (first, second) = (source.myself().clone(), target.myself().clone());
        introduce(&mut source, &second, 10);
        introduce(&mut target, &first, 0);
        source.take_effects();
        target.take_effects();
        let (source_does, target_does) = (Vec::new(), Vec::new());
        Pair { source, target, ms: 0, unsent_bytes: 0, source_does, target_does }
    }

    fn start(&mut self) -> JobId {
        let target = self.target.my_id();
        let request = MigrationRequest { ranges: vec![(3, 5), (8, 8)], target };
        self.source.migrate_slots(vec![request], "a test", at(self.ms));
        self.source.migrations().next().unwrap().id()
    }

    fn import(&self) -> Option<JobId> {
        self.target.migrations().next().map(Job::id)
    }

    fn states(&self) -> (&'static str, &'static str) {
        let state = |cluster: &Cluster| cluster.migrations().next().map_or("none", |job| job.state().name());
        (state(&self.source), state(&self.target))
    }

    fn messages(&self) -> (String, String) {
        let message = |cluster: &Cluster| {
            cluster.migrations().next().and_then(Job::message).unwrap_or_default().to_owned()
        };
        (message(&self.source), message(&self.target))
    }

    /// One turn of both nodes; the target gets what the source sends, and the other way round.
    fn turn(&mut self) {
        self.ms += 100;
        let unsent_bytes = self.unsent_bytes;
        let facts = |unsent: &'static dyn Fn(JobId) -> u64| MigrationFacts {
            may_fork: true,
            may_pause: true,
            authenticates: false,
            unsent_bytes: unsent,
        };
        let unsent: &'static dyn Fn(JobId) -> u64 = if unsent_bytes == 0 { &|_| 0 } else { &|_| 1_000_000 };
        self.source.run_migrations(&facts(unsent), at(self.ms));
        self.target.run_migrations(&facts(&|_| 0), at(self.ms));
        loop {
            let (mut from_source, mut from_target) = (self.source.take_effects(), self.target.take_effects());
            from_source.retain(|effect| !matches!(effect, Effect::Log(..)));
            from_target.retain(|effect| !matches!(effect, Effect::Log(..)));
            if from_source.is_empty() && from_target.is_empty() {
                return;
            }
            from_source.into_iter().for_each(|effect| self.carry_out_at_source(effect));
            from_target.into_iter().for_each(|effect| self.carry_out_at_target(effect));
        }
    }

    fn carry_out_at_source(&mut self, effect: Effect) {
        let now = at(self.ms);
        match effect {
            Effect::Migration(id, MigrationAction::Connect { .. }) => {
                self.source.migration_event(id, MigrationEvent::Connected, now);
            }
            Effect::Migration(id, MigrationAction::Establish) => {
                let job = self.source.migration(id).unwrap();
                let (name, ranges, source) = (job.name(), job.ranges().to_vec(), self.source.my_id());
                let reply = match self.target.check_import(&ranges) {
                    Ok(()) => {
                        self.target.establish_import(name, Some(source), ranges, now);
                        b"+OK".to_vec()
                    }
                    Err(refusal) => format!("-ERR {refusal}").into_bytes(),
                };
                self.source.migration_event(id, MigrationEvent::Replied(reply), now);
            }
            Effect::Migration(_, MigrationAction::Send(word)) => {
                if let Some(import) = self.import() {
                    self.target.migration_event(import, MigrationEvent::Received(Some(word)), now);
                }
            }
            Effect::Migration(id, MigrationAction::Snapshot) => {
                let ended = MigrationEvent::SnapshotEnded { succeeded: true, copied_bytes: 7 };
                self.source.migration_event(id, ended, now);
            }
            Effect::Migration(_, MigrationAction::Close) => {
                if let Some(import) = self.import() {
                    self.target.migration_event(import, MigrationEvent::Disconnected, now);
                }
                self.source_does.push(effect);
            }
            other => self.source_does.push(other),
        }
    }

    fn carry_out_at_target(&mut self, effect: Effect) {
        let now = at(self.ms);
        let export = self.source.migrations().next().map(Job::id);
        match (effect, export) {
            (Effect::Migration(_, MigrationAction::Send(word)), Some(export)) => {
                self.source.migration_event(export, MigrationEvent::Received(Some(word)), now);
            }
            (Effect::Migration(_, MigrationAction::Close), Some(export)) => {
                self.source.migration_event(export, MigrationEvent::Disconnected, now);
            }
            (other, _) => self.target_does.push(other),
        }
    }

    /// The source hears of the target's claim on the bus.
    fn claim(&mut self) {
        let target = self.target.my_id();
        for slot in self.target.myself().slots().clone().iter() {
            if self.source.is_granted(slot, target) {
                self.source.move_slot(target, slot);
            }
        }
    }

    fn until(&mut self, state: &str) {
        for _ in 0..50 {
            self.turn();
            if self.states().0 == state {
                return;
            }
        }
        panic!("{state} was not reached: {:?} {:?}", self.states(), self.messages());
    }
}

#[test]
fn slots_move_in_one_step() {
    let mut pair = Pair::new();
    let export = pair.start();
    pair.until("failover-granted");
    pair.turn();
    assert!(pair.target.owns(3) && pair.target.owns(8) && !pair.target.owns(6));
    assert_eq!(pair.states().1, "success");
    assert!(pair.source.owns(3), "until the claim comes");
    let held: SlotSet = [3, 4, 5, 8].into_iter().collect();
    let pause = |effect: &&Effect| matches!(effect, Effect::PauseSlots { slots, .. } if *slots == held);
    assert!(pair.source_does.iter().any(|effect| pause(&effect)), "{:?}", pair.source_does);
    let target = pair.target.my_id();
    assert!(pair.source.is_granted(3, target) && !pair.source.is_granted(6, target));
    assert!(!pair.source.is_granted(3, pair.source.my_id()), "to the target alone");
    pair.claim();
    pair.turn();
    assert_eq!(pair.states(), ("success", "success"));
    assert!(pair.source_does.contains(&Effect::ResumeSlots));
    assert_eq!(pair.source.migration(export).unwrap().copied_bytes(), 7);
    let shows = pair.target_does.iter().position(
        |effect| matches!(effect, Effect::Migration(_, MigrationAction::Show(slots)) if *slots == held),
    );
    let finish = pair
        .target_does
        .iter()
        .position(|effect| matches!(effect, Effect::Migration(_, MigrationAction::Finish { .. })));
    assert!(shows < finish && shows.is_some(), "{:?}", pair.target_does);
    assert!(!pair.source.has_migrations() && !pair.target.has_migrations());
}

/// A PING of a primary that claims slots.
fn claim(sender: NodeId, epoch: u64, slots: SlotSet) -> Frame {
    let header = Header {
        sender,
        port: 7000,
        other_port: 0,
        bus_port: 17_000,
        current_epoch: epoch,
        config_epoch: epoch,
        offset: 0,
        slots,
        replica_of: None,
        address: None,
        flags: NodeFlags::PRIMARY,
        is_state_ok: true,
        mflags: MessageFlags::default(),
    };
    Frame::Full(
        Box::new(header),
        Body::Ping(Gossip { entries: Vec::new(), extensions: Extensions::default() }),
    )
}

#[test]
fn a_source_that_has_not_heard_of_the_claim_does_not_take_its_slots_back() {
    let mut pair = Pair::new();
    pair.start();
    pair.until("failover-granted");
    pair.turn();
    let (source, link) = (pair.source.my_id(), LinkId::accepted(1));
    let (peer, local) = ("10.0.0.9".parse().unwrap(), "10.0.0.8".parse().unwrap());
    let target = &mut pair.target;
    target.step(Input::LinkAccepted { link, peer, local }, at(10_000));
    let before: SlotSet = (0..10).collect();
    let after: SlotSet = [0, 1, 2, 6, 7, 9].into_iter().collect();
    let mut hear = |epoch, slots: &SlotSet, ms| {
        target.step(Input::Frame(link, claim(source, epoch, slots.clone())), at(ms));
        target.check();
        target.owns(3)
    };
    // It has taken slots of others since.
    assert!(hear(50, &before, 10_000));
    assert!(hear(50, &before, 24_000));
    // It has heard of it; an older frame comes behind.
    assert!(hear(51, &after, 24_100));
    assert!(hear(50, &before, 38_000));
    assert!(hear(51, &after, 38_100));
    // It has them back, since this node was replaced.
    assert!(hear(60, &before, 38_200));
    assert!(hear(60, &before, 53_100));
    assert!(!hear(60, &before, 53_200));
    assert!(!pair.target.owns(8) && pair.target.slots.taken.is_empty());
}

#[test]
fn frames_of_a_source_are_as_good_as_others_some_time_after_it_has_given_slots_up() {
    let mut pair = Pair::new();
    let (source, link) = (pair.source.my_id(), LinkId::accepted(1));
    pair.target.claim_slots(&[3].into_iter().collect(), source);
    let (peer, local) = ("10.0.0.9".parse().unwrap(), "10.0.0.8".parse().unwrap());
    pair.target.step(Input::LinkAccepted { link, peer, local }, at(0));
    let after: SlotSet = [0, 1, 2].into_iter().collect();
    for ms in [0, 14_900, 15_000] {
        assert!(!pair.target.slots.taken.is_empty());
        pair.target.step(Input::Frame(link, claim(source, 50, after.clone())), at(ms));
    }
    assert!(pair.target.slots.taken.is_empty() && pair.target.owns(3));
}

#[test]
fn slots_that_the_target_has_given_to_others_do_not_end_the_pause_of_the_rest() {
    let mut pair = Pair::new();
    pair.start();
    pair.until("failover-granted");
    pair.turn();
    let (third, target) = (NodeId::from_random([9; 20]), pair.target.my_id());
    introduce(&mut pair.source, &Node::new(third, third, NodeFlags::PRIMARY, 0), 20);
    pair.source.take_effects();
    // The claim of the third node comes before that of the target.
    pair.source.move_slot(third, 4);
    pair.turn();
    assert_eq!(pair.states().0, "failover-granted");
    assert!(pair.source.is_granted(3, target) && !pair.source_does.contains(&Effect::ResumeSlots));
    pair.claim();
    pair.turn();
    assert_eq!(pair.states().0, "success");
    assert!(pair.source_does.contains(&Effect::ResumeSlots));
}

#[test]
fn a_pause_ends_with_the_job_whose_connection_is_lost() {
    let mut pair = Pair::new();
    let export = pair.start();
    pair.unsent_bytes = 1;
    pair.until("waiting-to-pause");
    let facts =
        MigrationFacts { may_fork: true, may_pause: true, authenticates: false, unsent_bytes: &|_| 0 };
    pair.source.run_migrations(&facts, at(pair.ms));
    assert_eq!(pair.states().0, "failover-paused");
    pair.source.take_effects();
    pair.source.migration_event(export, MigrationEvent::Disconnected, at(pair.ms));
    assert!(!pair.source.has_migrations(), "no turn has to continue jobs");
    assert!(pair.source.take_effects().contains(&Effect::ResumeSlots));
}

#[test]
fn a_target_with_all_keys_does_not_wait_for_ever_for_few_unsent_bytes() {
    let mut pair = Pair::new();
    pair.start();
    pair.unsent_bytes = 1;
    pair.until("waiting-to-pause");
    let began_ms = pair.ms;
    pair.until("failover-granted");
    assert!((2_000..=2_200).contains(&(pair.ms - began_ms)), "{}", pair.ms - began_ms);
    // Few unsent bytes are not waited for.
    let mut pair = Pair::new();
    pair.start();
    pair.until("failover-granted");
    assert!(pair.ms < 1_000, "{}", pair.ms);
}

#[test]
fn without_the_claim_writes_go_on_after_a_while() {
    let mut pair = Pair::new();
    pair.target.set_faults(Faults { no_migration_failover: true, ..Faults::default() });
    pair.start();
    pair.until("failover-granted");
    let began_ms = pair.ms;
    for _ in 0..200 {
        pair.turn();
        if pair.states().0 == "failed" {
            break;
        }
    }
    assert!((9_900..=10_200).contains(&(pair.ms - began_ms)), "{}", pair.ms - began_ms);
    assert!(pair.messages().0.starts_with("Unpaused before migration completed"), "{:?}", pair.messages());
    pair.turn();
    assert_eq!(pair.states(), ("failed", "failed"));
    assert!(pair.source_does.contains(&Effect::ResumeSlots));
    assert!(!pair.source.is_granted(3, pair.target.my_id()), "a later claim needs a newer epoch");
}

#[test]
fn a_target_that_was_held_up_does_not_take_the_slots() {
    let mut pair = Pair::new();
    pair.target.set_faults(Faults { no_migration_failover: true, ..Faults::default() });
    pair.start();
    pair.until("failover-granted");
    let facts =
        MigrationFacts { may_fork: true, may_pause: true, authenticates: false, unsent_bytes: &|_| 0 };
    // The source knows nothing of it yet, and its clients write again.
    pair.target.set_faults(Faults::default());
    pair.target.run_migrations(&facts, at(pair.ms + 1_500));
    assert!(!pair.target.owns(3));
    assert_eq!(pair.states().1, "cleaning-up");
    assert!(pair.messages().1.starts_with("The pause of the source ended"), "{:?}", pair.messages());
}

#[test]
fn what_a_failed_import_leaves_is_deleted_before_it_is_shown() {
    let mut pair = Pair::new();
    pair.source.set_faults(Faults { no_migration_pause: true, ..Faults::default() });
    pair.start();
    pair.until("waiting-to-pause");
    pair.source.cancel_migrations("a test", at(pair.ms)).unwrap();
    assert_eq!(pair.states(), ("cancelled", "waiting-for-paused"));
    pair.turn();
    pair.turn();
    assert_eq!(pair.states(), ("cancelled", "failed"));
    let of = |effect: &Effect| match effect {
        Effect::Migration(_, MigrationAction::DeleteKeys(slots)) => Some(("delete", slots.len())),
        Effect::Migration(_, MigrationAction::Show(slots)) => Some(("show", slots.len())),
        Effect::Migration(_, MigrationAction::Finish { .. }) => Some(("finish", 0)),
        _ => None,
    };
    let done: Vec<_> = pair.target_does.iter().filter_map(of).collect();
    assert_eq!(done, [("delete", 4), ("show", 4), ("finish", 0)]);
    assert_eq!(pair.source.cancel_migrations("a test", at(pair.ms)), Err(Refusal::NoMigrations));
}

#[test]
fn words_out_of_order_fail_a_job() {
    for word in Word::ALL {
        let mut pair = Pair::new();
        let source = pair.source.my_id();
        let name = NodeId::from_random([7; 20]);
        let id = pair.target.establish_import(name, Some(source), vec![(3, 3)], at(0));
        pair.target.migration_event(id, MigrationEvent::Received(Some(word)), at(0));
        let state = pair.target.migration(id).unwrap().state();
        match word {
            Word::Ack => assert_eq!(state, JobState::ReceivingSnapshot),
            _ => assert_eq!(state, JobState::CleaningUp, "{word:?}"),
        }
    }
}

#[test]
fn a_silent_node_fails_a_job() {
    let mut pair = Pair::new();
    let (source, name) = (pair.source.my_id(), NodeId::from_random([7; 20]));
    pair.target.establish_import(name, Some(source), vec![(3, 3)], at(0));
    pair.ms = 59_000;
    pair.turn();
    assert_eq!(pair.states().1, "waiting-for-ack");
    pair.ms = 60_000;
    pair.turn();
    assert_eq!(pair.messages().1, "Timed out after too long with no interaction");
}

#[test]
fn an_import_ends_when_its_slots_go_elsewhere() {
    let mut pair = Pair::new();
    let (source, target) = (pair.source.my_id(), pair.target.my_id());
    for (owner, message) in [
        (Some(target), "Slots were unexpectedly assigned to myself during import"),
        (None, "Slots are no longer owned by source node"),
    ] {
        pair.target.move_slot(source, 3);
        pair.target.establish_import(NodeId::from_random([8; 20]), Some(source), vec![(3, 3)], at(0));
        pair.target.delete_slot(3);
        owner.into_iter().for_each(|owner| pair.target.add_slot(owner, 3));
        pair.turn();
        pair.turn();
        assert_eq!((pair.states().1, pair.messages().1.as_str()), ("failed", message));
    }
}

#[test]
fn jobs_that_have_ended_are_forgotten_from_the_oldest_on() {
    let mut pair = Pair::new();
    let settings = Settings { slot_migration_log_len_max: 2, ..Settings::default() };
    pair.source.reconfigure(settings);
    let jobs: Vec<JobId> = (0..4).map(|_| pair.start()).collect();
    for id in &jobs[..3] {
        pair.source.migration_event(*id, MigrationEvent::ConnectingFailed("refused".into()), at(0));
    }
    let facts =
        MigrationFacts { may_fork: false, may_pause: false, authenticates: false, unsent_bytes: &|_| 0 };
    pair.source.run_migrations(&facts, at(0));
    let kept: Vec<JobId> = pair.source.migrations().map(Job::id).collect();
    assert_eq!(kept, [jobs[3], jobs[2]], "the newest first, the unfinished always");
}

#[test]
fn set_slot_and_migrations_exclude_each_other() {
    let mut pair = Pair::new();
    let target = pair.target.my_id();
    pair.source.set_slot(3, crate::SlotState::Migrating(target.as_bytes()), 0, false).unwrap();
    assert_eq!(pair.source.check_may_migrate(), Err(Refusal::ManualMigration));
    pair.source.set_slot(3, crate::SlotState::Stable, 0, false).unwrap();
    pair.start();
    let refused = pair.source.set_slot(9, crate::SlotState::Stable, 0, false);
    assert_eq!(refused, Err(Refusal::ExportInProgress));
    assert_eq!(
        pair.source.check_export(&[(2, 3)], Some(pair.source.my_id())),
        Err(Refusal::AlreadyMigrating(3))
    );
}
