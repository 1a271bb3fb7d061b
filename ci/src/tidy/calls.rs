//! Rules about calls: banned calls with replacements, wall clocks, and `unsafe` code.

use crate::scan::{Token, reads, tokens};
use crate::tidy::{Finding, list};
use crate::tree::Tree;

const CLOCK_LIST: &str = "ci/clock.txt";
const UNSAFE_LIST: &str = "ci/unsafe.txt";

const UNFINISHED: &str = "write it, or return a typed error";
const PRINT: &str = "return the text or take a writer; only the command line prints";
const CLOCK: &str = "use workloads/src/clock.rs, or list the file with a reason in ci/clock.txt";

/// A call (tokens, separated by spaces), its replacement, and the paths where it is allowed.
struct Banned(&'static str, &'static str, fn(&str) -> bool);

const BANNED: &[Banned] = &[
    Banned("todo !", UNFINISHED, nowhere),
    Banned("unimplemented !", UNFINISHED, nowhere),
    Banned("dbg !", "assert on the value in a test", nowhere),
    Banned("# [ ignore", "make the test run, or make it a separate target", nowhere),
    Banned("process :: exit", "return an error that carries its exit code", exits),
    Banned("println !", PRINT, prints),
    Banned("print !", PRINT, prints),
    Banned("eprintln !", PRINT, prints),
    Banned("eprint !", PRINT, prints),
];

const CLOCK_CALLS: &[&str] = &["Instant :: now", "SystemTime :: now"];

fn nowhere(_path: &str) -> bool {
    false
}

fn is_main(path: &str) -> bool {
    path.ends_with("/main.rs")
}

/// Program entries, and the fault that is the exit of its process.
fn exits(path: &str) -> bool {
    is_main(path) || path == "workloads/src/fault/hang.rs"
}

fn prints(path: &str) -> bool {
    let folders = ["harness/src/cli/", "harness/src/cli.rs", "ci/src/"];
    is_main(path) || is_program(path) || folders.iter().any(|folder| path.starts_with(folder))
}

/// Build scripts, tests, benches and examples, which are not part of the product.
fn is_program(path: &str) -> bool {
    let folders = ["/tests/", "/benches/", "/examples/"];
    path.ends_with("/build.rs") || folders.iter().any(|folder| path.contains(folder))
}

/// Banned calls outside their allowed paths.
pub fn banned(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let scanned = tokens(&file.text);
        for Banned(call, instead, is_allowed) in BANNED {
            if is_allowed(&file.path) {
                continue;
            }
            for line in lines_of(&scanned, call) {
                let message = format!("{}: {instead}", call.replace(' ', ""));
                found.push(Finding::new(&file.path, line, message));
            }
        }
    }
    found
}

/// Product code reads time through `workloads/src/clock.rs`, so that virtual time works.
pub fn clock(tree: &Tree) -> Vec<Finding> {
    let listed = list::entries(tree, CLOCK_LIST);
    let (mut users, mut found) = (Vec::new(), Vec::new());
    for file in tree.rust().filter(|file| !is_program(&file.path)) {
        let scanned = tokens(&file.text);
        let calls = CLOCK_CALLS.iter();
        let lines: Vec<usize> = calls.flat_map(|call| lines_of(&scanned, call)).collect();
        if lines.is_empty() {
            continue;
        }
        users.push(file.path.as_str());
        if listed.iter().all(|entry| entry.key != file.path) {
            let message = format!("wall clock: {CLOCK}");
            let finding = |line| Finding::new(&file.path, line, message.as_str());
            found.extend(lines.into_iter().map(finding));
        }
    }
    found.extend(list::stale(CLOCK_LIST, &listed, |key| users.contains(&key)));
    found
}

/// `unsafe` stays in files that say why: to the compiler, and in the list that reviewers read. A
/// listed folder stands for a package whose `lib.rs` expects it for every file.
pub fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let listed = list::entries(tree, UNSAFE_LIST);
    let (mut users, mut found) = (Vec::new(), Vec::new());
    for file in tree.rust() {
        let scanned = tokens(&file.text);
        let Some(line) = first_unsafe(&scanned) else {
            continue;
        };
        let mut keys = listed.iter().map(|entry| entry.key);
        let folder = keys.find(|key| key.ends_with('/') && file.path.starts_with(key));
        users.push(folder.unwrap_or(&file.path));
        if let Some(folder) = folder {
            let lib = tree.get(&format!("{folder}lib.rs"));
            if !lib.is_some_and(|lib| expects_unsafe(&tokens(&lib.text))) {
                let message = format!("unsafe: {folder}lib.rs does not expect unsafe_code");
                found.push(Finding::new(&file.path, line, message));
            }
            continue;
        }
        if !expects_unsafe(&scanned) {
            let message = "unsafe: open the file with #![expect(unsafe_code, reason = \"...\")]";
            found.push(Finding::new(&file.path, line, message));
        }
        if listed.iter().all(|entry| entry.key != file.path) {
            let message = format!("unsafe: list the file with its reason in {UNSAFE_LIST}");
            found.push(Finding::new(&file.path, line, message));
        }
    }
    found.extend(list::stale(UNSAFE_LIST, &listed, |key| users.contains(&key)));
    found
}

fn expects_unsafe(scanned: &[Token<'_>]) -> bool {
    !lines_of(scanned, "# ! [ expect ( unsafe_code ,").is_empty()
}

/// Line of the first `unsafe` that is more than part of a function pointer's type.
fn first_unsafe(scanned: &[Token<'_>]) -> Option<usize> {
    let mut places = (0..scanned.len()).filter(|at| reads(scanned, *at, "unsafe"));
    places.find(|at| !is_pointer_type(&scanned[at + 1..])).map(|at| scanned[at].line)
}

/// Whether the tokens after `unsafe` go on as `fn(` or `extern "C" fn(`, without a name.
fn is_pointer_type(after: &[Token<'_>]) -> bool {
    let abi = if reads(after, 0, "extern") { 2 } else { 0 };
    reads(after, abi, "fn (")
}

fn lines_of(scanned: &[Token<'_>], call: &str) -> Vec<usize> {
    let places = (0..scanned.len()).filter(|at| reads(scanned, *at, call));
    places.map(|at| scanned[at].line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        let found = check(&Tree::of(files));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_banned_call_is_found_as_code_only() {
        for Banned(call, instead, _) in BANNED {
            let code = call.replace(' ', "");
            let bad = format!("fn f() {{\n    std::{code}(1)\n}}");
            let found = messages(banned, &[("x/src/a.rs", &bad)]);
            assert_eq!(found, [format!("x/src/a.rs:2: {code}: {instead}")]);
            let good = format!("// {code}\nconst A: &str = \"{code}\";");
            assert!(messages(banned, &[("x/src/a.rs", &good)]).is_empty(), "{code}");
        }
    }

    #[test]
    fn printing_is_for_the_command_line() {
        let text = "fn f() { println!() }";
        for path in ["harness/src/cli/list.rs", "x/examples/a.rs", "x/build.rs", "x/src/main.rs"] {
            assert!(messages(banned, &[(path, text)]).is_empty(), "{path}");
        }
        for path in ["harness/src/run/mod.rs", "reports/src/lib.rs", "x/src/client/a.rs"] {
            assert_eq!(messages(banned, &[(path, text)]).len(), 1, "{path}");
        }
    }

    #[test]
    fn only_main_ends_the_process() {
        let text = "fn f() { std::process::exit(1) }";
        assert!(messages(banned, &[("x/src/main.rs", text)]).is_empty());
        assert_eq!(messages(banned, &[("x/src/cli.rs", text)]).len(), 1);
    }

    #[test]
    fn clocks_are_read_where_listed() {
        for call in ["Instant::now()", "std::time::SystemTime::now()"] {
            let text = format!("fn f() {{ {call}; }}");
            let file = ("x/src/a.rs", text.as_str());
            assert_eq!(messages(clock, &[file]).len(), 1);
            assert!(messages(clock, &[file, (CLOCK_LIST, "x/src/a.rs real time")]).is_empty());
            assert_eq!(messages(clock, &[file, (CLOCK_LIST, "x/src/a.rs")]).len(), 1);
            assert!(messages(clock, &[("x/benches/a.rs", text.as_str())]).is_empty());
        }
        let unused = messages(clock, &[("x/src/a.rs", ""), (CLOCK_LIST, "x/src/a.rs why")]);
        assert_eq!(unused, ["ci/clock.txt:1: x/src/a.rs needs no exception: remove the line"]);
    }

    #[test]
    fn unsafe_code_is_expected_and_listed() {
        let expect = "#![expect(unsafe_code, reason = \"calls C\")]\n";
        let listed = (UNSAFE_LIST, "a.rs calls C");
        for code in [
            "fn f() { unsafe { g() } }",
            "unsafe fn f() {}",
            "#[unsafe(no_mangle)] fn f() {}",
            "unsafe extern \"C\" { fn f(); }",
            "unsafe impl Send for A {}",
        ] {
            let whole = format!("{expect}{code}");
            assert!(messages(unsafe_code, &[("a.rs", &whole), listed]).is_empty(), "{code}");
            assert_eq!(messages(unsafe_code, &[("a.rs", &whole)]).len(), 1, "{code}");
            assert_eq!(messages(unsafe_code, &[("a.rs", code), listed]).len(), 1, "{code}");
            assert_eq!(messages(unsafe_code, &[("a.rs", code)]).len(), 2, "{code}");
        }
    }

    #[test]
    fn a_package_expects_unsafe_code_once() {
        let file = ("p/src/a/b.rs", "unsafe fn f() {}");
        let lib = ("p/src/lib.rs", "#![expect(unsafe_code, reason = \"C\")]\nunsafe fn g() {}");
        let listed = (UNSAFE_LIST, "p/src/ a C interface");
        assert!(messages(unsafe_code, &[file, lib, listed]).is_empty());
        assert_eq!(messages(unsafe_code, &[file, listed]).len(), 1);
        let silent = ("p/src/lib.rs", "");
        assert_eq!(messages(unsafe_code, &[file, silent, listed]).len(), 1);
        let elsewhere = ("q/src/a.rs", "unsafe fn f() {}");
        assert_eq!(messages(unsafe_code, &[file, lib, elsewhere, listed]).len(), 2);
    }

    #[test]
    fn pointer_types_and_words_are_not_unsafe_code() {
        let good = "type F = unsafe extern \"C\" fn(u8); type G = unsafe fn(); // unsafe { }";
        assert!(messages(unsafe_code, &[("a.rs", good)]).is_empty());
        let stale = messages(unsafe_code, &[("a.rs", good), (UNSAFE_LIST, "a.rs why")]);
        assert_eq!(stale.len(), 1);
    }
}
