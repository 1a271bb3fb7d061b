//! The gpubench command: tenant and guard entries first, then parse, run, print, exit.

use std::ffi::OsString;

use gpubench::cli;
use gpubench::cli::{entry, signals};

fn main() -> std::process::ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    signals::install(entry::panic_status(&argv));
    let run = || {
        entry::run_tenant(&argv)
            .or_else(|| entry::run_guard(&argv))
            .unwrap_or_else(|| cli::run(&argv))
    };
    signals::guard(run).into()
}
