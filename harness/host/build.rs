//! With the feature `virtual-gpu`: builds the shared objects and the vendor tools of the virtual
//! GPU in their own workspace, and puts them, compressed, where the crate can embed them.

#[cfg(not(feature = "virtual-gpu"))]
fn main() {}

#[cfg(feature = "virtual-gpu")]
fn main() -> std::io::Result<()> {
    objects::embed()
}

#[cfg(feature = "virtual-gpu")]
#[expect(clippy::disallowed_methods, reason = "runs cargo in the other workspace")]
mod objects {
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::{env, fs, io};

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    const WORKSPACE: &str = "../virtual-gpu";

    /// The package of each object, its target, and the name under which it is embedded.
    const OBJECTS: [(&str, &str, &str); 3] = [
        ("gpubench-virtual-gpu-so", "gpubench_virtual_gpu_so", "virtual_gpu.so.zlib"),
        ("gpubench-virtual-gpu-hami-so", "gpubench_virtual_gpu_hami_so", "hami.so.zlib"),
        ("gpubench-virtual-gpu-vendor-tools", "vendor-tools", "vendor_tools.zlib"),
    ];

    pub fn embed() -> io::Result<()> {
        let workspace = folder("CARGO_MANIFEST_DIR").join(WORKSPACE);
        for part in ["Cargo.toml", "Cargo.lock", "abi", "driver", "hami", "hami-so", "model"] {
            println!("cargo::rerun-if-changed={}", workspace.join(part).display());
        }
        for part in ["ptx", "so", "vendor-tools", "../../profiles/machines"] {
            println!("cargo::rerun-if-changed={}", workspace.join(part).display());
        }
        let printed = built(&workspace)?;
        for (package, target, embedded) in OBJECTS {
            let object = object_of(&printed, target)
                .ok_or_else(|| io::Error::other(format!("cargo names no {target} of {package}")))?;
            let file = fs::File::create(folder("OUT_DIR").join(embedded))?;
            let mut packed = ZlibEncoder::new(file, Compression::best());
            io::copy(&mut fs::File::open(object)?, &mut packed)?;
            packed.finish()?;
        }
        Ok(())
    }

    fn folder(variable: &str) -> PathBuf {
        PathBuf::from(env::var_os(variable).unwrap_or_default())
    }

    /// Builds the objects, always optimized; returns the messages of cargo. The workspace has a
    /// target folder of its own, because this one is locked by the build that runs this.
    fn built(workspace: &Path) -> io::Result<String> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(workspace).args(["build", "--release", "--locked"]);
        cargo.args(["--message-format", "json-render-diagnostics", "--target-dir", "target"]);
        for (package, ..) in OBJECTS {
            cargo.args(["--package", package]);
        }
        let is_cross = env::var_os("TARGET") != env::var_os("HOST");
        if let Some(target) = env::var_os("TARGET").filter(|_| is_cross) {
            cargo.arg("--target").arg(target);
        }
        // Clippy runs in place of the compiler; what it leaves is no object.
        cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CLIPPY_ARGS");
        let output = cargo.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            let what = format!("the virtual GPU in {} does not build", workspace.display());
            return Err(io::Error::other(what));
        }
        String::from_utf8(output.stdout).map_err(io::Error::other)
    }

    /// The shared object or the program among the files that cargo made of a target.
    fn object_of(printed: &str, target: &str) -> Option<PathBuf> {
        let messages =
            printed.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut made = messages.filter(|message| message["target"]["name"] == target);
        made.find_map(|message| {
            let files = message["filenames"].as_array()?.iter().filter_map(|file| file.as_str());
            let is_object = |file: &PathBuf| file.extension().is_none_or(|end| end == "so");
            files.map(PathBuf::from).find(is_object)
        })
    }
}
