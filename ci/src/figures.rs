//! Figures of the code: lines per package, long files, import circles and uncalled public
//! functions.

use std::fmt::Write;

use crate::circles::circles;
use crate::functions::uncalled;
use crate::package::{Package, packages};
use crate::tree::Tree;

const LONG_FILE: usize = 300;

/// The figures as Markdown tables. With `all` each long file, circle and function is named.
pub fn table(tree: &Tree, all: bool) -> String {
    let packages = packages(tree);
    let dead = uncalled(&packages);
    let mut text = format!(
        "| package | lines of src | files | over {LONG_FILE} lines | circles (files) | \
         uncalled public functions |\n|---|---:|---:|---:|---|---:|\n"
    );
    let mut sums = [0; 4];
    let mut circle_sizes = Vec::new();
    for package in &packages {
        let sizes: Vec<usize> = circles(package).iter().map(Vec::len).collect();
        let is_in_package = |path: &str| path.starts_with(&package.source);
        let counts = [
            package.lines(),
            package.files.len(),
            long_files(package).count(),
            dead.iter().filter(|(file, _)| is_in_package(&file.path)).count(),
        ];
        row(&mut text, &package.name, counts, &sizes);
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
        circle_sizes.extend(sizes.into_iter().filter(|size| *size > 3));
    }
    circle_sizes.sort_unstable_by(|left, right| right.cmp(left));
    row(&mut text, "all (circles over 3)", sums, &circle_sizes);
    let long = tree.rust().filter(|file| is_long(&file.text));
    let _ = writeln!(
        text,
        "\nRust files over {LONG_FILE} lines, tests included: {}; lines of all Rust files: {}",
        long.count(),
        tree.rust().map(|file| file.text.lines().count()).sum::<usize>()
    );
    if all {
        details(&mut text, &packages);
        for (file, function) in dead {
            let _ = writeln!(text, "uncalled {}:{} {}", file.path, function.line, function.name);
        }
    }
    text
}

fn details(text: &mut String, packages: &[Package<'_>]) {
    for package in packages {
        for path in long_files(package) {
            let _ = writeln!(text, "long {path}");
        }
        for circle in circles(package) {
            let _ = writeln!(text, "circle of {}: {}", circle.len(), circle.join(" "));
        }
    }
}

fn row(text: &mut String, name: &str, [lines, files, long, dead]: [usize; 4], sizes: &[usize]) {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let sizes = sizes.join(", ");
    let _ = writeln!(text, "| {name} | {lines} | {files} | {long} | {sizes} | {dead} |");
}

fn long_files<'a>(package: &'a Package<'_>) -> impl Iterator<Item = &'a str> {
    let long = package.files.iter().filter(|file| is_long(&file.text));
    long.map(|file| file.path.as_str())
}

fn is_long(text: &str) -> bool {
    text.lines().count() > LONG_FILE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_details() {
        let long = "\n".repeat(301);
        let tree = Tree::of(&[
            ("p/Cargo.toml", "[package]\nname = \"p\""),
            ("p/src/a.rs", "use crate::b::X;\npub fn unused() {}"),
            ("p/src/b.rs", "use crate::a::X;"),
            ("p/src/lib.rs", &long),
        ]);
        let text = table(&tree, true);
        assert!(text.contains("| p | 304 | 3 | 1 | 2 | 1 |"), "{text}");
        for line in [
            "long p/src/lib.rs",
            "circle of 2: p/src/a.rs p/src/b.rs",
            "uncalled p/src/a.rs:2 unused",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
