//! `--cluster check`: checks that the nodes agree, that no slots are being migrated, and that each slot has exactly one
//! owner; `--cluster fix` mends what it finds.

use std::collections::BTreeSet;

use super::movement::Movement;
use super::nodes::Cluster;
use super::{Level, SLOTS, fix, print};
use crate::Failure;

/// What a check does beside checking.
#[derive(Clone, Copy, Default)]
pub struct Check<'a> {
    /// Whether the nodes are not listed.
    pub is_quiet: bool,
    pub searches_multiple_owners: bool,
    pub fix: Option<Fix<'a>>,
}

/// How faults are mended.
#[derive(Clone, Copy)]
pub struct Fix<'a> {
    pub movement: &'a Movement,
    /// Whether slots of primaries that are not reached are taken for uncovered.
    pub ignores_unreachable_primaries: bool,
}

/// What a check has found.
pub struct Findings {
    /// Whether all is well, or is now.
    pub is_sound: bool,
    /// Whether there was something to mend.
    pub has_errors: bool,
}

impl Findings {
    /// Ends the program with an error unless all is well.
    pub fn require_sound(&self) -> Result<(), Failure> {
        if self.is_sound { Ok(()) } else { Err(Failure::Reported) }
    }
}

impl Check<'_> {
    pub fn run(&self, cluster: &mut Cluster) -> Result<Findings, Failure> {
        let first = &cluster.nodes[0];
        print(Level::Information, format!(">>> Performing Cluster Check (using node {first})"));
        if !self.is_quiet {
            (0..cluster.nodes.len()).for_each(|node| print_line!("{}", cluster.description(node, 0)));
        }
        let mut is_sound = agree(cluster);
        let mut has_errors = !is_sound;
        let open = open_slots(cluster);
        let uncovered = uncovered_slots(cluster);
        if !(open.is_empty() && uncovered.is_empty()) {
            (is_sound, has_errors) = (false, true);
            if let Some(fix) = &self.fix {
                is_sound = fix.run(cluster, &open, &uncovered)?;
            }
        }
        if self.searches_multiple_owners {
            is_sound &= self.single_owners(cluster)?;
        }
        Ok(Findings { is_sound, has_errors })
    }

    /// Checks that no slot has several owners. Nodes with keys of a slot count as its owners too.
    fn single_owners(&self, cluster: &mut Cluster) -> Result<bool, Failure> {
        print(Level::Information, ">>> Check for multiple slot owners...");
        let all: Vec<usize> = (0..SLOTS).collect();
        let mut owners: Vec<Vec<usize>> = vec![Vec::new(); SLOTS];
        for node in cluster.primaries() {
            let counts = cluster.nodes[node].count_keys(&all)?;
            for (slot, count) in counts.into_iter().enumerate() {
                if count > 0 || cluster.nodes[node].slots.contains(&slot) {
                    owners[slot].push(node);
                }
            }
        }
        let mut is_sound = true;
        for (slot, owners) in owners.iter().enumerate().filter(|(_, owners)| owners.len() > 1) {
            print(Level::Error, format!("[WARNING] Slot {slot} has {} owners:", owners.len()));
            owners.iter().for_each(|owner| print(Level::Error, format!("    {}", cluster.nodes[*owner])));
            match &self.fix {
                None => is_sound = false,
                Some(fix) => fix::multiple_owners(cluster, fix, slot, owners).inspect_err(|_| {
                    print(Level::Error, format!("Failed to fix multiple owners for slot {slot}"));
                })?,
            }
        }
        if is_sound {
            print(Level::Success, "[OK] No multiple owners found.");
        }
        Ok(is_sound)
    }
}

fn agree(cluster: &mut Cluster) -> bool {
    let do_agree = cluster.agrees();
    match do_agree {
        true => print(Level::Success, "[OK] All nodes agree about slots configuration."),
        false => print(Level::Error, "[ERR] Nodes don't agree about configuration!"),
    }
    do_agree
}

fn listed<'a>(slots: impl IntoIterator<Item = &'a usize>) -> String {
    slots.into_iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn open_slots(cluster: &Cluster) -> BTreeSet<usize> {
    print(Level::Information, ">>> Check for open slots...");
    let mut open = BTreeSet::new();
    for node in &cluster.nodes {
        for (slots, state) in [(&node.migrating, "migrating"), (&node.importing, "importing")] {
            if !slots.is_empty() {
                open.extend(slots.keys().copied());
                let list = listed(slots.keys());
                print(Level::Error, format!("[WARNING] Node {node} has slots in {state} state {list}."));
            }
        }
    }
    if !open.is_empty() {
        let list = listed(&open);
        print(Level::Error, format!("[WARNING] The following slots are open: {list}."));
    }
    open
}

fn uncovered_slots(cluster: &Cluster) -> Vec<usize> {
    print(Level::Information, ">>> Check slots coverage...");
    let covered: BTreeSet<usize> = cluster.nodes.iter().flat_map(|node| node.slots.iter().copied()).collect();
    let uncovered: Vec<usize> = (0..SLOTS).filter(|slot| !covered.contains(slot)).collect();
    match uncovered.is_empty() {
        true => print(Level::Success, format!("[OK] All {SLOTS} slots covered.")),
        false => print(Level::Error, format!("[ERR] Not all {SLOTS} slots are covered by nodes.\n")),
    }
    uncovered
}
