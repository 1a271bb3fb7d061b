//! The clock finds the time interface of a libcuda that keeps virtual time, wherever the loader
//! finds that library, and uses the wall clock where the interface is absent, off or broken.
//!
//! The test compiles the libraries with the C compiler that Rust links with. It runs itself again
//! in a process for each, with the library's folder on LD_LIBRARY_PATH.
#![allow(clippy::disallowed_methods, reason = "tests start processes and read the clock")]

use std::path::Path;
use std::process::Command;

use gpubench_workloads::clock::{Clock, ClockError, Time};

type Checked = Result<(), Box<dyn std::error::Error>>;

/// The case that a child process tests; unset in the parent.
const CASE: &str = "GPUBENCH_TEST_SEAM";

/// A time interface in which every call advances the time by its own amount.
const SEAM: &str = r"
#include <stdint.h>
static uint64_t now = 1000;
int gpubench_vt_version(void) { return VERSION; }
int gpubench_vt_join(uint32_t id) { now += id; return id == 99 ? -1 : 0; }
int gpubench_vt_leave(void) { now += 7; return 0; }
uint64_t gpubench_vt_now(void) { return now; }
int gpubench_vt_sleep_until(uint64_t t_ns) { if (t_ns > now) now = t_ns; return 0; }
int gpubench_vt_unpark(uint32_t id) { now += 1000 * (uint64_t)id; return 0; }
#ifndef NO_PARK
int gpubench_vt_park(void) { now += 50; return 0; }
#endif
";

fn library(folder: &Path, name: &str, defines: &[&str]) -> Checked {
    let source = folder.join("seam.c");
    std::fs::write(&source, SEAM)?;
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join(name))
        .args(defines)
        .arg(&source)
        .status()?;
    assert!(made.success(), "the C compiler failed");
    Ok(())
}

/// Runs this test again as `case`, with the folder first in the loader's search path.
fn try_case(case: &str, folder: &Path) -> Checked {
    let child = Command::new(std::env::current_exe()?)
        .args(["--exact", "virtual_time_is_found_wherever_the_loader_finds_it"])
        .env(CASE, case)
        .env("LD_LIBRARY_PATH", folder)
        .output()?;
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{case}: {output}");
    Ok(())
}

#[test]
fn virtual_time_is_found_wherever_the_loader_finds_it() -> Checked {
    match std::env::var(CASE).as_deref() {
        Ok("virtual") => virtual_case(),
        Ok("wall") => {
            assert_eq!(Clock::find()?.name(), "wall");
            Ok(())
        }
        Ok("broken") => {
            let refused = Clock::find().map(|clock| clock.name());
            let symbol = "gpubench_vt_park";
            assert_eq!(refused, Err(ClockError::MissingSymbol { version: 3, symbol }));
            Ok(())
        }
        _ => {
            for (case, name, defines) in [
                ("virtual", "libcuda.so", &["-DVERSION=1"][..]),
                ("virtual", "libcuda.so.1", &["-DVERSION=2"]),
                ("wall", "libcuda.so", &["-DVERSION=0"]),
                ("broken", "libcuda.so.1", &["-DVERSION=3", "-DNO_PARK"]),
            ] {
                let folder = tempfile::tempdir()?;
                library(folder.path(), name, defines)?;
                try_case(case, folder.path())?;
            }
            Ok(())
        }
    }
}

/// Every call reaches the library with its argument, and an error keeps its number.
fn virtual_case() -> Checked {
    let clock = Clock::find()?;
    assert!(clock.is_virtual() && clock.as_wall().is_none());
    assert_eq!(clock.now_ns(), 1_000);
    clock.join(5)?;
    assert_eq!(clock.now_ns(), 1_005);
    clock.sleep_until(2_000)?;
    assert_eq!(clock.now_ns(), 2_000);
    clock.sleep_until(10)?;
    clock.park(5)?;
    assert_eq!(clock.now_ns(), 2_050);
    clock.unpark(6)?;
    assert_eq!(clock.now_ns(), 8_050);
    clock.leave(5)?;
    assert_eq!(clock.now_ns(), 8_057);
    assert!(!clock.begin_schedule(10.0), "virtual time has no real-time class");
    let call = "gpubench_vt_join";
    assert_eq!(clock.join(99), Err(ClockError::Refused { call, code: -1 }));
    Ok(())
}
