//! Variables of the user's shell: processes of a run inherit a list alone, and
//! `CUDA_VISIBLE_DEVICES` is the set of devices that gpubench chooses from.

use crate::support::resident::Resident;
use crate::support::{Error, Finished, Lab, TestResult, finish, machine_text};
use gpubench_record::RunRecord;
use gpubench_virtual_gpu::mig;

/// The shortest profile, with plain MPS.
const PROFILE: &str = concat!("mechanisms = [\"mps\"]\n", include_str!("data/short.toml"));

/// Variables that change what is measured where a process inherits them.
const PLANTED: [(&str, &str); 5] = [
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"),
    ("CUDA_VISIBLE_DEVICES", "7"),
    ("CUDA_MPS_PIPE_DIRECTORY", "/nowhere"),
    ("LIBCUDA_LOG_LEVEL", "4"),
    ("NVIDIA_TF32_OVERRIDE", "0"),
];

fn retention(record: &RunRecord) -> Option<f64> {
    let mut rows = record.matrix.iter();
    let row = rows.find(|row| row.mechanism == "mps" && row.sub_axis.as_deref() == Some("sm"))?;
    Some(row.retention.as_ref()?.value)
}

#[test]
fn variables_of_the_shell_change_no_measurement() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    finish(lab.matrix("plain", &[]))?.ended_with(0)?;
    let mut planted = lab.matrix("planted", &[]);
    planted.envs(PLANTED);
    let text = finish(planted)?.ended_with(0)?.text();
    for file in ["samples.parquet", "telemetry.parquet", "latencies.hlog"] {
        let read = |out: &str| std::fs::read(lab.path(out).join(file));
        assert!(read("plain")? == read("planted")?, "{file} differs");
    }
    let (plain, planted) = (lab.record("plain")?, lab.record("planted")?);
    assert!(retention(&plain).is_some_and(|value| value < 0.9));
    assert_eq!(retention(&plain), retention(&planted));
    let mut names = PLANTED.map(|(name, _)| name);
    names.sort_unstable();
    let dropped = &planted.provenance.dropped_variables;
    for name in names {
        assert!(dropped.iter().any(|one| one == name), "{name}: {dropped:?}");
    }
    assert!(text.contains("not inherited: CUDA_MPS_ACTIVE_"), "{text}");
    let kept = &plain.provenance.dropped_variables;
    assert!(!kept.iter().any(|one| names.contains(&one.as_str())));
    Ok(())
}

/// `gpubench` with this allotment, on a device that the environment names.
fn allotted(host: &Resident, value: &str, arguments: &[&str]) -> Result<Finished, Error> {
    let mut command = host.gpubench(arguments);
    command.env("CUDA_VISIBLE_DEVICES", value);
    finish(command)
}

#[test]
fn visible_devices_are_an_allotment() -> TestResult {
    let host = Resident::start(Lab::of_machine(machine_text("hopper")?)?)?;
    for hidden in ["", "-1", "9", "GPU-0", "MIG-1"] {
        let text = allotted(&host, hidden, &["plan"])?.ended_with(3)?.stderr;
        let named = format!("no device: CUDA_VISIBLE_DEVICES=\"{hidden}\" leaves none");
        assert!(text.contains(&named), "{text}");
    }
    let device = host.open()?;
    let machine = device.machine();
    let uuid = machine.uuid();
    for value in ["0", "0,9", &uuid, &uuid[..8]] {
        allotted(&host, value, &["plan", "--device", "0"])?.ended_with(0)?;
    }
    // The GPU of an allotted instance is outside of the allotment.
    let mig = machine.mig.as_ref().ok_or("no MIG")?;
    let slices = mig.profile[0].slices;
    let engine = device.transact(|state, _| {
        mig::set_mode(state, machine, true);
        let instance = mig::create_instance(state, machine, 0, None)?;
        mig::create_engine(state, machine, instance, slices)
    })??;
    let instance = device.shared().read(|state| mig::uuid(state, machine, engine))?;
    let refused = allotted(&host, &instance, &["plan", "--device", "0"])?.ended_with(2)?;
    let line = format!(
        "--device {uuid} is not in CUDA_VISIBLE_DEVICES=\"{instance}\" (accepted: {instance})"
    );
    assert!(refused.stderr.contains(&line), "{}", refused.stderr);
    // An instance of an allotted GPU is inside.
    let inside = allotted(&host, &uuid, &["plan", "--device", &instance])?;
    assert!(!inside.stderr.contains("is not in"), "{}", inside.stderr);
    Ok(())
}
