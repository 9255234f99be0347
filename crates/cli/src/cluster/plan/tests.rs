//! Plans for random clusters.

use structures::random::Random;

use super::*;

const CLUSTERS: u64 = 300;

fn below(random: &mut Random, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

fn hosts(random: &mut Random) -> Vec<String> {
    let (nodes, hosts) = (1 + below(random, 40), 1 + below(random, 8));
    // Some hosts have many of the nodes.
    (0..nodes)
        .map(|_| {
            let host = below(random, hosts);
            format!("10.0.0.{}", below(random, host + 1))
        })
        .collect()
}

/// Assigns each slot to one of these nodes, in runs.
fn owners(random: &mut Random, nodes: usize) -> Vec<BTreeSet<usize>> {
    let mut slots = vec![BTreeSet::new(); nodes];
    let mut first = 0;
    while first < SLOTS {
        let end = (first + 1 + below(random, 3000)).min(SLOTS);
        slots[below(random, nodes)].extend(first..end);
        first = end;
    }
    slots
}

fn assert_one_owner_each(owners: &[BTreeSet<usize>]) {
    assert_eq!(owners.iter().map(BTreeSet::len).sum::<usize>(), SLOTS);
    assert_eq!(owners.iter().flatten().collect::<BTreeSet<_>>().len(), SLOTS);
}

fn apply(owners: &mut [BTreeSet<usize>], table: &[(usize, Vec<usize>)], target: usize) -> usize {
    let mut moved = 0;
    for (source, slots) in table {
        for slot in slots {
            assert!(owners[*source].remove(slot), "{source} gives {slot}, which it does not have");
            assert!(owners[target].insert(*slot));
            moved += 1;
        }
    }
    moved
}

#[test]
fn shares_are_the_whole_and_even() {
    assert_eq!(shares(3), [0..=5460, 5461..=10922, 10923..=16383]);
    for primaries in (1..200).chain([1000, 5000, SLOTS]) {
        let shares = shares(primaries);
        let all: Vec<usize> = shares.iter().flat_map(Clone::clone).collect();
        assert_eq!(all, (0..SLOTS).collect::<Vec<_>>(), "{primaries}");
        let (least, most) = (SLOTS / primaries, SLOTS.div_ceil(primaries));
        let are_even =
            shares.iter().all(|share| (least.saturating_sub(1)..=most + 1).contains(&share.clone().count()));
        assert!(are_even, "{primaries}");
    }
}

#[test]
fn replicas_share_no_host_with_their_primary_where_that_is_avoidable() {
    let mut random = Random::new(41);
    for _ in 0..CLUSTERS {
        let hosts = hosts(&mut random);
        let replicas = below(&mut random, 4);
        let primaries = hosts.len() / (replicas + 1);
        let mut placement = place(&hosts, primaries, replicas);
        let first = placement.replicas.clone();
        placement.improve(&hosts);
        let nodes = placement.primaries.iter().chain(placement.replicas.iter().map(|(replica, _)| replica));
        if primaries > 0 {
            assert_eq!(nodes.collect::<BTreeSet<_>>().len(), hosts.len(), "each node has one role");
        }
        assert_eq!(placement.planned, primaries * replicas);
        let of = |pairs: &[(usize, usize)], primary| pairs.iter().filter(|(_, of)| *of == primary).count();
        for &primary in &placement.primaries {
            let count = of(&placement.replicas, primary);
            assert!(count >= replicas && count == of(&first, primary), "{placement:?}");
        }
        // A host's replicas and the places below its primaries are more than all pairs only if some coincide.
        let shared = placement.replicas.iter().filter(|(replica, of)| hosts[*replica] == hosts[*of]).count();
        let pairs = placement.replicas.len();
        let unavoidable = hosts.iter().map(|host| {
            let ends = placement.replicas.iter().flat_map(|(replica, of)| [*replica, *of]);
            ends.filter(|end| hosts[*end] == *host).count().saturating_sub(pairs)
        });
        assert_eq!(shared, unavoidable.max().unwrap_or(0), "{hosts:?} {placement:?}");
        assert_eq!(placement.affinity(&hosts) == Affinity::SharedWithPrimary, shared > 0);
    }
}

#[test]
fn primaries_alternate_between_hosts() {
    let hosts: Vec<String> = ["a", "a", "b", "b", "c", "c"].map(str::to_owned).to_vec();
    let mut placement = place(&hosts, 3, 1);
    placement.improve(&hosts);
    assert_eq!(placement.primaries, [0, 2, 4]);
    assert_eq!(placement.affinity(&hosts), Affinity::Perfect);
    let one: Vec<String> = vec!["a".to_owned(); 6];
    let placement = place(&one, 3, 1);
    assert_eq!(placement.replicas, [(4, 0), (5, 1), (3, 2)]);
    assert_eq!(placement.affinity(&one), Affinity::SharedWithPrimary);
    let placement = place(&["a", "b", "b"].map(str::to_owned), 1, 2);
    assert_eq!(placement.affinity(&["a", "b", "b"].map(str::to_owned)), Affinity::SharedByReplicas);
}

#[test]
fn a_reshard_moves_the_number_asked_for_in_proportion() {
    let mut random = Random::new(42);
    for _ in 0..CLUSTERS {
        let nodes = 2 + below(&mut random, 12);
        let mut slots = owners(&mut random, nodes);
        let target = below(&mut random, nodes);
        let sources: Vec<usize> =
            (0..nodes).filter(|node| *node != target && below(&mut random, 3) > 0).collect();
        let count = 1 + below(&mut random, SLOTS);
        let before: Vec<usize> = slots.iter().map(BTreeSet::len).collect();
        let total: usize = sources.iter().map(|source| before[*source]).sum();
        let given: Vec<_> = sources.iter().map(|source| (*source, &slots[*source])).collect();
        let table = reshard(&given, count);
        assert_eq!(apply(&mut slots, &table, target), count.min(total));
        assert_one_owner_each(&slots);
        for (source, moved) in &table {
            let share = count.min(total) as f64 * before[*source] as f64 / total as f64;
            assert!((moved.len() as f64 - share).abs() <= 1.0, "{} of {share}", moved.len());
        }
    }
    assert_eq!(reshard(&[(0, &BTreeSet::new())], 5), []);
    let third: BTreeSet<usize> = (0..100).collect();
    let table = reshard(&[(0, &third), (1, &third), (2, &third)], 11);
    assert_eq!(table.iter().map(|(_, slots)| slots.len()).collect::<Vec<_>>(), [4, 4, 3]);
}

#[test]
fn a_rebalance_gives_each_node_its_share() {
    let mut random = Random::new(43);
    for _ in 0..CLUSTERS {
        let count = 1 + below(&mut random, 20);
        let mut slots = owners(&mut random, count);
        let nodes: Vec<Weighted> = (0..count)
            .map(|node| Weighted {
                node,
                slots: slots[node].len(),
                weight: [1.0, 1.0, 1.0, 2.5, 0.5, 0.0][below(&mut random, 6)],
            })
            .collect();
        let total: f32 = nodes.iter().map(|node| node.weight).sum();
        if total == 0.0 {
            continue;
        }
        let share = |node: &Weighted| f64::from(SLOTS as f32 * node.weight / total);
        let Some(balance) = rebalance(&nodes, 2.0) else {
            let is_within =
                |node: &Weighted| (node.slots as f64 - share(node)).abs() <= 1.0 + 0.021 * share(node);
            assert!(nodes.iter().all(is_within), "{nodes:?}");
            continue;
        };
        for transfer in &balance.transfers {
            let table = reshard(&[(transfer.from, &slots[transfer.from])], transfer.slots);
            assert_eq!(apply(&mut slots, &table, transfer.to), transfer.slots);
        }
        assert_one_owner_each(&slots);
        for node in &nodes {
            let difference = (slots[node.node].len() as f64 - share(node)).abs();
            assert!(difference <= count as f64, "{difference} in {nodes:?}");
        }
        let again: Vec<Weighted> =
            nodes.iter().map(|node| Weighted { slots: slots[node.node].len(), ..node.clone() }).collect();
        assert!(rebalance(&again, 100.0).is_none_or(|again| again.transfers.len() <= count));
    }
}

#[test]
fn a_balance_within_the_threshold_stays() {
    let node = |node, slots| Weighted { node, slots, weight: 1.0 };
    assert!(rebalance(&[node(0, 5461), node(1, 5462), node(2, 5461)], 2.0).is_none());
    assert!(rebalance(&[node(0, 16384), node(1, 0)], 0.0).is_none());
    let balance = rebalance(&[node(0, 16384), node(1, 0), node(2, 0)], 2.0).unwrap();
    assert_eq!(balance.surplus, [(1, -5462), (2, -5461), (0, 10923)]);
    let transfers = [Transfer { from: 0, to: 1, slots: 5462 }, Transfer { from: 0, to: 2, slots: 5461 }];
    assert_eq!(balance.transfers, transfers);
}
