//! Checks the table "Where do I put" of the map: adds a dummy of each kind to a copy of the tree,
//! by exactly the files and lines that the table names, and compiles the copy.
//!
//! A dummy is an existing entry under another name: the table says which one to copy. The copy of
//! the tree lies below `target/` and shares the target folder, so that a second check is quick.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tree::CiError;
use crate::tree::{Tree, tracked};

const MAP: &str = "harness/ARCHITECTURE.md";

/// What the table must have a row for.
const KINDS: &[&str] =
    &["a mechanism", "a workload", "a fault", "a report format", "a sub-axis", "a probe"];

const DUMMY: &str = "dummy_entry";

/// Adds the dummies and compiles; the answer lists the files that each one touched.
pub fn run(root: &Path) -> Result<String, CiError> {
    let tree = Tree::read(root)?;
    let (files, touched) = with_dummies(&tree)?;
    let copy = target_folder(root).join("dummies");
    write(root, &copy, &files)?;
    compile(root, &copy)?;
    let mut report =
        String::from("| to add | new files | lines added | files touched |\n|---|---|---|---|\n");
    for one in touched {
        report +=
            &format!("| {} | {} | {} | {} |\n", one.kind, one.new_files, one.lines, one.files);
    }
    Ok(report)
}

#[derive(Debug, PartialEq, Eq)]
struct Touched {
    kind: String,
    new_files: usize,
    lines: usize,
    files: usize,
}

type Changed = BTreeMap<String, String>;

/// New and changed files, by path, after every row of the table was followed.
fn with_dummies(tree: &Tree) -> Result<(Changed, Vec<Touched>), CiError> {
    let wrong = |message: String| CiError::Manifest { path: MAP.to_owned(), message };
    let map = tree.get(MAP).ok_or_else(|| wrong("missing".to_owned()))?;
    let recipes = recipes(&map.text).map_err(wrong)?;
    for kind in KINDS {
        if !recipes.iter().any(|recipe| recipe.kind == *kind) {
            return Err(wrong(format!("the table has no row for {kind}")));
        }
    }
    let mut changed = Changed::new();
    let mut touched = Vec::new();
    for recipe in &recipes {
        let mut files = follow(tree, recipe, &mut changed)
            .map_err(|message| wrong(format!("{}: {message}", recipe.kind)))?;
        files.sort();
        files.dedup();
        touched.push(Touched {
            kind: recipe.kind.clone(),
            new_files: recipe.files.len(),
            lines: recipe.lines.len(),
            files: files.len(),
        });
    }
    Ok((changed, touched))
}

/// Follows one row; returns the files that it touched.
fn follow(tree: &Tree, recipe: &Recipe, changed: &mut Changed) -> Result<Vec<String>, String> {
    let (copied, placeholder) = (Names::of(&recipe.copied), Names::of("x"));
    let kind = recipe.kind.rsplit(' ').next().unwrap_or("x");
    let dummy = Names::of(&format!("{DUMMY}_{}", kind.replace('-', "_")));
    let mut files = Vec::new();
    for path in &recipe.files {
        let from = path.replace("x.", &format!("{}.", copied.snake));
        let source = tree.get(&from).ok_or_else(|| format!("{from} does not exist"))?;
        let to = path.replace("x.", &format!("{}.", dummy.snake));
        changed.insert(to.clone(), copied.replace(&source.text, &dummy));
        files.push(to);
    }
    for (path, line) in &recipe.lines {
        let text = match changed.get(path) {
            Some(text) => text.clone(),
            None => tree.get(path).ok_or_else(|| format!("{path} does not exist"))?.text.clone(),
        };
        // `X` stands for a type or for a constant.
        let forms = [copied.clone(), copied.with_types_as_constants()];
        let mut wanted = forms.iter().map(|form| placeholder.replace(line, form));
        let text = wanted
            .find_map(|wanted| add_beside(&text, &wanted, &copied, &dummy))
            .ok_or_else(|| {
                let wanted = placeholder.replace(line, &copied);
                format!("{path} has nothing like `{wanted}`")
            })?;
        changed.insert(path.clone(), text);
        files.push(path.clone());
    }
    Ok(files)
}

/// Adds the dummy's line after the line `wanted`, with the documentation above it.
///
/// `Head { text }` means the whole block that opens with `Head {` and holds the text; `...` at
/// the end stands for whatever follows.
fn add_beside(text: &str, wanted: &str, copied: &Names, dummy: &Names) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let parts = wanted.strip_suffix(" }").and_then(|rest| rest.rsplit_once(" { "));
    let (mut start, end) = match parts {
        Some((head, inside)) => block(&lines, head, inside)?,
        None => {
            let is_wanted = |line: &&str| match wanted.strip_suffix("...") {
                Some(beginning) => line.trim().starts_with(beginning),
                None => line.trim() == wanted,
            };
            let at = lines.iter().position(is_wanted)?;
            (at, at)
        }
    };
    let is_above = |line: &str| line.trim().starts_with("///") || line.trim().starts_with("#[");
    while start > 0 && is_above(lines[start - 1]) {
        start -= 1;
    }
    let added = lines[start..=end].iter().map(|line| copied.replace(line, dummy));
    let added: Vec<String> = added.collect();
    let mut kept: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    kept.splice(end + 1..end + 1, added);
    Some(kept.join("\n") + "\n")
}

/// First and last line of the block that opens with `head {` and holds the text.
fn block(lines: &[&str], head: &str, inside: &str) -> Option<(usize, usize)> {
    let opening = format!("{head} {{");
    let starts = lines.iter().enumerate().filter(|(_, line)| line.trim() == opening);
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut blocks = starts.filter_map(|(start, line)| {
        let is_end = |next: &&str| indent(next) == indent(line) && next.trim().starts_with('}');
        let length = lines[start + 1..].iter().position(is_end)?;
        Some((start, start + 1 + length))
    });
    blocks.find(|(start, end)| lines[*start..=*end].iter().any(|line| line.contains(inside)))
}

fn target_folder(root: &Path) -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    given.map_or_else(|| root.join("target"), |path| root.join(path))
}

/// Compiles the copy; an error or a warning is something that the table did not name.
fn compile(root: &Path, copy: &Path) -> Result<(), CiError> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(copy).args([
        "check",
        "--release",
        "--offline",
        "--quiet",
        "-p",
        "gpubench",
    ]);
    command.env("CARGO_TARGET_DIR", target_folder(root));
    let done = command
        .output()
        .map_err(|source| CiError::Start { program: "cargo".to_owned(), source })?;
    let output = String::from_utf8_lossy(&done.stderr);
    if done.status.success() && !output.contains("warning: ") {
        return Ok(());
    }
    Err(CiError::Found(format!(
        "the table of {MAP} does not name everything that its dummies need:\n{output}"
    )))
}

// The table "Where do I put" of the map, read as recipes.

/// One row: what to copy, which files are new and which lines go where.
#[derive(Debug, PartialEq, Eq)]
pub struct Recipe {
    /// What is added, as the first column says.
    pub kind: String,
    /// The entry to copy, in snake case.
    pub copied: String,
    /// New files, with `x` for the name.
    pub files: Vec<String>,
    /// Files and the lines that they get, with `x` for the name.
    pub lines: Vec<(String, String)>,
}

const HEADING: &str = "## Where do I put";

/// The rows that say which entry to copy; a row with `-` there is for people only.
pub fn recipes(map: &str) -> Result<Vec<Recipe>, String> {
    let mut section = map.lines().skip_while(|line| !line.starts_with(HEADING));
    section.next().ok_or_else(|| format!("no heading {HEADING:?}"))?;
    let rows = section.take_while(|line| !line.starts_with("## "));
    let rows = rows.filter(|line| line.starts_with("| ") && !line.starts_with("| to add"));
    let found = rows.filter_map(|row| recipe(row).transpose());
    found.collect()
}

fn recipe(row: &str) -> Result<Option<Recipe>, String> {
    let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
    let [kind, copied, files, lines] = cells.as_slice() else {
        return Err(format!("four columns are needed: {row}"));
    };
    let Some(copied) = quoted(copied).next() else { return Ok(None) };
    let mut placed = Vec::new();
    let mut file = None;
    for text in quoted(lines) {
        if is_file(text) {
            file = Some(text);
        } else {
            let file = file.ok_or_else(|| format!("{kind}: `{text}` goes into no file"))?;
            placed.push((file.to_owned(), text.to_owned()));
        }
    }
    Ok(Some(Recipe {
        kind: (*kind).to_owned(),
        copied: copied.replace('-', "_"),
        files: quoted(files).map(str::to_owned).collect(),
        lines: placed,
    }))
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn is_file(text: &str) -> bool {
    let endings = [".rs", ".toml", ".md", ".json"];
    text.contains('/') && !text.contains(' ') && endings.iter().any(|end| text.ends_with(end))
}

// The copy of the tree that holds the dummies.

/// A build script that embeds empty files in their place.
const NO_OBJECTS: &str = r#"//! Embeds empty files.

fn main() -> std::io::Result<()> {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let embedded = ["virtual_gpu.so.zlib", "hami.so.zlib", "vendor_tools.zlib"];
    embedded.iter().try_for_each(|name| std::fs::write(out.join(name), ""))
}
"#;

/// Makes `copy` hold the tracked files with `changed` over them; equal files keep their times.
pub fn write(root: &Path, copy: &Path, changed: &Changed) -> Result<(), CiError> {
    let mut wanted: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for path in tracked(root, "*")? {
        if let Ok(bytes) = fs::read(root.join(&path)) {
            wanted.insert(copy.join(path), bytes);
        }
    }
    // Another version makes other packages: what is compiled here never passes for the real ones.
    let version = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "\"");
    let dummies = "\nversion = \"0.0.0-dummies\"";
    replace(&mut wanted, copy.join("Cargo.toml"), version, dummies)?;
    let demanded = concat!(", version = \"", env!("CARGO_PKG_VERSION"), "\"");
    let demand = ", version = \"0.0.0-dummies\"";
    replace(&mut wanted, copy.join("Cargo.toml"), demanded, demand)?;
    // The embedded objects have one file name in every version: the copy does without them, else
    // the product would be compiled again after this check.
    let others = copy.join("harness/virtual-gpu/Cargo.toml");
    replace(&mut wanted, others, version, dummies)?;
    wanted.insert(copy.join("harness/host/build.rs"), NO_OBJECTS.into());
    let changed = changed.iter().map(|(path, text)| (copy.join(path), text.clone().into_bytes()));
    wanted.extend(changed);
    remove_others(copy, &wanted).map_err(|source| write_error(copy, source))?;
    for (path, bytes) in &wanted {
        if fs::read(path).is_ok_and(|found| found == *bytes) {
            continue;
        }
        let folder = path.parent().unwrap_or(copy);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
        written.map_err(|source| write_error(path, source))?;
    }
    Ok(())
}

fn replace(
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
    path: PathBuf,
    from: &str,
    to: &str,
) -> Result<(), CiError> {
    let text = files.get(&path).map(|bytes| String::from_utf8_lossy(bytes));
    let Some(text) = text.filter(|text| text.contains(from)) else {
        return Err(CiError::Manifest {
            path: path.display().to_string(),
            message: format!("no {from:?}, which the copy replaces"),
        });
    };
    let replaced = text.replace(from, to).into_bytes();
    files.insert(path, replaced);
    Ok(())
}

fn remove_others(folder: &Path, wanted: &BTreeMap<PathBuf, Vec<u8>>) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains_key(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn write_error(path: &Path, source: std::io::Error) -> CiError {
    CiError::Write { path: path.display().to_string(), source }
}

// One name in the forms in which code writes it.

/// `dram_copy`, `dram-copy`, `DramCopy` and `DRAM_COPY`.
#[derive(Clone, Debug)]
pub struct Names {
    /// `dram_copy`: modules, files, functions.
    pub snake: String,
    kebab: String,
    camel: String,
    upper: String,
}

impl Names {
    pub fn of(snake: &str) -> Self {
        let capital = |part: &str| {
            let (first, rest) = part.split_at(part.len().min(1));
            first.to_uppercase() + rest
        };
        Self {
            snake: snake.to_owned(),
            kebab: snake.replace('_', "-"),
            camel: snake.split('_').map(capital).collect(),
            upper: snake.to_uppercase(),
        }
    }

    /// The same with constants in the place of types.
    pub fn with_types_as_constants(&self) -> Self {
        Self { camel: self.upper.clone(), ..self.clone() }
    }

    /// `text` with each whole word that is this name replaced by the other name in that form. A
    /// name of one word has one lower form: in quotes it takes the other's kebab form.
    pub fn replace(&self, text: &str, other: &Self) -> String {
        let mut made = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            made.push_str(&rest[..start]);
            let quoted = made.ends_with('"');
            rest = &rest[start..];
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(length);
            made.push_str(self.form(word, quoted, other).unwrap_or(word));
            rest = after;
        }
        made + rest
    }

    fn form<'a>(&self, word: &str, quoted: bool, other: &'a Self) -> Option<&'a str> {
        if word == self.kebab && (quoted || self.kebab != self.snake) {
            Some(&other.kebab)
        } else if word == self.snake {
            Some(&other.snake)
        } else if word == self.camel {
            Some(&other.camel)
        } else if word == self.upper {
            Some(&other.upper)
        } else {
            None
        }
    }
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::repository_root;

    fn map(row: &str) -> String {
        let rows: String = KINDS
            .iter()
            .map(|kind| format!("| {kind} | `old_one` | `a/x.rs` | {row} |\n"))
            .collect();
        format!(
            "## Where do I put...\n\n| to add | copy | new file | lines |\n|---|---|---|---|\n\
             {rows}"
        )
    }

    fn follow_all(row: &str) -> Result<(Changed, Vec<Touched>), String> {
        let text = map(row);
        let tree = Tree::of(&[
            (MAP, text.as_str()),
            ("a/old_one.rs", "//! `old-one`.\npub struct OldOne;\n"),
            (
                "a/mod.rs",
                "mod other;\nmod old_one;\n\n&[\n    Entry {\n        name: \"other\",\n    },\n\
                 \x20   Entry {\n        name: \"old-one\",\n    },\n]\n",
            ),
        ]);
        with_dummies(&tree).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_is_followed_to_the_letter() {
        let (changed, touched) = follow_all("`a/mod.rs`: `mod x;`, `Entry { \"x\" }`").unwrap();
        let file = &changed["a/dummy_entry_mechanism.rs"];
        assert_eq!(file, "//! `dummy-entry-mechanism`.\npub struct DummyEntryMechanism;\n");
        let list = &changed["a/mod.rs"];
        assert!(list.contains("mod old_one;\nmod dummy_entry_probe;\n"), "{list}");
        let entry = "    Entry {\n        name: \"dummy-entry-probe\",\n    },\n";
        assert!(list.contains(entry), "{list}");
        assert_eq!((touched[0].new_files, touched[0].lines, touched[0].files), (1, 2, 2));
    }

    #[test]
    fn what_the_table_gets_wrong_is_said() {
        for (row, expected) in [
            ("`a/mod.rs`: `use x;`", "a/mod.rs has nothing like `use old_one;`"),
            ("`a/none.rs`: `mod x;`", "a/none.rs does not exist"),
            ("`mod x;`", "`mod x;` goes into no file"),
            ("`a/mod.rs`: `Other { x }`", "nothing like `Other { old_one }`"),
        ] {
            let error = follow_all(row).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let tree = Tree::of(&[(MAP, "## Where do I put...\n")]);
        let error = with_dummies(&tree).unwrap_err().to_string();
        assert!(error.contains("no row for a mechanism"), "{error}");
    }

    #[test]
    fn every_row_of_the_map_can_be_followed() {
        let tree = Tree::read(&repository_root()).unwrap();
        let (changed, touched) = with_dummies(&tree).unwrap();
        assert!(touched.len() >= KINDS.len() && changed.len() >= KINDS.len());
    }

    #[test]
    fn each_form_gets_its_own() {
        let others = "DRAM_COPY_MIB dram_copy_2 dram-copy-2";
        for (from, text, expected) in [
            ("dram_copy", "mod dram_copy;", "mod a_b;"),
            ("dram_copy", "&dram_copy::DramCopy", "&a_b::AB"),
            ("dram_copy", "\"dram-copy\"", "\"a-b\""),
            ("dram_copy", others, others),
            ("dram_copy", "DRAM_COPY", "A_B"),
            // Quotes identify a name of one word.
            ("x", "mod x; x::X \"x\" x() max", "mod a_b; a_b::AB \"a-b\" a_b() max"),
        ] {
            assert_eq!(Names::of(from).replace(text, &Names::of("a_b")), expected);
        }
    }
}
