//! Every fault kernel on the virtual driver: the code of the next synchronisation, whether it is
//! sticky, and the Xid in the event and in the kernel log. The pairs are those of the vendor's
//! documents (cuda.h, XID catalogue). Unarmed, they have no effect. Tests share a device.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

mod driver_support;

use std::ptr::null_mut;
use std::sync::Mutex;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::PciInfo;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::kernel_log;
use gpubench_virtual_gpu_driver::process::device;
use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
use gpubench_virtual_gpu_model::machine::{Machine, Noise};

use driver_support::{Error, OneDevice, call, function, launch_on, ok};

/// Launches of more threads than this end in a planted illegal instruction.
const ILLEGAL_THREADS: u32 = 1 << 20;
/// In the first page, outside every allocation.
const UNMAPPED: u64 = 16;

static DEVICE: OneDevice = Mutex::new(None);

/// A `hopper` without noise and with a planted illegal instruction, in virtual time.
fn planted_hopper() -> (Session, Machine) {
    let mut machine = Machine::load("hopper").expect("built in");
    machine.noise = Noise::default();
    machine.defects.illegal_instruction_threads = ILLEGAL_THREADS;
    (Session::new(TimeMode::Virtual, 1), machine)
}

fn kernel_log(device: &Device) -> Result<Vec<String>, Error> {
    let text = std::fs::read_to_string(kernel_log::path(device.dir()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The bus address of the device, without its function, as in the kernel log.
fn bus_address() -> Result<String, Error> {
    // SAFETY: a structure of plain numbers, for which all zero bits are valid.
    let mut info: PciInfo = unsafe { std::mem::zeroed() };
    let mut handle = null_mut();
    ok!(nvmlInit_v2())?;
    ok!(nvmlDeviceGetHandleByIndex_v2(0, &raw mut handle))?;
    ok!(nvmlDeviceGetPciInfo_v3(handle, (&raw mut info).cast()))?;
    let (domain, bus, device) = (info.domain, info.bus, info.device);
    Ok(format!("{domain:04x}:{bus:02x}:{device:02x}"))
}

fn expected_line(xid: u32) -> Result<String, Error> {
    let (address, pid) = (bus_address()?, std::process::id());
    let name = std::fs::read_to_string("/proc/self/comm")?;
    let name = name.trim();
    Ok(format!("NVRM: Xid (PCI:{address}): {xid}, pid={pid}, name={name}, "))
}

/// Joins the clock, opens a context, runs the body; returns the Xids raised meanwhile. Each of them
/// must have left one line in the kernel log, and no other line may exist.
fn with_context(body: impl FnOnce() -> Result<(), Error>) -> Result<Vec<u32>, Error> {
    let _lock = driver_support::lock(&DEVICE, planted_hopper);
    let device = device().map_err(|code| format!("{code:?}"))?;
    let raised = || device.transact(|state, _| state.xids_raised as usize);
    device.expect(0)?;
    device.join(0)?;
    let (before, logged) = (raised()?, kernel_log(&device)?.len());
    let mut context: Handle = null_mut();
    ok!(cuInit(0))?;
    ok!(cuCtxCreate_v2(&raw mut context, 0, 0))?;
    let done = body();
    call!(cuCtxDestroy_v2(context));
    let count = raised()? - before;
    let xids: Vec<u32> = device.transact(|state, _| {
        let rows = state.xids.live();
        let last = rows.iter().skip(before).take(count);
        last.map(|xid| xid.number).collect()
    })?;
    let lines = kernel_log(&device)?.split_off(logged);
    device.leave()?;
    done?;
    assert_eq!(lines.len(), xids.len(), "{lines:?}");
    for (line, xid) in lines.iter().zip(&xids) {
        let expected = expected_line(*xid)?;
        let (stamp, rest) = line.split_once("] ").ok_or("a stamp")?;
        assert!(rest.starts_with(&expected), "{line:?}: {expected:?}");
        stamp.trim_start_matches(['[', ' ']).parse::<f64>()?;
    }
    Ok(xids)
}

const fn fault(kernel: Kernel) -> (&'static str, &'static str) {
    (kernel.info().name, kernel.info().ptx)
}

fn words(count: usize) -> Result<u64, Error> {
    let mut pointer = 0;
    ok!(cuMemAlloc_v2(&raw mut pointer, 4 * count))?;
    ok!(cuMemsetD32_v2(pointer, 0, count))?;
    Ok(pointer)
}

const ONE: (u32, u32, u32) = (1, 1, 0);

/// A fault kernel with arguments that arm it and arguments that do not; an argument `OUT` is
/// replaced by a valid buffer.
struct Row {
    kernel: (&'static str, &'static str),
    shape: (u32, u32, u32),
    armed: &'static [u64],
    unarmed: &'static [u64],
    code: i32,
    xids: &'static [u32],
}

const OUT: u64 = u64::MAX;

const fn row(
    kernel: Kernel,
    shape: (u32, u32, u32),
    [armed, unarmed]: [&'static [u64]; 2],
    code: i32,
    xids: &'static [u32],
) -> Row {
    Row { kernel: fault(kernel), shape, armed, unarmed, code, xids }
}

const TABLE: &[Row] = &[
    row(Kernel::FaultIllegalStore, ONE, [&[UNMAPPED, 1], &[OUT, 1]], 700, &[31]),
    row(Kernel::FaultMisaligned, ONE, [&[OUT, 1, OUT], &[OUT, 4, OUT]], 716, &[13]),
    row(Kernel::FaultTrap, ONE, [&[1, OUT], &[0, OUT]], 719, &[13]),
    row(Kernel::FaultAssert, ONE, [&[1, OUT], &[0, OUT]], 710, &[]),
    row(Kernel::FaultStack, ONE, [&[1 << 14, OUT], &[2, OUT]], 714, &[13]),
    row(Kernel::FaultBadSpace, ONE, [&[1, OUT], &[0, OUT]], 717, &[13]),
    row(Kernel::FaultBadPc, ONE, [&[1 << 40, 0, OUT], &[0, 0, OUT]], 718, &[13]),
    row(Kernel::FaultSharedOob, (1, 1, 64), [&[16 << 20, 0, OUT], &[60, 0, OUT]], 719, &[13]),
    row(Kernel::Empty, (ILLEGAL_THREADS / 1024 + 1, 1024, 0), [&[], &[]], 715, &[13]),
];

/// Launches, waits twice, and allocates: the codes of all four calls.
fn codes(row: &Row, armed: bool) -> Result<[i32; 4], Error> {
    let function = function(row.kernel.1, row.kernel.0)?;
    let out = words(4)?;
    let args = if armed { row.armed } else { row.unarmed };
    let mut args: Vec<u64> = args.iter().map(|&arg| if arg == OUT { out } else { arg }).collect();
    let shape = if armed || row.shape.0 == 1 { row.shape } else { ONE };
    let launched = launch_on(function, shape, null_mut(), &mut args);
    let mut pointer = 0;
    // SAFETY: plain calls, and a valid pointer.
    Ok(unsafe {
        let (first, second) = (cuCtxSynchronize(), cuCtxSynchronize());
        [launched, first, second, cuMemAlloc_v2(&raw mut pointer, 16)]
    })
}

#[test]
fn every_fault_kernel_has_its_code_and_xid() -> Result<(), Error> {
    for row in TABLE {
        let name = row.kernel.0;
        let mut results = [0; 4];
        let xids = with_context(|| {
            results = codes(row, true)?;
            Ok(())
        })?;
        let code = row.code;
        assert_eq!(results, [0, code, code, code], "{name}");
        assert_eq!(xids, row.xids, "{name}");
    }
    Ok(())
}

#[test]
fn unarmed_fault_kernels_have_no_effect() -> Result<(), Error> {
    for row in TABLE {
        let mut results = [-1; 4];
        let xids = with_context(|| {
            results = codes(row, false)?;
            Ok(())
        })?;
        assert_eq!((results, xids.as_slice()), ([0; 4], &[][..]), "{}", row.kernel.0);
    }
    Ok(())
}

#[test]
fn a_new_context_of_the_same_process_works() -> Result<(), Error> {
    with_context(|| {
        let (name, text) = fault(Kernel::FaultTrap);
        let trap = function(text, name)?;
        let out = words(1)?;
        ok(launch_on(trap, ONE, null_mut(), &mut [1, out]))?;
        let mut other: Handle = null_mut();
        assert_eq!(call!(cuCtxSynchronize()), 719);
        ok!(cuCtxCreate_v2(&raw mut other, 0, 0))?;
        ok!(cuCtxSynchronize())?;
        ok!(cuCtxDestroy_v2(other))
    })?;
    Ok(())
}

/// A kernel with that many live registers per thread.
fn many_registers(count: u32) -> String {
    let mut text = ".version 7.0\n.target sm_75\n.address_size 64\n\
                    .visible .entry heavy(.param .u64 out)\n{\n"
        .to_owned();
    text += &format!(".reg .b32 %r<{}>;\n.reg .b64 %rd<2>;\n", count + 1);
    text += "ld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\n";
    for at in 0..count {
        text += &format!("add.s32 %r{}, %r{at}, {at};\n", at + 1);
    }
    for at in 0..count {
        text += &format!("xor.b32 %r0, %r0, %r{};\n", at + 1);
    }
    text + "st.global.u32 [%rd1], %r0;\nret;\n}\n"
}

#[test]
fn api_errors_are_not_sticky() -> Result<(), Error> {
    let xids = with_context(|| {
        let (name, text) = fault(Kernel::Empty);
        let empty = function(text, name)?;
        // A kernel compiled for blocks of 64 threads, and one with so many live registers that an
        // SM holds 64 but not 1024 of its threads.
        let bounded = text.replace("()\n{", "()\n.maxntid 64, 1, 1\n{");
        assert_ne!(bounded, text);
        let bounded = function(&bounded, name)?;
        let heavy = function(&many_registers(250), "heavy")?;
        let out = words(1)?;
        for (kernel, shape, code) in [
            (empty, (1, 0, 0), 1),
            (empty, (0, 32, 0), 1),
            (empty, (1, 2048, 0), 1),
            (bounded, (1, 64, 0), 0),
            (bounded, (1, 65, 0), 701),
            (heavy, (1, 64, 0), 0),
            (heavy, (1, 1024, 0), 701),
        ] {
            let args = &mut [out][..usize::from(kernel == heavy)];
            assert_eq!(launch_on(kernel, shape, null_mut(), args), code, "{shape:?}");
        }
        ok!(cuMemFree_v2(out))?;
        assert_eq!(call!(cuMemFree_v2(out)), 1);
        let mut pointer = 0;
        assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, 1 << 45)), 2);
        ok!(cuCtxSynchronize())?;
        words(1).map(|_| ())
    })?;
    assert_eq!(xids, [] as [u32; 0]);
    Ok(())
}

#[test]
fn a_bounded_hang_ends_without_an_error() -> Result<(), Error> {
    let xids = with_context(|| {
        let (name, text) = fault(Kernel::FaultHang);
        let hang = function(text, name)?;
        let (flag, stamps) = (words(1)?, words(4)?);
        let budget_ns = 2_000_000;
        let mut back = [0u64; 2];
        ok(launch_on(hang, ONE, null_mut(), &mut [flag, budget_ns, stamps]))?;
        ok!(cuCtxSynchronize())?;
        ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), stamps, 16))?;
        let lasted_ns = back[1] - back[0];
        assert!((budget_ns..budget_ns + budget_ns / 100).contains(&lasted_ns), "{lasted_ns}");
        Ok(())
    })?;
    assert_eq!(xids, [] as [u32; 0]);
    Ok(())
}

#[test]
fn a_thread_with_a_destroyed_context_gets_an_error() -> Result<(), Error> {
    let xids = with_context(|| {
        let (mut doomed, mut upper): (Handle, Handle) = (null_mut(), null_mut());
        let (mut popped, mut pointer): (Handle, u64) = (null_mut(), 0);
        let (name, text) = fault(Kernel::FaultHang);
        ok!(cuCtxCreate_v2(&raw mut doomed, 0, 0))?;
        let (flag, stamps) = (words(1)?, words(4)?);
        let hang = function(text, name)?;
        let at_work = [flag, 2_000_000, stamps];
        ok(launch_on(hang, ONE, null_mut(), &mut at_work.clone()))?;
        ok!(cuCtxCreate_v2(&raw mut upper, 0, 0))?;
        ok!(cuCtxDestroy_v2(doomed))?;
        // The context of this thread is unaffected; the one below it on the stack is destroyed.
        ok!(cuCtxSynchronize())?;
        ok!(cuCtxPopCurrent_v2(&raw mut popped))?;
        assert_eq!(popped, upper);
        assert_eq!(call!(cuCtxSynchronize()), 709);
        assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, 16)), 709);
        ok!(cuCtxDestroy_v2(upper))?;
        ok!(cuCtxPopCurrent_v2(&raw mut popped))?;
        // Below is the context that the test began with.
        ok!(cuCtxSynchronize())
    })?;
    assert_eq!(xids, [] as [u32; 0]);
    Ok(())
}

#[test]
fn a_flood_of_printing_ends_without_an_error() -> Result<(), Error> {
    let xids = with_context(|| {
        let (name, text) = fault(Kernel::FaultPrintf);
        let (printf, done) = (function(text, name)?, words(1)?);
        let mut back = 0_u32;
        // The smallest buffer (CU_LIMIT_PRINTF_FIFO_SIZE); most of the text is lost.
        ok!(cuCtxSetLimit(1, 1))?;
        ok(launch_on(printf, (8, 64, 0), null_mut(), &mut [32, done]))?;
        ok!(cuCtxSynchronize())?;
        ok!(cuMemcpyDtoH_v2((&raw mut back).cast(), done, 4))?;
        assert_eq!(back, 1, "the kernel completed");
        Ok(())
    })?;
    assert_eq!(xids, [] as [u32; 0]);
    Ok(())
}
