//! Puts the virtual GPU's shared objects, compressed, where the crate can embed them, and the facts
//! of the build where `--version` finds them.
//!
//! They are build-dependencies, so cargo has built them before this runs, into the `deps` folder
//! three levels above `OUT_DIR`.
#![expect(clippy::disallowed_methods, reason = "asks the compiler for its version and its folder")]

use std::path::{Path, PathBuf};
use std::process::Command;
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
            io::Error::other(format!("{built} was not found in any folder above {}", out.display()))
        })?;
        println!("cargo::rerun-if-changed={}", object.display());
        let mut packed =
            ZlibEncoder::new(fs::File::create(out.join(embedded))?, Compression::best());
        io::copy(&mut fs::File::open(&object)?, &mut packed)?;
        packed.finish()?;
    }
    fold_equal_functions();
    build_facts();
    Ok(())
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

/// With `--target` the build-dependency lies in the host's part of the target folder, in `deps` of
/// the profile.
fn find(out: &Path, name: &str) -> Option<PathBuf> {
    let host = Path::new(&env::var_os("PROFILE")?).join("deps");
    let folders = out.ancestors().skip(1).take(6);
    let mut places = folders.flat_map(|folder| {
        [Path::new("deps"), Path::new(""), &host].map(|part| folder.join(part).join(name))
    });
    places.find(|path| path.is_file())
}
