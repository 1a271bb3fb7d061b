//! Length of files and functions. Longer ones are listed in `ci/long.txt` with their exact length,
//! which can only decrease.

use crate::scan::{Kind, Token, closing, reads, tokens};
use crate::tidy::{Finding, list};
use crate::tree::Tree;

const MAX_FILE_LINES: usize = 300;
const MAX_FUNCTION_LINES: usize = 80;
/// The list of exceptions.
pub const LIST: &str = "ci/long.txt";

/// Files over the limit.
pub fn file_length(tree: &Tree) -> Vec<Finding> {
    let is_file = |key: &str| !key.contains("::");
    ratchet(tree, &files(tree), MAX_FILE_LINES, is_file)
}

/// Functions over the limit.
pub fn function_length(tree: &Tree) -> Vec<Finding> {
    let is_function = |key: &str| key.contains("::");
    ratchet(tree, &function_bodies(tree), MAX_FUNCTION_LINES, is_function)
}

/// Files and functions over the limit, with their lengths.
pub fn long(tree: &Tree) -> Vec<(String, usize)> {
    let files = files(tree).into_iter().filter(|one| one.length > MAX_FILE_LINES);
    let bodies = function_bodies(tree).into_iter();
    let bodies = bodies.filter(|one| one.length > MAX_FUNCTION_LINES);
    let all = files.chain(bodies);
    all.map(|one| (one.key, one.length)).collect()
}

fn files(tree: &Tree) -> Vec<Measured> {
    let written = tree.rust().filter(|file| !file.is_generated());
    let measured = written.map(|file| Measured {
        key: file.path.clone(),
        path: file.path.clone(),
        line: 1,
        length: file.text.lines().count(),
    });
    measured.collect()
}

fn function_bodies(tree: &Tree) -> Vec<Measured> {
    let mut measured = Vec::new();
    for file in tree.rust().filter(|file| !file.is_generated()) {
        let found = tokens(&file.text);
        for (name, line, length) in functions(&found) {
            let key = format!("{}::{name}", file.path);
            let path = file.path.clone();
            measured.push(Measured { key, path, line, length });
        }
    }
    measured
}

struct Measured {
    key: String,
    path: String,
    line: usize,
    length: usize,
}

fn ratchet(
    tree: &Tree,
    measured: &[Measured],
    limit: usize,
    is_covered: impl Fn(&str) -> bool,
) -> Vec<Finding> {
    let mut listed = list::entries(tree, LIST);
    listed.retain(|entry| is_covered(entry.key));
    let long = |key: &str| {
        let mut found = measured.iter();
        found.any(|one| one.key == key && one.length > limit)
    };
    let mut found = list::stale(LIST, &listed, long);
    for one in measured.iter().filter(|one| one.length > limit) {
        let length = one.length;
        let message = match listed.iter().find(|entry| entry.key == one.key) {
            None => format!("{length} lines: split it by idea at {limit}"),
            Some(entry) => match entry.value.parse::<usize>() {
                Ok(allowed) if allowed == length => continue,
                Ok(allowed) if allowed > length => {
                    format!("now {length} lines: lower {allowed} in {LIST}")
                }
                _ => format!("{length} lines, {} in {LIST}: shorten it", entry.value),
            },
        };
        found.push(Finding::new(&one.path, one.line, message));
    }
    found
}

/// Name, line and length of every function with a body.
fn functions<'a>(found: &[Token<'a>]) -> Vec<(&'a str, usize, usize)> {
    let mut functions = Vec::new();
    for at in 0..found.len() {
        // `fn` and a word are a definition; `fn` and a bracket are a pointer type.
        let Some(name) = found.get(at + 1).filter(|next| next.kind == Kind::Word) else {
            continue;
        };
        if !reads(found, at, "fn") {
            continue;
        }
        if let Some(end) = body_end(found, at + 2) {
            let length = found[end].line - found[at].line + 1;
            functions.push((name.text, found[at].line, length));
        }
    }
    functions
}

/// Index of the closing brace of a function; `at` is in its signature.
fn body_end(found: &[Token<'_>], mut at: usize) -> Option<usize> {
    while let Some(token) = found.get(at) {
        match token.text {
            "(" | "[" => at = closing(found, at),
            "{" => return Some(closing(found, at)).filter(|end| *end < found.len()),
            ";" => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        let found = check(&Tree::of(files));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_have_at_most_300_lines() {
        let (fits, long) = ("\n".repeat(300), "\n".repeat(301));
        assert!(messages(file_length, &[("a.rs", &fits)]).is_empty());
        let found = messages(file_length, &[("a.rs", &long)]);
        assert_eq!(found, ["a.rs:1: 301 lines: split it by idea at 300"]);
    }

    #[test]
    fn the_list_holds_exact_lengths_and_only_shrinks() {
        let long = "\n".repeat(510);
        let cases = [
            ("a.rs 510\n", None),
            ("a.rs 520\n", Some("lower 520")),
            ("a.rs 509\n", Some("shorten it")),
            ("a.rs many\n", Some("shorten it")),
            ("a.rs 510\nb.rs 600\n", Some("b.rs needs no exception")),
        ];
        for (listed, expected) in cases {
            let found = messages(file_length, &[("a.rs", &long), (LIST, listed)]);
            match expected {
                None => assert!(found.is_empty(), "{found:?}"),
                Some(part) => assert!(found[0].contains(part), "{found:?}"),
            }
        }
    }

    #[test]
    fn functions_have_at_most_80_lines() {
        let body = |lines: usize| format!("fn f(a: [u8; 2]) -> u8 {{{}}}\n", "\n".repeat(lines));
        assert!(messages(function_length, &[("a.rs", &body(79))]).is_empty());
        let long = body(80);
        let found = messages(function_length, &[("a.rs", &long)]);
        assert_eq!(found, ["a.rs:1: 81 lines: split it by idea at 80"]);
        let listed = [("a.rs", long.as_str()), (LIST, "a.rs::f 81\n")];
        assert!(messages(function_length, &listed).is_empty());
    }

    #[test]
    fn declarations_and_pointer_types_are_not_functions() {
        let source = "trait T { fn a(); fn b() { let c: fn(u8) = d; } } const E: fn() = f;";
        let found = tokens(source);
        let names: Vec<&str> = functions(&found).iter().map(|one| one.0).collect();
        assert_eq!(names, ["b"]);
    }
}
