//! The table of contracts: whatever the harness uses of drivers, vendor commands and the system has
//! a row that says what is promised, and what is believed beyond it.
//!
//! The uses are found in the product code, none is listed here.

use std::collections::BTreeMap;

use crate::package::product_tokens;
use crate::scan::{Kind, Token, reads};
use crate::tidy::Finding;
use crate::tree::{SourceFile, Tree};

const TABLE: &str = "harness/virtual-gpu/CONTRACTS.md";
/// Cells of a row: the use, what documentation promises, where, what is believed beyond it, what
/// other versions do, and the test that holds it.
const CELLS: usize = 6;
/// What a device or a library of NVML is called where its methods are called.
const RECEIVERS: &[&str] = &["device", "whole", "library", "lib"];
/// Methods of results and of our own types on such names.
const OWN: &[&str] = &[
    "ok",
    "ok_or",
    "ok_or_else",
    "as_ref",
    "as_deref",
    "map",
    "map_err",
    "and_then",
    "handle",
    "library",
    "lib",
];

/// Uses without a row, rows without a use, and rows that say too little.
pub fn rows(tree: &Tree) -> Vec<Finding> {
    let Some(table) = tree.get(TABLE) else { return Vec::new() };
    let mut used: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for file in tree.rust().filter(|file| is_product(&file.path)) {
        for (name, line) in uses(file) {
            used.entry(name).or_insert_with(|| (file.path.clone(), line));
        }
    }
    let mut found = Vec::new();
    for (number, line) in table.text.lines().enumerate() {
        let Some(row) = line.strip_prefix("| `") else { continue };
        let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").map(str::trim).collect();
        let name = cells[0].trim_end_matches('`');
        let mut report = |message: String| found.push(Finding::new(TABLE, number + 1, message));
        if used.remove(name).is_none() {
            report(format!("{name} is not used, or has two rows: delete the row"));
        }
        if cells.len() != CELLS || cells.iter().any(|cell| cell.is_empty()) {
            report(format!("{name}: {} cells, {CELLS} are needed (- for none)", cells.len()));
        } else if !holds(tree, cells[CELLS - 1].trim_matches('`')) {
            report(format!("{name}: no test {}", cells[CELLS - 1]));
        }
    }
    found.extend(used.into_iter().map(|(name, (path, line))| {
        Finding::new(&path, line, format!("{name} has no row in {TABLE}: what is promised of it?"))
    }));
    found
}

/// Whether `path::function` is a function of that file.
fn holds(tree: &Tree, test: &str) -> bool {
    let Some((path, function)) = test.split_once("::") else { return false };
    let file = tree.get(&format!("harness/{path}")).or_else(|| tree.get(path));
    file.is_some_and(|file| file.text.contains(&format!("fn {function}(")))
}

/// Product code of the packages that meet a driver or the host.
fn is_product(path: &str) -> bool {
    let rooms = ["kernels/src/", "workloads/src/", "harness/host/src/", "harness/run/src/"];
    let of_tests = path.contains("/tests/") || path.ends_with("tests.rs");
    !of_tests
        && (rooms.iter().any(|room| path.starts_with(room)) || path.starts_with("harness/src/"))
}

fn uses(file: &SourceFile) -> Vec<(String, usize)> {
    let scanned = product_tokens(&file.text);
    let of_nvml = scanned.iter().any(|token| token.text == "nvml_wrapper");
    let of_log = file.path.ends_with("kernel_log.rs");
    let mut found = Vec::new();
    for (at, token) in scanned.iter().enumerate() {
        let name = match token.kind {
            Kind::Literal => literal(token.text, of_log),
            Kind::Word if of_nvml && is_nvml(token.text) => Some(token.text.to_owned()),
            Kind::Word if of_nvml && is_method(&scanned, at) => Some(token.text.to_owned()),
            Kind::Word if ["run_v3", "send_line"].contains(&token.text) => command(&scanned, at),
            _ => None,
        };
        found.extend(name.map(|name| (name, token.line)));
    }
    found
}

/// A symbol of libcuda, a vendor's program or subcommand, a file of the system, a mark of a log.
fn literal(text: &str, of_log: bool) -> Option<String> {
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    let is_symbol = text.len() > 4
        && text.starts_with("cu")
        && text.as_bytes()[2].is_ascii_uppercase()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_program = text.starts_with("nvidia-") && !text.contains([' ', '/', '{']);
    let is_subcommand = ["compute-policy", "memory-limits"].contains(&text);
    let folders = ["/proc/", "/sys/", "/dev/", "/run/", "/var/", "/etc/"];
    let is_file = folders.iter().any(|folder| text.starts_with(folder)) && !text.contains(' ');
    let marks = ["NVRM", "PCI:", "GPU-", "pid=", "name="];
    let is_mark = of_log && marks.iter().any(|mark| text.contains(mark));
    // Results have their names in cuda.h and are no uses.
    let is_result = text.starts_with("CUDA_ERROR_") || text == "CUDA_SUCCESS";
    let is_variable = text.starts_with("CUDA_") && !text.contains(['=', ' ']) && !is_result;
    let any = is_symbol || is_program || is_subcommand || is_file || is_mark || is_variable;
    any.then(|| placeholders(text))
}

/// The text with each `{...}` as `*`.
fn placeholders(text: &str) -> String {
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push('*');
        out.push_str(part.split_once('}').map_or("", |(_, rest)| rest));
    }
    out
}

/// A function of NVML by its C name.
fn is_nvml(word: &str) -> bool {
    let rest = word.strip_prefix("nvml").unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_uppercase()) && !word.ends_with("_t")
}

/// Whether the word is a method of a device or of the library.
fn is_method(scanned: &[Token<'_>], at: usize) -> bool {
    if OWN.contains(&scanned[at].text) || !reads(scanned, at + 1, "(") {
        return false;
    }
    // Back over `?`, `()` and `.ok()` to what the method is called on.
    let mut at = at;
    while at > 1 && scanned[at - 1].text == "." {
        at -= 2;
        while at > 0 && scanned[at].text == "?" {
            at -= 1;
        }
        if at > 1 && scanned[at].text == ")" && scanned[at - 1].text == "(" {
            at -= 2;
        }
        if RECEIVERS.contains(&scanned[at].text) {
            return true;
        }
        if scanned[at].text != "ok" {
            return false;
        }
    }
    false
}

/// The fixed words of a command of an MPS daemon.
fn command(scanned: &[Token<'_>], at: usize) -> Option<String> {
    let call = scanned[at + 1..].iter().take_while(|token| token.text != ")" && token.text != ";");
    let call: Vec<&Token<'_>> = call.filter(|token| token.kind == Kind::Literal).collect();
    let words = call.iter().map(|token| token.text.trim_matches('"'));
    let words: Vec<&str> = words.flat_map(|text| text.split(' ')).collect();
    let fixed = words.iter().take_while(|word| !word.contains(['{', '-'])).copied();
    let fixed = fixed.collect::<Vec<_>>().join(" ");
    (!fixed.is_empty()).then(|| format!("mps: {fixed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: &str = r#"
use nvml_wrapper::Device;
fn f() {
    table("cuInit");
    device.max_clock_info(x)?;
    nvml.device()?.memory_info();
    self.device().ok()?.power_usage();
    nvml.library().lib().nvmlGpuInstanceDestroy(handle);
    device.map_err(x);
    let _: nvmlDevice_t;
    run_v3(daemon, &["client", "list", "--all"]);
    send_line(daemon, &format!("get_client_list {server}"));
    read("/proc/{pid}/stat");
}
"#;

    #[test]
    fn uses_are_found_in_code_and_need_a_row() {
        let head = "| use | a | b | c | d | e |\n|---|\n";
        let row = |name: &str| format!("| `{name}` | x | y | - | - | run/src/t.rs::works |\n");
        let names = [
            "/proc/*/stat",
            "cuInit",
            "max_clock_info",
            "memory_info",
            "mps: client list",
            "mps: get_client_list",
            "nvmlGpuInstanceDestroy",
            "power_usage",
        ];
        let found = |table: &str| -> Vec<String> {
            let tree = Tree::of(&[
                (TABLE, table),
                ("harness/host/src/a.rs", CALLS),
                ("harness/run/src/t.rs", "fn works() {}"),
                ("harness/virtual-gpu/driver/src/b.rs", "f(\"cuOther\");"),
            ]);
            rows(&tree).into_iter().map(|finding| finding.message).collect()
        };
        let whole: String = names.iter().map(|name| row(name)).collect();
        assert_eq!(found(&(head.to_owned() + &whole)), [""; 0]);
        for name in names {
            let without = whole.replace(&row(name), "");
            let messages = found(&without);
            assert_eq!(messages.len(), 1, "{name}: {messages:?}");
            assert!(messages[0].starts_with(&format!("{name} has no row")), "{messages:?}");
        }
        for bad in ["| `cuInit` | x | y | - | - | run/src/t.rs::fails |\n", &row("cuGone")] {
            assert_eq!(found(&(whole.clone() + bad)).len(), 2 - usize::from(bad.contains("Gone")));
        }
    }
}
