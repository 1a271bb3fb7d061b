//! Import circles: sets of files that import each other, directly or through other files.

use crate::imports::{Graph, graph};
use crate::package::Package;

/// The circles of a package with at least two files, as sorted paths, the largest first.
pub fn circles<'a>(package: &Package<'a>) -> Vec<Vec<&'a str>> {
    let components = components(&graph(package));
    let circles = components.into_iter().filter(|component| component.len() > 1);
    let mut found: Vec<Vec<&str>> = circles
        .map(|component| {
            let paths = component.iter().map(|file| package.files[*file].path.as_str());
            let mut paths: Vec<&str> = paths.collect();
            paths.sort_unstable();
            paths
        })
        .collect();
    found.sort_by(|left, right| (right.len(), left).cmp(&(left.len(), right)));
    found
}

/// Strongly connected components by Tarjan's algorithm.
fn components(graph: &Graph) -> Vec<Vec<usize>> {
    let mut search = Search {
        graph,
        order: vec![None; graph.len()],
        low: vec![0; graph.len()],
        stack: Vec::new(),
        count: 0,
        found: Vec::new(),
    };
    for file in 0..graph.len() {
        if search.order[file].is_none() {
            search.visit(file);
        }
    }
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    count: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, file: usize) {
        let own = self.count;
        self.count += 1;
        self.order[file] = Some(own);
        self.low[file] = own;
        self.stack.push(file);
        for &next in &self.graph[file] {
            match self.order[next] {
                None => {
                    self.visit(next);
                    self.low[file] = self.low[file].min(self.low[next]);
                }
                Some(order) if self.stack.contains(&next) => {
                    self.low[file] = self.low[file].min(order);
                }
                Some(_) => {}
            }
        }
        if self.low[file] == own {
            let start = self.stack.iter().position(|one| *one == file).unwrap_or(0);
            self.found.push(self.stack.split_off(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn components_are_the_largest_circles() {
        let edges: [&[usize]; 6] = [&[1], &[2], &[0, 3], &[4], &[3], &[0]];
        let graph: Graph = edges.iter().map(|to| to.iter().copied().collect()).collect();
        let mut found: Vec<BTreeSet<usize>> =
            components(&graph).into_iter().map(BTreeSet::from_iter).collect();
        found.sort();
        let expected = [&[0, 1, 2][..], &[3, 4], &[5]];
        assert_eq!(found, expected.map(|set| set.iter().copied().collect::<BTreeSet<_>>()));
    }
}
