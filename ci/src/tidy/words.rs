//! Retired words: names and phrases that the project has replaced, with their replacements.
//!
//! The list `ci/retired-words.txt` has one entry a line, fields separated by `|`:
//! kind, forms, replacement, and an optional scope (`in PATH, ...` or `except PATH, ...`).
//!
//! | kind | matches |
//! |---|---|
//! | `word` | a part of an identifier, of a path, or a word of prose, comments or strings |
//! | `phrase` | several such words in a row, in one sentence or one identifier |
//! | `name` | exactly this identifier in Rust code, or exactly this file or folder |
//! | `module` | exactly this Rust file, folder or module |

use std::collections::BTreeMap;

use crate::scan::{Kind, tokens};
use crate::text::{Word, words};
use crate::tidy::Finding;
use crate::tree::{SourceFile, Tree};

const LIST: &str = "ci/retired-words.txt";

/// Extensions of code, scripts and prose; records, snapshots and compiled files are data.
const WRITTEN: &[&str] = &["rs", "md", "toml", "txt", "sh", "py", "cu", "c", "h", "css", "js"];

const NAMES_OLD_WORDS: &[&str] = &[LIST, "CHANGELOG.md"];

pub fn retired(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.get(LIST) else { return Vec::new() };
    let (entries, mut found) = parse(&list.text);
    let by_first = by_first_word(&entries);
    for file in tree.files().filter(|file| is_checked(file)) {
        let here: Vec<&Entry<'_>> = entries.iter().filter(|one| one.covers(&file.path)).collect();
        if here.is_empty() {
            continue;
        }
        find_words(file, &words(file), &by_first, &mut found);
        find_names(file, &here, &mut found);
    }
    found
}

fn is_checked(file: &SourceFile) -> bool {
    file.has_extension(WRITTEN)
        && !file.is_generated()
        && !NAMES_OLD_WORDS.contains(&file.path.as_str())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Words,
    Name,
    /// Paths and `mod` declarations.
    Module,
}

struct Entry<'a> {
    target: Target,
    forms: Vec<Vec<&'a str>>,
    instead: &'a str,
    only_in: Vec<&'a str>,
    except: Vec<&'a str>,
}

impl Entry<'_> {
    fn covers(&self, path: &str) -> bool {
        let lies_in = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
        (self.only_in.is_empty() || lies_in(&self.only_in)) && !lies_in(&self.except)
    }
}

fn parse(text: &str) -> (Vec<Entry<'_>>, Vec<Finding>) {
    let (mut entries, mut found) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match entry(line) {
            Some(entry) => entries.push(entry),
            None => {
                let message = "write: word, phrase or name | forms | replacement | in or except";
                found.push(Finding::new(LIST, index + 1, message));
            }
        }
    }
    (entries, found)
}

fn entry(line: &str) -> Option<Entry<'_>> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let [kind, forms, instead, scope @ ..] = fields.as_slice() else { return None };
    let forms: Vec<Vec<&str>> =
        forms.split(',').map(|form| form.split_whitespace().collect()).collect();
    let fits = |form: &Vec<&str>| match *kind {
        "word" | "name" | "module" => form.len() == 1,
        "phrase" => form.len() > 1,
        _ => false,
    };
    if !forms.iter().all(fits) || instead.is_empty() || scope.len() > 1 {
        return None;
    }
    let (mut only_in, mut except) = (Vec::new(), Vec::new());
    if let Some(scope) = scope.first() {
        let (relation, paths) = scope.split_once(' ')?;
        let paths = paths.split(',').map(str::trim);
        match relation {
            "in" => only_in.extend(paths),
            "except" => except.extend(paths),
            _ => return None,
        }
    }
    Some(Entry {
        target: match *kind {
            "name" => Target::Name,
            "module" => Target::Module,
            _ => Target::Words,
        },
        forms,
        instead,
        only_in,
        except,
    })
}

type ByFirst<'a> = BTreeMap<&'a str, Vec<(&'a [&'a str], &'a Entry<'a>)>>;

fn by_first_word<'a>(entries: &'a [Entry<'a>]) -> ByFirst<'a> {
    let mut found: ByFirst<'a> = BTreeMap::new();
    for entry in entries.iter().filter(|one| one.target == Target::Words) {
        for form in &entry.forms {
            found.entry(form[0]).or_default().push((form, entry));
        }
    }
    found
}

fn find_words(file: &SourceFile, all: &[Word], retired: &ByFirst<'_>, found: &mut Vec<Finding>) {
    for (at, word) in all.iter().enumerate() {
        let candidates = retired.get(word.text.as_str()).into_iter().flatten();
        for (form, entry) in candidates.filter(|(_, entry)| entry.covers(&file.path)) {
            let mut here = all[at..].iter().map(|word| word.text.as_str());
            if form.iter().all(|part| here.next() == Some(part)) {
                let message = format!("{:?}: {}", form.join(" "), entry.instead);
                found.push(Finding::new(&file.path, word.line, message));
            }
        }
    }
}

fn find_names(file: &SourceFile, here: &[&Entry<'_>], found: &mut Vec<Finding>) {
    if !file.has_extension(&["rs"]) {
        return;
    }
    let mut report = |name: &str, line: usize, is_module: bool| {
        let covers = |target| target == Target::Name || (is_module && target == Target::Module);
        let matching = here.iter().filter(|entry| covers(entry.target));
        for entry in matching.filter(|entry| entry.forms.iter().any(|form| form[0] == name)) {
            let message = format!("`{name}`: {}", entry.instead);
            found.push(Finding::new(&file.path, line, message));
        }
    };
    for part in file.path.split('/') {
        report(part.strip_suffix(".rs").unwrap_or(part), 0, true);
    }
    let mut after_mod = false;
    for token in tokens(&file.text) {
        if token.kind == Kind::Word {
            report(token.text, token.line, after_mod);
        }
        after_mod = token.kind == Kind::Word && token.text == "mod";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str = "# old | new\nword | wagon, wagons | cart\n\
        phrase | old phrase | new phrase\n\
        name | Seen, again | Observation | in harness/\n\
        module | known | launch profile\n\
        word | barrow | lorry | except reports/store/\n";

    fn findings(path: &str, text: &str) -> Vec<String> {
        let found = retired(&Tree::of(&[(LIST, ENTRIES), (path, text)]));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn retired_words_are_found_in_every_form() {
        let bad = [
            ("a.rs", "struct Wagon;", "a.rs:1: \"wagon\": cart"),
            ("a.rs", "\nfn the_wagons() {}", "a.rs:2: \"wagons\": cart"),
            ("a.rs", "// The wagon's part", "a.rs:1: \"wagon\": cart"),
            ("a.rs", "f(\"wagon\")", "a.rs:1: \"wagon\": cart"),
            ("a/wagon.rs", "", "a/wagon.rs:0: \"wagon\": cart"),
            ("a.md", "the\nWAGON", "a.md:2: \"wagon\": cart"),
            ("a.rs", "/// is old\n/// phrase saw", "a.rs:1: \"old phrase\": new phrase"),
            ("a.rs", "fn old_phrase_saw()", "a.rs:1: \"old phrase\": new phrase"),
            ("harness/a.rs", "fn f(a: &Seen)", "harness/a.rs:1: `Seen`: Observation"),
            ("harness/again.rs", "", "harness/again.rs:0: `again`: Observation"),
            ("a.toml", "barrow = 1", "a.toml:1: \"barrow\": lorry"),
        ];
        for (path, text, expected) in bad {
            assert_eq!(findings(path, text), [expected], "{text}");
        }
    }

    #[test]
    fn other_words_and_paths_pass() {
        let good = [
            ("a.rs", "// Know the old. Phrase here; cart"),
            ("a.rs", "let old = phrase;"),
            ("harness/a.rs", "// Seen from afar, done again"),
            ("workloads/a.rs", "struct Seen; let known = 1;"),
            ("reports/store/a.rs", "\"barrow\""),
            ("a.json", "{\"barrow\": 1}"),
            ("CHANGELOG.md", "wagon is now cart"),
        ];
        for (path, text) in good {
            assert!(findings(path, text).is_empty(), "{path}: {text}");
        }
    }

    #[test]
    fn a_wrong_line_of_the_list_is_a_finding() {
        for line in [
            "word | two words | x",
            "phrase | one | x",
            "noun | a | b",
            "word | a",
            "word | a | b | at c",
        ] {
            assert_eq!(retired(&Tree::of(&[(LIST, line)])).len(), 1, "{line}");
        }
    }
}
