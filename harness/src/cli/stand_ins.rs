//! Stand-ins for vendor commands: a link with the name of the command starts gpubench.
//!
//! The virtual GPU puts these links first on PATH. To add a command, add its line to [`STAND_INS`].

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gpubench_virtual_gpu::nvidia_cuda_mps::Programs;
use gpubench_virtual_gpu::{nvidia_cuda_mps, nvidia_smi};
use gpubench_workloads::command::{Inherits, command as process};

/// A stand-in: file name of the command, and the function that gets its argument vector.
pub type StandIn = (&'static str, fn(&[OsString]) -> u8);

/// Every stand-in.
pub const STAND_INS: &[StandIn] = &[
    (nvidia_cuda_mps::CONTROL, |argv| nvidia_cuda_mps::control(argv, &PROGRAMS)),
    (nvidia_cuda_mps::SERVER, |_| nvidia_cuda_mps::server()),
    (nvidia_smi::NAME, nvidia_smi::run),
];

/// How the MPS commands start each other.
const PROGRAMS: Programs = Programs {
    control: || this_program(nvidia_cuda_mps::CONTROL),
    server: || this_program(nvidia_cuda_mps::SERVER),
};

/// This program under another name. /proc/self/exe stays valid if its file is replaced.
fn this_program(name: &str) -> Command {
    // A real daemon hands its whole environment to its servers.
    let mut command = process("/proc/self/exe", Inherits::All);
    command.arg0(name);
    command
}

/// Runs the stand-in with the file name of `argv[0]`; `None` if the name is not one of them.
#[must_use]
pub fn run(argv: &[OsString]) -> Option<u8> {
    find(STAND_INS, argv).map(|command| command(argv))
}

fn find(table: &[StandIn], argv: &[OsString]) -> Option<fn(&[OsString]) -> u8> {
    let name = Path::new(argv.first()?).file_name()?;
    table.iter().find(|(known, _)| name == *known).map(|&(_, command)| command)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{STAND_INS, StandIn, find};

    const TABLE: &[StandIn] = &[("vendor-control", |_| 7)];

    #[test]
    fn the_file_name_of_the_link_decides() {
        for (argv0, found) in [
            ("vendor-control", true),
            ("/tmp/private/vendor-control", true),
            ("/usr/bin/gpubench", false),
            ("vendor-control-2", false),
            ("", false),
        ] {
            let argv = [OsString::from(argv0), OsString::from("-d")];
            assert_eq!(find(TABLE, &argv).map(|run| run(&argv)), found.then_some(7), "{argv0}");
        }
        assert!(find(TABLE, &[]).is_none());
    }

    #[test]
    fn the_virtual_gpu_links_exactly_the_stand_ins() {
        let names: Vec<&str> = STAND_INS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, gpubench_host::device::virtual_gpu::COMMANDS);
    }
}
