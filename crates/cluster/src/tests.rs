//! Tests of single nodes: commands, and what they change.

use structures::random::Random;
use wire::cluster_bus::{
    Address, Body, Extensions, Frame, Gossip, GossipEntry, Header, MessageFlags, NodeFlags, NodeId, SLOTS,
    SlotSet,
};
use wire::nodes_conf::FaultKind;

use super::*;

fn at(ms: u64) -> Now {
    Now { monotonic_ms: 1_000 + ms, unix_ms: 1_700_000_000_000 + ms }
}

fn cluster() -> Cluster {
    Cluster::new(Settings::default(), Random::new(1), at(0))
}

/// Ends a turn and drops what it wants done.
fn end(cluster: &mut Cluster, ms: u64) {
    cluster.end_turn(at(ms));
    cluster.take_effects();
    cluster.check();
}

fn log(effects: &[Effect]) -> Vec<&str> {
    let mut lines = Vec::new();
    for effect in effects {
        if let Effect::Log(_, text) = effect {
            lines.push(text.as_str());
        }
    }
    lines
}

/// Makes another node known, as gossip does.
fn known(cluster: &mut Cluster, ip: &str, flags: NodeFlags) -> NodeId {
    let (id, shard) = (cluster.new_id(), cluster.new_id());
    let mut node = Node::new(id, shard, flags, cluster.now_ms());
    node.address = Address::parse(ip);
    node.endpoints.tcp_port = 6379;
    node.endpoints.bus_port = 16379;
    cluster.nodes.insert(node).unwrap();
    id
}

#[test]
fn a_node_that_owns_all_slots_is_ok_after_the_start_delay() {
    let mut cluster = cluster();
    cluster.add_slots(&[(0, SLOTS - 1)]).unwrap();
    end(&mut cluster, 0);
    assert!(!cluster.is_ok() && cluster.owns(0) && cluster.owns(SLOTS - 1));
    for ms in (100..=2_000).step_by(100) {
        cluster.step(Input::Tick, at(ms));
        cluster.end_turn(at(ms));
        assert_eq!(cluster.is_ok(), ms == 2_000, "{ms}");
    }
    let effects = cluster.take_effects();
    assert!(log(&effects).contains(&"Cluster state changed: ok"), "{effects:?}");
    assert_eq!((cluster.size(), cluster.info().slots_ok), (1, 16_384));
}

#[test]
fn a_cluster_without_all_slots_is_ok_only_if_that_is_not_required() {
    let mut cluster = cluster();
    cluster.add_slots(&[(0, 100)]).unwrap();
    end(&mut cluster, 0);
    cluster.step(Input::Tick, at(2_000));
    let effects = cluster.take_effects();
    assert!(log(&effects)[0].starts_with("Cluster is currently down: At least one hash slot"), "{effects:?}");
    cluster.reconfigure(Settings { require_full_coverage: false, ..Settings::default() });
    end(&mut cluster, 2_001);
    assert!(cluster.is_ok());
}

#[test]
fn slots_are_checked_before_any_is_changed() {
    let mut cluster = cluster();
    cluster.add_slots(&[(5, 9), (11, 11)]).unwrap();
    assert_eq!(cluster.add_slots(&[(1, 2), (9, 9)]).unwrap_err().to_string(), "Slot 9 is already busy");
    let text = cluster.add_slots(&[(1, 2), (2, 2)]).unwrap_err().to_string();
    assert_eq!(text, "Slot 2 specified multiple times");
    let text = cluster.add_slots(&[(4, 2)]).unwrap_err().to_string();
    assert_eq!(text, "start slot number 4 is greater than end slot number 2");
    let text = cluster.delete_slots(&[(9, 10)]).unwrap_err().to_string();
    assert_eq!(text, "Slot 10 is already unassigned");
    assert_eq!(cluster.myself().slots().ranges().collect::<Vec<_>>(), [(5, 9), (11, 11)]);
    cluster.delete_slots(&[(6, 7)]).unwrap();
    let effects = cluster.take_effects();
    assert_eq!(effects.last(), Some(&Effect::SlotsLeft([6, 7].into_iter().collect())));
    assert_eq!(cluster.flush_slots(false), Err(Refusal::KeysBeforeFlush));
    cluster.flush_slots(true).unwrap();
    assert_eq!(cluster.myself().slot_count(), 0);
    end(&mut cluster, 1);
}

#[test]
fn set_slot_refuses_what_makes_no_sense() {
    let mut cluster = cluster();
    let me = cluster.my_id();
    let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
    let replica = known(&mut cluster, "10.0.0.3", NodeFlags::REPLICA);
    cluster.add_slots(&[(0, 9)]).unwrap();
    let mut refusal = |slot, state, keys| cluster.set_slot(slot, state, keys, false).unwrap_err().to_string();
    let (me, other, replica) = (me.as_bytes(), other.as_bytes(), replica.as_bytes());
    assert_eq!(refusal(10, SlotState::Migrating(other), 0), "I'm not the owner of hash slot 10");
    assert_eq!(refusal(9, SlotState::Importing(other), 0), "I'm already the owner of hash slot 9");
    assert_eq!(refusal(9, SlotState::Migrating(b"x"), 0), "I don't know about node x");
    assert_eq!(refusal(9, SlotState::Migrating(me), 0), "Target node is myself");
    assert_eq!(refusal(9, SlotState::Migrating(replica), 0), "Target node is not a master");
    assert_eq!(refusal(9, SlotState::Node(b"x"), 0), "Unknown node x");
    let text = "Can't assign hashslot 9 to a different node while I still hold keys for this hash slot.";
    assert_eq!(refusal(9, SlotState::Node(other), 1), text);
}

#[test]
fn a_slot_moves_by_set_slot() {
    let mut cluster = cluster();
    let me = cluster.my_id();
    let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
    cluster.add_slots(&[(0, 9)]).unwrap();
    cluster.set_slot(9, SlotState::Migrating(other.as_bytes()), 5, false).unwrap();
    assert_eq!(cluster.migrating_to(9).map(Node::id), Some(other));
    cluster.set_slot(9, SlotState::Node(other.as_bytes()), 0, false).unwrap();
    assert_eq!((cluster.migrating_to(9).is_none(), cluster.owner(9).map(Node::id)), (true, Some(other)));
    // And back: the importing node takes a new epoch, so that all believe it.
    cluster.set_slot(9, SlotState::Importing(other.as_bytes()), 0, false).unwrap();
    cluster.set_slot(9, SlotState::Node(me.as_bytes()), 3, false).unwrap();
    assert!(cluster.owns(9) && cluster.importing_from(9).is_none());
    assert_eq!((cluster.myself().config_epoch, cluster.current_epoch()), (1, 1));
    let actions = cluster.end_turn(at(1));
    assert!(matches!(&actions[0], BusAction::Save { sync: true, .. }), "{actions:?}");
}

#[test]
fn a_replica_keeps_an_import_open_until_its_primary_claims_the_slot() {
    let replica = || {
        let mut cluster = cluster();
        let primary = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
        let source = known(&mut cluster, "10.0.0.3", NodeFlags::PRIMARY);
        cluster.move_slot(source, 9);
        cluster.replicate(primary.as_bytes(), true, at(0)).unwrap();
        cluster.set_slot(9, SlotState::Importing(source.as_bytes()), 0, true).unwrap();
        cluster.set_slot(9, SlotState::Node(primary.as_bytes()), 5, true).unwrap();
        assert_eq!(cluster.owner(9).map(Node::id), Some(primary));
        end(&mut cluster, 1);
        (cluster, source)
    };
    // The primary fails in mid-air, and the source still says that the slot is its own: the keys are here alone.
    let (mut cluster, source) = replica();
    cluster.move_slot(source, 9);
    cluster.set_as_primary(cluster.my_id());
    cluster.verify_data(&[9].into_iter().collect());
    let effects = cluster.take_effects();
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::DeleteKeysInSlots(_))), "{effects:?}");
    assert_eq!(cluster.importing_from(9).map(Node::id), Some(source));
    // The primary claims it.
    let (mut cluster, _) = replica();
    cluster.close_imports_of_primary(&[9].into_iter().collect());
    assert!(cluster.importing_from(9).is_none());
}

#[test]
fn a_primary_that_gives_its_last_slot_away_becomes_a_replica_or_stays_empty() {
    for allow_replica_migration in [true, false] {
        let mut cluster = cluster();
        cluster.reconfigure(Settings { allow_replica_migration, ..Settings::default() });
        let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
        cluster.add_slots(&[(7, 7)]).unwrap();
        cluster.set_slot(7, SlotState::Node(other.as_bytes()), 0, false).unwrap();
        let effects = cluster.take_effects();
        let replicates = effects
            .iter()
            .any(|effect| matches!(effect, Effect::ReplicateFrom { full_sync: true, port: 6379, .. }));
        assert_eq!(
            (replicates, cluster.myself().is_replica()),
            (allow_replica_migration, allow_replica_migration)
        );
        let says = log(&effects).iter().any(|text| text.ends_with("I am now an empty primary."));
        assert_eq!(says, !allow_replica_migration);
        end(&mut cluster, 1);
    }
}

#[test]
fn a_node_becomes_a_replica_and_a_primary_again() {
    let mut cluster = cluster();
    let (me, other) = (cluster.my_id(), known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY));
    let replica = known(&mut cluster, "10.0.0.3", NodeFlags::REPLICA);
    let mut refusal = |id: &[u8], empty| cluster.replicate(id, empty, at(1)).unwrap_err().to_string();
    assert_eq!(refusal(b"nobody", true), "Unknown node nobody");
    assert_eq!(refusal(me.as_bytes(), true), "Can't replicate myself");
    assert_eq!(refusal(replica.as_bytes(), true), "I can only replicate a master, not a replica.");
    let text = "To set a master the node must be empty and without assigned slots.";
    assert_eq!(refusal(other.as_bytes(), false), text);
    cluster.replicate(other.as_bytes(), true, at(1)).unwrap();
    assert!(cluster.myself().is_replica() && cluster.is_in_my_shard(cluster.node(other).unwrap()));
    assert_eq!(cluster.node(other).unwrap().replicas(), [me]);
    assert_eq!(cluster.forget(other.as_bytes(), "", at(1)), Err(Refusal::ForgetPrimary));
    let text = cluster.set_slot(1, SlotState::Stable, 0, false).unwrap_err().to_string();
    assert_eq!(text, "Please use SETSLOT only with masters.");
    end(&mut cluster, 1);
    let shard = cluster.myself().shard_id();
    cluster.replicate_no_one("id=1", at(2));
    let effects = cluster.take_effects();
    assert!(effects.contains(&Effect::BecomePrimary) && effects.contains(&Effect::Flush(Flush::Detached)));
    assert!(cluster.myself().is_primary() && cluster.myself().shard_id() != shard);
    assert!(cluster.node(other).unwrap().replicas().is_empty());
    end(&mut cluster, 2);
}

#[test]
fn a_forgotten_node_is_not_brought_back() {
    let mut cluster = cluster();
    let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
    let me = cluster.my_id();
    assert_eq!(cluster.forget(me.as_bytes(), "", at(1)), Err(Refusal::ForgetMyself));
    assert_eq!(cluster.forget(b"x", "", at(1)), Err(Refusal::UnknownNode("x".to_string())));
    cluster.forget(other.as_bytes(), "", at(1)).unwrap();
    assert!(cluster.node(other).is_none() && cluster.is_forgotten(other));
    cluster.forget(other.as_bytes(), "", at(60_000)).unwrap();
    assert_eq!(
        cluster.forget(other.as_bytes(), "", at(60_001)),
        Err(Refusal::UnknownNode(other.to_string()))
    );
}

#[test]
fn a_reset_forgets_all() {
    let mut cluster = cluster();
    let (me, other) = (cluster.my_id(), known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY));
    cluster.add_slots(&[(0, 9)]).unwrap();
    cluster.bump_epoch();
    assert_eq!(cluster.reset(true, false, "", at(1)), Err(Refusal::KeysBeforeReset));
    cluster.reset(false, true, "", at(1)).unwrap();
    assert_eq!((cluster.my_id(), cluster.node_count(), cluster.current_epoch()), (me, 1, 1));
    assert!(cluster.node(other).is_none() && cluster.owner(0).is_none());
    cluster.reset(true, true, "", at(2)).unwrap();
    assert_ne!(cluster.my_id(), me);
    assert_eq!((cluster.current_epoch(), cluster.myself().config_epoch), (0, 0));
    end(&mut cluster, 2);
}

#[test]
fn epochs_are_set_once_and_bumped_if_they_are_not_the_highest() {
    let mut cluster = cluster();
    assert_eq!(cluster.set_config_epoch(-1), Err(Refusal::BadEpoch(-1)));
    cluster.set_config_epoch(7).unwrap();
    assert_eq!(cluster.set_config_epoch(8), Err(Refusal::EpochTaken));
    assert_eq!((cluster.current_epoch(), cluster.bump_epoch()), (7, Bumped::Still(7)));
    let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
    assert_eq!(cluster.set_config_epoch(8), Err(Refusal::EpochWithNodes));
    cluster.nodes.get_mut(other).unwrap().config_epoch = 7;
    cluster.current_epoch = 9;
    assert_eq!(cluster.bump_epoch(), Bumped::Bumped(10));
}

#[test]
fn meet_wants_an_address() {
    let mut cluster = cluster();
    let refusal = cluster.meet("example.org", 6379, 16379, "", at(1)).unwrap_err();
    assert_eq!(refusal.to_string(), "Invalid node address specified: example.org:6379");
    cluster.meet("::1", 6379, 16379, "", at(1)).unwrap();
    cluster.meet("0:0:0:0:0:0:0:1", 6379, 16379, "", at(1)).unwrap();
    assert_eq!(cluster.node_count(), 2);
    cluster.step(Input::Tick, at(100));
    let actions = cluster.end_turn(at(100));
    let connects = actions.iter().any(|action| {
        matches!(action, BusAction::Connect { address, port: 16379, .. } if address.to_string() == "::1")
    });
    assert!(connects, "{actions:?}");
    // Nobody answers.
    cluster.step(Input::Tick, at(15_002));
    assert_eq!(cluster.node_count(), 1);
    end(&mut cluster, 15_002);
}

#[test]
fn data_and_slots_are_brought_in_agreement() {
    let mut cluster = cluster();
    let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
    cluster.add_slots(&[(0, 9)]).unwrap();
    cluster.add_slot(other, 20);
    cluster.add_slot(other, 21);
    cluster.set_slot(21, SlotState::Importing(other.as_bytes()), 0, false).unwrap();
    cluster.verify_data(&[3, 15, 20, 21].into_iter().collect::<SlotSet>());
    assert!(cluster.owns(15));
    let effects = cluster.take_effects();
    assert_eq!(effects.last(), Some(&Effect::DeleteKeysInSlots([20].into_iter().collect())));
}

#[test]
fn what_is_saved_is_loaded() {
    let mut cluster = cluster();
    let (me, other) = (cluster.my_id(), known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY));
    let replica = known(&mut cluster, "fd00::3", NodeFlags::REPLICA);
    cluster.nodes.attach(replica, other);
    let shard_id = cluster.node(other).unwrap().shard_id();
    cluster.set_shard_id(replica, shard_id);
    cluster.add_slots(&[(0, 9), (100, 100)]).unwrap();
    cluster.add_slot(other, 200);
    cluster.set_slot(9, SlotState::Migrating(other.as_bytes()), 1, false).unwrap();
    cluster.set_slot(200, SlotState::Importing(other.as_bytes()), 0, false).unwrap();
    cluster.bump_epoch();
    cluster.last_vote_epoch = 1;
    cluster.mark_failed(other);
    cluster.meet("10.0.0.9", 1, 2, "", at(0)).unwrap();
    let actions = cluster.end_turn(at(1));
    let [BusAction::Save { text, sync: true, .. }, ..] = &actions[..] else { panic!("{actions:?}") };

    let mut loaded = Cluster::load(text.as_bytes(), Settings::default(), Random::new(2), at(5)).unwrap();
    loaded.check();
    // A handshake is not saved.
    assert_eq!((loaded.my_id(), loaded.node_count()), (me, 3));
    assert_eq!((loaded.current_epoch(), loaded.last_vote_epoch(), loaded.myself().config_epoch), (1, 1, 1));
    assert_eq!(loaded.myself().slots(), cluster.myself().slots());
    assert_eq!(loaded.owner(200).map(Node::id), Some(other));
    assert_eq!(loaded.migrating_to(9).map(Node::id), Some(other));
    assert_eq!(loaded.importing_from(200).map(Node::id), Some(other));
    assert!(loaded.node(other).unwrap().is_failed());
    assert_eq!(loaded.node(other).unwrap().replicas(), [replica]);
    assert_eq!(loaded.node(replica).unwrap().shard_id(), loaded.node(other).unwrap().shard_id());
    assert_eq!(loaded.file_text().lines().count(), 4);
    let effects = loaded.take_effects();
    assert_eq!(log(&effects), [format!("Node configuration loaded, I'm {me}")]);

    let mut line = String::new();
    loaded.append_line(loaded.myself(), &"1.2.3.4", 7, &mut line);
    let expected =
        format!("{me} 1.2.3.4:7@16379 myself,master - 0 0 1 connected 0-9 100 [9->-{other}] [200-<-{other}]");
    assert_eq!(line, expected);
    assert!(Cluster::load(b"nonsense", Settings::default(), Random::new(2), at(5)).is_err());
}

fn saves(actions: &[BusAction]) -> Vec<(u64, bool)> {
    let mut saves = Vec::new();
    for action in actions {
        if let BusAction::Save { number, sync, .. } = action {
            saves.push((*number, *sync));
        }
    }
    saves
}

#[test]
fn what_need_not_be_on_disk_is_saved_with_the_next_tick() {
    let mut cluster = cluster();
    assert_eq!(saves(&cluster.end_turn(at(0))), [(1, true)]);
    let version = cluster.version();
    cluster.reconfigure(Settings { tcp_port: 1, ..Settings::default() });
    assert_eq!(cluster.awaited_save(), None);
    assert_eq!(saves(&cluster.end_turn(at(1))), []);
    assert!(cluster.version() > version, "caches of replies are renewed at once");
    cluster.step(Input::Tick, at(100));
    assert_eq!(saves(&cluster.end_turn(at(100))), [(2, false)]);
    cluster.step(Input::Tick, at(200));
    assert_eq!(saves(&cluster.end_turn(at(200))), []);
    cluster.reconfigure(Settings { tcp_port: 2, ..Settings::default() });
    cluster.hasten_save();
    assert_eq!(saves(&cluster.end_turn(at(201))), [(3, false)], "the process ends");
}

#[test]
fn a_command_that_has_changed_something_awaits_the_save_of_its_turn() {
    let mut cluster = cluster();
    let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
    end(&mut cluster, 0);
    let commands: [fn(&mut Cluster, &[u8]); 8] = [
        |cluster, _| cluster.add_slots(&[(0, 9)]).unwrap(),
        |cluster, other| cluster.set_slot(1, SlotState::Migrating(other), 0, false).unwrap(),
        |cluster, _| cluster.set_slot(1, SlotState::Stable, 0, false).unwrap(),
        |cluster, other| cluster.set_slot(1, SlotState::Node(other), 0, false).unwrap(),
        |cluster, _| cluster.flush_slots(true).unwrap(),
        |cluster, other| cluster.replicate(other, true, at(1)).unwrap(),
        |cluster, _| cluster.replicate_no_one("", at(1)),
        |cluster, other| cluster.forget(other, "", at(1)).unwrap(),
    ];
    for (command, turn) in commands.into_iter().zip(1..) {
        assert_eq!(cluster.awaited_save(), None);
        command(&mut cluster, other.as_bytes());
        let awaited = cluster.awaited_save().unwrap();
        assert_eq!(saves(&cluster.end_turn(at(turn))), [(awaited, true)]);
    }
    cluster.set_config_epoch(7).unwrap();
    assert_eq!(cluster.awaited_save(), Some(10));
    assert_eq!(cluster.add_slots(&[(5, 4)]), Err(Refusal::RangeReversed(5, 4)));
}

#[test]
fn lines_of_the_log_are_taken_without_the_other_effects() {
    let mut cluster = cluster();
    cluster.take_effects();
    cluster.add_slots(&[(0, 9)]).unwrap();
    cluster.delete_slots(&[(3, 3)]).unwrap();
    let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
    cluster.flush_slots(true).unwrap();
    cluster.replicate(other.as_bytes(), true, at(1)).unwrap();
    cluster.replicate_no_one("", at(1));
    assert!(!cluster.take_log().is_empty());
    assert!(cluster.take_log().is_empty());
    let effects = cluster.take_effects();
    assert!(log(&effects).is_empty(), "{effects:?}");
    assert!(matches!(effects[0], Effect::ReplicateFrom { .. }), "{effects:?}");
}

#[test]
fn a_file_with_too_many_nodes_is_refused() {
    let mut cluster = cluster();
    for n in 1..NODES_MAX {
        known(&mut cluster, &format!("10.0.{}.{}", n / 256, n % 256), NodeFlags::PRIMARY);
    }
    let actions = cluster.end_turn(at(0));
    let [BusAction::Save { text, .. }, ..] = &actions[..] else { panic!("{actions:?}") };
    let load = |text: &str| Cluster::load(text.as_bytes(), Settings::default(), Random::new(2), at(5));
    assert_eq!(load(text).unwrap().node_count(), NODES_MAX);
    let one_more =
        text.replace("vars ", &format!("{} :0@0 master - 0 0 0 connected\nvars ", cluster.new_id()));
    let fault = load(&one_more).err().unwrap();
    assert_eq!((fault.kind, fault.to_string()), (FaultKind::TooManyNodes, "too many nodes".to_owned()));
}

#[test]
fn a_slot_that_its_owner_no_longer_claims_is_news_once() {
    let mut cluster = cluster();
    let other = known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY);
    cluster.move_slot(other, 1);
    cluster.move_slot(other, 2);
    let claims = |slots: &[u16]| slots.iter().copied().collect::<SlotSet>();
    assert!(!cluster.is_other_claim(other, &claims(&[1, 2])));
    assert!(cluster.is_other_claim(other, &claims(&[1])));
    cluster.slots.unclaimed.insert(2);
    assert!(!cluster.is_other_claim(other, &claims(&[1])), "it is known");
    assert!(cluster.is_other_claim(other, &claims(&[1, 2])), "it is claimed again");
    assert!(cluster.is_other_claim(other, &claims(&[])));
    cluster.slots.importing.insert(2, other);
    assert!(cluster.is_other_claim(other, &claims(&[1])), "an import may end");
}

#[test]
fn nodes_that_are_not_known_are_in_no_shard() {
    let mut cluster = cluster();
    let (one, other, me) = (cluster.new_id(), cluster.new_id(), cluster.my_id());
    assert!(!cluster.are_in_one_shard(one, other) && !cluster.are_in_one_shard(one, me));
    assert!(cluster.are_in_one_shard(me, me));
}

#[test]
fn a_pong_to_all_is_one_frame_for_those_with_extensions_and_one_for_the_others() {
    let mut cluster = cluster();
    for n in 1..=20 {
        let reads = if n % 2 == 0 { NodeFlags::EXTENSIONS } else { NodeFlags::NONE };
        known(&mut cluster, &format!("10.0.0.{n}"), NodeFlags::PRIMARY | reads);
    }
    cluster.step(Input::Tick, at(100));
    end(&mut cluster, 100);
    cluster.bump_epoch();
    let mut frames = Vec::new();
    for action in cluster.end_turn(at(101)) {
        if let BusAction::Send(_, frame) = action {
            frames.push(frame);
        }
    }
    assert_eq!(frames.len(), 20);
    frames.dedup_by(|frame, before| std::sync::Arc::ptr_eq(frame, before));
    let has_extensions = |frame: &wire::cluster_bus::Frame| match frame {
        wire::cluster_bus::Frame::Full(_, wire::cluster_bus::Body::Pong(gossip)) => {
            gossip.extensions != Extensions::default()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(frames.iter().map(|frame| has_extensions(frame)).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn open_slots_of_the_primary_may_name_nodes_that_are_not_known_yet() {
    let mut cluster = cluster();
    let (other, unknown) = (known(&mut cluster, "10.0.0.2", NodeFlags::PRIMARY), cluster.new_id());
    cluster.replicate(other.as_bytes(), true, at(1)).unwrap();
    cluster.set_open_slots(&[(1, true, unknown), (2, false, other), (SLOTS, false, other)]);
    assert_eq!(cluster.importing_slots().collect::<Vec<_>>(), [(1, unknown)]);
    assert_eq!(cluster.migrating_slots().collect::<Vec<_>>(), [(2, other)]);
    cluster.step(Input::Tick, at(100));
    assert!(!cluster.node(unknown).unwrap().is_linked());
    let entry = GossipEntry {
        id: unknown,
        ping_sent_s: 0,
        pong_received_s: 0,
        address: Address::parse("10.0.0.9"),
        port: 1,
        other_port: 0,
        bus_port: 2,
        flags: NodeFlags::PRIMARY,
    };
    cluster.read_gossip(Some(other), &Gossip { entries: vec![entry], extensions: Extensions::default() });
    cluster.step(Input::Tick, at(200));
    assert!(cluster.node(unknown).unwrap().is_linked());
    end(&mut cluster, 200);
}

#[test]
fn what_a_new_node_knows_stays_known_if_its_handshake_fails() {
    let mut cluster = cluster();
    let (sender, other) = (cluster.new_id(), cluster.new_id());
    let ip = "10.0.0.2".parse().unwrap();
    let link = LinkId::accepted(0);
    cluster.step(Input::LinkAccepted { link, peer: ip, local: "10.0.0.1".parse().unwrap() }, at(1));
    let entry = GossipEntry {
        id: other,
        ping_sent_s: 0,
        pong_received_s: 0,
        address: Address::parse("10.0.0.3"),
        port: 6379,
        other_port: 0,
        bus_port: 16379,
        flags: NodeFlags::PRIMARY,
    };
    let header = Header {
        sender,
        port: 6379,
        other_port: 0,
        bus_port: 16379,
        current_epoch: 0,
        config_epoch: 0,
        offset: 0,
        slots: SlotSet::new(),
        replica_of: None,
        address: None,
        flags: NodeFlags::PRIMARY,
        is_state_ok: false,
        mflags: MessageFlags::default(),
    };
    let gossip = Gossip { entries: vec![entry], extensions: Extensions::default() };
    let meet = Frame::Full(Box::new(header), Body::Meet(gossip));
    cluster.step(Input::Frame(link, meet), at(2));
    assert_eq!(cluster.node_count(), 3);
    cluster.step(Input::Tick, at(15_003));
    assert!(cluster.node(other).is_some());
    assert_eq!(cluster.node_count(), 2);
}
