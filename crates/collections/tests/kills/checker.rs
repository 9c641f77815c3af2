//! Is a history strictly serializable?
//!
//! Transactions append unique numbers to lists and read lists. The longest read of
//! a list is its order; every other read must be a beginning of it. From that
//! follow the edges: who wrote before whom, who read whose write, who read before
//! whose write; and who ended before whom began. A cycle is an anomaly. So is an
//! acknowledged append that is nowhere, or is there twice.

use std::collections::BTreeMap;

/// What one transaction did, in order.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Append(u64, u64),
    Read(u64, Vec<u64>),
}

/// The first anomaly of a history, with all lists as they are at the end.
pub(crate) fn check(
    history: &[Transaction],
    lists: &BTreeMap<u64, Vec<u64>>,
) -> Result<(), String> {
    let mut writers = BTreeMap::new();
    for (index, transaction) in history.iter().enumerate() {
        for step in &transaction.steps {
            if let Step::Append(key, value) = step {
                let list = lists.get(key).map_or(&[][..], Vec::as_slice);
                match list.iter().filter(|found| *found == value).count() {
                    1 => writers.insert(*value, index),
                    0 => return Err(format!("append of {value} to {key} is lost")),
                    n => return Err(format!("{value} is in {key} {n} times")),
                };
            }
        }
    }
    let mut graph = Graph::new(history);
    for list in lists.values() {
        for pair in list.windows(2) {
            graph.edge(
                graph.writer(&writers, pair[0]),
                graph.writer(&writers, pair[1]),
            );
        }
    }
    for (index, transaction) in history.iter().enumerate() {
        for step in &transaction.steps {
            let Step::Read(key, seen) = step else {
                continue;
            };
            let list = lists.get(key).map_or(&[][..], Vec::as_slice);
            if !list.starts_with(seen) {
                return Err(format!(
                    "a read of {key} saw {seen:?}, the list is {list:?}"
                ));
            }
            if let Some(last) = seen.last() {
                graph.edge(graph.writer(&writers, *last), Some(index));
            }
            if let Some(next) = list.get(seen.len()) {
                graph.edge(Some(index), graph.writer(&writers, *next));
            }
        }
    }
    if graph.has_cycle() {
        Err("the transactions have no order".to_owned())
    } else {
        Ok(())
    }
}

/// Transactions, and behind them the moments of the clock in order.
struct Graph {
    edges: Vec<Vec<usize>>,
}

impl Graph {
    fn new(history: &[Transaction]) -> Self {
        let mut moments: Vec<u64> = history.iter().flat_map(|t| [t.began, t.ended]).collect();
        moments.sort_unstable();
        moments.dedup();
        let first = history.len();
        let mut graph = Self {
            edges: vec![Vec::new(); first + moments.len()],
        };
        for moment in 1..moments.len() {
            graph.edge(Some(first + moment - 1), Some(first + moment));
        }
        let place = |at: u64| first + moments.partition_point(|moment| *moment < at);
        for (index, transaction) in history.iter().enumerate() {
            graph.edge(Some(place(transaction.began)), Some(index));
            graph.edge(Some(index), Some(place(transaction.ended)));
        }
        graph
    }

    /// Who wrote a value, if that was acknowledged.
    fn writer(&self, writers: &BTreeMap<u64, usize>, value: u64) -> Option<usize> {
        writers.get(&value).copied()
    }

    fn edge(&mut self, from: Option<usize>, to: Option<usize>) {
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            self.edges[from].push(to);
        }
    }

    /// Takes away whatever nothing points to, until nothing is left or nothing goes.
    fn has_cycle(&self) -> bool {
        let mut incoming = vec![0usize; self.edges.len()];
        for to in self.edges.iter().flatten() {
            incoming[*to] += 1;
        }
        let mut free: Vec<usize> = (0..incoming.len()).filter(|i| incoming[*i] == 0).collect();
        let mut taken = 0;
        while let Some(node) = free.pop() {
            taken += 1;
            for to in &self.edges[node] {
                incoming[*to] -= 1;
                if incoming[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        taken < self.edges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(began: u64, ended: u64, steps: &[Step]) -> Transaction {
        Transaction {
            began,
            ended,
            steps: steps.to_vec(),
        }
    }

    fn lists(lists: &[(u64, &[u64])]) -> BTreeMap<u64, Vec<u64>> {
        lists
            .iter()
            .map(|(key, list)| (*key, list.to_vec()))
            .collect()
    }

    #[test]
    fn anomalies_are_found() {
        use Step::{Append, Read};
        let lost = [transaction(1, 2, &[Append(1, 10)])];
        assert!(check(&lost, &lists(&[(1, &[])])).is_err(), "lost append");
        let twice = check(&lost, &lists(&[(1, &[10, 10])]));
        assert!(twice.is_err(), "applied twice");
        let dirty = [transaction(1, 2, &[Read(1, vec![10])])];
        assert!(check(&dirty, &lists(&[(1, &[])])).is_err(), "dirty read");
        let skew = [
            transaction(1, 9, &[Read(1, vec![]), Append(2, 20)]),
            transaction(1, 9, &[Read(2, vec![]), Append(1, 10)]),
        ];
        let found = check(&skew, &lists(&[(1, &[10]), (2, &[20])]));
        assert!(found.is_err(), "write skew");
        let stale = [
            transaction(1, 2, &[Append(1, 10)]),
            transaction(3, 4, &[Read(1, vec![])]),
        ];
        let found = check(&stale, &lists(&[(1, &[10])]));
        assert!(found.is_err(), "stale read");
        let good = [
            transaction(1, 3, &[Append(1, 10)]),
            transaction(2, 4, &[Read(1, vec![]), Append(2, 20)]),
            transaction(5, 6, &[Read(1, vec![10]), Read(2, vec![20])]),
        ];
        check(&good, &lists(&[(1, &[10]), (2, &[20])])).unwrap();
    }
}
