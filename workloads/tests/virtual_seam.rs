//! The clock finds the seam of a libcuda that keeps virtual time, wherever the loader finds that
//! library, and does without where it is absent, switched off or broken.
//!
//! The libraries are made here by the C compiler that Rust itself links with. Each is tried in a
//! process of its own, this test program again, with the library's folder on LD_LIBRARY_PATH.

use std::path::Path;
use std::process::Command;

use gpubench_workloads::clock::{Clock, ClockError, Time};

type Checked = Result<(), Box<dyn std::error::Error>>;

/// Which part the program plays: absent in the parent.
const PART: &str = "GPUBENCH_TEST_SEAM";

/// A seam that remembers: every call moves the time by an amount of its own.
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
    assert!(made.success(), "the C compiler failed on the seam");
    Ok(())
}

/// Runs this test again as `part`, with the folder where the loader looks first.
fn try_part(part: &str, folder: &Path) -> Checked {
    let tried = Command::new(std::env::current_exe()?)
        .args(["--exact", "the_seam_is_found_wherever_the_loader_finds_it"])
        .env(PART, part)
        .env("LD_LIBRARY_PATH", folder)
        .output()?;
    let said = String::from_utf8_lossy(&tried.stdout);
    assert!(
        tried.status.success() && said.contains("1 passed"),
        "{part}: {said}"
    );
    Ok(())
}

#[test]
fn the_seam_is_found_wherever_the_loader_finds_it() -> Checked {
    match std::env::var(PART).as_deref() {
        Ok("virtual") => virtual_part(),
        Ok("wall") => {
            assert_eq!(Clock::find()?.name(), "wall");
            Ok(())
        }
        Ok("broken") => {
            let refused = Clock::find().map(|clock| clock.name());
            let symbol = "gpubench_vt_park";
            assert_eq!(
                refused,
                Err(ClockError::MissingSymbol { version: 3, symbol })
            );
            Ok(())
        }
        _ => {
            for (part, name, defines) in [
                ("virtual", "libcuda.so", &["-DVERSION=1"][..]),
                ("virtual", "libcuda.so.1", &["-DVERSION=2"]),
                ("wall", "libcuda.so", &["-DVERSION=0"]),
                ("broken", "libcuda.so.1", &["-DVERSION=3", "-DNO_PARK"]),
            ] {
                let folder = tempfile::tempdir()?;
                library(folder.path(), name, defines)?;
                try_part(part, folder.path())?;
            }
            Ok(())
        }
    }
}

/// Every function is the library's, with its argument, and a refusal keeps its number.
fn virtual_part() -> Checked {
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
    assert!(
        !clock.begin_schedule(10.0),
        "no real-time class in virtual time"
    );
    let call = "gpubench_vt_join";
    assert_eq!(clock.join(99), Err(ClockError::Refused { call, code: -1 }));
    Ok(())
}
