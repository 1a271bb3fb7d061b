//! The gpubench command: tenant, guard and stand-in entries first, then parse, run, print, exit.

use std::ffi::OsString;

use gpubench::cli::{self, guard_entry, panic_report, stand_in, tenant_entry};

fn main() -> std::process::ExitCode {
    panic_report::install();
    let argv: Vec<OsString> = std::env::args_os().collect();
    let run = || {
        tenant_entry::run(&argv)
            .or_else(|| guard_entry::run(&argv))
            .or_else(|| stand_in::run(&argv))
            .unwrap_or_else(|| cli::run(&argv))
    };
    panic_report::guard(run).into()
}
