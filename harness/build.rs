//! Puts the facts of the build where `--version` finds them and the files of the sources where
//! `files` finds them, and has equal functions folded.
#![expect(clippy::disallowed_methods, reason = "asks the compiler for its version and its folder")]

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    fold_equal_functions();
    build_facts();
    carried_files();
}

/// Folders of the sources whose files come with the program, and the endings of these files.
const CARRIED: &[&str] = &[
    "ci/grafana",
    "ci/kubernetes",
    "ci/nightly",
    "ci/slurm",
    "profiles",
    "reports/book/src",
    "reports/schema",
    "workloads/examples",
];
const ENDINGS: &[&str] = &["json", "md", "png", "py", "sbatch", "sh", "svg", "toml", "yaml", "yml"];
/// What pages of the book include or point to.
const CARRIED_FILES: &[&str] = &[
    "ci/hardware/README.md",
    "ci/packages/README.md",
    "harness/GLOSSARY.md",
    "harness/host/src/mechanism/README.md",
    "harness/virtual-gpu/README.md",
    "reports/examples/README.md",
    "reports/examples/h100_580.159.04_matrix/record.json",
];

/// Writes the table of `files`: empty where the package is built without the sources around it.
fn carried_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for folder in CARRIED.iter().map(|folder| root.join(folder)).filter(|path| path.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
        collect(&folder, &mut found);
    }
    for path in CARRIED_FILES.iter().map(|file| root.join(file)).filter(|path| path.is_file()) {
        println!("cargo::rerun-if-changed={}", path.display());
        found.push(path);
    }
    found.sort();
    let mut table = String::from("&[\n");
    for path in &found {
        let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        let _ = writeln!(table, "({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    table += "]";
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(error) = std::fs::write(out.join("files.rs"), table) {
        println!("cargo::error=files.rs: {error}");
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, found);
        } else if ENDINGS.contains(&ending) && !path.ends_with("Cargo.toml") {
            found.push(path);
        }
    }
}

/// Generic code is compiled again for each type, often to the same instructions. LLD keeps one of
/// them, which makes the binary 0.8 MB smaller; other linkers may not know the flag. rustc links
/// with LLD where it brings its own and nobody named another one.
fn fold_equal_functions() {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let Some(rustc) = env::var_os("RUSTC") else {
        return;
    };
    let is_named = env::var_os("RUSTC_LINKER").is_some()
        || env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    if is_named || env::var("TARGET").is_ok_and(|target| target != TARGET) {
        return;
    }
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output();
    let Ok(Ok(sysroot)) = sysroot.map(|output| String::from_utf8(output.stdout)) else {
        return;
    };
    let own = format!("lib/rustlib/{TARGET}/bin/gcc-ld/ld.lld");
    if Path::new(sysroot.trim()).join(own).is_file() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Who packages gpubench names the commit: a build that looked for it would be stale after each
/// commit, or would compile again.
fn build_facts() {
    const COMMIT: &str = "GPUBENCH_COMMIT";
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let commit = variable(COMMIT).unwrap_or_else(|| format!("unknown ({COMMIT} was not set)"));
    let rustc = variable("RUSTC").and_then(|rustc| {
        let output = Command::new(rustc).arg("--version").output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    let rustc = rustc.unwrap_or_else(|| "an unknown compiler".to_owned());
    let or_unknown = |name| variable(name).unwrap_or_else(|| "unknown".to_owned());
    let (target, profile) = (or_unknown("TARGET"), or_unknown("PROFILE"));
    for (name, value) in [
        ("FROM", commit),
        ("BY", rustc.trim().to_owned()),
        ("FOR", format!("{target}, profile {profile}")),
    ] {
        println!("cargo::rustc-env=GPUBENCH_BUILT_{name}={value}");
    }
}
