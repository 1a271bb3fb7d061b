//! The gpubench command: stand-in and tenant entries first, then parse, run, print, exit.

use std::ffi::OsString;
use std::panic::catch_unwind;

use gpubench::cli::{self, panic_report, stand_in};
use gpubench_record::ExitCode;

fn main() -> std::process::ExitCode {
    panic_report::install();
    let argv: Vec<OsString> = std::env::args_os().collect();
    // A panic was told by the hook; what is left to do is the documented status instead of 101.
    let status = catch_unwind(|| stand_in::run(&argv).unwrap_or_else(|| cli::run(&argv).code()));
    status.unwrap_or(ExitCode::Internal.code()).into()
}
