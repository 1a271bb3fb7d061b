//! The graph of packages: allowed dependencies, libraries with a single user, and the lints that
//! every package has.

use toml::{Table, Value};

use crate::package::{manifest, package_name};
use crate::tidy::Finding;
use crate::tree::Tree;

/// Packages of the workspace that each package may use. An unlisted package is a finding.
const ALLOWED: &[(&str, &[&str])] = &[
    ("gpubench-record", &[]),
    ("gpubench-stats", &[]),
    ("gpubench-kernels", &[]),
    ("gpubench-virtual-gpu-ptx", &[]),
    ("gpubench-profiles", &[]),
    ("gpubench-virtual-gpu-model", &["gpubench-profiles"]),
    ("gpubench-virtual-gpu-driver", &["gpubench-virtual-gpu-model", "gpubench-virtual-gpu-ptx"]),
    (
        "gpubench-virtual-gpu-vendor-tools",
        &["gpubench-virtual-gpu-driver", "gpubench-virtual-gpu-model"],
    ),
    ("gpubench-virtual-gpu-abi", &["gpubench-virtual-gpu-driver", "gpubench-virtual-gpu-ptx"]),
    ("gpubench-virtual-gpu-so", &["gpubench-virtual-gpu-abi"]),
    (
        "gpubench-virtual-gpu",
        &[
            "gpubench-virtual-gpu-driver",
            "gpubench-virtual-gpu-model",
            "gpubench-virtual-gpu-vendor-tools",
        ],
    ),
    // Exports the same symbols as the virtual GPU, so it must not link it.
    ("gpubench-virtual-gpu-hami", &[]),
    ("gpubench-virtual-gpu-hami-so", &["gpubench-virtual-gpu-hami"]),
    ("gpubench-show", &["gpubench-record"]),
    ("gpubench-compare", &["gpubench-record", "gpubench-show", "gpubench-stats"]),
    (
        "gpubench-predict",
        &["gpubench-profiles", "gpubench-record", "gpubench-show", "gpubench-stats"],
    ),
    ("gpubench-store", &["gpubench-record", "gpubench-stats"]),
    ("gpubench-sample-records", &["gpubench-record"]),
    ("gpubench-reports", &["gpubench-judge", "gpubench-record", "gpubench-show", "gpubench-store"]),
    (
        "gpubench-workloads",
        &["gpubench-catalogue", "gpubench-kernels", "gpubench-record", "gpubench-stats"],
    ),
    ("gpubench-catalogue", &["gpubench-record"]),
    (
        "gpubench-plan",
        &["gpubench-catalogue", "gpubench-profiles", "gpubench-record", "gpubench-stats"],
    ),
    (
        "gpubench-judge",
        &["gpubench-plan", "gpubench-record", "gpubench-show", "gpubench-stats", "gpubench-store"],
    ),
    (
        "gpubench-host",
        &[
            "gpubench-catalogue",
            "gpubench-plan",
            "gpubench-predict",
            "gpubench-record",
            "gpubench-virtual-gpu",
            "gpubench-virtual-gpu-hami-so",
            "gpubench-virtual-gpu-so",
            "gpubench-workloads",
        ],
    ),
    (
        "gpubench-run",
        &[
            "gpubench-catalogue",
            "gpubench-host",
            "gpubench-kernels",
            "gpubench-plan",
            "gpubench-record",
            "gpubench-stats",
            "gpubench-store",
            "gpubench-virtual-gpu",
            "gpubench-workloads",
        ],
    ),
    (
        "gpubench",
        &[
            "gpubench-catalogue",
            "gpubench-compare",
            "gpubench-host",
            "gpubench-judge",
            "gpubench-kernels",
            "gpubench-plan",
            "gpubench-predict",
            "gpubench-profiles",
            "gpubench-record",
            "gpubench-reports",
            "gpubench-run",
            "gpubench-show",
            "gpubench-stats",
            "gpubench-store",
            "gpubench-virtual-gpu",
            "gpubench-workloads",
        ],
    ),
    ("gpubench-ci", &[]),
];

/// Libraries that only one package uses.
const WRAPPED: &[(&str, &[&str])] = &[
    ("cudarc", &["gpubench-kernels"]),
    ("nvml-wrapper", &["gpubench-host", "gpubench-run"]),
    ("nvml-wrapper-sys", &["gpubench-host"]),
    ("polars", &["gpubench-store"]),
    ("polars-core", &["gpubench-store"]),
    ("polars-io", &["gpubench-store"]),
    ("polars-parquet-format", &["gpubench-store"]),
];

/// Dependencies outside the allowed ones; tests may use more.
pub fn dependencies(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files() {
        let Some((_, manifest)) = manifest(file) else { continue };
        let name = package_name(&manifest);
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        if lints.and_then(Value::as_bool) != Some(true) {
            let message = "the package needs `[lints] workspace = true`";
            found.push(Finding::new(&file.path, 1, message));
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            let message = format!("package {name:?} is not in the graph of packages");
            found.push(Finding::new(&file.path, 1, message));
            continue;
        };
        for used in used_packages(&manifest) {
            let line = line_of(&file.text, &used);
            let is_member = ALLOWED.iter().any(|(known, _)| *known == used);
            if is_member && !allowed.contains(&used.as_str()) {
                let message = format!("{name} may not use {used} (may use: {})", names(allowed));
                found.push(Finding::new(&file.path, line, message));
            }
            let wrapped = WRAPPED.iter().find(|(library, _)| *library == used);
            if let Some((library, users)) = wrapped.filter(|(_, users)| !users.contains(&name)) {
                let message = format!("{library} is used through {}", names(users));
                found.push(Finding::new(&file.path, line, message));
            }
        }
    }
    found
}

pub fn target_paths(manifest: &Table) -> Vec<String> {
    let build = manifest.get("package").and_then(|package| package.get("build"));
    let library = manifest.get("lib").and_then(|lib| lib.get("path"));
    let kinds = ["bin", "test", "bench", "example"];
    let lists = kinds.iter().filter_map(|kind| manifest.get(*kind)?.as_array());
    let listed = lists.flatten().filter_map(|target| target.get("path"));
    let paths = build.into_iter().chain(library).chain(listed);
    paths.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Names of the dependencies and build dependencies, on all platforms.
fn used_packages(manifest: &Table) -> Vec<String> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let platform_tables = platforms.into_iter().flat_map(|all| all.values());
    let tables = platform_tables.filter_map(Value::as_table);
    let mut used = Vec::new();
    for table in std::iter::once(manifest).chain(tables) {
        for kind in ["dependencies", "build-dependencies"] {
            let listed = table.get(kind).and_then(Value::as_table);
            for (key, value) in listed.into_iter().flatten() {
                let renamed = value.get("package").and_then(Value::as_str);
                used.push(renamed.unwrap_or(key).to_owned());
            }
        }
    }
    used
}

fn line_of(text: &str, needle: &str) -> usize {
    let mut lines = text.lines();
    lines.position(|line| line.contains(needle)).map_or(1, |at| at + 1)
}

fn names(names: &[&str]) -> String {
    if names.is_empty() {
        return "none of the workspace".to_owned();
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn findings(manifest: &str) -> Vec<String> {
        let found = dependencies(&Tree::of(&[("p/Cargo.toml", manifest)]));
        found.iter().map(ToString::to_string).collect()
    }

    fn package(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}\n[lints]\nworkspace = true\n")
    }

    #[test]
    fn a_package_has_the_lints_of_the_workspace() {
        let found = findings("[package]\nname = \"gpubench-record\"\n");
        assert_eq!(found, ["p/Cargo.toml:1: the package needs `[lints] workspace = true`"]);
    }

    #[test]
    fn only_allowed_dependencies_pass() {
        let good = [
            ("gpubench-reports", "[dependencies]\ngpubench-record.workspace = true"),
            ("gpubench-record", "[dependencies]\nserde = \"1\""),
            ("gpubench-stats", "[dev-dependencies]\ngpubench-record.workspace = true"),
            (
                "gpubench-virtual-gpu-so",
                "[dependencies]\ngpubench-virtual-gpu-abi.workspace = true",
            ),
            ("gpubench-store", "[dependencies]\npolars.workspace = true"),
        ];
        for (name, rest) in good {
            assert!(findings(&package(name, rest)).is_empty(), "{name}: {rest}");
        }
        let bad = [
            ("gpubench-record", "[dependencies]\ngpubench-stats.workspace = true"),
            ("gpubench-stats", "[build-dependencies]\ngpubench-record.workspace = true"),
            ("gpubench-predict", "[dependencies]\ngpubench.workspace = true"),
            ("gpubench-reports", "[target.'cfg(unix)'.dependencies]\ngpubench-kernels = {}"),
            ("gpubench-workloads", "[dependencies]\ngpubench-reports.workspace = true"),
            ("gpubench-virtual-gpu", "[dependencies]\nr = { package = \"gpubench-record\" }"),
            ("gpubench", "[dependencies]\npolars = \"1\""),
            ("gpubench-workloads", "[dependencies]\ncudarc = \"1\""),
            ("gpubench-new", ""),
        ];
        for (name, rest) in bad {
            assert_eq!(findings(&package(name, rest)).len(), 1, "{name}: {rest}");
        }
    }

    #[test]
    fn a_finding_names_the_allowed_packages() {
        let manifest =
            package("gpubench-reports", "[dependencies]\ngpubench-kernels.workspace = true");
        let expected = "p/Cargo.toml:4: gpubench-reports may not use gpubench-kernels (may use: \
                        gpubench-judge, gpubench-record, gpubench-show, gpubench-store)";
        assert_eq!(findings(&manifest), [expected]);
    }

    /// A record is read on laptops, without a driver.
    #[test]
    fn reading_a_record_links_no_loader_of_cuda_and_no_nvml() {
        let linked = |package: &str| {
            let tree = ["tree", "--offline", "--locked", "--edges", "normal,build"];
            let mut command = Command::new(env!("CARGO"));
            command.args(tree).args(["--prefix", "none", "--format", "{p}", "--package", package]);
            let output = command.current_dir("..").output().expect("cargo tree");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let has = |tree: &str, name: &str| {
            tree.lines().any(|line| line.split(' ').next().is_some_and(|found| found == name))
        };
        let device = ["cudarc", "nvml-wrapper", "nvml-wrapper-sys", "libloading"];
        for package in ["gpubench-plan", "gpubench-judge", "gpubench-store", "gpubench-reports"] {
            let tree = linked(package);
            assert!(has(&tree, package) && has(&tree, "gpubench-record"), "{tree}");
            for library in device {
                assert!(!has(&tree, library), "{package} links {library}");
            }
        }
        let tenant = linked("gpubench-workloads");
        assert!(has(&tenant, "cudarc"), "{tenant}");
    }
}
