//! The packages of the workspace and their product code: files under `src`, without tests.

use toml::{Table, Value};

use crate::scan::{Token, closing, reads, tokens};
use crate::tree::{SourceFile, Tree};

/// One package and the Rust files under its `src`.
#[derive(Debug)]
pub struct Package<'a> {
    /// Name in the manifest.
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

/// Every package of the tree, in path order.
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
}
