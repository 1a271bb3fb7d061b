//! A stand-in for HAMi-core on the virtual GPU, for tests and machines without the real library.
//!
//! The preloaded library interposes `dlsym` and hooks the driver calls that HAMi-core hooks
//! (Project-HAMi/HAMi-core at 8f3a89c). Allocations count against a limit in a file that all
//! processes of a container share; a token bucket of grid blocks delays launches. Calls that
//! HAMi-core does not cover are open here too, unless the machine file patches that bypass
//! (`bypass_patches`).
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]
#![allow(missing_docs, reason = "the hooked entry points are documented by the vendor's headers")]

mod accounting;
mod bypass_patches;
mod clock;
mod contexts;
mod dlsym;
mod hooks;
mod limiter;
mod lookup;
mod management;
mod recording;
mod region;
mod settings;

/// Prints a message, if `LIBCUDA_LOG_LEVEL` allows.
fn log(level: u32, text: &str) {
    use std::io::Write;
    if settings::get().log_level >= level {
        // A closed stderr is ignored.
        let _ = writeln!(std::io::stderr(), "[vgpu stand-in {}] {text}", std::process::id());
    }
}
