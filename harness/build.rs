//! Puts the virtual GPU's shared object where the crate can embed it.
//!
//! The object is a build-dependency, so cargo has built it before this runs, into the `deps` folder
//! three levels above `OUT_DIR`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const NAME: &str = "libgpubench_virtual_gpu_so.so";

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let object = find(&out).ok_or_else(|| {
        io::Error::other(format!(
            "{NAME} was not found in any folder above {}",
            out.display()
        ))
    })?;
    println!("cargo::rerun-if-changed={}", object.display());
    fs::copy(&object, out.join("virtual_gpu.so"))?;
    Ok(())
}

/// With `--target` the build-dependency lies in the host's part of the target folder.
fn find(out: &Path) -> Option<PathBuf> {
    let places = out
        .ancestors()
        .skip(1)
        .flat_map(|folder| [folder.join("deps").join(NAME), folder.join(NAME)]);
    places.into_iter().take(12).find(|path| path.is_file())
}
