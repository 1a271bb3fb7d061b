//! Starts every process of the product, with an environment that it builds from a list.
//!
//! A variable of the user's shell can change a measurement: `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`
//! limits each client of MPS, `LD_PRELOAD` puts a library into each tenant. Processes therefore
//! inherit the variables of the list alone; a mechanism and the run add theirs.

use std::ffi::{OsStr, OsString};
use std::process::Command;

/// Which variables of this process a new process inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherits {
    Listed,
    /// All: for a program of the user, which may need its own variables, and for a process of the
    /// same program as this one, which has a built environment already.
    All,
}

/// Names the run that started a process, so that the processes of a dead run are found and ended.
pub const RUN: &str = "GPUBENCH_RUN";

/// Names to a run the process that measures several devices, which started it, and the devices that
/// are measured beside it. Only that process sets it.
pub const PART_OF: &str = "GPUBENCH_PART_OF";
/// Has the password of the key that signs records. No process inherits it.
pub const SIGN_PASSWORD: &str = "GPUBENCH_SIGN_PASSWORD";

/// The list. The last but one names the virtual GPU of this environment to its libraries and
/// commands.
const LISTED: [&str; 7] =
    ["PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "GPUBENCH_VIRTUAL_GPU", RUN];
/// A folder without a daemon of MPS: a process without this variable becomes the client of a
/// daemon in the default folder. A folder that does not exist means no MPS.
pub const NO_MPS: &str = "/nonexistent/no-mps";

/// Beginnings of further listed names.
const LISTED_PREFIXES: [&[u8]; 2] = [b"LC_", b"XDG_"];

/// Beginnings of the names of variables that can change a measurement.
const NOTABLE_PREFIXES: [&[u8]; 3] = [b"CUDA_", b"NVIDIA_", b"LD_"];
/// Variables of HAMi without such a beginning (Project-HAMi/HAMi-core at 8f3a89c).
const NOTABLE: [&str; 3] =
    ["GPU_CORE_UTILIZATION_POLICY", "LIBCUDA_LOG_LEVEL", "ACTIVE_OOM_KILLER"];

#[expect(clippy::disallowed_methods, reason = "the one place that makes commands")]
pub fn command(program: impl AsRef<OsStr>, inherits: Inherits) -> Command {
    let mut command = Command::new(program);
    if inherits == Inherits::Listed {
        let listed = std::env::vars_os().filter(|(name, _)| is_listed(name));
        command.env_clear().envs(listed);
    }
    command.env_remove(PART_OF);
    command.env_remove(SIGN_PASSWORD);
    command
}

/// Names of the variables of this process that no process inherits and that can change a
/// measurement, in order.
pub fn dropped() -> Vec<String> {
    notable(std::env::vars_os().map(|(name, _)| name))
}

fn notable(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let dropped = names.filter(|name| is_notable(name) && !is_listed(name));
    let mut names: Vec<String> = dropped.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn is_listed(name: &OsStr) -> bool {
    LISTED.iter().any(|listed| name == *listed) || begins(name, &LISTED_PREFIXES)
}

/// Whether a variable can change a measurement: those of CUDA, NVIDIA, the dynamic linker and HAMi.
pub fn is_notable(name: &OsStr) -> bool {
    NOTABLE.iter().any(|notable| name == *notable) || begins(name, &NOTABLE_PREFIXES)
}

fn begins(name: &OsStr, prefixes: &[&[u8]]) -> bool {
    let name = name.as_encoded_bytes();
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{Inherits, command, is_listed, notable};

    #[test]
    fn only_listed_variables_are_inherited() {
        for name in ["PATH", "LC_ALL", "XDG_STATE_HOME", "LD_LIBRARY_PATH"] {
            assert!(is_listed(name.as_ref()), "{name}");
        }
        for name in [
            "CUDA_VISIBLE_DEVICES",
            "NVIDIA_TF32_OVERRIDE",
            "LD_PRELOAD",
            "LIBCUDA_LOG_LEVEL",
            "GPUBENCH_VIRTUAL_GPU_SAMPLE",
            "PATHS",
            "XDG",
        ] {
            assert!(!is_listed(name.as_ref()), "{name}");
        }
    }

    #[test]
    fn a_process_has_listed_variables_and_no_others() {
        // Cargo sets variables for tests that are not listed.
        let names = |inherits| {
            let output = command("env", inherits).env("OWN", "1").output();
            let text = String::from_utf8(output.expect("env runs").stdout).expect("text");
            let names: Vec<String> =
                text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect();
            names
        };
        let is_cargos = |name: &String| name.starts_with("CARGO_");
        assert!(names(Inherits::All).iter().any(is_cargos));
        let listed = names(Inherits::Listed);
        assert!(!listed.iter().any(is_cargos), "{listed:?}");
        assert!(listed.iter().any(|name| name == "PATH"));
        assert!(listed.iter().any(|name| name == "OWN"));
    }

    #[test]
    fn names_the_dropped_variables_that_can_change_a_measurement() {
        let names = [
            "PATH",
            "LD_LIBRARY_PATH",
            "TERM",
            "NVIDIA_VISIBLE_DEVICES",
            "LD_PRELOAD",
            "CUDA_CACHE_PATH",
            "GPU_CORE_UTILIZATION_POLICY",
        ];
        assert_eq!(
            notable(names.map(Into::into).into_iter()),
            [
                "CUDA_CACHE_PATH",
                "GPU_CORE_UTILIZATION_POLICY",
                "LD_PRELOAD",
                "NVIDIA_VISIBLE_DEVICES"
            ]
        );
    }
}
