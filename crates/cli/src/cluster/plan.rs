//! Plans of changes, without connections: which node gets which slots, whose replica a node becomes, which slots move.
//!
//! Nodes are indices into the caller's list.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::SLOTS;

/// Penalty of a replica on the host of its primary; that of replicas of one primary on the same host is one each.
const SAME_HOST_AS_PRIMARY: usize = 10_000;

/// Divides the slots among this number of primaries, at most one for each slot.
pub fn shares(primaries: usize) -> Vec<RangeInclusive<usize>> {
    let per_node = SLOTS as f32 / primaries as f32;
    let (mut shares, mut first, mut cursor) = (Vec::new(), 0, 0.0f32);
    for index in 0..primaries {
        let last = match index + 1 == primaries {
            true => SLOTS - 1,
            false => ((cursor + per_node - 1.0).round() as usize).clamp(first, SLOTS - 1),
        };
        shares.push(first..=last);
        first = last + 1;
        cursor += per_node;
    }
    shares
}

/// Roles of the nodes of a new cluster.
#[derive(Debug)]
pub struct Placement {
    pub primaries: Vec<usize>,
    /// Pairs of replica and primary, in the order of assignment.
    pub replicas: Vec<(usize, usize)>,
    /// Number of pairs before those of the nodes that are left when each primary has its replicas.
    pub planned: usize,
}

/// How well replicas are distributed over hosts.
#[derive(Debug, PartialEq)]
pub enum Affinity {
    Perfect,
    /// Replicas of one primary share a host.
    SharedByReplicas,
    /// A replica is on its primary's host.
    SharedWithPrimary,
}

/// Chooses primaries, alternating between hosts, and for each this number of replicas, on other hosts where there are
/// some.
pub fn place(hosts: &[String], primaries: usize, replicas: usize) -> Placement {
    let order = interleaved(hosts);
    let (primaries, rest) = order.split_at(primaries.min(order.len()));
    let mut free = rest.to_vec();
    if !free.is_empty() {
        free.rotate_left(1);
    }
    let mut pairs = Vec::new();
    let mut assign = |primary: usize, free: &mut Vec<usize>| {
        if !free.is_empty() {
            let other_host = free.iter().position(|&node| hosts[node] != hosts[primary]);
            pairs.push((free.remove(other_host.unwrap_or(0)), primary));
        }
    };
    for &primary in primaries {
        (0..replicas).for_each(|_| assign(primary, &mut free));
    }
    let planned = (primaries.len() * replicas).min(rest.len());
    while !free.is_empty() && !primaries.is_empty() {
        primaries.iter().for_each(|&primary| assign(primary, &mut free));
    }
    Placement { primaries: primaries.to_vec(), replicas: pairs, planned }
}

/// Orders nodes so that their hosts alternate.
fn interleaved(hosts: &[String]) -> Vec<usize> {
    let mut by_host: Vec<(&str, Vec<usize>)> = Vec::new();
    for (node, host) in hosts.iter().enumerate() {
        match by_host.iter_mut().find(|(other, _)| other == host) {
            Some((_, nodes)) => nodes.push(node),
            None => by_host.push((host, vec![node])),
        }
    }
    let longest = by_host.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
    (0..longest)
        .flat_map(|round| by_host.iter().filter_map(move |(_, nodes)| nodes.get(round)).copied())
        .collect()
}

/// Returns the penalty of a primary's replicas.
fn penalty(hosts: &[String], replicas: &[(usize, usize)], primary: usize) -> usize {
    let mut on: Vec<(&str, usize)> = Vec::new();
    for (replica, _) in replicas.iter().filter(|(_, of)| *of == primary) {
        match on.iter_mut().find(|(host, _)| *host == hosts[*replica]) {
            Some((_, count)) => *count += 1,
            None => on.push((&hosts[*replica], 1)),
        }
    }
    let of_host = |(host, count): &(&str, usize)| match *count {
        count if *host == hosts[primary] => count * SAME_HOST_AS_PRIMARY,
        1 => 0,
        count => count,
    };
    on.iter().map(of_host).sum()
}

impl Placement {
    pub fn affinity(&self, hosts: &[String]) -> Affinity {
        let penalties = self.primaries.iter().map(|&primary| penalty(hosts, &self.replicas, primary));
        match penalties.sum::<usize>() {
            0 => Affinity::Perfect,
            sum if sum < SAME_HOST_AS_PRIMARY => Affinity::SharedByReplicas,
            _ => Affinity::SharedWithPrimary,
        }
    }

    /// Exchanges the primaries of pairs of replicas as long as that distributes them better.
    ///
    /// When no exchange helps, no other assignment to these primaries has fewer replicas on their primaries' hosts: with a
    /// replica on its primary's host H, each pair has its replica or its primary on H, or an exchange with it would help.
    pub fn improve(&mut self, hosts: &[String]) {
        let count = self.replicas.len();
        let mut has_improved = true;
        while has_improved {
            has_improved = false;
            for (one, other) in (0..count).flat_map(|one| (0..one).map(move |other| (one, other))) {
                has_improved |= self.exchange_if_better(hosts, one, other);
            }
        }
    }

    fn exchange_if_better(&mut self, hosts: &[String], one: usize, other: usize) -> bool {
        let (first, second) = (self.replicas[one].1, self.replicas[other].1);
        let is_same_host = hosts[self.replicas[one].0] == hosts[self.replicas[other].0];
        if first == second || is_same_host {
            return false;
        }
        let sum = |pairs: &[(usize, usize)]| penalty(hosts, pairs, first) + penalty(hosts, pairs, second);
        let before = sum(&self.replicas);
        if before == 0 {
            return false;
        }
        (self.replicas[one].1, self.replicas[other].1) = (second, first);
        let is_better = sum(&self.replicas) < before;
        if !is_better {
            (self.replicas[one].1, self.replicas[other].1) = (first, second);
        }
        is_better
    }
}

/// Chooses `count` slots of the sources, of each in proportion to its slots. Returns each source with its slots, the one
/// with the most slots first.
pub fn reshard(sources: &[(usize, &BTreeSet<usize>)], count: usize) -> Vec<(usize, Vec<usize>)> {
    let mut sorted = sources.to_vec();
    sorted.sort_by_key(|(_, slots)| std::cmp::Reverse(slots.len()));
    let total: usize = sorted.iter().map(|(_, slots)| slots.len()).sum();
    let count = count.min(total);
    let mut numbers: Vec<usize> =
        sorted.iter().map(|(_, slots)| count * slots.len() / total.max(1)).collect();
    // What rounding left is taken from the largest first.
    let mut left = count - numbers.iter().sum::<usize>();
    while left > 0 {
        for (number, (_, slots)) in numbers.iter_mut().zip(&sorted) {
            if left > 0 && *number < slots.len() {
                (*number, left) = (*number + 1, left - 1);
            }
        }
    }
    let chosen = sorted.iter().zip(numbers).filter(|(_, number)| *number > 0);
    chosen.map(|((node, slots), number)| (*node, slots.iter().copied().take(number).collect())).collect()
}

/// A primary that takes part in a rebalance.
#[derive(Clone, Debug)]
pub struct Weighted {
    pub node: usize,
    pub slots: usize,
    pub weight: f32,
}

/// A number of slots that move.
#[derive(Debug, PartialEq)]
pub struct Transfer {
    pub from: usize,
    pub to: usize,
    pub slots: usize,
}

/// What a rebalance does.
#[derive(Debug, Default)]
pub struct Balance {
    /// By how many slots each node has too many, or too few if negative; those with the fewest first.
    pub surplus: Vec<(usize, i64)>,
    pub transfers: Vec<Transfer>,
}

/// Plans a rebalance. Returns `None` if each node has its share but for `threshold` per cent.
pub fn rebalance(nodes: &[Weighted], threshold: f32) -> Option<Balance> {
    let total_weight: f32 = nodes.iter().map(|node| node.weight).sum();
    let expected = |node: &Weighted| (SLOTS as f32 / total_weight * node.weight) as i64;
    let is_over = |node: &Weighted| match node.slots {
        0 => expected(node) > 1,
        slots => (100.0 - 100.0 * expected(node) as f64 / slots as f64).abs() > f64::from(threshold),
    };
    if threshold <= 0.0 || !nodes.iter().any(is_over) {
        return None;
    }
    let mut surplus: Vec<(usize, i64)> =
        nodes.iter().map(|node| (node.node, node.slots as i64 - expected(node))).collect();
    // Expected numbers are rounded down: what is left over goes to nodes that give nothing.
    let mut left: i64 = surplus.iter().map(|(_, surplus)| surplus).sum();
    while left > 0 && surplus.iter().any(|(_, surplus)| *surplus <= 0) {
        for (_, surplus) in surplus.iter_mut().filter(|(_, surplus)| *surplus <= 0) {
            if left > 0 {
                (*surplus, left) = (*surplus - 1, left - 1);
            }
        }
    }
    surplus.sort_by_key(|(_, surplus)| *surplus);
    let transfers = transfers(surplus.clone());
    Some(Balance { surplus, transfers })
}

/// Matches nodes that have too few slots, which come first, with those that have too many.
fn transfers(mut surplus: Vec<(usize, i64)>) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    let (mut to, mut from) = (0, surplus.len().saturating_sub(1));
    while to < from {
        let slots = (-surplus[to].1).min(surplus[from].1).max(0);
        if slots > 0 {
            transfers.push(Transfer { from: surplus[from].0, to: surplus[to].0, slots: slots as usize });
        }
        surplus[to].1 += slots;
        surplus[from].1 -= slots;
        match (surplus[to].1 >= 0, surplus[from].1 <= 0) {
            (true, true) => (to, from) = (to + 1, from - 1),
            (true, false) => to += 1,
            _ => from -= 1,
        }
    }
    transfers
}

#[cfg(test)]
mod tests;
