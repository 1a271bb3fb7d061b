//! Puts the virtual GPU's shared objects, compressed, where the crate can embed them.
//!
//! They are build-dependencies, so cargo has built them before this runs, into the `deps` folder
//! three levels above `OUT_DIR`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// What cargo calls each object, and the name under which it is embedded.
const OBJECTS: [(&str, &str); 2] = [
    ("libgpubench_virtual_gpu_so.so", "virtual_gpu.so.zlib"),
    ("libgpubench_virtual_gpu_hami_so.so", "hami.so.zlib"),
];

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for (built, embedded) in OBJECTS {
        let object = find(&out, built).ok_or_else(|| {
            io::Error::other(format!(
                "{built} was not found in any folder above {}",
                out.display()
            ))
        })?;
        println!("cargo::rerun-if-changed={}", object.display());
        let mut packed =
            ZlibEncoder::new(fs::File::create(out.join(embedded))?, Compression::best());
        io::copy(&mut fs::File::open(&object)?, &mut packed)?;
        packed.finish()?;
    }
    Ok(())
}

/// With `--target` the build-dependency lies in the host's part of the target folder.
fn find(out: &Path, name: &str) -> Option<PathBuf> {
    let places = out
        .ancestors()
        .skip(1)
        .flat_map(|folder| [folder.join("deps").join(name), folder.join(name)]);
    places.into_iter().take(12).find(|path| path.is_file())
}
