//! `--cluster reshard`: moves a number of slots to one node; `--cluster rebalance`: moves slots until each node has its share.

use super::check::Check;
use super::movement::{Batch, Movement, Progress};
use super::nodes::{Cluster, ranges};
use super::plan::{self, Transfer, Weighted};
use super::questions::answer;
use super::{Level, SLOTS, print};
use crate::Failure;
use crate::options::ClusterOptions;

/// A node that was asked for.
enum Named {
    Source(usize),
    /// It is the target, and left out.
    Target,
}

pub fn run(cluster: &mut Cluster, options: &ClusterOptions, movement: &Movement) -> Result<(), Failure> {
    if Check::default().run(cluster)?.has_errors {
        return Err(Failure::Usage("*** Please fix your cluster problems before resharding".to_owned()));
    }
    let count = match options.cluster_slots {
        0 => ask_for_count()?,
        count => count,
    };
    let target = match &options.cluster_to {
        Some(id) => id.clone(),
        None => ask_for_target()?,
    };
    let target = primary(cluster, &target)?;
    let sources = match &options.cluster_from {
        Some(ids) => listed_sources(cluster, target, ids)?,
        None => ask_for_sources(cluster, target)?,
    };
    if sources.is_empty() {
        return Err(Failure::Usage("*** No source nodes given, operation aborted.".to_owned()));
    }
    print_line!("\nReady to move {count} slots.\n  Source nodes:");
    sources.iter().for_each(|source| print_line!("{}", cluster.description(*source, 4)));
    print_line!("  Destination node:\n{}", cluster.description(target, 4));
    let given: Vec<_> = sources.iter().map(|source| (*source, &cluster.nodes[*source].slots)).collect();
    let table = plan::reshard(&given, count);
    print_line!("  Resharding plan:");
    for (source, slots) in &table {
        let ranges: Vec<String> =
            ranges(slots).iter().map(|(first, last)| format!("{first}-{last}")).collect();
        print_line!("    Moving slot range {} from {}", ranges.join(" "), cluster.nodes[*source].id);
    }
    let question = "Do you want to proceed with the proposed reshard plan (yes/no)? ";
    if !options.cluster_yes && answer(question)? != "yes" {
        return Err(Failure::Reported);
    }
    movement.heed_interrupts()?;
    for (source, slots) in table {
        movement.move_batch(cluster, &Batch { source, target, slots }, Progress::Keys)?;
    }
    Ok(())
}

fn ask_for_count() -> Result<usize, Failure> {
    loop {
        let answer = answer(&format!("How many slots do you want to move (from 1 to {SLOTS})? "))?;
        if let Some(count) = answer.parse().ok().filter(|count| (1..=SLOTS).contains(count)) {
            return Ok(count);
        }
    }
}

fn ask_for_target() -> Result<String, Failure> {
    loop {
        let answer = answer("What is the receiving node ID? ")?;
        if !answer.is_empty() {
            return Ok(answer);
        }
    }
}

fn primary(cluster: &Cluster, id: &str) -> Result<usize, Failure> {
    let node = cluster.find(id).filter(|node| cluster.nodes[*node].is_primary());
    node.ok_or_else(|| {
        let id = client::printable(id);
        let text = format!("*** The specified node ({id}) is not known or not a primary, please retry.");
        print(Level::Error, text);
        Failure::Reported
    })
}

fn source(cluster: &Cluster, target: usize, id: &str) -> Result<Named, Failure> {
    let node = primary(cluster, id)?;
    if node == target {
        print(Level::Error, "*** It is not possible to use the target node as source node.");
        return Ok(Named::Target);
    }
    Ok(Named::Source(node))
}

fn all_but(cluster: &Cluster, target: usize) -> Vec<usize> {
    cluster.primaries().into_iter().filter(|node| *node != target).collect()
}

/// Parses ids with commas between them, or `all`.
fn listed_sources(cluster: &Cluster, target: usize, ids: &str) -> Result<Vec<usize>, Failure> {
    let mut sources = Vec::new();
    for id in ids.split(',').filter(|id| !id.is_empty()) {
        if id == "all" {
            return Ok(all_but(cluster, target));
        }
        add_source(&mut sources, source(cluster, target, id)?);
    }
    Ok(sources)
}

fn ask_for_sources(cluster: &Cluster, target: usize) -> Result<Vec<usize>, Failure> {
    print_line!("Please enter all the source node IDs.");
    print_line!("  Type 'all' to use all the nodes as source nodes for the hash slots.");
    print_line!("  Type 'done' once you entered all the source nodes IDs.");
    let mut sources = Vec::new();
    loop {
        match answer(&format!("Source node #{}: ", sources.len() + 1))?.as_str() {
            "done" => return Ok(sources),
            "all" => return Ok(all_but(cluster, target)),
            "" => {}
            id => add_source(&mut sources, source(cluster, target, id)?),
        }
    }
}

fn add_source(sources: &mut Vec<usize>, named: Named) {
    if let Named::Source(node) = named
        && !sources.contains(&node)
    {
        sources.push(node);
    }
}

/// Reads `id=weight`; an id may be shortened.
fn weights(cluster: &Cluster, words: &[String]) -> Result<Vec<(usize, f32)>, Failure> {
    let mut weights = Vec::new();
    for word in words {
        let parsed = word.split_once('=').and_then(|(id, weight)| Some((id, weight.parse::<f32>().ok()?)));
        let Some((id, weight)) = parsed.filter(|(_, weight)| weight.is_finite() && *weight >= 0.0) else {
            print(Level::Error, format!("*** invalid input {}", client::printable(word)));
            return Err(Failure::Reported);
        };
        let id = id.to_ascii_lowercase();
        let Some(node) = cluster.nodes.iter().position(|node| node.id.starts_with(&id)) else {
            print(Level::Error, format!("*** No such primary node {}", client::printable(&id)));
            return Err(Failure::Reported);
        };
        weights.push((node, weight));
    }
    Ok(weights)
}

pub fn rebalance(
    cluster: &mut Cluster,
    options: &ClusterOptions,
    movement: &Movement,
    is_verbose: bool,
) -> Result<(), Failure> {
    let weights = weights(cluster, &options.cluster_weight)?;
    let weight = |node: usize| {
        weights.iter().rev().find(|(weighted, _)| *weighted == node).map_or(1.0, |(_, weight)| *weight)
    };
    let takes_part =
        |node: &usize| options.cluster_use_empty_primaries || !cluster.nodes[*node].slots.is_empty();
    let involved: Vec<Weighted> = cluster
        .primaries()
        .into_iter()
        .filter(takes_part)
        .map(|node| Weighted { node, slots: cluster.nodes[node].slots.len(), weight: weight(node) })
        .collect();
    if (Check { is_quiet: true, ..Check::default() }).run(cluster)?.has_errors {
        print(Level::Error, "*** Please fix your cluster problems before rebalancing");
        return Err(Failure::Reported);
    }
    let total: f32 = involved.iter().map(|node| node.weight).sum();
    if total <= 0.0 {
        print(Level::Error, "*** The weights of all nodes are zero");
        return Err(Failure::Reported);
    }
    let threshold = options.cluster_threshold;
    let Some(balance) = plan::rebalance(&involved, threshold) else {
        let text = format!("*** No rebalancing needed! All nodes are within the {threshold:.2}% threshold.");
        print(Level::Warning, text);
        return Ok(());
    };
    let text = format!(">>> Rebalancing across {} nodes. Total weight = {total:.2}", involved.len());
    print(Level::Information, text);
    if is_verbose {
        for (node, surplus) in &balance.surplus {
            print_line!("{} balance is {surplus} slots", cluster.nodes[*node]);
        }
    }
    if !options.cluster_simulate {
        movement.heed_interrupts()?;
    }
    for transfer in &balance.transfers {
        carry_out(cluster, movement, transfer, options.cluster_simulate)?;
    }
    Ok(())
}

fn carry_out(
    cluster: &mut Cluster,
    movement: &Movement,
    transfer: &Transfer,
    is_simulated: bool,
) -> Result<(), Failure> {
    let Transfer { from, to, slots: count } = *transfer;
    print_line!("Moving {count} slots from {} to {}", cluster.nodes[from], cluster.nodes[to]);
    if is_simulated {
        print_line!("{}", "#".repeat(count));
        return Ok(());
    }
    for (source, slots) in plan::reshard(&[(from, &cluster.nodes[from].slots)], count) {
        let batch = Batch { source, target: to, slots };
        movement.move_batch(cluster, &batch, Progress::Slots)?;
    }
    print_line!("");
    Ok(())
}
