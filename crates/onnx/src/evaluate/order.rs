//! The order in which nodes can run.
//!
//! Invariant: the order holds every node once, in linear time, cycles included. The format demands sorted
//! nodes, but some converters append nodes that others need, and engines run those models.

use std::collections::{HashMap, VecDeque};

use crate::proto::{GraphProto, NodeProto};

/// Indices of `nodes` with every node after those whose outputs it reads; nodes of cycles come last.
pub(super) fn node_order(nodes: &[NodeProto]) -> Vec<usize> {
    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            producers.entry(output).or_insert(index);
        }
    }
    let needed: Vec<Vec<usize>> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let mut names = Vec::new();
            collect_reads(node, &mut names);
            let mut sources: Vec<usize> = names
                .iter()
                .filter_map(|name| producers.get(name).copied())
                .filter(|&s| s != index)
                .collect();
            sources.sort_unstable();
            sources.dedup();
            sources
        })
        .collect();
    if needed.iter().enumerate().all(|(index, sources)| sources.iter().all(|&source| source < index)) {
        return (0..nodes.len()).collect();
    }
    let mut order = sorted(&needed);
    let mut placed = vec![false; nodes.len()];
    for &index in &order {
        placed[index] = true;
    }
    order.extend((0..nodes.len()).filter(|&index| !placed[index]));
    order
}

/// Indices with each after those that it needs; what is in a cycle, or needs something that is, is left out.
pub(crate) fn sorted(needed: &[Vec<usize>]) -> Vec<usize> {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); needed.len()];
    let mut waiting: Vec<usize> = needed.iter().map(Vec::len).collect();
    for (index, sources) in needed.iter().enumerate() {
        for &source in sources {
            readers[source].push(index);
        }
    }
    let mut ready: VecDeque<usize> = (0..needed.len()).filter(|&index| waiting[index] == 0).collect();
    let mut order = Vec::with_capacity(needed.len());
    while let Some(index) = ready.pop_front() {
        order.push(index);
        for &reader in &readers[index] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push_back(reader);
            }
        }
    }
    order
}

/// Every name that a node reads, those that its bodies take from outside among them.
fn collect_reads<'n>(node: &'n NodeProto, names: &mut Vec<&'n str>) {
    names.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
    for graph in node.attribute.iter().flat_map(|a| &a.g) {
        collect_graph_reads(graph, names);
    }
}

fn collect_graph_reads<'n>(graph: &'n GraphProto, names: &mut Vec<&'n str>) {
    for node in &graph.node {
        collect_reads(node, names);
    }
    names.extend(graph.output.iter().map(|info| info.name.as_str()));
}
