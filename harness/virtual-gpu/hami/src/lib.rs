//! A stand-in for HAMi-core on the virtual GPU, for tests and machines without the real library.
//!
//! It is preloaded, takes over `dlsym`, and answers for the driver calls that HAMi-core answers for
//! (Project-HAMi/HAMi-core at 8f3a89c): allocations are counted against a limit in a file that
//! all processes of a container share, and launches are held back by a bucket of grid blocks. What
//! HAMi-core does not count or hold back is let through here too, unless the machine file patches
//! that bypass: `bypass_patches` lists them.
//!
//! `dlsym` is what programs call, `hooks` what they get instead of the driver's functions,
//! `accounting` what a call is charged, `region` the accounts that processes share, `contexts` the
//! part of them that is contexts, `limiter` the bucket, `settings` the environment, `lookup` the
//! real libraries, `clock` the time.
#![allow(
    missing_docs,
    reason = "the hooked entry points are documented by the vendor's headers"
)]

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

/// Says something to whoever runs the program, as far as `LIBCUDA_LOG_LEVEL` allows.
fn say(level: u32, text: &str) {
    use std::io::Write;
    if settings::get().log_level >= level {
        // A closed stderr cannot be told about anyway.
        let _ = writeln!(
            std::io::stderr(),
            "[vgpu stand-in {}] {text}",
            std::process::id()
        );
    }
}
