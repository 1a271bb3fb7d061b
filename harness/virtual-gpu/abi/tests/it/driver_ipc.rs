//! IPC memory and events: opened, used, and invalid once their owner is gone.
//!
//! The other process is this program with a role in its environment. Both run in wall time on one
//! device.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::ptr::null_mut;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::cuda::layout::IpcHandle;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::kernel_log;
use gpubench_virtual_gpu_driver::process::device;
use gpubench_virtual_gpu_driver::session::TimeMode;

use crate::driver_support::{Error, call, context, function, launch, ok};
use crate::nvml_support::{observed, process_in_role};

const COPY: &str = Kernel::StreamCopy.info().ptx;

const TEST: &str = concat!(module_path!(), "::memory_of_another_process");
/// The owner's fill value.
const WORD: u32 = 0xC0FF_EE00;

fn hex(handle: &IpcHandle) -> String {
    handle.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<IpcHandle, Error> {
    let mut out = IpcHandle([0; 64]);
    for (index, byte) in out.0.iter_mut().enumerate() {
        let digits = text.get(2 * index..2 * index + 2).ok_or("too short")?;
        *byte = u8::from_str_radix(digits, 16)?;
    }
    Ok(out)
}

/// The owner: creates memory and an event, prints their handles, and runs until its input ends.
fn be_owner() -> Result<(), Error> {
    context()?;
    let (mut at, mut memory) = (0, IpcHandle([0; 64]));
    let (mut event, mut shared): (Handle, _) = (null_mut(), IpcHandle([0; 64]));
    ok!(cuMemAlloc_v2(&raw mut at, 4096))?;
    ok!(cuMemsetD32_v2(at, WORD, 1024))?;
    ok!(cuIpcGetMemHandle(&raw mut memory, at))?;
    // IPC without timing; with timing it is refused.
    assert_eq!(call!(cuEventCreate(&raw mut event, 4)), 1);
    ok!(cuEventCreate(&raw mut event, 4 | 2))?;
    ok!(cuIpcGetEventHandle(&raw mut shared, event))?;
    ok!(cuEventRecord(event, null_mut()))?;
    writeln!(std::io::stdout(), "handles {} {}", hex(&memory), hex(&shared))?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let mut back = [0_u32; 2];
    ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), at, 8))?;
    writeln!(std::io::stdout(), "sees {:x} {:x}", back[0], back[1])?;
    std::io::stdin().read_line(&mut line)?;
    Ok(())
}

fn line_with(lines: &mut impl BufRead, wanted: &str) -> Result<Vec<String>, Error> {
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(format!("the owner ended without a line with {wanted}").into());
        }
        if let Some((_, rest)) = line.split_once(wanted) {
            return Ok(rest.split_whitespace().map(str::to_owned).collect());
        }
    }
}

fn start_owner() -> Result<Child, Error> {
    Ok(process_in_role(TEST, "tenant")?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
}

#[test]
fn memory_of_another_process() -> Result<(), Error> {
    observed(TEST, TimeMode::Wall, be_owner, be_user)
}

/// The other process, which starts the owner and opens what it exports.
fn be_user() -> Result<(), Error> {
    let mut owner = start_owner()?;
    let mut output = BufReader::new(owner.stdout.take().ok_or("an output")?);
    let mut input = owner.stdin.take().ok_or("an input")?;
    let handles = line_with(&mut output, "handles ")?;
    let (memory, shared) = (unhex(&handles[0])?, unhex(&handles[1])?);

    context()?;
    let device = device().map_err(|code| format!("{code:?}"))?;
    let copy = function(COPY, "stream_copy")?;
    let mut event: Handle = null_mut();
    let (mut at, mut again, mut own) = (0, 0, 0);
    let mut back = [0_u32; 1024];
    ok!(cuMemAlloc_v2(&raw mut own, 4096))?;
    assert_eq!(call!(cuIpcOpenMemHandle_v2(&raw mut at, memory, 0)), 1, "the flag is required");
    ok!(cuIpcOpenMemHandle_v2(&raw mut at, memory, 1))?;
    ok!(cuIpcOpenMemHandle_v2(&raw mut again, memory, 1))?;
    assert_eq!(at, again, "the same address in one context");
    ok!(cuIpcCloseMemHandle(again))?;
    ok!(cuIpcOpenEventHandle(&raw mut event, shared))?;
    ok!(cuEventSynchronize(event))?;
    ok!(cuStreamWaitEvent(null_mut(), event, 0))?;
    // A kernel reads the owner's data, and the owner reads data written here.
    let mut args = [own, at, 256_u64];
    ok(launch(copy, 2, 128, &mut args))?;
    ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), own, 4096))?;
    assert_eq!(back, [WORD; 1024]);
    ok!(cuMemsetD32_v2(at + 4, 0xBEEF, 1))?;
    assert_eq!(call!(cuMemFree_v2(at)), 1, "only the owner can free it");
    input.write_all(b"look\n")?;
    assert_eq!(line_with(&mut output, "sees ")?, ["c0ffee00", "beef"]);
    // After the owner has ended, copies are refused and a kernel faults.
    drop(input);
    assert!(owner.wait()?.success());
    assert_eq!(call!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), at, 4096)), 1);
    assert_eq!(call!(cuMemsetD8_v2(at, 0, 16)), 1);
    assert_eq!(call!(cuIpcOpenMemHandle_v2(&raw mut again, memory, 1)), 1, "gone");
    assert_eq!(launch(copy, 2, 128, &mut args), 0, "the launch itself succeeds");
    assert_eq!(call!(cuCtxSynchronize()), 700);
    let log = std::fs::read_to_string(kernel_log::path(device.dir()))?;
    let of_ours = format!("): 31, pid={}, ", std::process::id());
    assert!(log.lines().count() == 1 && log.contains(&of_ours), "{log}");
    ok!(cuIpcCloseMemHandle(at))?;
    Ok(())
}
