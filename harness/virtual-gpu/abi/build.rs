//! Lists the names of the vendor's interface that `src` does not define, for `stubs.rs`.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    // Tests look entry points up by name in the program that they are.
    println!("cargo::rustc-link-arg-tests=-rdynamic");
    let mut defined = BTreeSet::new();
    collect(Path::new("src"), &mut defined)?;
    let mut text = String::new();
    for (file, answer) in [("cuda", "absent_from_cuda"), ("nvml", "absent_from_nvml")] {
        let names = fs::read_to_string(format!("src/stubs/{file}.txt"))?;
        text.push_str(&format!("stubs! {{ {answer};\n"));
        for name in names.lines().map(str::trim) {
            if !name.is_empty() && !name.starts_with('#') && !defined.contains(name) {
                text.push_str(&format!("    {name}\n"));
            }
        }
        text.push_str("}\n");
    }
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("stubs.rs"), text)
}

/// Gathers every name after `fn` in the sources of a folder: entry points are among them.
fn collect(dir: &Path, defined: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, defined)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            for after in text.split("fn ").skip(1) {
                // One row of `entries!` can name several functions.
                let names = after.split('(').next().unwrap_or_default();
                defined.extend(names.split(',').map(|name| name.trim().to_owned()));
            }
        }
    }
    Ok(())
}
