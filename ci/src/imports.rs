//! Imports between the files of a package: `use` declarations of paths in the crate.
//!
//! A re-exported name counts as an import of the file that defines it. A path from a module to its
//! own child (`child::f`) does not count. Paths in expressions and test code are ignored.

use std::collections::{BTreeMap, BTreeSet};

use crate::package::{Package, product_tokens};
use crate::scan::{Kind, Token, closing, reads};

/// Limit of followed re-exports.
const MAX_HOPS: usize = 8;

/// For each file (by index in the package) the files that it imports from.
pub type Graph = Vec<BTreeSet<usize>>;

pub fn graph(package: &Package<'_>) -> Graph {
    let modules = Modules::of(package);
    let targets = |(file, module): (usize, &Module<'_>)| {
        let paths = module.used.iter();
        let found = paths.filter_map(|path| modules.resolve(path, 0));
        found.filter(|target| *target != file).collect()
    };
    modules.all.iter().enumerate().map(targets).collect()
}

/// Absolute path inside the crate.
type ModulePath = Vec<String>;

/// One file as a module, with its used paths and imported names.
struct Module<'a> {
    used: Vec<ModulePath>,
    imported: BTreeMap<&'a str, ModulePath>,
}

struct Modules<'a> {
    all: Vec<Module<'a>>,
    by_path: BTreeMap<ModulePath, usize>,
}

impl<'a> Modules<'a> {
    fn of(package: &Package<'a>) -> Self {
        let has_library = package.files.iter().any(|file| file.path.ends_with("src/lib.rs"));
        let path_of = |path: &str| {
            let inside = path.strip_prefix(&package.source).unwrap_or(path);
            module_path(inside, has_library)
        };
        let paths = package.files.iter().map(|file| path_of(&file.path));
        let by_path: BTreeMap<ModulePath, usize> =
            paths.enumerate().map(|(index, path)| (path, index)).collect();
        let read = |file: &&'a crate::tree::SourceFile| {
            read_module(&product_tokens(&file.text), &path_of(&file.path), &by_path)
        };
        let all = package.files.iter().map(read).collect();
        Self { all, by_path }
    }

    /// The file that defines the item at `path`.
    fn resolve(&self, path: &[String], hops: usize) -> Option<usize> {
        let prefixes = (0..=path.len()).rev();
        let (length, file) = prefixes
            .filter_map(|length| Some((length, *self.by_path.get(&path[..length])?)))
            .next()?;
        let reexported = path
            .get(length)
            .and_then(|name| self.all[file].imported.get(name.as_str()))
            .filter(|_| hops < MAX_HOPS);
        match reexported {
            Some(origin) => {
                let mut full = origin.clone();
                full.extend_from_slice(&path[length + 1..]);
                self.resolve(&full, hops + 1)
            }
            None => Some(file),
        }
    }
}

/// The module path of a file. In a package with a library, `main.rs` is a separate module.
fn module_path(inside: &str, has_library: bool) -> ModulePath {
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if stem == "lib" || (stem == "main" && !has_library) {
        return Vec::new();
    }
    stem.split('/').map(str::to_owned).collect()
}

fn read_module<'a>(
    scanned: &[Token<'a>],
    own: &[String],
    by_path: &BTreeMap<ModulePath, usize>,
) -> Module<'a> {
    let mut module = Module { used: Vec::new(), imported: BTreeMap::new() };
    let mut inline: Vec<(usize, &str)> = Vec::new();
    for at in 0..scanned.len() {
        inline.retain(|(end, _)| *end > at);
        if reads(scanned, at, "mod") && reads(scanned, at + 2, "{") {
            inline.push((closing(scanned, at + 2), scanned[at + 1].text));
        }
        if scanned[at].kind != Kind::Word || scanned[at].text != "use" {
            continue;
        }
        let mut base = own.to_vec();
        base.extend(inline.iter().map(|(_, name)| (*name).to_owned()));
        let mut leaves = Vec::new();
        branches(scanned, at + 1, &mut Vec::new(), &mut leaves);
        for (name, segments) in leaves {
            if let Some(path) = absolute(&segments, &base, Some(by_path)) {
                module.imported.insert(name, path);
            }
            module.used.extend(absolute(&segments, &base, None));
        }
    }
    module
}

/// Reads the path at `at` with all its branches; returns the index after it.
fn branches<'a>(
    scanned: &[Token<'a>],
    mut at: usize,
    prefix: &mut Vec<&'a str>,
    leaves: &mut Vec<(&'a str, Vec<&'a str>)>,
) -> usize {
    let depth = prefix.len();
    while let Some(token) = scanned.get(at) {
        if token.kind == Kind::Word {
            prefix.push(token.text);
        } else if token.text != "*" {
            break;
        }
        at += 1;
        if !reads(scanned, at, "::") {
            break;
        }
        at += 1;
        if reads(scanned, at, "{") {
            let end = closing(scanned, at);
            at += 1;
            while at < end {
                at = branches(scanned, at, prefix, leaves) + 1;
            }
            prefix.truncate(depth);
            return end + 1;
        }
    }
    let mut segments = prefix.clone();
    if segments.len() > 1 && segments.last() == Some(&"self") {
        segments.pop();
    }
    let mut name = segments.last().copied().unwrap_or_default();
    if reads(scanned, at, "as") {
        name = scanned.get(at + 1).map_or(name, |token| token.text);
        at += 2;
    }
    leaves.push((name, segments));
    prefix.truncate(depth);
    at
}

/// The path from the crate's root; `None` for other crates. With `by_path` the name of a child
/// module counts as a path too.
fn absolute(
    segments: &[&str],
    base: &[String],
    by_path: Option<&BTreeMap<ModulePath, usize>>,
) -> Option<ModulePath> {
    let first = *segments.first()?;
    let mut path = base.to_vec();
    let rest = match first {
        "crate" if segments.len() > 1 => {
            path.clear();
            &segments[1..]
        }
        "self" | "super" if segments.len() > 1 => {
            let ups = segments.iter().take_while(|name| **name == "super").count();
            path.truncate(base.len().checked_sub(ups)?);
            &segments[ups.max(1)..]
        }
        _ => {
            path.push(first.to_owned());
            by_path?.get(&path)?;
            &segments[1..]
        }
    };
    path.extend(rest.iter().map(|name| (*name).to_owned()));
    Some(path)
}

// Import circles: sets of files that import each other, directly or through other files.

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
    use std::collections::BTreeSet;

    use super::*;
    use crate::package::packages;
    use crate::tree::Tree;

    /// The imports of `p/src/a.rs`, by path.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("p/Cargo.toml", "[package]\nname = \"p\"")];
        all.extend_from_slice(files);
        let tree = Tree::of(&all);
        let found = packages(&tree);
        let path_of = |index: &usize| found[0].files[*index].path["p/src/".len()..].to_owned();
        let file = found[0].files.iter().position(|file| file.path == "p/src/a.rs");
        graph(&found[0])[file.unwrap()].iter().map(path_of).collect()
    }

    #[test]
    fn paths_lead_to_files() {
        let cases: [(&str, &[&str]); 10] = [
            ("use crate::b::X;", &["b.rs"]),
            ("use super::b::X;", &["b.rs"]),
            ("fn f() { use crate::b::g; }", &["b.rs"]),
            ("mod m { use super::super::b::X; use super::Y; }", &["b.rs"]),
            ("use crate::{b::{X, Y}, c::d::Z};", &["b.rs", "c/d.rs"]),
            ("use crate::c::Z;", &["c/d.rs"]),
            ("use crate::c::Own;", &["c/mod.rs"]),
            ("use std::b::X; use serde::c;", &[]),
            ("pub(in crate::b) fn f() {}", &[]),
            ("#[cfg(test)] mod tests { use crate::b::X; }", &[]),
        ];
        for (text, expected) in cases {
            let files = [
                ("p/src/a.rs", text),
                ("p/src/b.rs", ""),
                ("p/src/c/d.rs", ""),
                ("p/src/c/mod.rs", "mod d; pub use d::Z; struct Own;"),
                ("p/src/lib.rs", ""),
            ];
            assert_eq!(imports(&files), expected, "{text}");
        }
    }

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
