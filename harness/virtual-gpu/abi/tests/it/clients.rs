//! What programs of others do and gpubench does not: launches that never end or are too large, and
//! calls that are absent. Each has its code, and one line on the error stream.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::process::Stdio;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::session::{ENV, SAMPLE_ENV, Session, TimeMode};

use crate::driver_support::{call, launch};
use crate::nvml_support::{Error, alloc, context, function, ok, process_in_role, quiet};

/// Marks the process that runs the body of a test.
const CLIENT: &str = "CLIENT_OF_TEST";

/// Runs the body in a process with a `turing` in wall time, and returns what it wrote on its error
/// stream. In that process it returns nothing.
fn error_stream_of(
    test: &str,
    body: impl FnOnce() -> Result<(), Error>,
) -> Result<Option<Vec<String>>, Error> {
    if std::env::var_os(CLIENT).is_some() {
        body()?;
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    Session::new(TimeMode::Wall, 1).create(folder.path(), &quiet("turing")?)?;
    Ok(Some(run(test, folder.path(), "0")?))
}

/// Runs a test as a client of a device that reads results (`sample` is 0) or none (1).
fn run(test: &str, folder: &Path, sample: &str) -> Result<Vec<String>, Error> {
    let done = process_in_role(test, "client")?
        .env(ENV, folder)
        .env(CLIENT, "1")
        .env(SAMPLE_ENV, sample)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{text}");
    let lines = text.lines().filter(|line| line.starts_with("virtual GPU: "));
    Ok(lines.map(str::to_owned).collect())
}

const WAIT: &str = ".version 7.0\n.target sm_70\n.address_size 64
.visible .entry wait_for_flag(.param .u64 flag) {
    .reg .pred %p1; .reg .b32 %r1; .reg .b64 %rd1;
    ld.param.u64 %rd1, [flag];
WAIT:
    ld.volatile.global.u32 %r1, [%rd1+8];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra WAIT;
    ret;
}";

#[test]
fn a_launch_that_never_ends_is_named_with_what_it_waits_for() -> Result<(), Error> {
    let lines = error_stream_of(test_name!(), || {
        context()?;
        let kernel = function(WAIT, "wait_for_flag")?;
        let flag = alloc(64)?;
        let begun = Instant::now();
        ok!(cuMemsetD32_v2(flag, 0, 16))?;
        ok(launch(kernel, 4, 32, &mut [flag]))?;
        assert_eq!(call!(cuCtxSynchronize()), 702);
        // The budget of instructions takes longer.
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        Ok(())
    })?;
    let Some(lines) = lines else { return Ok(()) };
    let [line] = &lines[..] else { return Err(format!("{lines:?}").into()) };
    let expected = "virtual GPU: wait_for_flag ends with CUDA_ERROR_LAUNCH_TIMEOUT: no running \
                    thread can end a loop that polls 0x";
    assert!(line.starts_with(expected), "{line}");
    assert!(line.contains("08 in wait_for_flag at line 8, block [0, 0, 0]"), "{line}");
    Ok(())
}

/// Each thread adds `n` products and stores the sum.
const LONG: &str = ".version 7.0\n.target sm_70\n.address_size 64
.visible .entry long_sum(.param .u64 out, .param .u32 n) {
    .reg .pred %p1; .reg .b32 %r<8>; .reg .f32 %f1; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
    mad.lo.u32 %r5, %r3, %r4, %r2;
    mov.u32 %r6, 0; mov.f32 %f1, 0f00000000;
MORE:
    fma.rn.f32 %f1, %f1, 0f3F000000, 0f3F800000;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r1; @%p1 bra MORE;
    mul.wide.u32 %rd2, %r5, 4; add.u64 %rd3, %rd1, %rd2; st.global.f32 [%rd3], %f1;
    ret;
}";

#[test]
fn a_launch_too_large_for_the_host_is_sampled_in_wall_time() -> Result<(), Error> {
    const BLOCKS: u32 = 1 << 16;
    let lines = error_stream_of(test_name!(), || {
        context()?;
        let kernel = function(LONG, "long_sum")?;
        let out = alloc(4 * 128 * BLOCKS as usize)?;
        let mut word = 0_f32;
        let place = (&raw mut word).cast::<c_void>();
        // A small one is executed in full.
        ok(launch(kernel, 4, 128, &mut [out, 100]))?;
        ok!(cuMemcpyDtoH_v2(place, out, 4))?;
        assert_eq!(word, 2.0);
        let begun = Instant::now();
        for _ in 0..2 {
            ok(launch(kernel, BLOCKS, 128, &mut [out, 2000]))?;
        }
        ok!(cuCtxSynchronize())?;
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        assert_eq!(call!(cuMemcpyDtoH_v2(place, out, 4)), 801, "it has no results");
        Ok(())
    })?;
    let Some(lines) = lines else { return Ok(()) };
    let [sampled, read] = &lines[..] else { return Err(format!("{lines:?}").into()) };
    let expected = "virtual GPU: long_sum is too large to execute in full";
    assert!(sampled.starts_with(expected), "{sampled}");
    assert!(read.starts_with("virtual GPU: read of 0x"), "{read}");
    Ok(())
}

/// The costs of sampled launches are shared by all processes of a device.
#[test]
fn a_process_that_reads_results_finds_no_sample_of_one_that_reads_none() -> Result<(), Error> {
    let test = test_name!();
    if std::env::var_os(CLIENT).is_some() {
        context()?;
        let out = alloc(4 * 128 * 64)?;
        let kernel = function(LONG, "long_sum")?;
        ok(launch(kernel, 64, 128, &mut [out, 2000]))?;
        let mut word = 0_f32;
        // SAMPLE_ENV is 1 in the process that reads no results.
        let is_sampled = std::env::var(SAMPLE_ENV)? == "1";
        ok!(cuMemcpyDtoH_v2((&raw mut word).cast(), out, 4))?;
        // A stand-in is not what the kernel computes.
        assert_eq!(word == 2.0, !is_sampled, "{word}");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    Session::new(TimeMode::Wall, 1).create(folder.path(), &quiet("turing")?)?;
    run(test, folder.path(), "1")?;
    assert_eq!(run(test, folder.path(), "0")?, [""; 0]);
    Ok(())
}

#[test]
fn an_absent_call_is_named_once() -> Result<(), Error> {
    let find = |name: &CStr| {
        let mut found: *mut c_void = null_mut();
        let code = call!(cuGetProcAddress_v2(name.as_ptr(), &raw mut found, 13_000, 0, null_mut()));
        (code, found)
    };
    let lines = error_stream_of(test_name!(), || {
        context()?;
        for _ in 0..3 {
            let (code, found) = find(c"cuSurfObjectCreate");
            ok(code)?;
            // SAFETY: a stub takes no argument, and an entry point that is none would fail here.
            let stub: extern "C" fn() -> i32 = unsafe { std::mem::transmute(found) };
            assert_eq!(stub(), 801);
            assert_eq!(find(c"cuNothing"), (500, null_mut()));
        }
        Ok(())
    })?;
    let Some(lines) = lines else { return Ok(()) };
    let expected = [
        "virtual GPU: cuSurfObjectCreate is not implemented: it answers CUDA_ERROR_NOT_SUPPORTED",
        "virtual GPU: cuGetProcAddress: cuNothing is not known (CUDA 13000)",
    ];
    assert_eq!(lines, expected);
    Ok(())
}
