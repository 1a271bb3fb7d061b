//! Checks of the toolchain: formatted files and the pinned compiler.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;

use crate::error::CiError;
use crate::tree::{output, tracked};

/// Fails if rustfmt would change a tracked file.
///
/// rustfmt gets every file as an argument, because it does not find files that a macro declares.
pub fn fmt(root: &Path) -> Result<(), CiError> {
    let manifest = read_workspace(root)?;
    let edition = workspace_value(&manifest, "edition")?;
    let files = tracked(root, "*.rs")?;
    let present = files.iter().filter(|path| root.join(path).is_file());
    let mut command = Command::new("rustfmt");
    command.current_dir(root);
    command.args(["--check", "--files-with-diff", "--edition", edition]);
    let done = command.args(present).output();
    let done = done.map_err(|source| CiError::Start { program: "rustfmt".to_owned(), source })?;
    if done.status.success() {
        return Ok(());
    }
    Err(CiError::Found(format!(
        "rustfmt would change, or could not read:{}",
        distinct_lines(root, &[done.stdout, done.stderr])
    )))
}

/// The lines of both streams without duplicates: rustfmt reports a module for each of its parents.
fn distinct_lines(root: &Path, streams: &[Vec<u8>]) -> String {
    let text = streams.iter().map(|bytes| String::from_utf8_lossy(bytes));
    let shorten = |line: &str| line.replace(&format!("{}/", root.display()), "");
    let lines: BTreeSet<String> =
        text.flat_map(|text| text.lines().map(shorten).collect::<Vec<_>>()).collect();
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// How strictly the compiler in use is compared with the pinned one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// It is the pinned version.
    Exact,
    /// It is the pinned version or a newer one.
    AtLeast,
}

/// Compares the compiler in use with the workspace's `rust-version`.
pub fn msrv(root: &Path, pin: Pin) -> Result<String, CiError> {
    let manifest = read_workspace(root)?;
    let pinned = workspace_value(&manifest, "rust-version")?;
    let program = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let printed = output(Command::new(program).arg("--version"))?;
    judge(pinned, &printed, pin)
}

fn judge(pinned: &str, printed: &str, pin: Pin) -> Result<String, CiError> {
    let used = printed.split_whitespace().nth(1).unwrap_or_default();
    let (Some(wanted), Some(found)) = (major_minor(pinned), major_minor(used)) else {
        let message = format!("cannot compare rust-version {pinned:?} with {printed:?}");
        return Err(CiError::Found(message));
    };
    if found == wanted {
        return Ok(format!("rustc {used} is the pinned {pinned}"));
    }
    if found > wanted && pin == Pin::AtLeast {
        return Ok(format!(
            "rustc {used} is newer than the pinned {pinned}: this run does not test {pinned}"
        ));
    }
    Err(CiError::Found(format!(
        "rustc {used} is in use, but Cargo.toml pins {pinned}: use `cargo +{pinned}` or change \
         rust-version"
    )))
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn read_workspace(root: &Path) -> Result<toml::Table, CiError> {
    let path = root.join("Cargo.toml");
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| CiError::Read { path: shown.clone(), source })?;
    text.parse().map_err(|error: toml::de::Error| CiError::Manifest {
        path: shown,
        message: error.message().to_owned(),
    })
}

fn workspace_value<'a>(manifest: &'a toml::Table, key: &str) -> Result<&'a str, CiError> {
    let package = manifest.get("workspace").and_then(|table| table.get("package"));
    let value = package.and_then(|table| table.get(key));
    value.and_then(toml::Value::as_str).ok_or_else(|| CiError::Manifest {
        path: "Cargo.toml".to_owned(),
        message: format!("workspace.package.{key} must be a string"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pin_is_compared_by_major_and_minor() {
        let cases = [
            ("1.95", "rustc 1.95.3 (abc 2026-01-01)", true, true),
            ("1.95.0", "rustc 1.95.1", true, true),
            ("1.95", "rustc 1.100.0-nightly (abc)", false, true),
            ("1.95", "rustc 1.94.0", false, false),
            ("1.95", "rustc", false, false),
        ];
        for (pinned, printed, exact, at_least) in cases {
            assert_eq!(judge(pinned, printed, Pin::Exact).is_ok(), exact, "{printed}");
            assert_eq!(judge(pinned, printed, Pin::AtLeast).is_ok(), at_least, "{printed}");
        }
    }

    #[test]
    fn a_file_is_named_once_and_from_the_root() {
        let streams = [b"/r/b.rs\n/r/a.rs\n/r/b.rs\n".to_vec(), b"odd\n".to_vec()];
        let lines = distinct_lines(Path::new("/r"), &streams);
        assert_eq!(lines, "\n  a.rs\n  b.rs\n  odd");
    }

    #[test]
    fn a_newer_compiler_is_reported_as_no_test_of_the_pin() {
        let output = judge("1.95", "rustc 2.0.0", Pin::AtLeast).unwrap();
        assert!(output.contains("does not test 1.95"), "{output}");
    }

    #[test]
    fn the_manifest_must_have_the_key() {
        let manifest: toml::Table = "[workspace.package]\nedition = 2024".parse().unwrap();
        let error = workspace_value(&manifest, "edition").unwrap_err().to_string();
        assert_eq!(error, "Cargo.toml: workspace.package.edition must be a string");
    }
}
