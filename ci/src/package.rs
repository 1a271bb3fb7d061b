//! The packages of the workspace and their product code: files under `src`, without tests.

use std::fmt::Write;

use toml::{Table, Value};

use super::imports::circles;
use crate::functions::uncalled;
use crate::scan::{Token, closing, reads, tokens};
use crate::tree::{SourceFile, Tree};

/// One package and the Rust files under its `src`.
#[derive(Debug)]
pub struct Package<'a> {
    pub name: String,
    /// Path of its `src` folder, with `/` at its end.
    pub source: String,
    /// Files under `src`, in path order.
    pub files: Vec<&'a SourceFile>,
}

impl Package<'_> {
    /// Lines of all files under `src`, comments and unit tests included.
    pub fn lines(&self) -> usize {
        let lengths = self.files.iter().map(|file| file.text.lines().count());
        lengths.sum()
    }
}

pub fn packages(tree: &Tree) -> Vec<Package<'_>> {
    let manifests = tree.files().filter_map(manifest);
    let package = |(folder, manifest): (String, Table)| {
        let source = format!("{folder}src/");
        let files = tree.rust().filter(|file| file.path.starts_with(&source));
        Package { name: package_name(&manifest).to_owned(), files: files.collect(), source }
    };
    manifests.map(package).collect()
}

/// The folder (with `/` at its end) and content of a package's manifest, if the file is one.
pub fn manifest(file: &SourceFile) -> Option<(String, Table)> {
    let folder = file.path.strip_suffix("Cargo.toml")?;
    let is_folder = folder.is_empty() || folder.ends_with('/');
    let manifest: Table = file.text.parse().ok().filter(|_| is_folder)?;
    manifest.contains_key("package").then(|| (folder.to_owned(), manifest))
}

/// Name of the package; empty without one.
pub fn package_name(manifest: &Table) -> &str {
    let name = manifest.get("package").and_then(|package| package.get("name"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// The tokens of `source` without comments and without items under `#[cfg(test)]`.
pub fn product_tokens(source: &str) -> Vec<Token<'_>> {
    let scanned = tokens(source);
    let mut kept = Vec::with_capacity(scanned.len());
    let mut at = 0;
    while at < scanned.len() {
        if reads(&scanned, at, "# [ cfg ( test ) ]") {
            at = item_end(&scanned, at + 7) + 1;
        } else {
            kept.push(scanned[at]);
            at += 1;
        }
    }
    kept
}

/// Index of the token that ends the item at `at`: its closing brace or its semicolon.
pub fn item_end(scanned: &[Token<'_>], mut at: usize) -> usize {
    while let Some(token) = scanned.get(at) {
        match token.text {
            "(" | "[" => at = closing(scanned, at),
            "{" => return closing(scanned, at),
            ";" => return at,
            _ => {}
        }
        at += 1;
    }
    scanned.len()
}

// Figures of the code: lines per package, long files, import circles and uncalled public
// functions.

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
    use crate::scan::Kind;

    #[test]
    fn a_package_holds_the_files_under_its_source_folder() {
        let tree = Tree::of(&[
            ("p/Cargo.toml", "[package]\nname = \"p\""),
            ("p/src/lib.rs", "//! a\n\n"),
            ("p/src/b.rs", "c"),
            ("p/tests/d.rs", "e"),
            ("p/q/Cargo.toml", "[package]\nname = \"q\""),
            ("p/q/src/lib.rs", "f"),
            ("Cargo.toml", "[workspace]"),
        ]);
        let found = packages(&tree);
        let lines: Vec<(&str, usize)> =
            found.iter().map(|package| (package.name.as_str(), package.lines())).collect();
        assert_eq!(lines, [("p", 3), ("q", 1)]);
    }

    #[test]
    fn product_tokens_exclude_tests() {
        let source = "fn a() {} #[cfg(test)] mod t { fn b() {} } #[cfg(test)] mod c; fn d() {}";
        let found = product_tokens(source);
        let words = found.iter().filter(|token| token.kind == Kind::Word);
        let texts: Vec<&str> = words.map(|token| token.text).collect();
        assert_eq!(texts, ["fn", "a", "fn", "d"]);
    }

    #[test]
    fn figures_have_their_details() {
        let long = "\n".repeat(301);
        let tree = Tree::of(&[
            ("p/Cargo.toml", "[package]\nname = \"p\""),
            ("p/src/a.rs", "use crate::b::X;\npub fn unused() {} pub fn used() { used() }"),
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
