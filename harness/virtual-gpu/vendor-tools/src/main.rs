//! The stand-ins as one small program: a link with the name of a vendor command starts it.
#![expect(
    clippy::disallowed_methods,
    reason = "a real daemon hands its environment to its servers"
)]

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use gpubench_virtual_gpu_driver::planted;
use gpubench_virtual_gpu_vendor_tools::nvidia_cuda_mps::{self, CONTROL, Programs, SERVER};
use gpubench_virtual_gpu_vendor_tools::{NAMES, nvidia_smi};

/// How the MPS commands start each other.
const PROGRAMS: Programs =
    Programs { control: || this_program(CONTROL), server: || this_program(SERVER) };

/// This program under another name. /proc/self/exe stays valid if its file is replaced.
fn this_program(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name);
    command
}

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    let name = argv.first().and_then(|path| Path::new(path).file_name()?.to_str());
    if let Some(planted) = name.and_then(planted::answer) {
        // A closed standard output still leaves the exit status.
        let _ = writeln!(std::io::stdout(), "{}", planted.output.as_deref().unwrap_or_default());
        return ExitCode::from(planted.code.unwrap_or(1) as u8);
    }
    let status = match name {
        Some(CONTROL) => nvidia_cuda_mps::control(&argv, &PROGRAMS),
        Some(SERVER) => nvidia_cuda_mps::server(),
        Some(nvidia_smi::NAME) => nvidia_smi::run(&argv),
        _ => {
            // If standard error is closed, the exit status remains.
            let _ = writeln!(std::io::stderr(), "start it by a link of a name of {NAMES:?}");
            2
        }
    };
    ExitCode::from(status)
}
