//! Exported descriptors of device memory keep it allocated: after the exporter frees it, after the
//! exporter dies, until the last descriptor is closed or its process ends.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::ptr::null_mut;

use crate::nvml_support::{Error, Tenant, context, eventually, observed, ok, ready, wait_for_go};
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::cuda::layout::{AccessDescriptor, AllocationProperties, Location};
use gpubench_virtual_gpu_driver::process::device;
use gpubench_virtual_gpu_driver::session::{ENV, TimeMode};

const BYTES: usize = 2 << 20;
const WORD: u32 = 0xC0FF_EE00;

fn physical() -> Result<u64, Error> {
    let properties = AllocationProperties {
        kind: 1,
        handle_types: 1,
        location: Location::DEVICE,
        win32_metadata: null_mut(),
        flags: [0; 8],
    };
    let mut made = 0;
    // SAFETY: valid pointers.
    ok(unsafe { cuMemCreate(&raw mut made, BYTES, &raw const properties, 0) })?;
    Ok(made)
}

/// Maps physical memory, runs `body` at its address, and unmaps it.
fn mapped(physical: u64, body: impl FnOnce(u64) -> Result<(), Error>) -> Result<(), Error> {
    let mut at = 0;
    let access = AccessDescriptor {
        location: Location::DEVICE,
        flags: 3,
    };
    // SAFETY: valid pointers.
    unsafe {
        ok(cuMemAddressReserve(&raw mut at, BYTES, 0, 0, 0))?;
        ok(cuMemMap(at, BYTES, 0, physical, 0))?;
        ok(cuMemSetAccess(at, BYTES, &raw const access, 1))?;
    }
    body(at)?;
    // SAFETY: mapped above.
    unsafe {
        ok(cuMemUnmap(at, BYTES))?;
        ok(cuMemAddressFree(at, BYTES))
    }
}

fn export(physical: u64) -> Result<OwnedFd, Error> {
    let mut descriptor = -1;
    // SAFETY: a valid pointer; the descriptor is ours from then on.
    unsafe {
        let place = (&raw mut descriptor).cast();
        ok(cuMemExportToShareableHandle(place, physical, 1, 0))?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

fn import(descriptor: &impl AsRawFd) -> Result<u64, i32> {
    let (mut made, number) = (0, descriptor.as_raw_fd());
    let shareable = number as usize as *mut c_void;
    // SAFETY: a valid pointer; the descriptor is passed as a pointer (cuda.h).
    match unsafe { cuMemImportFromShareableHandle(&raw mut made, shareable, 1) } {
        0 => Ok(made),
        code => Err(code),
    }
}

fn taken(before: usize) -> Result<usize, Error> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: valid pointers.
    ok(unsafe { cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
    Ok(before - free)
}

fn free() -> Result<usize, Error> {
    Ok(usize::MAX - taken(usize::MAX)?)
}

fn folder() -> Result<PathBuf, Error> {
    Ok(PathBuf::from(std::env::var_os(ENV).ok_or("no device")?))
}

/// Exports memory, frees everything but the descriptor, and passes that to a process without a
/// device.
fn run_exporter() -> Result<(), Error> {
    context()?;
    let made = physical()?;
    mapped(made, |at| {
        // SAFETY: memory that is mapped there.
        ok(unsafe { cuMemsetD32_v2(at, WORD, BYTES / 4) })
    })?;
    let descriptor = export(made)?;
    // SAFETY: plain call on an open descriptor: children keep it.
    let kept = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) };
    assert_eq!(kept, 0);
    let mut keeper = Command::new("sleep");
    let (no_output, no_errors) = (Stdio::null(), Stdio::null());
    let keeper = keeper.arg("60").stdin(Stdio::null());
    let keeper = keeper.stdout(no_output).stderr(no_errors).spawn()?;
    // SAFETY: a valid handle.
    ok(unsafe { cuMemRelease(made) })?;
    let output = format!("{} {}", keeper.id(), descriptor.as_raw_fd());
    std::fs::write(folder()?.join("keeper"), output)?;
    ready()?;
    wait_for_go()
}

/// The keeper's process and its descriptor, reopened through /proc: it shows the content, and only
/// the keeper's open file holds the memory.
fn keeper() -> Result<(i32, File), Error> {
    let output = std::fs::read_to_string(folder()?.join("keeper"))?;
    let (pid, descriptor) = output.split_once(' ').ok_or("two numbers")?;
    let file = File::open(format!("/proc/{pid}/fd/{descriptor}"))?;
    Ok((pid.parse()?, file))
}

#[test]
fn a_descriptor_keeps_memory_until_it_is_closed() -> Result<(), Error> {
    const TEST: &str = test_name!("a_descriptor_keeps_memory_until_it_is_closed");
    observed(TEST, TimeMode::Wall, run_exporter, || {
        context()?;
        let before = free()?;
        let maker = Tenant::start(TEST)?;
        let (pid, ticket) = keeper()?;
        maker.kill()?;
        // Memory of dead processes is freed when a process reaps them.
        let device = device().map_err(|code| format!("{code:?}"))?;
        eventually("the exporter's own memory is free", || {
            device.reap_dead_processes()?;
            Ok(taken(before)? == BYTES)
        })?;
        for _ in 0..2 {
            let found = import(&ticket).map_err(|code| format!("code {code}"))?;
            mapped(found, |at| {
                let mut back = [0_u32; 64];
                // SAFETY: a buffer of that size.
                ok(unsafe { cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), at, 256) })?;
                assert_eq!(back, [WORD; 64]);
                Ok(())
            })?;
            assert_eq!(taken(before)?, BYTES, "held twice, counted once");
            // SAFETY: a valid handle.
            ok(unsafe { cuMemRelease(found) })?;
            assert_eq!(taken(before)?, BYTES, "the descriptor still holds it");
        }
        // SAFETY: plain call; the process was started for this.
        let killed = unsafe { libc::kill(pid, libc::SIGKILL) };
        assert_eq!(killed, 0);
        eventually("no process holds it", || Ok(taken(before)? == 0))?;
        assert_eq!(import(&ticket), Err(1), "the memory is gone");
        assert_eq!(std::fs::read_dir(folder()?.join("exports"))?.count(), 0);
        Ok(())
    })
}

#[test]
fn every_own_descriptor_keeps_memory() -> Result<(), Error> {
    const TEST: &str = test_name!("every_own_descriptor_keeps_memory");
    observed(
        TEST,
        TimeMode::Wall,
        || Ok(()),
        || {
            context()?;
            let before = free()?;
            let made = physical()?;
            let (first, second) = (export(made)?, export(made)?);
            let copy = first.try_clone()?;
            // SAFETY: a valid handle.
            ok(unsafe { cuMemRelease(made) })?;
            drop(first);
            assert_eq!(taken(before)?, BYTES, "the duplicate and the second export");
            let back = import(&second).map_err(|code| format!("code {code}"))?;
            drop(second);
            drop(copy);
            assert_eq!(taken(before)?, BYTES, "the imported handle");
            // SAFETY: a valid handle.
            ok(unsafe { cuMemRelease(back) })?;
            assert_eq!(taken(before)?, 0);
            // An allocation that fails checks for closed descriptors by itself.
            let made = physical()?;
            let last = export(made)?;
            // SAFETY: valid handles and pointers.
            unsafe {
                ok(cuMemRelease(made))?;
                let mut at = 0;
                assert_eq!(
                    cuMemAlloc_v2(&raw mut at, before),
                    2,
                    "the descriptor holds some memory"
                );
                drop(last);
                ok(cuMemAlloc_v2(&raw mut at, before))?;
                ok(cuMemFree_v2(at))
            }
        },
    )
}
