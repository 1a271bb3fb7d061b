//! Checks the table "Where do I put" of the map: adds a dummy of each kind to a copy of the tree,
//! by exactly the files and lines that the table names, and compiles the copy.
//!
//! A dummy is an existing entry under another name: the table says which one to copy. The copy of
//! the tree lies below `target/` and shares the target folder, so that a second check is quick.

mod copy;
mod names;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::CiError;
use crate::tree::Tree;
use names::Names;
use table::{Recipe, recipes};

const MAP: &str = "harness/ARCHITECTURE.md";

/// What the table must have a row for.
const KINDS: &[&str] =
    &["a mechanism", "a workload", "a fault", "a report format", "a sub-axis", "a probe"];

/// What every dummy is called.
const DUMMY: &str = "dummy_entry";

/// Adds the dummies and compiles; the answer lists the files that each one touched.
pub fn run(root: &Path) -> Result<String, CiError> {
    let tree = Tree::read(root)?;
    let (files, touched) = with_dummies(&tree)?;
    let copy = target_folder(root).join("dummies");
    copy::write(root, &copy, &files)?;
    compile(root, &copy)?;
    let mut report =
        String::from("| to add | new files | lines added | files touched |\n|---|---|---|---|\n");
    for one in touched {
        report +=
            &format!("| {} | {} | {} | {} |\n", one.kind, one.new_files, one.lines, one.files);
    }
    Ok(report)
}

/// What one dummy took.
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

#[cfg(test)]
mod tests;
