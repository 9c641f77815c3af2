//! Finds rings in a graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// From each file to those it imports from.
pub(crate) type Graph = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Rings that share no file; each begins with its first file in order.
pub(crate) fn rings(graph: &Graph) -> Vec<Vec<PathBuf>> {
    let mut rings = Vec::new();
    let mut known = BTreeSet::new();
    for start in graph.keys() {
        if known.contains(start) {
            continue;
        }
        if let Some(ring) = shortest_ring(graph, start) {
            known.extend(ring.iter().cloned());
            rings.push(ring);
        }
    }
    rings
}

/// The shortest way from a file back to itself.
fn shortest_ring(graph: &Graph, start: &Path) -> Option<Vec<PathBuf>> {
    let mut came_from: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for next in graph.get(file).into_iter().flatten() {
            if next == start {
                return Some(way(&came_from, start, file));
            }
            if !came_from.contains_key(next.as_path()) {
                came_from.insert(next, file);
                open.push_back(next);
            }
        }
    }
    None
}

/// The way from `start` to `end`.
fn way(came_from: &BTreeMap<&Path, &Path>, start: &Path, end: &Path) -> Vec<PathBuf> {
    let mut way = vec![end.to_owned()];
    let mut file = end;
    while file != start {
        file = came_from[file];
        way.push(file.to_owned());
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(&str, &str)]) -> Vec<String> {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(from.into()).or_default().insert(to.into());
        }
        let show = |ring: &Vec<PathBuf>| {
            let names: Vec<_> = ring.iter().map(|file| file.to_string_lossy()).collect();
            names.join(" ")
        };
        rings(&graph).iter().map(show).collect()
    }

    #[test]
    fn a_tree_has_no_ring() {
        assert!(found(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]).is_empty());
    }

    #[test]
    fn rings_of_two_and_three() {
        let edges = [
            ("a", "b"),
            ("b", "a"),
            ("x", "c"),
            ("c", "d"),
            ("d", "e"),
            ("e", "c"),
        ];
        assert_eq!(found(&edges), ["a b", "c d e"]);
    }
}
