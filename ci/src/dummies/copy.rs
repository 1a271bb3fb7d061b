//! The copy of the tree that holds the dummies.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Changed;
use crate::error::CiError;
use crate::tree::tracked;

/// The build-dependencies on the embedded objects, in the harness's manifest.
const OBJECTS: &str =
    "gpubench-virtual-gpu-hami-so.workspace = true\ngpubench-virtual-gpu-so.workspace = true\n";

/// A build script that embeds empty files in their place, and knows no facts of the build.
const NO_OBJECTS: &str = r#"//! Embeds empty files.

fn main() -> std::io::Result<()> {
    for fact in ["FROM", "BY", "FOR"] {
        println!("cargo::rustc-env=GPUBENCH_BUILT_{fact}=unknown");
    }
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(out.join("virtual_gpu.so.zlib"), "")?;
    std::fs::write(out.join("hami.so.zlib"), "")
}
"#;

/// Makes `copy` hold the tracked files with `changed` over them; equal files keep their times.
pub fn write(root: &Path, copy: &Path, changed: &Changed) -> Result<(), CiError> {
    let mut wanted: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for path in tracked(root, "*")? {
        if let Ok(bytes) = fs::read(root.join(&path)) {
            wanted.insert(copy.join(path), bytes);
        }
    }
    // Another version makes other packages: what is compiled here never passes for the real ones.
    let version = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "\"");
    let dummies = "\nversion = \"0.0.0-dummies\"";
    replace(&mut wanted, copy.join("Cargo.toml"), version, dummies)?;
    // The embedded objects have one file name in every version: the copy does without them, else
    // the product would be compiled again after this check.
    replace(&mut wanted, copy.join("harness/Cargo.toml"), OBJECTS, "")?;
    wanted.insert(copy.join("harness/build.rs"), NO_OBJECTS.into());
    let changed = changed.iter().map(|(path, text)| (copy.join(path), text.clone().into_bytes()));
    wanted.extend(changed);
    remove_others(copy, &wanted).map_err(|source| write_error(copy, source))?;
    for (path, bytes) in &wanted {
        if fs::read(path).is_ok_and(|found| found == *bytes) {
            continue;
        }
        let folder = path.parent().unwrap_or(copy);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
        written.map_err(|source| write_error(path, source))?;
    }
    Ok(())
}

fn replace(
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
    path: PathBuf,
    from: &str,
    to: &str,
) -> Result<(), CiError> {
    let text = files.get(&path).map(|bytes| String::from_utf8_lossy(bytes));
    let Some(text) = text.filter(|text| text.contains(from)) else {
        return Err(CiError::Manifest {
            path: path.display().to_string(),
            message: format!("no {from:?}, which the copy replaces"),
        });
    };
    let replaced = text.replacen(from, to, 1).into_bytes();
    files.insert(path, replaced);
    Ok(())
}

fn remove_others(folder: &Path, wanted: &BTreeMap<PathBuf, Vec<u8>>) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains_key(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn write_error(path: &Path, source: std::io::Error) -> CiError {
    CiError::Write { path: path.display().to_string(), source }
}
