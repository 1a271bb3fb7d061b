//! `matrix` in wall time, on a virtual GPU that the environment names and that is found like a real
//! one. The checks hold on a busy machine.
#![expect(unsafe_code, reason = "one test calls the C interface of the virtual GPU")]

use std::ffi::{CString, c_void};
use std::path::Path;
use std::process::Child;
use std::ptr::null_mut;

use gpubench_host::device::VirtualGpu;
use gpubench_record::{DeviceKind, Gate, GateState, OutcomeKind};
use gpubench_virtual_gpu::session::TimeMode;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;

use crate::support::{Error, Finished, Lab, TestResult, finish, program, rerun, wait_during};

const SHORT: &str =
    concat!("mechanisms = [\"exclusive\", \"time-slicing\"]\n", include_str!("data/short.toml"));

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

fn clock_under(library: &Path) -> Result<String, Error> {
    let lab = Lab::on("hopper")?.profile(&SHORT.replace("time-slicing", "hami"))?;
    let mut command = lab.matrix("out", &["--hami-lib"]);
    command.arg(library);
    finish(command)?.ended_with(0)?;
    let record = lab.record("out")?;
    let hami = record.mechanisms.iter().find(|row| row.name == "hami");
    let hami = hami.ok_or("no hami")?;
    assert!(hami.proof.iter().all(|proof| proof.holds), "{:?}", hami.proof);
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
    // The same library without the symbol that declares support for virtual time.
    let offsets: Vec<usize> =
        (0..bytes.len() - MARK.len()).filter(|&at| bytes[at..].starts_with(MARK)).collect();
    assert!(!offsets.is_empty());
    for at in offsets {
        bytes[at] = b'x';
    }
    std::fs::write(&library, &bytes)?;
    assert_eq!(clock_under(&library)?, "wall");
    Ok(())
}

#[test]
fn a_virtual_gpu_in_the_environment_is_measured_like_a_real_one() -> TestResult {
    let lab = Lab::on("hopper")?.profile(SHORT)?;
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", "hopper", "--"]);
    let matrix = ["matrix", "--strict", "--profile", "short.toml"];
    command.arg(program()).args(matrix).args(["--out", "out"]);
    // Jitter needs the timer floor of the host.
    command.args(["--axis", "compute/sm,jitter"]);
    let run = finish(command)?;
    let (code, text) = (run.code, run.text());
    assert!(code == Some(0) || code == Some(10), "{code:?}: {text}");
    assert!(text.contains("VIRTUAL GPU"), "{text}");
    let record = lab.record("out")?;
    assert_eq!(record.device.kind, DeviceKind::Virtual);
    assert!(record.device.name.starts_with("Virtual"));
    assert_eq!(record.provenance.clock, "wall");
    assert!(record.complete && record.cells.len() == 30, "{text}");
    for cell in &record.cells {
        let has_reason = cell.outcome.reason.as_ref().is_some_and(|why| !why.is_empty());
        match cell.outcome.outcome {
            OutcomeKind::Measured => assert!(!has_reason, "{cell:?}"),
            OutcomeKind::Inconclusive => assert!(has_reason, "{cell:?}"),
            other => return Err(format!("{}: {other:?}, {:?}", cell.cell.id, cell.outcome).into()),
        }
        // These gates are evaluated.
        for gate in [Gate::Xid, Gate::CpuSteal, Gate::CpuGap] {
            let state = cell.gate_state(&gate);
            assert!(
                matches!(state, Some(GateState::Passed | GateState::Failed)),
                "{gate}: {state:?}"
            );
        }
    }
    // What observing costs is measured where it can cost something.
    let cost = record.calibration.observation_cost.as_ref();
    let cost = cost.ok_or("the cost of observing was not measured")?;
    assert!(cost.observations > 0 && cost.mean_ns > 0, "{cost:?}");
    assert_eq!(cost.ratios.len(), 4, "{cost:?}");
    assert!(cost.ratios.iter().all(|ratio| *ratio > 0.0), "{cost:?}");
    let floor = &record.provenance.timer_floor_ns;
    let of = |name: &str| floor.get(name).copied().ok_or(format!("no {name}: {floor:?}"));
    let (p50, p99, p999, max) = (of("p50")?, of("p99")?, of("p999")?, of("max")?);
    assert!(p50 <= p99 && p99 <= p999 && p999 <= max && max > 0, "{floor:?}");
    Ok(())
}

/// Waits until a contended cell of the run begins.
fn wait_for_a_contended_cell(run: &mut Child, out: &Path) -> TestResult {
    wait_during(run, "a contended cell", || {
        let events = std::fs::read_to_string(out.join("events.jsonl")).unwrap_or_default();
        let last = events.lines().last().unwrap_or_default();
        last.contains("\"cell-began\"") && last.contains("-C-")
    })
}

fn ok(code: i32) -> TestResult {
    if code == 0 { Ok(()) } else { Err(format!("CUresult {code}").into()) }
}

/// Runs [`fault`] in a separate process on this device.
fn culprit(gpu: &VirtualGpu) -> TestResult {
    let mut command = rerun("wall_time::an_xid_and_a_memory_error_spoil_their_cell")?;
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
    // SAFETY: valid pointers, strings and handles; a kernel without parameters.
    unsafe {
        ok(cuInit(0))?;
        ok(cuCtxCreate_v2(&raw mut context, 0, 0))?;
        ok(cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
        ok(cuModuleGetFunction(&raw mut function, module, name.as_ptr()))?;
        let none = null_mut();
        ok(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, none, extra))?;
        assert_eq!(cuCtxSynchronize(), LAUNCH_FAILED);
        // A broken context refuses this call; it ends with the process.
        cuCtxDestroy_v2(context);
    }
    Ok(())
}

#[test]
fn an_xid_and_a_memory_error_spoil_their_cell() -> TestResult {
    if std::env::var_os(CULPRIT).is_some() {
        return fault();
    }
    let errors = "\n[defects]\nfault_ecc_corrected = 3\nfault_ecc_uncorrected = 1\n";
    let lab = Lab::changed("turing", &[], errors)?.profile(SHORT)?;
    let gpu = VirtualGpu::start(lab.machine(), TimeMode::Wall, 1)?;
    let mut command = lab.gpubench(["matrix", "--profile", "short.toml", "--out", "out"]);
    let mut run = command.envs(gpu.environment()).spawn()?;
    let contended = wait_for_a_contended_cell(&mut run, &lab.path("out"));
    let faulted = contended.and_then(|()| culprit(&gpu));
    let run = Finished::from(run.wait_with_output()?);
    faulted.map_err(|error| format!("{error}: {}", run.text()))?;
    run.ended_with(0)?;
    let record = lab.record("out")?;
    let in_state = |gate: &Gate, state| -> Vec<&gpubench_record::CellResult> {
        let cells = record.cells.iter();
        cells.filter(|cell| cell.gate_state(gate) == Some(state)).collect()
    };
    let failed = in_state(&Gate::Xid, GateState::Failed);
    // The fault can happen between two cells.
    assert!(matches!(failed.len(), 1 | 2), "{failed:#?}");
    for cell in &failed {
        assert_eq!(cell.outcome.outcome, OutcomeKind::Inconclusive);
        let reason = cell.outcome.reason.clone().unwrap_or_default();
        let found = "xid: the device reported Xid: 13";
        assert!(reason.contains(found), "{reason}");
        let named = reason.contains("of this cell or of ");
        assert_eq!(named, failed.len() == 2, "{reason}");
    }
    let clean = in_state(&Gate::Xid, GateState::Passed);
    assert_eq!(clean.len(), record.cells.len() - failed.len());
    for (gate, detail) in [
        (Gate::Ecc, "0 uncorrected errors before the cell, 1 after it"),
        (Gate::EccCorrected, "0 corrected errors before the cell, 3 after it"),
    ] {
        let failed = in_state(&gate, GateState::Failed);
        assert_eq!(failed.len(), 1, "{gate}: {failed:#?}");
        let found = failed[0].gate(&gate).map(|one| one.detail.as_str());
        assert_eq!(found, Some(detail));
        let passed = in_state(&gate, GateState::Passed);
        assert_eq!(passed.len(), record.cells.len() - 1, "{gate}");
    }
    Ok(())
}
