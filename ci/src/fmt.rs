//! Whether every file is formatted.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::tree::CiError;
use crate::tree::tracked;

/// Fails if rustfmt would change a tracked file.
///
/// rustfmt gets every file as an argument, because it does not find files that a macro declares.
pub fn fmt(root: &Path) -> Result<(), CiError> {
    let files = tracked(root, "*.rs")?;
    let present = files.iter().filter(|path| root.join(path).is_file());
    let mut command = Command::new("rustfmt");
    command.current_dir(root).args(["--check", "--files-with-diff"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_once_and_from_the_root() {
        let streams = [b"/r/b.rs\n/r/a.rs\n/r/b.rs\n".to_vec(), b"odd\n".to_vec()];
        let lines = distinct_lines(Path::new("/r"), &streams);
        assert_eq!(lines, "\n  a.rs\n  b.rs\n  odd");
    }
}
