//! Vendor commands that gpubench stands in for when a link with their name starts it.
//!
//! The virtual GPU puts such links first on PATH, so that its programs find the vendor commands.
//! To add one, add its line to [`STAND_INS`].

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gpubench_virtual_gpu::nvidia_cuda_mps::{self, Programs};
use gpubench_virtual_gpu::nvidia_smi;

/// A command to stand in for: its file name, and what to run with its whole argument vector.
pub type StandIn = (&'static str, fn(&[OsString]) -> u8);

/// Every command that can be stood in for.
pub const STAND_INS: &[StandIn] = &[
    (nvidia_cuda_mps::CONTROL, |argv| {
        nvidia_cuda_mps::control(argv, &PROGRAMS)
    }),
    (nvidia_cuda_mps::SERVER, |_| nvidia_cuda_mps::server()),
    (nvidia_smi::NAME, nvidia_smi::run),
];

/// How the commands of MPS start each other.
const PROGRAMS: Programs = Programs {
    control: || this_program(nvidia_cuda_mps::CONTROL),
    server: || this_program(nvidia_cuda_mps::SERVER),
};

/// This program under another name. /proc/self/exe stays valid when its file is replaced.
fn this_program(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name);
    command
}

/// Runs the stand-in with the file name of `argv[0]`; `None` if there is none.
#[must_use]
pub fn run(argv: &[OsString]) -> Option<u8> {
    find(STAND_INS, argv).map(|command| command(argv))
}

fn find(table: &[StandIn], argv: &[OsString]) -> Option<fn(&[OsString]) -> u8> {
    let name = Path::new(argv.first()?).file_name()?;
    table
        .iter()
        .find(|(known, _)| name == *known)
        .map(|&(_, command)| command)
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
            assert_eq!(
                find(TABLE, &argv).map(|run| run(&argv)),
                found.then_some(7),
                "{argv0}"
            );
        }
        assert!(find(TABLE, &[]).is_none());
    }

    #[test]
    fn the_virtual_gpu_links_every_stand_in_and_nothing_else() {
        let played: Vec<&str> = STAND_INS.iter().map(|(name, _)| *name).collect();
        assert_eq!(played, crate::device::virtual_gpu::COMMANDS);
    }
}
