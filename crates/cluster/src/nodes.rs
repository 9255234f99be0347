//! The table of nodes. A node has a place, which is a small number that its slots are noted with, and an id.
//!
//! ```text
//!  ids:    hash table of id -> place         places: vector of nodes, this node in place 0; `free` has the gaps
//! ```
//!
//! 1. `ids` and `places` have the same nodes, and `free` all other places.
//! 2. A replica's `primary` is in the table, and has the replica in its sorted `replicas`; and the other way round.
//! 3. There are at most [`NODES_MAX`] nodes.

use std::collections::HashMap;

use structures::random::Random;
use wire::cluster_bus::{NodeFlags, NodeId};

use crate::node::Node;

/// Limit of the nodes that are known: anything that reaches the bus can make a node known.
pub const NODES_MAX: usize = 2_000;

/// Index of a node in the table. It is another node's once the node has been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(pub(crate) u16);

/// This node.
pub(crate) const MYSELF: Place = Place(0);

pub(crate) struct Nodes {
    places: Vec<Option<Box<Node>>>,
    free: Vec<Place>,
    ids: HashMap<NodeId, Place>,
}

impl Nodes {
    pub(crate) fn new(myself: Node) -> Nodes {
        let ids = HashMap::from([(myself.id, MYSELF)]);
        Nodes { places: vec![Some(Box::new(myself))], free: Vec::new(), ids }
    }

    pub(crate) fn myself(&self) -> &Node {
        self.at(MYSELF).expect("this node is never removed")
    }

    pub(crate) fn myself_mut(&mut self) -> &mut Node {
        self.at_mut(MYSELF).expect("this node is never removed")
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// No node can be added.
    pub(crate) fn is_full(&self) -> bool {
        self.ids.len() >= NODES_MAX
    }

    pub(crate) fn at(&self, place: Place) -> Option<&Node> {
        self.places.get(usize::from(place.0))?.as_deref()
    }

    pub(crate) fn at_mut(&mut self, place: Place) -> Option<&mut Node> {
        self.places.get_mut(usize::from(place.0))?.as_deref_mut()
    }

    pub(crate) fn place(&self, id: NodeId) -> Option<Place> {
        self.ids.get(&id).copied()
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.at(self.place(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.at_mut(self.place(id)?)
    }

    /// All nodes, by their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.places.iter().filter_map(|node| node.as_deref())
    }

    /// All nodes, by their ids.
    pub(crate) fn sorted(&self) -> Vec<&Node> {
        let mut nodes: Vec<&Node> = self.iter().collect();
        nodes.sort_unstable_by_key(|node| node.id);
        nodes
    }

    /// As [`Self::iter`].
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.places.iter_mut().filter_map(|node| node.as_deref_mut())
    }

    /// The ids of some nodes, for walks that change nodes.
    pub(crate) fn ids_of(&self, wanted: impl Fn(&Node) -> bool) -> Vec<NodeId> {
        self.iter().filter(|node| wanted(node)).map(|node| node.id).collect()
    }

    /// A node that is as likely as any other.
    pub(crate) fn random(&self, random: &mut Random) -> &Node {
        loop {
            if let Some(node) = &self.places[random.index(self.places.len())] {
                return node;
            }
        }
    }

    /// All nodes, from a random one on.
    pub(crate) fn iter_from_random_place(
        &self,
        random: &mut Random,
    ) -> impl Iterator<Item = &Node> + use<'_> {
        let (before, after) = self.places.split_at(random.index(self.places.len()));
        after.iter().chain(before).filter_map(|node| node.as_deref())
    }

    /// The nodes that this one does not reach.
    pub(crate) fn unreachable(&self) -> impl Iterator<Item = &Node> {
        self.places.iter().filter_map(|node| node.as_deref()).filter(|node| node.is_possibly_failed())
    }

    /// Adds a node; `None`: the table is full or knows the id.
    pub(crate) fn insert(&mut self, node: Node) -> Option<Place> {
        if self.is_full() || self.ids.contains_key(&node.id) {
            return None;
        }
        let place = self.free.pop().or_else(|| u16::try_from(self.places.len()).ok().map(Place))?;
        self.ids.insert(node.id, place);
        match self.places.get_mut(usize::from(place.0)) {
            Some(free) => *free = Some(Box::new(node)),
            None => self.places.push(Some(Box::new(node))),
        }
        Some(place)
    }

    /// Removes another node than this one. Its replicas have no primary then.
    pub(crate) fn remove(&mut self, id: NodeId) -> Option<Box<Node>> {
        let place = self.place(id).filter(|place| *place != MYSELF)?;
        self.detach(id);
        self.ids.remove(&id);
        let node = self.places[usize::from(place.0)].take()?;
        self.free.push(place);
        for replica in &node.replicas {
            if let Some(replica) = self.get_mut(*replica) {
                replica.primary = None;
            }
        }
        Some(node)
    }

    /// Gives a node another id. It must have neither a primary nor replicas, and the id must be new.
    pub(crate) fn rename(&mut self, id: NodeId, new: NodeId) -> bool {
        let is_alone = |node: &Node| node.primary.is_none() && node.replicas.is_empty();
        if self.ids.contains_key(&new) || !self.get(id).is_some_and(is_alone) {
            return false;
        }
        let Some(place) = self.ids.remove(&id) else { return false };
        self.ids.insert(new, place);
        if let Some(node) = self.at_mut(place) {
            node.id = new;
        }
        true
    }

    /// Makes a node the replica of another.
    pub(crate) fn attach(&mut self, replica: NodeId, primary: NodeId) {
        self.detach(replica);
        let Some(node) = self.get_mut(primary) else { return };
        if let Err(at) = node.replicas.binary_search(&replica) {
            node.replicas.insert(at, replica);
        }
        node.flags |= NodeFlags::MIGRATE_TO;
        if let Some(node) = self.get_mut(replica) {
            node.primary = Some(primary);
        }
    }

    /// Takes a node from its primary.
    pub(crate) fn detach(&mut self, replica: NodeId) {
        let Some(primary) = self.get_mut(replica).and_then(|node| node.primary.take()) else { return };
        let Some(node) = self.get_mut(primary) else { return };
        node.replicas.retain(|id| *id != replica);
        if node.replicas.is_empty() {
            node.flags.set(NodeFlags::MIGRATE_TO, false);
        }
    }

    /// Checks the invariants.
    pub(crate) fn check(&self) {
        assert_eq!(self.places.iter().flatten().count(), self.ids.len());
        assert_eq!(self.places.len() - self.free.len(), self.ids.len());
        for (id, place) in &self.ids {
            let node = self.at(*place).expect("ids name nodes");
            assert_eq!(node.id, *id);
            assert!(node.replicas.is_sorted());
            if let Some(primary) = node.primary {
                assert!(self.get(primary).is_some_and(|primary| primary.replicas.contains(id)));
            }
            for replica in &node.replicas {
                assert_eq!(self.get(*replica).and_then(|node| node.primary), Some(*id));
            }
            assert_eq!(node.slots.len(), usize::from(node.slot_count));
        }
    }
}
