//! The stand-ins as one small program: a link with the name of a vendor command starts it.
#![expect(unsafe_code, reason = "raising a signal has no safe form in std")]
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
    let planted = name.and_then(planted::answer);
    if let Some((planted, code)) = planted.and_then(|one| Some((one, one.code?))) {
        // A closed standard output still leaves the exit status.
        let _ = writeln!(std::io::stdout(), "{}", planted.output.as_deref().unwrap_or_default());
        if code < 0 {
            // SAFETY: the signal ends this process, which has one thread.
            unsafe { libc::raise(-code) };
        }
        return ExitCode::from(code as u8);
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
