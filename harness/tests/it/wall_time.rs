//! The main job on the wall clock: on a virtual GPU that the environment names, found like a real
//! one. Only what holds on a busy machine is asked for.
#![expect(
    unsafe_code,
    reason = "one test is a program of the virtual GPU itself, through its C interface"
)]

use std::ffi::{CString, c_void};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use crate::support::{Error, TestResult, binary, finish, program, rerun};
use gpubench::device::VirtualGpu;
use gpubench_record::{DeviceKind, Gate, GateState, OutcomeKind, RunRecord};
use gpubench_virtual_gpu::session::TimeMode;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;

const SHORT: &str = concat!(
    "mechanisms = [\"exclusive\", \"time-slicing\"]\n",
    include_str!("data/short.toml")
);

/// A kernel that does nothing but fail.
const TRAP: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry fail()
{
    trap;
    ret;
}
";

/// Set in the process that breaks a context.
const CULPRIT: &str = "GPUBENCH_TEST_CULPRIT";
/// The error of a kernel that trapped, as `cuda.h` numbers it.
const LAUNCH_FAILED: i32 = 719;

fn record(dir: &Path) -> Result<RunRecord, Error> {
    let bytes = std::fs::read(dir.join("record.json"))?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn said(done: &Output) -> String {
    let both = [&done.stdout[..], &done.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The clock of a run under a library of HAMi's that somebody brings along.
fn clock_under(library: &Path) -> Result<String, Error> {
    let dir = tempfile::tempdir()?;
    let (profile, out) = (dir.path().join("short.toml"), dir.path().join("out"));
    std::fs::write(&profile, SHORT.replace("time-slicing", "hami"))?;
    let done = binary()
        .args(["matrix", "--device", "virtual", "--profile"])
        .args([profile.as_os_str(), "--hami-lib".as_ref()])
        .args([library.as_os_str(), "--out".as_ref(), out.as_os_str()])
        .stdin(Stdio::null())
        .output()?;
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let record = record(&out)?;
    let hami = record.mechanisms.iter().find(|row| row.name == "hami");
    let hami = hami.ok_or("no hami")?;
    assert!(
        hami.proof.iter().all(|proof| proof.holds),
        "{:?}",
        hami.proof
    );
    Ok(record.provenance.clock)
}

#[test]
fn a_library_with_threads_of_its_own_is_measured_on_the_wall_clock() -> TestResult {
    const MARK: &[u8] = b"gpubench_vt_preloaded";
    let dir = tempfile::tempdir()?;
    let library = dir.path().join("libvgpu.so");
    let gpu = VirtualGpu::start("hopper", TimeMode::Wall, 1)?;
    let stand_in = gpu.hami_library().ok_or("hopper has no stand-in")?;
    let mut bytes = std::fs::read(stand_in)?;
    std::fs::write(&library, &bytes)?;
    assert_eq!(clock_under(&library)?, "virtual");
    // The same library, but that it does not say which clocks it knows.
    let places: Vec<usize> = (0..bytes.len() - MARK.len())
        .filter(|&at| bytes[at..].starts_with(MARK))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] = b'x';
    }
    std::fs::write(&library, &bytes)?;
    assert_eq!(clock_under(&library)?, "wall");
    Ok(())
}

#[test]
fn a_virtual_gpu_in_the_environment_is_measured_like_a_real_one() -> TestResult {
    let dir = tempfile::tempdir()?;
    let (profile, out) = (dir.path().join("short.toml"), dir.path().join("out"));
    std::fs::write(&profile, SHORT)?;
    let program = program();
    let done = Command::new(program)
        .args(["virtual-gpu", "exec", "--"])
        .arg(program)
        .args(["matrix", "--strict"])
        .args(["--profile".as_ref(), profile.as_os_str()])
        .args(["--out".as_ref(), out.as_os_str()])
        .stdin(Stdio::null())
        .output()?;
    let code = done.status.code();
    assert!(
        code == Some(0) || code == Some(10),
        "{code:?}: {}",
        said(&done)
    );
    assert!(said(&done).contains("VIRTUAL GPU"), "{}", said(&done));
    let record = record(&out)?;
    assert_eq!(record.device.kind, DeviceKind::Virtual);
    assert!(record.device.name.starts_with("Virtual"));
    assert_eq!(record.provenance.clock, "wall");
    assert!(
        record.complete && record.cells.len() == 30,
        "{}",
        said(&done)
    );
    for cell in &record.cells {
        let told = cell
            .outcome
            .reason
            .as_ref()
            .is_some_and(|why| !why.is_empty());
        match cell.outcome.outcome {
            OutcomeKind::Measured => assert!(!told, "{cell:?}"),
            OutcomeKind::Inconclusive => assert!(told, "{cell:?}"),
            other => return Err(format!("{}: {other:?}, {:?}", cell.cell.id, cell.outcome).into()),
        }
        // Both are looked at, whatever is found.
        for gate in [Gate::Xid, Gate::CpuSteal] {
            let state = cell.gate_state(&gate);
            assert!(
                matches!(state, Some(GateState::Passed | GateState::Failed)),
                "{gate}: {state:?}"
            );
        }
    }
    let floor = &record.provenance.timer_floor_ns;
    let of = |name: &str| {
        floor
            .get(name)
            .copied()
            .ok_or(format!("no {name}: {floor:?}"))
    };
    let (p50, p99, p999, max) = (of("p50")?, of("p99")?, of("p999")?, of("max")?);
    assert!(
        p50 <= p99 && p99 <= p999 && p999 <= max && max > 0,
        "{floor:?}"
    );
    Ok(())
}

/// Waits until the run is in the middle of a contended cell.
fn wait_for_a_contended_cell(out: &Path) -> TestResult {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(out.join("events.jsonl")).unwrap_or_default();
        let last = text.lines().last().unwrap_or_default();
        if last.contains("\"cell-began\"") && last.contains("-C-") {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(120) {
            return Err(format!("no contended cell began: {last}").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ok(code: i32) -> TestResult {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("CUresult {code}").into())
    }
}

/// Runs [`fault`] in a process of its own on this device.
fn culprit(gpu: &VirtualGpu) -> TestResult {
    let mut command = rerun("wall_time::an_xid_spoils_its_cell_and_no_other")?;
    command.env(CULPRIT, "1").envs(gpu.environment());
    finish(command)?.ended_with(0)?;
    Ok(())
}

/// Breaks a context on the device that the environment names.
fn fault() -> TestResult {
    let (mut context, mut module, mut function): (Handle, Handle, Handle) =
        (null_mut(), null_mut(), null_mut());
    let (text, name) = (CString::new(TRAP)?, CString::new("fail")?);
    let (stream, extra): (Handle, *mut *mut c_void) = (null_mut(), null_mut());
    // SAFETY: valid places, strings and handles; a kernel without parameters.
    unsafe {
        ok(cuInit(0))?;
        ok(cuCtxCreate_v2(&raw mut context, 0, 0))?;
        ok(cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
        ok(cuModuleGetFunction(
            &raw mut function,
            module,
            name.as_ptr(),
        ))?;
        let none = null_mut();
        ok(cuLaunchKernel(
            function, 1, 1, 1, 32, 1, 1, 0, stream, none, extra,
        ))?;
        assert_eq!(cuCtxSynchronize(), LAUNCH_FAILED);
        // A broken context refuses this too; it goes with the process.
        cuCtxDestroy_v2(context);
    }
    Ok(())
}

#[test]
fn an_xid_spoils_its_cell_and_no_other() -> TestResult {
    if std::env::var_os(CULPRIT).is_some() {
        return fault();
    }
    let dir = tempfile::tempdir()?;
    let (profile, out) = (dir.path().join("short.toml"), dir.path().join("out"));
    std::fs::write(&profile, SHORT)?;
    let gpu = VirtualGpu::start("turing", TimeMode::Wall, 1)?;
    let run = binary()
        .args(["matrix".as_ref(), "--profile".as_ref(), profile.as_os_str()])
        .args(["--out".as_ref(), out.as_os_str()])
        .envs(gpu.environment())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let faulted = wait_for_a_contended_cell(&out).and_then(|()| culprit(&gpu));
    let done = run.wait_with_output()?;
    faulted.map_err(|error| format!("{error}: {}", said(&done)))?;
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let record = record(&out)?;
    let state = |cell: &gpubench_record::CellResult| cell.gate_state(&Gate::Xid);
    let spoilt: Vec<_> = record
        .cells
        .iter()
        .filter(|cell| state(cell) == Some(GateState::Failed))
        .collect();
    assert_eq!(spoilt.len(), 1, "{spoilt:#?}");
    assert_eq!(spoilt[0].outcome.outcome, OutcomeKind::Inconclusive);
    let reason = spoilt[0].outcome.reason.clone().unwrap_or_default();
    assert!(
        reason.contains("xid: the device reported Xid: 13"),
        "{reason}"
    );
    let clean = record
        .cells
        .iter()
        .filter(|cell| state(cell) == Some(GateState::Passed));
    assert_eq!(clean.count(), record.cells.len() - 1);
    Ok(())
}
