//! The gpubench command: tenant and guard entries first, then parse, run, print, exit.

use std::ffi::OsString;

use gpubench::cli;
use gpubench::cli::{entry, signals};
use gpubench_host::device::limits;
use gpubench_record::ExitCode;

/// What Linux gives the main thread by default.
const STACK: usize = 8 << 20;

fn main() -> std::process::ExitCode {
    if let Err(error) = limits::of_process() {
        return signals::limited(&error).into();
    }
    let argv: Vec<OsString> = std::env::args_os().collect();
    // The main thread has the stack that the shell allows, which may be 512 KiB.
    let thread = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK);
    let run = move || {
        signals::install(entry::panic_status(&argv));
        signals::guard(|| {
            entry::run_tenant(&argv)
                .or_else(|| entry::run_guard(&argv))
                .unwrap_or_else(|| cli::run(&argv))
        })
    };
    match thread.spawn(run).map(std::thread::JoinHandle::join) {
        Ok(Ok(status)) => status.into(),
        Ok(Err(_)) => ExitCode::Internal.code().into(),
        Err(_) => signals::no_thread().into(),
    }
}
