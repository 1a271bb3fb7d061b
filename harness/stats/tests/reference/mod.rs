//! The reference programs of `ci/` in Python, for the tests of this package and of `predict`.
#![allow(clippy::disallowed_methods, reason = "starts the reference program")]

use std::error::Error;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The interpreter that `ci/install-oracles.sh` installs, which CI requires
/// (`GPUBENCH_REQUIRE_ORACLES` is 1). Without it the test prints what it does instead.
#[expect(clippy::print_stderr, reason = "a test says what it compares with")]
pub fn interpreter(instead: &str) -> Option<PathBuf> {
    let python = root().join("target/oracles/bin/python");
    if python.exists() {
        return Some(python);
    }
    let is_required = std::env::var("GPUBENCH_REQUIRE_ORACLES").is_ok_and(|value| value == "1");
    assert!(!is_required, "target/oracles is missing: run ci/install-oracles.sh");
    eprintln!("{instead}: target/oracles is missing; run ci/install-oracles.sh");
    None
}

/// What a program of `ci/` prints for this input.
pub fn run(
    python: &Path,
    program: &str,
    args: &[&OsStr],
    input: String,
) -> Result<String, Box<dyn Error>> {
    let mut child = Command::new(python)
        .arg(root().join("ci").join(program))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("stdin was piped")?;
    // Beside the reader, because the program may print before it has read everything.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let done = child.wait_with_output()?;
    assert!(done.status.success(), "{program} failed: {}", done.status);
    writer.join().map_err(|_| "the writer panicked")??;
    Ok(String::from_utf8(done.stdout)?)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
