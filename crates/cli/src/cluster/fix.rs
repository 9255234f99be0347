//! `--cluster fix`: closes open slots, and gives owners to slots that have none or several.

use std::collections::BTreeSet;

use wire::response::Value;

use super::check::Fix;
use super::movement::{Progress, Way, set_owner};
use super::nodes::{Cluster, ranges_text};
use super::questions::confirms;
use super::{Level, print};
use crate::Failure;
use crate::program::Program;

/// The nodes that have to do with an open slot.
struct OpenSlot {
    slot: usize,
    /// Nodes that own the slot or have keys of it.
    owners: Vec<usize>,
    migrating: Vec<usize>,
    importing: Vec<usize>,
}

impl Fix<'_> {
    /// Mends what a check has found; returns whether all is well then. Slots without an owner come first: while there are some
    /// no keys move.
    pub fn run(
        &self,
        cluster: &mut Cluster,
        open: &BTreeSet<usize>,
        uncovered: &[usize],
    ) -> Result<bool, Failure> {
        let are_covered = uncovered.is_empty() || coverage(cluster, self, uncovered)?;
        for &slot in open {
            self.movement.stop_if_interrupted(slot)?;
            open_slot(cluster, self, slot)?;
        }
        Ok(are_covered)
    }

    /// Refuses to take slots of primaries that are not reached.
    fn require_all_primaries(&self, cluster: &Cluster, what: &str) -> Result<(), Failure> {
        let count = cluster.unreachable_primaries;
        if count == 0 || self.ignores_unreachable_primaries {
            return Ok(());
        }
        let program = Program::current().name;
        let text = format!(
            "*** Fixing {what} with {count} unreachable primaries is dangerous: {program} will assume that slots about \
             primaries that are not reachable are not covered, and will try to reassign them to the reachable nodes. This can \
             cause data loss and is rarely what you want to do. If you really want to proceed use the \
             --cluster-fix-with-unreachable-primaries option."
        );
        print(Level::Warning, text);
        Err(Failure::Reported)
    }

    /// Moves the keys of a slot from a node to the slot's owner, which the node knows.
    fn bring_home(
        &self,
        cluster: &mut Cluster,
        node: usize,
        owner: usize,
        slot: usize,
    ) -> Result<(), Failure> {
        // In importing state a node has MIGRATE's keys itself and does not redirect it to the owner.
        set_state(cluster, node, slot, &["IMPORTING", &cluster.nodes[owner].id.clone()])?;
        self.movement.move_keys_only(cluster, Way { source: node, target: owner, slot })?;
        print(Level::Information, format!(">>> Setting {slot} as STABLE in {}", cluster.nodes[node]));
        set_state(cluster, node, slot, &["STABLE"])
    }
}

fn set_state(cluster: &mut Cluster, node: usize, slot: usize, state: &[&str]) -> Result<(), Failure> {
    let slot = slot.to_string();
    let request = [&["CLUSTER", "SETSLOT", &slot], state].concat();
    cluster.nodes[node].must(&request).map(|_| ())
}

/// Makes a node the owner of a slot, whatever it knew of it, by an epoch of its own.
fn take(cluster: &mut Cluster, node: usize, slot: usize, is_closed: bool) -> Result<(), Failure> {
    let text = slot.to_string();
    let node = &mut cluster.nodes[node];
    node.must(&["MULTI"])?;
    node.must(&["CLUSTER", "DELSLOTS", &text])?;
    node.must(&["CLUSTER", "ADDSLOTS", &text])?;
    if is_closed {
        node.must(&["CLUSTER", "SETSLOT", &text, "STABLE"])?;
    }
    node.must(&["CLUSTER", "BUMPEPOCH"])?;
    let replies = node.must(&["EXEC"])?;
    // DELSLOTS fails for a slot without an owner, BUMPEPOCH if the epoch is the greatest already.
    if let Some(Value::Error(text)) = replies.as_list().and_then(|replies| replies.get(1)) {
        let text = String::from_utf8_lossy(text).into_owned();
        return Err(node.report(&super::nodes::NodeError::Refused(text)));
    }
    node.slots.insert(slot);
    Ok(())
}

/// Makes a node forget that it owns a slot, if it does.
fn give_up(cluster: &mut Cluster, node: usize, slot: usize) -> Result<(), Failure> {
    let knows = cluster.nodes[node].configuration()?;
    if knows.iter().any(|(_, slots)| slots.contains(&slot)) {
        cluster.nodes[node].must(&["CLUSTER", "DELSLOTS", &slot.to_string()])?;
    }
    cluster.nodes[node].slots.remove(&slot);
    Ok(())
}

/// Returns the node with the most keys of a slot; the first one if there are none.
fn with_most_keys(cluster: &mut Cluster, nodes: &[usize], slot: usize) -> Result<Option<usize>, Failure> {
    let mut most: Option<(usize, i64)> = None;
    for &node in nodes {
        let count = cluster.nodes[node].count_keys_in(slot)?;
        if most.is_none_or(|(_, keys)| count > keys) {
            most = Some((node, count));
        }
    }
    Ok(most.map(|(node, _)| node))
}

fn finish_move(cluster: &mut Cluster, fix: &Fix<'_>, way: Way) -> Result<(), Failure> {
    fix.movement.move_slot(cluster, way, Progress::Keys)?;
    cluster.nodes[way.source].slots.remove(&way.slot);
    cluster.nodes[way.target].slots.insert(way.slot);
    Ok(())
}

/// Closes an open slot: completes its move, or brings its keys to its owner.
fn open_slot(cluster: &mut Cluster, fix: &Fix<'_>, slot: usize) -> Result<(), Failure> {
    fix.require_all_primaries(cluster, "open slots")?;
    print(Level::Information, format!(">>> Fixing open slot {slot}"));
    let mut open = OpenSlot { slot, owners: Vec::new(), migrating: Vec::new(), importing: Vec::new() };
    open.find_owners(cluster)?;
    if let Some((source, target)) = open.intended_move(cluster) {
        open.find_states(cluster, Some(source))?;
        return open.complete(cluster, fix, Way { source, target, slot });
    }
    let single = if let [owner] = open.owners.as_slice() { Some(*owner) } else { None };
    open.find_states(cluster, single)?;
    let owner = match single {
        Some(owner) => owner,
        None => open.choose_owner(cluster)?,
    };
    open.make_others_import(cluster, owner)?;
    open.close(cluster, fix, owner)
}

impl OpenSlot {
    fn find_owners(&mut self, cluster: &mut Cluster) -> Result<(), Failure> {
        for node in cluster.primaries() {
            if cluster.nodes[node].slots.contains(&self.slot) {
                self.owners.push(node);
            } else if cluster.nodes[node].count_keys_in(self.slot)? > 0 {
                let text = format!(
                    "*** Found keys about slot {} in non-owner node {}!",
                    self.slot, cluster.nodes[node]
                );
                print(Level::Warning, text);
                self.owners.push(node);
            }
        }
        Ok(())
    }

    /// Returns source and target if they agree about a move that was not completed, and no other node has to do with it. Some of
    /// its keys may be at the target already.
    fn intended_move(&self, cluster: &Cluster) -> Option<(usize, usize)> {
        let primaries = cluster.primaries();
        let is_open = |node: &usize| {
            cluster.nodes[*node].migrating.contains_key(&self.slot)
                || cluster.nodes[*node].importing.contains_key(&self.slot)
        };
        let open: Vec<usize> = primaries.iter().copied().filter(is_open).collect();
        let source =
            open.iter().copied().find(|&node| cluster.nodes[node].migrating.contains_key(&self.slot))?;
        let target =
            open.iter().copied().find(|&node| cluster.nodes[node].importing.contains_key(&self.slot))?;
        let (from, to) = (&cluster.nodes[source], &cluster.nodes[target]);
        let do_agree =
            from.migrating.get(&self.slot) == Some(&to.id) && to.importing.get(&self.slot) == Some(&from.id);
        let are_alone = open.len() == 2 && self.owners.iter().all(|owner| open.contains(owner));
        let owns = from.slots.contains(&self.slot) && !to.slots.contains(&self.slot);
        (do_agree && are_alone && owns).then_some((source, target))
    }

    /// Finds the nodes that have opened the slot; others with keys of it are as if they imported it.
    fn find_states(&mut self, cluster: &mut Cluster, owner: Option<usize>) -> Result<(), Failure> {
        for node in cluster.primaries() {
            if cluster.nodes[node].migrating.contains_key(&self.slot) {
                self.migrating.push(node);
            } else if cluster.nodes[node].importing.contains_key(&self.slot) {
                self.importing.push(node);
            } else if Some(node) != owner && cluster.nodes[node].count_keys_in(self.slot)? > 0 {
                let text =
                    format!("*** Found keys about slot {} in node {}!", self.slot, cluster.nodes[node]);
                print(Level::Warning, text);
                self.importing.push(node);
            }
        }
        for (nodes, state) in [(&self.migrating, "migrating"), (&self.importing, "importing")] {
            if !nodes.is_empty() {
                print_line!("Set as {state} in: {}", names(cluster, nodes));
            }
        }
        Ok(())
    }

    fn choose_owner(&mut self, cluster: &mut Cluster) -> Result<usize, Failure> {
        let text = ">>> No single clear owner for the slot, selecting an owner by # of keys...";
        print(Level::Information, text);
        let primaries = cluster.primaries();
        let Some(owner) = with_most_keys(cluster, &primaries, self.slot)? else {
            print(Level::Error, "[ERR] Can't select a slot owner. Impossible to fix.");
            return Err(Failure::Reported);
        };
        print(Level::Warning, format!("*** Configuring {} as the slot owner", cluster.nodes[owner]));
        set_state(cluster, owner, self.slot, &["STABLE"])?;
        take(cluster, owner, self.slot, false)?;
        self.migrating.retain(|node| *node != owner);
        self.importing.retain(|node| *node != owner);
        Ok(owner)
    }

    /// If several nodes own the slot or have keys of it, all but the owner import it.
    fn make_others_import(&mut self, cluster: &mut Cluster, owner: usize) -> Result<(), Failure> {
        if self.owners.len() < 2 {
            return Ok(());
        }
        for node in self.owners.clone().into_iter().filter(|node| *node != owner) {
            give_up(cluster, node, self.slot)?;
            set_owner(cluster, node, owner, self.slot)?;
            set_state(cluster, node, self.slot, &["importing", &cluster.nodes[owner].id.clone()])?;
            self.migrating.retain(|other| *other != node);
            self.importing.retain(|other| *other != node);
            self.importing.push(node);
        }
        Ok(())
    }

    fn close(&self, cluster: &mut Cluster, fix: &Fix<'_>, owner: usize) -> Result<(), Failure> {
        match (self.migrating.as_slice(), self.importing.as_slice()) {
            (&[source], &[target]) => self.complete(cluster, fix, Way { source, target, slot: self.slot }),
            ([], [_, ..]) => self.bring_all_home(cluster, fix, owner),
            ([source], [_, _, ..]) => self.close_imports(cluster, fix, *source, owner),
            ([node], []) if *node == owner || cluster.nodes[*node].count_keys_in(self.slot)? == 0 => {
                let text = format!(">>> Case 4: Closing slot {} on {}", self.slot, cluster.nodes[*node]);
                print(Level::Information, text);
                set_state(cluster, *node, self.slot, &["STABLE"])
            }
            // The owner that was chosen had opened it.
            ([], []) => Ok(()),
            _ => Err(self.give_in(cluster, owner)),
        }
    }

    /// Case 1: one node migrates the slot and another imports it.
    fn complete(&self, cluster: &mut Cluster, fix: &Fix<'_>, way: Way) -> Result<(), Failure> {
        let (slot, from, to) = (way.slot, &cluster.nodes[way.source], &cluster.nodes[way.target]);
        print(Level::Information, format!(">>> Case 1: Moving slot {slot} from {from} to {to}"));
        finish_move(cluster, fix, way)
    }

    /// Case 2: nodes import the slot, or have keys of it, and none migrates it.
    fn bring_all_home(&self, cluster: &mut Cluster, fix: &Fix<'_>, owner: usize) -> Result<(), Failure> {
        let (slot, text) = (self.slot, &cluster.nodes[owner]);
        let text = format!(">>> Case 2: Moving all the {slot} slot keys to its owner {text}");
        print(Level::Information, text);
        for &node in self.importing.iter().filter(|node| **node != owner) {
            fix.bring_home(cluster, node, owner, slot)?;
        }
        for node in cluster.primaries().into_iter().filter(|node| *node != owner) {
            set_owner(cluster, node, owner, slot)?;
        }
        Ok(())
    }

    /// Case 3: a node migrates the slot, and several import it that have no keys.
    fn close_imports(
        &self,
        cluster: &mut Cluster,
        fix: &Fix<'_>,
        source: usize,
        owner: usize,
    ) -> Result<(), Failure> {
        for &node in &self.importing {
            if cluster.nodes[node].count_keys_in(self.slot)? > 0 {
                return Err(self.give_in(cluster, owner));
            }
        }
        let wanted = cluster.nodes[source].migrating.get(&self.slot).cloned();
        let target =
            self.importing.iter().copied().find(|&node| Some(&cluster.nodes[node].id) == wanted.as_ref());
        let (slot, from) = (self.slot, &cluster.nodes[source]);
        match target {
            Some(target) => {
                let text = format!(
                    ">>> Case 3: Moving slot {slot} from {from} to {} and closing it on all the other importing nodes.",
                    cluster.nodes[target]
                );
                print(Level::Information, text);
                finish_move(cluster, fix, Way { source, target, slot })?;
            }
            None => {
                let text = format!(">>> Case 3: Closing slot {slot} on both migrating and importing nodes.");
                print(Level::Information, text);
                set_state(cluster, source, slot, &["STABLE"])?;
            }
        }
        for &node in self.importing.iter().filter(|node| Some(**node) != target) {
            set_state(cluster, node, slot, &["STABLE"])?;
        }
        Ok(())
    }

    fn give_in(&self, cluster: &Cluster, owner: usize) -> Failure {
        let (program, owner) = (Program::current().name, &cluster.nodes[owner]);
        let (migrating, importing) = (names(cluster, &self.migrating), names(cluster, &self.importing));
        let text = format!(
            "[ERR] Sorry, {program} can't fix this slot yet. Slot is set as migrating in {migrating}, as importing in \
             {importing}, owner is {owner}"
        );
        print(Level::Error, text);
        Failure::Reported
    }
}

fn names(cluster: &Cluster, nodes: &[usize]) -> String {
    nodes.iter().map(|node| cluster.nodes[*node].to_string()).collect::<Vec<_>>().join(",")
}

/// Gives owners to slots without one; returns whether the operator let all be covered.
fn coverage(cluster: &mut Cluster, fix: &Fix<'_>, uncovered: &[usize]) -> Result<bool, Failure> {
    fix.require_all_primaries(cluster, "slots coverage")?;
    print(Level::Information, ">>> Fixing slots coverage...");
    let primaries = cluster.primaries();
    let mut holders: Vec<Vec<usize>> = vec![Vec::new(); uncovered.len()];
    for &node in &primaries {
        let counts = cluster.nodes[node].count_keys(uncovered)?;
        holders
            .iter_mut()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .for_each(|(nodes, _)| nodes.push(node));
    }
    let with = |is_wanted: fn(usize) -> bool| -> Vec<(usize, Vec<usize>)> {
        let slots = uncovered.iter().copied().zip(holders.iter().cloned());
        slots.filter(|(_, nodes)| is_wanted(nodes.len())).collect()
    };
    let (none, single, several) =
        (with(|nodes| nodes == 0), with(|nodes| nodes == 1), with(|nodes| nodes > 1));
    let mut fixed = 0;
    let question = "Fix these slots by covering with a random node?";
    if agrees("have no keys across the cluster", &none, question) {
        // Evenly, and in runs: each node gets slots next to each other.
        let share = none.len().div_ceil(primaries.len().max(1));
        for (&node, slots) in primaries.iter().zip(none.chunks(share.max(1))) {
            for (slot, _) in slots {
                fix.movement.stop_if_interrupted(*slot)?;
                cover(cluster, node, *slot)?;
                fixed += 1;
            }
        }
    }
    if agrees("have keys in just one node", &single, "Fix these slots by covering with those nodes?") {
        for (slot, nodes) in &single {
            fix.movement.stop_if_interrupted(*slot)?;
            cover(cluster, nodes[0], *slot)?;
            fixed += 1;
        }
    }
    let question = "Fix these slots by moving keys into a single node?";
    if agrees("have keys in multiple nodes", &several, question) {
        for (slot, nodes) in &several {
            fix.movement.stop_if_interrupted(*slot)?;
            gather(cluster, fix, *slot, nodes)?;
            fixed += 1;
        }
    }
    Ok(fixed == uncovered.len())
}

fn agrees(what: &str, slots: &[(usize, Vec<usize>)], question: &str) -> bool {
    if slots.is_empty() {
        return false;
    }
    print_line!("The following uncovered slots {what}:");
    print_line!("{}", ranges_text(slots.iter().map(|(slot, _)| slot)));
    confirms(question)
}

fn cover(cluster: &mut Cluster, node: usize, slot: usize) -> Result<(), Failure> {
    print(Level::Information, format!(">>> Covering slot {slot} with {}", cluster.nodes[node]));
    take(cluster, node, slot, false)
}

/// Gives a slot to the node with the most of its keys, and that node the keys of the others.
fn gather(cluster: &mut Cluster, fix: &Fix<'_>, slot: usize, nodes: &[usize]) -> Result<(), Failure> {
    let Some(target) = with_most_keys(cluster, nodes, slot)? else { return Ok(()) };
    let text = format!(">>> Covering slot {slot} moving keys to {}", cluster.nodes[target]);
    print(Level::Information, text);
    take(cluster, target, slot, true)?;
    for &node in nodes.iter().filter(|node| **node != target) {
        set_owner(cluster, node, target, slot)?;
        fix.bring_home(cluster, node, target, slot)?;
    }
    Ok(())
}

/// Leaves a slot to the one of its owners that has the most keys.
pub fn multiple_owners(
    cluster: &mut Cluster,
    fix: &Fix<'_>,
    slot: usize,
    owners: &[usize],
) -> Result<(), Failure> {
    fix.movement.stop_if_interrupted(slot)?;
    print(Level::Information, format!(">>> Fixing multiple owners for slot {slot}..."));
    let Some(owner) = with_most_keys(cluster, owners, slot)? else { return Ok(()) };
    print(Level::Information, format!(">>> Setting slot {slot} owner: {}", cluster.nodes[owner]));
    take(cluster, owner, slot, false)?;
    for node in cluster.primaries().into_iter().filter(|node| *node != owner) {
        let count = cluster.nodes[node].count_keys_in(slot)?;
        give_up(cluster, node, slot)?;
        set_owner(cluster, node, owner, slot)?;
        if count > 0 {
            fix.bring_home(cluster, node, owner, slot)?;
        }
    }
    Ok(())
}
